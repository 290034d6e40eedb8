"""Counts that follow from a config alone: memory accesses per FMA, FMAs per read, intensity, the expected bound.

They are exact for the tile sizes, need no card, and stand in a kernel's header and in `gemmgen explain`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.kernel.plan import Plan, Work
from gemmgen.problem.dtype import DType

# Cycles on an SM with 128 FP32 lanes, as most have, 64 for integers and, like sm_90, 64 for FP64: see device.py for
# others.
CYCLES_PER_WARP_FMA = {DType.F32: 0.25, DType.F64: 0.5, DType.S32: 0.5}


@dataclass(frozen=True)
class Traffic:
    """The memory traffic of a kernel per FMA. An element of C takes K FMAs.

    global_bytes, shared_bytes   bytes read from global and from shared memory per FMA
    fmas_per_shared_read         FMAs that one read instruction feeds, scalar or vector
    intensity                    FLOP per byte that a block reads from global memory
    ffma_share                   FMAs among the instructions of the main loop, 0 to 1 (reads and copies counted)
    bound                        the unit that saturates first at full occupancy: "FMA" or "shared memory"; "global
                                 memory" where no tile is kept on the chip
    """

    global_bytes: float
    shared_bytes: float
    fmas_per_shared_read: float
    intensity: float
    ffma_share: float
    bound: str


def traffic(plan: Plan) -> Traffic:
    """Count for one plan; the counts per unit of K hold for every K."""
    work, results, pairs = plan.work, plan.results, plan.problem.types.compute.pairs
    bytes_per_k = pairs * work.global_bytes / work.depth
    ffma = work.fmas * work.depth
    reads = work.shared_reads * work.depth
    return Traffic(
        global_bytes=bytes_per_k / results,
        shared_bytes=pairs * work.read_bytes * work.k_slices / work.outputs,
        fmas_per_shared_read=work.fmas / work.shared_reads if work.shared_reads else 0.0,
        intensity=2 * results / bytes_per_k,
        ffma_share=ffma / (ffma + reads + work.copies),
        bound=_bound(work, plan.problem.types.accumulator),
    )


def _bound(work: Work, dtype: DType) -> str:
    if not work.read_bytes:
        return "global memory"
    return "shared memory" if work.wavefronts > work.fmas * CYCLES_PER_WARP_FMA[dtype] else "FMA"
