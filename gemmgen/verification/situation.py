"""Situations: the sizes, scalars, kind of data and seed of one run of a kernel."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from gemmgen.families import k_tile_of
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.operands import OPERANDS
from gemmgen.problem.types import Compute, Types

DataKind = Literal["exact", "random", "sparse", "denormal", "huge", "special", "onehot"]
DATA_KINDS: tuple[DataKind, ...] = ("exact", "random", "sparse")  # three examples in four
RARE_KINDS: tuple[DataKind, ...] = ("special", "onehot", "denormal", "huge")  # every fourth example, in turn
ALL_DATA_KINDS: tuple[DataKind, ...] = (*DATA_KINDS, "onehot", "denormal", "huge", "special")
INTEGER_KINDS: frozenset[DataKind] = frozenset({"exact", "random", "onehot"})
EXACT_KINDS: frozenset[DataKind] = frozenset({"exact", "onehot"})

EXACT_SCALARS = (0.0, 1.0, -1.0, 2.0)
RANDOM_SCALARS = (*EXACT_SCALARS, 0.5, -1.75)
INTEGER_SCALARS = (*EXACT_SCALARS, 3.0, -77.0)  # where all arithmetic is that of integers
# Scalars for integer sums that are stored in a type with a smaller range, as most are outside of it otherwise.
SHRINKING_SCALARS = (2.0**-7, -(2.0**-10), 0.003)
SIMPLE_SCALARS = frozenset((*RANDOM_SCALARS, *INTEGER_SCALARS, *SHRINKING_SCALARS))
NAN, INF = math.nan, math.inf  # one object: a NaN is equal to itself only by identity
ScalarKind = Literal["plain", "extreme", "full"]
SCALAR_KINDS: tuple[ScalarKind, ...] = ("plain", "extreme", "full")  # of examples in turn

FACTORS = tuple(name for name in OPERANDS if name.startswith("scale"))  # epilogue operands that are factors
SHARED = -1  # instead of a stride's padding: all products share one matrix
SEEDS = 2**16

# Sizes around which kernels go wrong: one, tiles and their neighbours, primes.
RUNTIME_SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 61, 64, 65, 97, 127, 128, 129, 160)
# M or N of some examples: several tiles of 256, up to more than a raster group of 8 of them. K is small then.
FAR_SIZES = (515, 2177, 2562)
FAR_DEPTH = 17
# Fixed pairs of (M or N, the other one): a size beyond 16 bits; and more tile rows than a raster group has, with a size
# that tiles divide or that is one less, where a tile count that is rounded wrongly shows.
FAR_SHAPES = ((70_001, 3), (2177, 256), (2177, 255))
SHALLOW = 3  # K then
FAR_BATCH = 2  # products of a batch then
# M, N and K that usual tile sizes divide, as fast paths for whole tiles require; and both M and N large.
EVEN_SHAPES = ((512, 512, 512), (256, 256, 1024))
LARGE_SHAPE = (1153, 1281, SHALLOW)
SOME_BATCH, MANY_BATCH = 300, 200_000  # batches beyond 8 bits, and far beyond 16
DEEP, DEEP_WIDTH = 65_801, 5  # a K beyond 16 bits; M and N with it
MANY_DEEP = (2**8 + 1, 2**16 + 1)  # numbers of k tiles; K is one more than these tiles cover
TILE_FLOPS = 2.5e9  # limit of a block tile with such a K: a second or two
# Tile counts along M or N: beyond 16 unsigned bits for the size with the smaller tiles, beyond 16 signed bits for the
# other one. The last tile is then in each sample.
MANY_TILES = (66_000, 33_000)
NO_DEPTH = {"m": 5, "n": 7, "k": 0}
VAST_ELEMENTS, VAST_FLOPS = 20_000_000, 1e8  # larger cases of these kinds are left out
PAST_16_BITS = 2**16 + 2**8 + 1  # a batch whose last block has only products beyond 16 bits: a block has at most 256
FEW_DIFFERENT = 3, 5  # distinct matrices A and B of such a batch of pointers: neither number divides 65,536
MOST_PRODUCTS_BYTES = 2**29  # limit of the matrices of such a batch
VAST_PARTIALS = 2**30  # limit of split-K's partial sums in large situations, in bytes
Side = Literal["A", "B"]
Sizes = Literal["usual", "tiny", "deep", "far M", "far N"]
# Sizes of the examples, in turn. Their number and ROUND are coprime, so that each kind of sizes meets all data.
SIZES: tuple[Sizes, ...] = ("usual", "usual", "far M", "tiny", "usual", "deep", "usual", "far N", "usual")
ROUND = len(DATA_KINDS) + 1  # examples
SIDES: tuple[Side, ...] = ("A", "B")
STRATA = math.lcm(ROUND * len(RARE_KINDS) * len(SIDES), len(SIZES) * len(FAR_SIZES), ROUND * len(SCALAR_KINDS))

BATCH_FLOPS = 2e7  # limit of a drawn batch of more than one product
TINY = 8


@dataclass(frozen=True)
class Situation:
    """One run to check.

    data   what A, B and C contain; gemmgen.verification.reference describes each kind and its expected result
    seed   seeds the data and what the executor chooses (thread schedule, placement)
    """

    case: Case
    data: DataKind
    seed: int

    def __str__(self) -> str:
        return f"{self.case} data={self.data} seed={self.seed}"


@dataclass(frozen=True)
class Stratum:
    """The properties of one example that do not depend on what hypothesis draws.

    far      M or N if `sizes` says "far"
    side     the operand that selects in one-hot data, is denormal, or contains the Inf that meet zeros
    scalars  the kind of alpha and beta
    example  the example's number, from 0, modulo STRATA
    """

    data: DataKind
    sizes: Sizes
    far: int
    side: Side
    scalars: ScalarKind
    example: int

    @property
    def turn(self) -> int:
        """The number of its round: one example of each of DATA_KINDS and a rare one."""
        return self.example // ROUND


@functools.cache
def data_kinds(types: Types) -> tuple[DataKind, ...]:
    """The kinds of data that differ for these types: integers have no denormal or huge numbers, no Inf and no NaN.

    tf32 has no more than 10 bits of a denormal number, and sums in f16 no room for huge ones.
    """
    lacking: dict[Compute, DataKind] = {Compute.TF32: "denormal", Compute.F16: "huge"}
    known = INTEGER_KINDS if types.accumulator.is_integer else {*ALL_DATA_KINDS} - {lacking.get(types.compute)}
    return tuple(kind for kind in ALL_DATA_KINDS if kind in known)


def side_of(seed: int) -> Side:
    """The operand that some kinds of data single out, by the seed of the data. Even a few seeds reach both."""
    return SIDES[(seed + seed // 4) % len(SIDES)]


def kind_for(types: Types, kind: DataKind) -> DataKind:
    """`kind`, or "random" if `types` do not have that kind."""
    return kind if kind in data_kinds(types) else "random"


def stratum(example: int) -> Stratum:
    """The stratum of the example with this number, from 0. The STRATA come in turn, so no seed misses any of them."""
    example %= STRATA
    turn, place = divmod(example, ROUND)
    cycle, size = divmod(example, len(SIZES))
    return Stratum(
        data=(*DATA_KINDS, RARE_KINDS[turn % len(RARE_KINDS)])[place],
        sizes=SIZES[size],
        far=FAR_SIZES[-1 - cycle % len(FAR_SIZES)],
        side=SIDES[turn // len(RARE_KINDS) % len(SIDES)],
        scalars=SCALAR_KINDS[(turn + place) % len(SCALAR_KINDS)],
        example=example,
    )


def far_situations(source: KernelSource, largest: int) -> list[Situation]:
    """Situations that random draws rarely reach; none if `largest` is smaller than FAR_SIZES.

    For sizes left to run time: FAR_SHAPES, EVEN_SHAPES and LARGE_SHAPE, within VAST_PARTIALS; SOME_BATCH, and a batch
    of as many products as one block computes (the smallest batch that shows a launch which expects more); K = 0 with
    alpha = NaN. For any problem: alpha = 0, and large factors in the epilogue.
    """
    problem = source.problem
    if largest < FAR_SIZES[-1]:
        return []
    shapes = [
        {"k": SHALLOW, far: size, other: width, "batch": FAR_BATCH}
        for far, other in (("m", "n"), ("n", "m"))
        for size, width in FAR_SHAPES
        if problem.sizes[far.upper()] is None
    ]
    if problem.batch is None:
        products = dict(source.launch.grid).get("batch", 1), SOME_BATCH
        shapes += [{**dict.fromkeys("mnk", SHALLOW), "batch": count} for count in products]
    whole = with_room(source.launch, (Situation(_free_case(problem, shape), "exact", seed=0) for shape in shapes))
    even = (_free_case(problem, _shape(*sizes)) for sizes in (*EVEN_SHAPES, LARGE_SHAPE))
    known = {one.case for one in whole}
    sampled = with_room(source.launch, (Situation(case, "sparse", seed=1) for case in even if case not in known))
    ragged = sampled if None in (problem.m, problem.n, problem.k) else []
    return whole + ragged + _without_depth(problem) + without_scale(problem) + _with_large_factors(problem)


def _without_depth(problem: Problem) -> list[Situation]:
    """Situations with K = 0 and alpha = NaN."""
    if problem.k is not None or problem.types.scalar.is_integer:
        return []
    if problem.epilogue.sums and not problem.types.c.has_nan:  # zero points times a NaN alpha are NaN, even with K = 0
        return []
    case = _free_case(problem, {**NO_DEPTH, "batch": FAR_BATCH})
    return [Situation(replace(case, alpha=NAN, beta=2.0), "exact", seed=2)]


def without_scale(problem: Problem) -> list[Situation]:
    """alpha = 0 and beta = 1: a kernel that then skips the products is wrong, because NaN and Inf of A and B count."""
    if not {"alpha", "beta"} <= {*problem.epilogue.scalars} or problem.types.scalar.is_integer:
        return []
    if kind_for(problem.types, "special") != "special" or not problem.types.c.has_nan:
        return []
    case = _free_case(problem, {**NO_DEPTH, "k": FAR_DEPTH, "batch": FAR_BATCH})
    return [Situation(replace(case, alpha=0.0, beta=1.0), "special", seed=4)]


def _with_large_factors(problem: Problem) -> list[Situation]:
    """Factors whose product overflows, with an alpha so small that products in the epilogue's own order do not."""
    factors = [operand.name for operand in problem.epilogue.operands if operand.name in FACTORS]
    if len(factors) < 2 or "alpha" not in problem.epilogue.scalars or problem.types.scalar.is_integer:
        return []
    case = _free_case(problem, {**NO_DEPTH, "k": FAR_DEPTH, "batch": FAR_BATCH})
    return [Situation(replace(case, alpha=_balancing(problem)), "exact", seed=3)]


