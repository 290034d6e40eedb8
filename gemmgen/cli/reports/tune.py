"""What `tune` did: the space, every candidate, the winner and why."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich.console import Console
from rich.table import Table

from gemmgen.cli.reports.words import accepted, bold, occupancy, show_table, table, verified
from gemmgen.judge.explain import bound_in_words
from gemmgen.kernel.model import MODEL_ERROR, representative
from gemmgen.problem.gemm import Case
from gemmgen.search.result import TIE, TuneResult
from gemmgen.search.space import Space
from gemmgen.search.trial import Trial
from gemmgen.support.words import NONE, figure, percent, plural

TIES_NAMED = 4  # by number; of more, how many
RULES_SHOWN = 3  # rejections by reason, in short; `gemmgen space` shows all


def show_tuning(console: Console, result: TuneResult) -> None:
    """The search and its candidates."""
    ran = "runs and is measured" if result.executor == "gpu" else "runs in the emulator, times are predicted"
    console.print(bold(result.problem), f"for {result.target} ({result.arch}): {ran}")
    if result.problem.open_sizes:
        console.print(f"tuned{_where(representative(result.problem))}: --typical sets it", soft_wrap=True)
    for space in result.spaces:
        console.print(space_in_short(space))
    if result.experience:
        console.print(f"Among the first: {plural(len(result.experience), 'winner')} of similar problems on this card")
    show_table(console, candidates(result))
    for line in filter(None, (*failures(result), apart(result))):
        console.print(line, soft_wrap=True)
    console.print()
    for name, value in winner(result):  # no table: that would break the kernel's name in two
        console.print(bold(f"{name:<8}"), value, sep="  ", soft_wrap=True)


def space_in_short(space: Space) -> str:
    """How many configs there are, and what most of the others break."""
    counts = accepted(len(space.accepted), space.total)
    lines = [f"{space.total:,} configs of {space.family.name}, {counts}. Most break"]
    shown = space.rejected[:RULES_SHOWN]
    width = max((len(f"{count:,}") for _, count in shown), default=0)
    lines += [f"  {count:>{width},}  {rule.expression}: {rule.because}" for rule, count in shown]
    return "\n".join(lines)


def candidates(result: TuneResult) -> Table:
    """A row a candidate, the fastest first."""
    measured = any(trial.timing for trial in result.trials)
    times = ("predicted\nus", "measured\nus", "TFLOPS") if measured else ("predicted\nus", "TFLOPS")
    resources = ("regs", "spills", "shared\nbytes", "<occupancy")
    title = plural(len(result.trials), "candidate")
    made = table("#", "<family", "<config", *resources, "verified", *times, "<result", title=title)
    for number, trial in enumerate(result.trials, 1):
        style = "bold green" if _is(trial, result.winner) else None if trial.failure is None else "dim"
        cells = (trial.source.family, str(trial.config), *_resources(trial), *_times(trial, measured))
        made.add_row(str(number), *cells, outcome(trial, result), style=style)
    return made


def outcome(trial: Trial, result: TuneResult) -> str:
    """What became of a candidate, in a word; `failures` say why."""
    if trial.failure is not None:
        return trial.failure.kind
    if _is(trial, result.winner):
        return "winner"
    if not _ties(trial, result):
        return "accepted"
    return "close" if result.winner.timing is None else "ties"


def failures(result: TuneResult) -> Iterator[str]:
    """A line for each candidate that is out; those in a row that are so for one reason share it."""
    for failure, entries in groupby(enumerate(result.trials, 1), key=lambda entry: entry[1].failure):
        if failure is not None:
            numbers = [number for number, _ in entries]
            which = f"#{numbers[0]}" if len(numbers) == 1 else f"#{numbers[0]} to #{numbers[-1]}"
            yield f"{which} {failure.kind} ({failure.source}): {failure.reason}"


def apart(result: TuneResult) -> str:
    """A word of warning where the time of one that is no finalist is below the winner's; else empty."""
    earlier = (trial for trial in result.trials if trial.timing is not None and not trial.is_finalist)
    if result.winner.timing is None or all(trial.time_us >= result.winner.time_us for trial in earlier):
        return ""
    return (
        "Finalists were timed last, together and for longer. Times of others are of earlier runs, and not to be held "
        "against theirs: a card under load for longer is slower"
    )


