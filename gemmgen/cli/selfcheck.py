"""`gemmgen selfcheck`: does the verifier find what it must, and nothing else?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from gemmgen.bugs import Bug
from gemmgen.cli.options import device_option, json_option, seed_option
from gemmgen.cli.output import emit, stderr
from gemmgen.cli.progress import counter
from gemmgen.errors import require
from gemmgen.files import Store
from gemmgen.gpu.sanitizer import TOOLS, Tool
from gemmgen.records import failure_document, verdict_document
from gemmgen.report.selfcheck import killed, show_selfcheck
from gemmgen.sanitize import require_sanitizer
from gemmgen.selfcheck import (
    BUG_EXAMPLES,
    CORRECT_KERNELS,
    KERNEL_EXAMPLES,
    Alarms,
    Outcome,
    SelfCheck,
    check_kernels,
    check_kernels_on_gpu,
    chosen,
    try_bugs,
    try_bugs_on_gpu,
)
from gemmgen.target import DeviceChoice, Target, open_target

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
@click.option("--sanitize", is_flag=True, help="On a GPU, ask compute-sanitizer's four tools about each bug too.")
@seed_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    device: DeviceChoice,
    examples: int,
    kernels: int,
    only: str,
    sanitize: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Check the checker: seeded bugs must be found, correct kernels must pass.

    Each bug of a catalogue is planted in a rendered kernel, by an edit of its text or of its launch, and verified
    like any kernel. It must fail, with the diagnosis that the catalogue expects. Then correct kernels, drawn at random
    from the space, are verified: none may fail.

    On a GPU it is enough that a bug is found: the diagnoses are the emulator's. A bug that survives there (a race
    that its schedule hides, say) is tried in the emulator, and listed as one that only the emulator finds.

    Exits with 1 where a bug survives, is diagnosed wrongly, or a correct kernel is rejected.
    """
    bugs = chosen(only)
    if sanitize:
        require(device != "emulator", "--sanitize watches kernels on a GPU, not in the emulator")
        require_sanitizer()
    target = open_target(device, "auto", store := Store())
    start = time.monotonic()
    with target.executor:
        outcomes, alarms = _check(target, store, bugs, examples, kernels, seed, TOOLS if sanitize else ())
    result = SelfCheck(target.executor.name, seed, outcomes, kernels, alarms, time.monotonic() - start)
    emit(as_json, lambda: document(result), lambda console: show_selfcheck(console, result))
    if not result.passed:
        ctx.exit(FAILED)


def _check(
    target: Target,
    store: Store,
    bugs: Sequence[Bug],
    examples: int,
    kernels: int,
    seed: int,
    tools: tuple[Tool, ...],
) -> tuple[tuple[Outcome, ...], Alarms]:
    """What became of the bugs, and the correct kernels that are rejected."""
    limits = target.spec.arch.limits
    announce(f"plant bugs: {len(bugs)}")
    with counter("plant bugs", len(bugs)) as step:
        if target.gpu is None:
            outcomes = try_bugs(target.executor, bugs, limits, examples=examples, seed=seed, on_bug=step)
        else:
            outcomes = try_bugs_on_gpu(bugs, target, store, examples=examples, seed=seed, tools=tools, on_bug=step)
    announce(f"verify correct kernels: {kernels}")
    with counter("verify correct kernels", kernels) as step:
        if target.gpu is None:
            return outcomes, check_kernels(target.executor, kernels, limits, seed=seed, on_kernel=step)
        return outcomes, check_kernels_on_gpu(kernels, target, store, seed=seed, on_kernel=step)


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
        "sanitizers": list(outcome.sanitizers),
        "only_emulated": outcome.only_emulated,
        "found_after": verdict.found_after,
        "trouble": outcome.trouble,
        "situation": None if verdict.situation is None else str(verdict.situation),
        "failure": failure_document(verdict.failure),
    }
