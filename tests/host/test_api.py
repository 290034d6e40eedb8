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


def test_the_package_offers_what_it_says() -> None:
    assert all(getattr(gemmgen, name).__name__ == name for name in gemmgen.__all__)
    assert sorted(gemmgen.__all__) == sorted(name for names in gemmgen.HOMES.values() for name in names)
    assert set(gemmgen.__all__) <= set(dir(gemmgen)) and gemmgen.__version__
    with pytest.raises(AttributeError, match="module 'gemmgen' has no attribute 'Shape'"):
        gemmgen.Shape  # noqa: B018
