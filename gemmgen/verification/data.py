"""Makes the operands of a situation. `reference` describes the kinds of data and their expected results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.convolution import Convolution
from gemmgen.problem.dtype import CANARY, DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.operands import is_written
from gemmgen.problem.types import Compute, Types
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.bounded_cache import Recent
from gemmgen.support.threads import in_threads
from gemmgen.verification.companions import (
    EXACT_SCALES,
    Wanted,
    alone,
    code_fully,
    code_span,
    codes,
    draw_companions,
    selection,
    without_effect,
)
from gemmgen.verification.host_memory import installed_bytes
from gemmgen.verification.situation import (
    EXACT_KINDS,
    EXACT_SCALARS,
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
ZEROS, SUMS = ("zero_m", "zero_n", "zero_a", "zero_b"), ("sum_m", "sum_n")  # epilogue operands that are integers
LARGE_ZERO = 2**22  # multiplied by K it exceeds 24 bits, and rarely 31
EXACT_FACTORS = (0.5, 1.0, 2.0, -1.0)
SPECIALS = (np.inf, -np.inf, np.nan, 0.0, -0.0)
MOST_SPECIALS = 64  # at most one element in 64 is special; fewer with a long K, so that many sums stay finite:
SUMS_WITHOUT = 4  # about one sum in 4 meets a special element of A, or of B
OPPOSED_LINES = 4  # one row of A, or column of B, in 4 has an Inf that meets zeros,
OPPOSED_PRODUCTS = 2**22  # as long as these rows have no more elements of C than this
STRIPS = ("tiny", "0", "0")  # contents of strips of the other operand that meet some of these Inf
OPPOSED_SHARE = 0.25  # share of zeros among the elements that meet such an Inf; at least one
UNREAD_SEEDS = 4  # one seed in 4 has other values than NaN in a C that must not be read
UNREAD = (np.inf, -np.inf, np.nan, -0.0, 1.0)
SPARSE_PRODUCTS = 3  # nonzero products per sum
SPREAD = 8  # sparse data spans 2^-8 to 2^8, if its types do
# Share of the epilogue's first factor that is huge if sums are denormal, and denormal if they are huge.
FACTOR_SHARE = 0.25
FACTOR_EXPONENTS: dict[DataKind, int] = {"denormal": 100, "huge": -130}  # in f32
DENORMAL_FLOPS = 1e6  # per launch, with a denormal factor: denormal arithmetic is slow
TINY_FLOPS = 1e7  # larger launches have no denormal numbers in their strips
NEAR_DENORMAL = 8  # times the largest denormal: sums of such products are rarely denormal, and hide no denormal one
HUGE_MARGIN = 3  # huge products stay 2^3 below the largest number
# Data and reference of large cases take long to make: from so many FLOPs on, all seeds share so many sets of data.
LARGE_EFFORT = 10**9
SHARED_DATA = ((LARGE_EFFORT, 2), (10**8, 4), (10**7, 8))
ELEMENT_FLOPS = 32  # cost of making, reading and converting an element
REPEATED = 1_048_573  # large data repeats after so many elements; a prime number, so that no two rows are equal
TOUCHED_BYTES = 2**22  # new memory that one thread fills

# Operands are cached: all candidates of a search use the same data.
MEMORY = installed_bytes()
OPERANDS = Recent(64, max(2**30, MEMORY // 16))  # a situation of 8192 x 8192 x 8192 takes 2^30


def make_operands(situation: Situation) -> Operands:
    """A, B and C for `situation`. Padding and an unread C, which a kernel must not use, are NaN; integer padding is -1.

    An unread integer C is random, by the seed, so that a kernel which reads it is found.
    """
    case = situation.case
    unread = case.beta == 0 or not case.problem.epilogue.reads_c
    return operands_of(unscaled(case), situation.data, data_seed(situation), unread)


def unscaled(case: Case) -> Case:
    """`case` with neutral scalars, for which data is cached. Data depends on alpha with large factors or integers."""
    alpha = case.alpha if balances(case) else limit_scale(case) if shows_limits(case) else 1.0
    return replace(case, alpha=alpha, beta=0.0)


def effort(case: Case) -> float:
    """The cost of making data and reference of `case`, in FLOPs."""
    return case.flops + ELEMENT_FLOPS * sum(matrix.elements for matrix in case.matrices)


def data_seed(situation: Situation) -> int:
    """The seed of the situation's data. Large situations share a few sets of data."""
    sets = next((sets for least, sets in SHARED_DATA if effort(situation.case) > least), None)
    return situation.seed if sets is None else situation.seed % sets


