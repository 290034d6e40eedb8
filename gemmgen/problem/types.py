"""Which types a product has: those of A, B and C in memory, of its sums, and of alpha and beta."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from gemmgen.problem.dtype import ELEMENTS, DType
from gemmgen.problem.pieces import BF16X6, Pieces
from gemmgen.support.errors import require
from gemmgen.support.words import listed

NIBBLES = (DType.U4, DType.S4)  # that B alone can have, with scales: see `gemmgen.problem.inputs`
BYTES = tuple(dtype for dtype in ELEMENTS if dtype.is_integer)
FLOATS = tuple(dtype for dtype in ELEMENTS if dtype not in (DType.F64, *BYTES))
# Types that C may have, by that of the sums.
RESULTS = {DType.F64: (DType.F64,), DType.F32: FLOATS, DType.S32: (DType.S32, *FLOATS, *BYTES)}


HALVES = (DType.F16, DType.BF16)
PROMOTION = 128  # products


class Compute(Enum):
    """How products are made and summed: what a kernel promises of its result.

    FMA       products are exact, or rounded with the sum as a fused multiply-add does, and sums have the accumulator's
              precision: CUDA cores round each to nearest; tensor cores, which multiply narrower types, cut it towards
              zero (`gemmgen.problem.mma.Sums`)
    TF32      operands of f32 are rounded to the 11 bits of tf32 first, and multiplied by tensor cores
    F16       of operands of f16: tensor cores keep their sums in f16, and round these at each step
    PROMOTED  of e4m3 and e5m2: tensor cores keep 13 bits behind a sum's first, and kernels add such sums of
              PROMOTION products up in f32. Of codes: differences from zero points are multiplied, and sums of
              at most PROMOTION products are multiplied by their group's scale as they are added up
    FAST      the same, without adding up: 13 bits for all of K
    BF16X6    operands of f32 are sums of three pieces of bf16, of which tensor cores multiply six pairs: see `Pieces`.
              Results are as accurate as CUDA cores' in f32, Inf and NaN among them; but an element counts to a multiple
              of 2^-133, which takes bits from those below 2^-110, and what overflows is Inf of either sign, or NaN: a
              small product of pieces may have overflown first
    """

    FMA = "fma"
    TF32 = "tf32"
    F16 = "f16acc"
    PROMOTED = "promoted"
    FAST = "fast"
    BF16X6 = "bf16x6"

    __hash__ = object.__hash__

    @property
    def label(self) -> str:
        return self.value

    @property
    def operands(self) -> tuple[DType, ...]:
        """The types that A and B can have."""
        fp8 = (DType.E4M3, DType.E5M2)
        known = {Compute.TF32: (DType.F32,), Compute.F16: (DType.F16,), Compute.PROMOTED: fp8, Compute.FAST: fp8}
        return (DType.F32,) if self.pieces else known.get(self, ELEMENTS)

    @property
    def note(self) -> str:
        """What a caller has to know of its results; empty where they are as exact as the types of sums allow."""
        return NOTES.get(self, "")

    @property
    def pieces(self) -> Pieces | None:
        """What operands are split into; None where they are multiplied as they are."""
        return BF16X6 if self is Compute.BF16X6 else None

    @property
    def pairs(self) -> int:
        """Pairs of pieces that are multiplied for each product of A and B."""
        return len(self.pieces.pairs) if self.pieces else 1

    @property
    def promotes(self) -> bool:
        """Whether sums by tensor cores are added up in f32 after some of K."""
        return self in (Compute.PROMOTED, Compute.BF16X6)

    @classmethod
    def parse(cls, text: str) -> Compute:
        """The compute called `text`; raises InvalidInput with the known names."""
        known = {compute.label: compute for compute in cls}
        require(text in known, f"unknown compute {text!r}: known are {', '.join(known)}")
        return known[text]


NOTES = {
    Compute.TF32: "elements of A and B are rounded to the 11 bits of tf32",
    Compute.F16: "tensor cores keep sums in f16, rounded at each step",
    Compute.PROMOTED: f"tensor cores keep 13 bits of sums of {PROMOTION} products, which are added up in f32",
    Compute.FAST: "tensor cores keep 13 bits of sums",
    Compute.BF16X6: "results are as exact, element by element, as those of f32 on CUDA cores, Inf and NaN among them; "
    "what overflows becomes Inf of either sign, or NaN; elements of A and B count to a multiple of 2^-133, which takes "
    "bits from those below 2^-110",
}


@dataclass(frozen=True)
class Types:
    """Element types of A, B and C.

    Products are summed in `accumulator`, scaled by alpha and beta in `scalar`, and stored with one rounding to nearest
    even. Integer sums wrap around at 32 bits, and so does their scaling where C is s32; results of e4m3, e5m2, s8 and
    u8 saturate.

    coded  whether B holds codes, which stand for numbers of A's type: any u4 and s4, and u8 and s8 where a `Problem`
           gives B scales

    Raises InvalidInput where no kernel computes such a product.
    """

    a: DType
    b: DType
    c: DType
    compute: Compute = Compute.FMA
    coded: bool = False

    def __post_init__(self) -> None:
        if self.b in NIBBLES:
            object.__setattr__(self, "coded", True)
        bytes_ = self.b in BYTES and self.a in HALVES and self.compute is Compute.PROMOTED  # codes alone are such
        packed = bytes_ or (self.b in NIBBLES and self.compute in (Compute.FMA, Compute.PROMOTED))
        for name, dtype in (("A", self.a), ("B", self.a if packed else self.b)):
            require(dtype in ELEMENTS, f"{name} of {dtype.label}: a product takes {_labels(ELEMENTS)}")
        require(not packed or not self.a.is_integer, f"B of {self.b.label}, A of {self.a.label}: floats multiply it")
        both = DType.F64 in (self.a, self.b)
        require(not both or self.a == self.b, f"A of {self.a.label}, B of {self.b.label}: f64 goes with f64 only")
        for name, dtype in (("A", self.a), ("B", self.a if packed else self.b)):
            known = HALVES if packed and self.compute is Compute.PROMOTED else self.compute.operands
            require(dtype in known, f"{name} of {dtype.label}: {self.compute.label} multiplies {_labels(known)}")
        results = RESULTS[self.accumulator]
        require(
            self.c in results,
            f"C of {self.c.label}: from {self.a.label} and {self.b.label} comes {_labels(results)}",
        )

    @classmethod
    def of(cls, dtype: DType) -> Types:
        """A, B and C of one type."""
        return cls(dtype, dtype, dtype)

    @classmethod
    def parse(cls, text: str, compute: Compute = Compute.FMA) -> Types:
        """`A,B,C` by their labels, or one label for all three, maybe with its compute: "f32_tf32".

        Raises InvalidInput for anything else.
        """
        written, _, own = text.rpartition("_")
        if written and own in {one.label for one in Compute}:
            compute = Compute.parse(own)
        else:  # float8_e4m3fn, say
            written = text
        labels = written.split(",")
        require(len(labels) in (1, 3), f"{text!r} is no types: write those of A, B and C, for example s8,s8,s32")
        a, b, c = (DType.parse(label) for label in (labels * 3 if len(labels) == 1 else labels))
        return cls(a, b, c, compute)

    @classmethod
    def from_token(cls, token: str) -> Types:
        """The types that `token` wrote; raises InvalidInput."""
        written, _, compute = token.partition("_")
        labels = re.findall("|".join(dtype.label for dtype in DType), written)
        require("".join(labels) == written, f"unknown types {token!r}")
        return cls.parse(",".join(labels), Compute.parse(compute or Compute.FMA.label))

    @cached_property
    def accumulator(self) -> DType:
        """The type of the sums."""
        if DType.F64 in (self.a, self.b):
            return DType.F64
        return DType.S32 if self.a.is_integer and self.b.is_integer else DType.F32

    @cached_property
    def scalar(self) -> DType:
        """The type of alpha and beta, in which the sums are scaled."""
        return DType.F32 if self.accumulator == DType.S32 and self.c != DType.S32 else self.accumulator

    def require_scalar(self, name: str, value: float) -> None:
        """Raise InvalidInput unless `value` is an alpha or beta: a number in the range of `scalar`, infinity or NaN."""
        dtype = self.scalar
        integer = not dtype.is_integer or float(value).is_integer()
        require(integer, f"{name} = {value}: with C of {self.c.label} scalars are integers")
        if dtype.least <= value <= dtype.largest or not math.isfinite(value):
            return
        # Numbers just above the largest one are rounded to it.
        fits = not dtype.is_integer and bool(np.isfinite(dtype.nearest(np.float64(value))))
        least, largest = (int(one) if dtype.is_integer else one for one in (dtype.least, dtype.largest))
        require(fits, f"{name} = {value} overflows {dtype.label}: its numbers are {least} to {largest}")

    @property
    def operands(self) -> tuple[DType, DType, DType]:
        return self.a, self.b, self.c

    @property
    def note(self) -> str:
        """What a caller has to know of results; empty where they are as exact as the types of sums allow."""
        return "" if self.coded else self.compute.note

    @property
    def factors(self) -> tuple[DType, DType]:
        """The types of what instructions multiply: those of A and B, of their pieces, or of the numbers of A's type
        that B's codes stand for."""
        if self.coded:
            return self.a, self.a
        pieces = self.compute.pieces
        return (self.a, self.b) if pieces is None else (pieces.dtype, pieces.dtype)

    @cached_property
    def uniform(self) -> bool:
        """Whether A, B and C lie in memory in the type of the sums, so that nothing is converted."""
        return self.a == self.b == self.c == self.accumulator

    @property
    def products_at_once(self) -> int:
        """Products that one instruction multiplies and sums: four of 8-bit integers (dp4a)."""
        return 4 if self.a.is_integer and self.b.is_integer and self.a.storage_bits == self.b.storage_bits == 8 else 1

    @property
    def least_arch(self) -> int:
        """NN of the first sm_NN whose instructions convert these types."""
        read = DType.E4M3.converted_since if DType.E4M3 in self.operands else 0
        return max(75, read, self.c.converted_since)

    @property
    def token(self) -> str:
        """In names: "bf16", "s8s8s32", "f32_tf32"."""
        written = self.a.label if self.a == self.b == self.c else "".join(dtype.label for dtype in self.operands)
        return written if self.compute is Compute.FMA else f"{written}_{self.compute.label}"

    def __str__(self) -> str:
        """As `parse` reads it: "bf16", "s8,s8,s32"."""
        return self.a.label if self.a == self.b == self.c else ",".join(dtype.label for dtype in self.operands)


def _labels(dtypes: tuple[DType, ...]) -> str:
    return listed((dtype.label for dtype in dtypes), "or")


F32_TYPES = Types.of(DType.F32)
