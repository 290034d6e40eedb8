"""`simt`: f32 and f64 GEMM on CUDA cores (FFMA, DFMA), from one element a thread to warp-tiled 16x16 register tiles.

    grid -> block BM x BN -> SLICES of each step's depth -> warp WM x WN -> thread TM x TN, in steps of BK along K

Two loop orders over the same tiles: the outer product reads TM + TN values for TM * TN FMAs, the
inner product two for each. Tiles of A and B pass through shared memory in one, two or more stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import gcd
from typing import Any, cast

from gemmgen.expression import evaluate
from gemmgen.families.base import (
    SAME_BITS,
    SPLIT_CONSTRAINTS,
    TILES,
    Config,
    Constraint,
    Derived,
    Side,
    Work,
    atomic_axis,
    axis,
    constants,
    sizes_of,
    split_axis,
    tile_grid,
)
from gemmgen.problem import Problem


@dataclass(frozen=True)
class SimtConfig(Config):
    """The axes of `simt`."""

    PATTERN = (
        "outer{OUTER}_{BM}x{BN}x{BK}_{TM}x{TN}_w{WM}x{WN}_v{VEC}_ta{TA}_tb{TB}_pad{PAD}"
        "_s{STAGES}_async{ASYNC}_ahead{AHEAD}_slices{SLICES}_minb{MINB}_g{GROUP}_split{SPLIT}[_atomic{ATOMIC}]"
        "[_stream{STREAM}][_order{ORDER}]"
    )

    OUTER: int = axis(1, (1, 0), "1: outer product, k outermost; 0: inner product")
    BM: int = axis(128, (32, 64, 128, 256, 16), "rows of C that a block computes")
    BN: int = axis(128, (32, 64, 128, 256, 16), "columns of C that a block computes")
    BK: int = axis(8, (16, 32, 64, 128, 8), "depth of one step along K")
    TM: int = axis(8, (4, 8, 16), "rows of C that a thread computes")
    TN: int = axis(8, (4, 8, 16), "columns of C that a thread computes")
    WM: int = axis(64, (0, 16, 32, 64, 128), "rows of C that a warp computes (0: no warp tiles)")
    WN: int = axis(32, (0, 16, 32, 64, 128), "columns of C that a warp computes (0: no warp tiles)")
    VEC: int = axis(4, (4, 2, 1), "elements of the widest access: 1, 2, or 4 of 4 bytes")
    TA: int = axis(0, (1, 0), "1: A, stored along k, is transposed into shared memory")
    TB: int = axis(0, (1, 0), "1: B, stored along k, is transposed into shared memory")
    PAD: int = axis(0, (4, 0), "elements after each shared line of an operand stored along k: spreads banks")
    STAGES: int = axis(2, (3, 2, 4, 1), "tiles of A and B that shared memory holds")
    ASYNC: int = axis(0, (1, 0), "1: cp.async copies to shared memory, 0: through registers")
    AHEAD: int = axis(
        0, (4, 0), "depths that the loop over a step writes out, reading two ahead (0: a whole step, none ahead)"
    )
    SLICES: int = axis(1, (1, 2, 4, 8), "groups of warps that share a block's tile, each with a part of a step's depth")
    MINB: int = axis(1, (1,), "blocks that must fit an SM at once: caps a thread's registers")
    GROUP: int = axis(8, (8, 1), "tile rows that blocks walk down before they step right, for reuse in L2")
    SPLIT: int = split_axis()
    ATOMIC: int = atomic_axis()
    STREAM: int = axis(
        0, (0, 1, 2, 4), "blocks that share the last tiles of C, each an equal run of their steps along K", per_sm=True
    )
    ORDER: int = axis(
        0,
        tuple(range(8)),
        "order of a thread's FMAs, reads: 1 starts at a line's far end, 2 takes the last line first, 4 reads B first",
    )


SLICES_GROUP = "How slices add up"
TILE_THREADS = "BM / TM * (BN / TN)"  # that cover a block's tile of C

CONSTRAINTS = (
    Constraint("BM >= 1 and BN >= 1 and BK >= 1 and TM >= 1 and TN >= 1", "a tile holds at least one element", False),
    Constraint("STAGES >= 1 and MINB >= 1 and GROUP >= 1 and SLICES >= 1", "counts start at one", False),
    Constraint("GROUP <= BN", "the blocks of a group of tile rows are counted in 32 bits", False),
    Constraint("OUTER <= 1 and TA <= 1 and TB <= 1 and ASYNC <= 1", "a switch is 0 or 1", False),
    Constraint("VEC == 1 or VEC == 2 or VEC == 4", "an access is a power of two wide", False),
    Constraint("VEC * ELEMENT_BYTES <= 16", "an access is at most 16 bytes wide", False),
    Constraint("BM % TM == 0", "threads split a block's rows evenly"),
    Constraint("BN % TN == 0", "threads split a block's columns evenly"),
    Constraint("(WM == 0) == (WN == 0)", "a warp tile has both sizes or none", False),
    Constraint("WM == 0 or BM % WM == 0", "warps split a block's rows evenly"),
    Constraint("WM == 0 or BN % WN == 0", "warps split a block's columns evenly"),
    Constraint("WM == 0 or WM % TM == 0", "lanes split a warp's rows evenly"),
    Constraint("WM == 0 or WN % (2 * TN) == 0", "lanes stand in pairs along a warp's columns"),
    Constraint("WM == 0 or WM * WN == 32 * TM * TN", "a warp has 32 lanes, each with a TM x TN tile"),
    Constraint("ASYNC == 1 or STAGES <= 2", "copies through registers keep one tile in flight", False),
    Constraint("ASYNC == 0 or STAGES >= 2", "cp.async fills one stage while another is read", False),
    Constraint("AHEAD == 0 or ASYNC == 1 and OUTER == 1", "outer products of cp.async's stages read ahead", False),
    Constraint(
        "AHEAD == 0 or TA == A_ALONG_K and TB == B_ALONG_K", "values are read ahead line by line along k", False
    ),
    Constraint(
        "AHEAD % 2 == 0 and (AHEAD == 0 or BK % (AHEAD * SLICES) == 0)", "a step is a whole number of turns", False
    ),
    Constraint("SLICES == 1 or AHEAD > 0 and WM > 0", "slices are warps that read ahead", False),
    Constraint("SLICES == 1 or TN * ELEMENT_BYTES % 16 == 0", "slices add up 16 bytes at a time", False),
    Constraint(
        "SLICES == 1 or TM % (SLICES * ROUNDS) == 0", "slices share a thread's rows evenly, in each round", False
    ),
    Constraint(
        "SLICES == 1 or SLICES * BM * BN <= ROUNDS * STAGES * (SHARED_A + SHARED_B)",
        "the slices' sums take the place of the tiles",
    ),
    Constraint("ASYNC <= HAS_CP_ASYNC", "cp.async needs sm_80 or newer"),
    Constraint("TA <= A_ALONG_K", "only an A whose lines run along k can be transposed", False),
    Constraint("TB <= B_ALONG_K", "only a B whose lines run along k can be transposed", False),
    Constraint("PAD == 0 or A_ALONG_K + B_ALONG_K >= 1", "padding serves tiles that come from lines along k", False),
    Constraint("A_LINE % VA == 0", "a line of A's tile is a whole number of accesses"),
    Constraint("B_LINE % VB == 0", "a line of B's tile is a whole number of accesses"),
    Constraint("TM % FM == 0", "a thread's rows are a whole number of shared reads"),
    Constraint("TN % FN == 0", "a thread's columns are a whole number of shared reads"),
    Constraint("FN % VC == 0", "a thread's neighbouring columns are a whole number of stores"),
    Constraint("PITCH_A % FM == 0 and PITCH_A % STORE_A == 0", "vector accesses to A's shared lines stay aligned"),
    Constraint("PITCH_B % FN == 0 and PITCH_B % STORE_B == 0", "vector accesses to B's shared lines stay aligned"),
    Constraint(
        "STAGES * SHARED_A % FN == 0 and STAGES * SHARED_A % STORE_B == 0",
        "vector accesses to B's tiles, which may follow A's, stay aligned",
    ),
    *SPLIT_CONSTRAINTS,
    Constraint("ORDER <= 7", "there are three choices", False),
    Constraint("ORDER == 0 or AHEAD > 0", "only a loop that reads ahead has an order of its own", False),
    Constraint("STREAM == 0 or SPLIT == 1", "blocks share tiles in one way or the other", False),
    Constraint("STREAM == 0 or BATCH == 1", "the products of a batch are not dealt out by steps", False),
    Constraint("THREADS <= MAX_THREADS", "the architecture bounds the threads of a block"),
    Constraint("THREADS * MINB <= MAX_SM_THREADS", "the architecture bounds the threads of an SM"),
    Constraint("SHARED_BYTES <= MAX_SHARED_BYTES", "the architecture bounds the shared memory of a block"),
)

PRUNING = (
    SAME_BITS,
    Constraint("ORDER == 0", "registers fall into other banks, of which no model knows: tried last, of the fastest"),
    Constraint("OUTER == 1", "an inner product reads two shared values for each FMA"),
    Constraint(
        "VEC * ELEMENT_BYTES == 16",
        "narrower accesses only add instructions (lines that are not aligned narrow their own)",
    ),
    Constraint("BM >= 32 or M > 4 and M <= 16", "so low a tile reuses little of B: only where C is about as low"),
    Constraint("BN >= 32 or N > 4 and N <= 16", "so narrow a tile reuses little of A: only where C is about as narrow"),
    Constraint("WM > 0", "warp tiles read less shared memory than rows of threads"),
    Constraint("TA == A_ALONG_K and TB == B_ALONG_K", "tiles that keep their lines along k are read one by one"),
    Constraint("PAD >= A_ALONG_K and PAD >= B_ALONG_K", "a transposing store without padding meets its own bank"),
    Constraint("TM * TN >= 16", "a smaller thread tile spends its issue slots on shared reads"),
    Constraint("TM * TN * ELEMENT_BYTES <= 512", "a larger thread tile exceeds 255 registers"),
    Constraint(f"{TILE_THREADS} * SLICES >= 64", "smaller blocks leave an SM short of warps"),
    Constraint(f"{TILE_THREADS} * SLICES <= 256", "larger blocks leave a thread too few registers"),
    Constraint("SPLIT == 1 or M * N / (BM * BN) * SPLIT <= 1024", "more blocks than that fill any card"),
    Constraint("SPLIT == 1 or K == 0 or K / SPLIT >= 16 * BK", "parts too short for what adding them up costs"),
    Constraint("STREAM == 0 or TM * TN * ELEMENT_BYTES >= 256", "smaller tiles leave less of the last wave idle"),
    Constraint(
        "STREAM == 0 or STREAM * THREADS == SMS * (512 - 256 * (TM * TN * ELEMENT_BYTES > 256))",
        "not as many blocks as run at once: a thread with so many sums takes 128 or 255 registers",
    ),
    Constraint("STREAM == 0 or K == 0 or K >= 64 * BK", "so few steps a tile are not worth dealing out"),
    Constraint(
        f"STREAM == 0 or M == 0 or N == 0 or {TILES} > STREAM / 4 and {TILES} < 16 * STREAM and {TILES} % STREAM > 0"
        f" and 16 * ({TILES} % STREAM) <= 15 * STREAM",
        "the last wave is as good as full, or one of many, or so empty that splitting K of all tiles is as good",
    ),
    Constraint(
        "AHEAD > 0 or ASYNC == 0", "values that are read when used make FMAs wait and read registers out of order"
    ),
    Constraint("ASYNC == HAS_CP_ASYNC", "cp.async beats copies through registers"),
    Constraint("BK <= 32 * SLICES", "a longer step only takes shared memory from other stages and blocks"),
    Constraint("BK >= 16 or ASYNC == 0", "a shorter step waits for its tile as often as it multiplies"),
    Constraint("BK >= 8 * SLICES", "so short a part of a step is mostly barrier"),
    Constraint("SLICES == 1 or M * N / (BM * BN) <= 1024", "more tiles than that fill any card"),
    Constraint("WM <= 2 * WN and WN <= 8 * WM", "a longer warp tile reads more shared memory, for no gain"),
    Constraint("STAGES <= 2 or (STAGES - 1) * BK * TM * TN <= 4096", "further ahead than global memory takes"),
    Constraint("32 * (A_SHARE + B_SHARE) <= TM * TN * BK", "so many copies a thread crowd out the FMAs"),
)


@dataclass(frozen=True)
class Operand(Side):
    """How A or B travels to shared memory; names are those of the rendered kernel.

    transposed  written to shared memory across its lines
    k_rows      shared lines run along m or n, one for each k: a thread reads its fragment as vectors
    moves       a tile that would cross the edge of C moves back to it, so that copies need no checks there
    extent      what the kernel calls the lines from the tile's origin to the edge of C
    copy        template that brings a tile to shared memory; fragment, to registers
    """

    transposed: bool
    copy: str
    moves: bool = False

    @property
    def k_rows(self) -> bool:
        return self.transposed or not self.along_k

    @property
    def extent(self) -> str:
        return "rows" if self.x == "a" else "columns"

    @property
    def fragment(self) -> str:
        return "fragment/vector.cu" if self.k_rows else "fragment/strided.cu"


def operands(problem: Problem, config: SimtConfig) -> tuple[Operand, Operand]:
    copy = "copy/cp_async.cu" if config.ASYNC else "copy/registers.cu"
    a = Operand("a", "m", problem.layout.a == "r", config.TA == 1, copy)
    b = Operand("b", "n", problem.layout.b == "c", config.TB == 1, copy)
    widths = [1 if x.along_k else global_width(problem, config, x) for x in (a, b)]  # of accesses along m or n
    return (
        replace(a, moves=_moves(problem.m, config.BM, widths[0])),
        replace(b, moves=_moves(problem.n, config.BN, max(widths[1], store_width(problem, config, b)))),
    )


def _moves(size: int | None, tile: int, width: int) -> bool:
    """Whether C has room for a tile that starts `tile` before the edge at `size`, where accesses start as well."""
    return size is not None and size > tile and size % tile != 0 and size % width == 0


def global_width(problem: Problem, config: SimtConfig, operand: Operand) -> int:
    """Elements of one global access: the alignment of the operand's lines caps VEC."""
    if operand.transposed and config.ASYNC:
        return 1  # cp.async lands where it starts: only single elements can change direction
    return gcd(config.VEC, problem.vector_limit("lda" if operand.x == "a" else "ldb"))