def operands_of(case: Case, data: DataKind, seed: int, unread_c: bool) -> Operands:
    """Cached, read-only operands: the same object for the same arguments."""
    key = case, data, seed, unread_c
    if unread_c:
        made = operands_of(case, data, seed, False)
        return OPERANDS.get(key, lambda: replace(made, c=_read_only(_unread(case.c, seed))), lambda made: (made.c,))
    return OPERANDS.get(key, lambda: _fresh(case, data, seed), lambda made: tuple(made.by_name.values()))


def _unread(c: Matrix, seed: int) -> Floats:
    """A C that must not be read: NaN, or for some seeds a mix of Inf, NaN, -0 and 1."""
    rng = np.random.default_rng(seed + 1)
    if c.dtype.is_integer:
        return rng.integers(0, 256, c.bytes, np.uint8).view(c.dtype.numpy)
    flat = _unused(c)
    if seed % UNREAD_SEEDS == UNREAD_SEEDS - 1:
        view = c.stored.view(flat)
        _repeat(rng.choice(_known(UNREAD, c.dtype), min(view.size, REPEATED)).astype(c.dtype.numpy), view)
    return flat


def _known(values: tuple[float, ...], dtype: DType) -> Floats:
    """The `values` that `dtype` can represent."""
    return np.array([x for x in values if dtype.has_infinity or not math.isinf(x)])


def _unused(matrix: Matrix) -> Floats:
    """Storage of canaries, which no kernel may use. Threads share the slow first touch of new memory."""
    storage = np.empty(matrix.elements * matrix.dtype.numpy.itemsize, np.uint8)
    parts = [storage[first : first + TOUCHED_BYTES] for first in range(0, storage.size, TOUCHED_BYTES)]
    in_threads(lambda part: part.fill(CANARY & 0xFF), parts)
    return storage.view(matrix.dtype.numpy)


def _storage(matrix: Matrix) -> Floats:
    """Storage with canaries in the padding. The elements are not yet set."""
    if matrix.elements != matrix.stored.least_elements:
        return _unused(matrix)
    return np.empty(matrix.elements, matrix.dtype.numpy)


def _repeat(values: Floats, view: Floats) -> None:
    """Fill `view` with repetitions of `values`, along its lines in memory."""
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
    beside = {} if case.problem.inputs.is_plain else _fill_companions(case, b, data, rng, side, seed)
    conv = case.problem.inputs.conv
    if conv is not None and data in ("onehot", "sparse") and side == case.problem.inputs.images == "A":
        case.a.view(a)[~alone(conv, case.a.rows, rng)] = 0
    if conv is not None and data == "special" and case.problem.inputs.wgrad:
        _finish_images(conv, case.b.view(b), case.k)
    if data == "special" and case.k > 0 and conv is None:
        _oppose(case, {"A": a, "B": b}, side, rng)
    for name, mask in without_effect(case, beside).items():
        _spoil({"A": a, "B": b}[name], case.tensors[name], mask)
    for flat in (a, b, c):
        _read_only(flat)
    extra = {
        name: _read_only(beside[name] if name in beside else _fill_extra(name, matrix, case, data, rng, seed))
        for name, matrix in case.extra.items()
    }
    return Operands(a, b, c, extra)


