"""The experiments as data: each study is a list of named points that differ in one idea or one number.

`reported` figures are those of the source document's RTX 4050 (sm_89): they show the shape of a result, not its
required values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gemmgen.families import DEFAULT_FAMILY, FAMILIES, Config
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import require

REPORTED_CARD = "RTX 4050 Laptop"  # in gemmgen.problem.device.DEVICES
REPORTED_DTYPE = DType.F32
Maker = Literal["config", "search", "cuBLASLt"]


@dataclass(frozen=True)
class StudyPoint:
    """One row of a study.

    label     label on the axis and in the table
    settings  axes of `family` that differ from its default for the problem
    lesson    what this point adds to the previous one, and why that is faster; empty in a sweep
    reported  TFLOPS in the source document; 0 if it says that the kernel did not launch, None if it says nothing
    against   label of the point with which this one is compared; empty if there is none
    maker     "config" renders `settings`; "search" is the tuned winner; "cuBLASLt" is the library
    """

    label: str
    settings: Mapping[str, int] = field(default_factory=dict)
    family: str = DEFAULT_FAMILY
    lesson: str = ""
    reported: float | None = None
    against: str = ""
    maker: Maker = "config"


@dataclass(frozen=True)
class Study:
    """A series of points.

    question  what the series shows, in one sentence
    axis      the meaning of the labels
    keeps     whether its kernels are kept as files, as each teaches an idea
    shape     the default MxNxK; `dtype` is the default type of A, B and C
    """

    name: str
    title: str
    question: str
    axis: str
    points: tuple[StudyPoint, ...]
    keeps: bool = False
    shape: str = "2048x2048x2048"
    dtype: DType = DType.F32


def study_named(name: str) -> Study:
    """Return the study called `name`; raise InvalidInput, with the known names, if there is none."""
    require(name in STUDIES, f"unknown study {name!r}: known are {', '.join(STUDIES)}")
    return STUDIES[name]


def config_for(problem: Problem, point: StudyPoint) -> Config:
    """The point's config, suited to `problem`."""
    family = FAMILIES[point.family]
    return family.suited(problem, family.default(problem).with_values(**point.settings))


# Each stage of the ladder keeps the settings of the one below it.
SHARED_TILES = {
    **dict.fromkeys(("OUTER", "WM", "WN", "TA", "TB", "PAD", "ASYNC", "K_UNROLL"), 0),
    **dict.fromkeys(("VEC", "STAGES", "GROUP", "TM", "TN"), 1),
    **dict.fromkeys(("BM", "BN", "BK"), 32),
}
STRIP = {**SHARED_TILES, "BM": 64, "BN": 64, "BK": 8, "TM": 8, "OUTER": 1}
INNER = {**STRIP, "TN": 8, "OUTER": 0}
OUTER = {**INNER, "OUTER": 1}
VECTORS = {**OUTER, "VEC": 4, "TA": 1, "TB": 1, "PAD": 4}
DOUBLE_BUFFER = {**VECTORS, "STAGES": 2}
WARP_TILES = {**DOUBLE_BUFFER, "BN": 128, "WM": 64, "WN": 32, "GROUP": 8}
CP_ASYNC = {**WARP_TILES, "STAGES": 3, "ASYNC": 1, "BK": 16}
FRAGMENT_PREFETCH = {**CP_ASYNC, "K_UNROLL": 4}
SLICES = {**FRAGMENT_PREFETCH, "STAGES": 2, "BK": 32, "SLICES": 2}

