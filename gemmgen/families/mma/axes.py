"""The axes of `mma`, what they must hold, and what the search leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.families.base import PDL_CONSTRAINTS, PDL_LAST, SPLIT_CONSTRAINTS, pdl_axis, rules, split_axis
from gemmgen.kernel.config import Config, axis
from gemmgen.problem.types import PROMOTION


@dataclass(frozen=True)
class MmaConfig(Config):
    """The axes of `mma`."""

    PATTERN = (
        "{BM}x{BN}x{BK}_w{WM}x{WN}_s{STAGES}_async{ASYNC}[_mma{MMA_K}][_swizzle{SWIZZLE}][_exchange{EXCHANGE}]"
        "_g{GROUP}_split{SPLIT}[_pdl{PDL}]"
    )

    BM: int = axis(128, (128, 256, 64, 32, 16), "rows of C that a block computes")
    BN: int = axis(128, (128, 256, 64, 32), "columns of C that a block computes")
    BK: int = axis(32, (32, 64, 128, 16), "depth of a k tile")
    WM: int = axis(64, (64, 32, 16, 128), "rows of C that a warp computes")
    WN: int = axis(64, (64, 32, 16, 128), "columns of C that a warp computes")
    STAGES: int = axis(3, (3, 4, 2, 5, 6), "stages: k tiles of A and B that shared memory holds")
    ASYNC: int = axis(1, (1, 0), "1: cp.async copies to shared memory, 0: through registers")
    MMA_K: int = axis(16, (16, 32, 8, 4), "k of an instruction")
    SWIZZLE: int = axis(1, (1, 0), "1: chunks of a shared line trade places, 0: they lie in order")
    EXCHANGE: int = axis(
        0,
        (0, 1),
        "1: lanes exchange sums until each has an access of 16 bytes to C together, 0: each stores what it has",
    )
    GROUP: int = axis(8, (8, 1), "raster: tile rows that blocks go down before the next tile column, for reuse in L2")
    SPLIT: int = split_axis()
    PDL: int = pdl_axis(0)


MMA_M = 16  # rows of C that one instruction multiplies
PAIR_N = 16  # columns whose fragments of B one ldmatrix brings: those of two instructions

CHECKED = {
    "HAS_MMA == 1": "no tensor core multiplies these types",
    "MMA_SINCE < NEVER": "no instruction has this MMA_K for these types",
    "MMA_K <= K_STEP": "a fragment of A has four registers at most",
    "MMA_SINCE <= ARCH": "the architecture has no such instruction, or none as exact as --compute asks",
    "ARCH < MMA_UNTIL or MMA_AGAIN <= ARCH": "the architecture makes several others of it: see problem/mma.py",
    "SUMMED == 0 or A_BYTES == 1": "zero points are of s8 and u8",
    "BM >= 1 and BN >= 1 and BK >= 1 and WM >= 1 and WN >= 1": "a tile holds at least one element",
    "GROUP >= 1": "counts start at one",
    "GROUP <= BN": "the blocks of a group of tile rows are counted in 32 bits",
    "ASYNC <= 1 and SWIZZLE <= 1 and EXCHANGE <= 1": "a switch is 0 or 1",
    # How C leaves
    "EXCHANGE == 0 or C_ACCESS > C_RUN": "accesses wider than a lane's own run need C and ldc aligned to them",
    "STAGES >= 2": "one stage is filled while another is read",
    "ASYNC == 1 or STAGES == 2": "copies through registers keep one tile in flight",
    "WGRAD == 0": "only naive and wgmma compute gradients of filters",
    "IMAGES == 0 or A_ACCESS >= 4": "cp.async copies 4, 8 or 16 bytes of a pixel: channels and lda must be a multiple",
    "TAP_LINES <= 32": "a word has a bit for each row and column of taps: whether the image has it at a place",
    "IMAGES == 0 or ASYNC == 1": "pixels come by cp.async",
    "ASYNC == 0 or A_ACCESS >= 4 and B_ACCESS >= 4": "cp.async copies 4, 8 or 16 bytes: align lda and ldb",
    "CODES * PROMOTED == 0": "only naive and wgmma multiply sums of codes by scales",
    "CODES == 0 or ASYNC == 1": "packed codes come by cp.async",
    "CODES == 0 or MMA_K == K_STEP": "a word of codes has the fragment of an instruction of 16 k",
    "CODES == 0 or BATCH == 1": "codes of one matrix are packed",
    "CODES == 0 or BN % 64 == 0": "chunks of packed codes have 64 columns",
    "BK % CODES_K == 0": "a k tile has whole chunks of packed codes",
    "CODES == 0 or K > 0 and K % BK == 0": "numbers of codes are made for whole k tiles",
    f"PROMOTED == 0 or BK <= {PROMOTION}": "sums are added up in f32 after each k tile",
}

ASSERTED = {
    # Tiles: of a block, a warp, an instruction
    "BM % WM == 0": "warps split a block's rows evenly",
    "BN % WN == 0": "warps split a block's columns evenly",
    f"WM % {MMA_M} == 0": f"fragments of A have {MMA_M} rows",
    f"WN % {PAIR_N} == 0": "fragments of B, of 8 columns, are loaded two at a time",
    "BK % (2 * K_STEP) == 0": "fragments of a k tile take turns in two sets of registers",
    "THREADS <= MAX_THREADS": "the architecture bounds the threads of a block",
    # Stages and copies
    "A_LANES > 0 and THREADS % A_LANES == 0": "threads copy whole lines of A's tile together",
    "B_LANES > 0 and THREADS % B_LANES == 0": "threads copy whole lines of B's tile together",
    # How C leaves
    "EXCHANGE == 0 or WN % STEP_N == 0": "four lanes have whole accesses of a row together",
    "ASYNC <= HAS_CP_ASYNC": "cp.async needs sm_80 or newer",
    "SHARED_BYTES <= MAX_SHARED_BYTES": "the architecture bounds the shared memory of a block",
}

SLOW = {
    "SWIZZLE == 1": "without a swizzle the eight lines that an ldmatrix reads lie in the same banks",
    "ASYNC == 1 or HAS_CP_ASYNC == 0 or A_ACCESS < 4 or B_ACCESS < 4": "cp.async needs no registers for data in flight",
    "A_BYTES == 8 or (MMA_K * A_BYTES == 32) == (ARCH >= 80)": "the instruction with the most products is the fastest",
    "A_BYTES < 8 or ARCH == 80 and MMA_K == 4 or ARCH == 90 and MMA_K == 8": (
        "other architectures have few units for f64"
    ),
    "WM * WN * ELEMENT_BYTES * (1 + PROMOTED) <= 16384 and WM * WN >= 512 - 256 * CODES": (
        "accumulators must fit the registers, and be enough to reuse fragments"
    ),
    "A_BYTES < 8 or WM * WN <= 1024 or WM == 64 and WN == 32 and BM == 128 and BN == 128": (
        "more sums of f64 spill, except for 64 x 32 in blocks of 128 x 128"
    ),
    "WM <= 2 * WN or BN <= WN": "a square warp tile reads less",
    "WN <= 2 * WM or BM <= WM": "a square warp tile reads less",
    "BM / WM * (BN / WN) >= 2 and BM / WM * (BN / WN) <= 8": "an SM's four schedulers share few large warp tiles",
    "M == 0 or BM < 2 * M or BM == 16": "most of the tile would lie outside of C",
    "N == 0 or BN < 2 * N or BN == 32": "most of the tile would lie outside of C",
    "K == 0 or SPLIT == 1 or K / SPLIT >= 2 * BK * STAGES": "the parts of K are too short to fill the stages",
    "SPLIT == 1 or M * N / (BM * BN) <= 2 * SMS": "the grid fills the card without a split",
    "K == 0 or STAGES == 2 or K / SPLIT > BK * (STAGES - 2)": "there are fewer k tiles than stages",
    "CODES == 1 or STAGES * BK * A_BYTES <= 512": "fewer stages already cover the latency of global memory",
    "CODES == 1 or BK * A_BYTES >= 64 and BK * A_BYTES <= 128": "lines of a tile are best 64 to 128 bytes long",
    "A_ITERATIONS <= 32 and B_ITERATIONS <= 32": (
        "so many unrolled copies per thread spill, and take seconds to compile"
    ),
    "GROUP == 8": "this axis is tried last, for the fastest kernels only",
    "EXCHANGE == 1 or 4 * C_RUN * C_BYTES >= 32 or C_ACCESS <= C_RUN or WN % (4 * C_ACCESS) > 0": (
        "the runs of four lanes fill no sector: tried last, for the fastest kernels only"
    ),
    "EXCHANGE == 0 or 4 * C_RUN * C_BYTES < 32": (
        "the runs of four lanes fill a sector: tried last, for the fastest kernels only"
    ),
}

CONSTRAINTS = rules(CHECKED, ASSERTED, *SPLIT_CONSTRAINTS, *PDL_CONSTRAINTS)
PRUNING = rules(SLOW, {}, PDL_LAST)
