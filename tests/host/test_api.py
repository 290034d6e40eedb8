"""What gemmgen's functions refuse before they do anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import gemmgen
from gemmgen import api
from gemmgen.support.errors import InvalidInput

PROBLEM = gemmgen.Problem(64, 64, 64)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gemmgen.tune(PROBLEM, budget=0), "budget = 0: at least 1 is needed"),
        (lambda: gemmgen.tune(PROBLEM, budget=-1), "budget = -1: at least 1 is needed"),
        (lambda: api.study("ladder", PROBLEM, budget=0), "budget = 0"),
        (lambda: api.check_model(budget=0), "budget = 0"),
        (lambda: gemmgen.verify(gemmgen.generate(PROBLEM), examples=0), "examples = 0: at least 1 is needed"),
    ],
)
def test_counts_start_at_one(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        call()
