"""`gemmgen study`: compares series of kernels that each teach something."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from gemmgen.cli.options import (
    ProblemOptions,
    Sectioned,
    Shape,
    device_option,
    json_option,
    problem_options,
)
from gemmgen.cli.output import FAILED, emit, stderr
from gemmgen.cli.progress import counter, watch
from gemmgen.cli.tune import BUDGET
from gemmgen.exports.writing import require_writable
from gemmgen.families import DEFAULT_FAMILY, FAMILIES
from gemmgen.lab.api import check_model as run_check
from gemmgen.lab.api import study as run
from gemmgen.lab.prints.arithmetic import arithmetic_document, show_arithmetic
from gemmgen.lab.prints.model import show_check, write_check
from gemmgen.lab.prints.study import Written, show_study, write_study
from gemmgen.lab.prints.tuners import show_contests, write_contests
from gemmgen.lab.shapes import GROUPS
from gemmgen.lab.study import STUDIES, Study
from gemmgen.lab.study.model_times import PER_PROBLEM
from gemmgen.lab.study.modelcheck import check_document
from gemmgen.lab.study.study_json import study_document
from gemmgen.lab.study.times import TIMES
from gemmgen.lab.tuners import RECORDED, SEEDS, contest, load_recorded, require_kernel_tuner, tuners_document
from gemmgen.problem.device import DEVICES
from gemmgen.problem.sizes import parse_shape
from gemmgen.run.target import DeviceChoice, open_target
from gemmgen.support.files import Store
from gemmgen.verification.tensor_core_recordings import record, recording_provenance

DEVICE = (
    f"The GPU here (auto, gpu), the emulator, or a known card: {', '.join(DEVICES)}, or sm_NN. "
    "A card that is not at hand is predicted."
)
OUT = "Folder for the table (.md), the plot (.svg, .png) and the record (.json)."


@click.group()
def command() -> None:
    """Compare kernels that differ in one idea or one number: verified, explained and timed side by side.

    `model` compares the model's order of kernels with that of their measured times; `tuners` compares our search with
    others, on recorded times.
    """


def _files(written: Written) -> list[str]:
    if written.no_plot is not None:
        stderr().print(f"no plot: {written.no_plot}", soft_wrap=True)
    return [str(path) for path in written.paths]


def _subcommand(study: Study) -> Callable[..., None]:
    @click.argument("shape", metavar="[SHAPE]", type=parse_shape, default=study.shape)
    @partial(problem_options, dtype=study.dtype)
    @click.option("--device", default="auto", show_default=True, help=DEVICE)
    @click.option("--out", type=click.Path(path_type=Path), help=OUT)
    @json_option
    @click.pass_obj
    def series(
        words: list[str],
        shape: Shape,
        options: ProblemOptions,
        device: str,
        out: Path | None,
        as_json: bool,
        budget: int | None = None,
    ) -> None:
        line = shlex.join(["gemmgen", *words])
        if out is not None:
            require_writable(out)
        with watch() as progress:
            result = run(
                study.name, options.problem(shape, study.dtype), device=device, budget=budget, progress=progress
            )
        files = _files(Written() if out is None else write_study(result, line, out))
        emit(
            as_json,
            lambda: {**study_document(result, line), "files": files},
            lambda console: show_study(console, result, files),
        )

    return series


for _study in STUDIES.values():
    _series = _subcommand(_study)
    if any(point.maker == "search" for point in _study.points):
        _help = f"For the tuned kernel. {BUDGET}"
        _series = click.option("--budget", type=click.IntRange(1), help=_help)(_series)
    _series.__doc__ = f"""{_study.question} [SHAPE: {_study.shape}, {_study.dtype.label}]

    {sum(point.maker != "cuBLASLt" for point in _study.points)} kernels, each verified, then timed in turns on a GPU, or
    predicted. What cannot be compiled or launched is a row with its reason.
    """
    command.command(_study.name, cls=Sectioned)(_series)


@command.command("model")
@click.option(
    "--family",
    type=click.Choice([*FAMILIES]),
    help=f"Whose times on an H200, which come with gemmgen ({', '.join(TIMES)}).  [default: {DEFAULT_FAMILY}]  Or the "
    "one family to measure of a group.  [default: as tune]",
)
@click.option(
    "--group",
    "groups",
    type=click.Choice([*GROUPS]),
    multiple=True,
    help="Measure this group of the suite, in place of a file's problems; repeatable.",
)
@click.option("--shapes", type=click.IntRange(1), help="Problems of each group to measure, drawn.  [default: all]")
@click.option(
    "--data", type=click.Path(path_type=Path, dir_okay=False), help="File of measured times instead of those."
)
@click.option("--measure", is_flag=True, help="Measure its problems anew on the GPU here, and rewrite it, first.")
@click.option(
    "--budget",
    type=click.IntRange(1),
    help=f"Configs of each problem to measure.  [default: {PER_PROBLEM}]",
)
@click.option(
    "--seed", type=click.IntRange(0), help="Of the configs, and the problems of a group, that are drawn.  [default: 0]"
)
@click.option("--out", type=click.Path(path_type=Path), help=OUT)
@json_option
@click.pass_obj
def model(
    words: list[str],
    family: str | None,
    groups: tuple[str, ...],
    shapes: int | None,
    data: Path | None,
    measure: bool,
    budget: int | None,
    seed: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """How well does the model order configs? Predictions against measured times, kept as a file: no GPU needed.

    For each problem it shows Spearman's rank correlation, how many times are within the model's error, and the place of
    the fastest in the model's order.
    """
    line = shlex.join(["gemmgen", *words])
    if not measure and (budget, seed, shapes) != (None, None, None):
        raise click.UsageError("--budget, --seed and --shapes say what --measure times, which is missing")
    if family and data and not groups:
        raise click.UsageError("--family names times that come with gemmgen, --data a file of others: one of the two")
    path = data or TIMES.get(family or DEFAULT_FAMILY)
    for folder in filter(None, (out, path.parent if measure and path else None)):  # measuring takes minutes
        require_writable(folder)
    with watch() as progress:
        check = run_check(
            data,
            family=family,
            groups=groups,
            shapes=shapes,
            measure=measure,
            budget=budget,
            seed=seed or 0,
            command=line,
            progress=progress,
        )
    files = _files(Written() if out is None else write_check(check, line, out))
    emit(
        as_json,
        lambda: {**check_document(check), "command": line, "files": files},
        lambda console: show_check(console, check, files),
    )


@command.command("tuners")
@click.option(
    "--data",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="File of times of many configs instead of those that come with gemmgen; may be repeated.",
)
@click.option("--seeds", type=click.IntRange(1), default=SEEDS, show_default=True, help="Searches of each strategy.")
@click.option("--out", type=click.Path(path_type=Path), help=OUT)
@json_option
@click.pass_obj
def tuners(words: list[str], data: tuple[Path, ...], seeds: int, out: Path | None, as_json: bool) -> None:
    """How many runs does a search need? Ours and Kernel Tuner's strategies, replayed on recorded times: no GPU needed.

    For each space it shows the least budget with which half of a strategy's searches find a kernel within 2% of the
    fastest. Needs Kernel Tuner: pip install kernel-tuner.
    """
    line = shlex.join(["gemmgen", *words])
    if out is not None:
        require_writable(out)
    require_kernel_tuner()
    spaces = load_recorded(data or RECORDED)
    with counter("search", len(spaces)) as on_space:
        contests = []
        for space in spaces:
            contests.append(contest(space, seeds))
            on_space()
    files = _files(Written() if out is None else write_contests(contests, line, out))
    emit(
        as_json,
        lambda: {**tuners_document(contests), "command": line, "files": files},
        lambda console: show_contests(console, contests, files),
    )


@command.command("arithmetic")
@device_option
@click.option("--arch", default="auto", show_default=True, help="sm_NN whose instructions are tried.")
@click.option("--only", metavar="TEXT", default="", help="Instructions with TEXT in their name.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File (.npz) for what was computed.")
@json_option
@click.pass_context
def arithmetic(ctx: click.Context, device: DeviceChoice, arch: str, only: str, out: Path | None, as_json: bool) -> None:
    """What do tensor cores compute? Compare each instruction's bits, on random and awkward numbers, with the model's.

    Exits with 1 if some differ.
    """
    line = shlex.join(["gemmgen", *ctx.obj])
    if out is not None:
        require_writable(out.parent)
    target = open_target(device, arch, Store())
    with target.executor as executor:
        recording = record(executor, target.arch, recording_provenance(executor, line), only)
    if out is not None:
        recording.save(out)
    agreements = list(recording.against_model())
    emit(
        as_json,
        lambda: arithmetic_document(recording, agreements, out),
        lambda console: show_arithmetic(console, recording, agreements, out),
    )
    if recording.failures or any(one.differing for one in agreements):
        ctx.exit(FAILED)
