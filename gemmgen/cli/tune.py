"""`gemmgen tune`: from shapes to verified, chosen kernels."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from gemmgen.api.kernels import tune as tune_problem
from gemmgen.api.remote import TuneJob, tune_on
from gemmgen.cli.clustered import cluster_at
from gemmgen.cli.options import (
    FAMILY,
    ProblemOptions,
    Sectioned,
    Shape,
    arch_option,
    as_option,
    cluster_option,
    device_option,
    json_option,
    out_option,
    out_words,
    problem_options,
    seed_option,
    words_argument,
)
from gemmgen.cli.output import emit
from gemmgen.cli.progress import counter, watch
from gemmgen.cli.reports.tune import show_tuning
from gemmgen.cli.reports.words import show_written
from gemmgen.exports.json_records import tune_document
from gemmgen.families import SEARCHED
from gemmgen.problem.gemm import Problem
from gemmgen.run.target import DeviceChoice
from gemmgen.search.result import TuneResult
from gemmgen.search.tuner import DEFAULT_BUDGET, TILED, TILED_BUDGET
from gemmgen.support.errors import require

BUDGET = (
    f"Candidates to try.  [default: {DEFAULT_BUDGET['gpu']} on a GPU, {TILED_BUDGET} where "
    f"{', '.join(family.name for family in TILED)} promise most, {DEFAULT_BUDGET['emulator']} in the emulator]"
)


@click.command(cls=Sectioned)
@words_argument("shapes", "SHAPE...")
@problem_options
@click.option(
    "--family",
    type=FAMILY,
    help=f"The one kernel family to search.  [default: those of {', '.join(family.name for family in SEARCHED)} that "
    "suit the shape; naive where none does]",
)
@arch_option
@device_option
@click.option("--budget", type=click.IntRange(1), help=BUDGET)
@seed_option
@as_option
@out_option("Folder for the winner's NAME.cu and NAME.json.")
@cluster_option
@json_option
@click.pass_obj
def command(
    words: list[str],
    shapes: Sequence[Shape],
    options: ProblemOptions,
    family: str | None,
    arch: str,
    device: DeviceChoice,
    budget: int | None,
    seed: int,
    own_name: str | None,
    out: Path,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Find the fastest correct kernel for each SHAPE and write it.

    Kernel families that suit the shape share the search. Configs that break a constraint are rejected, the rest ranked
    by a model; the best are compiled, those that spill registers dropped, and the others timed. The fastest are timed
    again side by side, and property-tested, the fastest first, until one passes: it is the winner.

    Without a GPU nothing is timed. The model predicts the times of all candidates, and every figure says so. They are
    property-tested in the emulator on the CPU, the one with the least predicted time first, until one passes: the
    winner is verified, the others are predicted alone.

    Results are kept in a cache: after an interruption the same command resumes.

    \b
    Examples:
      gemmgen tune 512x512x512
      gemmgen tune 4096x4096x4096 '?x4096x4096' --layout rc --budget 500 --json > results.json
      gemmgen tune conv 32x56x56x64 64x3x3 --pad 1     (images, and filters: a convolution)
    """
    require(own_name is None or len(shapes) == 1, f"--as {own_name} names one kernel: {len(shapes)} shapes are given")
    problems = [options.problem(shape) for shape in shapes]
    results: list[dict[str, Any]] = []
    choices: dict[str, Any] = {"family": family, "arch": arch, "device": device, "budget": budget, "seed": seed}
    command = shlex.join(["gemmgen", *words])
    if cluster is None:
        found: Iterator[TuneResult] = (
            _tune(one, command=command, name=own_name, out=out, **choices) for one in problems
        )
    else:
        require(own_name is None, f"--as {own_name} names one kernel, and --cluster is for many: leave one out")
        found = _tuned_on(cluster, problems, TuneJob(problems[0], command=command, **choices), out)
    for result in found:
        files = [str(out / f"{result.winner.source.name}{suffix}") for suffix in (".cu", ".json")]
        if as_json:
            results.append(tune_document(result, files))
        else:
            emit(False, dict, partial(_show, result, files, out))
    if as_json:
        emit(True, lambda: {"results": results}, lambda _: None)


def _tune(problem: Problem, **choices: Any) -> TuneResult:
    with watch() as progress:
        return tune_problem(problem, progress=progress, **choices)


def _tuned_on(where: str, problems: Sequence[Problem], job: TuneJob, out: Path) -> Iterator[TuneResult]:
    with cluster_at(where, job.device) as cluster, counter("tune", len(problems)) as step:
        for result in tune_on(cluster, problems, job, out):
            step()
            yield result


def _show(result: TuneResult, files: Sequence[str], out: Path, console: Console) -> None:
    show_tuning(console, result)
    folder = out_words(out)
    name = result.winner.source.name
    commands = (
        f"gemmgen explain {name}{folder}",
        f"gemmgen verify {name}{folder} --examples 1000",
        f"gemmgen export {name}{folder} --to DIR",
    )
    show_written(console, files, commands)
