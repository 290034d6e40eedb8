"""`mma`: GEMM on tensor cores by mma.sync, whose fragments ldmatrix brings from swizzled shared memory.

    grid -> block BM x BN -> warp WM x WN -> instruction 16 x 8 x MMA_K, in k tiles of BK

Where A holds images, threads find the filter's place for each row of A's tile that they copy, once. Per k tile they add
the distance of a tap, and copy zeros where the tap lies around the image (templates/mma/images.cu).

STAGES k tiles of A and B are in shared memory or in flight by cp.async. Their lines are not padded: chunks of 16 bytes
trade places within a line (a swizzle), so that the eight rows of an ldmatrix lie in different banks.

Elements of 8 bits whose lines run along m or n come in pairs of neighbours (templates/mma/ldmatrix_pairs.cu). The even
ones of 16 rows of A are an instruction's first 8, the odd ones the others; even and odd columns of B are those of two
instructions. Only a thread's place in C depends on it: the thread has two neighbouring rows, or four columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import gcd
from types import MappingProxyType
from typing import cast

from gemmgen.families.base import (
    Family,
    constants,
    image_constants,
    launch_of,
    never_cut,
    run_bytes,
    sides,
    sizes_of,
    tile_grid,
)
from gemmgen.families.mma.axes import CONSTRAINTS, MMA_M, PAIR_N, PRUNING, MmaConfig
from gemmgen.families.mma.operands import (
    CODES,
    LDMATRIX_PAIRS,
    LDS,
    THREADS,
    access_width,
    fragment_of,
    k_step,
    operand_constants,
    rendered,
    single_tap,
)
from gemmgen.kernel.config import Config, Derived
from gemmgen.kernel.cost import (
    GLOBAL_LATENCY,
    SCHEDULERS,
    STALLS,
    block_cost,
    code_instructions,
    instructions,
    registers,
    tiled,
    unit_cycles,
)
from gemmgen.kernel.notes import block, promoted_sums, shared_tiles
from gemmgen.kernel.plan import Cost, Never, Plan, Share, SumOrder, Tile, Work
from gemmgen.kernel.prepare import Codes, Pack
from gemmgen.problem.device import BANK_BYTES, WARP
from gemmgen.problem.dtype import WIDEST_ACCESS, WORD
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import NEVER, Mma, instruction
from gemmgen.problem.types import Compute
from gemmgen.support.words import plural

INSTRUCTION_K = (4, 8, 16, 32)
NARROW = 3  # times the instructions for an access of less than a word: 1023x1025x1027 took 33 us (H100, 2026-11-27)
PIXELS = 2  # times the instructions for an access to images: 188 of a k tile where a matrix takes 177 (SASS of sm_80)
PIXEL_REGISTERS = 3  # of a thread for each row of images that it copies: an address, and bits of taps
OF_TAPS = frozenset({"S", "CHANNELS", "DILATION_H", "DILATION_W"})  # constants that find the tap and the channel of a k
MMA_N = 8  # columns of C that one instruction multiplies
SWIZZLES = ("PHASE", "SWIZZLED")  # constants, of A and of B, that say which chunks trade places
OTHER_REGISTERS = 40  # of a thread, for addresses and counters
FEW_REGISTERS = 16  # likewise, without a loop
EPILOGUE_INSTRUCTIONS = 4  # of a thread for each of its sums: scaled, converted, exchanged and stored
SECTOR = 32  # bytes that global memory moves at once


class MmaView:
    """The values that the templates of `mma` read of a plan, in addition to its constants."""

    compute, outer, slices, sums, loops_fixup = "mma/tensor.cu", True, 1, "sums", False  # as `simt` has them

    def __init__(self, plan: Plan) -> None:
        mma, problem = cast(MmaConfig, plan.config), plan.problem
        assert isinstance(plan.mma, Mma), "constraints ask for one"
        self.a, self.b = a, b = rendered(problem, mma, plan.constants, plan.edges)
        self.mma = plan.mma  # the instruction
        self.composed = plan.mma.a_registers < 4  # several of them multiply a fragment of A by one of B
        self.halves = plan.mma.c_shared == 2  # a register holds two sums of f16
        self.registers = 2 if self.halves else 4  # of a thread's sums of an instruction's 16 x 8
        self.promoted = problem.types.compute is Compute.PROMOTED  # sums are added up in f32 after each k tile
        self.rounds = problem.types.compute is Compute.TF32  # operands are rounded to tf32
        self.instructions = (plan.mma,)  # what templates/device/mma.cu defines,
        self.loads = tuple(sorted({(4, x.k_rows) for x in (a, b) if x.by_ldmatrix}))  # and ldmatrix.cu
        self.may_be_empty = plan.launch.adds_up or problem.k is None  # a block's range of K can have no k tile
        self.advances = plan.k_tiles[1] > 1  # the mainloop goes on from one k tile to another,
        self.refills = plan.k_tiles[1] >= mma.STAGES  # and copies more k tiles than were filled before it
        self.run = _c_run(problem)  # neighbouring columns that instructions leave a thread sums of,
        self.together = plan.constants["FN"]  # and that it has sums of in the end
        self.exchanges = _exchanges(problem, self.together)  # distances of lanes that exchange sums, in order
        self.group = mma.GROUP  # tile rows of a raster group: blocks go down them before they step right


class MmaFamily(Family):
    """The family record: see `gemmgen.families.base.Family`."""

    name = "mma"
    config_type = MmaConfig
    constraints = CONSTRAINTS
    pruning = PRUNING
    secondary = frozenset({"WM", "WN", "BK", "STAGES", "SPLIT"})
    details = ("PDL", "GROUP", "EXCHANGE")
    scaled_inputs = True
    image_inputs = True
    small = MappingProxyType({"BM": 32, "BN": 32, "WM": 16, "WN": 16})
    types = (
        *("bf16", "f16", "bf16,bf16,f32", "s8,s8,s32", "u8,s8,bf16", "f64"),
        *("f32_tf32", "f16_f16acc", "e4m3,e4m3,bf16_promoted", "e5m2,e4m3,f16_fast"),
    )

    def default(self, problem: Problem) -> Config:
        step = k_step(problem.types.a)
        if problem.coded:
            return MmaConfig(BM=32, BN=128, BK=128, WM=16, WN=64, MMA_K=step)
        # A warp's sums in 128 registers of a thread.
        rows = MmaConfig.WM * WORD // problem.types.accumulator.size // (1 + self.facts(problem)["PROMOTED"])
        return self.suited(problem, MmaConfig(BK=2 * step, WM=rows, MMA_K=step))

    def suited(self, problem: Problem, config: Config) -> Config:
        """Copy through registers if lines are aligned to fewer bytes than cp.async needs."""
        narrow = any(access_width(problem, side) * problem.dtype_of(side.X).size < WORD for side in sides(problem))
        if not narrow or problem.inputs.conv is not None:  # pixels never come through registers
            return config
        return config.with_values(ASYNC=0, STAGES=2)

    def facts(self, problem: Problem) -> dict[str, int]:
        a, b = sides(problem)
        types, packed = problem.types, problem.coded
        return {
            **sizes_of(problem),
            "A_BYTES": types.a.size,
            "B_BYTES": types.b.size,
            "C_BYTES": types.c.size,
            "A_ACCESS": access_width(problem, a) * types.a.size,
            "B_ACCESS": WIDEST_ACCESS if packed else access_width(problem, b) * types.b.size,
            "CODES_K": Pack("B").depth(problem) if packed else 1,
            "PROMOTED": int(types.compute is Compute.PROMOTED),
            "HAS_MMA": int(any(instruction(types, axis_k).mma for axis_k in INSTRUCTION_K)),
            "C_ACCESS": _c_access(problem),
            "C_RUN": _c_run(problem),
            "WGRAD": int(problem.inputs.wgrad),
            "TAP_LINES": sum(problem.inputs.conv.taps) if problem.inputs.conv else 0,
            "NEVER": NEVER,
        }

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        mma, (a, b) = cast(MmaConfig, config), sides(problem)
        one, access = instruction(problem.types, mma.MMA_K), _c_access(problem)
        columns = access if mma.EXCHANGE else _c_run(problem)
        return (
            *_native(one.since, one.until, one.again),
            *_tiling(k_step(problem.types.a)),
            *operand_constants(problem, mma, a),
            *operand_constants(problem, mma, b),
            *image_constants(problem.inputs.conv),
            *_results(2 if _pairs(problem)[0] else 1, columns, gcd(access, columns)),
            PACKED_SHARED_BYTES if problem.coded else SHARED_BYTES,
        )

    def plan(self, problem: Problem, config: Config) -> Plan:
        mma, value = cast(MmaConfig, config), constants(self, problem, config)
        summed = sum(value[{"row_sum": "TM", "column_sum": "TN"}[name]] for name in problem.epilogue.sums)
        before = (Pack("B"),) if problem.coded else ()
        launch = launch_of(value, tile_grid(problem, value), splits=mma.SPLIT, summed=summed, prepares=before)
        work, tile = _work(problem, mma, value), (mma.BM, mma.BN)
        one = instruction(problem.types, mma.MMA_K).mma
        promotion = mma.BK if problem.types.compute is Compute.PROMOTED else 0
        sums = None if one is None else SumOrder(one, mma.BK, mma.SPLIT, promotion, tf32="away")
        return Plan(problem, config, self, value, tile, value["SHARED_BYTES"], work, launch, one, sums)

    def cost(self, plan: Plan, share: Share) -> Cost:
        """Blocks that follow each other store C by instructions of their threads, in rows that fill few sectors."""
        problem, mma, value = plan.problem, cast(MmaConfig, plan.config), plan.constants
        pairs_a, pairs_b = _pairs(problem)
        codes = code_instructions(Codes.of(problem))
        conversions = (4 * mma.WM / MMA_M * pairs_a + mma.WN / PAIR_N * (4 * pairs_b + codes)) / value["K_STEP"]
        warps_per_scheduler = plan.consumers * share.resident / WARP / SCHEDULERS
        stored = (EPILOGUE_INSTRUCTIONS + problem.function_instructions) * plan.work.outputs
        row_bytes = value["STEP_N"] * problem.types.c.size  # neighbours that a warp stores at once
        return block_cost(
            plan,
            share,
            unit_cycles(plan, share, instructions(plan, share, conversions=conversions)),
            between=stored * (warps_per_scheduler + STALLS) + GLOBAL_LATENCY / share.resident,
            slower=tiled(run_bytes(problem, mma.BM, mma.BN, mma.BK)),
            filled=share.case.tensors["C"].least_bytes * max(0.0, SECTOR / row_bytes - 1),
        )

    def template(self, config: Config) -> str:
        return "mma/mma_cp_async.cu" if cast(MmaConfig, config).ASYNC else "mma/mma_registers.cu"

    def unused(self, plan: Plan) -> frozenset[str]:
        choices = {"ASYNC", "EXCHANGE", "MMA_K", "SWIZZLE", "PDL", "SHARED_BYTES"}
        choices |= {"MMA_SINCE", "MMA_UNTIL", "MMA_AGAIN"} | ({"B_LANES"} if "CHUNK_K" in plan.constants else set())
        places = set() if cast(MmaConfig, plan.config).SWIZZLE else {f"{x}_{of}" for x in "AB" for of in SWIZZLES}
        conv = plan.problem.inputs.conv
        if conv is not None:
            choices |= (OF_TAPS if single_tap(conv) else set()) | (set() if any(conv.crosses) else {"R"})
        return frozenset(choices | places | ({"SPLIT"} if plan.launch.splits == 1 else set()))

    def view(self, plan: Plan) -> MmaView:
        return MmaView(plan)

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        mma, value = cast(MmaConfig, plan.config), plan.constants
        return (
            Tile("warp", mma.WM, mma.WN, plan.launch.threads // WARP),
            Tile("thread", 2 * value["MMAS_M"], 2 * value["MMAS_N"], WARP),
        )

    def prose(self, plan: Plan) -> tuple[str, ...]:
        shared = f"{plan.shared_bytes} bytes of shared memory"
        return (
            f"{block(plan)}, in k tiles of {plan.work.depth}, {shared}",
            *_multiplying(plan),
            *shared_tiles(plan.launch),
        )

    def never(self, plan: Plan) -> Iterator[Never]:
        stages = plan.constants["STAGES"]
        if plan.k_tiles[1] <= stages:
            yield Never("read + 1 < STAGES", False, f"K has no more k tiles than {stages} stages")
        yield from never_cut(plan)


def _multiplying(plan: Plan) -> Iterator[str]:
    """The header's lines on what a warp does per k step, how A and B come to it, and how C leaves."""
    mma, value = cast(MmaConfig, plan.config), plan.constants
    one, k = plan.mma, value["K_STEP"]
    assert isinstance(one, Mma)
    mmas = MMA_M * MMA_N * k // one.products * value["MMAS_M"] * value["MMAS_N"]
    reads = plan.work.shared_reads * k
    by = "ldmatrix" if all(_by_ldmatrix(plan.problem)) else "loads"
    yield (
        f"Warp    {mma.WM} x {mma.WN} of C: for each {k} k, {plural(mmas, 'mma')} of {one.m} x {one.n} x {one.k}, "
        f"whose fragments {reads:g} {by} bring"
    )
    pairs = [of for of, paired in zip(("rows of A", "columns of B"), _pairs(plan.problem), strict=True) if paired]
    if pairs:
        yield f"Pairs   ldmatrix transposes pairs of {' and of '.join(pairs)}: lanes unzip them to even and odd ones"
    if plan.problem.types.compute is Compute.PROMOTED:
        yield promoted_sums(mma.BK)
    if plan.problem.inputs.conv:
        zeros = "; padding is zeros" * any(plan.problem.inputs.conv.crosses)
        yield f"Images  implicit GEMM: threads copy rows of A from images, tap by tap{zeros}"
    if mma.ASYNC:
        yield f"Stages  cp.async fills shared memory {plural(plan.work.prefetch, 'stage')} ahead of its use"
    else:
        yield "Stages  the next k tile is in registers while this one is multiplied"
    if mma.EXCHANGE:
        yield f"Stores  lanes exchange sums: each stores {value['FN']} neighbours of a row of C at once"


