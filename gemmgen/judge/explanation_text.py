"""An explanation in words: rows and facts that the terminal and the page of a report both show."""

from __future__ import annotations

from collections.abc import Iterator

from gemmgen.judge.explain import Explanation, LoopUse, bound_in_words
from gemmgen.kernel.analysis import Traffic
from gemmgen.kernel.plan import TENSOR_OPCODES
from gemmgen.run.sass import InstructionMix
from gemmgen.support.words import NONE, figure, percent, plural, short

Facts = tuple[tuple[str, str], ...]  # names, and what there is to say

# Column titles of tables: "<" begins the title of a column with text, "<<" of one with prose.
LOOP_COLUMNS = ("<of an iteration", "machine code", "model", "<<what the model counts")
OPCODES_SHOWN = 8
PURPOSES = {
    "FFMA": "the work: a multiply and an add",
    "DFMA": "the work: a multiply and an add",
    "IMAD": "the work, and addresses: a multiply and an add",
    "IDP": "the work: four products of bytes and their sum",
    **dict.fromkeys((*TENSOR_OPCODES.values(), "HMMA"), "the work: products of fragments, by a warp"),
    **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA"), "the work: products of tiles, by a warpgroup"),
    "SYNCS": "arrive at, or wait for, an mbarrier",
    "WARPGROUP": "begin products, or wait for them",
    "LDSM": "ldmatrix: fragments from shared memory",
    "LDS": "read shared memory",
    "STS": "write shared memory",
    "LDG": "read global memory",
    "LDGSTS": "cp.async: global memory to shared memory",
    "STG": "write global memory",
    "BAR": "wait for the block",
    "LDL": "read spilled registers",
    "STL": "spill registers",
}


def tile_rows(it: Explanation) -> Iterator[tuple[str, str, str, str]]:
    """(level, rows of C, columns of C, count), from the grid down to a thread."""
    along = f"each of {it.parts} parts of " if it.parts > 1 else ""
    yield "grid", str(it.case.m), str(it.case.n), f"{plural(it.steps, 'step')} along {along}K = {it.case.k}"
    for tile in it.tiles:
        yield tile.unit, str(tile.rows), str(tile.cols), f"{plural(tile.count, tile.unit)} a {tile.above}"


def facts_of(it: Explanation) -> dict[str, Facts]:
    """The facts about traffic, roofline, resources and time."""
    return {
        "traffic": tuple(_traffic(it)),
        "roofline": tuple(_roofline(it)),
        "resources": tuple(_resources(it)),
        "time": tuple(_time(it)),
    }


def _traffic(it: Explanation) -> Iterator[tuple[str, str]]:
    k, moved = it.case.k * it.case.problem.products, it.traffic  # FMAs of an element of C
    yield "global memory", _per_fma(moved.global_bytes, k)
    if moved.shared_bytes:
        yield "shared memory", _per_fma(moved.shared_bytes, k)
        yield "FMAs per shared read", _per_read(moved)
    else:
        yield "shared memory", "none: every operand comes from global memory, through the caches"
    yield "intensity of a block", f"{short(moved.intensity)} FLOP for each byte that it reads from L2"
    if it.used < 1:
        yield (
            "of the tiles",
            f"{percent(it.used)} are elements of C: the rest lies past its edges, or is computed twice",
        )
    yield "FMAs in the main loop", f"{percent(moved.ffma_share)} of FMAs, reads and copies; addresses come on top"


def _per_read(moved: Traffic) -> str:
    if not moved.fmas_per_shared_read:
        return "no reads: the tensor cores take tiles from shared memory themselves"
    return f"{short(moved.fmas_per_shared_read)} (a vector read is one)"


def _per_fma(size: float, k: int) -> str:
    """ "0.0625 bytes of reads for each FMA, 32 for each element of C"."""
    return f"{short(size)} bytes of reads for each FMA, {short(size * k)} for each element of C"


def _roofline(it: Explanation) -> Iterator[tuple[str, str]]:
    roof = it.roofline
    yield "intensity of the problem", f"{figure(roof.intensity)} FLOP/B, each matrix moved once"
    yield "ridge of the card", f"{figure(roof.ridge)} FLOP/B: below it memory bounds, above it the {it.plan.units}"
    yield "so at most", f"{figure(roof.tflops)} TFLOPS, {roof.bound}-bound"


