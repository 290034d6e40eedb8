"""Terms of a predicted time that families share: see `Cost`, which each family answers.

Constants are what NVIDIA does not publish. They were chosen so that the order of predictions follows the order of
measured times on an H200 (f32, 11 shapes and layouts, 2026-11-21).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gemmgen.kernel.plan import Bound, Cost, Plan, Share
from gemmgen.kernel.prepare import Codes
from gemmgen.problem.device import WARP
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.wgmma import Wgmma

L2_BYTES_PER_CYCLE = 28  # per SM of sm_90, sustained; Arch.l2_share says how many of them others have
TENSOR_L2_BYTES = 40  # likewise, by cp.async to the tiles of tensor cores
GLOBAL_LATENCY = 700  # cycles, from a tile's first load to its barrier
REDUCTION_LATENCIES = 2  # of writes, semaphores and reads by which blocks add up their sums, as far as they show
OVERLAP_LOSS = 0.05  # share of the other units' time that does not hide behind the slowest
SHARPNESS = 8  # of a maximum: 9% more where two take as long
STEP_INSTRUCTIONS = 20  # of a warp for each step, besides its barrier: loop and address arithmetic
BARRIER_CYCLES = 250  # of a step's barrier that no other block fills; with another one half as many
STREAM_INSTRUCTIONS = 60  # of a warp for each step, more with stream-K
CODES_INSTRUCTIONS = 18  # of a thread for the numbers of eight codes, and the loads of what they are made of
WIDE_CODES_INSTRUCTIONS = 28  # likewise, where the numbers go through f32
COPY_INSTRUCTIONS = 3  # of a warp for each access that copies: the access, its address, its predicate, and their waits
STALLS = 0.2  # of issue time, for one warp a scheduler: waits that no other warp fills
SASS_BYTES = 16  # an instruction
INSTRUCTION_CACHE = 32 * 1024  # bytes next to a scheduler; a longer unrolled step is fetched again and again
FETCH_CYCLES = 1.8  # an instruction that is not there; the warps of a scheduler share it
# Tensor cores (bf16, s8 and tf32, 1024^3 to 8192^3, an H200, 2026-11-23). Its power holds the clock down: what computes
# without a pause reaches this share of the rate at the highest clock; with mma.sync, which takes less of it, more.
WGMMA_SUSTAINED, MMA_SUSTAINED = 0.72, 0.8
SCHEDULERS = 4  # of an SM; each issues one instruction a cycle
BYTES_UNDER_WAY = 32 * 1024  # of an SM, that keep device memory busy
# What tiles of tensor cores lose of the bandwidth, by the bytes of a line that a k tile has: with 128 bytes 12%, with
# 256 9% (few rows of bf16, s8 and e4m3, H100, 2026-11-27).
TILED_LOSS, RUN_LOSS = 0.07, 6


def code_instructions(codes: Codes | None) -> int:
    """Instructions of a thread for the numbers of eight codes; 0 if B has none."""
    if codes is None:
        return 0
    return WIDE_CODES_INSTRUCTIONS if codes.wide else CODES_INSTRUCTIONS


def registers(
    dtype: DType, outputs: int, *, fragments: int = 0, rows: int = 4, staged: float = 0, other: int = 44
) -> int:
    """Registers per thread, estimated before the kernel is compiled.

    outputs    accumulators of `dtype`
    fragments  registers of A and B; 0: those of `rows` rows of a square thread tile (of A and of B, for this k and the
               next)
    staged     that hold elements of the next tile until they are stored to shared memory
    other      for addresses and counters, as compiled on sm_90
    """
    held = fragments or dtype.words * rows * math.isqrt(outputs)
    return dtype.words * outputs + held + int(staged) + other


def sustained(plan: Plan) -> float:
    """The share of the rate of its instructions that a large product reaches."""
    if plan.mma is None or plan.mma.a is DType.F64:
        return 1.0
    return WGMMA_SUSTAINED if isinstance(plan.mma, Wgmma) else MMA_SUSTAINED


def steps_of(plan: Plan, case: Case) -> int:
    """Steps of a block along K, for one tile of C; of groups along K, if all are as deep."""
    return math.ceil(max(case.k / max(1, case.problem.inputs.k_groups), 1) / plan.launch.splits / plan.work.depth)


def instructions(
    plan: Plan, share: Share, *, waits: float = 0.0, conversions: float = 0.0, loops: float = 0.0
) -> float:
    """Instructions of a thread for a step.

    waits        cycles for a register bank, which count as instructions
    conversions  of elements, for each k
    loops        of the loop within a step
    """
    work = plan.work
    stream = STREAM_INSTRUCTIONS if plan.launch.stream else 0
    overhead = STEP_INSTRUCTIONS + stream + COPY_INSTRUCTIONS * work.copies + loops
    reads = (work.shared_reads + conversions) * work.depth
    return work.fmas * work.depth + waits + reads + overhead + 2 * share.spilled * work.depth


def unit_cycles(
    plan: Plan,
    share: Share,
    issued: float,
    *,
    iterations: float = 1,
    stalls: float = STALLS,
    drain: int = 0,
    arriving: float | None = None,
    latency: float | None = None,
) -> dict[Bound, float]:
    """Cycles that each unit of an SM needs for one step of its resident blocks, of `issued` instructions per thread.

    iterations  of the loop within a step
    stalls      share of issue time, for one warp a scheduler
    drain       cycles in which the units that multiply have no work
    arriving    in which L2 delivers the step's bytes; None: as threads copy them
    latency     from the start of a copy to its use; None: that of global memory
    """
    work, resident = plan.work, share.resident
    warps = warps_of(plan, share)
    warps_per_scheduler = max(1.0, warps / SCHEDULERS)  # a warp issues on one scheduler only
    macs = warps_per_scheduler * (work.fmas * work.depth) * SCHEDULERS * WARP
    uncached = issued / iterations * SASS_BYTES > INSTRUCTION_CACHE
    return {
        "FMA": macs / plan.lanes(share.device) / sustained(plan) + drain,
        "issue": (warps_per_scheduler + stalls) * issued,
        "instruction fetch": FETCH_CYCLES * issued if uncached else 0.0,
        "shared memory": warps * work.wavefronts * work.depth + work.copy_wavefronts * resident,
        "L2": arriving_cycles(plan, share) if arriving is None else arriving,
        "latency": (GLOBAL_LATENCY if latency is None else latency) / work.prefetch if work.prefetch else 0.0,
    }


def warps_of(plan: Plan, share: Share) -> int:
    """Warps of an SM that compute."""
    return -(-plan.consumers // WARP) * share.resident


def arriving_cycles(plan: Plan, share: Share, by_l1: float = 0) -> float:
    """Cycles in which L2 delivers a step's bytes, but for those that L1 has, to blocks whose threads copy them."""
    rate = share.device.arch.l2_share * (L2_BYTES_PER_CYCLE if plan.mma is None else TENSOR_L2_BYTES)
    return (plan.work.global_bytes - by_l1) * share.resident / rate


