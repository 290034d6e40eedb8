"""The executors' layout of a batch of pointers: each matrix in a slot of its own, in random order.

Operands hold the matrices of a batch one behind the other. A kernel with pointers instead sees matrices that lie apart,
in an order other than that of its products, each aligned as promised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix

Elements = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scattered:
    """The matrices of one operand.

    matrix  the slots as a batch, in the order of memory: `stride` elements from one to the next
    slots   the slot of each product's matrix
    """

    matrix: Matrix
    slots: Numbers

    @property
    def offsets(self) -> Numbers:
        """Elements from the first slot to each product's matrix, to which its pointer points."""
        return self.slots * self.matrix.stride

    def put(self, flat: Elements, values: Elements) -> None:
        """Write each product's elements, shaped (batch, rows, cols), to its slot in `flat`."""
        self.matrix.view(flat)[self.slots] = values

    def take(self, flat: Elements) -> Elements:
        """Return each product's elements, shaped (batch, rows, cols)."""
        taken: Elements = self.matrix.view(flat)[self.slots]
        return taken

    def place(self, offset: int) -> str:
        """The place `offset` elements from the first slot, for a person: "row 3, column 5 of matrix 7"."""
        slot, within = divmod(offset, self.matrix.stride)
        product = int(np.flatnonzero(self.slots == slot)[0])
        if within >= self.matrix.span:
            return f"{within - self.matrix.span} elements after the end of matrix {product}"
        return f"{replace(self.matrix, batch=None).place(within)} of matrix {product}"


def one_after_another(case: Case) -> tuple[Scattered, Scattered, Scattered]:
    """The matrices A, B and C of `case` in order, with only the gaps that their distances leave."""

    def slots(matrix: Matrix) -> Scattered:
        count = matrix.stored.batch or 1
        stride = matrix.lines * matrix.ld
        return Scattered(replace(matrix, batch=count, stride=stride, different=None), np.arange(case.batch) % count)

    return slots(case.a), slots(case.b), slots(case.c)


def scatter(case: Case, gap: int, unit: int, seed: int) -> tuple[Scattered, Scattered, Scattered]:
    """Slots for the matrices A, B and C of `case`, at least `gap` bytes apart, in random orders by the seed.

    Each slot begins a multiple of `unit` bytes, at least the widest access, after the first: it has the same alignment,
    and no more. A matrix that products share has one slot.
    """
    rng = np.random.default_rng(seed)

    def scattered(matrix: Matrix) -> Scattered:
        count = matrix.stored.batch or 1
        size = matrix.dtype.size
        pitch = -(-(matrix.span * size + gap) // unit) * unit // size
        slots = rng.permutation(count)[np.arange(case.batch) % count]
        return Scattered(replace(matrix, batch=count, stride=pitch, different=None), slots)

    return scattered(case.a), scattered(case.b), scattered(case.c)
