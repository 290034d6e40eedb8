"""Makes the operands of a situation. `reference` describes the kinds of data and their expected results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import CANARY, DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.operands import is_written
from gemmgen.problem.types import Compute
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.bounded_cache import Recent
from gemmgen.support.threads import in_threads
from gemmgen.verification.companions import Wanted, alone, code_fully, codes, draw_companions, select, without_effect
from gemmgen.verification.host_memory import installed_bytes
from gemmgen.verification.magnitudes import (
    SPREAD,
    adds_up,
    at_limits,
    exact_codes,
    exact_magnitude,
    first_factor,
    huge_factor,
    huge_scale,
    into_range,
)
from gemmgen.verification.situation import (
    EXACT_KINDS,
    FACTORS,
    DataKind,
    Side,
    Situation,
    balances,
    limit_scale,
    shows_limits,
    side_of,
)
from gemmgen.verification.specials import finish_images, oppose, representable, strew_specials

ZEROS, SUMS = ("zero_m", "zero_n", "zero_a", "zero_b"), ("sum_m", "sum_n")  # epilogue operands that are integers
LARGE_ZERO = 2**22  # multiplied by K it exceeds 24 bits, and rarely 31
EXACT_FACTORS = (0.5, 1.0, 2.0, -1.0)
UNREAD_SEEDS = 4  # one seed in 4 has other values than NaN in a C that must not be read
UNREAD = (np.inf, -np.inf, np.nan, -0.0, 1.0)
SPARSE_PRODUCTS = 3  # nonzero products per sum
# Share of the epilogue's first factor that is huge if sums are denormal, and denormal if they are huge.
FACTOR_SHARE = 0.25
FACTOR_EXPONENTS: dict[DataKind, int] = {"denormal": 100, "huge": -130}  # in f32
DENORMAL_FLOPS = 1e6  # per launch, with a denormal factor: denormal arithmetic is slow
NEAR_DENORMAL = 8  # times the largest denormal: sums of such products are rarely denormal, and hide no denormal one
# Data and reference of large cases take long to make: from so many FLOPs on, all seeds share so many sets of data.
LARGE_EFFORT = 10**9
SHARED_DATA = ((LARGE_EFFORT, 2), (10**8, 4), (10**7, 8))
ELEMENT_FLOPS = 32  # cost of making, reading and converting an element
REPEATED = 1_048_573  # large data repeats after so many elements; a prime number, so that no two rows are equal
TOUCHED_BYTES = 2**22  # new memory that one thread fills
# Elements that a thread makes at once, and rows at least: as many as a line of the cache has elements of a column.
PART, LEAST_ROWS = 2**20, 32

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


@lru_cache(maxsize=64)
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

    def make() -> Operands:
        if not unread_c:
            return _fresh(case, data, seed)
        return replace(operands_of(case, data, seed, False), c=_read_only(_unread(case.c, seed)))

    return OPERANDS.get((case, data, seed, unread_c), make, lambda made: made.by_name.values())


def _unread(c: Matrix, seed: int) -> Floats:
    """A C that must not be read: NaN, or for some seeds a mix of Inf, NaN, -0 and 1."""
    rng = np.random.default_rng(seed + 1)
    if c.dtype.is_integer:
        return rng.integers(0, 256, c.bytes, np.uint8).view(c.dtype.numpy)
    flat = _unused(c)
    if seed % UNREAD_SEEDS == UNREAD_SEEDS - 1:
        view = c.stored.view(flat)
        _repeat(rng.choice(representable(UNREAD, c.dtype), min(view.size, REPEATED)).astype(c.dtype.numpy), view)
    return flat


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
        _fill_in_parts(lines, lambda first, end: np.resize(np.roll(values, -first), end - first))
        return
    flat = lines.reshape(-1)
    parts = [flat[first : first + len(values)] for first in range(0, flat.size, len(values))]
    in_threads(lambda part: np.copyto(part, values[: part.size]), parts)


def _fill_in_parts(view: Floats, make: Callable[[int, int], npt.NDArray[Any]]) -> None:
    """Fill `view` with `make(first, end)`: the elements with these numbers, in row order. Threads share the work."""
    of_line = math.prod(view.shape[1:])
    step = max(1, PART // of_line, LEAST_ROWS * (view.ndim == 2))

    def fill(line: int) -> None:
        part = view[line : line + step]
        part[...] = make(line * of_line, line * of_line + part.size).reshape(part.shape)

    in_threads(fill, range(0, len(view), step))


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
        finish_images(conv, case.b.view(b), case.k)
    if data == "special" and case.k > 0 and conv is None:
        oppose(case, {"A": a, "B": b}, side, rng)
    for name, mask in without_effect(case, beside).items():
        _spoil({"A": a, "B": b}[name], case.tensors[name], mask)
    for flat in (a, b, c):
        _read_only(flat)
    extra = {
        name: _read_only(beside[name] if name in beside else _fill_extra(name, matrix, case, data, rng, seed))
        for name, matrix in case.extra.items()
    }
    return Operands(a, b, c, extra)


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
        size = huge_scale(case) if case.problem.inputs.blocks else huge_factor("B", a, case)
    elif data == "denormal" and side == "B" and case.flops <= DENORMAL_FLOPS:
        size = 2.0 ** (a.min_exponent - 1)
    wanted = Wanted(
        data,
        selects=data in ("onehot", "sparse") and side == "B",
        chosen=SPARSE_PRODUCTS,
        one_sign=data == "random" and adds_up("B", case, seed),
        exact=exact_codes(case) if case.problem.coded else 0,
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
        select(name, view, rng)
    elif data == "sparse" and name == side:
        _fill_sparsely(name, view, case, rng)
    elif data == "onehot":
        _fill_with_codes(name, view, case, side, seed)
    elif math.prod(view.shape) > REPEATED:
        _fill_large(name, view, case, data, rng, seed)
    else:
        view[...] = _values(name, view.shape, case, data, rng, seed)
    if data == "special" and not dtype.is_integer:
        strew_specials(name, view, case, rng)
    return flat


def _fill_with_codes(name: str, view: Floats, case: Case, side: Side, seed: int) -> None:
    """A number for each element, as one-hot data needs; zeros where sums of codes and of C are not exact."""
    dtype, types, inputs = case.tensors[name].dtype, case.problem.types, case.problem.inputs
    exact = types.compute in (Compute.FMA, Compute.BF16X6)
    if name == "C" and not (types.uniform and exact):
        view[...] = 0
        return
    known = DType.F16 if types.compute is Compute.TF32 else dtype  # every f16 is a tf32
    _fill_in_parts(view, partial(codes, dtype=known, digit=seed // 8 % 2))
    paired = not (inputs.by_index or inputs.conv or inputs.along_k)  # rows of A and C, by numbers
    if known == DType.F32 and paired and case.problem.epilogue.is_linear:
        code_fully(name, view, side)


def _fill_large(name: str, view: Floats, case: Case, data: DataKind, rng: np.random.Generator, seed: int) -> None:
    """Repeated elements of the kind of data; of denormal data few are denormal, and these do not repeat."""
    dtype = case.tensors[name].dtype
    if data == "denormal" and name == side_of(seed) and not dtype.is_integer:
        _fill_near_denormals(view, dtype, case, rng)
    else:
        _repeat(_values(name, (REPEATED,), case, data, rng, seed), view)


def _fill_sparsely(name: str, view: Floats, case: Case, rng: np.random.Generator) -> None:
    """SPARSE_PRODUCTS elements in each row of A, or column of B; the rest is zero."""
    view[...] = 0
    axis = -1 if name == "A" else -2
    shape = list(view.shape)
    shape[axis] = min(SPARSE_PRODUCTS, shape[axis])
    places = rng.integers(0, view.shape[axis], shape)
    np.put_along_axis(view, places, _spread(name, tuple(shape), case, rng), axis)


def _fill_near_denormals(view: Floats, dtype: DType, case: Case, rng: np.random.Generator) -> None:
    """Repeated numbers near the denormal ones, as `_reshape` makes them, and a few denormals anywhere."""
    least, real = 2.0 ** (dtype.min_exponent - 1), np.float64 if dtype == DType.F64 else np.float32
    near = 2 * rng.random(REPEATED, real) - 1
    _repeat(((near + NEAR_DENORMAL * np.sign(near)) * real(least)).astype(dtype.numpy), view)
    count = 1 + int(view.size * DENORMAL_FLOPS / case.flops)
    few = np.ldexp(2 * rng.random(count) - 1, -rng.integers(0, dtype.precision - 1, count) * rng.integers(0, 2, count))
    view[tuple(rng.integers(0, view.shape, (count, view.ndim)).T)] = (few * least).astype(dtype.numpy)


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
        if adds_up(name, case, seed):
            return _of_one_sign(dtype, shape, rng, at_limits(case, seed))
        return _integers(dtype, shape, rng)
    if data == "sparse":
        return _spread(name, shape, case, rng)
    if data == "exact":
        limit = exact_magnitude(case)
        return rng.integers(-limit if dtype.is_signed else 0, limit, shape, np.int8, endpoint=True).astype(dtype.numpy)
    if data == "random" and dtype.storage_bits == 8 and seed // 2 % 2:
        return rng.choice(dtype.finite(), shape)
    values = 2 * rng.random(shape, np.float64 if dtype == DType.F64 else np.float32) - 1
    if data == "random" and adds_up(name, case, seed):
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
    elif not dtype.is_integer and name == first_factor(case):
        view *= dtype.numpy.type(into_range(case, data == "random" and adds_up("A", case, seed), at_limits(case, seed)))
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
        strew_specials(name, values, case, rng)
    elif not factor:
        _reshape("C", values, dtype, data, case, rng)
    elif data in FACTOR_EXPONENTS and name == first_factor(case):
        far = rng.random(shape) < FACTOR_SHARE
        values[far] = np.ldexp(values[far], FACTOR_EXPONENTS[data] * dtype.max_exponent // 128)
    return values


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
        values *= values.dtype.type(huge_factor(name, dtype, case))