def winner(result: TuneResult) -> Iterator[tuple[str, str]]:
    """The winner and why it won: (what, in words)."""
    best = result.winner
    case = representative(result.problem)
    tflops = best.timing.tflops(case) if best.timing else best.prediction.tflops(case)
    yield "winner", best.source.name
    yield "time", f"{figure(best.time_us)} us, {figure(tflops)} TFLOPS{_where(case)}, {_how(best)}"
    yield "why", _why(result)
    yield "bound by", f"{bound_in_words(best.plan, best.prediction.bound)} (the model says)"
    for advisory in best.compiled.advisories if best.compiled else ():
        yield "ptxas", advisory
    if result.seconds:
        yield "took", _took(result)


def _where(case: Case) -> str:
    """The sizes that the problem leaves open, as the time has them: " at M = 4096"."""
    open_sizes = [f"{name} = {case.values[name]}" for name in case.problem.open_sizes]
    return f" at {', '.join(open_sizes)}" if open_sizes else ""


def _why(result: TuneResult) -> str:
    measured = result.winner.timing is not None
    rivals = sum(trial.timing is not None if measured else trial.failure is None for trial in result.trials)
    of = f"{plural(len(result.finalists), 'finalist')} of " if measured else ""
    among = f"least {result.winner.time_kind} time of {of}{plural(rivals, 'candidate')}, and correct"
    ties = [f"#{number}" for number, trial in enumerate(result.trials, 1) if _ties(trial, result)]
    if not ties:
        return among
    named = ", ".join(ties) if len(ties) <= TIES_NAMED else f"{len(ties)} others"
    if not measured:
        return f"{among}; {named} within {percent(MODEL_ERROR)}: closer than the model can tell, and not verified"
    tie = "ties" if len(ties) == 1 else "tie"
    return f"{among}; {named} {tie} with it, within {percent(TIE)}, not verified"


def _took(result: TuneResult) -> str:
    """The search's seconds, and those of each phase with how many candidates went through it."""
    counts = {
        "compile": sum(trial.compiled is not None for trial in result.trials),
        "measure": sum(trial.timing is not None for trial in result.trials),
        "compare": sum(trial.timing is not None for trial in result.finalists),
        "verify": sum(trial.verdict is not None for trial in result.trials),
    }
    spent = {phase: seconds for phase, seconds in result.seconds.items() if counts.get(phase, 1)}
    phases = (f"{f'{phase} {counts[phase]} in' if phase in counts else phase} {spent[phase]:.1f}" for phase in spent)
    return f"{sum(result.seconds.values()):.1f} s: {', '.join(phases)}"


def _ties(trial: Trial, result: TuneResult) -> bool:
    return any(_is(trial, tie) for tie in result.ties)


def _how(trial: Trial) -> str:
    if trial.timing is None:
        return f"predicted for {trial.prediction.device}; nothing was measured"
    return f"measured: median of {len(trial.timing.samples_us)}, spread {percent(trial.timing.spread)}"


def _resources(trial: Trial) -> tuple[str, ...]:
    compiled, prediction = trial.compiled, trial.prediction
    return (
        str(compiled.registers) if compiled else NONE,
        str(compiled.spill_bytes) if compiled else NONE,
        f"{prediction.shared_bytes:,}",
        occupancy(prediction.occupancy),
        verified(trial.verdict),
    )


def _times(trial: Trial, measured: bool) -> tuple[str, ...]:
    """Predicted time and rate; or, where the search measures, both times and the measured rate."""
    case, timing = representative(trial.source.problem), trial.timing
    predicted = figure(trial.prediction.time_us)
    if not measured:
        return predicted, figure(trial.prediction.tflops(case))
    return (predicted, figure(timing.median_us), figure(timing.tflops(case))) if timing else (predicted, NONE, NONE)


def _is(one: Trial, other: Trial) -> bool:
    """The same candidate: finalists are timed again, and so are other records."""
    return one.source.name == other.source.name
