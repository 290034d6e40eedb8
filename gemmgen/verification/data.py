"""What A, B and C hold in a situation. `reference` describes the kinds of data, and says what must come out."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.case import Case
from gemmgen.problem.dtype import CANARY, DType
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.operands import OPERANDS as EPILOGUE_OPERANDS
from gemmgen.problem.types import Compute, Types
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.recent import Recent
from gemmgen.support.threads import in_threads
from gemmgen.verification.onehot import code_fully, codes, selection
from gemmgen.verification.scalars import EXACT_SCALARS
from gemmgen.verification.situation import (
    EXACT_KINDS,
    FACTORS,
    SIDES,
    DataKind,
    Side,
    Situation,
    balances,
    data_kinds,
    limit_scale,
    shows_limits,
    side_of,
)

LARGEST_INTEGER = 8
ZEROS, SUMS = ("zero_m", "zero_n", "zero_a", "zero_b"), ("sum_m", "sum_n")  # of an epilogue's operands: integers
LARGE_ZERO = 2**22  # times K it passes 24 bits, and seldom 31
EXACT_FACTORS = (0.5, 1.0, 2.0, -1.0)
SPECIALS = (np.inf, -np.inf, np.nan, 0.0, -0.0)
MOST_SPECIALS = 64  # one in so many elements, and fewer where a sum would meet more of them: many sums stay finite
SUMS_WITHOUT = 4  # of so many sums, one meets such an element of A, or of B
OPPOSED_LINES = 4  # of so many rows of A, or columns of B, one has Inf that meets zeros,
OPPOSED_PRODUCTS = 2**22  # as long as they have no more products with the other operand's
STRIPS = ("tiny", "0", "0")  # of the other operand, beside some of these Inf
OPPOSED_SHARE = 0.25  # of the products with such an Inf, and one at least
UNREAD_SEEDS = 4  # of so many seeds, one has more than NaN in a C that must not be read
UNREAD = (np.inf, -np.inf, np.nan, -0.0, 1.0)
SPARSE_PRODUCTS = 3  # in each sum that are not 0
SPREAD = 8  # binary orders, up and down, of sparse data, where its types have them
FACTOR_SHARE = (
    0.25  # of an epilogue's first factor that is huge where sums are denormal, and denormal where they are huge
)
FACTOR_EXPONENTS: dict[DataKind, int] = {"denormal": 100, "huge": -130}  # in f32
DENORMAL_FLOPS = 1e6  # with a denormal factor, of a launch
TINY_FLOPS = 1e7  # of a launch beside Inf and strips of the smallest number
NEAR_DENORMAL = 8  # times the largest denormal: sums of such products are seldom denormal, and hide no denormal one
HUGE_MARGIN = 3  # binary orders that huge products stay below the largest number
# Making data and reference takes long: from so many FLOPs on there are so many sets of data, for all seeds and scalars.
LARGE_EFFORT = 10**9
SHARED_DATA = ((LARGE_EFFORT, 2), (10**8, 4), (10**7, 8))
ELEMENT_FLOPS = 32  # that take as long as making an element, reading it and converting it
REPEATED = 1_048_573  # elements after which large data repeats: a prime number, so that no line is like another
TOUCHED_BYTES = 2**22  # of new memory, by a thread

# The candidates of one search meet the same data again and again, so it is kept.
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # of this machine, in bytes
OPERANDS = Recent(64, max(2**30, MEMORY // 16))  # a situation of 8192 x 8192 x 8192 takes 2^30


def make_operands(situation: Situation) -> Operands:
    """A, B and C for `situation`. What a kernel must not use (padding, C with beta = 0) is NaN, of an integer -1.

    But an unread C of integers holds random ones, others for another seed: -1 times zero is as good as nothing.
    """
    case = situation.case
    unread = case.beta == 0 or not case.problem.epilogue.reads_c
    return operands_of(unscaled(case), situation.data, data_seed(situation), unread)


def unscaled(case: Case) -> Case:
    """The case that shares its data with every beta, and alpha but for those that large factors or integers have."""
    alpha = case.alpha if balances(case) else limit_scale(case) if shows_limits(case) else 1.0
    return replace(case, alpha=alpha, beta=0.0)


def effort(case: Case) -> float:
    """What data and reference of `case` take, in FLOPs."""
    return case.flops + ELEMENT_FLOPS * sum(matrix.elements for matrix in case.matrices)


def data_seed(situation: Situation) -> int:
    """The seed of the situation's data: large ones share theirs."""
    sets = next((sets for least, sets in SHARED_DATA if effort(situation.case) > least), None)
    return situation.seed if sets is None else situation.seed % sets


