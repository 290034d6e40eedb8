"""`gemmgen selfcheck`: does the verifier find what it must, and nothing else?"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click

from gemmgen.cli.options import device_option, json_option, seed_option
from gemmgen.cli.output import emit
from gemmgen.cli.progress import counter
from gemmgen.files import Store
from gemmgen.records import failure_document, verdict_document
from gemmgen.report.selfcheck import killed, show_selfcheck
from gemmgen.selfcheck import (
    BUG_EXAMPLES,
    CORRECT_KERNELS,
    KERNEL_EXAMPLES,
    MutantOutcome,
    Outcome,
    SelfCheck,
    check_kernels,
    chosen,
    correct_kernels,
    draw_mutants,
    try_bugs,
    try_mutants,
)
from gemmgen.target import DeviceChoice, open_target

FAILED = 1


@click.command()
@device_option
@click.option(
    "--examples",
    type=click.IntRange(1),
    default=BUG_EXAMPLES,
    show_default=True,
    help="Situations that each bug gets at most.",
)
@click.option(
    "--kernels",
    type=click.IntRange(0),
    default=CORRECT_KERNELS,
    show_default=True,
    help=f"Correct kernels that must pass, with {KERNEL_EXAMPLES} situations each.",
)
@click.option(
    "--mutants",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random mistakes in the same kernels: those that survive are listed.",
)
@click.option("--only", metavar="TEXT", default="", help="Bugs with TEXT in their name, category, kernel or skeleton.")
@seed_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    device: DeviceChoice,
    examples: int,
    kernels: int,
    mutants: int,
    only: str,
    seed: int,
    as_json: bool,
) -> None:
    """Check the checker: seeded bugs must be found, correct kernels must pass.

    Each bug of a catalogue is planted in a rendered kernel, by an edit of its text or of its launch, and verified
    like any kernel. It must fail, with the diagnosis that the catalogue expects. Then correct kernels, drawn at random
    from the space, are verified: none may fail. With --mutants, random small mistakes are made in those kernels too: a
    wrong operator, constant, name, type, order, a statement that is missing. One that survives is harmless where its
    machine code is that of the original; the others are listed, for a person to look at.

    Where kernels run on a GPU, bugs that only the emulator finds (a race that its schedule hides, say) survive; the
    diagnoses are the emulator's too.

    Exits with 1 where a bug or a mutant survives, a bug is diagnosed wrongly, or a correct kernel is rejected.
    """
    bugs = chosen(only)
    store = Store()
    target = open_target(device, "auto", store)
    limits = target.spec.arch.limits
    start = time.monotonic()
    with target.executor as executor:
        with counter("plant bugs", len(bugs)) as step:
            outcomes = try_bugs(executor, bugs, limits, examples=examples, seed=seed, on_bug=step)
        with counter("verify correct kernels", kernels) as step:
            sources = list(correct_kernels(kernels, seed, limits))
            alarms = check_kernels(executor, sources, seed=seed, on_kernel=step)
        with counter("try mutants", mutants) as step:
            drawn = draw_mutants(mutants, seed, limits)
            tried = try_mutants(executor, drawn, store, examples=examples, seed=seed, on_mutant=step)
    result = SelfCheck(executor.name, seed, outcomes, kernels, alarms, tried, time.monotonic() - start)
    emit(as_json, lambda: document(result), lambda console: show_selfcheck(console, result))
    if not result.passed:
        ctx.exit(FAILED)


def document(result: SelfCheck) -> dict[str, Any]:
    """The result as JSON-ready data."""
    return {
        "passed": result.passed,
        "executor": result.executor,
        "seed": result.seed,
        "seconds": round(result.seconds, 1),
        "bugs": [_outcome(outcome) for outcome in result.outcomes],
        "killed": killed(result),
        "kernels": result.kernels,
        "false_alarms": [
            {"name": source.name, "verification": verdict_document(verdict)} for source, verdict in result.false_alarms
        ],
        "mutants": [_mutant(outcome) for outcome in result.mutants],
    }


def _mutant(outcome: MutantOutcome) -> dict[str, Any]:
    mutant, verdict = outcome.mutant, outcome.verdict
    return {
        "operator": mutant.operator,
        "kernel": mutant.source.name,
        "line": mutant.line,
        "before": mutant.before,
        "after": mutant.after,
        "compiled": outcome.counts,
        "killed": outcome.killed,
        "harmless": outcome.harmless,
        "found_after": verdict.found_after,
        "failure": failure_document(verdict.failure),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    bug, verdict = outcome.bug, outcome.verdict
    return {
        "bug": bug.name,
        "breaks": bug.breaks,
        "kernel": outcome.source.name,
        "skeleton": bug.subject.skeleton,
        "old": bug.old,
        "new": bug.new,
        "launch": None if bug.launch is None else asdict(bug.launch),
        "found": outcome.found,
        "found_after": verdict.found_after,
        "trouble": outcome.trouble,
        "situation": None if verdict.situation is None else str(verdict.situation),
        "failure": failure_document(verdict.failure),
    }