def _resources(it: Explanation) -> Iterator[tuple[str, str]]:
    fit, launch = it.prediction.occupancy, it.kernel.source.launch
    yield "threads a block", str(launch.threads)
    yield "registers a thread", _registers(it)
    for advisory in it.compiled.advisories if it.compiled else (it.recorded or {}).get("advisories", ()):
        yield "ptxas says", advisory
    yield "shared memory a block", f"{it.prediction.shared_bytes:,} bytes"
    yield (
        "occupancy",
        f"{fit.share:.0%}: {plural(fit.blocks, 'block')}, {plural(fit.warps, 'warp')} an SM; {fit.limiter} limit it",
    )
    which = "last" if it.prediction.waves > 1 else "only one"
    yield "waves", f"{_waves(it)}; the {which} is {percent(it.last_wave)} full"


def _waves(it: Explanation) -> str:
    launch, waves, sms = it.kernel.source.launch, figure(it.prediction.waves), it.device.sms
    blocks = launch.typical_blocks(it.case)
    if not launch.persistent:
        return f"{waves}: {plural(blocks, 'block')} over {sms} SMs x {it.prediction.occupancy.blocks}"
    resident = plural(launch.resident(blocks, sms), "block")
    how = "whose consumers take turns at them" if it.plan.work.turns > 1 else "each with one tile after the other"
    return f"{waves}: {plural(blocks, 'tile')} over {resident} of {sms} SMs, {how}"


def _registers(it: Explanation) -> str:
    if it.compiled is not None:
        return _assigned(it.compiled.registers, it.compiled.spill_bytes, it.compiled.compiler)
    if it.recorded is not None:
        return _assigned(*(it.recorded[name] for name in ("registers", "spill_bytes", "compiler")))
    why = it.compile_failure.reason if it.compile_failure else ""
    return f"{it.prediction.registers}, estimated: it was not compiled ({why})"


def _assigned(registers: int, spill_bytes: int, compiler: str) -> str:
    spills = f"{spill_bytes} bytes spilled" if spill_bytes else "no spills"
    return f"{registers}, {spills} ({compiler})"


def _time(it: Explanation) -> Iterator[tuple[str, str]]:
    measured = it.kernel.measured_time
    if measured is not None and it.kernel.record is not None:
        edited = ", before it was edited" if it.kernel.edited else ""
        text = f"{figure(measured['us'])} us, {figure(measured['tflops'])} TFLOPS on {it.kernel.record.get('device')}"
        yield "measured", text + edited
    predicted = it.prediction
    rendered = ", as gemmgen would render it" if it.kernel.edited else ""
    yield "predicted", f"{figure(predicted.time_us)} us, {figure(predicted.tflops(it.case))} TFLOPS{rendered}"
    if it.edited is not None:
        longer = f"its main loop takes {short(it.edited.cycles)}x the cycles for each FMA, by the machine code of both"
        yield "predicted, edited", f"{figure(it.edited.time_us)} us: {longer}"
    yield "expected bottleneck", bound_in_words(it.plan, predicted.bound)


def instruction_columns(mix: InstructionMix) -> tuple[str, ...]:
    """The column titles of `instruction_rows`."""
    return "<instruction", "count", "share", f"per {mix.fma}", "<<what for"


def instruction_rows(mix: InstructionMix) -> Iterator[tuple[str, ...]]:
    """The most frequent instructions of a main loop, then the rest of them together."""
    shown = list(mix.counts.items())[:OPCODES_SHOWN]
    for opcode, count in shown:
        yield opcode, str(count), percent(mix.share(opcode)), figure(mix.per_fma(opcode)), PURPOSES.get(opcode, "")
    rest = mix.total - sum(count for _, count in shown)
    if rest:
        yield "others", str(rest), percent(rest / mix.total), "", ""


def loop_rows(use: LoopUse, fma: str, units: str) -> Iterator[tuple[str, ...]]:
    """The average iteration of the loop, in which `fma` keeps `units` busy; only some iterations copy."""
    share = percent(use.model_fma_share)
    yield f"{fma} among instructions", percent(use.fma.share), share, f"{fma}, reads and copies only"
    for name, ours, theirs, note in (
        ("reads", use.wavefronts.reads, use.model_wavefronts.reads, _reads_counted(fma)),
        ("writes", use.wavefronts.writes, use.model_wavefronts.writes, "bank conflicts too"),
    ):
        yield f"shared wavefronts per {fma}, {name}", short(ours), short(theirs), note
    if use.fma.operand_cycles is not None:
        waits = short(use.fma.operand_cycles / use.fma.fmas)
        yield f"cycles per {fma} that operands add", waits, NONE, "nothing on its own: a part of issue"
    yield f"{units} busy at most", percent(use.fma.allowed), percent(use.model_fma_use), "the whole launch"


def _reads_counted(fma: str) -> str:
    return "those of the tensor cores, which are no instructions" if fma.endswith("GMMA") else "the same"