def operands_of(case: Case, data: DataKind, seed: int, unread_c: bool) -> Operands:
    """Kept, and read-only: the same object for the same arguments, whose arrays stay as they are."""
    key = case, data, seed, unread_c
    if unread_c:
        made = operands_of(case, data, seed, False)
        return OPERANDS.get(key, lambda: replace(made, c=_read_only(_unread(case.c, seed))), lambda made: (made.c,))
    return OPERANDS.get(key, lambda: _fresh(case, data, seed), lambda made: tuple(made.by_name.values()))


def _unread(c: Matrix, seed: int) -> Floats:
    """A C that must not be read: NaN, or, for some seeds, what else 0 times it would show, and -0."""
    rng = np.random.default_rng(seed + 1)
    if c.dtype.is_integer:
        return rng.integers(0, 256, c.bytes, np.uint8).view(c.dtype.numpy)
    flat = _unused(c)
    if seed % UNREAD_SEEDS == UNREAD_SEEDS - 1:
        view = c.stored.view(flat)
        _repeat(rng.choice(_known(UNREAD, c.dtype), min(view.size, REPEATED)).astype(c.dtype.numpy), view)
    return flat


def _known(values: tuple[float, ...], dtype: DType) -> Floats:
    """Those of `values` that `dtype` has."""
    return np.array([x for x in values if dtype.has_infinity or not math.isinf(x)])


def _unused(matrix: Matrix) -> Floats:
    """Storage that no kernel may use. Memory that is new takes long at its first touch, so that threads share it."""
    storage = np.empty(matrix.bytes, np.uint8)
    parts = [storage[first : first + TOUCHED_BYTES] for first in range(0, storage.size, TOUCHED_BYTES)]
    in_threads(lambda part: part.fill(CANARY & 0xFF), parts)
    return storage.view(matrix.dtype.numpy)


def _storage(matrix: Matrix) -> Floats:
    """Storage whose elements are still to come; padding between them is unused already."""
    if matrix.bytes != matrix.stored.least_bytes:
        return _unused(matrix)
    return np.empty(matrix.bytes, np.uint8).view(matrix.dtype.numpy)


def _repeat(values: Floats, view: Floats) -> None:
    """`values` again and again, along the lines of `view` as they lie in memory."""
    lines = view if view.strides[-1] == view.itemsize else view.swapaxes(-1, -2)
    if not lines.flags.c_contiguous:
        lines[...] = np.resize(values, lines.shape)
        return
    flat = lines.reshape(-1)
    parts = [flat[first : first + len(values)] for first in range(0, flat.size, len(values))]
    in_threads(lambda part: np.copyto(part, values[: part.size]), parts)


def _read_only(values: Floats) -> Floats:
    values.flags.writeable = False
    return values


def _fresh(case: Case, data: DataKind, seed: int) -> Operands:
    rng, side = np.random.default_rng(seed), side_of(seed)
    named = zip("ABC", case.matrices, strict=True)
    a, b, c = (_fill(name, matrix, case, data, rng, side, seed) for name, matrix in named)
    if data == "special" and case.k > 0:
        _oppose(case, {"A": a, "B": b}, side, rng)
    for flat in (a, b, c):
        _read_only(flat)
    extra = {name: _read_only(_fill_extra(name, matrix, case, data, rng, seed)) for name, matrix in case.extra.items()}
    return Operands(a, b, c, extra)