@cache
def team(accesses: int, lines: int, threads: int, wanted: int) -> int:
    """Threads that fetch a line of `accesses` together: as need the fewest passes, of these the next to `wanted`.

    What a thread fetches further along its line lies so near to its first access that the instruction holds the
    distance.
    """

    def cost(team: int) -> tuple[int, float]:
        return accesses // team * -(-lines // (threads // team)), max(team / wanted, wanted / team)

    return min((size for size in range(1, accesses + 1) if accesses % size == 0 and threads % size == 0), key=cost)


def fragment_width(config: SimtConfig, operand: Operand) -> int:
    """Elements of one shared read: neighbouring ones only where shared lines run along m or n."""
    return gcd(config.VEC, config.TM if operand.x == "a" else config.TN) if operand.k_rows else 1


def store_width(problem: Problem, config: SimtConfig, b: Operand) -> int:
    """Elements of one access to C: a thread's neighbouring columns, as far as the alignment of C's lines allows."""
    return gcd(fragment_width(config, b), problem.vector_limit("ldc"))


class Simt:
    """The family record: see `gemmgen.families.base.Family`."""

    name = "simt"
    config_type: type[Config] = SimtConfig
    constraints: tuple[Constraint, ...] = CONSTRAINTS
    pruning: tuple[Constraint, ...] = PRUNING

    def default(self, problem: Problem) -> Config:
        a, b = operands(problem, SimtConfig())
        return SimtConfig(
            VEC=problem.dtype.widest, TA=int(a.along_k), TB=int(b.along_k), PAD=4 if a.along_k or b.along_k else 0
        )

    def facts(self, problem: Problem) -> dict[str, int]:
        a, b = operands(problem, SimtConfig())
        along = {"A_ALONG_K": int(a.along_k), "B_ALONG_K": int(b.along_k)}
        return {**sizes_of(problem), **along}

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        simt = cast(SimtConfig, config)
        a, b = operands(problem, simt)
        warped = simt.WM > 0
        lanes_m, lanes_n = ("WM / TM", "WN / TN") if warped else ("BM / TM", "BN / TN")
        tile, elements = "warp" if warped else "block", f"{problem.dtype.ctype}s"
        return (
            *_threads(simt),
            Derived("LANES_M", lanes_m, f"threads down a {tile}'s tile"),
            Derived("LANES_N", lanes_n, f"threads across a {tile}'s tile"),
            Derived("FM", str(fragment_width(simt, a)), f"{elements} of a thread's shared read of A"),
            Derived("FN", str(fragment_width(simt, b)), f"{elements} of a thread's shared read of B"),
            Derived("STEP_M", "FM * LANES_M", "rows from one shared read of a thread to its next"),
            Derived("STEP_N", "FN * LANES_N", "columns from one shared read of a thread to its next"),
            Derived("VC", str(store_width(problem, simt, b)), f"{elements} of an access to C"),
            *_operand_constants(problem, simt, a),
            *_operand_constants(problem, simt, b),
            *_sums_of_slices(),
            Derived(
                "SHARED_BYTES",
                "ELEMENT_BYTES * STAGES * (SHARED_A + SHARED_B) + 16 * (SPLIT > 1 or STREAM > 0)",
                "bytes of shared memory a block",
            ),
        )

    def grid(self, problem: Problem, config: Config) -> tuple[tuple[str, int], ...]:
        return tile_grid(problem, config.values)

    def unused(self, problem: Problem, config: Config) -> frozenset[str]:
        simt = cast(SimtConfig, config)
        choices = {"OUTER", "VEC", "TA", "TB", "ASYNC", "ATOMIC", "ORDER", "SHARED_BYTES"}
        idle = {"AHEAD": 0, "SLICES": 1, "SPLIT": 1, "STREAM": 0}
        choices |= {name for name, value in idle.items() if simt.values[name] == value}
        if simt.SLICES == 1:
            choices |= {"ROUNDS", "ROWS"}
        if simt.WM == 0:
            choices |= {"WM", "WN"}
        if not any(operand.along_k for operand in operands(problem, simt)):
            choices.add("PAD")
        return frozenset(choices)

    def work(self, problem: Problem, config: Config) -> Work:
        simt = cast(SimtConfig, config)
        value = constants(self, problem, config)
        outputs, words = simt.TM * simt.TN, problem.dtype.words
        values: float = simt.TM + simt.TN if simt.OUTER else 2 * outputs
        reads: float = simt.TM / value["FM"] + simt.TN / value["FN"] if simt.OUTER else 2 * outputs
        # A warp's read of 4-byte words takes one cycle, of 16-byte vectors four; zigzag lanes halve the latter.
        halved = 2 if simt.WM > 0 and problem.dtype.widest == simt.VEC else 1
        wavefronts = simt.TM / min(halved, value["FM"]) + simt.TN / min(halved, value["FN"]) if simt.OUTER else values
        stores = sum(value[f"{x}_SHARE"] * value[f"V{x}"] / value[f"STORE_{x}"] for x in "AB")
        loads = value["A_SHARE"] + value["B_SHARE"]
        return Work(
            threads=value["THREADS"],
            outputs=outputs,
            depth=simt.BK,
            shared_reads=reads / simt.SLICES,
            shared_words=words * values / simt.SLICES,
            wavefronts=words * wavefronts / simt.SLICES,
            copies=loads if simt.ASYNC else loads + stores,
            copy_wavefronts=words * sum(_copy_wavefronts(value, operand) for operand in operands(problem, simt)),
            global_words=words * (simt.BM + simt.BN) * simt.BK,
            prefetch=simt.STAGES - 1,
            shares=simt.SLICES,
            splits=simt.SPLIT,
            atomic=simt.ATOMIC == 1,
            stream=simt.STREAM,
            run=max(simt.TM, simt.TN) if simt.OUTER else 1,
            written=simt.AHEAD * simt.SLICES,
        )

    def template(self, config: Config) -> str:
        simt = cast(SimtConfig, config)
        if simt.AHEAD:
            return "kernel/read_ahead.cu"
        if simt.ASYNC:
            return "kernel/cp_async_stages.cu"
        return "kernel/double_buffer.cu" if simt.STAGES == 2 else "kernel/single_buffer.cu"

    def view(self, problem: Problem, config: Config) -> Mapping[str, Any]:
        simt = cast(SimtConfig, config)
        a, b = operands(problem, simt)
        return {
            "a": a,
            "b": b,
            "outer": simt.OUTER == 1,
            "compute": "compute/outer.cu" if simt.OUTER else "compute/inner.cu",
            "epilogue": "epilogue/linear.cu",
            "warped": simt.WM > 0,
            "slices": simt.SLICES,
            "depth": "BK" if simt.SLICES == 1 else "DEPTH",
            "first": "0" if simt.SLICES == 1 else "place.k",
            "K": "s.K" if simt.SPLIT == 1 and simt.STREAM == 0 else "part",
            "runs_along_n": simt.TN > simt.TM,
            "from_far_end": simt.ORDER & 1 > 0,
            "last_first": simt.ORDER & 2 > 0,
            "b_first": simt.ORDER & 4 > 0,
        }