def _finish_images(conv: Convolution, pixels: Floats, places: int) -> None:
    """Make numbers of the pixels of an image in which the places end: zeros multiply them, too."""
    whole = places // (conv.places[0] * conv.places[1])
    rest = pixels[whole * conv.pixels :]
    rest[~np.isfinite(rest.astype(np.float32))] = 0


def _spoil(flat: Floats, matrix: Matrix, mask: npt.NDArray[np.bool_]) -> None:
    """Put NaN, where the type has one, in elements that nothing of C depends on."""
    if not matrix.dtype.is_integer and matrix.elements:
        matrix.stored.view(flat)[matrix.stored.view(mask)] = np.nan


def _fill_companions(
    case: Case, b: Floats, data: DataKind, rng: np.random.Generator, side: Side, seed: int
) -> dict[str, Floats]:
    """The tensors that go with A and B; B gets the codes that go with its scales."""
    a = case.a.dtype
    size = 1.0
    if data == "huge":
        size = _huge_scale(case) if case.problem.inputs.blocks else _huge_factor("B", a, case)
    elif data == "denormal" and side == "B" and case.flops <= DENORMAL_FLOPS:
        size = 2.0 ** (a.min_exponent - 1)
    wanted = Wanted(
        data,
        selects=data in ("onehot", "sparse") and side == "B",
        chosen=SPARSE_PRODUCTS,
        one_sign=data == "random" and _adds_up("B", case, seed),
        exact=_exact_codes(case) if case.problem.coded else 0,
        size=size,
    )
    found = {}
    for name, values in draw_companions(case, wanted, rng).items():
        matrix = case.tensors[name]
        found[name] = b if name == "B" else _storage(matrix)
        if matrix.elements:
            with np.errstate(over="ignore"):
                matrix.view(found[name])[...] = values.astype(matrix.dtype.numpy)
    return found


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
        exact = types.compute in (Compute.FMA, Compute.BF16X6)  # otherwise sums of codes and of C are not exact
        whole = types.uniform and exact
        coded = name != "C" or whole
        known = DType.F16 if types.compute is Compute.TF32 else dtype  # every f16 is a tf32
        view[...] = codes(view.shape, known, digit=seed // 8 % 2) if coded else 0
        inputs = case.problem.inputs
        paired = not (inputs.gathered or inputs.conv or inputs.along_k)  # rows of A and C, by their numbers
        if known == DType.F32 and coded and paired and case.problem.epilogue.is_linear:
            code_fully(name, view, side)
    elif math.prod(view.shape) > REPEATED and data != "denormal":
        _repeat(_values(name, (REPEATED,), case, data, rng, seed), view)
    else:
        view[...] = _values(name, view.shape, case, data, rng, seed)
    if data == "special" and not dtype.is_integer:
        _strew_specials(name, view, case, rng)
    return flat


def _fill_sparsely(name: str, view: Floats, case: Case, rng: np.random.Generator) -> None:
    """SPARSE_PRODUCTS elements in each row of A, or column of B; the rest is zero."""
    view[...] = 0
    axis = -1 if name == "A" else -2
    shape = list(view.shape)
    shape[axis] = min(SPARSE_PRODUCTS, shape[axis])
    places = rng.integers(0, view.shape[axis], shape)
    np.put_along_axis(view, places, _spread(name, tuple(shape), case, rng), axis)


def _spread(name: str, shape: tuple[int, ...], case: Case, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Numbers of full mantissa and either sign, from 2^-SPREAD to 2^SPREAD; any integers for an integer type."""
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
    """Whether random A and B have one sign each, so that sums grow with K and not with its root.

    True for every other seed if C can hold such sums or a factor makes them small enough; always if alpha does.
    """
    a, b, c = (matrix.dtype for matrix in case.matrices)
    whole = any(dtype.is_integer for dtype in (a, b))
    most = DType.S32.largest if whole else float(case.k) ** case.problem.products
    holds = c.largest >= most or (c.saturates and _first_factor(case) is not None)
    return name != "C" and (shows_limits(case) or (seed % 2 == 1 and holds))


def _at_limits(case: Case, seed: int) -> bool:
    """Whether operands of one sign are close to the limits of their types. Sums must fit 32 bits."""
    a, b = (float(dtype.largest - dtype.least) / (1 + dtype.is_signed) for dtype in (case.a.dtype, case.b.dtype))
    return (shows_limits(case) or seed % 4 == 1) and case.k * (a + 1) * (b + 1) < DType.S32.largest


def _of_one_sign(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator, limits: bool) -> npt.NDArray[Any]:
    """Integers of one sign: any, or with `limits` the largest or the least two of the type."""
    least, largest = (int(dtype.least), 0) if dtype.is_signed and rng.integers(2) else (0, int(dtype.largest))
    if limits:
        least, largest = (least, least + 1) if least else (largest - 1, largest)
    return rng.integers(least, largest, shape, np.int64, endpoint=True).astype(dtype.numpy)


def _values(
    name: str, shape: tuple[int, ...], case: Case, data: DataKind, rng: np.random.Generator, seed: int
) -> npt.NDArray[Any]:
    """Elements of A, B or C, for kinds of data that do not depend on an element's position."""
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
    """An operand of the epilogue. For exact data: integers, and powers of two for factors; else values as in C or A."""
    flat, dtype = _unused(matrix), matrix.dtype
    if is_written(name):
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
            most = LARGE_ZERO  # floats would round these sums
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
    """A power of two that brings most sums into the range of a saturating C; 1 if C does not saturate."""
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
    """Change random values, in place, to denormal or huge ones. Of A and B, only the operand `side` is denormal."""
    if data == "denormal" and name in ("C", side):
        if name != "C" and case.flops > DENORMAL_FLOPS:
            normal = rng.random(values.shape) > DENORMAL_FLOPS / case.flops
            values[normal] += NEAR_DENORMAL * np.sign(values[normal])
            shorter = rng.integers(0, dtype.precision - 1, values.shape) * rng.integers(0, 2, values.shape)
            values[~normal] *= 2.0 ** -shorter[~normal]  # denormals are few, so some get short mantissas
        values *= values.dtype.type(2.0 ** (dtype.min_exponent - 1))
    elif data == "huge":
        values *= values.dtype.type(_huge_factor(name, dtype, case))


def _strew_specials(name: str, values: Floats, case: Case, rng: np.random.Generator) -> None:
    """Put NaN, Inf and zeros into some places of `values`."""
    known = _known(SPECIALS, case.tensors[name].dtype)
    if name in SIDES:
        count = values.size // max(MOST_SPECIALS, SUMS_WITHOUT * case.k)
    else:
        count = 1 + values.size // MOST_SPECIALS
    places = rng.integers(0, values.shape, (count, values.ndim))
    values[tuple(places.T)] = rng.choice(known, count).astype(values.dtype)


def _oppose(case: Case, storage: Mapping[str, Floats], side: Side, rng: np.random.Generator) -> None:
    """Put one or two Inf into some rows of A, or columns of B, and zeros that meet them into the other operand.

    So most tiles have a product of 0 and Inf, and a sum of Inf and -Inf. Whole strips of the other operand are also
    tiny or 0, and meet Inf: this finds kernels that skip fragments of zeros or flush tiny numbers.
    """
    a, b = (case.tensors[name].stored.view(storage[name]) for name in SIDES)
    lines, others = (a, b) if side == "A" else (b.swapaxes(-1, -2), a.swapaxes(-1, -2))
    if not case.tensors[side].dtype.has_infinity:
        return
    count, width = lines.shape[-2], others.shape[-1]
    chosen = rng.choice(count, min(count, 1 + count // OPPOSED_LINES, 1 + OPPOSED_PRODUCTS // width), replace=False)
    first, second = rng.integers(0, case.k, (2, len(chosen)))
    strips = [_strip(case.k, width, rng) for _ in STRIPS]
    for place, (start, stop, *_) in enumerate(strips):  # some Inf meet a strip for certain
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
    """(first k, end, first column, end) of a strip that covers all of K or all columns."""
    return (0, depth, *_interval(width, rng)) if rng.integers(2) else (*_interval(depth, rng), 0, width)


def _interval(size: int, rng: np.random.Generator) -> tuple[int, int]:
    first, last = np.sort(rng.integers(0, size, 2))
    return int(first), int(last) + 1


def _tiny(case: Case, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Powers of two of either sign, from the smallest number of the type on that products do not flush.

    Launches beyond TINY_FLOPS get no denormal ones.
    """
    dtype, types = case.tensors[name].dtype, case.problem.types
    if dtype.is_integer:
        return np.ones(shape)
    denormal = case.flops <= TINY_FLOPS and "denormal" in data_kinds(types)
    least = dtype.smallest if denormal else 2.0**dtype.min_exponent
    tiny: Floats = np.ldexp(rng.choice((least, -least), shape), rng.integers(0, dtype.precision, shape))
    return tiny


def _huge_factor(name: str, dtype: DType, case: Case) -> float:
    """The factor that brings products and C near the largest number of C's type, or of the sums' type."""
    types = case.problem.types
    top = min(types.c.max_exponent, types.accumulator.max_exponent) // case.problem.products
    factor = 2.0 ** ((top - HUGE_MARGIN) // 2)
    wanted: float = factor**2 if name == "C" else factor / (case.k + 1) ** 0.5
    return min(wanted, 2.0 ** (dtype.max_exponent - 1))


def _huge_scale(case: Case) -> float:
    """The same for the scales of a block, which are in two operands, beside elements that are as large as may be."""
    types = case.problem.types
    top = min(types.c.max_exponent, types.accumulator.max_exponent) - HUGE_MARGIN - 2 * SPREAD
    elements = _huge_factor("A", types.a, case) * _huge_factor("B", types.b, case)
    return float(np.sqrt(2.0**top / (elements * (case.k + 1))))


def exact_magnitude(case: Case) -> int:
    """The largest integer for exact data: K products and the exact scalars give exact sums.

    Most sums also stay in the range of C's type.
    """
    types = case.problem.types
    scale = max(abs(scalar) for scalar in EXACT_SCALARS)
    if case.problem.coded:  # of A: B has the largest numbers
        most = max(EXACT_SCALES) * _exact_codes(case)
        in_range = int(types.c.largest / (2 * scale * (case.k + 1) ** 0.5 * most))
        return max(1, min(LARGEST_INTEGER, int(_exact_products(case) / most), in_range))
    if case.problem.inputs.blocks:
        scale *= max(EXACT_SCALES) ** 2
    limit = int((2.0 ** exact_bits(types) / (scale * (case.k + 1))) ** 0.5)
    largest = types.c.largest ** (1 / case.problem.products)  # per sum: an epilogue may multiply all
    in_range = int((largest / (2 * scale * (case.k + 1) ** 0.5)) ** 0.5)
    return max(1, min(LARGEST_INTEGER, limit, in_range, types.a.exact_integers, types.b.exact_integers))


def _exact_products(case: Case) -> float:
    """The largest products of which K, scaled, have an exact sum."""
    scale = max(abs(scalar) for scalar in EXACT_SCALARS)
    return 2.0 ** exact_bits(case.problem.types) / (scale * (case.k + 1))


def _exact_codes(case: Case) -> int:
    """The largest difference of a code of B and its zero point for exact data: any, where K is short enough."""
    return max(1, min(code_span(case.problem.types), int(_exact_products(case) / max(EXACT_SCALES))))


def exact_bits(types: Types) -> int:
    """Sums of integers below 2^this are exact, also after they are scaled.

    Promotion is not counted: LARGEST_INTEGER keeps the sums between promotions exact.
    """
    kept = {Compute.F16: DType.F16.precision, Compute.FAST: 13}.get(types.compute, types.accumulator.precision)
    return min(kept, types.scalar.precision)