def balances(case: Case) -> bool:
    """Whether `case` has the alpha that compensates two large factors. No random draw has it."""
    return case.alpha == _balancing(case.problem)


def _balancing(problem: Problem) -> float:
    return 2.0**problem.types.scalar.min_exponent


def shows_limits(case: Case) -> bool:
    """Whether alpha brings sums of products of the largest integers into the range of a narrower C.

    The data of such a situation is near the largest integers. An epilogue's factors do the same without such an alpha.
    """
    return limit_scale(case) <= abs(case.alpha) < 2 * limit_scale(case)


def limit_scale(case: Case) -> float:
    """The power of two that brings the largest sum of integers into the upper half of C's range.

    Inf if C holds all sums, or if alpha is not what scales them.
    """
    problem, largest = case.problem, case.c.dtype.largest
    a, b = problem.types.operands[:2]
    scaled = "alpha" in problem.epilogue.scalars and not any(one.name in FACTORS for one in problem.epilogue.operands)
    whole = a.is_integer and b.is_integer and not problem.types.scalar.is_integer
    if not (scaled and whole) or problem.products > 1 or largest >= DType.S32.largest:
        return math.inf
    return 2.0 ** math.floor(math.log2(largest / (a.largest * b.largest * max(1, case.k)) / 2))


