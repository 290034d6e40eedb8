"""The reasons for the speed of a study's points, in plain words and numbers.

Each sentence is computed from the figures of the compiler, the disassembly and the card, so it holds for any card, and
for predicted as well as measured times.
"""

from __future__ import annotations

from collections.abc import Iterator

from gemmgen.families.base import Family, Rejection, constants
from gemmgen.judge.explain import Explanation, bound_in_words
from gemmgen.kernel.config import Config
from gemmgen.kernel.expression import names_in
from gemmgen.kernel.model import Limiter, registers_to_launch
from gemmgen.problem.device import MAX_REGISTERS, WARP, DeviceSpec, Limits
from gemmgen.problem.gemm import Problem
from gemmgen.support.words import plural

FEW_WARPS = 8  # of an SM: two for each scheduler, which seldom finds another one that is ready
SHARED_READS = ("LDS", "LDSM")  # instructions that read shared memory: values, or fragments of tensor cores
SAME = 0.1  # relative difference of counts that is no difference
LIMITERS: dict[Limiter, str] = {
    "threads": "its thread slots take",
    "blocks": "its block slots take",
    "registers": "its registers allow",
    "shared memory": "its shared memory allows",
}


def why_rejected(problem: Problem, family: Family, config: Config, rejection: Rejection, limits: Limits) -> str:
    """The limit that a config exceeds, and by how much."""
    names = names_in(rejection.constraint.expression)
    if names == {"THREADS", "MAX_THREADS"}:
        threads = constants(family, problem, config)["THREADS"]
        return f"blocks of {threads:,} threads cannot launch: CUDA allows {limits.threads:,}"
    if names == {"SHARED_BYTES", "MAX_SHARED_BYTES"}:
        asked = constants(family, problem, config)["SHARED_BYTES"]
        more = asked - limits.shared_bytes
        return f"the block's tiles exceed the shared memory by {more:,} bytes: {asked:,} of {limits.shared_bytes:,}"
    return f"{rejection.constraint.because} ({rejection.values})"


def why(it: Explanation) -> str:
    """One sentence: what limits the kernel or lets it run, the most important first."""
    return "; ".join([*_masked(it), *_spilled(it), *_idle(it), *_waiting(it), *_reading(it), *_bound(it)])


def against(it: Explanation, other: Explanation) -> str:
    """What the machine code does less, or more, than `other`'s: reads of shared memory, and registers."""
    parts = []
    ours, theirs = shared_reads(it), shared_reads(other)
    if ours and theirs and abs(theirs / ours - 1) > SAME:
        parts.append(
            f"{number(max(ours, theirs) / min(ours, theirs))}x {'fewer' if ours < theirs else 'more'} shared reads"
        )
    if it.compiled is not None and other.compiled is not None:
        more = it.compiled.registers - other.compiled.registers
        parts.append(
            f"{plural(abs(more), 'register')} {'more' if more > 0 else 'fewer'}" if more else "as many registers"
        )
    return " and ".join(parts)


def shared_reads(it: Explanation) -> float:
    """Shared-memory reads per FMA of the main loop; 0 if not known."""
    loop = it.main_loop
    return sum(map(loop.per_fma, SHARED_READS)) if loop is not None and loop.fmas else 0.0


def on_tensor_cores(it: Explanation) -> bool:
    """Whether a tensor-core instruction multiplies, such as HMMA."""
    return it.main_loop is not None and it.main_loop.fma.endswith("MMA")


def accumulators(it: Explanation) -> int:
    """Elements of C per thread in registers."""
    thread = it.tiles[-1]
    return thread.rows * thread.cols


def registers_allowed(threads: int) -> int:
    """Registers that a thread may have if one block of `threads` is to fit an SM."""
    return min(MAX_REGISTERS, registers_to_launch(threads))


