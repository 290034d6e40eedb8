"""The arithmetic of tensor cores in numpy, to the bit: see `gemmgen.problem.mma.Sums`.

It shares no code with the emulator's (gemmgen/run/emulator/native/tile_sums.hpp).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.device import Arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.mma import Mma, Sums
from gemmgen.problem.wgmma import Wgmma
from gemmgen.support.errors import require

Codes = npt.NDArray[np.unsignedinteger[Any]]  # elements by their bit patterns
Integers = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

NAN = {DType.F32: 0x7FFFFFFF, DType.F16: 0x7FFF}  # the only one that sums become
F64_NAN = 0xFFF8000000000000  # what no operand's NaN explains
QUIET = 2**51  # the bit of an f64 NaN that arithmetic sets
NOTHING = -(2**20)  # the exponent of a zero, which counts for nothing


def dot(mma: Mma | Wgmma, arch: Arch, a: Codes, b: Codes, c: Codes) -> Codes:
    """Return c + the products of a and b along their last axis, whose length is a multiple of the instruction's k.

    a, b, c  bit patterns of `mma.a`, `mma.b` and `mma.accumulator`; a and b are (..., K), c is (...)

    Returns the bit patterns of D, in c's shape, as `arch` computes them with one instruction per k products, in order.
    Raises InvalidInput if `arch` lacks the instruction, or if K is not a multiple of k.
    """
    reason = mma.why_not(arch)
    require(reason is None, reason or "")
    require(a.shape[-1] % mma.k == 0, f"K = {a.shape[-1]} is no multiple of {mma.function}'s k = {mma.k}")
    sums = mma.sums_on(arch)
    if sums is not None:
        return _floats(mma, sums, a, b, c)
    return _doubles(a, b, c) if mma.accumulator is DType.F64 else _integers(mma, a, b, c)


def _integers(mma: Mma | Wgmma, a: Codes, b: Codes, c: Codes) -> Codes:
    products = (_signed(a, mma.a) * _signed(b, mma.b)).sum(axis=-1)
    return np.asarray(products + c.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)


def _signed(codes: Codes, dtype: DType) -> Integers:
    values, half = codes.astype(np.int64), 1 << (dtype.storage_bits - 1)
    return np.asarray((values ^ half) - half) if dtype.is_signed else values


def _doubles(a: Codes, b: Codes, c: Codes) -> Codes:
    """Fused multiply-adds, in order. A NaN is that of B, else that of the sum, else that of A, made quiet."""
    sums = c.view(np.float64)
    for k in range(a.shape[-1]):
        x, y = a[..., k].view(np.float64), b[..., k].view(np.float64)
        made = fused(x, y, sums)
        bits = np.where(np.isnan(made), np.uint64(F64_NAN), made.view(np.uint64))
        for operand in (x, sums, y):  # the last one goes before the others
            bits = np.where(np.isnan(operand), operand.view(np.uint64) | np.uint64(QUIET), bits)
        sums = bits.view(np.float64)
    return sums.view(np.uint64)


def fused(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """a * b + c with one rounding, by Python's fractions, as numpy has no such function."""
    from fractions import Fraction

    def one(x: float, y: float, z: float) -> float:
        if not (math.isfinite(x) and math.isfinite(y)):
            return x * y + z
        if not math.isfinite(z):
            return z
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        try:
            return float(exact) if exact else x * y + z  # the sign of a zero is the unfused sum's
        except OverflowError:
            return math.inf if exact > 0 else -math.inf

    with np.errstate(all="ignore"):
        return np.asarray(np.vectorize(one, otypes=[np.float64])(a, b, c))


@dataclass(frozen=True)
class _Terms:
    """Numbers significand * 2^(exponent - fraction); `special` holds Inf and NaN, and 0 elsewhere."""

    significand: Integers
    exponent: Integers
    fraction: int
    special: Doubles

    @property
    def counted(self) -> Integers:
        """The exponents; NOTHING for a zero."""
        return np.where(self.significand == 0, NOTHING, self.exponent)


def _terms(codes: Codes, dtype: DType, cut: int = 0) -> _Terms:
    """The numbers of `dtype` with these bits, ignoring the lowest `cut` bits."""
    fraction = dtype.precision - 1 - cut
    bits = codes.astype(np.int64) >> cut
    exponents = dtype.storage_bits - dtype.precision
    field, rest = bits >> fraction & (1 << exponents) - 1, bits & (1 << fraction) - 1
    negative = bits >> (fraction + exponents) & 1
    top = field == (1 << exponents) - 1
    special = top if dtype.has_infinity else top & (rest == (1 << fraction) - 1)
    significand = np.where(field > 0, rest | 1 << fraction, rest) * (1 - 2 * negative)
    infinite = np.where(negative == 1, -np.inf, np.inf)
    values = np.where(special, np.where((rest == 0) & dtype.has_infinity, infinite, np.nan), 0.0)
    return _Terms(significand, np.maximum(field, 1) - (1 << (exponents - 1)) + 1, fraction, values)