def _shape(m: int, n: int, k: int, batch: int = 1) -> dict[str, int]:
    return {"m": m, "n": n, "k": k, "batch": batch}


def vast_situations(source: KernelSource, largest: int) -> list[Situation]:
    """Situations of about a second each, for sizes left to run time: `depths` of K, MANY_BATCH, MANY_TILES.

    None of them if `largest` is smaller than FAR_SIZES.
    """
    problem, grid = source.problem, dict(source.launch.grid)
    if largest < FAR_SIZES[-1]:
        return []
    shapes = [_shape(DEEP_WIDTH, DEEP_WIDTH, k) for k in depths(source)]
    if problem.batch is None:
        shapes.append(_shape(1, 1, 1, MANY_BATCH))
    free = (name for name in "MN" if name in grid and problem.sizes[name] is None)
    for name, tiles in zip(sorted(free, key=lambda name: grid[name]), MANY_TILES, strict=False):
        shapes.append({**_shape(1, 1, 1), name.lower(): tiles * grid[name]})
    cases = [_free_case(problem, shape, VAST_FLOPS) for shape in shapes]
    kind: DataKind = "random" if problem.types.accumulator.is_integer else "exact"  # large integers are exact, too
    affordable = (
        Situation(case, kind, seed=1)  # a seed that is not watched for races, which takes longer
        for case in cases
        if case.flops <= VAST_FLOPS and sum(matrix.elements for matrix in case.matrices) <= VAST_ELEMENTS
    )
    return with_room(source.launch, affordable)


