"""Whether two operands share memory; the answer is exact, as views of one buffer may lie between each other's lines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gemmgen.problem.matrix import Matrix
from gemmgen.support.errors import require

MOST_LINES = 1 << 24  # that are looked at


def meet(written: Matrix, other: Matrix, distance: int) -> bool:
    """Whether `other`, which begins `distance` bytes behind `written`, shares a byte with it.

    Lines of `written` must not overlap each other. Raises InvalidInput for operands with too many lines.
    """
    mine, length = _lines(written)
    theirs, other_length = _lines(other)
    theirs += distance
    mine.sort()
    before = np.searchsorted(mine, theirs + other_length) - 1  # the last of mine that begins before the end of each
    return bool((mine[before[before >= 0]] + length > theirs[before >= 0]).any())


def _lines(matrix: Matrix) -> tuple[npt.NDArray[np.int64], int]:
    """(the starts of lines in bytes from the first, their length). Lines without gaps count as one."""
    one = matrix.stored
    batch, lines, length = one.batch or 1, one.lines, one.line_length
    if lines == 1 or one.ld == length:
        lines, length = 1, one.span
    require(batch * lines <= MOST_LINES, f"operands lie in one buffer: {batch * lines} lines are too many to compare")
    starts = np.arange(batch)[:, None] * one.stride + np.arange(lines) * one.ld
    return starts.ravel() * one.dtype.size, length * one.dtype.size
