"""Constants of `wgmma` that follow from a problem and a config: threads, registers, boxes, how C leaves.

Each is an expression of axes and other constants. Constraints read it, and a kernel's text declares it.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from gemmgen.families.base import elements_of, image_constants
from gemmgen.families.wgmma.axes import WgmmaConfig
from gemmgen.families.wgmma.operands import PACKED_WORDS, Operand, feeds, operands, piece_box, staged, swaps
from gemmgen.kernel.config import Derived
from gemmgen.kernel.prepare import PACKED_COLUMNS, PACKED_LINE, Pack
from gemmgen.kernel.tensor_map import UNIT
from gemmgen.problem.device import MAX_REGISTERS, REGISTERS_PER_SM
from gemmgen.problem.gemm import Problem
from gemmgen.problem.pieces import Pieces
from gemmgen.problem.types import PROMOTION, Compute
from gemmgen.problem.wgmma import K_BYTES, WARPGROUP, M

PRODUCER_REGISTERS = 40  # of a thread, which only starts copies
BY_ROW, BY_BOX = 4, 8  # further ones where all its threads copy gathered rows of A: for each row, and further box
BESIDE_SUMS = 64  # registers of a consumer's thread for what goes on beside its sums: larger tiles were slower
BESIDE_OWN = 40  # likewise where it stores a tile of its own as it is, beside another's products: nothing spills
STAGED = "Shared memory"  # the heading of constants that say what lies there
SUMS = "How C leaves registers"
OF_PIECES = frozenset({"CM", "CN", "PN", "C_STAGES", "PITCH_C"})
MATRIX_BYTES = 2  # of an element of the matrices that stmatrix moves
BESIDE_TURN = 48  # likewise where such a tile's epilogue computes all of a piece at once: wider ones spill
BESIDE_TOTALS = 40  # likewise where half of the sums are touched once in many k tiles, and nothing spills


def derived(problem: Problem, config: WgmmaConfig) -> tuple[Derived, ...]:
    """The constants that a kernel has beside its axes."""
    a, b = operands(problem, config)
    elements = "elements" if problem.types.compute.pieces else elements_of(problem)
    across, ratio = "BM" if swaps(config) else "BN", register_ratio(problem)  # of an instruction
    return (
        *_tiling(K_BYTES // problem.types.factors[0].size, bool(config.PINGPONG), swaps(config), donates(config)),
        *_registers(
            config.CONSUMERS,
            producer_registers(problem, config),
            f"{mmas(config)} * {across}{_times(ratio.numerator)} / {ratio.denominator}",
            *_sets(problem, config),
        ),
        *_clusters(a if a.shared else b),
        *_pieces(problem.types.compute.pieces),
        *_parts(config),
        *image_constants(problem.inputs.conv),
        *_groups(problem),
        *_lines(a, elements),
        *(_gathered(_chunks(problem, config)) if a.gathered else ()),
        *(_packed_lines(problem) if b.packed else _lines(b, elements)),
        *_results(
            piece_box(problem, config),
            feeds(config),
            staged(problem),
            problem.products,
            _across(problem, config),
            bool(config.SWAP),
            piece_columns(config),
            b.packed,
        ),
    )


def donates(config: WgmmaConfig) -> bool:
    """Whether the producer gives registers to the consumers: a single consumer already has all that a thread can
    address."""
    return config.CONSUMERS > 1


def start_registers(consumers: int) -> int:
    """Registers per thread at launch of one producer and `consumers` consumers, when the block has the SM to itself."""
    return _granted(REGISTERS_PER_SM // (WARPGROUP * (consumers + 1)))


def producer_registers(problem: Problem, config: WgmmaConfig) -> int:
    """Registers per producer thread, once it has given up the others."""
    if not problem.inputs.gathered:
        return PRODUCER_REGISTERS
    boxes = operands(problem, config)[0].boxes
    return -(-(PRODUCER_REGISTERS + BY_ROW * _rows(problem, config) + BY_BOX * (boxes - 1)) // 8) * 8


def consumer_registers(consumers: int, producer: int) -> int:
    """Registers per consumer thread, once the producer has given up all but `producer` of its own."""
    return _granted(start_registers(consumers) + (start_registers(consumers) - producer) // consumers)


def _granted(registers: int) -> int:
    """Round down to a register count that setmaxnreg grants: a multiple of 8; no thread addresses more than 255."""
    return min(registers, MAX_REGISTERS) // 8 * 8


def mmas(config: WgmmaConfig) -> str:
    """The constant that counts the instructions of 64 rows each that make up a consumer's tile."""
    return "MMAS_N" if swaps(config) else "MMAS_M"