def products_beyond_16_bits(problem: Problem) -> list[Situation]:
    """A batch of more than 65,536 products; the last block has only products beyond 16 bits.

    Needed where the end of a launch cannot run alone (see far_offsets.py): on a GPU, and for batches by pointers. Those
    name few matrices A and B in turn, and the last product has others than the first.
    None if the batch is fixed, or if the matrices take more than MOST_PRODUCTS_BYTES.
    """
    if problem.batch is not None:
        return []
    case = _free_case(problem, _shape(1, 1, 1, PAST_16_BITS), math.inf)
    if problem.pointers:
        different_a, different_b = FEW_DIFFERENT
        case = replace(case, different_a=different_a, different_b=different_b)
    return [Situation(case, "exact", seed=1)] if sum(one.bytes for one in case.matrices) <= MOST_PRODUCTS_BYTES else []


def with_room(launch: Launch, situations: Iterable[Situation]) -> list[Situation]:
    """Each of `situations` once whose partial sums fit VAST_PARTIALS: the emulator records who wrote each sum."""
    return [one for one in dict.fromkeys(situations) if launch.workspace(one.case).partials <= VAST_PARTIALS]


def depths(source: KernelSource) -> list[int]:
    """Long K: beyond 16 bits, and with more k tiles than 8 and 16 bits count, within TILE_FLOPS per tile of C.

    If all of them exceed TILE_FLOPS: about the longest K that does not.
    """
    if source.problem.k is not None:
        return []
    tile, step = dict(source.launch.grid), k_tile_of(source)
    area = tile.get("M", DEEP_WIDTH) * tile.get("N", DEEP_WIDTH)
    affordable = int(TILE_FLOPS // (2 * area))
    depths = sorted({max(DEEP, count * step + 1) for count in MANY_DEEP})
    return [k for k in depths if k <= affordable] or [max(affordable - step, 0) // step * step + 1]


def open_case(problem: Problem, sizes: Mapping[str, int], **given: Any) -> Case:
    """The case with those of m, n, k and batch in `sizes` that are left to run time."""
    return problem.case(**{name.lower(): sizes[name.lower()] for name in problem.open_sizes}, **given)


def _free_case(problem: Problem, sizes: Mapping[str, int], most_flops: float = BATCH_FLOPS) -> Case:
    """`open_case` with a batch within `most_flops`."""
    one = open_case(problem, {**sizes, "batch": 1})
    return open_case(problem, {**sizes, "batch": _affordable(one, sizes["batch"], most_flops)})


def _affordable(one: Case, batch: int, most_flops: float) -> int:
    return max(1, int(min(batch, most_flops // max(1, one.flops))))


EDGES = (
    *("K = 0", "M = 1", "N = 1", "tiny", "prime", "power of two", "ragged"),
    *("tall", "flat", "deep", "padded", "batch"),
)


def edges(case: Case) -> frozenset[str]:
    """The classes of EDGES that `case` belongs to; a verdict's domain counts them."""
    m, n, k = case.m, case.n, case.k
    sizes = (m, n, k)
    dense = all(matrix.ld == matrix.line_length for matrix in case.matrices)
    holds = (
        *(k == 0, m == 1, n == 1, max(sizes) <= TINY),
        any(size > TINY and is_prime(size) for size in sizes),
        all(size & (size - 1) == 0 and size > 0 for size in sizes),
        any(size % 4 for size in sizes),
        *(m >= 8 * n, n >= 8 * m, k >= 8 * max(m, n), not dense, case.batch > 1),
    )
    return frozenset(name for name, held in zip(EDGES, holds, strict=True) if held)


def padded_case(problem: Problem, sizes: dict[str, int], distances: dict[str, int], alpha: float, beta: float) -> Case:
    """The case with `sizes`, and with `distances` added to the dense leading dimensions and strides.

    A batch in `distances` is limited by BATCH_FLOPS.
    """
    if "batch" in distances:
        one = problem.case(**sizes, batch=1)
        sizes = {**sizes, "batch": _affordable(one, distances["batch"], BATCH_FLOPS)}
    dense = problem.case(**sizes)
    lines = {name: getattr(dense, name) + padding for name, padding in distances.items() if name.startswith("ld")}
    padded = problem.case(**sizes, **lines)
    strides = {
        name: 0 if padding == SHARED else getattr(padded, name) + padding
        for name, padding in distances.items()
        if name.startswith("stride_")
    }
    different = {
        name: count for name, count in distances.items() if name.startswith("different_") and count < padded.batch
    }
    rows = {name: distances[name] for name in ("rows_a", "spare_c") if name in distances}
    return problem.case(**sizes, **lines, **strides, **different, **rows, alpha=alpha, beta=beta)


def least_size(name: str) -> int:
    return 0 if name in ("k", "K") else 1  # K = 0 gives beta * C


def free_sizes(case: Case) -> dict[str, int]:
    """The values in `case` of the sizes that are left to run time: m, n, k and batch."""
    return {name.lower(): int(case.values[name]) for name in case.problem.open_sizes}


def distances_of(case: Case) -> dict[str, int]:
    """The padding of lines and strides that are left to run time, in the form that `padded_case` takes."""
    problem = case.problem
    sizes = free_sizes(case)
    dense = problem.case(**sizes)
    lines = {name: getattr(case, name) for name in problem.runtime_names if name.startswith("ld")}
    padded = problem.case(**sizes, **lines)
    found = {name: line - getattr(dense, name) for name, line in lines.items()}
    for name in problem.runtime_names:
        if name.startswith("stride_"):
            stride, dense_stride = getattr(case, name), getattr(padded, name)
            found[name] = SHARED if stride == 0 < dense_stride else stride - dense_stride
    if problem.pointers:
        found |= {name: getattr(case, name) for name in ("different_a", "different_b")}
    if problem.inputs.gathered:
        found["rows_a"] = case.rows_a
    if problem.inputs.scattered:
        found["spare_c"] = case.spare_c
    return found


def resized(case: Case, sizes: dict[str, int], distances: dict[str, int]) -> Case:
    """`case` with other `free_sizes` and other `distances_of` it."""
    batch = {"batch": sizes["batch"]} if "batch" in sizes else {}
    named = {name: size for name, size in sizes.items() if name not in batch}
    return padded_case(case.problem, named, {**distances, **batch}, case.alpha, case.beta)


def is_prime(size: int) -> bool:
    return size > 1 and all(size % divisor for divisor in range(2, int(size**0.5) + 1))
