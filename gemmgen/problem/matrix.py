"""How matrices lie in memory: storage orders, leading dimensions, and the strides or pointers of a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.support.errors import require

Order = Literal["r", "c"]  # r row-major, c column-major
ORDERS: tuple[Order, Order] = ("r", "c")

Scalar = TypeVar("Scalar", bound="np.generic[Any]")


@dataclass(frozen=True)
class Layout:
    """Storage order of A and of B; C is always row-major. Written as two letters, A then B."""

    a: Order = "r"
    b: Order = "r"

    def __post_init__(self) -> None:
        for name, order in (("A", self.a), ("B", self.b)):
            require(order in ORDERS, f"unknown order {order!r} of {name}: known are {', '.join(ORDERS)}")

    @classmethod
    def parse(cls, text: str) -> Layout:
        """`rr`, `rc`, `cr` or `cc`; raises InvalidInput otherwise."""
        known = {a + b: cls(a, b) for a in ORDERS for b in ORDERS}
        require(text in known, f"unknown layout {text!r}: known are {', '.join(known)} (A, then B)")
        return known[text]

    def __str__(self) -> str:
        return self.a + self.b


ROW_MAJOR = Layout()


@dataclass(frozen=True)
class Matrix:
    """A matrix as it lies in memory, or a batch of them: `rows` x `cols` elements, `ld` elements between lines.

    A line is a row (order r) or a column (order c). `batch` matrices start `stride` elements apart; None is one
    matrix that is in no batch. A stride of 0 is the same matrix again and again. Of `different` ones, as pointers can
    name, products take one after the other, and then from the first again.
    """

    rows: int
    cols: int
    ld: int
    order: Order
    batch: int | None = None
    stride: int = 0
    different: int | None = None
    dtype: DType = DType.F32

    @property
    def lines(self) -> int:
        return self.rows if self.order == "r" else self.cols

    @property
    def line_length(self) -> int:
        return self.cols if self.order == "r" else self.rows

    @property
    def elements(self) -> int:
        """Elements from the first to the last one, padding between lines and matrices included."""
        return 0 if self.span == 0 else self._last * self.stride + self.span

    @property
    def span(self) -> int:
        """The same of one matrix."""
        return 0 if self.rows == 0 or self.cols == 0 else (self.lines - 1) * self.ld + self.line_length

    @property
    def overlaps(self) -> bool:
        """Whether two matrices of the batch may share an element: neither does one end before the next begins, nor do
        the lines of all lie between two lines of the first."""
        apart = self.stride >= self.span
        between = self.stride >= self.line_length and (self._last * self.stride + self.line_length) <= self.ld
        return self._last > 0 and not apart and not between

    @property
    def _last(self) -> int:
        """The number of the last matrix, from 0."""
        return (self.different or self.batch or 1) - 1

    @property
    def bytes(self) -> int:
        """What `elements` take."""
        return self.dtype.bytes(self.elements)

    @property
    def in_bytes(self) -> Matrix:
        """Itself, or where elements share bytes these, in one line."""
        return self if self.dtype.storage_bits >= 8 else Matrix(1, self.bytes, self.bytes, "r", dtype=DType.U8)

    @property
    def least_bytes(self) -> int:
        """The same without padding."""
        return self.dtype.bytes(self.least_elements)

    @property
    def least_elements(self) -> int:
        """`elements` without padding."""
        return (self.batch or 1) * self.rows * self.cols

    @property
    def stored(self) -> Matrix:
        """Every element once: one matrix, or the `different` ones, where the batch repeats them."""
        if self.different is not None:
            return replace(self, batch=self.different, different=None)
        return replace(self, batch=None) if self.stride == 0 else self

    def view(self, flat: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """The elements inside `flat` (at least `elements` long), without padding and without a copy.

        Shaped (rows, cols), and (batch, rows, cols) in a batch. A copy where there are `different` ones.
        """
        if self.different is not None:
            assert self.batch is not None
            return self.stored.view(flat)[np.arange(self.batch) % self.different]
        step, kind = flat.itemsize, flat.dtype
        if kind.kind not in "biuf" or kind.name.startswith("float8"):  # as_strided knows none of ml_dtypes' types
            return self.view(flat.view(f"u{step}")).view(kind)
        shape, strides = (self.rows, self.cols), (self.ld * step, step)
        if self.order == "c":
            strides = strides[::-1]
        if self.batch is None:
            return np.lib.stride_tricks.as_strided(flat, shape, strides)
        return np.lib.stride_tricks.as_strided(flat, (self.batch, *shape), (self.stride * step, *strides))

    def place(self, offset: int) -> str:
        """The place `offset` elements from the first one, for a person: "row 3, column 5", with the batch's matrix."""
        if self.stride < self.span:  # lines of the other matrices lie between its own, or it is the only one
            line, beside = divmod(offset, self.ld)
            matrix, along = divmod(beside, self.stride) if self.stride else (0, beside)
        else:
            matrix, within = divmod(offset, self.stride) if self.stride else (0, offset)
            line, along = divmod(within, self.ld)
        row, column = (line, along) if self.order == "r" else (along, line)
        return f"row {row}, column {column}" + ("" if self.batch is None else f" of matrix {matrix}")
