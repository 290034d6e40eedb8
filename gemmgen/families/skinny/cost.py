"""What a kernel of `skinny` does in an iteration of its main loop, for the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from gemmgen.families.skinny.axes import SkinnyConfig
from gemmgen.families.skinny.operands import dots, roles, unpacking
from gemmgen.kernel.plan import Work
from gemmgen.problem.device import BANK_BYTES, WARP
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import Mma

STAGE_UNROLL = 8  # loads of a thread under way at once while it stages a chunk
OTHER_REGISTERS = 20  # addresses and counters


def work_of(problem: Problem, config: SkinnyConfig, value: Mapping[str, int], mma: Mma | None) -> Work:
    """The work of `config`, whose constants are `value`, by FMAs or `mma`."""
    (x, w), direct, dot = roles(problem), config.BK == 0, dots(problem, config)
    unrolled = config.UNROLL * value["STEP"]  # k of an iteration
    weights = value["W_BYTES"] * value[f"B{w.MN}"] * unrolled  # bytes
    small = value["X_BYTES"] * config.S * unrolled  # bytes
    reads, staging = _reads(problem, config, value), _staging(problem, config, value, unrolled)
    taken = 0.0 if dot else config.T * unpacking(problem, w) + config.S * unpacking(problem, x) * direct
    if config.MMA:
        taken = 0.0 if w.along_k else config.T / 2  # two neighbouring k of a weight meet in a register
    held = value["LOADS"] * value["VW"] * value["W_BYTES"]  # bytes that a lane holds of a step
    held += value["LANE_LINES"] * value["LANE_K"] * value["X_BYTES"] * direct
    return Work(
        outputs=value["SUMS"],
        depth=unrolled,
        shared_reads=0 if direct else reads.each_k,
        read_bytes=0 if direct else WORD * reads.each_k * reads.words,
        wavefronts=reads.each_k * reads.cycles,
        copies=config.UNROLL * (value["LOADS"] * (1 + config.ASYNC) + reads.accesses * direct) + staging.copies,
        copy_wavefronts=staging.wavefronts + 2 * weights * config.ASYNC / BANK_BYTES,
        global_bytes=weights + small,
        repeated_bytes=small * direct * w.along_k,  # across C each warp has its own k
        prefetch=1,
        waits=staging.waits,
        staged_registers=value["HELD"] * held / WORD,
        k_slices=config.WARPS if config.MMA else WARP if w.along_k else value["STEP"] // value["LANE_K"],
        products=mma.products // WARP if mma else 4 if dot else 1,
        line_bytes=value["W_BYTES"] * (_line(config, value) if w.along_k else value[f"B{w.MN}"]),
        conversions=taken * value["LANE_K"] / value["STEP"],
        k_tile=config.BK,
        other_registers=OTHER_REGISTERS,
    )


def _line(config: SkinnyConfig, value: Mapping[str, int]) -> int:
    """Neighbouring elements that a block reads of a line along k: a warp's, or those of all warps."""
    return value["STEP"] if config.MMA else WARP * value["VW"]


@dataclass(frozen=True)
class _Reads:
    """A thread's accesses to the small operand, in L1 or shared memory.

    accesses  in a step
    each_k    of the step
    words     of 4 bytes, of one access
    cycles    that a warp's access takes, at 32 words a cycle
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
    return _Reads(accesses, accesses / value["STEP"], words, cycles)


@dataclass(frozen=True)
class _Staging:
    """The small operand's way into shared memory: a thread's accesses, wavefronts of a block, and waits for loads."""

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