def _c_access(problem: Problem) -> int:
    """Elements of C per access: up to 16 bytes of a row of an instruction's tile, as far as C's alignment allows."""
    return gcd(MMA_N, WIDEST_ACCESS // problem.types.c.size, problem.vector_limit("ldc"))


def _by_ldmatrix(problem: Problem) -> tuple[bool, bool]:
    """Whether ldmatrix loads fragments of A, and whether it loads those of B."""
    a, b = (fragment not in (LDS, CODES) for fragment in _fragments(problem))
    return a, b


def _pairs(problem: Problem) -> tuple[bool, bool]:
    """Whether ldmatrix loads pairs of neighbours in m for A, and in n for B."""
    a, b = (fragment == LDMATRIX_PAIRS for fragment in _fragments(problem))
    return a, b


def _fragments(problem: Problem) -> tuple[str, ...]:
    """The templates that load fragments of A and of B."""
    found = tuple(fragment_of(problem.dtype_of(side.X), side.along_k) for side in sides(problem))
    return (found[0], CODES) if problem.coded else found


def _c_run(problem: Problem) -> int:
    """Neighbouring columns of which a lane has sums: two of one instruction, or two of each of a pair."""
    return 4 if _pairs(problem)[1] else 2


def _exchanges(problem: Problem, together: int) -> tuple[int, ...]:
    """The distances of lanes that exchange sums until each has `together` neighbours: runs double each time."""
    return tuple(distance for distance in (1, 2) if distance * _c_run(problem) < together)


def _work(problem: Problem, mma: MmaConfig, value: Mapping[str, int]) -> Work:
    one, (a, b), outputs = instruction(problem.types, mma.MMA_K).mma, _by_ldmatrix(problem), mma.WM * mma.WN // WARP
    size_a, size_b, k = problem.types.a.size, problem.types.b.storage_bits / 8, value["K_STEP"]
    read = mma.WM * size_a + mma.WN * size_b  # bytes of a warp, for each k
    # Ways of bank conflict among the eight lines that are read at once, if chunks stay in order.
    ways_a, ways_b = (1, 1) if mma.SWIZZLE else (value["A_SWIZZLED"], value.get("B_SWIZZLED", 1))
    moved = (mma.BM * size_a + mma.BN * size_b) * mma.BK
    units = (("A", size_a), ("B", WORD if problem.coded else problem.types.b.size))  # of accesses
    pixels = value["A_ITERATIONS"] * value["IMAGES"]
    loads = sum(value[f"{x}_ITERATIONS"] * (NARROW if value[f"V{x}"] * size < WORD else 1) for x, size in units)
    loads += (PIXELS - 1) * pixels
    staged = sum(value[f"{x}_ITERATIONS"] * max(1, value[f"V{x}"] * size // WORD) for x, size in units)
    loops = problem.k is None or problem.k > mma.BK  # else the only k tile's fragments need no second set of registers
    fragments = (4 * value["MMAS_M"] + 2 * value["MMAS_N"]) * max(1, size_a // WORD)
    return Work(
        outputs=outputs,
        depth=mma.BK,
        shared_reads=(mma.WM / MMA_M * (1 if a else 4) + mma.WN / PAIR_N * (1 if b else 4)) / k,
        read_bytes=read / WARP,
        wavefronts=(mma.WM * size_a * ways_a + mma.WN * size_b * ways_b) / BANK_BYTES,
        copies=loads if mma.ASYNC else 2 * loads,
        copy_wavefronts=moved / BANK_BYTES,
        global_bytes=moved,
        prefetch=mma.STAGES - 1,
        registers=registers(
            problem.types.accumulator,
            outputs,
            fragments=(1 + loops) * fragments,
            staged=0 if mma.ASYNC else staged,
            other=(OTHER_REGISTERS if loops else FEW_REGISTERS) + PIXEL_REGISTERS * pixels,
        ),
        products=one.products // WARP if one else 1,
    )


@cache
def _native(since: int, until: int, again: int) -> tuple[Derived, ...]:
    """Constants that say which architectures have the instruction, for the constraints."""
    return (
        Derived("MMA_SINCE", str(since), "NN of the first sm_NN that has the instruction"),
        Derived("MMA_UNTIL", str(until), "and of the first that has not any more"),
        Derived("MMA_AGAIN", str(again), "unless as new as this one"),
    )


@cache
def _tiling(step: int) -> tuple[Derived, ...]:
    return (
        Derived("THREADS", THREADS, "threads a block"),
        Derived("K_STEP", str(step), "k of a step: those of one set of fragments"),
        Derived("MMAS_M", f"WM / {MMA_M}", "products of 16 x 8 down a warp's tile"),
        Derived("MMAS_N", f"WN / {MMA_N}", "products of 16 x 8 across a warp's tile"),
        Derived("K_STEPS", "BK / K_STEP", "steps along a k tile"),
    )


@cache
def _results(rows: int, columns: int, store: int) -> tuple[Derived, ...]:
    """Constants of the thread tile that a warp's accumulators form: see templates/device/warp_origin.cu."""
    lines = (
        ("TM", "2 * MMAS_M", "rows of C that a thread has sums of"),
        ("TN", "2 * MMAS_N", "columns of C that a thread has sums of"),
        ("FM", str(rows), "adjacent rows in a run"),
        ("FN", str(columns), "adjacent columns in a run"),
        ("STEP_M", str(8 * rows), "rows from a run to the next"),
        ("STEP_N", str(4 * columns), "columns from a run to the next"),
        ("VC", str(store), "elements of an access to C"),
    )
    return tuple(Derived(*line, group="How C leaves registers") for line in lines)


PACKED_SHARED_BYTES = Derived(
    "SHARED_BYTES",
    "STAGES * (BK * BM * A_BYTES + BK / CHUNK_K * ROW_WORDS * 4) + 16 * (SPLIT > 1)",
    "bytes of shared memory a block",
)
SHARED_BYTES = Derived(
    "SHARED_BYTES",
    "STAGES * BK * (BM * A_BYTES + BN * B_BYTES) + 16 * (SPLIT > 1)",
    "bytes of shared memory a block",
)

MMA = MmaFamily()
