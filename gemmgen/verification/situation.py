"""What a kernel is tried on: one run's sizes, scalars, kind of data and seed."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.case import Case
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.verification.scalars import NAN, SCALAR_KINDS, ScalarKind

DataKind = Literal["exact", "random", "sparse", "denormal", "huge", "special", "onehot"]
DATA_KINDS: tuple[DataKind, ...] = ("exact", "random", "sparse")  # of three examples in four of a verification
RARE_KINDS: tuple[DataKind, ...] = ("special", "onehot", "denormal", "huge")  # of the fourth, in turn
ALL_DATA_KINDS: tuple[DataKind, ...] = (*DATA_KINDS, "onehot", "denormal", "huge", "special")
INTEGER_KINDS: frozenset[DataKind] = frozenset({"exact", "random", "onehot"})
EXACT_KINDS: frozenset[DataKind] = frozenset({"exact", "onehot"})

FACTORS = ("scale_m", "scale_n", "scale_n2", "scale_a", "scale_b")  # of an epilogue's operands
PADDINGS = (0, 1, 2, 3, 7)  # of leading dimensions and strides, in units of ld_align
DIFFERENT = (0, 0, 1, 2, 3)  # matrices A, or B, that the pointers of a batch name in turn; 0 is one for each product
SHARED = -1  # in the place of a stride's padding: one matrix for all products
SEEDS = 2**16
SEED_STEP = 40_503  # odd: hypothesis likes to draw a number again, and examples are to have seeds of their own

# Sizes around which kernels go wrong: one, tiles and their neighbours, primes.
RUNTIME_SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 61, 64, 65, 97, 127, 128, 129, 160)
# M or N of some examples: several tiles of 256, and more than a group of 8 of them. K is small then.
FAR_SIZES = (515, 2177, 2562)
FAR_DEPTH = 17
# Beside what is drawn, one of M and N and the other: beyond 16 bits, and more than a group of tile rows beside a size
# that tiles divide, or miss by one, where a count of tiles that is rounded wrongly shows.
FAR_SHAPES = ((70_001, 3), (2177, 256), (2177, 255))
SHALLOW = 3  # K then
FAR_BATCH = 2  # products of a batch then
# M, N and K that BM, BN and BK, 256 and 512 divide, as fast paths for whole tiles ask for; and both M and N large.
EVEN_SHAPES = ((512, 512, 512), (256, 256, 1024))
LARGE_SHAPE = (1153, 1281, SHALLOW)
SOME_BATCH, MANY_BATCH = 300, 200_000  # products: beyond 8 bits, and of two thirds of them beyond 16
DEEP, DEEP_WIDTH = 65_801, 5  # a K beyond 16 bits, and M and N then
MANY_DEEP = (2**8 + 1, 2**16 + 1)  # k tiles, and K is one more than these
TILE_FLOPS = 2.5e9  # of a block tile over such a K at most: a second or two
# Tiles of M or N, whichever has the smaller ones, beyond 16 bits; of the other beyond a signed number of them. Of so
# many tiles the last is in each sample.
MANY_TILES = (66_000, 33_000)
NO_DEPTH = {"m": 5, "n": 7, "k": 0}  # where alpha counts for nothing, though it be NaN
VAST_ELEMENTS, VAST_FLOPS = 20_000_000, 1e8  # of such cases at most, or they are left out
PAST_16_BITS = 2**16 + 2**8 + 1  # products: a block has 256 at most
FEW_DIFFERENT = 3, 5  # matrices A and B of such a batch of pointers: neither number divides 65,536
MOST_PRODUCTS_BYTES = 2**29  # of products beyond 16 bits, where all of them have memory
VAST_PARTIALS = 2**30  # bytes that split-K takes at most for one of these, or one that is far
Side = Literal["A", "B"]
Sizes = Literal["usual", "tiny", "deep", "far M", "far N"]
# Those of a run's examples in turn. Their number and ROUND's have no divisor, so that each of them meets all data.
SIZES: tuple[Sizes, ...] = ("usual", "usual", "far M", "tiny", "usual", "deep", "usual", "far N", "usual")
# K where sizes are "deep", beside others up to DEEPEST; M and N are tiny then.
DEEP_SIZES = (192, 256, 257, 320, 384, 512, 513, 640, 768, 1000, 1024)
DEEPEST = 700
ROUND = len(DATA_KINDS) + 1  # examples
SIDES: tuple[Side, ...] = ("A", "B")
STRATA = math.lcm(ROUND * len(RARE_KINDS) * len(SIDES), len(SIZES) * len(FAR_SIZES), ROUND * len(SCALAR_KINDS))

BATCHES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65, 257)
BATCH_FLOPS = 2e7  # of a drawn batch at most, where that leaves one product
TINY = 8
LONG = 4  # the long side of tall, flat and deep shapes, in multiples of the largest size

# Forms of shapes: how M, N and K are drawn where they are run-time sizes.
FORMS: dict[str, tuple[str, str, str]] = {
    "any": ("any", "any", "any"),
    "tiny": ("tiny", "tiny", "tiny"),
    "no K": ("any", "any", "zero"),
    "one row": ("zero", "any", "any"),
    "one column": ("any", "zero", "any"),
    "prime": ("prime", "prime", "prime"),
    "power of two": ("power", "power", "power"),
    "tall": ("long", "tiny", "any"),
    "flat": ("tiny", "long", "any"),
    "deep": ("tiny", "tiny", "long"),
}


@dataclass(frozen=True)
class Situation:
    """One run to check.

    data   what A, B and C hold; gemmgen.verification.reference says what of each kind, and what must come out
    seed   of the data, and of what the executor chooses (thread schedule, placement)
    """

    case: Case
    data: DataKind
    seed: int

    def __str__(self) -> str:
        return f"{self.case} data={self.data} seed={self.seed}"


@dataclass(frozen=True)
class Stratum:
    """What one example of a run is, whatever hypothesis draws for it.

    far      what M or N is where `sizes` says "far"
    side     the operand that selects in one-hot data, is denormal, or holds the Inf that meet zeros
    scalars  of which kind alpha and beta are
    example  its number in a run, from 0; after STRATA it is 0 again
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
    """The operand that some kinds of data single out, by the seed of the data; also where seeds are few."""
    return SIDES[(seed + seed // 4) % len(SIDES)]


def kind_for(types: Types, kind: DataKind) -> DataKind:
    """`kind`, or random data where `types` have none of it."""
    return kind if kind in data_kinds(types) else "random"


def stratum(example: int) -> Stratum:
    """That of a run's example of this number, from 0: all STRATA in turn, so that no seed misses any for long."""
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
    """What draws hardly reach of the sizes left to run time; none where `largest` is less than FAR_SIZES.

    FAR_SHAPES of M and N, EVEN_SHAPES and a large one, each as far as VAST_PARTIALS allow; SOME_BATCH, and a batch of
    as many products as a block computes: where the launch counts on more of them than the kernel does, that is the
    least batch which shows it. And K = 0, with an alpha that is no number. And alpha = 0, whatever is left to run time,
    and large factors of an epilogue.
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
    cases = _with_room(source, (_free_case(problem, shape) for shape in shapes))
    whole = [Situation(case, "exact", seed=0) for case in cases]
    even = _with_room(source, (_free_case(problem, _shape(*sizes)) for sizes in (*EVEN_SHAPES, LARGE_SHAPE)))
    sampled = [Situation(case, "sparse", seed=1) for case in even if case not in cases]
    ragged = sampled if None in (problem.m, problem.n, problem.k) else []
    return whole + ragged + _without_depth(problem) + without_scale(problem) + _with_large_factors(problem)


def _with_room(source: KernelSource, cases: Iterable[Case]) -> list[Case]:
    """Each of `cases` once, but for those whose partial sums take more than VAST_PARTIALS."""
    return [case for case in dict.fromkeys(cases) if source.launch.workspace(case).partials <= VAST_PARTIALS]


def _without_depth(problem: Problem) -> list[Situation]:
    if problem.k is not None or problem.types.scalar.is_integer:
        return []
    if problem.epilogue.sums and not problem.types.c.has_nan:  # of zero points a NaN alpha makes NaN, K = 0 or not
        return []
    case = _free_case(problem, {**NO_DEPTH, "batch": FAR_BATCH})
    return [Situation(replace(case, alpha=NAN, beta=2.0), "exact", seed=2)]


def without_scale(problem: Problem) -> list[Situation]:
    """alpha = 0 and beta = 1, where a kernel may be tempted to do nothing: NaN and Inf of A and B still count."""
    if not {"alpha", "beta"} <= {*problem.epilogue.scalars} or problem.types.scalar.is_integer:
        return []
    if kind_for(problem.types, "special") != "special" or not problem.types.c.has_nan:
        return []
    case = _free_case(problem, {**NO_DEPTH, "k": FAR_DEPTH, "batch": FAR_BATCH})
    return [Situation(replace(case, alpha=0.0, beta=1.0), "special", seed=4)]


def _with_large_factors(problem: Problem) -> list[Situation]:
    """Factors whose product overflows, and an alpha so small that the epilogue's own products, in its order, do not."""
    factors = [operand.name for operand in problem.epilogue.operands if operand.name in FACTORS]
    if len(factors) < 2 or "alpha" not in problem.epilogue.scalars or problem.types.scalar.is_integer:
        return []
    case = _free_case(problem, {**NO_DEPTH, "k": FAR_DEPTH, "batch": FAR_BATCH})
    return [Situation(replace(case, alpha=_balancing(problem)), "exact", seed=3)]


def balances(case: Case) -> bool:
    """Whether its alpha makes up for two large factors: no draw has that alpha."""
    return case.alpha == _balancing(case.problem)


def _balancing(problem: Problem) -> float:
    return 2.0**problem.types.scalar.min_exponent


def shows_limits(case: Case) -> bool:
    """Whether its alpha brings sums of products of the largest integers to where C, which has less range, shows them.

    Their data is near the largest integers. Factors of an epilogue do as much without an alpha of that size.
    """
    return limit_scale(case) <= abs(case.alpha) < 2 * limit_scale(case)


def limit_scale(case: Case) -> float:
    """The power of two by which sums as long as that of the largest integers come into the upper half of the range of
    a C that does not hold them; Inf where C holds all, or nothing scales them so."""
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
    """What takes about a second each, of sizes left to run time and small enough: K of DEEP, MANY_TILES, MANY_BATCH.

    None where `largest` is less than FAR_SIZES.
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
    kind: DataKind = (
        "random" if problem.types.accumulator.is_integer else "exact"
    )  # integers are exact at their largest
    return [
        Situation(case, kind, seed=1)  # not watched for races, which takes longer
        for case in _with_room(source, cases)
        if case.flops <= VAST_FLOPS and sum(matrix.elements for matrix in case.matrices) <= VAST_ELEMENTS
    ]


def products_beyond_16_bits(problem: Problem) -> list[Situation]:
    """A batch whose last blocks have products behind 65,535 alone.

    None where the number of products is fixed, or all of them take MOST_PRODUCTS_BYTES.

    For executors that run no launch's end by itself, and for pointers, which have none: see tails.py. Few matrices A
    and B serve all products of these, and the last one's are not the first one's.
    """
    if problem.batch is not None:
        return []
    case = _free_case(problem, _shape(1, 1, 1, PAST_16_BITS), math.inf)
    if problem.pointers:
        different_a, different_b = FEW_DIFFERENT
        case = replace(case, different_a=different_a, different_b=different_b)
    return [Situation(case, "exact", seed=1)] if sum(one.bytes for one in case.matrices) <= MOST_PRODUCTS_BYTES else []


def with_room(source: KernelSource, situations: Iterable[Situation]) -> list[Situation]:
    """Those of `situations` whose partial sums take VAST_PARTIALS at most: an emulator remembers who wrote each."""
    return [one for one in situations if source.launch.workspace(one.case).partials <= VAST_PARTIALS]


def depths(source: KernelSource) -> list[int]:
    """K beyond 16 bits, and with more k tiles than 8 and 16 bits count, as far as a tile of C takes no longer.

    Of tiles that take longer over all of these it is the largest K that they have time for.
    """
    if source.problem.k is not None:
        return []
    tile, step = dict(source.launch.grid), source.config.get("BK", 1)
    area = tile.get("M", DEEP_WIDTH) * tile.get("N", DEEP_WIDTH)
    affordable = int(TILE_FLOPS // (2 * area))
    depths = sorted({max(DEEP, count * step + 1) for count in MANY_DEEP})
    return [k for k in depths if k <= affordable] or [max(affordable - step, 0) // step * step + 1]


def _free_case(problem: Problem, sizes: dict[str, int], most_flops: float = BATCH_FLOPS) -> Case:
    """The case of `sizes`, as far as they are left to run time; a batch as large as `most_flops` allow."""
    free = {name: size for name, size in sizes.items() if problem.sizes.get(name.upper(), 0) is None}
    if problem.batch is not None:
        return problem.case(**free)
    return problem.case(**free, batch=_affordable(problem.case(**free, batch=1), sizes["batch"], most_flops))


def _affordable(one: Case, batch: int, most_flops: float) -> int:
    return max(1, int(min(batch, most_flops // max(1, one.flops))))


EDGES = (
    *("K = 0", "M = 1", "N = 1", "tiny", "prime", "power of two", "ragged"),
    *("tall", "flat", "deep", "padded", "batch"),
)


def edges(case: Case) -> frozenset[str]:
    """The classes of EDGES that `case` falls into: what coverage counts."""
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
    """`sizes`, with the `distances` that `_distances` drew added to dense leading dimensions and strides."""
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
    return problem.case(**sizes, **lines, **strides, **different, alpha=alpha, beta=beta)


def least_size(name: str) -> int:
    return 0 if name in ("k", "K") else 1  # K = 0 gives beta * C


def free_sizes(case: Case) -> dict[str, int]:
    """M, N, K and the batch, as far as they are left to run time."""
    return {name.lower(): int(case.values[name]) for name in case.problem.open_sizes}


def distances_of(case: Case) -> dict[str, int]:
    """As `padded_case` takes them: how much longer lines and strides are than they have to be."""
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
    return found


def resized(case: Case, sizes: dict[str, int], distances: dict[str, int]) -> Case:
    """`case` with these `free_sizes` and `distances_of` it."""
    batch = {"batch": sizes["batch"]} if "batch" in sizes else {}
    named = {name: size for name, size in sizes.items() if name not in batch}
    return padded_case(case.problem, named, {**distances, **batch}, case.alpha, case.beta)


def is_prime(size: int) -> bool:
    return size > 1 and all(size % divisor for divisor in range(2, int(size**0.5) + 1))
