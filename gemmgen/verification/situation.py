"""What a kernel is tried on: one run's sizes, scalars, kind of data and seed."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.types import Types
from gemmgen.verification.scalars import EXACT_SCALARS, SCALAR_KINDS, ScalarKind

DataKind = Literal["exact", "random", "sparse", "denormal", "huge", "special", "onehot"]
DATA_KINDS: tuple[DataKind, ...] = ("exact", "random", "sparse")  # of three examples in four of a verification
RARE_KINDS: tuple[DataKind, ...] = ("special", "onehot", "denormal", "huge")  # of the fourth, in turn
ALL_DATA_KINDS: tuple[DataKind, ...] = (*DATA_KINDS, "onehot", "denormal", "huge", "special")
INTEGER_KINDS: frozenset[DataKind] = frozenset({"exact", "random", "onehot"})
EXACT_KINDS: frozenset[DataKind] = frozenset({"exact", "onehot"})

PADDINGS = (0, 1, 2, 3, 7)  # of leading dimensions and strides, in units of ld_align
DIFFERENT = (0, 0, 1, 2, 3)  # matrices A, or B, that the pointers of a batch name in turn; 0 is one for each product
SHARED = -1  # in the place of a stride's padding: one matrix for all products
SEEDS = 2**16
SEED_STEP = 40_503  # odd: hypothesis likes to draw a number again, and examples are to have seeds of their own
OTHER_SEEDS = 4  # that reduction tries: they choose every order and placement of an executor

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
DEEP, DEEP_WIDTH = 33_001, 5  # a K beyond a signed 16-bit number, and M and N then
MANY_TILES = 100_000  # of M or N, two thirds of them beyond a signed 16-bit number
VAST_ELEMENTS, VAST_FLOPS = 10_000_000, 1e8  # of such cases at most, or they are left out
Side = Literal["A", "B"]
Sizes = Literal["usual", "tiny", "far M", "far N"]
# Those of a run's examples in turn. Their number and ROUND's have no divisor, so that each of them meets all data.
SIZES: tuple[Sizes, ...] = ("usual", "usual", "far M", "tiny", "usual", "far N", "usual")
ROUND = len(DATA_KINDS) + 1  # examples
SIDES: tuple[Side, ...] = ("A", "B")
STRATA = math.lcm(ROUND * len(RARE_KINDS) * len(SIDES), len(SIZES) * len(FAR_SIZES), ROUND * len(SCALAR_KINDS))

BATCHES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
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
    """The kinds of data that differ for these types: integers have no denormal or huge numbers, no Inf and no NaN."""
    return tuple(kind for kind in ALL_DATA_KINDS if not types.accumulator.is_integer or kind in INTEGER_KINDS)


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

    FAR_SHAPES of M and N, and a batch of as many products as a block computes: where the launch counts on more of them
    than the kernel does, that is the least batch which shows it.
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
        shapes.append({**dict.fromkeys("mnk", SHALLOW), "batch": dict(source.launch.grid).get("batch", 1)})
    cases = dict.fromkeys(_free_case(problem, shape) for shape in shapes)
    return [Situation(case, "exact", seed=0) for case in cases]  # run whole


def vast_situations(source: KernelSource, largest: int) -> list[Situation]:
    """What takes about a second each: a K of DEEP and MANY_TILES, where sizes are left to run time and small enough.

    None where `largest` is less than FAR_SIZES.
    """
    problem, grid = source.problem, dict(source.launch.grid)
    if largest < FAR_SIZES[-1]:
        return []
    shapes = [{"m": DEEP_WIDTH, "n": DEEP_WIDTH, "k": DEEP, "batch": 1}] if problem.k is None else []
    lines = {name: MANY_TILES * grid[name] for name in "MN" if name in grid and problem.sizes[name] is None}
    far = min(lines, key=lambda name: lines[name], default=None)
    if far is not None:
        shapes.append({**dict.fromkeys("mnk", 1), far.lower(): lines[far], "batch": 1})
    cases = [_free_case(problem, shape) for shape in shapes]
    return [
        Situation(case, "exact", seed=1)  # not watched for races, which takes longer
        for case in cases
        if case.flops <= VAST_FLOPS and sum(matrix.elements for matrix in case.matrices) <= VAST_ELEMENTS
    ]


def _free_case(problem: Problem, sizes: dict[str, int]) -> Case:
    """The case of `sizes`, as far as they are left to run time."""
    free = {name: size for name, size in sizes.items() if problem.sizes.get(name.upper(), 0) is None}
    return padded_case(problem, free, {"batch": sizes["batch"]} if problem.batch is None else {}, 1.0, 0.0)


def simpler_situations(situation: Situation) -> Iterator[Situation]:
    """`situation` with one thing made plainer: a size, the padding, a scalar, the data, the seed.

    Other data may hide what this data shows, by a zero in the wrong place: smaller sizes come with several seeds.
    """
    for case in _smaller_cases(situation.case):
        for seed in sorted({situation.seed, *range(OTHER_SEEDS)}):
            yield replace(situation, case=case, seed=seed)
    for case in _plainer_cases(situation.case):
        yield replace(situation, case=case)
    scalars = {situation.case.alpha, situation.case.beta}
    kinds = data_kinds(situation.case.problem.types)
    for data in kinds[: kinds.index(situation.data)]:
        if data not in EXACT_KINDS or scalars <= set(EXACT_SCALARS):
            yield replace(situation, data=data)
    for seed in range(min(situation.seed, OTHER_SEEDS)):
        yield replace(situation, seed=seed)


def _smaller_cases(case: Case) -> Iterator[Case]:
    """One run-time size smaller; leading dimensions as short as they may be."""
    sizes = _sizes_of(case)
    for name, size in sizes.items():
        if case.problem.sizes[name if name == "batch" else name.upper()] is not None:
            continue
        smallest = 0 if name == "k" else 1
        for smaller in sorted({smallest, size // 2, size - size // 4, size - 1}):
            if smallest <= smaller < size:
                yield _dense(case, {**sizes, name: smaller})


def _plainer_cases(case: Case) -> Iterator[Case]:
    dense = _dense(case, _sizes_of(case))
    if dense != case:
        yield dense
    if case.alpha != 1:
        yield replace(case, alpha=1.0)
    if case.beta != 0:
        yield replace(case, beta=0.0)


def _sizes_of(case: Case) -> dict[str, int]:
    sizes = {"m": case.m, "n": case.n, "k": case.k}
    return {**sizes, "batch": case.batch} if case.problem.batched else sizes


def _dense(case: Case, sizes: dict[str, int]) -> Case:
    return replace(case.problem.case(**sizes), alpha=case.alpha, beta=case.beta)


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
        sizes = {**sizes, "batch": max(1, min(distances["batch"], int(BATCH_FLOPS // max(1, one.flops))))}
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


def is_prime(size: int) -> bool:
    return size > 1 and all(size % divisor for divisor in range(2, int(size**0.5) + 1))
