"""Element types: how numbers lie in memory, and what a type does to a number that it stores.

Sources: IEEE 754-2019 (f64, f32, f16), the bfloat16 format as NVIDIA's PTX ISA defines it, and "FP8 Formats for Deep
Learning" (Micikevicius and others, arXiv 2209.05433) for e4m3 and e5m2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.support.errors import require

WORD = 4  # bytes of a register, and of what a bank of shared memory serves at once
WIDEST_ACCESS = 16  # bytes that a thread reads or writes at once
# A word of memory that no kernel may use: a NaN of every floating-point type, and one that no GPU's arithmetic yields.
CANARY = 0xFFFFFFFF

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Arithmetic:
    """What CUDA cores compute with, of a type that sums.

    fma          the function a * b + c: CUDA's, or one of templates/device/convert.cu
    zero         the type's literal
    instruction  of the machine code: one multiply-add
    """

    fma: str
    zero: str
    instruction: str


ARITHMETIC = {
    "f32": Arithmetic("fmaf", "0.0f", "FFMA"),
    "f64": Arithmetic("fma", "0.0", "DFMA"),
    "s32": Arithmetic("multiply_add", "0", "IMAD"),
}


ELSEWHERE = {  # what other programs call them; "fp8" may be either
    "f64": ("fp64", "float64", "double"),
    "f32": ("fp32", "float32", "float"),
    "f16": ("fp16", "float16", "half"),
    "bf16": ("bfloat16",),
    "e4m3": ("fp8", "float8_e4m3fn", "fp8_e4m3"),
    "e5m2": ("fp8", "float8_e5m2", "fp8_e5m2"),
    "s32": ("int32", "int"),
    "s8": ("int8",),
    "u8": ("uint8",),
}


class DType(Enum):
    """An element type: a binary floating-point format or an integer.

    label         name on the command line and in kernels' names
    ctype         type of an element in kernels' text; those that C++ lacks are structs of templates/device/convert.cu.
                  Of two elements to a byte that of the byte
    storage_bits  of an element in memory
    precision     bits of a floating-point significand, the leading one included; of an integer all but its sign
    max_exponent  the largest finite number of IEEE's formats lies below 2^(max_exponent + 1); None: an integer
    largest       the largest finite number
    """

    F32 = ("f32", "float", 32, 24, 127, float(np.finfo(np.float32).max))
    F64 = ("f64", "double", 64, 53, 1023, float(np.finfo(np.float64).max))
    F16 = ("f16", "F16", 16, 11, 15, 65504.0)
    BF16 = ("bf16", "BF16", 16, 8, 127, 2.0**128 - 2.0**120)
    E4M3 = ("e4m3", "E4M3", 8, 4, 8, 448.0)  # no Inf: all but one code of the highest exponent are numbers
    E5M2 = ("e5m2", "E5M2", 8, 3, 15, 57344.0)
    S32 = ("s32", "int", 32, 31, None, 2.0**31 - 1)
    S8 = ("s8", "signed char", 8, 7, None, 127.0)
    U8 = ("u8", "unsigned char", 8, 8, None, 255.0)
    S4 = ("s4", "unsigned char", 4, 3, None, 7.0)  # two to a byte, the first in its low half
    U4 = ("u4", "unsigned char", 4, 4, None, 15.0)

    def __init__(
        self, label: str, ctype: str, storage_bits: int, precision: int, max_exponent: int | None, largest: float
    ) -> None:
        self.label = label
        self.ctype = ctype
        self.storage_bits = storage_bits
        self.precision = precision
        self.largest = largest
        self.is_integer = max_exponent is None
        self.max_exponent = max_exponent or 0

    __hash__ = object.__hash__  # Enum's own is a Python function, which caches call often

    @property
    def size(self) -> int:
        """Bytes of an element; 1 where two share a byte: `bytes` counts those of several."""
        return max(1, self.storage_bits // 8)

    def bytes(self, elements: int) -> int:
        """Bytes that so many elements take, one behind the other."""
        return -(-elements * self.storage_bits // 8)

    @property
    def is_signed(self) -> bool:
        return self not in (DType.U8, DType.U4)

    @property
    def has_nan(self) -> bool:
        return not self.is_integer

    @property
    def has_infinity(self) -> bool:
        return not self.is_integer and self is not DType.E4M3

    @property
    def saturates(self) -> bool:
        """Whether a number that is too large becomes the largest one when it is stored, rather than Inf."""
        return self.is_integer or self.storage_bits == 8

    @property
    def unit_roundoff(self) -> float:
        """Of a floating-point type: rounding to nearest changes a number by a factor of 1 + d at most, |d| <= this."""
        return 2.0**-self.precision

    @property
    def min_exponent(self) -> int:
        """Of the smallest number that is not denormal."""
        return -6 if self is DType.E4M3 else 1 - self.max_exponent

    @property
    def smallest(self) -> float:
        """The smallest denormal; an integer's is 1."""
        return 1.0 if self.is_integer else 2.0 ** (self.min_exponent + 1 - self.precision)

    @property
    def least(self) -> float:
        """The least finite number."""
        if not self.is_integer:
            return -self.largest
        return -self.largest - 1 if self.is_signed else 0.0

    @property
    def exact_integers(self) -> int:
        """All integers from 0 to this one are numbers of the type."""
        return int(self.largest) if self.is_integer else 2**self.precision

    @property
    def arithmetic(self) -> Arithmetic:
        """Of a type that sums: f32, f64 or s32."""
        return ARITHMETIC[self.label]

    @property
    def words(self) -> int:
        """4-byte words (of shared memory, of registers) that an element takes."""
        return self.size // WORD

    @property
    def narrowing(self) -> str:
        """What kernels call to store a float as such an element, by rounding; "" where they just assign it."""
        if self.ctype in ("F16", "BF16", "E4M3", "E5M2"):
            return self.ctype
        return f"saturated_{self.label}" if self in (DType.S8, DType.U8) else ""

    @property
    def widest(self) -> int:
        """Elements of the widest access."""
        return 8 * WIDEST_ACCESS // self.storage_bits

    @property
    def converted_since(self) -> int:
        """NN of the first sm_NN that has instructions between f32 and this type. Any has those of f16, and bf16 and
        e5m2, the upper halves of f32 and f16, need none to be read."""
        return {DType.BF16: 80, DType.E4M3: 89, DType.E5M2: 89}.get(self, 0)

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """Of arrays; where numpy has none, that of ml_dtypes. An element of 4 bits takes a byte there."""
        named = {DType.BF16: "bfloat16", DType.E4M3: "float8_e4m3fn", DType.E5M2: "float8_e5m2"}
        named |= {DType.S4: "int4", DType.U4: "uint4"}
        if self in named:
            import ml_dtypes  # takes a while, and few kernels need it

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, named[self]))
            return found
        kind = "f" if not self.is_integer else "i" if self.is_signed else "u"
        return np.dtype(f"{kind}{self.size}")

    def packed(self, elements: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """The bytes that hold `elements`, one behind the other. What is left of the last one is canary."""
        if self.storage_bits >= 8:
            return elements.view(np.uint8)
        halves = np.full(2 * self.bytes(elements.size), CANARY & 0xF, np.uint8)
        halves[: elements.size] = elements.view(np.uint8) & 0xF
        return (halves[::2] | halves[1::2] << 4).astype(np.uint8)

    @property
    def bits(self) -> np.dtype[np.unsignedinteger[Any]]:
        """Elements as bit patterns, which tell one NaN from another."""
        return np.dtype(f"u{self.numpy.itemsize}")

    def every(self) -> npt.NDArray[Any]:
        """The elements of a type of at most 16 bits, in the order of their bit patterns."""
        assert self.storage_bits <= 16, f"{self.label} has too many numbers to list"
        patterns = np.arange(2**self.storage_bits, dtype=np.int64)
        if self.storage_bits < 8:
            return self.wrap(patterns).astype(self.numpy)
        found: npt.NDArray[Any] = patterns.astype(self.bits).view(self.numpy)
        return found

    def finite(self) -> npt.NDArray[Any]:
        """Every finite number of a type of at most 16 bits, -0 and denormals among them: by its bit pattern, or from
        the least on if two share a byte."""
        every = self.every()
        found: npt.NDArray[Any] = every[np.isfinite(self.decode(every))]
        return np.sort(found) if self.storage_bits < 8 else found

    def decode(self, elements: npt.NDArray[Any]) -> Doubles:
        """The numbers in float64, which holds those of every type."""
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return elements.astype(np.float64)

    def encode(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """Elements nearest to `values` (float64): see `nearest`. NaN stays NaN; an integer type has none."""
        wanted = np.asarray(values, np.float64)
        assert not (self.is_integer and np.isnan(wanted).any()), f"{self.label} has no NaN"
        with np.errstate(over="ignore", invalid="ignore"):
            return self.nearest(wanted).astype(self.numpy)

    def wrap(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Of an integer type: `values` modulo 2^storage_bits, in its range. What sums of its kind do."""
        low = int(self.least)
        return np.asarray((values - low) % 2**self.storage_bits + low)

    def nearest(self, values: Doubles) -> Doubles:
        """The number of this type nearest to each of `values`, in float64: one rounding, ties to even.

        Beyond the largest number f64, f32, f16 and bf16 give Inf as IEEE 754 says; other types saturate, Inf as well.
        """
        if self is DType.F64:
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            if self is DType.F32:
                return values.astype(np.float32).astype(np.float64)
            rounded = np.rint(values) if self.is_integer else self._rounded(values)
            if self.saturates:
                return np.clip(rounded, self.least, self.largest)
            return np.where(np.abs(rounded) > self.largest, np.copysign(np.inf, rounded), rounded)

    def _rounded(self, values: Doubles) -> Doubles:
        """`values` to `precision` bits, to less where the type's numbers are denormal; no number is too large."""
        exponents = np.maximum(np.frexp(np.where(np.isfinite(values), values, 1.0))[1] - 1, self.min_exponent)
        step = exponents - (self.precision - 1)  # of the type's numbers near a value, as a power of two
        return np.asarray(np.ldexp(np.rint(np.ldexp(values, -step)), step))

    @classmethod
    def parse(cls, text: str) -> DType:
        """The dtype called `text`, by its label or by one of ELSEWHERE; raises InvalidInput with the known names."""
        name = text.rpartition(".")[2].lower()  # of torch.float16, too
        require(name != "tf32", "tf32 is a way of multiplying f32, not an element type: f32 with compute tf32")
        meant = [one for one in cls if name == one.label or name in ELSEWHERE.get(one.label, ())]
        here = f" ({' or '.join(one.label for one in meant)} here)" if meant else ""
        require(
            len(meant) == 1,
            f"unknown dtype {text!r}{here}: known are {', '.join(one.label for one in ELEMENTS)}, of C alone s32, and "
            "of B alone, with scales, u4 and s4",
        )
        return meant[0]

    @classmethod
    def of(cls, given: object) -> DType:
        """`given` if it is a DType, else the one of that label, or an element type of numpy, ml_dtypes, jax or torch.

        Raises InvalidInput with the known names.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str) or given is None:
            return cls.parse(str(given))
        if type(given).__module__ == "torch":  # torch.float16, by its name: torch is not imported for it
            name = str(given).removeprefix("torch.")
            return next((one for one in cls if name in ELSEWHERE.get(one.label, ())), None) or cls.parse(str(given))
        try:
            theirs = np.dtype(given)  # type: ignore[call-overload]
        except (TypeError, ValueError):
            return cls.parse(str(given))
        return next((one for one in cls if one.numpy == theirs), None) or cls.parse(theirs.name)


# That A and B can have.
ELEMENTS = (DType.F32, DType.F64, DType.F16, DType.BF16, DType.E4M3, DType.E5M2, DType.S8, DType.U8)
