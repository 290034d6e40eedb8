"""What to expect of a kernel before it runs: resources, occupancy, roofline, waves, and a predicted time.

The time ranks candidates and explains them. It is a prediction: nothing presents it as a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gemmgen.kernel.plan import Plan, Work
from gemmgen.kernel.source import DEPENDENT_LAUNCH
from gemmgen.problem.case import Case
from gemmgen.problem.device import (
    MAX_REGISTERS,
    REGISTER_UNIT,
    REGISTERS_PER_SM,
    WARP,
    Arch,
    DeviceSpec,
)
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.wgmma import WARPGROUP

Limiter = Literal["threads", "blocks", "registers", "shared memory"]
Bound = Literal["FMA", "issue", "instruction fetch", "shared memory", "L2", "DRAM", "latency"]

# What NVIDIA does not publish. Chosen so that the order of predictions follows the order of measured times on an
# H200 (f32, 11 shapes and layouts, 2026-11-21).
MODEL_ERROR = 0.2  # relative: of the 594 times of its calibration 582 were predicted within it, of 585 others 572
L2_BYTES_PER_CYCLE = 28  # per SM of sm_90, sustained; Arch.l2_share says how many of them others have
L1_HITS = 7 / 8  # share of the bytes that the SM's blocks repeat which L1 serves
GLOBAL_LATENCY = 700  # cycles, from a tile's first load to its barrier
# Of adding up what blocks leave for each other: writes, semaphores and reads, as far as they show.
REDUCTION_LATENCIES = 2
STREAM_REDUCTION_LATENCIES = 3  # likewise, of blocks that stream and end at once: no other one fills the wait
LAUNCH_US = 3.0  # from the first block's start to the last one's end when there is no work
PREPARE_US = 0.5  # of a launch before: starts overlap. 700^3 of f16, with two copies, took 6.6 us (H100, 2026-11-27)
OVERLAP_LOSS = 0.05  # share of the other units' time that does not hide behind the slowest
SHARPNESS = 8  # of a maximum: 9% more where two take as long
STEP_INSTRUCTIONS = 20  # of a warp for each step, besides its barrier: loop and address arithmetic
BARRIER_CYCLES = 250  # of a step's barrier that no other block fills; with another one half as many
STREAM_INSTRUCTIONS = 60  # of a warp for each step, more with stream-K
LOOP_INSTRUCTIONS = 14  # and for each iteration of a mainloop that unrolls a part of a step
COPY_INSTRUCTIONS = 3  # of a warp for each access that copies: the access, its address, its predicate, and their waits
# Two register banks give an operand each a cycle, so an FMA that shares none with the one before takes another cycle.
# One does so each time the reused operand changes, and more where the compiler reorders FMAs by the arrival of values.
OPERAND_CYCLES, UNORDERED_OPERAND_CYCLES = 0.1, 1.5  # a change of it
EPILOGUE_INSTRUCTIONS = 4  # of a thread for each of its sums: scaled, converted, exchanged and stored
STALLS = 0.2  # of issue time, for one warp a scheduler: waits that no other warp fills
LATE_READ_STALLS = 0.15  # more of them where the compiler puts all reads of an iteration off to its end
SASS_BYTES = 16  # an instruction
INSTRUCTION_CACHE = 32 * 1024  # bytes next to a scheduler; a longer unrolled step is fetched again and again
FETCH_CYCLES = 1.8  # an instruction that is not there; the warps of a scheduler share it
# Tensor cores (bf16, s8 and tf32, 1024^3 to 8192^3, an H200, 2026-11-23). Its power holds the clock down: what computes
# without a pause reaches this share of the rate at the highest clock; with mma.sync, which takes less of it, more.
WGMMA_SUSTAINED, MMA_SUSTAINED = 0.72, 0.8
TENSOR_L2_BYTES = 40  # per SM and cycle, by cp.async to the tiles of tensor cores
TMA_L2_BYTES = 50  # likewise by TMA
# Likewise where blocks start in the grid's order, so that L2 reads once what neighbours ask for at once: 450x3072x8192
# by 96x128 took 54 thousand cycles, 68 bytes each (H100, 2026-11-26).
IN_ORDER_L2_BYTES = 65
# Of a line of TMA's boxes, which has 128 bytes or fewer: B of rr in tiles of 176 columns came by lines of 32 bytes, and
# 4096^3 took 395 us, where rc took 191 (H100, 2026-11-27).
BOX_LINE_CYCLES = 2.2
PROMOTION_SHOWS = 0.25  # share of its time: the other consumer's products hide some, and the clock rises meanwhile
CLUSTER_LOSS = 0.02  # share of its time that a kernel loses because blocks of a cluster wait for each other
TMA_LATENCY = 1550  # cycles, from the start of a stage's copies to the products of its k tile
# Of a block by TMA that follows another one on its SM, before its first copies: it starts once the other one has ended,
# sets up barriers and fetches tensor maps. A persistent block does so once. (With TMA_LATENCY 3,300 to 4,900 cycles.)
BLOCK_START = 2000
# From the end of a step's products to the start of the next step's, where one warpgroup multiplies and keeps none in
# flight: it waits for them, for its barrier, and for the first instruction's operands. (170 to 210: e4m3, s8 and tf32.)
WGMMA_DRAIN = 180
SECTOR = 32  # bytes that global memory moves at once
SCHEDULERS = 4  # of an SM; each issues one instruction a cycle
BYTES_UNDER_WAY = 32 * 1024  # of an SM, that keep device memory busy
# What streams lose of the bandwidth, as the H200's times of skinny kernels fit best: the fewer bytes of an SM are under
# way, and the fewer of a line a block reads in a row (32 bytes take 19% longer, 256 take 2%). The fastest take 1% to 5%
# longer than that, on an H200 and an H100: STREAMED_LOSS.
STREAM_LOSS, LINE_LOSS, STREAMED_LOSS = 1024, 6, 0.05
# Likewise tiles of tensor cores, by the bytes of a line that a k tile has: with 128 bytes 12% longer, with 256 9% (few
# rows of bf16, s8 and e4m3, H100, 2026-11-27).
TILED_LOSS, RUN_LOSS = 0.07, 6
REPRESENTATIVE_BYTES = 2**28
REPRESENTATIVE_SIZE = 4096  # what a run-time size is taken for when a prediction needs a number


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that fit on one SM, their `share` of its threads (0 to 1), and what keeps another block out."""

    blocks: int
    warps: int
    share: float
    limiter: Limiter