@dataclass(frozen=True)
class _Products:
    """The products of two operands, by k: magnitudes in units of 2^-fraction, times 2^exponent; `special` as in
    _Terms."""

    magnitude: Integers
    sign: Integers
    exponent: Integers
    special: Doubles

    def __getitem__(self, at: slice) -> _Products:
        return _Products(self.magnitude[..., at], self.sign[..., at], self.exponent[..., at], self.special[..., at])


def _products(a: _Terms, b: _Terms, fraction: int) -> _Products:
    exact = a.significand * b.significand
    exponents = np.where(exact == 0, NOTHING, a.exponent + b.exponent)
    magnitude = np.abs(exact) << (fraction - a.fraction - b.fraction)  # no format has more bits
    return _Products(magnitude, np.sign(exact), exponents, _special_products(a, b))


def _special_products(a: _Terms, b: _Terms) -> Doubles:
    """Products with Inf and NaN, 0 elsewhere."""
    some = (a.special != 0) | (b.special != 0)
    if not some.any():
        return np.zeros(some.shape)

    def value(terms: _Terms) -> Doubles:
        finite = np.sign(terms.significand)  # enough to tell Inf * 0 and the sign of Inf * x
        return np.where(terms.special == 0, finite, terms.special)

    with np.errstate(invalid="ignore"):
        return np.where(some, value(a) * value(b), 0.0)


def _floats(mma: Mma | Wgmma, sums: Sums, a: Codes, b: Codes, c: Codes) -> Codes:
    cut = 13 if mma.a is DType.F32 else 0  # of tf32
    products = _products(_terms(a, mma.a, cut), _terms(b, mma.b, cut), sums.fraction)
    for first in range(0, a.shape[-1], sums.products):
        c = _step(mma.accumulator, sums, products[first : first + sums.products], c)
    return c


def _step(dtype: DType, sums: Sums, products: _Products, c: Codes) -> Codes:
    accumulated = _terms(c, dtype)
    largest = np.maximum(products.exponent.max(axis=-1), accumulated.counted)
    smallest = np.where(largest == NOTHING, 0, largest) - sums.fraction  # the exponent of what terms are multiples of
    shift = np.minimum(largest[..., None] - products.exponent, 63)
    total = (products.sign * (products.magnitude >> shift)).sum(axis=-1)
    total = total + _cut(accumulated.significand, accumulated.counted - accumulated.fraction - smallest)
    found = _rounded(np.ldexp(total.astype(np.float64), smallest), dtype, sums.kept)
    if not (products.special.any() or accumulated.special.any()):
        return found
    return np.asarray(np.where(*_special(products.special, accumulated.special, dtype), found))


def _cut(significand: Integers, shift: Integers) -> Integers:
    """significand * 2^shift, truncated towards zero."""
    magnitude, left, right = np.abs(significand), np.maximum(shift, 0), np.minimum(np.maximum(-shift, 0), 63)
    return np.asarray(np.sign(significand) * (magnitude << left >> right))


def _rounded(values: Doubles, dtype: DType, kept: int) -> Codes:
    """Round to f16 to nearest even, or to `kept` bits of an f32 towards zero."""
    if dtype is DType.F16:
        return dtype.encode(values).view(np.uint16)
    unit = np.maximum(np.frexp(values)[1] - 1, dtype.min_exponent) - kept
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(np.trunc(np.ldexp(values, -unit)), unit), np.float32).view(np.uint32)


def _special(products: Doubles, c: Doubles, dtype: DType) -> tuple[npt.NDArray[np.bool_], Codes]:
    """A mask of the sums with an Inf or NaN term, and their bits: what IEEE 754 says, with one NaN for all."""
    with np.errstate(invalid="ignore"):
        total = products.sum(axis=-1) + c
    infinite = dtype.encode(np.where(np.isnan(total), 0.0, total)).view(dtype.bits)
    where = (products != 0).any(axis=-1) | (c != 0)
    return where, np.where(np.isnan(total), dtype.bits.type(NAN[dtype]), infinite)
