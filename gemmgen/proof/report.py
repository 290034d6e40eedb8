"""The kill table: the outcome of every seeded bug, and the correct kernels that were rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gemmgen.cli.reports.words import bad, good, show_table, table
from gemmgen.proof.selfcheck import BugOutcome, EditOutcome, MutantOutcome, SelfCheck
from gemmgen.render.naming import full_name_of
from gemmgen.support.words import NONE, plural
from gemmgen.verification.sanitizers.tool import TOOLS

REASON = 70  # characters of a diagnosis that a row shows


def show_selfcheck(console: Console, result: SelfCheck) -> None:
    """Print a row per bug, the false alarms, and the totals."""
    if result.outcomes:
        _show_kills(console, result)
    for source, verdict in result.false_alarms:
        failure = verdict.failure.reason if verdict.failure else NONE
        console.print(
            bad("false alarm"), f"{full_name_of(source)}: {verdict.situation}: {failure}", sep="  ", soft_wrap=True
        )
    _show_edits(console, result.edits)
    if result.executor == "gpu":
        _show_who_finds(console, result)
    if result.mutants:
        _show_mutants(console, result.mutants)
    for number, outcome in enumerate(result.outcomes, 1):  # the table above is long
        if outcome.trouble is not None:
            missed = f"#{number} {outcome.bug.name} ({outcome.bug.subject}): {outcome.trouble}"
            console.print(bad("missed"), missed, sep="  ", soft_wrap=True)
    alarms = len(result.false_alarms) + sum(outcome.trouble is not None for outcome in result.edits)
    mark = good("PASS") if result.passed else bad("FAIL")
    diagnosed = "" if result.executor == "gpu" else " and diagnosed"
    console.print(
        mark,
        f"{killed(result)} of {plural(len(result.outcomes), 'bug')} found{diagnosed}, "
        f"{plural(alarms, 'false alarm')} over {plural(result.kernels, 'correct kernel')} and "
        f"{plural(len(result.edits), 'right edit')}, "
        f"on the {result.executor}, seed {result.seed}, {result.seconds:.0f} s",
        sep="  ",
        soft_wrap=True,
    )


def _show_edits(console: Console, outcomes: Sequence[EditOutcome]) -> None:
    """Print the edits that are refused, and those that the executor cannot run."""
    for outcome in outcomes:
        edit = f"right edit {outcome.edit.name!r} ({outcome.edit.subject})"
        if outcome.trouble is not None:
            console.print(bad("false alarm"), f"{edit}: {outcome.trouble}", sep="  ", soft_wrap=True)
        elif not outcome.judged and outcome.verdict.failure is not None:
            console.print(f"not judged  {edit}: {outcome.verdict.failure.reason}", soft_wrap=True)


def _show_mutants(console: Console, outcomes: Sequence[MutantOutcome]) -> None:
    """Print the survivors, one by one, and the totals."""
    for outcome in outcomes:
        if outcome.survived:
            mutant = f"{full_name_of(outcome.mutant.source)}: {outcome.mutant}"
            console.print(bad("survivor"), mutant, sep="  ", soft_wrap=True)
    unjudged = [outcome for outcome in outcomes if outcome.counts and not outcome.judged]
    for outcome in unjudged:
        mutant = f"{full_name_of(outcome.mutant.source)}: {outcome.mutant}: {outcome.verdict.failure}"
        console.print(f"not judged  {mutant}", soft_wrap=True)
    tried = [outcome for outcome in outcomes if outcome.counts]
    killed = sum(outcome.killed for outcome in tried)
    harmless = Counter(outcome.harmless for outcome in tried if outcome.harmless is not None)
    survivors = sum(outcome.survived for outcome in tried)
    console.print(
        f"{plural(len(tried), 'mutant')} that {'compiles' if len(tried) == 1 else 'compile'}, of {len(outcomes)}: "
        f"{killed} killed, {sum(harmless.values())} harmless, {plural(survivors, 'survivor')}, "
        f"{len(unjudged)} not judged"
    )
    for reason, count in harmless.most_common():
        console.print(f"  {count:>4} harmless: {reason}")
    console.print()


def killed(result: SelfCheck) -> int:
    """Bugs that were found with the right diagnosis."""
    return sum(outcome.trouble is None for outcome in result.outcomes)


def _show_who_finds(console: Console, result: SelfCheck) -> None:
    """Print what a GPU finds of the bugs, and what it does not."""
    runs = sum(outcome.verdict.found_after is not None for outcome in result.outcomes)
    console.print(f"found on the GPU: {runs} by what its runs compute or break", soft_wrap=True)
    for tool in TOOLS:
        found = [outcome for outcome in result.outcomes if tool in outcome.sanitizers]
        alone = sum(outcome.verdict.found_after is None for outcome in found)
        if found:
            console.print(f"  {tool}: {len(found)}, of which {alone} show in no run", soft_wrap=True)
    emulated = [f"{outcome.bug.name} ({outcome.bug.subject})" for outcome in result.outcomes if outcome.only_emulated]
    console.print(f"only the emulator finds: {len(emulated)}", soft_wrap=True)
    for name in emulated:
        console.print(f"  {name}", soft_wrap=True)


def _show_kills(console: Console, result: SelfCheck) -> None:
    made = table("#", "<bug", "<breaks", "<kernel", "<skeleton", "<found", "after", "<situation", "<diagnosis")
    for number, outcome in enumerate(result.outcomes, 1):
        bug, verdict = outcome.bug, outcome.verdict
        made.add_row(
            str(number),
            bug.name,
            bug.breaks,
            bug.subject.name,
            bug.subject.skeleton,
            _found(outcome),
            NONE if verdict.found_after is None else str(verdict.found_after),
            NONE if verdict.situation is None else str(verdict.situation),
            _diagnosis(outcome),
        )
    show_table(console, made)
    console.print(
        "after: situations until the first that fails; it is shrunk where its diagnosis is not the one expected\n"
    )


def _found(outcome: BugOutcome) -> str | Text:
    if outcome.only_emulated:
        return "emulator"
    runs = ("yes",) if outcome.verdict.found_after is not None else ()
    return ", ".join((*runs, *outcome.sanitizers)) or bad("no")


def _diagnosis(outcome: BugOutcome) -> str | Text:
    verdict = outcome.emulated if outcome.only_emulated and outcome.emulated else outcome.verdict
    failure = verdict.failure
    said = "" if failure is None else f"{failure.kind}: {_shortened(failure.reason)}"
    if outcome.trouble is None:
        return said
    return bad(outcome.trouble).append(f" {said}" if said else "", style="not bold default")


def _shortened(reason: str) -> str:
    return reason if len(reason) <= REASON else f"{reason[: REASON - 3]}..."
