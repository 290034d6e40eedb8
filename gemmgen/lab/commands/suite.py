"""`gemmgen suite`: runs the performance suite, and makes the README.md that shows it."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from gemmgen.cli.clustered import card_of, cluster_at
from gemmgen.cli.options import (
    ProblemOptions,
    Sectioned,
    Shape,
    cluster_option,
    json_option,
    problem_options,
    shape_argument,
)
from gemmgen.cli.output import FAILED, emit, stderr
from gemmgen.cli.progress import rows
from gemmgen.exports.cards import GALLERY, card_folder
from gemmgen.exports.kernelfile import read_text
from gemmgen.exports.writing import require_writable
from gemmgen.lab.gallery import shown_in, write_readme
from gemmgen.lab.prints.suite import row_line, show_suite
from gemmgen.lab.runtime_m import RUNTIME_M
from gemmgen.lab.runtime_m import chosen as libraries
from gemmgen.lab.scores import Summary, scores_in, summaries
from gemmgen.lab.shapes import GROUPS, PREDICTED, select, suite
from gemmgen.lab.suite.plan import BUDGET, PREDICTED_BUDGET, ShapeOutcome, Step, SuitePlan
from gemmgen.lab.suite.steps import ELSEWHERE, HERE, missing_for, run_step
from gemmgen.pool.cluster import Cluster
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.run.card import compile_target
from gemmgen.run.target import DeviceChoice
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput, require
from gemmgen.support.files import Store

Part = tuple[int, int]


def parse_part(text: str) -> Part:
    """Parse I/N to (i, n). Raises InvalidInput."""
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    require(found is not None, f"{text[:20]!r} is no part: write I/N, for example 1/4")
    assert found is not None
    return int(found[1]), int(found[2])


@click.command(cls=Sectioned)
@click.option(
    "--group", "groups", type=click.Choice([*GROUPS, RUNTIME_M]), multiple=True, help="Only this group; repeatable."
)
@click.option("--only", multiple=True, metavar="TEXT", help="Only shapes with TEXT in them: 4096x4096, rc; repeatable.")
@click.option("--part", type=parse_part, default="1/1", metavar="I/N", help="Only every N-th shape, from the I-th on.")
@click.option("--shapes", type=click.Path(path_type=Path), metavar="FILE", help="Shapes of your own instead.")
@click.option(
    "--step", "steps", type=click.Choice([*HERE, "predict"]), multiple=True, help="Only this step; repeatable."
)
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="ARCH",
    help="Predict for sm_NN or a card's name, which need not be at hand, or emulate what it has on file; repeatable.",
)
@click.option(
    "--budget",
    type=click.IntRange(0),
    help="Candidates of each search; 0 only benches the winners on file.  "
    f"[default: {BUDGET}, {PREDICTED_BUDGET} with --arch]",
)
@click.option("--again", is_flag=True, help="Redo what is on file.")
@click.option("--energy", is_flag=True, help="Ask the card for the winners' energy, too, and cuBLASLt's: 5 s a shape.")
@click.option("--limit-seconds", type=click.FloatRange(0), help="Start nothing new after this time.")
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Kernels in the emulator at a time, at most.  [default: one a core]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=GALLERY,
    show_default=True,
    help="Folder whose <arch>, or <arch>_<card>, holds winners, records and README.md.",
)
@cluster_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    groups: Sequence[str],
    only: Sequence[str],
    part: Part,
    shapes: Path | None,
    steps: tuple[Step, ...],
    archs: Sequence[str],
    budget: int | None,
    again: bool,
    energy: bool,
    limit_seconds: float | None,
    processes: int | None,
    out: Path,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Run the performance suite and make the README.md that shows it.

    \b
    measure   tune each shape, then time the winner, and those on file, beside cuBLASLt's best; make a library of each
              product of the group "run-time M", and time it likewise at 60 values of M; needs a GPU
    predict   only with --arch: choose a kernel for each shape by the model, and verify it in the emulator
    sanitize  the winners on file under compute-sanitizer's tools; needs a GPU and a CUDA toolkit
    emulate   the kernels on file verified in the emulator, which counts what ran of them; with or without a GPU

    Without --step, all steps that this machine can do run. A winner found on the same card by the same templates,
    families and search is kept; so are verdicts, and with --budget 0 times of the same text beside today's baseline.
    Each result is written at once: the same command resumes after an interruption. A shape that fails is a row with its
    reason, and the exit code is then 1.

    --cluster measures on many cards: a worker for each takes shape after shape, and results come here. Without it, run
    one process per card, each with its own --part and CUDA_VISIBLE_DEVICES. On one card, too, several are faster than
    one: they take turns on it, and one compiles and verifies while another measures. From several machines copy the
    files into the folder of their card and run `gemmgen gallery`.

    Each card has a folder: <arch> is that of the card which stands for its architecture (the H200 for sm_90), others
    have <arch>_<card>. What other cards of the architecture have on file for a shape runs beside this card's own:
    with --budget 0 that is all that measure verifies and times.

    The group "run-time M" has no shapes but products: --only finds TEXT in their names, as bf16_rc_4096x4096, and
    --part divides them as it divides shapes. Budgets are of shapes' searches, but 0 times the libraries on file again.

    With --arch nothing is measured: records and README.md say "predicted", and a winner that was measured stays. The
    shapes are bf16 and s8 at 512x512x512 and 4096x4096x4096, where neither --group nor --shapes says others. What a
    card has on file that is not at hand is judged by --step emulate --arch CARD, and by --step sanitize --arch CARD
    on another card of its architecture.

    A FILE of shapes has one on each line, with options as `gemmgen tune` takes them: 16x16x16 --batch 4096 --layout rc.
    A # begins a comment.
    """
    words: list[str] = ctx.obj
    of_shapes = [group for group in groups if group != RUNTIME_M]
    alone = bool(groups) and not of_shapes
    if alone:
        require(shapes is None and {*steps} <= {"measure"}, f"group {RUNTIME_M!r} has no shapes, and is only measured")
        require(not budget, f"--budget {budget} is for shapes: with group {RUNTIME_M!r} leave it out, or write 0")
    if cluster is None:
        chosen = _chosen(("measure",) if alone else steps, HERE if not archs else ELSEWHERE if steps else ("predict",))
    else:
        chosen = ["predict" if archs else "measure"]
        other = f"--cluster is for measure, and with --arch for predict: leave out --step {' or '.join(steps)}"
        require({*steps} <= {*chosen}, other)
    measures = "measure" in chosen and shapes is None and (not groups or RUNTIME_M in groups)
    products = libraries(only, part) if measures else ()
    require(not alone or bool(libraries(only)), f"no product of {RUNTIME_M!r} has {' or '.join(map(repr, only))} in it")
    problems = () if alone else select(_shapes(shapes, of_shapes, "predict" in chosen), of_shapes, only, part)
    if budget is None:
        budget = PREDICTED_BUDGET if archs else BUDGET
    require(budget > 0 or not archs, "--budget 0 benches what is on file; with --arch nothing is benched")
    require_writable(out)
    deadline = None if limit_seconds is None else time.monotonic() + limit_seconds
    made_by = shlex.join(["gemmgen", *words])
    plan = SuitePlan(problems, out, made_by, budget, again, deadline, processes, energy=energy, products=products)
    device: DeviceChoice = "emulator" if archs else "gpu"
    with nullcontext() if cluster is None else cluster_at(cluster, device) as workers:
        cards = [(arch, _card(arch, workers)) for arch in archs or ("auto",)]
        plans = [replace(plan, folder=out / card_folder(*card), arch=arch) for arch, card in cards]
        ran = [_ran(one, chosen, workers) for one in plans]
    documents = [one.document() for one in ran]
    emit(as_json, lambda: {"architectures": documents} if archs else documents[0], partial(_show, ran))
    if any(outcome.state == "failed" for one in ran for outcome in one.outcomes):
        ctx.exit(FAILED)


