"""Why this kernel: `Explanation` for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from gemmgen.benchmark.explain import BOUNDS, Explanation, LoopUse, TileLevel
from gemmgen.cli.reports.words import NONE, bold, facts, figure, percent, short, show_table, table
from gemmgen.kernel.analysis import Traffic
from gemmgen.kernel.plan import TENSOR_OPCODES
from gemmgen.run.sass import BANKS_KNOWN
from gemmgen.support.words import plural

OPCODES_SHOWN = 8
PURPOSES = {
    "FFMA": "the work: a multiply and an add",
    "DFMA": "the work: a multiply and an add",
    **dict.fromkeys(TENSOR_OPCODES.values(), "the work: products of fragments, by a warp"),
    "HMMA": "the work: products of fragments, by a warp",
    **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA"), "the work: products of tiles in shared memory, by a warpgroup"),
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


def show_explanation(console: Console, it: Explanation) -> None:
    """Print the whole explanation, a section a question."""
    source = it.kernel.source
    console.print(bold(source.name), soft_wrap=True)
    if it.kernel.edited:
        console.print("edited by hand since its JSON was written: tiles and predictions are those of the original")
    console.print(f"\n{it.case}\non {it.device.name} ({it.arch}); rates are those of its data sheet\n")
    show_table(console, _tiles(it))
    for title, rows in (
        ("traffic", _traffic(it)),
        ("roofline", _roofline(it)),
        ("resources", _resources(it)),
        ("time", _time(it)),
    ):
        console.print(bold(title))
        console.print(rows)
        console.print()
    _show_main_loop(console, it)


def _tiles(it: Explanation) -> Table:
    made = table("<level", "rows of C", "columns of C", "<how many", title="tiles")
    along = f"each of {it.parts} parts of " if it.parts > 1 else ""
    made.add_row("grid", str(it.case.m), str(it.case.n), f"{plural(it.steps, 'step')} along {along}K = {it.case.k}")
    for tile in it.tiles:
        made.add_row(tile.unit, str(tile.rows), str(tile.cols), _count(tile))
    return made


def _count(tile: TileLevel) -> str:
    return f"{plural(tile.count, tile.unit)} a {tile.above}"


def _traffic(it: Explanation) -> Table:
    k, moved = it.case.k, it.traffic
    made = facts()
    made.add_row("  global memory", _per_fma(moved.global_bytes, k))
    if moved.shared_bytes:
        made.add_row("  shared memory", _per_fma(moved.shared_bytes, k))
        made.add_row("  FMAs per shared read", _per_read(moved))
    else:
        made.add_row("  shared memory", "none: every operand comes from global memory, through the caches")
    made.add_row("  intensity of a block", f"{short(moved.intensity)} FLOP for each byte that it reads from L2")
    if it.used < 1:
        made.add_row(
            "  of the tiles",
            f"{percent(it.used)} are elements of C: the rest lies past its edges, or is computed twice",
        )
    made.add_row(
        "  FMAs in the main loop", f"{percent(moved.ffma_share)} of FMAs, reads and copies; addresses come on top"
    )
    return made


def _per_read(moved: Traffic) -> str:
    if not moved.fmas_per_shared_read:
        return "no reads: the tensor cores take tiles from shared memory themselves"
    return f"{short(moved.fmas_per_shared_read)} (a vector read is one)"


def _per_fma(size: float, k: int) -> str:
    """ "0.0625 bytes of reads for each FMA, 32 for each element of C"."""
    return f"{short(size)} bytes of reads for each FMA, {short(size * k)} for each element of C"


def _roofline(it: Explanation) -> Table:
    roof, made = it.roofline, facts()
    made.add_row("  intensity of the problem", f"{figure(roof.intensity)} FLOP/B, each matrix moved once")
    made.add_row("  ridge of the card", f"{figure(roof.ridge)} FLOP/B: below it memory bounds, above it the FMA units")
    made.add_row("  so at most", f"{figure(roof.tflops)} TFLOPS, {roof.bound}-bound")
    return made


def _resources(it: Explanation) -> Table:
    fit, launch, made = it.prediction.occupancy, it.kernel.source.launch, facts()
    made.add_row("  threads a block", str(launch.threads))
    made.add_row("  registers a thread", _registers(it))
    made.add_row("  shared memory a block", f"{it.prediction.shared_bytes:,} bytes")
    made.add_row(
        "  occupancy",
        f"{fit.share:.0%}: {plural(fit.blocks, 'block')}, {plural(fit.warps, 'warp')} an SM; {fit.limiter} limit it",
    )
    blocks = launch.blocks(it.case)
    waves = f"{figure(it.prediction.waves)}: {plural(blocks, 'block')} over {it.device.sms} SMs x {fit.blocks}"
    which = "last" if it.prediction.waves > 1 else "only one"
    made.add_row("  waves", f"{waves}; the {which} is {percent(it.last_wave)} full")
    return made


def _registers(it: Explanation) -> str:
    if it.compiled is None:
        why = it.compile_failure.reason if it.compile_failure else ""
        return f"{it.prediction.registers}, estimated: it did not compile ({why})"
    spills = f"{it.compiled.spill_bytes} bytes spilled" if it.compiled.spill_bytes else "no spills"
    return f"{it.compiled.registers}, {spills} ({it.compiled.compiler})"


def _time(it: Explanation) -> Table:
    made = facts()
    measured = it.kernel.measured_time
    if measured is not None and it.kernel.record is not None:
        edited = ", before it was edited" if it.kernel.edited else ""
        text = f"{figure(measured['us'])} us, {figure(measured['tflops'])} TFLOPS on {it.kernel.record.get('device')}"
        made.add_row("  measured", text + edited)
    predicted = it.prediction
    made.add_row("  predicted", f"{figure(predicted.time_us)} us, {figure(predicted.tflops(it.case))} TFLOPS")
    made.add_row("  expected bottleneck", BOUNDS[predicted.bound])
    return made


def _show_main_loop(console: Console, it: Explanation) -> None:
    if it.main_loop is None:
        reason = it.sass_failure.reason if it.sass_failure else "unknown"
        console.print(bold("main loop"), f"not disassembled: {reason}", sep="  ")
        return
    mix = it.main_loop
    made = table(
        "<instruction",
        "count",
        "share",
        f"per {mix.fma}",
        "<<what for",
        title="main loop, as compiled: each instruction once",
    )
    for opcode, count in list(mix.counts.items())[:OPCODES_SHOWN]:
        made.add_row(
            opcode, str(count), percent(mix.share(opcode)), figure(mix.per_fma(opcode)), PURPOSES.get(opcode, "")
        )
    rest = mix.total - sum(list(mix.counts.values())[:OPCODES_SHOWN])
    if rest:
        made.add_row("others", str(rest), percent(rest / mix.total), "", "")
    show_table(console, made)
    if it.loop_use is not None:
        show_table(console, _loop_use(it.loop_use, mix.fma))
        if it.loop_use.fma.operand_cycles is None:
            why = f"they were held against measurements for f32 on {BANKS_KNOWN} only"
            console.print(f"cycles that operands take are not counted: {why}", soft_wrap=True)


def _reads_counted(use: LoopUse) -> str:
    return "the same" if use.wavefronts.reads else "those of the tensor cores, which are no instructions"


def _loop_use(use: LoopUse, fma: str) -> Table:
    """The average iteration of the loop: the copies of a k tile are in some of them only."""
    made = table(
        "<of an iteration",
        "machine code",
        "model",
        "<<what the model counts",
        title="what an iteration of the main loop takes, on average",
    )
    share = percent(use.model_fma_share)
    made.add_row(f"{fma} among instructions", percent(use.fma.share), share, f"{fma}, reads and copies only")
    for name, ours, theirs, note in (
        ("reads", use.wavefronts.reads, use.model_wavefronts.reads, _reads_counted(use)),
        ("writes", use.wavefronts.writes, use.model_wavefronts.writes, "bank conflicts too"),
    ):
        made.add_row(f"shared wavefronts per {fma}, {name}", short(ours), short(theirs), note)
    if use.fma.operand_cycles is not None:
        waits = short(use.fma.operand_cycles / use.fma.fmas)
        made.add_row(f"cycles per {fma} that operands add", waits, NONE, "nothing on its own: a part of issue")
    made.add_row("FMA pipe busy at most", percent(use.fma.allowed), percent(use.model_fma_use), "the whole launch")
    return made