def direct(problem: Problem, config: WgmmaConfig) -> bool:
    """Whether all elements of C come from a thread's sums in the same way, with no other epilogue. TMA drops what lies
    beyond an edge.

    Excluded are integers, tiles of a single piece, and edges unless consumers take turns or pieces are WHOLE: ptxas
    generates other code for these, which was not measured. Of C's transpose only elements of 2 bytes are included, as
    stmatrix moves them.
    """
    if config.SWAP:
        return staged(problem) and problem.epilogue.is_linear and problem.types.c.size == MATRIX_BYTES
    known = piece_box(problem, config)[0] < config.BN and not problem.types.accumulator.is_integer
    usual = known and not config.FROM_REGISTERS and problem.types.compute is not Compute.F16
    whole = config.PINGPONG == 1 or config.WHOLE == 1 or not _edges(problem, config)
    return usual and staged(problem) and problem.epilogue.is_linear and whole


def at_once(problem: Problem, config: WgmmaConfig) -> bool:
    """Whether a thread computes its whole share of a piece of C before it stores the first element.

    It does not if its epilogue writes more than C, or if it checks an edge before each store.
    """
    epilogue = problem.epilogue
    simple = staged(problem) and not epilogue.is_linear and not epilogue.outputs
    return simple and (config.WHOLE == 1 or not _edges(problem, config))


def _edges(problem: Problem, config: WgmmaConfig) -> bool:
    """Whether C, or a group of its rows, may end inside a tile of a block or of a cluster."""
    if problem.inputs.ragged_groups:
        return True
    below, beside = (1, config.CLUSTER) if config.ACROSS else (config.CLUSTER, 1)
    sides = (problem.m, config.BM * below), (problem.n, config.BN * beside)
    return any(size is None or size % max(1, tile) != 0 for size, tile in sides)


def single(problem: Problem, config: WgmmaConfig) -> bool:
    """Whether a consumer's tile is one instruction's tile, so that nothing counts instructions or numbers their
    sums.

    Only for `direct` kernels: ptxas generates other code for the rest, which was not measured.
    """
    along = config.BN if swaps(config) else config.BM
    return direct(problem, config) and (1 if config.PINGPONG else config.CONSUMERS) * M == along


def register_ratio(problem: Problem) -> Fraction:
    """Registers of a thread for the sums of an instruction, over its columns, or rows where C is transposed: it has 64
    x BN of each product, or 64 x BM."""
    per_register = 2 if problem.types.compute is Compute.F16 else 1
    return Fraction(problem.products, 2 * per_register)


def alternates(problem: Problem, config: WgmmaConfig) -> bool:
    """Whether k tiles alternate between two sets of sums, because they are promoted while products are in flight."""
    return problem.types.compute is Compute.PROMOTED and (config.IN_FLIGHT > 0 or problem.coded)


def _sets(problem: Problem, config: WgmmaConfig) -> tuple[int, int]:
    """Return (a consumer's sets of sums, registers per thread that it needs beside them)."""
    compute, two = problem.types.compute, alternates(problem, config)
    if compute.pieces or two:
        beside = BESIDE_TOTALS
    elif (config.PINGPONG == 1 or config.SWAP == 1) and direct(problem, config):
        beside = BESIDE_OWN
    else:
        beside = BESIDE_TURN if config.PINGPONG == 1 and at_once(problem, config) else BESIDE_SUMS
    return 1 + compute.promotes + two, beside


@cache
def _tiling(step: int, pingpong: bool, swapped: bool, donates: bool) -> tuple[Derived, ...]:
    along, direction = ("N", "across") if swapped else ("M", "down")
    rows = str(M) if pingpong else f"({M} * CONSUMERS)"  # of an instruction in all consumers that share a tile
    bound = "; without this bound ptxas ignores setmaxnreg" if donates else ""
    return (
        Derived("THREADS", f"{WARPGROUP} * (CONSUMERS + 1)", "threads a block: the last warpgroup is the producer"),
        Derived("MINB", "1", f"blocks an SM, at least{bound}"),
        Derived("K_STEP", str(step), "k of an instruction"),
        Derived(f"MMAS_{along}", f"B{along} / {rows}", f"instructions {direction} a consumer's tile"),
    )


@cache
def _registers(consumers: int, producer: int, sums: str, sets: int, beside: int) -> tuple[Derived, ...]:
    lines = (
        ("PRODUCER_REGISTERS", str(producer), "registers of a producer's thread, after setmaxnreg"),
        (
            "CONSUMER_REGISTERS",
            str(consumer_registers(consumers, producer)),
            "and of a consumer's: together no more than the block starts with",
        ),
        ("SUM_REGISTERS", f"{sums} * {sets}", "of a consumer's thread, for sums"),
        ("BESIDE_SUMS", str(beside), "of a consumer's thread, for all else"),
    )
    return tuple(Derived(*line) for line in lines)


