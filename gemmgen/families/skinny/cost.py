"""What a kernel of `skinny` does in an iteration of its main loop, and the terms of its predicted time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import cast

from gemmgen.families.skinny.axes import SkinnyConfig
from gemmgen.families.skinny.operands import LANES_OF_K, dots, roles, unpacking
from gemmgen.kernel.cost import (
    GLOBAL_LATENCY,
    arriving_cycles,
    barrier_cycles,
    code_instructions,
    instructions,
    memory_us,
    reduction_us,
    registers,
    steps_of,
    unit_cycles,
)
from gemmgen.kernel.plan import Cost, Plan, Share, Work
from gemmgen.kernel.prepare import PACKED_COLUMNS, Codes
from gemmgen.problem.device import BANK_BYTES, WARP
from gemmgen.problem.dtype import WIDEST_ACCESS, WORD
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import Mma

STAGE_UNROLL = 8  # loads of a thread under way at once while it stages a chunk
OTHER_REGISTERS = 20  # addresses and counters
L1_HITS = 7 / 8  # share of the bytes that the SM's blocks repeat which L1 serves
LINES_AT_ONCE = 8  # of the small operand that an instruction multiplies
STREAM_REDUCTION_LATENCIES = 3  # of blocks that stream and end at once: no other one fills the wait
# What streams lose of the bandwidth, as the H200's times fit best: the fewer bytes of an SM are under way, and the
# fewer of a line a block reads in a row (32 bytes take 19% longer, 256 take 2%). The fastest take 1% to 5% longer than
# that, on an H200 and an H100: STREAMED_LOSS.
STREAM_LOSS, LINE_LOSS, STREAMED_LOSS = 1024, 6, 0.05


def work_of(problem: Problem, config: SkinnyConfig, value: Mapping[str, int], mma: Mma | None) -> Work:
    """The work of `config`, whose constants are `value`, by FMAs or `mma`."""
    (_, w), direct, dot = roles(problem), config.BK == 0, dots(problem, config)
    unrolled = config.UNROLL * value["STEP"]  # k of an iteration
    weights = _weight_bytes(problem, value) * value[f"B{w.MN}"] * unrolled
    small = value["X_BYTES"] * config.S * unrolled  # bytes
    reads, staging = _reads(problem, config, value), _staging(problem, config, value, unrolled)
    read = 0 if direct else WORD * reads.each_k * reads.words
    held = value["LOADS"] * value["VW"] * value["W_BYTES"]  # bytes that a lane holds of a step
    held += value["LANE_LINES"] * value["LANE_K"] * value["X_BYTES"] * direct
    return Work(
        outputs=value["SUMS"],
        depth=unrolled,
        shared_reads=0 if direct else reads.each_k,
        read_bytes=read,
        wavefronts=reads.each_k * reads.cycles,
        copies=config.UNROLL * (value["LOADS"] * (1 + config.ASYNC) + reads.accesses * direct) + staging.copies,
        copy_wavefronts=staging.wavefronts + 2 * weights * config.ASYNC / BANK_BYTES,
        global_bytes=weights + small,
        prefetch=1,
        registers=registers(
            problem.types.accumulator,
            value["SUMS"],
            fragments=0 if read else 2 * problem.types.accumulator.words,
            staged=value["HELD"] * held / WORD,
            other=OTHER_REGISTERS,
        ),
        k_slices=config.WARPS if config.MMA else WARP if w.along_k else value["STEP"] // value["LANE_K"],
        products=mma.products // WARP if mma else 4 if dot else 1,
        k_tile=config.BK,
    )


def cost_of(plan: Plan, share: Share) -> Cost:
    """The terms of its time. Blocks of an SM end together: none streams while the next ones await their first bytes."""
    problem, config, value = plan.problem, cast(SkinnyConfig, plan.config), plan.constants
    device, adds_up, repeated = share.device, plan.launch.adds_up, repeated_bytes(plan)
    issued = instructions(plan, share, conversions=_conversions(problem, config, value))
    units = unit_cycles(plan, share, issued, arriving=arriving_cycles(plan, share, L1_HITS * repeated))
    steps, waits = steps_of(plan, share.case), _staging(problem, config, value, plan.work.depth).waits
    under_way = min(1.0, share.blocks / device.sms) * share.resident * (plan.work.global_bytes - repeated)
    streamed = 1 + STREAMED_LOSS + STREAM_LOSS / under_way + LINE_LOSS / _line_bytes(problem, config, value)
    memory = memory_us(plan, share, steps, slower=streamed)
    if not problem.batched:  # nothing arrives while the last step is computed
        memory += units["issue"] / device.clock_ghz / 1000
    return Cost(
        units=units,
        step=barrier_cycles(plan, share, units, waits),
        steps=steps,
        between=GLOBAL_LATENCY * (1 + STREAM_REDUCTION_LATENCIES * adds_up),
        memory_us=memory,
        reduction_us=reduction_us(plan, share, STREAM_REDUCTION_LATENCIES),
    )


def repeated_bytes(plan: Plan) -> int:
    """Bytes of a step that other warps of the SM read as well, and L1 may have: across C each warp has its own k."""
    (_, w), config, value = roles(plan.problem), cast(SkinnyConfig, plan.config), plan.constants
    return value["X_BYTES"] * config.S * plan.work.depth * (config.BK == 0) * w.along_k


def _conversions(problem: Problem, config: SkinnyConfig, value: Mapping[str, int]) -> float:
    """Instructions of a thread for each k that convert elements."""
    x, w = roles(problem)
    taken = 0.0
    if problem.coded:
        taken = code_instructions(Codes.of(problem)) * value["LOADS"] / LANES_OF_K
    elif config.MMA:
        taken = 0.0 if w.along_k else config.T / 2  # two neighbouring k of a weight meet in a register
    elif not dots(problem, config):
        taken = config.T * unpacking(problem, w) + config.S * unpacking(problem, x) * (config.BK == 0)
    return taken * value["LANE_K"] / value["STEP"]


def _weight_bytes(problem: Problem, value: Mapping[str, int]) -> float:
    """Bytes of a weight; of packed codes, with their scales and zero points."""
    if not problem.coded:
        return value["W_BYTES"]
    return WORD * value["PACKED_WORDS"] / (PACKED_COLUMNS * value["CHUNK_K"])


def _line_bytes(problem: Problem, config: SkinnyConfig, value: Mapping[str, int]) -> int:
    """Contiguous bytes that a block reads of one line of the weights: along k those of a warp, or of all warps."""
    _, w = roles(problem)
    if problem.coded:
        return WARP * WIDEST_ACCESS
    along_k = value["STEP"] if config.MMA else WARP * value["VW"]
    return value["W_BYTES"] * (along_k if w.along_k else value[f"B{w.MN}"])


@dataclass(frozen=True)
class _Reads:
    """A thread's accesses to the small operand, in L1 or shared memory.

    accesses  accesses per step
    each_k    accesses per k of the step
    words     words of 4 bytes per access
    cycles    cycles per access of a warp, at 32 words per cycle
    """

    accesses: int
    each_k: float
    words: int
    cycles: float


def _reads(problem: Problem, config: SkinnyConfig, value: Mapping[str, int]) -> _Reads:
    (x, w), direct, dot = roles(problem), config.BK == 0, dots(problem, config)
    along_k = value["VW"] if problem.types.uniform or dot else value["RX"] if w.along_k else 1
    elements = value["XW"] if direct else along_k if w.along_k else value["FX"]
    words = ceil(elements * (value["X_BYTES"] if direct or dot else WORD) / WORD)
    accesses = value["LANE_LINES"] * value["LANE_K"] // elements
    # For each lane, in a line of each lane's own, or for each group of lanes.
    apart = direct and w.along_k and not x.along_k
    lines = config.MMA == 1 or w.along_k  # each lane reads its own
    cycles = WARP if apart else words if lines else max(1, words * value["GROUPS"] / WARP)
    if problem.coded:  # pairs of k, of as many lines as the fragment has
        cycles = min(config.S, LINES_AT_ONCE, problem.sizes[x.MN] or LINES_AT_ONCE)
    return _Reads(accesses, accesses / value["STEP"], words, cycles)


@dataclass(frozen=True)
class _Staging:
    """The small operand's way into shared memory: copies per thread, wavefronts per block, and waits for loads."""

    copies: float = 0
    wavefronts: float = 0
    waits: float = 0


def _staging(problem: Problem, config: SkinnyConfig, value: Mapping[str, int], unrolled: int) -> _Staging:
    if config.BK == 0:
        return _Staging()
    x, w = roles(problem)
    staged, width = config.S * unrolled, 1 if problem.types.uniform else value["XW"]  # elements, and those of a load
    rounds = ceil(config.S * config.BK / (value["THREADS"] * STAGE_UNROLL * width))
    conflicts = 1 if w.along_k == x.along_k else 4
    return _Staging(
        (1 + 1 / width) * staged / value["THREADS"], staged / WARP * conflicts, rounds * unrolled / config.BK
    )
