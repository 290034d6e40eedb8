"""Which elements of C a launch writes, told by poison: also where what it writes happens to be the poison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.run.executor import Operands
from gemmgen.verification.checks import POISON, elements_written
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation


class Writer:
    """A kernel that stores one byte in the first row of C, and leaves the others alone."""

    def __init__(self, byte: int) -> None:
        self._byte = byte

    def run(self, case: Any, operands: Operands, **_: Any) -> Any:
        result = operands.c.copy()
        case.c.view(result.view(np.uint8))[0] = self._byte
        return result


@pytest.mark.parametrize("byte", [0, POISON, POISON ^ 0xFF, 255])
def test_a_byte_that_was_there_counts_as_written(byte: int) -> None:
    case = Problem(3, 4, 2, types=Types.parse("e5m2")).case()
    situation = Situation(case, "exact", 0)
    written = elements_written(Writer(byte), situation, make_operands(situation), [0])  # type: ignore[arg-type]
    assert written.tolist() == [[True] * 4, [False] * 4, [False] * 4]
