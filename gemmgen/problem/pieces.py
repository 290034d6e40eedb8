"""Operands of f32 as sums of narrower numbers, whose products tensor cores make.

As the template prepare/split.cu does it, which this shares no line with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType

Floats = npt.NDArray[Any]


@dataclass(frozen=True)
class Pieces:
    """Into what numbers of f32 are split.

    count  of pieces, each the nearest `dtype` to what those before it leave
    pairs  which pieces of A and B are multiplied, in the order in which some of K are summed: small products first,
           while the sum is small, too
    """

    dtype: DType
    count: int
    pairs: tuple[tuple[int, int], ...]

    def split(self, values: Floats) -> Floats:
        """The pieces of `values`, f32s: all first ones, then the second ones. They saturate.

        The first one is never 0 where the number is not, so that Inf times it is Inf: of a smaller one it is the
        smallest, and the next one takes that back. Inf and NaN are in the last piece, which meets the other operand's
        first alone; their first piece is the smallest number, with their sign.
        """
        exact, dtype = values.astype(np.float64), self.dtype
        finite = np.isfinite(exact)
        first = dtype.nearest(np.clip(np.where(finite, exact, 0.0), -dtype.largest, dtype.largest))
        first = np.where((first == 0) & (exact != 0), np.copysign(dtype.smallest, exact), first)
        found, rest = [first], np.where(finite, exact - first, 0.0)
        for _ in range(1, self.count):
            found.append(dtype.nearest(rest))
            rest = rest - found[-1]
        found[-1] = np.where(finite, found[-1], exact)
        return dtype.encode(np.stack(found))

    def join(self, pieces: Floats) -> Floats:
        """What `split` made them of, but for bits of numbers below 2^-110, as f32s."""
        with np.errstate(invalid="ignore"):  # a signalling NaN
            joined: Floats = self.dtype.decode(pieces).sum(axis=0).astype(np.float32)
        return joined


# All pairs but those below 2^-24 of a product.
BF16X6 = Pieces(DType.BF16, 3, ((1, 1), (0, 2), (2, 0), (0, 1), (1, 0), (0, 0)))
