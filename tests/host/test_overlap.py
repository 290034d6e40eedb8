"""Operands of one buffer share an element, or do not: beside numpy's exact answer for the same views."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.arrays import checked
from gemmgen.arrays.checked import meet
from gemmgen.problem.dtype import DType
from gemmgen.problem.matrix import Matrix
from gemmgen.support.errors import InvalidInput

SIZES, STEPS = st.integers(1, 5), st.integers(0, 30)


@st.composite
def matrices(draw: st.DrawFn, written: bool) -> Matrix:
    """Any of the kinds that a launch has; lines of one that is written do not overlap."""
    rows, cols, order = draw(SIZES), draw(SIZES), draw(st.sampled_from("rc"))
    line, lines = (cols, rows) if order == "r" else (rows, cols)
    ld = line + draw(STEPS)
    span = (lines - 1) * ld + line
    batch = draw(st.none() | SIZES)
    stride = 0 if batch is None else span + draw(STEPS) if written else draw(STEPS)
    dtype = draw(st.sampled_from([DType.F32, DType.BF16, DType.S8]))
    return Matrix(rows, cols, ld, "r" if order == "r" else "c", batch, stride, dtype=dtype)


@given(matrices(written=True), matrices(written=False), st.integers(-200, 200))
def test_operands_meet_where_numpy_says_so(written: Matrix, other: Matrix, distance: int) -> None:
    memory = np.zeros(1 << 14, np.uint8)
    middle = memory.size // 2

    def view(matrix: Matrix, at: int) -> np.ndarray:
        bits = matrix.dtype.bits
        return matrix.view(memory[at : at + matrix.bytes].view(bits))

    distance *= other.dtype.size
    assert meet(written, other, distance) == np.shares_memory(view(written, middle), view(other, middle + distance))


def test_more_lines_than_can_be_compared_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked, "MOST_LINES", 20)
    lines = Matrix(21, 3, 8, "r")
    with pytest.raises(InvalidInput, match="operands lie in one buffer: 21 lines are too many to compare"):
        meet(lines, Matrix(1, 3, 3, "r"), 12)
    assert meet(Matrix(21, 8, 8, "r"), Matrix(1, 3, 3, "r"), 12), "lines without a gap are one"
