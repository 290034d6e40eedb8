"""The axes of `wgmma`, what they must hold, and what the search leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.families.base import PDL_CONSTRAINTS, SPLIT_FITS, grid_fits, pdl_axis, rules
from gemmgen.kernel.config import Config, axis
from gemmgen.kernel.prepare import COPY_ALIGNS
from gemmgen.kernel.tensor_map import LEAST_CORNER, MOST_CORNER, MOST_STEP, MOST_TAP, PATTERN_LINES, UNIT
from gemmgen.problem.device import L2_LINE
from gemmgen.problem.types import PROMOTION
from gemmgen.problem.wgmma import MOST_N, M


@dataclass(frozen=True)
class WgmmaConfig(Config):
    """The axes of `wgmma`."""

    PATTERN = (
        "{BM}x{BN}x{BK}_c{CONSUMERS}_k{CLUSTER}x{ACROSS}_s{STAGES}_f{IN_FLIGHT}_g{GROUP}_p{PERSISTENT}[_o{PINGPONG}]"
        "[_split{SPLIT}][_r{FROM_REGISTERS}][_x{SWAP}][_pdl{PDL}][_copy{COPY_ALIGN}][_whole{WHOLE}][_rows{ROWS_UNROLL}]"
        "[_boxes{C_BOXES}][_b{BROADCAST}]"
    )

    BM: int = axis(
        128,
        (128, 256, 64, 192, *(rows for rows in range(8, 256, 8) if rows % M)),
        "rows of C that a block computes",
    )
    BN: int = axis(
        256,
        (256, 128, 192, 64, 160, 224, 176, 96, 32, 16, 208, 240, 144, 112, 80, 48, 8),
        "columns of C that a block computes",
    )
    BK: int = axis(64, (64, 128, 32, 256), "depth of a k tile")
    SWAP: int = axis(
        0, (0, 1), "1: A and B change places, C^T = B^T A^T: the 64 rows of an instruction are columns of C"
    )
    FROM_REGISTERS: int = axis(
        0,
        (0, 1, 2),
        "wgmma takes from registers the fragments of, 1: A; 2: B, and computes C's transpose; 0: neither",
    )
    CONSUMERS: int = axis(2, (2, 1, 3, 4), "warpgroups that multiply, each its rows of the block tile")
    CLUSTER: int = axis(1, (1, 2), "blocks of a cluster: each brings its part of an operand to all")
    ACROSS: int = axis(
        0, (0, 1), "a cluster's tiles lie, 0: below each other, and share B; 1: beside each other, and A"
    )
    STAGES: int = axis(4, (4, 3, 5, 6, 7, 8, 2), "stages: k tiles of A and B that shared memory holds")
    IN_FLIGHT: int = axis(1, (1, 0), "k tiles whose products may be under way while the next one is awaited")
    GROUP: int = axis(
        8, (8, 16, 1), "raster: tile rows that blocks go down before the next tile column, for reuse in L2"
    )
    PERSISTENT: int = axis(1, (1, 0), "1: a block computes one tile after the other, 0: one tile")
    PINGPONG: int = axis(0, (0, 1), "1: consumers take turns at the block's tiles, 0: they share each of them")
    SPLIT: int = axis(
        1, (1, 2, 4, 8), "split-K: blocks of a cluster that compute the same tile of C, each over a part of K"
    )
    PDL: int = pdl_axis(1)
    COPY_ALIGN: int = axis(UNIT, COPY_ALIGNS, "bytes of which lines of copied operands begin at multiples")
    WHOLE: int = axis(0, (0, 1), "1: threads stage whole pieces of C, and TMA drops what lies beyond an edge")
    ROWS_UNROLL: int = axis(
        1, (1, 0), "1: where warps store C by rows, eight that they have staged are unrolled, 0: they loop over them"
    )
    C_BOXES: int = axis(
        1, (1, 2, 4, 3, *range(5, 12)), "boxes of TMA, side by side, of a piece of C, which is staged at once"
    )
    BROADCAST: int = axis(
        0,
        (0, 1),
        "1: a warp's lanes have its number from the first, and the compiler keeps what follows from it in uniform "
        "registers, 0: each computes it",
    )


# Seen on an H200 (2026-11-23, driver 580.159.04): a load of a box that lies outside as a whole ends in an illegal
# memory access, as if TMA went to the tensor's address, which is 0 in a map of all memory. In others it gives zeros.
OUTSIDE = "TMA is asked for no box that lies wholly outside of a matrix behind a pointer"

# Guards of a constraint: products are those of C's transpose, one way or the other; or they are not.
SWAPS, KEEPS = "SWAP == 1 or FROM_REGISTERS == 2", ("SWAP == 0", "FROM_REGISTERS != 2")
KEPT = "SWAP + FROM_REGISTERS / 2 == 0"  # both of the latter


def _meets(extent: str, tile: str, box: str) -> str:
    """The condition that the last box of every tile along `extent` (0: known only at run time) meets the matrix."""
    return f"({tile} == {box} or {extent} > 0 and ({extent} - 1) % {tile} >= {tile} - {box})"


# Sizes that tiles are to fit: those given, else the typical ones; 0 where neither is known.
ROWS, COLUMNS, MATRICES = "TYPICAL_M", "TYPICAL_N", "TYPICAL_BATCH"
KNOWN, UNKNOWN = (f"{ROWS} * {COLUMNS} * {MATRICES} {than} 0" for than in (">", "=="))
# Then how many rows and columns of tiles C has, and waves the grid.
TILES_M, TILES_N = f"(({ROWS} + BM - 1) / BM)", f"(({COLUMNS} + BN - 1) / BN)"
WAVES = f"(({TILES_M} * {TILES_N} * {MATRICES} * SPLIT + SMS - 1) / SMS)"


def _least(extent: str, tile: str, step: str, across: str) -> str:
    """The condition that tiles smaller by `step` along `extent` need more waves; the grid has `across` tiles along the
    other side."""
    return f"({tile} - {step}) * ({WAVES} * SMS / ({across} * {MATRICES} * SPLIT)) < {extent}"


# Whether a cluster's tiles may end beyond C, of which so many lie beside each other, and the others below.
BESIDE = "(1 + ACROSS * (CLUSTER - 1))"
CUT = f"GROUPS > 0 or M * N == 0 or M % (BM * (CLUSTER / {BESIDE})) > 0 or N % (BN * {BESIDE}) > 0"

CHECKED = {
    "HAS_WGMMA == 1": "no wgmma multiplies these types as exactly as --compute says",
    "ARCH == 90": "wgmma exists only on sm_90a",
    f"POINTERS == 0 or POINTER_ALIGN % {UNIT} == 0": f"TMA takes matrices that begin at multiples of {UNIT}",
    "POINTERS == 0 or AS_IT_LIES == 1": "matrices behind pointers are not copied for TMA or wgmma",
    "POINTERS == 0 or SUMMED == 0": "the lines of matrices behind pointers are not summed before the launch",
    **{
        f"POINTERS == 0 or {where} or {meets}": OUTSIDE
        for where, meets in (
            ("A_ALONG_K == 0", _meets("K", "BK", "LINE_A")),
            ("A_ALONG_K == 1", _meets("M", "BM", "LINE_A")),
            ("B_ALONG_K == 0", _meets("K", "BK", "LINE_B")),
            ("B_ALONG_K == 1", _meets("N", "BN", "LINE_B")),
            ("C_BY_TMA == 0", f"{_meets('M', 'BM', str(M))} and {_meets('N', 'BN', 'CN')}"),
            ("ACROSS == 0 or A_ALONG_K == 1", _meets("K", "BK", "BK / CLUSTER")),  # the part of A, or B, that a block
            ("ACROSS == 1 or B_ALONG_K == 1", _meets("K", "BK", "BK / CLUSTER")),  # brings to its cluster
            ("CLUSTER == 1", "M > 0 and N > 0 and M % BM == 0 and N % BN == 0"),
            ("CLUSTER == 1", "ACROSS == 0 and M % (CLUSTER * BM) == 0 or ACROSS == 1 and N % (CLUSTER * BN) == 0"),
        )
    },
    # Groups of rows
    "GROUPS == 0 or PERSISTENT == 1": "only the device knows the tiles of groups, of which a block computes several",
    "GROUPS == 0 or MASKED == 1 or A_ALONG_K == 1": (
        f"a group begins at any row, and a box of TMA at a multiple of {UNIT} bytes"
    ),
    "GROUPS == 0 or AS_IT_LIES == 1": "matrices of groups are not copied for TMA or wgmma",
    "GROUPS == 0 or CLUSTER == 1 or ACROSS == 1": "tiles below each other may be of two groups, which share no B",
    # Gathered rows
    "GATHERED == 0 or GATHERED_COPIES == 0": f"gathered rows are not copied or split, and begin at multiples of {UNIT}",
    "GATHERED == 0 or TF32 == 0": "TMA rounds f32 to tf32, and the threads that gather rows copy bits as they are",
    "GATHERED == 0 or ACROSS == 0": "the threads that gather rows copy them for their own block alone",
    "GATHERED == 0 or PRODUCER_REGISTERS < CONSUMER_REGISTERS": (
        "the threads that gather rows need more registers than a block of so many threads starts with"
    ),
    # Groups along K
    "K_GROUPS == 0 or A_ALONG_K + B_ALONG_K == 0": (
        f"a group begins at any k, which lines run across: a box of TMA begins at a multiple of {UNIT} bytes of a line"
    ),
    "K_GROUPS == 0 or AS_IT_LIES == 1": "matrices of groups are not copied for TMA or wgmma",
    "K_GROUPS == 0 or SPLIT == 1": "only the device knows the K of a group, which no blocks divide",
    # Images
    "COPIED_IMAGES == 0": f"images are not copied or split: their pixels begin at multiples of {UNIT} bytes",
    f"PIXEL_BYTES % {UNIT} == 0": f"a box has channels of one tap, a multiple of {UNIT} bytes",
    "WGRAD == 0 or PIXEL_BYTES % 32 == 0": "lines of B are channels of a pixel, and TMA swizzles 32 bytes at least",
    f"PLACE_STEP <= {MOST_STEP}": f"TMA goes at most {MOST_STEP} pixels from a place of a filter to the next",
    f"CORNERS_BEFORE <= {-LEAST_CORNER} and CORNERS_BEHIND <= {MOST_CORNER}": (
        "TMA counts in 8 bits how far padding and filters reach across the edges of images"
    ),
    f"TAPS_SPAN <= {MOST_TAP}": f"a tap is at most {MOST_TAP} pixels from where its filter begins",
    "SUMMED == 0 or INTEGER == 1": "zero points are of s8 and u8",
    "SUMMED == 0 or PRODUCTS == 1": "zero points need a single matrix B",
    "BM >= 1 and BN >= 1 and BK >= 1": "a tile holds at least one element",
    "CONSUMERS >= 1 and CLUSTER >= 1 and SPLIT >= 1 and GROUP >= 1 and C_BOXES >= 1": "counts start at one",
    **{
        f"{switch} <= 1": "a switch is 0 or 1"
        for switch in ("PERSISTENT", "ACROSS", "PINGPONG", "SWAP", "WHOLE", "ROWS_UNROLL", "BROADCAST")
    },
    "GROUP <= 32": "the blocks of a group of tile rows are counted in 32 bits",
    f"COPY_ALIGN == {UNIT} or COPY_ALIGN == {L2_LINE}": (
        "lines of a copy begin where TMA can take them, or with lines of L2"
    ),
    f"COPY_ALIGN == {UNIT} or CUT_LINES == 1": "no copy has lines that begin inside of L2's",
    f"WHOLE == 0 or {CUT}": "no tile ends beyond C",
    "WHOLE == 0 or C_BY_TMA == 1": "only TMA drops what lies beyond C's edges",
    "ROWS_UNROLL == 1 or C_BY_TMA == 0": "no warp stores C by rows",
    "C_BOXES == 1 or C_BY_TMA == 1": "TMA stores no box of C",
    f"C_BOXES == 1 or {KEPT}": "pieces of C's transpose have one box per 64 columns",
    "C_BOXES == 1 or SPLIT == 1": "a block of a split tile stores too few columns for several boxes",
    "C_BOXES == 1 or BN % (CN * C_BOXES) == 0": "all pieces of C have the same number of boxes",
    "WHOLE == 0 or OUTPUTS == 0": "threads store what an epilogue writes beside C, within its edges",
    # Codes
    "CODES == 0 or SWAP == 1": "numbers that codes stand for are in registers, which feed the rows of an instruction",
    "CODES == 0 or BATCH == 1": "codes of one matrix are packed",
    "CODES == 0 or LINES_B <= 256": "a box of TMA has at most 256 lines of packed codes",
    "BK % CODES_K == 0": "a k tile has whole chunks of packed codes",
    "CODES == 0 or K > 0 and K % 16 == 0": "an instruction's numbers of codes are all within K",
    "CODES * PROMOTED == 0 or BK % (2 * CODES_K) == 0": "two chunks of codes have accumulators by turns",
    "CODES == 0 or PINGPONG == 0": "consumers that have codes in registers share a tile",
    "CODES == 0 or CLUSTER == 1 or ACROSS == 1": "the blocks of a cluster share no packed codes",
    # Scales of blocks
    f"BLOCKS == 0 or BK == {PROMOTION}": "a k tile is a block of K, whose sums have one scale",
    "BLOCKS == 0 or SCALED_LINES == 1 or BN <= 128 or BN % 64 == 0 or BN <= 160 and BN % 32 == 0 or BN == 144": (
        "a tile's columns lie in at most two blocks of B, wherever it begins"
    ),
    "BLOCKS == 0 or SWAP + FROM_REGISTERS == 0": "a thread has sums of two rows of an instruction, and so two scales",
    "BLOCKS == 0 or BATCH == 1": "scales are those of one product",
    # Tiles: of a block, a warpgroup, an instruction
    f"PRODUCTS * BN <= {MOST_N}": "an instruction multiplies the columns of all products",
    "INTEGER == 0 or SWAP == 0 and (PRODUCTS * BN <= 32 or PRODUCTS * BN % 16 == 0) or SWAP == 1 and "
    "(BM <= 32 or BM % 16 == 0)": ("wgmma of integers has multiples of 16 columns"),
    "B_ALONG_K == 1 or BN % 16 == 0": "TMA swizzles lines of 32 bytes at least",
    "BK <= 256": "a box of TMA has at most 256 elements along each dimension",
    "(IMAGES > WGRAD or LINE_A * A_BYTES >= 32) and LINE_B * B_BYTES >= 32": "TMA swizzles lines of 32 bytes at least",
    # C's transpose
    "SWAP == 0 or FROM_REGISTERS == 0": "if A and B change places, both are read from shared memory",
    "SWAP == 0 or C_BY_TMA == 1": "sums of C's transpose are stored only by TMA",
    "SWAP == 0 or PRODUCTS == 1 and HALVES == 0": "several products, and sums of f16, cannot be transposed",
    **{f"{keeps} or BM % (8 * SPLIT) == 0": "a block adds up whole eights of the tile's rows" for keeps in KEEPS},
    # Fragments from registers
    "FROM_REGISTERS <= 2": "registers feed one operand, A or B",
    "FROM_REGISTERS != 1 or A_FEEDS == 1": "registers are for tf32 whose lines run across K",
    "FROM_REGISTERS != 2 or B_FEEDS == 1": "registers are for tf32 whose lines run across K",
    "FROM_REGISTERS == 0 or PINGPONG == 0": "consumers that load fragments share a tile",
    # Pingpong
    "PINGPONG == 0 or CONSUMERS >= 2": "a consumer alone has nobody to take turns with",
    "PINGPONG == 0 or PERSISTENT == 1": "a single tile gives no turns",
    # Clusters
    "CLUSTER > 1 or ACROSS == 0": "a block alone shares nothing",
    "CLUSTER <= 8 and SPLIT <= 8": "all cards support at most 8 blocks per cluster",
    f"CLUSTER == 1 or (ACROSS * LINES_A + (1 - ACROSS) * LINES_B) % ({PATTERN_LINES} * CLUSTER) == 0": (
        "a block brings whole patterns of a swizzle, 8 lines each"
    ),
    # Split-K
    "SPLIT == 1 or PERSISTENT == 0": "the sums are exchanged in the ring, which the next tile would fill",
    "SPLIT == 1 or CLUSTER == 1": "the blocks of a cluster share an operand or the K of a tile",
    "SPLIT == 1 or HALVES == 0": "sums of f16 would be rounded once more per part of K",
    f"{SWAPS} or BN % (8 * SPLIT) == 0": "a block adds up columns in multiples of 8",
    "SPLIT == 1 or BN * C_BYTES % (16 * SPLIT) == 0": "TMA stores lines of at least 16 bytes",
    **{
        f"SPLIT == 1 or {codes} or STAGES * BK * (BM * A_BYTES + {b}) >= PRODUCTS * BM * BN * ELEMENT_BYTES": (
            "the ring has room for a tile's sums"
        )
        for codes, b in (("CODES == 1", "PRODUCTS * BN * B_BYTES"), ("CODES == 0", "BN * CODE_BITS / 8"))
    },
    # Stages
    "STAGES >= 2": "one stage is filled while another is read",
    "IN_FLIGHT <= 1": "one k tile's products suffice to keep the tensor cores busy",
    f"PROMOTED == 0 or CODES == 1 or BK <= {PROMOTION}": "sums are added up in f32 after each k tile",
    f"PIECES == 0 or {PROMOTION} % BK == 0": (
        "the sums of a pair of pieces are added up after a whole number of k tiles"
    ),
    "SUM_REGISTERS + BESIDE_SUMS <= CONSUMER_REGISTERS": "the sums, and the registers needed beside them, must fit",
}

ASSERTED = {
    # Tiles: of a block, a warpgroup, an instruction
    f"PINGPONG == 1 or {SWAPS} or BM % ({M} * CONSUMERS) == 0": f"a warpgroup multiplies {M} rows at once",
    f"PINGPONG == 0 or SWAP == 1 or BM % {M} == 0": f"a warpgroup multiplies {M} rows at once",
    "BM <= 256": "a box of TMA has at most 256 elements along each dimension",
    f"{SWAPS} or BN % 8 == 0 and BN <= {MOST_N}": f"wgmma's n is a multiple of 8, up to {MOST_N}",
    "BK % K_STEP == 0": "a k tile is a whole number of instructions",
    "THREADS <= MAX_THREADS": "the architecture bounds the threads of a block",
    # C's transpose
    **{
        f"{keeps} or {rule}": because
        for keeps in KEEPS
        for rule, because in (
            (f"PINGPONG == 1 or BN % ({M} * CONSUMERS) == 0", f"a warpgroup multiplies {M} columns at once"),
            (f"PINGPONG == 0 or BN % {M} == 0", f"a warpgroup multiplies {M} columns at once"),
            ("BM % 8 == 0", "wgmma's n, here rows of A, is a multiple of 8"),
        )
    },
    # Fragments from registers
    "FROM_REGISTERS == 0 or BK % (2 * K_STEP) == 0": "two sets of fragments take turns",
    # Stages
    "IN_FLIGHT < STAGES": "stages that products still read cannot be filled",
    "SHARED_BYTES <= MAX_SHARED_BYTES": "the architecture bounds the shared memory of a block",
}

# Tiles smaller than WIDE ask L2 for more than it serves. Where no cluster shares them, and the products take longer
# than about 25 us, blocks that start in the grid's order gain more than a start that overlaps (H100, 2026-11-26:
# docs/lab/wgmma-notebook.md).
ALONE, TILE, WIDE = "CLUSTER * SPLIT", "BM * BN * PRODUCTS", 128 * 128
WORK, LONG = f"{ROWS} * {COLUMNS} * {MATRICES} * K * A_BYTES", 2**34

SLOW = {
    f"COPY_ALIGN == {L2_LINE} or CUT_LINES == 0": "a box's line that lies in two L2 lines is requested twice",
    f"C_BY_TMA == 0 or OUTPUTS > 0 or WHOLE == ({CUT})": (
        "code for tiles cut by an edge takes twice as long to compile: tried last, for the fastest kernels only"
    ),
    "ROWS_UNROLL == C_BY_TMA": (
        "the unrolled loop takes up to twice as long to compile: tried last, for the fastest kernels only"
    ),
    "BK * A_BYTES >= 128": "lines of 128 bytes swizzle best",
    **{
        f"{x}_ALONG_K == 1 or {tile} % 32 == 0 or {tile} == 16": "TMA is as slow for lines of 32 bytes as of 128"
        for x, tile in (("A", "BM"), ("B", "BN"))
    },
    "CODES == 1 or BK * A_BYTES <= 128 or BM * BN * PRODUCTS <= 16384": "stages of large tiles need no deeper k tile",
    "FROM_REGISTERS > 0 or A_FEEDS + B_FEEDS == 0": (
        "loading from registers avoids an operand's copy, which pays at every size"
    ),
    "FROM_REGISTERS != 1 or BM == 64 * CONSUMERS": "threads load fragments of one instruction at a time",
    "FROM_REGISTERS != 2 or BN == 64 * CONSUMERS": "threads load fragments of one instruction at a time",
    "SWAP + FROM_REGISTERS > 0 or BM == 64 * CONSUMERS or PRODUCTS * BN <= 128": (
        "64 rows per warpgroup, with a wide tile, read less shared memory"
    ),
    "CONSUMERS <= 3 or CODES == 1": "a fourth consumer helps only where threads make numbers of codes",
    "CONSUMERS >= 2 or BM * BN * PRODUCTS <= 16384": "two warpgroups keep the tensor cores busier than one",
    "STAGES * BK * A_BYTES <= 1024 or BM * BN * PRODUCTS <= 4096": (
        "fewer stages already cover the latency of global memory"
    ),
    "STAGES * (BM * BK * A_BYTES + PRODUCTS * BN * BK * B_BYTES) >= 65536": (
        "fewer stages do not hide the memory latency"
    ),
    "BROADCAST == 1": (
        "it saves instructions beside products and epilogues; other values are tried last, as not all kernels gain"
    ),
    "PROMOTED == 1 or IN_FLIGHT == 1": "this axis is tried last, for the fastest kernels only",
    "PIECES == 0 or IN_FLIGHT == 0": "this axis is tried last, for the fastest kernels only",
    "GROUP == 8": "this axis is tried last, for the fastest kernels only",
    "PERSISTENT == 1 or SPLIT > 1": "this axis is tried last, for the fastest kernels only",
    "C_BOXES == 1": "this axis is tried last, for the fastest kernels only",
    f"PDL == 1 or {ALONE} == 1 and {TILE} < {WIDE} and {WORK} > {LONG}": (
        "PDL = 0 pays only where L2 is the limit; else it is tried last, for the fastest kernels"
    ),
    f"PDL == 0 or {ALONE} > 1 or {TILE} >= {WIDE} or {WORK} <= {LONG}": (
        "blocks that start in order share lines in L2, which is the limit here"
    ),
    "PINGPONG == 0 or BM >= 128 - 32 * SWAP and PRODUCTS * BN >= 128 * (1 + HALVES)": (
        "with PINGPONG smaller tiles were never the fastest"
    ),
    "PINGPONG == 0 or PROMOTED == 0": "with PINGPONG promoted sums have room only for small tiles",
    "PINGPONG == 0 or CLUSTER == 1 or ACROSS == 1 and BM > PRODUCTS * BN or ACROSS == 0 and BM < PRODUCTS * BN": (
        "with PINGPONG clusters gained only by sharing the larger of the tiles of A and B"
    ),
    "PINGPONG == 0 or M * N * BATCH == 0 or M * N * BATCH > SMS * BM * BN": (
        "no block has a second tile, so that no consumer gets another turn"
    ),
    "K == 0 or SPLIT == 1 or K >= 4 * SPLIT * BK": "so few k tiles per part do not pay for a start and a reduction",
    "SPLIT == 1 or M * N * BATCH * SPLIT <= 2 * SMS * BM * BN": "the grid fills the card without a split",
    "CODES == 1 or SWAP == 0 or BM % 64 > 0 or BN == 64 or BM < 64 * CONSUMERS or BM == 192 and PROMOTED == 1": (
        "tiles of whole 64 rows need the transpose only for more consumers, or to save registers"
    ),
    "SWAP == 0 or BN == 64 * CONSUMERS or BN == 128 * CONSUMERS and CONSUMERS == 2 or PINGPONG == 1 and BN == 128": (
        "a warpgroup multiplies 64 columns, or 128 if the tile has no more"
    ),
    f"{KEPT} or {KNOWN} or BM % 32 == 0 or BM == 16 or BM == 176": (
        "rows in steps of 8 help only to fit waves, or an edge, of known sizes"
    ),
    (
        f"{KEPT} or {UNKNOWN} or {ROWS} <= 512 and (BM - 8 * SPLIT) * {TILES_M} < {ROWS} "
        f"or {_least(ROWS, 'BM', '8 * SPLIT', TILES_N)}"
    ): "tiles of fewer rows would take no more waves",
    "BN > 8 or PRODUCTS == 4": "only several matrices side by side make such a tile wide enough",
    f"BN % 32 == 0 or BN <= 16 or BN == 176 or {KNOWN} and {_least(COLUMNS, 'BN', '16', TILES_M)}": (
        "tiles of fewer columns would take no more waves"
    ),
    "M == 0 or BM < 2 * M or BM == 64 or SWAP == 1 and BM == 8": "most of the tile would lie outside of C",
    "N == 0 or BN < 2 * N or BN <= 16": "most of the tile would lie outside of C",
}

GROUPS_FIT = grid_fits("((M + BM - 1) / BM + GROUPS) * ((N + BN - 1) / BN)")
CONSTRAINTS = rules(CHECKED, ASSERTED, *SPLIT_FITS, GROUPS_FIT, *PDL_CONSTRAINTS)
PRUNING = rules(SLOW, {})