def barrier_cycles(plan: Plan, share: Share, units: dict[Bound, float], waits: float = 0) -> float:
    """Cycles of a step whose threads copy and multiply in turns, between barriers of the block.

    waits  global latencies for which the block waits, besides that of a tile which is not prefetched
    """
    slowest = max(units.values())
    step = slowest + OVERLAP_LOSS * (sum(units.values()) - slowest) + BARRIER_CYCLES / share.resident
    exposed = waits + (plan.work.prefetch == 0)  # nothing runs while a block waits for its own tile, but other blocks
    return step + exposed * GLOBAL_LATENCY / share.resident


def sharp_maximum(values: Iterable[float]) -> float:
    """A little more than the largest, where others are near."""
    return float(sum(value**SHARPNESS for value in values) ** (1 / SHARPNESS))


def memory_us(plan: Plan, share: Share, steps: float, *, slower: float = 1.0, filled: float = 0.0) -> float:
    """Microseconds in which device memory moves the operands.

    Products of a batch read nothing twice: what hides the latency is bytes under way, of at most `steps`.

    slower  by this factor, where there is no batch
    filled  bytes that are moved besides
    """
    us = (share.case.bytes_moved + filled) / share.device.bandwidth / 1000
    if not plan.problem.batched:
        return us * slower
    ahead = min(steps, max(1, plan.work.prefetch))
    return us * max(1.0, BYTES_UNDER_WAY / (share.resident * plan.work.global_bytes * ahead))


def tiled(run_bytes: int) -> float:
    """By how much k tiles of tensor cores are slower that have so many contiguous bytes of a line."""
    return 1 + TILED_LOSS + RUN_LOSS / run_bytes


def reduction_us(plan: Plan, share: Share, latencies: float = REDUCTION_LATENCIES) -> float:
    """Microseconds that blocks with a common tile take to add up: they write, they count a semaphore, and the
    last one reads. Most of it hides behind other tiles where there are several waves, which is left out. Those of a
    cluster each write their sums to shared memory, and read as many from all of them."""
    launch, device = plan.launch, share.device
    if not launch.adds_up:
        return 0.0
    size = plan.results * plan.problem.types.accumulator.size
    each, of_tiles = (math.ceil(one / device.sms) for one in (share.blocks, share.blocks / launch.splits))
    if launch.stream:  # the most that it leaves: an owner one partial, a stream block one or, across two tiles, two
        moved = 2 * size * 2 * launch.stream.blocks / device.sms
    elif launch.cluster > 1:
        moved = 2 * size * each  # between SMs
    else:  # all blocks write, and of each tile's one reads them all
        moved = size * (each + launch.splits * of_tiles)
    return (latencies * GLOBAL_LATENCY + moved / L2_BYTES_PER_CYCLE / device.arch.l2_share) / device.clock_ghz / 1000


def block_cost(
    plan: Plan,
    share: Share,
    units: dict[Bound, float],
    *,
    passes: int = 1,
    between: float = 0.0,
    slower: float = 1.0,
    filled: float = 0.0,
) -> Cost:
    """The cost of a kernel whose blocks copy tiles and multiply them between barriers.

    passes   times that a block goes along K, one after the other
    between  cycles from a block's last products to the first ones of the block that follows it
    slower, filled  see `memory_us`
    """
    steps = steps_of(plan, share.case) * passes
    return Cost(
        units=units,
        steps=steps,
        step=barrier_cycles(plan, share, units),
        between=between,
        memory_us=memory_us(plan, share, steps, slower=slower, filled=filled),
        reduction_us=reduction_us(plan, share),
    )
