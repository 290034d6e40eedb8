"""Element types."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from gemmgen.support.errors import require

WORD = 4  # bytes of a register, and of what a bank of shared memory serves at once
WIDEST_ACCESS = 16  # bytes that a thread reads or writes at once


class DType(Enum):
    """Element type of A, B, C, alpha, beta and the accumulator: an IEEE 754 binary format.

    label         name on the command line and in kernels' names
    ctype         CUDA type
    size          bytes
    precision     bits of the significand, the leading one included
    max_exponent  the largest finite number lies below 2^(max_exponent + 1)
    fma, zero     CUDA's function and its literal
    instruction   of the machine code: one fused multiply-add
    """

    F32 = ("f32", "float", 4, 24, 127, "fmaf", "0.0f", "FFMA")
    F64 = ("f64", "double", 8, 53, 1023, "fma", "0.0", "DFMA")

    def __init__(
        self,
        label: str,
        ctype: str,
        size: int,
        precision: int,
        max_exponent: int,
        fma: str,
        zero: str,
        instruction: str,
    ) -> None:
        self.label = label
        self.ctype = ctype
        self.size = size
        self.precision = precision
        self.max_exponent = max_exponent
        self.fma = fma
        self.zero = zero
        self.instruction = instruction

    @property
    def unit_roundoff(self) -> float:
        return 2.0**-self.precision

    @property
    def smallest(self) -> float:
        """The smallest denormal."""
        return 2.0 ** (2 - self.max_exponent - self.precision)

    @property
    def words(self) -> int:
        """4-byte words (of shared memory, of registers) that an element takes."""
        return self.size // 4

    @property
    def widest(self) -> int:
        """Elements of the widest access."""
        return WIDEST_ACCESS // self.size

    @property
    def numpy(self) -> np.dtype[np.floating[Any]]:
        return np.dtype(f"f{self.size}")

    @property
    def bits(self) -> np.dtype[np.unsignedinteger[Any]]:
        """Elements as bit patterns, which tell one NaN from another."""
        return np.dtype(f"u{self.size}")

    @classmethod
    def parse(cls, text: str) -> DType:
        """The dtype called `text`; raises InvalidInput with the known names."""
        known = {dtype.label: dtype for dtype in cls}
        require(text in known, f"unknown dtype {text!r}: known are {', '.join(known)}")
        return known[text]