@dataclass(frozen=True)
class Ran:
    """The result of a plan: the contents of its folder now, and the page that shows it."""

    plan: SuitePlan
    outcomes: list[ShapeOutcome]
    groups: list[Summary]
    readme: Path | None

    def document(self) -> dict[str, Any]:
        """The result as JSON-ready data."""
        return {
            "readme": None if self.readme is None else str(self.readme),
            "rows": [outcome.document() for outcome in self.outcomes],
            "groups": [asdict(summary) for summary in self.groups],
        }


def _show(ran: Sequence[Ran], console: Console) -> None:
    for one in ran:
        show_suite(console, one.plan, one.outcomes, one.groups, one.readme)


def _card(arch: str, cluster: Cluster | None) -> tuple[str, DeviceSpec]:
    """Return the architecture to compile for, and the card whose folder gets the results. Raises InvalidInput."""
    if cluster is None or arch != "auto":
        return compile_target(arch)
    card = card_of(cluster)
    return card.arch.name, card


def _ran(plan: SuitePlan, steps: Sequence[Step], cluster: Cluster | None) -> Ran:
    outcomes: list[ShapeOutcome] = []
    try:
        for step in steps:
            _run(step, plan, outcomes, cluster)
    finally:
        readme = write_readme(plan.folder)[0] if plan.folder.is_dir() else None
    return Ran(plan, outcomes, summaries(scores_in(plan.folder, shown_in(plan.folder))), readme)