def _fill(
    name: str, matrix: Matrix, case: Case, data: DataKind, rng: np.random.Generator, side: Side, seed: int
) -> Floats:
    flat = _storage(matrix)
    if not matrix.elements:
        return flat
    view, dtype = matrix.stored.view(flat), matrix.dtype
    if data == "onehot" and name == side:
        view[...] = selection(name, view.shape, rng)
    elif data == "sparse" and name == side:
        _fill_sparsely(name, view, case, rng)
    elif data == "onehot":
        types = case.problem.types
        exact = types.compute in (Compute.FMA, Compute.BF16X6)  # codes are; others and C would add up to no exact sum
        whole = types.uniform and exact
        coded = name != "C" or whole
        known = DType.F16 if types.compute is Compute.TF32 else dtype  # whose numbers tf32 has
        view[...] = codes(view.shape, known, digit=seed // 8 % 2) if coded else 0
        if known == DType.F32 and coded and case.problem.epilogue.is_linear:
            code_fully(name, view, side)
    elif math.prod(view.shape) > REPEATED and data != "denormal":
        _repeat(_values(name, (REPEATED,), case, data, rng, seed), view)
    else:
        view[...] = _values(name, view.shape, case, data, rng, seed)
    if data == "special" and not dtype.is_integer:
        _strew_specials(name, view, case, rng)
    return flat


def _fill_sparsely(name: str, view: Floats, case: Case, rng: np.random.Generator) -> None:
    """SPARSE_PRODUCTS elements in each row of A, or column of B, and zeros beside them."""
    view[...] = 0
    axis = -1 if name == "A" else -2
    shape = list(view.shape)
    shape[axis] = min(SPARSE_PRODUCTS, shape[axis])
    places = rng.integers(0, view.shape[axis], shape)
    np.put_along_axis(view, places, _spread(name, tuple(shape), case, rng), axis)


def _spread(name: str, shape: tuple[int, ...], case: Case, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Numbers of full mantissa and either sign, some 2^SPREAD and some 2^-SPREAD; of integers any."""
    dtype, types = case.tensors[name].dtype, case.problem.types
    if dtype.is_integer:
        return _integers(dtype, shape, rng)
    floats = [one for one in (types.a, types.b, types.c) if not one.is_integer]
    spread = min(SPREAD, *((one.max_exponent - one.min_exponent) // 4 for one in floats))
    exponents = rng.integers(-spread, spread, shape, np.int32, endpoint=True)
    signs = 1 - 2 * rng.integers(0, 2, shape, np.int8)
    real = np.float64 if dtype == DType.F64 else np.float32
    values: npt.NDArray[Any] = np.ldexp((1 - rng.random(shape, real) / 2) * signs, exponents).astype(dtype.numpy)
    return values


def _integers(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[Any]:
    return rng.integers(int(dtype.least), int(dtype.largest), shape, np.int64, endpoint=True).astype(dtype.numpy)


def _adds_up(name: str, case: Case, seed: int) -> bool:
    """Whether random A and B have one sign each, so that their sums grow as K does, and not as its root: where C holds
    such sums, or a factor makes them as small as that, every other seed; where alpha does, always."""
    a, b, c = (matrix.dtype for matrix in case.matrices)
    whole = any(dtype.is_integer for dtype in (a, b))
    most = DType.S32.largest if whole else float(case.k) ** case.problem.products
    holds = c.largest >= most or (c.saturates and _first_factor(case) is not None)
    return name != "C" and (shows_limits(case) or (seed % 2 == 1 and holds))


def _at_limits(case: Case, seed: int) -> bool:
    """Whether integers that add up are the largest, or least, as far as their sums have 32 bits."""
    a, b = (float(dtype.largest - dtype.least) / (1 + dtype.is_signed) for dtype in (case.a.dtype, case.b.dtype))
    return (shows_limits(case) or seed % 4 == 1) and case.k * (a + 1) * (b + 1) < DType.S32.largest


def _of_one_sign(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator, limits: bool) -> npt.NDArray[Any]:
    """Any, or within one of the largest or the least."""
    least, largest = (int(dtype.least), 0) if dtype.is_signed and rng.integers(2) else (0, int(dtype.largest))
    if limits:
        least, largest = (least, least + 1) if least else (largest - 1, largest)
    return rng.integers(least, largest, shape, np.int64, endpoint=True).astype(dtype.numpy)


def _values(
    name: str, shape: tuple[int, ...], case: Case, data: DataKind, rng: np.random.Generator, seed: int
) -> npt.NDArray[Any]:
    """Of A, B or C, as elements: what does not depend on where an element is."""
    dtype = case.tensors[name].dtype
    if dtype.is_integer and (data != "exact" or case.problem.types.scalar.is_integer):
        if _adds_up(name, case, seed):
            return _of_one_sign(dtype, shape, rng, _at_limits(case, seed))
        return _integers(dtype, shape, rng)
    if data == "sparse":
        return _spread(name, shape, case, rng)
    if data == "exact":
        limit = exact_magnitude(case)
        return rng.integers(-limit if dtype.is_signed else 0, limit, shape, np.int8, endpoint=True).astype(dtype.numpy)
    if data == "random" and dtype.storage_bits == 8 and seed // 2 % 2:
        return rng.choice(dtype.finite(), shape)
    values = 2 * rng.random(shape, np.float64 if dtype == DType.F64 else np.float32) - 1
    if data == "random" and _adds_up(name, case, seed):
        values = np.copysign(values, values.dtype.type(rng.choice((-1, 1))))
    _reshape(name, values, dtype, data, case, rng, side_of(seed))
    wanted = np.clip(values, dtype.least, dtype.largest) if data == "huge" else values
    return wanted.astype(dtype.numpy)


def _fill_extra(name: str, matrix: Matrix, case: Case, data: DataKind, rng: np.random.Generator, seed: int) -> Floats:
    """An operand of the epilogue: where data is exact, integers, and powers of two for factors; else as C, or A."""
    flat, dtype = _unused(matrix), matrix.dtype
    if EPILOGUE_OPERANDS[name].written:
        return flat
    view = matrix.stored.view(flat)
    view[...] = _extra_values(name, view.shape, case, data, rng)
    if not dtype.is_integer and name in FACTORS and balances(case):
        view *= dtype.numpy.type(2.0 ** ((dtype.max_exponent + 1) // 2))
    elif not dtype.is_integer and name == _first_factor(case):
        view *= dtype.numpy.type(
            _into_range(case, data == "random" and _adds_up("A", case, seed), _at_limits(case, seed))
        )
    return flat


def _extra_values(
    name: str, shape: tuple[int, ...], case: Case, data: DataKind, rng: np.random.Generator
) -> npt.NDArray[Any]:
    dtype, factor = case.extra[name].dtype, name in FACTORS
    if name in ZEROS or name in SUMS:
        most = 8 if data in EXACT_KINDS else 255 if name in ZEROS else 128 * math.isqrt(case.k + 1)
        if dtype.is_integer and data not in EXACT_KINDS and rng.integers(2):
            most = LARGE_ZERO  # what floats would round
        return rng.integers(-most, most, shape, endpoint=True)
    if dtype.is_integer:
        most = 8 if data in EXACT_KINDS else int(dtype.largest)  # sums wrap around
        return rng.integers(-most, most, shape, endpoint=True)
    if data in EXACT_KINDS:
        return rng.choice(EXACT_FACTORS, shape) if factor else rng.integers(-8, 8, shape, endpoint=True)
    values: Floats = 2 * rng.random(shape, dtype.numpy) - 1
    if data == "special" and case.c.dtype.has_nan:
        _strew_specials(name, values, case, rng)
    elif not factor:
        _reshape("C", values, dtype, data, case, rng)
    elif data in FACTOR_EXPONENTS and name == _first_factor(case):
        far = rng.random(shape) < FACTOR_SHARE
        values[far] = np.ldexp(values[far], FACTOR_EXPONENTS[data] * dtype.max_exponent // 128)
    return values


def _first_factor(case: Case) -> str | None:
    return next((one for one in FACTORS if one in case.extra), None)


def _into_range(case: Case, one_sign: bool, limits: bool) -> float:
    """A power of two that brings most sums into the range of a C which saturates; 1 for others."""
    if not case.c.dtype.saturates:
        return 1.0
    share = 1.0 if limits else 0.5
    a, b = (dtype.largest * share if dtype.is_integer else 1.0 for dtype in case.problem.types.operands[:2])
    largest = case.c.dtype.largest ** (1 / case.problem.products)
    terms = float(case.k + 1) if one_sign else math.sqrt(case.k + 1)
    return float(2.0 ** round(math.log2(largest / (2 * a * b * terms))))


def _reshape(
    name: str, values: Floats, dtype: DType, data: DataKind, case: Case, rng: np.random.Generator, side: Side = "A"
) -> None:
    """Make of random values, in place, what `data` is. Of A and B the one of `side` is denormal."""
    if data == "denormal" and name in ("C", side):
        if name != "C" and case.flops > DENORMAL_FLOPS:
            normal = rng.random(values.shape) > DENORMAL_FLOPS / case.flops
            values[normal] += NEAR_DENORMAL * np.sign(values[normal])
            shorter = rng.integers(0, dtype.precision - 1, values.shape) * rng.integers(0, 2, values.shape)
            values[~normal] *= 2.0 ** -shorter[~normal]  # few, of which some are to have few bits
        values *= values.dtype.type(2.0 ** (dtype.min_exponent - 1))
    elif data == "huge":
        values *= values.dtype.type(_huge_factor(name, dtype, case))


def _strew_specials(name: str, values: Floats, case: Case, rng: np.random.Generator) -> None:
    """NaN, Inf and zeros in some places of `values`."""
    known = _known(SPECIALS, case.tensors[name].dtype)
    if name in SIDES:
        count = values.size // max(MOST_SPECIALS, SUMS_WITHOUT * case.k)
    else:
        count = 1 + values.size // MOST_SPECIALS
    places = rng.integers(0, values.shape, (count, values.ndim))
    values[tuple(places.T)] = rng.choice(known, count).astype(values.dtype)


def _oppose(case: Case, storage: Mapping[str, Floats], side: Side, rng: np.random.Generator) -> None:
    """Inf in some rows of A, or columns of B, each of which meets zeros of the other operand; some have two of them.

    So a product of 0 and Inf, and a sum of Inf and -Inf, is somewhere in most tiles. Of the other operand whole strips
    are tiny, or 0, beside Inf as well: kernels may skip fragments that hold nothing, or flush what is tiny.
    """
    a, b = (case.tensors[name].stored.view(storage[name]) for name in SIDES)
    lines, others = (a, b) if side == "A" else (b.swapaxes(-1, -2), a.swapaxes(-1, -2))
    if not case.tensors[side].dtype.has_infinity:
        return
    count, width = lines.shape[-2], others.shape[-1]
    chosen = rng.choice(count, min(count, 1 + count // OPPOSED_LINES, 1 + OPPOSED_PRODUCTS // width), replace=False)
    first, second = rng.integers(0, case.k, (2, len(chosen)))
    strips = [_strip(case.k, width, rng) for _ in STRIPS]
    for place, (start, stop, *_) in enumerate(strips):  # some have their Inf beside a strip, for certain
        first[place :: len(strips) + 1] = rng.integers(start, stop, len(first[place :: len(strips) + 1]))
    lines[..., chosen, first] = np.inf
    lines[..., chosen[::2], second[::2]] = -np.inf
    for (start, stop, left, right), held in zip(strips, STRIPS, strict=True):
        strip = others[..., start:stop, left:right]
        strip[...] = _tiny(case, SIDES[side == "A"], strip.shape, rng) if held == "tiny" else 0
    meets = rng.random((len(chosen), width), np.float32) < OPPOSED_SHARE
    meets[np.arange(len(chosen)), rng.integers(0, width, len(chosen))] = True
    of_line, met = np.nonzero(meets)
    others[..., first[of_line], met] = 0


def _strip(depth: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """From which k to which, and from which column: all of the one or of the other."""
    return (0, depth, *_interval(width, rng)) if rng.integers(2) else (*_interval(depth, rng), 0, width)


def _interval(size: int, rng: np.random.Generator) -> tuple[int, int]:
    first, last = np.sort(rng.integers(0, size, 2))
    return int(first), int(last) + 1


def _tiny(case: Case, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Powers of two from the smallest number of A or B on that products take as it is, of either sign.

    Of large products they are not denormal.
    """
    dtype, types = case.tensors[name].dtype, case.problem.types
    if dtype.is_integer:
        return np.ones(shape)
    denormal = case.flops <= TINY_FLOPS and "denormal" in data_kinds(types)
    least = dtype.smallest if denormal else 2.0**dtype.min_exponent
    tiny: Floats = np.ldexp(rng.choice((least, -least), shape), rng.integers(0, dtype.precision, shape))
    return tiny


def _huge_factor(name: str, dtype: DType, case: Case) -> float:
    """With which products, and C, come near the largest number of C's type, or of the sums'."""
    types = case.problem.types
    top = min(types.c.max_exponent, types.accumulator.max_exponent) // case.problem.products
    factor = 2.0 ** ((top - HUGE_MARGIN) // 2)
    wanted: float = factor**2 if name == "C" else factor / (case.k + 1) ** 0.5
    return min(wanted, 2.0 ** (dtype.max_exponent - 1))


def exact_magnitude(case: Case) -> int:
    """The largest integer whose products, summed K times and scaled by the exact scalars, stay exact.

    And of which most sums do not exceed the range of C's type.
    """
    types = case.problem.types
    scale = max(abs(scalar) for scalar in EXACT_SCALARS)
    limit = int((2 ** exact_bits(types) / (scale * (case.k + 1))) ** 0.5)
    largest = types.c.largest ** (1 / case.problem.products)  # of a sum: an epilogue multiplies two
    in_range = int((largest / (2 * scale * (case.k + 1) ** 0.5)) ** 0.5)
    return max(1, min(LARGEST_INTEGER, limit, in_range, types.a.exact_integers, types.b.exact_integers))


def exact_bits(types: Types) -> int:
    """Sums of integers below 2^this are exact, and stay so when they are scaled.

    Promoted sums are of as many products as LARGEST_INTEGER leaves exact.
    """
    kept = {Compute.F16: DType.F16.precision, Compute.FAST: 13}.get(types.compute, types.accumulator.precision)
    return min(kept, types.scalar.precision)
