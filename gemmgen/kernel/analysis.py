"""Counts that follow from a config alone: memory accesses per result, FMAs per read, intensity, the expected bound.

They are exact for the tile sizes, need no card, and stand in a kernel's header and in `gemmgen explain`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.kernel.plan import Plan, Work
from gemmgen.problem.dtype import WORD, DType

# Of an SM with 128 FP32 lanes, as most have, 64 for integers and, as sm_90, for FP64: see device.py for others.
CYCLES_PER_WARP_FMA = {DType.F32: 0.25, DType.F64: 0.5, DType.S32: 0.5}


@dataclass(frozen=True)
class Traffic:
    """What a kernel moves, per result or per FMA.

    global_words, shared_words   4-byte words read for each element of C and unit of K
    fmas_per_shared_word         FMAs that one word read from shared memory feeds
    fmas_per_shared_read         the same for one read instruction, scalar or vector
    intensity                    FLOP for each byte that a block reads from global memory
    ffma_share                   FMAs among the instructions of the main loop, 0 to 1 (reads and copies counted)
    bound                        what is used up first at full occupancy: "FMA" or "shared memory"; "global memory"
                                 where no tile is kept on the chip
    """

    global_words: float
    shared_words: float
    fmas_per_shared_word: float
    fmas_per_shared_read: float
    intensity: float
    ffma_share: float
    bound: str


def traffic(plan: Plan) -> Traffic:
    """Count for one plan; the counts per unit of K hold for every K."""
    work, results = plan.work, plan.results
    bytes_per_k, read_words = work.global_bytes / work.depth, work.read_bytes / WORD
    ffma = work.fmas * work.depth
    reads = work.shared_reads * work.depth
    return Traffic(
        global_words=bytes_per_k / WORD / results,
        shared_words=read_words / work.fmas,
        fmas_per_shared_word=_ratio(work.fmas, read_words),
        fmas_per_shared_read=_ratio(work.fmas, work.shared_reads),
        intensity=2 * results / bytes_per_k,
        ffma_share=ffma / (ffma + reads + work.copies),
        bound=_bound(work, plan.problem.types.accumulator),
    )


def _bound(work: Work, dtype: DType) -> str:
    if not work.read_bytes:
        return "global memory"
    return "shared memory" if work.wavefronts > work.fmas * CYCLES_PER_WARP_FMA[dtype] else "FMA"


def _ratio(count: float, over: float) -> float:
    return count / over if over else 0.0
