"""`simt`: GEMM on CUDA cores (FFMA, DFMA, IMAD), from one element per thread to warp-tiled 16x16 register tiles.

    grid -> block BM x BN -> SLICES of each k tile -> warp WM x WN -> thread TM x TN, in k tiles of BK

There are two loop orders over the same tiles: the outer product reads TM + TN values for TM * TN FMAs, the inner
product two values per FMA. Tiles of A and B pass through shared memory in one, two or more stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import cast

from gemmgen.families.base import (
    Family,
    constants,
    elements_of,
    launch_of,
    never_cut,
    shared_by,
    sizes_of,
    tile_grid,
)
from gemmgen.families.simt.axes import CONSTRAINTS, PRUNING, TILE_THREADS, SimtConfig
from gemmgen.families.simt.operands import (
    Operand,
    copy_wavefronts,
    fragment_width,
    last_first,
    operand_constants,
    operands,
    read_width,
    runs_along_n,
    store_width,
)
from gemmgen.kernel.config import Config, Derived
from gemmgen.kernel.cost import STALLS, block_cost, instructions, registers, unit_cycles
from gemmgen.kernel.notes import block, main_loop, shared_tiles
from gemmgen.kernel.plan import Cost, Never, Plan, Share, Tile, Work
from gemmgen.kernel.streamk import Stream
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import Problem

SLICES_GROUP = "How slices add up"

LOOP_INSTRUCTIONS = 14  # of a warp, for each iteration of a mainloop that unrolls a part of a step
# Two register banks give an operand each a cycle, so an FMA that shares none with the one before takes another cycle.
# One does so each time the reused operand changes, and more where the compiler reorders FMAs by the arrival of values.
OPERAND_CYCLES, UNORDERED_OPERAND_CYCLES = 0.1, 1.5  # a change of it
LATE_READ_STALLS = 0.15  # more stalls where the compiler puts all reads of an iteration off to its end


class SimtView:
    """The values that the templates of `simt` read of a plan, in addition to its constants."""

    sums = "acc"  # a thread's, by rows

    def __init__(self, plan: Plan) -> None:
        simt = cast(SimtConfig, plan.config)
        self.a, self.b = a, b = [_rendered(plan, operand) for operand in operands(plan.problem, simt)]
        self.outer = simt.OUTER == 1  # the mainloop computes outer products, with k outermost
        self.compute = "simt/outer.cu" if simt.OUTER else "simt/inner.cu"  # the template of the products
        self.warped = simt.WM > 0  # warps have tiles of their own
        self.slices = simt.SLICES  # groups of warps that share the block's tile
        self.group = simt.GROUP  # tile rows of a raster group: blocks go down them before they step right
        self.runs_along_n = runs_along_n(simt, a, b)  # a thread's FMAs go row by row,
        self.lines = "TM" if self.runs_along_n else "TN"  # through so many lines of its tile
        # The operand whose values are read as vectors along k, for a whole iteration at once, if any.
        self.k_vector = next((operand for operand in (a, b) if operand.k_vector), None)
        self.hoist = simt.HOIST  # rows or columns of a product whose FMAs are hoisted above the loop's branch
        self.loops_fixup = simt.FIXUP_UNROLL == 0  # the fixup of a shared tile loops over a thread's rows
        self.from_far_end = simt.FMA_ORDER & 1 > 0  # the order of FMAs,
        self.last_first = last_first(simt)
        self.b_first = simt.FMA_ORDER & 4 > 0  # and of reads


class Simt(Family):
    """The family record: see `gemmgen.families.base.Family`."""

    name = "simt"
    config_type = SimtConfig
    constraints = CONSTRAINTS
    pruning = PRUNING
    secondary = frozenset({"WM", "WN", "STAGES", "ASYNC", "K_UNROLL", "MINB", "PAD"})
    details = ("PDL", "GROUP", "FIXUP_UNROLL", "COPY_THREADS", "HOIST", "FMA_ORDER")
    small = MappingProxyType({"BM": 32, "BN": 64, "BK": 8, "TM": 4, "TN": 4, "WM": 16, "WN": 32, "STAGES": 2})

    def default(self, problem: Problem) -> Config:
        a, b = operands(problem, SimtConfig())
        return SimtConfig(
            VEC=problem.types.accumulator.widest,
            TA=int(a.along_k),
            TB=int(b.along_k),
            PAD=4 if a.along_k or b.along_k else 0,
        )

    def suited(self, problem: Problem, config: Config) -> Config:
        """Limit accesses to 16 bytes, and drop transposition or padding if no lines run along k."""
        simt, (a, b) = cast(SimtConfig, config), operands(problem, SimtConfig())
        return config.with_values(
            TA=simt.TA * a.along_k,
            TB=simt.TB * b.along_k,
            PAD=simt.PAD * (a.along_k or b.along_k),
            VEC=min(simt.VEC, problem.types.accumulator.widest),
        )

    def facts(self, problem: Problem) -> dict[str, int]:
        a, b = operands(problem, SimtConfig())
        along = {"A_ALONG_K": int(a.along_k), "B_ALONG_K": int(b.along_k)}
        return {**sizes_of(problem), **along}

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        return derived(problem, cast(SimtConfig, config))

    def plan(self, problem: Problem, config: Config) -> Plan:
        simt, value = cast(SimtConfig, config), constants(self, problem, config)
        launch = launch_of(
            value,
            tile_grid(problem, value),
            dynamic=simt.SLICES > 1,  # their sums replace all tiles together, which static arrays do not allow
            splits=simt.SPLIT,
            stream=Stream(simt.STREAM, simt.BK) if simt.STREAM else None,
            summed=sum({"row_sum": simt.TM, "column_sum": simt.TN}[name] for name in problem.epilogue.sums),
        )
        work = _work(problem, simt, value)
        return Plan(problem, config, self, value, (simt.BM, simt.BN), value["SHARED_BYTES"], work, launch)

    def cost(self, plan: Plan, share: Share) -> Cost:
        """FMAs that share no operand with the one before wait for a register bank; K_UNROLL adds a loop in a step."""
        simt, work = cast(SimtConfig, plan.config), plan.work
        a, b = operands(plan.problem, simt)
        reuse = (simt.TN if runs_along_n(simt, a, b) else simt.TM) if simt.OUTER else 1
        cycles = OPERAND_CYCLES if work.k_unroll else UNORDERED_OPERAND_CYCLES
        waits = work.fmas * work.depth * cycles / reuse if reuse > 1 else 0.0
        iterations = work.depth / work.k_unroll if work.k_unroll else 1
        loops = LOOP_INSTRUCTIONS * iterations if work.k_unroll else 0
        late = LATE_READ_STALLS if (a.k_vector or b.k_vector) and not simt.HOIST else 0.0
        issued = instructions(plan, share, waits=waits, loops=loops)
        return block_cost(plan, share, unit_cycles(plan, share, issued, iterations=iterations, stalls=STALLS + late))

    def template(self, config: Config) -> str:
        simt = cast(SimtConfig, config)
        if simt.K_UNROLL:
            return "simt/fragment_prefetch.cu"
        if simt.ASYNC:
            return "simt/cp_async_stages.cu"
        return "simt/double_buffer.cu" if simt.STAGES == 2 else "simt/single_buffer.cu"

    def schedule(self, config: Config) -> str:
        return "sliced" if cast(SimtConfig, config).SLICES > 1 else super().schedule(config)

    def unused(self, plan: Plan) -> frozenset[str]:
        simt = cast(SimtConfig, plan.config)
        choices = {"OUTER", "VEC", "TA", "TB", "ASYNC", "FMA_ORDER", "COPY_THREADS", "PDL", "FIXUP_UNROLL"}
        choices |= {"SHARED_BYTES"}
        idle = {"K_UNROLL": 0, "SLICES": 1, "SPLIT": 1, "STREAM": 0, "HOIST": 0}
        choices |= {name for name, value in idle.items() if simt.values[name] == value}
        if simt.SLICES == 1:
            choices |= {"ROUNDS", "ROWS"}
        if simt.WM == 0:
            choices |= {"WM", "WN"}
        if not any(operand.along_k for operand in operands(plan.problem, simt)):
            choices.add("PAD")
        return frozenset(choices)

    def view(self, plan: Plan) -> SimtView:
        return SimtView(plan)

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        simt = cast(SimtConfig, plan.config)
        threads = plan.launch.threads // simt.SLICES
        slices = (Tile("slice", simt.BM, simt.BN, simt.SLICES),) if simt.SLICES > 1 else ()
        if simt.WM == 0:
            return (*slices, Tile("thread", simt.TM, simt.TN, threads))
        warps = simt.BM * simt.BN // (simt.WM * simt.WN)
        return (
            *slices,
            Tile("warp", simt.WM, simt.WN, warps),
            Tile("thread", simt.TM, simt.TN, threads // warps),
        )

    def prose(self, plan: Plan) -> tuple[str, ...]:
        shared = f"{plan.shared_bytes} bytes of shared memory"
        return (
            f"{block(plan)}, in k tiles of {plan.work.depth}, {shared}",
            *main_loop(plan),
            *_slices(plan.work.k_slices),
            *shared_tiles(plan.launch),
        )

    def never(self, plan: Plan) -> Iterator[Never]:
        stages, (fewest, most) = plan.constants["STAGES"], plan.k_tiles
        if fewest >= 1:
            yield Never("padded > 0", False, "each block has a k tile or more of each of its tiles of C")
        if fewest >= stages:
            yield Never(
                "padded > stage * BK",
                False,
                f"each block has {fewest} k tiles or more of a tile of C, for {stages} stages",
            )
        if most <= stages:
            because, slices = f"K has no more k tiles than {stages} stages", " * SLICES" * (plan.work.k_slices > 1)
            yield Never(f"padded - k{slices} > (STAGES - 1) * BK", True, because)
            yield Never("stage + 1 < STAGES", False, f"{because}: nothing follows the last of them")
        if plan.schedule is not None and plan.schedule.idle == 0:
            yield Never("stream_block >= schedule.stream_blocks", True, "the last wave has k tiles for all its blocks")
        yield from never_cut(plan)


@shared_by(
    SimtConfig,
    *("BM", "BN", "BK", "TM", "TN", "VEC", "TA", "TB", "ASYNC", "K_UNROLL", "HOIST", "FMA_ORDER"),
    *("SLICES", "COPY_THREADS"),
    WM=lambda rows: min(rows, 1),
)
def derived(problem: Problem, simt: SimtConfig) -> tuple[Derived, ...]:
    """The constants that follow from the axes."""
    a, b = operands(problem, simt)
    widths = fragment_width(simt, a), fragment_width(simt, b), store_width(problem, simt, b)
    return (
        *_threads(simt.SLICES > 1),
        *_fragments(simt.WM > 0, a.k_vector, b.k_vector, *widths, elements_of(problem)),
        *operand_constants(problem, simt, a),
        *operand_constants(problem, simt, b),
        *_sums_of_slices(),
        SHARED_BYTES,
    )


def _work(problem: Problem, simt: SimtConfig, value: Mapping[str, int]) -> Work:
    outputs, size = simt.TM * simt.TN, problem.types.accumulator.size
    words = size / WORD
    values: float = simt.TM + simt.TN if simt.OUTER else 2 * outputs
    a, b = operands(problem, simt)
    wide_a, wide_b = (read_width(simt, operand) for operand in (a, b))
    reads: float = simt.TM / wide_a + simt.TN / wide_b if simt.OUTER else 2 * outputs
    # A warp's read of 4-byte words takes one cycle, of 16-byte vectors four; zigzag lanes halve the latter.
    halved = 2 if simt.WM > 0 and problem.types.accumulator.widest == simt.VEC else 1
    wavefronts = simt.TM / min(halved, wide_a) + simt.TN / min(halved, wide_b) if simt.OUTER else values
    stores = sum(value[f"{x}_ITERATIONS"] * value[f"V{x}"] / value[f"STORE_{x}"] for x in "AB")
    loads = value["A_ITERATIONS"] + value["B_ITERATIONS"]
    moved = (problem.types.a.size * simt.BM + problem.types.b.size * simt.BN) * simt.BK
    staged = 0 if simt.ASYNC or simt.STAGES == 1 else moved / WORD / value["THREADS"]
    return Work(
        outputs=outputs,
        depth=simt.BK,
        shared_reads=reads / simt.SLICES,
        read_bytes=size * values / simt.SLICES,
        wavefronts=words * wavefronts / simt.SLICES,
        copies=loads if simt.ASYNC else loads + stores,
        copy_wavefronts=words * (copy_wavefronts(value, a) + copy_wavefronts(value, b)),
        global_bytes=moved,
        prefetch=simt.STAGES - 1,
        registers=registers(
            problem.types.accumulator, outputs, rows=6 if a.k_vector or b.k_vector else 4, staged=staged
        ),
        k_slices=simt.SLICES,
        k_unroll=simt.K_UNROLL * simt.SLICES,
    )


def _rendered(plan: Plan, operand: Operand) -> Operand:
    """Return `operand` with what its copies need to know of accesses and edges."""
    mn_edge = operand.MN in plan.edges and not operand.moves
    return replace(operand, width=plan.constants[f"V{operand.X}"], mn_edge=mn_edge, k_edge="K" in plan.edges)


def _slices(slices: int) -> Iterator[str]:
    if slices > 1:
        yield f"Slices  sliced-K: {slices} groups of warps compute the block tile, each over a part of the k tile"


# Constants that a space's configs share are made once: making every Derived takes longer than the rest of a search.


@cache
def _threads(sliced: bool) -> tuple[Derived, ...]:
    if not sliced:
        return (Derived("THREADS", TILE_THREADS, "threads a block"),)
    return (
        Derived("DEPTH", "BK / SLICES", "k of a slice's part of a k tile"),
        Derived("SLICE_THREADS", TILE_THREADS, "threads a slice, which cover the block's tile"),
        Derived("THREADS", "SLICE_THREADS * SLICES", "threads a block"),
    )


@cache
def _fragments(
    warped: bool, a_k_vector: bool, b_k_vector: bool, rows: int, columns: int, store: int, elements: str
) -> tuple[Derived, ...]:
    """Constants of a thread's place in the tile: `rows` and `columns` per shared read, `store` per access to C."""
    lanes_m, lanes_n = ("WM / TM", "WN / TN") if warped else ("BM / TM", "BN / TN")
    tile = "warp" if warped else "block"
    return (
        Derived("LANES_M", lanes_m, f"threads down a {tile}'s tile"),
        Derived("LANES_N", lanes_n, f"threads across a {tile}'s tile"),
        Derived("FM", str(rows), f"{'rows' if a_k_vector else elements} of a thread's shared read of A"),
        Derived("FN", str(columns), f"{'columns' if b_k_vector else elements} of a thread's shared read of B"),
        Derived("STEP_M", "FM * LANES_M", "rows from one shared read of a thread to its next"),
        Derived("STEP_N", "FN * LANES_N", "columns from one shared read of a thread to its next"),
        Derived("VC", str(store), f"{elements} of an access to C"),
    )


@cache
def _sums_of_slices() -> tuple[Derived, ...]:
    room = "STAGES * (SHARED_A + SHARED_B)"  # that the tiles leave
    rounds = f"1 + (SLICES * BM * BN > {room}) + 2 * (SLICES * BM * BN > 2 * {room})"
    return (
        Derived(
            "ROUNDS",
            rounds,
            "rounds in which slices add up: 1, 2 or 4, so that the sums of one fit where the tiles were",
            group=SLICES_GROUP,
        ),
        Derived("ROWS", "TM / SLICES", "rows of a thread's tile that each slice gets, and stores", group=SLICES_GROUP),
    )


SHARED_BYTES = Derived(
    "SHARED_BYTES",
    "ELEMENT_BYTES * STAGES * (SHARED_A + SHARED_B) + 16 * (SPLIT > 1 or STREAM > 0)",
    "bytes of shared memory a block",
)

SIMT = Simt()