LADDER = Study(
    "ladder",
    "one idea at a time",
    "What does each idea add, from one thread an element of C to the tuned kernel?",
    "stage",
    (
        StudyPoint(
            "naive",
            family="naive",
            lesson="one thread an element of C; every FMA waits for two reads of global memory",
            reported=0.700,
        ),
        StudyPoint(
            "shared tiles",
            SHARED_TILES,
            against="naive",
            lesson="a block keeps its tiles of A and B in shared memory: each word from global memory serves 32 FMAs",
            reported=0.800,
        ),
        StudyPoint(
            "1D register tile",
            STRIP,
            against="shared tiles",
            lesson="a thread computes 8 rows of a column: a value of B, read once, feeds 8 FMAs",
        ),
        StudyPoint(
            "2D tile, inner product",
            INNER,
            against="1D register tile",
            lesson="8 x 8 elements a thread, but each FMA reads its own two values and waits for the FMA before it",
            reported=3.800,
        ),
        StudyPoint(
            "2D tile, outer product",
            OUTER,
            against="2D tile, inner product",
            lesson="the same tile with k outermost: 16 values in registers feed 64 independent FMAs",
            reported=6.400,
        ),
        StudyPoint(
            "vectors, A transposed",
            VECTORS,
            against="2D tile, outer product",
            lesson="16-byte reads of global memory, and of shared memory too, where A now lies transposed",
        ),
        StudyPoint(
            "double buffer",
            DOUBLE_BUFFER,
            against="vectors, A transposed",
            lesson="the next tile is on its way through registers while this one is multiplied: one barrier a step",
            reported=7.007,
        ),
        StudyPoint(
            "warp tiles",
            WARP_TILES,
            against="double buffer",
            lesson="larger blocks reread less of A and B; a warp's lanes form a tile, so its reads share addresses",
        ),
        StudyPoint(
            "cp.async stages",
            CP_ASYNC,
            against="warp tiles",
            lesson="copies go straight to shared memory, two tiles ahead, without passing through registers",
        ),
        StudyPoint(
            "fragment prefetch",
            FRAGMENT_PREFETCH,
            against="cp.async stages",
            lesson="fragments of two k in registers, one loaded while the other is multiplied: no FMA waits for a read",
        ),
        StudyPoint(
            "sliced K",
            SLICES,
            against="fragment prefetch",
            lesson="two groups of warps share a block's tile, each with half of a step: more warps for few blocks",
        ),
        StudyPoint(
            "tuned", against="sliced K", lesson="what the search finds when all of this may vary", maker="search"
        ),
        StudyPoint(
            "cuBLAS",
            against="tuned",
            lesson="NVIDIA's library at its best: the fastest of cuBLASLt's algorithms",
            maker="cuBLASLt",
        ),
    ),
    keeps=True,
)