@cache
def _lines(x: Operand, elements: str) -> tuple[Derived, ...]:
    return (
        Derived(f"LINE_{x.X}", str(x.line), f"{elements} of a line of {x.X}'s boxes, the span of the swizzle", STAGED),
        Derived(f"LINES_{x.X}", _box_lines(x), f"lines of a box of {x.X}: there are no more", STAGED),
    )


def _chunks(problem: Problem, config: WgmmaConfig) -> int:
    """The number of chunks of 16 bytes in a line of A's boxes."""
    return operands(problem, config)[0].line * problem.types.a.size // UNIT


def _rows(problem: Problem, config: WgmmaConfig) -> int:
    """The number of gathered rows of A that a thread of the producer copies parts of."""
    return -(-config.BM * _chunks(problem, config) // WARPGROUP)


@cache
def _gathered(chunks: int) -> tuple[Derived, ...]:
    """How threads of the producer copy rows of A. They hand over a k tile only after they have started the copies of
    COPIES_AHEAD further ones. As a consumer holds a stage until it has the next one, two must be left for it."""
    lines = (
        ("CHUNKS_A", str(chunks), f"chunks of {UNIT} bytes per line of A"),
        (
            "ROWS_A",
            f"(BM * CHUNKS_A + {WARPGROUP - 1}) / {WARPGROUP}",
            "rows of A's k tile of which a thread copies chunks",
        ),
        (
            "COPIES_AHEAD",
            "(STAGES > 2) + (STAGES > 4)",
            "k tiles whose copies may be in flight when those of the next one start",
        ),
    )
    return tuple(Derived(*line, STAGED) for line in lines)


def _packed_lines(problem: Problem) -> tuple[Derived, ...]:
    pack = Pack("B")
    lines = (
        ("CHUNK_K", str(pack.depth(problem)), "k of a chunk of packed codes"),
        ("CHUNK_LINES", str(pack.chunk_lines(problem)), f"lines of {PACKED_LINE} bytes of a chunk"),
        ("LINE_B", str(PACKED_WORDS), "words of such a line"),
        ("LINES_B", f"BN / {PACKED_COLUMNS} * CHUNK_LINES", "lines of the chunks of a tile's columns"),
    )
    return tuple(Derived(*line, STAGED) for line in lines)


def _box_lines(x: Operand) -> str:
    return str(x.lines) if x.limited else f"B{x.MN}" if x.along_k else "BK"


@cache
def _clusters(shared: Operand) -> tuple[Derived, ...]:
    size, direction = ("CLUSTER_N", "columns") if shared.x == "a" else ("CLUSTER_M", "rows")
    return (
        Derived(size, f"CLUSTER * B{size[-1]}", f"{direction} of C that a cluster computes", "Clusters"),
        Derived(
            f"PART_{shared.X}",
            f"{_box_lines(shared)} / CLUSTER",
            f"lines of a box of {shared.X} that a block brings",
            "Clusters",
        ),
    )


def _groups(problem: Problem) -> tuple[Derived, ...]:
    count = problem.inputs.ragged_groups
    line = Derived("GROUPS", str(count), "groups of rows, each with its own B; some may be empty", "Groups")
    return (line,) if count else ()


@cache
def _pieces(pieces: Pieces | None) -> tuple[Derived, ...]:
    if pieces is None:
        return ()
    lines = (
        ("INTERVAL", str(PROMOTION), "k of which sums are added up in f32"),
        ("PIECES", str(pieces.count), "of each operand"),
        ("PAIRS", str(len(pieces.pairs)), "of pieces whose products count"),
    )
    return tuple(Derived(*line, group="Pieces") for line in lines)


def even(problem: Problem, config: WgmmaConfig) -> bool:
    """Whether several blocks share a tile, and their ranges of K are known to have the same length."""
    k, steps = problem.k or 0, config.SPLIT * range_step(problem, config)
    return config.SPLIT > 1 and k > 0 and k % steps == 0


def range_step(problem: Problem, config: WgmmaConfig) -> int:
    """The number of k that divides the length of a block's range."""
    return PROMOTION if problem.types.compute.pieces and config.SPLIT > 1 else config.BK


def stored(config: WgmmaConfig) -> str:
    """The constant that gives the number of columns of the tile that a block stores, or of rows if C is transposed."""
    side = "M" if swaps(config) else "N"
    return f"PART_{side}" if config.SPLIT > 1 else f"B{side}"


def _parts(config: WgmmaConfig) -> tuple[Derived, ...]:
    if config.SPLIT == 1:
        return ()
    name, what = stored(config), "rows" if swaps(config) else "columns"
    return (Derived(name, f"B{name[-1]} / SPLIT", f"{what} of the tile that a block stores", "Split-K"),)


def _across(problem: Problem, config: WgmmaConfig) -> str:
    """The columns, as an expression, of all instructions in the tile that a consumer stores, or rows if C is
    transposed."""
    return stored(config) if single(problem, config) else f"{mmas(config)} * {stored(config)}"


@cache
def _results(
    box: tuple[int, int], feed: str, by_tma: bool, products: int, across: str, swap: bool, columns: str, packed: bool
) -> tuple[Derived, ...]:
    """Constants of the thread tile of a piece, that of wgmma's accumulators: see templates/device/wgmma.cu."""
    swapped = swap or feed == "b"
    own = f"{M} * {'CM' if swapped else columns}"
    staged = f"C_STAGES * CONSUMERS * {own} * C_BYTES" if by_tma else "CONSUMERS * 4 * 8 * PITCH_C * C_BYTES"
    b = f"STAGES * BK * BN{_times(products)} * B_BYTES"
    b = f"STAGES * (BK / CHUNK_K) * LINES_B * {PACKED_LINE}" if packed else b
    b = f"({b} + 1023) / 1024 * 1024" if by_tma else b  # C's pieces begin at a pattern of a swizzle
    a = "STAGES * BK * BM * A_BYTES"
    a = f"({a} + 1023) / 1024 * 1024" if swap else a  # B's tiles begin at one, too, whatever BM is
    total = f"{a} + {b} + {staged} + 16 * STAGES + 8 * CONSUMERS"
    neighbours = 2 if feed else 1  # that lie side by side along the rows of an instruction
    lines = _swapped_piece(box, neighbours, across) if swapped else _piece(box, neighbours, across, columns)
    access = ("VC", "1" if swap else "2", "elements of an access to C")
    return (
        *(Derived(*line, group=STAGED if line[0] in OF_PIECES else SUMS) for line in (*lines, access)),
        Derived("SHARED_BYTES", f"({total} + 1023) / 1024 * 1024", "bytes of shared memory a block"),
    )


Line = tuple[str, str, str]


def piece_columns(config: WgmmaConfig) -> str:
    """The constant that gives the columns of a piece whose rows are those of an instruction."""
    return "CN" if config.C_BOXES == 1 else "PN"


def _piece(box: tuple[int, int], neighbours: int, across: str, piece: str) -> tuple[Line, ...]:
    columns, rows = box
    meaning = f"columns of a piece: C leaves by pieces of a consumer's {rows} rows"
    one = ("CN", str(columns), meaning)
    several = ("CN", str(columns), "columns of a box of TMA"), ("PN", "CN * C_BOXES", meaning)
    return (
        *(several if piece == "PN" else (one,)),
        _stages(f"{across} / {piece}"),
        ("PITCH_C", "CN + 8 * (CN % 16 == 0)", "elements from one of a warp's rows in shared memory to the next"),
        ("TM", "2", "rows of C that a thread has sums of, of each instruction"),
        ("TN", f"{piece} / 4", "columns of C that a thread has sums of, of a piece"),
        ("FM", str(neighbours), "adjacent rows in a run"),
        ("FN", "2", "adjacent columns in a run"),
        ("STEP_M", "8", "rows from a run to the next"),
        ("STEP_N", "8", "columns from a run to the next"),
    )


def _swapped_piece(box: tuple[int, int], neighbours: int, across: str) -> tuple[Line, ...]:
    columns, rows = box
    return (
        ("CM", str(rows), f"rows of a piece: C leaves by pieces of a consumer's {M} columns"),
        ("CN", str(columns), "columns of these in a line of shared memory"),
        _stages(f"{across} / CM"),
        ("TM", "CM / 4", "rows of C that a thread has sums of, of a piece"),
        ("TN", "2", "columns of C that a thread has sums of, of each instruction"),
        ("FM", "2", "adjacent rows in a run"),
        ("FN", str(neighbours), "adjacent columns in a run"),
        ("STEP_M", "8", "rows from a run to the next"),
        ("STEP_N", "8", "columns from a run to the next"),
    )


def _stages(pieces: str) -> Line:
    meaning = "a consumer's buffers: 2, in turns, for an even number of pieces"
    return "C_STAGES", f"1 + ({pieces} % 2 == 0)", meaning


def _times(products: int) -> str:
    """The factor of BN that counts the columns of all matrices B: " * 2", or nothing."""
    return f" * {products}" if products > 1 else ""
