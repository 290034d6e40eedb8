"""`gemmgen selfcheck`: does the verifier find what it must, and nothing else?"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click

from gemmgen.cli.options import device_option, json_option, seed_option
from gemmgen.cli.output import emit, stderr
from gemmgen.cli.progress import counter
from gemmgen.files import Store
from gemmgen.records import failure_document, verdict_document
from gemmgen.report.selfcheck import killed, show_selfcheck
from gemmgen.selfcheck import (
    BUG_EXAMPLES,
    CORRECT_KERNELS,
    KERNEL_EXAMPLES,
    Outcome,
    SelfCheck,
    check_kernels,
    chosen,
    try_bugs,
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
@click.option("--only", metavar="TEXT", default="", help="Bugs with TEXT in their name, category, kernel or skeleton.")
@seed_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, device: DeviceChoice, examples: int, kernels: int, only: str, seed: int, as_json: bool
) -> None:
    """Check the checker: seeded bugs must be found, correct kernels must pass.

    Each bug of a catalogue is planted in a rendered kernel, by an edit of its text or of its launch, and verified
    like any kernel. It must fail, with the diagnosis that the catalogue expects. Then correct kernels, drawn at random
    from the space, are verified: none may fail.

    Where kernels run on a GPU, bugs that only the emulator finds (a race that its schedule hides, say) survive; the
    diagnoses are the emulator's too.

    Exits with 1 where a bug survives, is diagnosed wrongly, or a correct kernel is rejected.
    """
    bugs = chosen(only)
    target = open_target(device, "auto", Store())
    limits = target.spec.arch.limits
    start = time.monotonic()
    with target.executor:
        announce(f"plant bugs: {len(bugs)}")
        with counter("plant bugs", len(bugs)) as step:
            outcomes = try_bugs(target.executor, bugs, limits, examples=examples, seed=seed, on_bug=step)
        announce(f"verify correct kernels: {kernels}")
        with counter("verify correct kernels", kernels) as step:
            alarms = check_kernels(target.executor, kernels, limits, seed=seed, on_kernel=step)
    result = SelfCheck(target.executor.name, seed, outcomes, kernels, alarms, time.monotonic() - start)
    emit(as_json, lambda: document(result), lambda console: show_selfcheck(console, result))
    if not result.passed:
        ctx.exit(FAILED)


def announce(stage: str) -> None:
    """A line for logs; a terminal has a bar."""
    console = stderr()
    if not console.is_terminal:
        console.print(stage)


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