def _pairs(sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """All (rows, columns) of `sizes`, the smaller areas first."""
    pairs = [(rows, cols) for rows in sizes for cols in sizes]
    return tuple(sorted(pairs, key=lambda pair: (pair[0] * pair[1], pair)))


REPORTED_REGISTER_TILES = {(4, 4): 4.530, (8, 8): 7.010, (16, 16): 0.229}
REGISTER_TILE = Study(
    "register-tile",
    "the thread's tile, at block 64x64",
    "How many elements of C should a thread compute? More feed more FMAs with each value read and need more registers.",
    "register tile TM x TN",
    tuple(
        StudyPoint(f"{tm}x{tn}", {**DOUBLE_BUFFER, "TM": tm, "TN": tn}, reported=REPORTED_REGISTER_TILES.get((tm, tn)))
        for tm, tn in _pairs((2, 4, 8, 16))
    ),
)

REPORTED_BLOCK_TILES = {(32, 32): 3.867, (64, 64): 7.009, (128, 128): 6.457, (256, 256): 0.0}
BLOCK_TILE = Study(
    "block-tile",
    "the block's tile, at register tile 8x8",
    "How large a tile should a block compute? Larger ones reread less, and fewer of them run at once.",
    "block tile BM x BN",
    tuple(
        StudyPoint(f"{bm}x{bn}", {**DOUBLE_BUFFER, "BM": bm, "BN": bn}, reported=REPORTED_BLOCK_TILES.get((bm, bn)))
        for bm, bn in ((32, 32), (32, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256))
    ),
)

# Scalar reads of a transposed A: the counts of the source, 2 and (TM + TN) / (TM * TN), are then those of the machine
# code. Vectors, or values that lie next to each other along k, would let the compiler read several at once.
SCALAR = {**OUTER, "TA": 1, "TB": 1, "PAD": 4}
LOOP_ORDER = Study(
    "loop-order",
    "inner against outer product, at block 64x64",
    "What does it gain to have k outermost in a thread's tile, and to read TM + TN values for TM * TN FMAs?",
    "loop order, TM x TN",
    tuple(
        StudyPoint(
            f"{order} {tm}x{tn}", {**SCALAR, "OUTER": outer, "TM": tm, "TN": tn}, against=f"inner {tm}x{tn}" * outer
        )
        for tm, tn in ((2, 2), (4, 4), (8, 4), (8, 8), (16, 8))
        for order, outer in (("inner", 0), ("outer", 1))
    ),
)

# Each rung of tensor cores but the first keeps the settings of the one below it, as far as its family has them.
WMMA_TILES = {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 64}
IN_ORDER = {**WMMA_TILES, "ASYNC": 0, "STAGES": 2, "SWIZZLE": 0}
SWIZZLED = {**IN_ORDER, "SWIZZLE": 1}
MULTISTAGE = {**SWIZZLED, "ASYNC": 1, "STAGES": 4}
WARPGROUP = {"BM": 128, "BN": 128, "BK": 64, "CONSUMERS": 1, "STAGES": 2, "IN_FLIGHT": 0, "PERSISTENT": 0}
SPECIALISED = {**WARPGROUP, "BN": 256, "CONSUMERS": 2, "STAGES": 4, "IN_FLIGHT": 1}
PERSISTENT = {**SPECIALISED, "PERSISTENT": 1}

TENSOR_LADDER = Study(
    "tensor-ladder",
    "one idea of tensor cores at a time",
    "What does each idea add, from WMMA's fragments to the tuned kernel?",
    "rung",
    (
        StudyPoint(
            "wmma",
            WMMA_TILES,
            family="wmma",
            lesson="fragments of 16 x 16 by wmma.load; a k tile is copied element by element while tensor cores wait",
        ),
        StudyPoint(
            "mma.sync",
            IN_ORDER,
            family="mma",
            against="wmma",
            lesson="16-byte copies, the next k tile's on their way through registers; ldmatrix's lines share banks",
        ),
        StudyPoint(
            "swizzle",
            SWIZZLED,
            family="mma",
            against="mma.sync",
            lesson="16-byte chunks trade places within a line: the eight that ldmatrix reads at once share no bank",
        ),
        StudyPoint(
            "multistage",
            MULTISTAGE,
            family="mma",
            against="swizzle",
            lesson="cp.async fills a ring of 4 stages, three k tiles ahead, with no registers in between",
        ),
        StudyPoint(
            "wgmma",
            WARPGROUP,
            family="wgmma",
            against="multistage",
            lesson="four warps multiply as one, straight from shared memory, which one thread fills by TMA",
        ),
        StudyPoint(
            "warp-specialised",
            SPECIALISED,
            family="wgmma",
            against="wgmma",
            lesson="a warpgroup copies for two that multiply and share B's tile: 4 stages, and products stay in flight",
        ),
        StudyPoint(
            "persistent",
            PERSISTENT,
            family="wgmma",
            against="warp-specialised",
            lesson="a block goes from tile to tile: the next one's copies begin while sums of this one leave",
        ),
        StudyPoint(
            "tuned", against="persistent", lesson="what the search finds when all of this may vary", maker="search"
        ),
        StudyPoint(
            "cuBLASLt",
            against="tuned",
            lesson="NVIDIA's library at its best: the fastest of its algorithms",
            maker="cuBLASLt",
        ),
    ),
    keeps=True,
    shape="4096x4096x4096",
    dtype=DType.BF16,
)

STUDIES = {study.name: study for study in (LADDER, TENSOR_LADDER, REGISTER_TILE, BLOCK_TILE, LOOP_ORDER)}