def resident_warps(it: Explanation, device: DeviceSpec, blocks_per_sm: int) -> int:
    """Warps that an SM of `device` holds at once: as many as fit, or as the grid has for it."""
    threads = it.kernel.source.launch.threads
    grid = it.kernel.source.launch.blocks(it.case)
    return min(blocks_per_sm, -(-grid // device.sms)) * -(-threads // WARP)


def _masked(it: Explanation) -> Iterator[str]:
    threads = it.kernel.source.launch.threads
    idle = -threads % WARP
    if idle * 2 == WARP and threads < WARP:
        yield f"half a warp is masked: {threads} threads a block"
    elif idle:
        yield f"{idle} of the last warp's {WARP} lanes are masked: {threads} threads a block"


def _spilled(it: Explanation) -> Iterator[str]:
    if it.compiled is None or not it.compiled.spill_bytes:
        return
    threads, held = it.kernel.source.launch.threads, accumulators(it)
    allowed = registers_allowed(threads)
    spilled = f"{it.compiled.spill_bytes:,} bytes spilled{_spill_traffic(it)}"
    if held > MAX_REGISTERS:
        yield f"{held} accumulators exceed {MAX_REGISTERS} registers: {spilled}"
    elif allowed < MAX_REGISTERS:
        yield f"blocks of {threads:,} threads leave {allowed} registers a thread for {held} accumulators: {spilled}"
    else:
        yield f"{held} accumulators, fragments and copies under way exceed {MAX_REGISTERS} registers: {spilled}"


def _spill_traffic(it: Explanation) -> str:
    per_fma = spill_accesses(it)
    if per_fma is None:
        return ""
    return f", {number(per_fma)} accesses to local memory per FMA" if per_fma else ", none of them in the main loop"


def spill_accesses(it: Explanation) -> float | None:
    """Local-memory accesses per FMA of the main loop; None if it was not disassembled."""
    if it.main_loop is None or not it.main_loop.fmas:
        return None
    return it.main_loop.per_fma("LDL") + it.main_loop.per_fma("STL")


def _idle(it: Explanation) -> Iterator[str]:
    blocks, sms = it.kernel.source.launch.blocks(it.case), it.device.sms
    if blocks < sms:
        yield f"{plural(blocks, 'block')} for {sms} SMs: {sms - blocks} of them idle"


def _waiting(it: Explanation) -> Iterator[str]:
    fit, blocks = it.prediction.occupancy, it.kernel.source.launch.blocks(it.case)
    warps = resident_warps(it, it.device, fit.blocks)
    exposed = warps <= FEW_WARPS and not on_tensor_cores(it)
    few = ", so few that a thread's own FMAs must hide how long a read takes" if exposed else ""
    if warps < fit.warps:
        share = -(-blocks // it.device.sms)
        room = f"{plural(share, 'block')} for an SM where {fit.blocks} fit"
        yield f"the grid has {room}: {plural(warps, 'warp')} an SM{few}"
    else:
        room = f"{plural(fit.blocks, 'block')} an SM, {plural(warps, 'warp')}"
        yield f"{room}, as many as {LIMITERS[fit.limiter]}{few}"


def _reading(it: Explanation) -> Iterator[str]:
    loop = it.main_loop
    if loop is None or not loop.fmas:
        return
    name = loop.fma if on_tensor_cores(it) else "FMA"
    shared, useful = shared_reads(it), f"{loop.share(loop.fma):.0%} of the main loop are {name}s"
    if not it.traffic.fmas_per_shared_read and it.traffic.shared_bytes:
        yield f"tensor cores read shared memory themselves, {useful}"
        return
    if not shared:
        yield f"{number(loop.per_fma('LDG'))} global reads per {name} and none from shared memory, {useful}"
        return
    reads = "read" if shared == 1 else "reads"
    written = 1 / it.traffic.fmas_per_shared_read
    merged = (
        f" (the source has {number(written)}: the compiler joins neighbours)" if shared < written * (1 - SAME) else ""
    )
    yield f"{number(shared)} shared {reads} per {name}{merged}, {useful}"
    yield f"{number(it.traffic.intensity)} FLOP for each byte that a block fetches"


def _bound(it: Explanation) -> Iterator[str]:
    """The bound by the model, which does not know of spills."""
    if not spill_accesses(it):
        yield f"the model's bound: {bound_in_words(it.plan, it.prediction.bound)}"


def number(value: float) -> str:
    """Three significant digits: 2, 0.0625, 0.746."""
    return f"{value:.3g}"