def _shapes(own: Path | None, groups: Sequence[str], predicted: bool) -> Sequence[Problem]:
    """The problems among which to choose."""
    if own is not None:
        return read_shapes(own)
    return PREDICTED if predicted and not groups else suite()


def read_shapes(path: Path) -> list[Problem]:
    """Read the problems that a file lists, one per line. Raises InvalidInput with the line that is wrong."""
    places = [(f"{path}:{number}", line) for number, line in enumerate(read_text(path).splitlines(), 1)]
    problems = [_problem(words, place) for place, line in places if (words := _words(line, place))]
    require(bool(problems), f"{path} names no shape: write one on each line, for example 512x512x512")
    return problems


def _words(line: str, place: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:  # a quotation that does not end
        raise InvalidInput(f"{place}: {error}") from error


@click.command(add_help_option=False)
@shape_argument
@problem_options
def _line(shape: Shape, options: ProblemOptions) -> Problem:
    return options.problem(shape)


def _problem(words: list[str], place: str) -> Problem:
    try:
        problem: Problem = _line.main(words, prog_name=place, standalone_mode=False)
    except (click.ClickException, InvalidInput) as error:
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise InvalidInput(f"{place}: {said}") from error
    return problem


def _chosen(asked: Sequence[Step], known: Sequence[Step]) -> list[Step]:
    """The requested steps in the order of `known`, or all that this machine can do; prints which it cannot do, and
    why.

    Raises InvalidInput for an unknown step, and CandidateFailed (unavailable) for a requested step that is not
    possible, or if none is left.
    """
    for step in asked:
        how = "needs --arch" if step == "predict" else "judges what is made for the card at hand: leave out --arch"
        require(step in known, f"--step {step} {how}")
    missing = {step: missing_for(step) for step in known if not asked or step in asked}
    chosen = [step for step, reason in missing.items() if reason is None]
    for step, reason in missing.items():
        if reason is not None and (asked or not chosen):
            raise CandidateFailed(Failure("unavailable", reason, step))
        if reason is not None:
            stderr().print(f"without {step}: {reason}", soft_wrap=True)
    return chosen


def _run(step: Step, plan: SuitePlan, outcomes: list[ShapeOutcome], cluster: Cluster | None) -> None:
    searched = len(plan.problems) + len(plan.products)
    total = searched if step in ("measure", "predict") else len(plan.judged_by(step))
    with rows(total) as tell:

        def on_done(outcome: ShapeOutcome) -> None:
            outcomes.append(outcome)
            tell(row_line(outcome))

        run_step(step, plan, Store(), on_done, cluster)