@dataclass(frozen=True)
class Prediction:
    """What the model expects of one config on one card.

    registers     a thread, estimated (before compilation) or as compiled
    shared_bytes  a block
    waves         blocks of the grid over blocks that run at once; of a persistent kernel, which has as many blocks as
                  run at once, tiles over blocks
    time_us       predicted time of one launch, in microseconds; infinite where the kernel cannot launch
    bound         what takes longest
    """

    device: str
    registers: int
    shared_bytes: int
    occupancy: Occupancy
    waves: float
    time_us: float
    bound: Bound

    def tflops(self, case: Case) -> float:
        """Predicted rate, TFLOPS."""
        return case.flops / self.time_us / 1e6 if self.time_us > 0 else 0.0


def occupancy(arch: Arch, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Blocks of `threads` threads, `registers` a thread and `shared_bytes` that fit on an SM of `arch`."""
    shared = shared_bytes + arch.reserved_shared
    warps = -(-threads // WARP)
    rounded = -(-max(registers, 1) // REGISTER_UNIT) * REGISTER_UNIT
    # Each scheduler has its share of the SM's registers and runs whole warps.
    warps_by_registers = SCHEDULERS * (REGISTERS_PER_SM // SCHEDULERS // (rounded * WARP))
    fits: dict[Limiter, int] = {
        "threads": arch.sm_threads // (warps * WARP),
        "blocks": arch.sm_blocks,
        "registers": warps_by_registers // warps,
        "shared memory": arch.sm_shared // shared if shared else arch.sm_blocks,
    }
    limiter = min(fits, key=lambda name: fits[name])
    blocks = fits[limiter]
    return Occupancy(blocks, blocks * warps, blocks * warps * WARP / arch.sm_threads, limiter)


def estimate_registers(work: Work, dtype: DType) -> int:
    """Registers a thread before it is compiled: accumulators, two fragments, copies under way, addresses."""
    # A row of A and one of B, of a square thread tile, for this k and the next; or one of them for an iteration's k.
    fragments = (6 if work.k_vector else 4) * math.isqrt(work.outputs) if work.read_bytes else 2
    held = work.fragment_registers or dtype.words * fragments
    return dtype.words * work.outputs + held + int(work.staged_registers) + work.other_registers


def predict(plan: Plan, device: DeviceSpec, registers: int | None = None) -> Prediction:
    """Predict one launch of `plan` (run-time sizes as in `representative`) on `device`.

    `registers` is the compiled kernel's figure; None estimates it.
    """
    case, work, launch = representative(plan.problem), plan.work, plan.launch
    used = estimate_registers(work, plan.problem.types.accumulator) if registers is None else registers
    # __launch_bounds__ keeps the compiler to what lets a block launch: it spills the others.
    most = MAX_REGISTERS if registers is not None else min(MAX_REGISTERS, registers_to_launch(launch.threads))
    fit = occupancy(device.arch, launch.threads, min(used, most), plan.shared_bytes)
    if fit.blocks == 0:
        return Prediction(device.name, used, plan.shared_bytes, fit, math.inf, math.inf, "latency")
    blocks = launch.blocks(case)
    reached = device.clustered_sms(launch.cluster)
    at_once = launch.resident(blocks, device.sms) if launch.persistent else fit.blocks * reached
    waves = blocks / at_once
    time, bound = _time_us(case, plan, fit, device, max(0, used - most))
    return Prediction(device.name, used, plan.shared_bytes, fit, waves, time, bound)


def least_us(plan: Plan, device: DeviceSpec) -> float:
    """What products alone take at the rate of the instructions that multiply in `plan`: no tile is faster."""
    work = plan.work
    macs = plan.lanes(device) * work.products / work.pairs * _sustained(plan)  # of an SM, a cycle
    return representative(plan.problem).flops / 2 / macs / device.sms / device.clock_ghz / 1000


def registers_to_launch(threads: int) -> int:
    """The most of a thread with which an SM has room for a block of `threads`."""
    warps = -(-threads // (WARP * SCHEDULERS))  # of a scheduler, which has its share of the registers
    return REGISTERS_PER_SM // SCHEDULERS // (warps * WARP) // REGISTER_UNIT * REGISTER_UNIT


@lru_cache(maxsize=16)  # the same for all of a search's predictions
def representative(problem: Problem) -> Case:
    """The case that stands for `problem`: its sizes, and for those left to run time the typical one.

    Where none is given it is REPRESENTATIVE_SIZE, and of a batch as many products as take REPRESENTATIVE_BYTES.
    """
    typical = {name.lower(): size for name, size in dict(problem.typical).items()}
    open_sizes = {name.lower(): REPRESENTATIVE_SIZE for name in ("M", "N", "K") if problem.sizes[name] is None}
    open_sizes |= typical
    if problem.batch is None and "batch" not in typical:
        one = problem.case(**open_sizes, batch=1)
        open_sizes["batch"] = max(1, REPRESENTATIVE_BYTES // one.bytes_moved)
    return problem.case(**open_sizes)


def _time_us(case: Case, plan: Plan, fit: Occupancy, device: DeviceSpec, spilled: int) -> tuple[float, Bound]:
    """(time in microseconds, what bounds it): the busiest SM's steps, each as long as its slowest unit."""
    work, launch = plan.work, plan.launch
    blocks = launch.blocks_per_tile * launch.tiles(case)  # as many as there would be without stream-K: their work
    steps = math.ceil(max(case.k, 1) / launch.splits / work.depth) * work.passes * work.pairs
    # Stream-K spreads the last wave evenly; without it the busiest SM has one block more than others.
    per_sm = blocks / device.sms if launch.stream else -(-blocks // device.clustered_sms(launch.cluster))
    resident = 1 if launch.persistent else min(fit.blocks, math.ceil(per_sm))
    cycles = _step_cycles(plan, resident, device, spilled)
    bound = max(cycles, key=lambda unit: cycles[unit])
    if launch.maps:  # a ring of TMA's stages has neither barriers of the block nor turns of copying and computing
        step = _sharp_maximum(cycles.values())
    else:
        step = cycles[bound] + OVERLAP_LOSS * (sum(cycles.values()) - cycles[bound]) + BARRIER_CYCLES / resident
    waits = work.waits + (work.prefetch == 0)
    step += waits * GLOBAL_LATENCY / resident  # nothing runs while a block waits for its own tile, except other blocks
    step += PROMOTION_SHOWS * work.promotions * plan.consumers / WARP / SCHEDULERS
    rounds = per_sm / resident
    between = (rounds - 1) * _between_cycles(plan, resident, steps * step)
    compute_us = (rounds * steps * step + between) / device.clock_ghz / 1000
    dram_us = (case.bytes_moved + _filled_bytes(case, plan)) / device.bandwidth / 1000
    if case.problem.batched:  # nothing is read twice: what hides the latency is bytes under way
        ring = launch.maps and launch.persistent  # which the next product's tiles fill, too
        ahead = max(1, work.prefetch) if ring else min(steps, max(1, work.prefetch))
        under_way = resident * work.global_bytes * ahead
        dram_us *= max(1.0, BYTES_UNDER_WAY / under_way)
    elif work.line_bytes:
        under_way = min(1.0, blocks / device.sms) * resident * (work.global_bytes - work.repeated_bytes)
        dram_us *= 1 + STREAMED_LOSS + STREAM_LOSS / under_way + LINE_LOSS / work.line_bytes
        dram_us += cycles["issue"] / device.clock_ghz / 1000  # the last step's: nothing arrives while it is computed
    elif work.run_bytes:
        dram_us *= 1 + TILED_LOSS + RUN_LOSS / work.run_bytes
    if dram_us > compute_us:
        bound = "DRAM"
    both_us = _sharp_maximum((compute_us, dram_us))
    both_us *= 1 + CLUSTER_LOSS * (launch.cluster > 1)
    return _prepare_us(case, plan, device) + both_us + _reduction_us(plan, blocks, device) + LAUNCH_US, bound


def _between_cycles(plan: Plan, resident: int, tile: float) -> float:
    """From the products of a tile, which take `tile` cycles, to those of the next one on this SM, as far as known."""
    if plan.launch.maps:  # TMA fills the next tile's stages meanwhile
        rows, columns = plan.tile
        passes = 1 + plan.problem.epilogue.reads_c  # C leaves, and arrives before where it is read
        stores = rows * columns * plan.problem.types.c.size * passes / L2_BYTES_PER_CYCLE
        elements = plan.work.outputs / plan.problem.products * plan.consumers / WARP / SCHEDULERS
        stores += plan.problem.function_instructions * elements  # its functions, before C leaves
        start = 0.0 if plan.launch.persistent else (BLOCK_START + TMA_LATENCY) / resident
        return start + max(0.0, (tile + stores) / plan.work.turns - tile)
    if plan.work.line_bytes:  # blocks of an SM end together: none streams while the next ones' first bytes are awaited
        return GLOBAL_LATENCY * (1 + STREAM_REDUCTION_LATENCIES * plan.launch.adds_up)
    if plan.work.row_bytes == 0:
        return 0.0
    warps_per_scheduler = plan.consumers * resident / WARP / SCHEDULERS
    instructions = EPILOGUE_INSTRUCTIONS + plan.problem.function_instructions
    epilogue = instructions * plan.work.outputs * (warps_per_scheduler + STALLS)
    return epilogue + GLOBAL_LATENCY / resident


def _filled_bytes(case: Case, plan: Plan) -> float:
    """Of the sectors of C that a warp's accesses leave in part: L2 takes as long for each as for a whole one."""
    if plan.work.row_bytes == 0:
        return 0.0
    return case.tensors["C"].least_bytes * max(0.0, SECTOR / plan.work.row_bytes - 1)


def _sharp_maximum(values: Iterable[float]) -> float:
    """A little more than the largest, where others are near."""
    return float(sum(value**SHARPNESS for value in values) ** (1 / SHARPNESS))


def _prepare_us(case: Case, plan: Plan, device: DeviceSpec) -> float:
    """Microseconds of the launches before it: each reads an operand and writes its copy, or sums."""
    moved = (case.tensors[one.operand].least_bytes + one.bytes(case) for one in plan.launch.prepares)
    return sum(PREPARE_US + size / device.bandwidth / 1000 for size in moved)


def _reduction_us(plan: Plan, blocks: int, device: DeviceSpec) -> float:
    """Microseconds that blocks with a common tile take to add up: they write, they count a semaphore, and the
    last one reads. Most of it hides behind other tiles where there are several waves, which is left out. Those of a
    cluster each write their sums to shared memory, and read as many from all of them."""
    launch = plan.launch
    if not launch.adds_up:
        return 0.0
    size = plan.results * plan.problem.types.accumulator.size
    each, of_tiles = (math.ceil(one / device.sms) for one in (blocks, blocks / launch.splits))
    if launch.stream:  # the most that it leaves: an owner one partial, a stream block one or, across two tiles, two
        moved = 2 * size * 2 * launch.stream.blocks / device.sms
    elif launch.cluster > 1:
        moved = 2 * size * each  # between SMs
    else:  # all blocks write, and of each tile's one reads them all
        moved = size * (each + launch.splits * of_tiles)
    latencies = STREAM_REDUCTION_LATENCIES if plan.work.line_bytes else REDUCTION_LATENCIES
    return (latencies * GLOBAL_LATENCY + moved / L2_BYTES_PER_CYCLE / device.arch.l2_share) / device.clock_ghz / 1000


def _step_cycles(plan: Plan, resident: int, device: DeviceSpec, spilled: int) -> dict[Bound, float]:
    """Cycles that each unit of an SM needs for one step of its `resident` blocks."""
    work = plan.work
    warps = -(-plan.consumers // WARP) * resident
    warps_per_scheduler = max(1.0, warps / SCHEDULERS)  # a warp issues on one scheduler only
    fmas = work.fmas * work.depth
    exchange_cycles = OPERAND_CYCLES if work.k_unroll else UNORDERED_OPERAND_CYCLES
    operands = fmas * exchange_cycles / work.operand_reuse if work.operand_reuse > 1 else 0.0
    iterations = work.depth / work.k_unroll if work.k_unroll else 1
    overhead = (
        STEP_INSTRUCTIONS
        + (STREAM_INSTRUCTIONS if plan.launch.stream else 0)
        + COPY_INSTRUCTIONS * work.copies
        + (LOOP_INSTRUCTIONS * iterations if work.k_unroll else 0)
    )
    reads = (work.shared_reads + work.conversions) * work.depth
    instructions = fmas + operands + reads + overhead + 2 * spilled * work.depth
    uncached = instructions / iterations * SASS_BYTES > INSTRUCTION_CACHE
    stalls = STALLS + (LATE_READ_STALLS if work.k_vector and not work.hoisted else 0.0)
    arriving = (work.global_bytes - L1_HITS * work.repeated_bytes) * resident / _l2_bytes(plan, device.arch)
    arriving = max(arriving, BOX_LINE_CYCLES * work.box_lines * resident)
    return {
        "FMA": warps_per_scheduler * fmas * SCHEDULERS * WARP / plan.lanes(device) / _sustained(plan)
        + _drain(plan, warps),
        "issue": (warps_per_scheduler + stalls) * instructions,
        "instruction fetch": FETCH_CYCLES * instructions if uncached else 0.0,
        "shared memory": warps * work.wavefronts * work.depth + work.copy_wavefronts * resident,
        "L2": arriving,
        "latency": _latency(plan, arriving) / work.prefetch if work.prefetch else 0.0,
    }


def _drain(plan: Plan, warps: int) -> int:
    """Cycles of a step in which no tensor core has work: other warpgroups of the SM, of `warps` in all, fill them."""
    alone = warps // plan.work.turns <= WARPGROUP // WARP
    return WGMMA_DRAIN if plan.work.drains and alone else 0


def _l2_bytes(plan: Plan, arch: Arch) -> float:
    """That arrive at an SM a cycle."""
    if plan.launch.maps:
        in_order = plan.launch.cluster == 1 and DEPENDENT_LAUNCH not in plan.launch.attributes
        return IN_ORDER_L2_BYTES if in_order else TMA_L2_BYTES
    return arch.l2_share * (L2_BYTES_PER_CYCLE if plan.mma is None else TENSOR_L2_BYTES)


def _sustained(plan: Plan) -> float:
    """The share of the rate of its instructions that a large product reaches."""
    if plan.mma is None or plan.mma.a is DType.F64:
        return 1.0
    return WGMMA_SUSTAINED if plan.launch.maps else MMA_SUSTAINED


def _latency(plan: Plan, arriving: float) -> float:
    """Cycles until a k tile is there, whose bytes take `arriving` of them by themselves."""
    return TMA_LATENCY + arriving if plan.launch.maps else GLOBAL_LATENCY