def _threads(config: SimtConfig) -> Iterator[Derived]:
    if config.SLICES == 1:
        yield Derived("THREADS", TILE_THREADS, "threads a block")
        return
    yield Derived("DEPTH", "BK / SLICES", "depth of a slice's part of a step")
    yield Derived("SLICE_THREADS", TILE_THREADS, "threads a slice, which cover the block's tile")
    yield Derived("THREADS", "SLICE_THREADS * SLICES", "threads a block")


def _sums_of_slices() -> Iterator[Derived]:
    room = "STAGES * (SHARED_A + SHARED_B)"  # that the tiles leave
    rounds = f"1 + (SLICES * BM * BN > {room}) + 2 * (SLICES * BM * BN > 2 * {room})"
    yield Derived("ROUNDS", rounds, "rounds in which slices add up", group=SLICES_GROUP)
    yield Derived("ROWS", "TM / SLICES", "rows of a thread's tile that each slice gets, and stores", group=SLICES_GROUP)


def _operand_constants(problem: Problem, config: SimtConfig, operand: Operand) -> tuple[Derived, ...]:
    X, block = operand.X, f"B{operand.MN}"
    width, elements = global_width(problem, config, operand), f"{problem.dtype.ctype}s"
    padded = "" if not operand.along_k else " + PAD"
    shared_line = block if operand.k_rows else "BK"
    shared_lines = "BK" if operand.k_rows else block
    line, count = ("BK", block) if operand.along_k else (block, "BK")
    value = config.values
    threads = evaluate(TILE_THREADS, value) * config.SLICES
    # Neighbours fetch 128 bytes, the most that L1 looks up at once; transposed, 32 bytes, whose words fall into banks
    # of their own (PAD = 4).
    wanted = (32 if operand.transposed else 128) // (width * problem.dtype.size)
    together = team(max(1, value[line] // width), value[count], threads, wanted)
    lines = (
        (f"V{X}", str(width), f"{elements} of an access to {X}"),
        (f"STORE_{X}", "1" if operand.transposed else f"V{X}", f"{elements} of a shared store of {X}"),
        (f"{X}_LINE", line, f"{elements} of a line of {X}'s tile"),
        (f"{X}_LINES", count, f"lines of {X}'s tile"),
        (f"{X}_TEAM", str(together), "neighbouring threads that fetch a line together"),
        (f"{X}_STRIDE", f"THREADS / {X}_TEAM", "lines that all threads fetch at once"),
        (
            f"{X}_SHARE",
            f"{X}_LINE / V{X} / {X}_TEAM * (({X}_LINES + {X}_STRIDE - 1) / {X}_STRIDE)",
            "accesses that a thread makes at most",
        ),
        (f"PITCH_{X}", shared_line + padded, f"{elements} from one shared line of {X} to the next"),
        (f"SHARED_{X}", f"{shared_lines} * PITCH_{X}", f"{elements} of a shared tile of {X}"),
    )
    return tuple(Derived(*line, group=f"How {X} gets to shared memory") for line in lines)


def _copy_wavefronts(value: Mapping[str, int], operand: Operand) -> float:
    """Shared-memory cycles to write one tile of words: 32 words each, fewer where transposed ones meet in a bank.

    A warp writes as many lines at once as threads fetch a line together, PITCH apart. Vector reads want PITCH to be a
    multiple of four words, so at best eight lines have banks of their own (PAD = 4), and without padding none has.
    """
    words = value[f"B{operand.MN}"] * value["BK"]
    if not operand.transposed:
        return words / 32
    apart = 32 // gcd(32, value[f"PITCH_{operand.X}"])  # lines before banks repeat
    return words / 32 * max(1, value[f"{operand.X}_TEAM"] / apart)


SIMT = Simt()
