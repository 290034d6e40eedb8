"""The axes of `simt`, what they must hold, and what the search leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.families.base import (
    CUDA_CORES,
    PDL_CONSTRAINTS,
    PDL_LAST,
    SPLIT_CONSTRAINTS,
    TILES,
    grid_fits,
    pdl_axis,
    rules,
    split_axis,
)
from gemmgen.kernel.config import Config, axis


@dataclass(frozen=True)
class SimtConfig(Config):
    """The axes of `simt`."""

    PATTERN = (
        "outer{OUTER}_{BM}x{BN}x{BK}_{TM}x{TN}_w{WM}x{WN}_v{VEC}_ta{TA}_tb{TB}_pad{PAD}"
        "_s{STAGES}_async{ASYNC}_unroll{K_UNROLL}_slices{SLICES}_minb{MINB}_g{GROUP}_split{SPLIT}"
        "[_stream{STREAM}][_hoist{HOIST}][_fma{FMA_ORDER}][_copy{COPY_THREADS}][_pdl{PDL}][_fixup{FIXUP_UNROLL}]"
    )

    OUTER: int = axis(1, (1, 0), "1: outer product, k outermost; 0: inner product")
    BM: int = axis(128, (32, 64, 128, 256, 16, 8, 4), "rows of C that a block computes")
    BN: int = axis(128, (32, 64, 128, 256, 16, 8), "columns of C that a block computes")
    BK: int = axis(8, (16, 32, 64, 128, 8), "depth of a k tile")
    TM: int = axis(8, (4, 8, 16), "rows of C that a thread computes")
    TN: int = axis(8, (4, 8, 16), "columns of C that a thread computes")
    WM: int = axis(64, (0, 16, 32, 64, 128, 8, 4), "rows of C that a warp computes", "no warp tiles")
    WN: int = axis(32, (0, 16, 32, 64, 128, 8), "columns of C that a warp computes", "no warp tiles")
    VEC: int = axis(4, (4, 2, 1), "elements of the widest access: 1, 2, or 4 of 4 bytes")
    TA: int = axis(0, (1, 0), "1: A, stored along k, is transposed into shared memory")
    TB: int = axis(0, (1, 0), "1: B, stored along k, is transposed into shared memory")
    PAD: int = axis(0, (4, 0), "elements after each shared line of an operand stored along k: spreads banks")
    STAGES: int = axis(2, (3, 2, 4, 1), "stages: k tiles of A and B that shared memory holds")
    ASYNC: int = axis(0, (1, 0), "1: cp.async copies to shared memory, 0: through registers")
    K_UNROLL: int = axis(
        0, (4, 0), "k that a mainloop iteration unrolls, with fragments prefetched two k ahead", "a k tile, no prefetch"
    )
    SLICES: int = axis(
        1, (1, 2, 4, 8), "sliced-K: groups of warps that compute the same block tile, each over a part of the k tile"
    )
    MINB: int = axis(1, (1,), "blocks that must fit an SM at once: caps a thread's registers")
    GROUP: int = axis(8, (8, 1), "raster: tile rows that blocks go down before the next tile column, for reuse in L2")
    SPLIT: int = split_axis()
    STREAM: int = axis(
        0,
        (0, 1, 2, 4),
        "stream-K: blocks that compute the last wave's tiles of C, with about as many k tiles each",
        per_sm=True,
    )
    HOIST: int = axis(
        0, (0, 1, 2, 4), "rows or columns of the thread tile whose FMAs are hoisted above the mainloop's branch"
    )
    FMA_ORDER: int = axis(
        0,
        tuple(range(8)),
        "order of FMAs and loads, a sum: 1 starts at a row's far end, 2 takes the last row first, 4 loads B first",
    )
    COPY_THREADS: int = axis(
        0,
        (0, 16, 32),
        "threads along the contiguous dimension of a transposing copy",
        "as many as cause no bank conflict",
    )
    PDL: int = pdl_axis(0)
    FIXUP_UNROLL: int = axis(
        1, (1, 0), "1: the fixup of a tile that blocks share is unrolled over a thread's rows, 0: it loops over them"
    )


TILE_THREADS = "BM / TM * (BN / TN)"  # that cover a block's tile of C
ALL_TRANSPOSED = "TA + TB == A_ALONG_K + B_ALONG_K"  # of the operands that lie along k, if any

CHECKED = {
    # Values
    "BM >= 1 and BN >= 1 and BK >= 1 and TM >= 1 and TN >= 1": "a tile holds at least one element",
    "STAGES >= 1 and MINB >= 1 and GROUP >= 1 and SLICES >= 1": "counts start at one",
    "GROUP <= BN": "the blocks of a group of tile rows are counted in 32 bits",
    "OUTER <= 1 and TA <= 1 and TB <= 1 and ASYNC <= 1": "a switch is 0 or 1",
    "VEC == 1 or VEC == 2 or VEC == 4": "an access is a power of two wide",
    "VEC * ELEMENT_BYTES <= 16": "an access is at most 16 bytes wide",
    # Tiles: of a block, a warp, a thread
    "(WM == 0) == (WN == 0)": "a warp tile has both sizes or none",
    # Stages, and fragments that are prefetched
    "ASYNC == 1 or STAGES <= 2": "copies through registers keep one tile in flight",
    "ASYNC == 0 or STAGES >= 2": "cp.async fills one stage while another is read",
    "K_UNROLL == 0 or ASYNC == 1 and OUTER == 1": "outer products of cp.async's stages prefetch fragments",
    f"K_UNROLL == 0 or {ALL_TRANSPOSED} or VEC == K_UNROLL": "a vector along k holds the k of an unrolled iteration",
    "K_UNROLL == 0 or TA + TB >= A_ALONG_K + B_ALONG_K - 1": (
        "one operand's vectors are replaced at an iteration's end, not both"
    ),
    (
        "K_UNROLL == 0 or (TA == A_ALONG_K or PITCH_A % K_UNROLL == 0) and (TB == B_ALONG_K or PITCH_B % K_UNROLL == 0)"
    ): "vectors along k stay aligned",
    "K_UNROLL % 2 == 0 and (K_UNROLL == 0 or BK % (K_UNROLL * SLICES) == 0)": (
        "a k tile is a whole number of unrolled iterations"
    ),
    "SUMMED == 0 or K_UNROLL == 0": "only f32 and f64 prefetch fragments; zero points are of s8 and u8",
    # Slices
    "SLICES == 1 or K_UNROLL > 0 and WM > 0": "slices are warps that prefetch fragments",
    "SLICES == 1 or TN * ELEMENT_BYTES % 16 == 0": "slices add up 16 bytes at a time",
    "SLICES == 1 or TM % (SLICES * ROUNDS) == 0": "slices divide a thread tile's rows evenly, in each round",
    # Copies, and accesses that stay aligned
    "ASYNC <= UNIFORM": "cp.async converts nothing",
    "TA <= A_ALONG_K": "only an A with k contiguous can be transposed",
    "TB <= B_ALONG_K": "only a B with k contiguous can be transposed",
    "PAD == 0 or A_ALONG_K + B_ALONG_K >= 1": "padding serves operands with k contiguous",
    # Split-K and stream-K; the order of FMAs
    "HOIST == 0 or K_UNROLL > 0": "a hoisted product needs a loop that prefetches fragments",
    "HOIST < TM and HOIST < TN": "only a part of a product can be hoisted",
    "FMA_ORDER <= 7": "FMA_ORDER is a sum of the choices 1, 2 and 4",
    "FMA_ORDER == 0 or K_UNROLL > 0": "only a loop that prefetches fragments has an order of its own",
    "COPY_THREADS == 0 or ASYNC == 1 and TA + TB >= 1": "only cp.async's transposing copies go element by element",
    "COPY_THREADS <= BK": "COPY_THREADS threads copy one row of a k tile",
    "STREAM == 0 or SPLIT == 1": "a kernel is split-K or stream-K",
    "STREAM == 0 or BATCH == 1": "stream-K serves no batch",
    "FIXUP_UNROLL <= 1": "a switch is 0 or 1",
    "FIXUP_UNROLL == 1 or SPLIT + STREAM > 1": "no tile is shared",
    "FIXUP_UNROLL == 1 or SUMMED == 0": "sums of A's rows are in registers, which no loop counts",
}

ASSERTED = {
    # Tiles: of a block, a warp, a thread
    "BM % TM == 0": "threads split a block's rows evenly",
    "BN % TN == 0": "threads split a block's columns evenly",
    "WM == 0 or BM % WM == 0": "warps split a block's rows evenly",
    "WM == 0 or BN % WN == 0": "warps split a block's columns evenly",
    "WM == 0 or WM % TM == 0": "lanes split a warp's rows evenly",
    "WM == 0 or WN % (2 * TN) == 0": "lanes stand in pairs along a warp's columns",
    "WM == 0 or WM * WN == 32 * TM * TN": "a warp has 32 lanes, each with a TM x TN tile",
    # Slices
    "SLICES == 1 or SLICES * BM * BN <= ROUNDS * STAGES * (SHARED_A + SHARED_B)": (
        "the slices' sums fit where the tiles were"
    ),
    # Copies, and accesses that stay aligned
    "ASYNC <= HAS_CP_ASYNC": "cp.async needs sm_80 or newer",
    "A_CONTIGUOUS % VA == 0": "A's tile is a whole number of accesses along its contiguous dimension",
    "B_CONTIGUOUS % VB == 0": "B's tile is a whole number of accesses along its contiguous dimension",
    "TM % FM == 0": "a thread's rows are a whole number of shared reads",
    "TN % FN == 0": "a thread's columns are a whole number of shared reads",
    "FN % VC == 0": "a thread's neighbouring columns are a whole number of stores",
    "PITCH_A % FM == 0 and PITCH_A % STORE_A == 0": "vector accesses to A's shared tile stay aligned",
    "PITCH_B % FN == 0 and PITCH_B % STORE_B == 0": "vector accesses to B's shared tile stay aligned",
    "STAGES * SHARED_A % FN == 0 and STAGES * SHARED_A % STORE_B == 0": (
        "vector accesses to B's tiles, which may follow A's, stay aligned"
    ),
    # Limits of the architecture
    "THREADS <= MAX_THREADS": "the architecture bounds the threads of a block",
    "THREADS * MINB <= MAX_SM_THREADS": "the architecture bounds the threads of an SM",
    "SHARED_BYTES <= MAX_SHARED_BYTES": "the architecture bounds the shared memory of a block",
}

SLOW = {
    # Tried last, of the fastest
    "HOIST == 2 * (A_ALONG_K + B_ALONG_K - TA - TB) * (K_UNROLL > 0)": (
        "hoisting pays with vectors along k, seldom otherwise"
    ),
    "FMA_ORDER == 0": "its effect on register bank conflicts is not modelled: tried last, for the fastest kernels only",
    "COPY_THREADS == 0": (
        "longer contiguous copies help some tiles and slow others: tried last, for the fastest kernels only"
    ),
    "FIXUP_UNROLL == (SPLIT + STREAM == 1) or SUMMED > 0": (
        "the unrolled fixup takes twice as long to compile and gains 1.5% at most: tried last, for the fastest kernels"
    ),
    "GROUP == 8 or M > 0 and M <= BM or N > 0 and N <= BN": "the raster is tried last, for the fastest kernels only",
    # What a thread does
    "OUTER == 1": "an inner product reads two shared values per FMA",
    "VEC * ELEMENT_BYTES == 16": (
        "narrower accesses only add instructions (lines that are not aligned narrow their own)"
    ),
    # Tiles and the size of C
    "BM >= 32 or M <= BM and 2 * M > BM": "short tiles reuse B poorly; they are allowed only if C has few rows",
    "BN >= 32 or N <= BN and 2 * N > BN": "narrow tiles reuse A poorly; they are allowed only if C has few columns",
    # For so few rows or columns that no low or narrow tile is meant for them any tile has to do.
    "BM <= 16 or M <= 2 or M > 16": "at least half of a taller tile's rows lie outside of C",
    "BN <= 16 or N <= 4 or N > 16": "at least half of a wider tile's columns lie outside of C",
    "(BM <= 32 or M == 0 or M > 2) and (BN <= 32 or N == 0 or N > 4)": "so few rows or columns need no larger tile",
    "GROUP == 1 or (M == 0 or M > BM) and (N == 0 or N > BN)": "a single row or column of tiles has one order",
    "WM > 0": "warp tiles read less shared memory than rows of threads",
    "(WN <= 8 * WM or BM <= 8) and (WM <= 2 * WN or BN <= 16 and WM <= 8 * WN or BN <= 8)": (
        "a longer warp tile reads more shared memory; it is of use only if the block's tile is a strip"
    ),
    # How operands travel
    f"{ALL_TRANSPOSED} or K_UNROLL > 0": "without prefetch, tiles with contiguous k are loaded element by element",
    f"{ALL_TRANSPOSED} or BK * ELEMENT_BYTES >= 128": "shorter copies along k are slow",
    f"{ALL_TRANSPOSED} or A_ALONG_K + B_ALONG_K < 2 or (BM - BN) * (TB - TA) >= 0": (
        "if both operands lie along k, the one with the larger tile should not be transposed"
    ),
    "PAD >= A_ALONG_K and PAD >= B_ALONG_K": "without padding, copies or loads cause bank conflicts",
    # Threads and blocks
    "TM * TN >= 16": "a smaller thread tile spends its issue slots on shared reads",
    "TM * TN * ELEMENT_BYTES <= 512": "a larger thread tile exceeds 255 registers",
    f"{TILE_THREADS} * SLICES >= 64": "smaller blocks leave an SM short of warps",
    f"{TILE_THREADS} * SLICES <= 256": "larger blocks leave too few registers per thread",
    # Split-K and stream-K
    "SPLIT == 1 or M * N / (BM * BN) * SPLIT <= 1024": "1024 blocks fill any card",
    "SPLIT == 1 or K == 0 or K / SPLIT >= 16 * BK": "the ranges of K are too short to pay for their fixup",
    "STREAM == 0 or TM * TN * ELEMENT_BYTES >= 256": "smaller tiles leave less of the last wave idle",
    "STREAM == 0 or STREAM * THREADS == SMS * (512 - 256 * (TM * TN * ELEMENT_BYTES > 256))": (
        "stream-K needs as many blocks as run at once: threads take 128 or 255 registers"
    ),
    "STREAM == 0 or K == 0 or K >= 64 * BK": "dealing out k tiles pays only from 64 k tiles per tile on",
    (
        f"STREAM == 0 or M == 0 or N == 0 or {TILES} > STREAM / 4 and {TILES} < 16 * STREAM and {TILES} % STREAM > 0"
        f" and 16 * ({TILES} % STREAM) <= 15 * STREAM"
    ): "the last wave is almost full, or one of many, or so empty that split-K is as good",
    # K tiles
    "K_UNROLL > 0 or ASYNC == 0 or SUMMED > 0": (
        "values that are read when used stall FMAs and spoil the order of register reads"
    ),
    "ASYNC == 1 or HAS_CP_ASYNC * UNIFORM == 0": "cp.async beats copies through registers",
    "BK <= 32 * SLICES": "a longer k tile only takes shared memory from other stages and blocks",
    "BK >= 16 or ASYNC == 0": "a k tile below 16 waits as often as it multiplies",
    "BK >= 8 * SLICES": "a slice of fewer than 8 k spends most of its time at barriers",
    "SLICES == 1 or M * N / (BM * BN) <= 1024": "1024 tiles fill any card without slices",
    "STAGES <= 2 or (STAGES - 1) * BK * TM * TN <= 4096": "fewer stages already cover the latency of global memory",
    "32 * (A_ITERATIONS + B_ITERATIONS) <= TM * TN * BK": "so many copies per thread crowd out the FMAs",
}

STREAM_FITS = grid_fits(f"STREAM == 0 or {TILES} + STREAM")
CONSTRAINTS = rules(CHECKED, ASSERTED, *SPLIT_CONSTRAINTS, *PDL_CONSTRAINTS, CUDA_CORES, STREAM_FITS)
PRUNING = rules(SLOW, {}, PDL_LAST)
