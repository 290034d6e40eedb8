"""`gemmgen selfcheck`: tests whether the verifier finds what it must, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from gemmgen.cli.clustered import workers_of
from gemmgen.cli.options import cluster_option, device_option, json_option, seed_option
from gemmgen.cli.output import emit
from gemmgen.cli.progress import counter
from gemmgen.exports.json_records import failure_document, verdict_document
from gemmgen.proof.bugs import Bug
from gemmgen.proof.edits import Edit
from gemmgen.proof.report import killed, show_selfcheck
from gemmgen.proof.selfcheck import (
    BUG_EXAMPLES,
    CORRECT_KERNELS,
    KERNEL_EXAMPLES,
    Alarms,
    BugOutcome,
    EditOutcome,
    MutantOutcome,
    SelfCheck,
    check_kernels,
    chosen,
    correct_kernels,
    draw_mutants,
    try_bugs,
    try_edits,
    try_mutants,
)
from gemmgen.render.naming import full_name_of
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.target import DeviceChoice, Target, open_target
from gemmgen.support.errors import require
from gemmgen.support.files import Store
from gemmgen.verification.parallel import Lanes
from gemmgen.verification.sanitizers.tool import TOOLS, Tool
from gemmgen.verification.with_sanitizers import require_sanitizer

FAILED = 1


@click.command()
@device_option
@cluster_option
@click.option(
    "--examples",
    type=click.IntRange(1),
    default=BUG_EXAMPLES,
    show_default=True,
    help="Situations to try for each bug, at most.",
)
@click.option(
    "--kernels",
    type=click.IntRange(0),
    help=f"Correct kernels that must pass, with {KERNEL_EXAMPLES} situations each.  "
    f"[default: {CORRECT_KERNELS}; 0 with --only]",
)
@click.option(
    "--mutants",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random mistakes in the same kernels: those that survive are listed.",
)
@click.option(
    "--only",
    metavar="TEXT",
    default="",
    help="Bugs and right edits with TEXT in their name, category, kernel or skeleton.",
)
@click.option(
    "--catalogue/--no-catalogue",
    default=True,
    help="Whether bugs and right edits of the catalogue are tried.  [default: they are]",
)
@click.option("--sanitize", is_flag=True, help="On a GPU, also run each bug under compute-sanitizer's four tools.")
@seed_option
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Kernels verified at a time in the emulator.  [default: one a core]",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    device: DeviceChoice,
    cluster: str | None,
    examples: int,
    kernels: int | None,
    mutants: int,
    only: str,
    catalogue: bool,
    sanitize: bool,
    seed: int,
    processes: int | None,
    as_json: bool,
) -> None:
    """Check the checker: seeded bugs must be found, correct kernels and right edits of them must pass.

    Each bug of a catalogue is planted in a rendered kernel, by an edit of its text or of its launch, and the kernel is
    verified. It must fail, with the diagnosis that the catalogue expects. Then right edits, of the kinds that people
    make while optimising, and correct kernels, drawn at random from the space, are verified: none may fail. With
    --mutants, random small mistakes are made in those kernels too: a wrong operator, constant, name, type or order, or
    a missing statement. A survivor is harmless if its machine code is that of the original; the others are listed, for
    a person to look at.

    All of it takes about half an hour on two cores, as estimated from a sample.

    On a GPU it is enough that a bug is found, as diagnoses are those of the emulator. A bug that survives there (a race
    that its schedule hides, say) is tried in the emulator, and listed as one that only the emulator finds.

    Exits with 1 if a bug or a mutant survives, a bug is diagnosed wrongly, or a correct kernel is rejected.
    """
    kernels = (0 if only else CORRECT_KERNELS) if kernels is None else kernels
    bugs, edits = chosen(only) if catalogue else ((), ())
    require(catalogue or not only, "--only chooses from the catalogue, which --no-catalogue leaves out")
    require(cluster is None or processes is None, "--processes counts emulators here, and --cluster has workers")
    require(cluster is None or not sanitize, "--sanitize watches kernels on the GPU here: leave out --cluster")
    if sanitize:
        require(device != "emulator", "--sanitize watches kernels on a GPU, not in the emulator")
        require_sanitizer()
    start = time.monotonic()
    with _lanes(device, cluster, processes) as (lanes, executor):
        outcomes = _plant(lanes, bugs, examples, seed, TOOLS if sanitize else ())
        passed = _edit_right(lanes, edits, seed)
        alarms = _check(lanes, kernels, seed)
        tried = _mutate(lanes, mutants, examples, seed)
    seconds = time.monotonic() - start
    result = SelfCheck(executor, seed, outcomes, passed, kernels, alarms, tried, seconds)
    emit(as_json, lambda: document(result), lambda console: show_selfcheck(console, result))
    if not result.passed:
        ctx.exit(FAILED)


@contextmanager
def _lanes(device: DeviceChoice, where: str | None, processes: int | None) -> Iterator[tuple[Lanes, str]]:
    """Yield (the lanes that verify kernels, the name of the executor)."""
    store = Store()
    if where is None:
        target = open_target(device, "auto", store)
        with target.executor as executor:
            yield Lanes(target, store, processes), executor.name
        return
    with workers_of(where, device) as (workers, name, card), EmulatorExecutor(store) as emulator:
        here = Target(emulator, card.arch.name, card)
        yield Lanes(here, store, workers=workers), name


def _plant(
    lanes: Lanes, bugs: Sequence[Bug], examples: int, seed: int, tools: tuple[Tool, ...]
) -> tuple[BugOutcome, ...]:
    """Plant the bugs, and return their outcomes."""
    with counter("plant bugs", len(bugs)) as step:
        return try_bugs(lanes, bugs, examples=examples, seed=seed, tools=tools, on_bug=step)


def _edit_right(lanes: Lanes, edits: Sequence[Edit], seed: int) -> tuple[EditOutcome, ...]:
    """Try the right edits, and return their outcomes."""
    with counter("try right edits", len(edits)) as step:
        return try_edits(lanes, edits, seed=seed, on_edit=step)


def _check(lanes: Lanes, kernels: int, seed: int) -> Alarms:
    """Verify correct kernels, and return those that are rejected."""
    with counter("verify correct kernels", kernels) as step:
        sources = list(correct_kernels(kernels, seed, lanes.target.spec.arch.limits))
        return check_kernels(lanes, sources, seed=seed, on_kernel=step)


def _mutate(lanes: Lanes, mutants: int, examples: int, seed: int) -> tuple[MutantOutcome, ...]:
    """Try the mutants, and return their outcomes."""
    with counter("try mutants", mutants) as step:
        drawn = draw_mutants(mutants, seed, lanes.target.spec.arch.limits)
        return try_mutants(lanes, drawn, examples=examples, seed=seed, on_mutant=step)


def document(result: SelfCheck) -> dict[str, Any]:
    """The result as JSON-ready data."""
    return {
        "passed": result.passed,
        "executor": result.executor,
        "seed": result.seed,
        "seconds": round(result.seconds, 1),
        "bugs": [_outcome(outcome) for outcome in result.outcomes],
        "killed": killed(result),
        "edits": [_edit(outcome) for outcome in result.edits],
        "kernels": result.kernels,
        "false_alarms": [
            {"name": full_name_of(source), "verification": verdict_document(verdict)}
            for source, verdict in result.false_alarms
        ],
        "mutants": [_mutant(outcome) for outcome in result.mutants],
    }


def _edit(outcome: EditOutcome) -> dict[str, Any]:
    return {
        "edit": outcome.edit.name,
        "kernel": full_name_of(outcome.source),
        "passed": outcome.verdict.passed,
        "judged": outcome.judged,
        "trouble": outcome.trouble,
        "failure": failure_document(outcome.verdict.failure),
    }


def _mutant(outcome: MutantOutcome) -> dict[str, Any]:
    mutant, verdict = outcome.mutant, outcome.verdict
    return {
        "operator": mutant.operator,
        "kernel": full_name_of(mutant.source),
        "line": mutant.line,
        "before": mutant.before,
        "after": mutant.after,
        "compiled": outcome.counts,
        "judged": outcome.judged,
        "killed": outcome.killed,
        "harmless": outcome.harmless,
        "found_after": verdict.found_after,
        "failure": failure_document(verdict.failure),
    }


def _outcome(outcome: BugOutcome) -> dict[str, Any]:
    bug, verdict = outcome.bug, outcome.verdict
    return {
        "bug": bug.name,
        "breaks": bug.breaks,
        "kernel": full_name_of(outcome.source),
        "skeleton": bug.subject.skeleton,
        "old": bug.old,
        "new": bug.new,
        "launch": None if bug.launch is None else bug.launch.document,
        "found": outcome.found,
        "sanitizers": list(outcome.sanitizers),
        "only_emulated": outcome.only_emulated,
        "found_after": verdict.found_after,
        "trouble": outcome.trouble,
        "situation": None if verdict.situation is None else str(verdict.situation),
        "failure": failure_document(verdict.failure),
    }
