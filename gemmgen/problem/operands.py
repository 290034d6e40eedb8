"""What an epilogue may name: the accumulators, sums of A and B, scalars, C, and tensors of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Along = Literal["", "m", "n", "mn"]

SCALARS = ("alpha", "beta")
ACCUMULATORS = ("acc", "acc2", "acc3", "acc4")  # of A and each of as many matrices that lie side by side in B
ACC, C = ACCUMULATORS[0], "C"
SUMS = ("row_sum", "column_sum")  # of A and B, which kernels compute beside acc
DEPTH = "K"


@dataclass(frozen=True)
class Operand:
    """A tensor that an epilogue may name.

    along    "m": one element a row of C, "n": one a column, "mn": a matrix as large as C, row-major; "": a single one
    written  the kernel writes it, by a call whose argument goes on as the call's value. A matrix takes the argument and
             lies as C does. A vector takes the largest magnitude of its row or column, NaN where there is one: each
             product of a batch has one of its own, behind the last's, and the launch sets them to 0 before
    summed   it is of the type of the sums, rather than of alpha's
    """

    name: str
    along: Along
    meaning: str
    written: bool = False
    summed: bool = False

    @property
    def is_matrix(self) -> bool:
        return self.along == "mn"

    @property
    def is_amax(self) -> bool:
        """Whether it is the largest magnitude of a row or a column."""
        return self.written and not self.is_matrix

    @property
    def is_of_b(self) -> bool:
        """Whether it goes with a matrix B, so that groups, which have one each, have one of it each: what is read by
        columns, and factors and zero points of B."""
        return not self.written and (self.along == "n" or self.name in ("scale_b", "zero_b"))

    @property
    def size(self) -> str | None:
        """Of a vector: M or N, its elements; a single one has none."""
        return self.along.upper() or None

    @property
    def whose(self) -> str:
        """What of C a vector's element, or the single one, is for."""
        return {"m": "one a row of C", "n": "one a column of C"}.get(self.along, "for all of C")

    @property
    def note(self) -> str:
        """The same for a header, where it says what an output holds."""
        largest = f"the largest |x| of its {self.name}(x), NaN where one is NaN"
        return f"{self.whose}: {largest}" if self.is_amax else self.whose

    @property
    def ld(self) -> str:
        """The name of its leading dimension, which matrices have: one of all that are read, and of all written."""
        return "ldc" if self.written else "ld_residual"

    @property
    def stride(self) -> str:
        """The name of a matrix' distance to the next of a batch."""
        return "stride_c" if self.written else "stride_residual"


_OPERANDS = (
    Operand("bias_m", "m", "added to each element of its row"),
    Operand("bias_n", "n", "added to each element of its column"),
    Operand("scale_m", "m", "a factor of each element of its row"),
    Operand("scale_n", "n", "a factor of each element of its column"),
    *(
        Operand(f"{name}_n{number}", "n", f"a {ordinal} {what} by columns: of {ACCUMULATORS[number - 1]}, say")
        for number, ordinal in ((2, "second"), (3, "third"), (4, "fourth"))
        for name, what in (("bias", "bias"), ("scale", "factor"))
    ),
    Operand("scale_a", "", "a factor of all elements: A's, say"),
    Operand("scale_b", "", "a factor of all elements: B's, say"),
    Operand("zero_m", "m", "the zero point of a row of A", summed=True),
    Operand("zero_n", "n", "the zero point of a column of B", summed=True),
    Operand("zero_a", "", "the zero point of all of A", summed=True),
    Operand("zero_b", "", "the zero point of all of B", summed=True),
    Operand("sum_m", "m", "the sum of a row of A, computed before", summed=True),
    Operand("sum_n", "n", "the sum of a column of B, computed before", summed=True),
    Operand("residual", "mn", "added, element by element"),
    *(
        Operand(f"residual{number}", "mn", f"a {ordinal} such matrix, which lies as residual would")
        for number, ordinal in ((2, "second"), (3, "third"), (4, "fourth"), (5, "fifth"))
    ),
    Operand("aux", "mn", "takes its argument: the value before an activation, say", written=True),
    Operand("row_amax", "m", "takes the largest magnitude of its argument in each row", written=True),
    Operand("column_amax", "n", "takes the largest magnitude of its argument in each column", written=True),
)
OPERANDS = {operand.name: operand for operand in _OPERANDS}


def is_written(name: str) -> bool:
    """Whether kernels write an operand of this name beside C."""
    return name in OPERANDS and OPERANDS[name].written


def is_amax(name: str) -> bool:
    """Whether an output of this name takes the largest magnitudes of rows or of columns."""
    return name in OPERANDS and OPERANDS[name].is_amax
