"""`gemmgen fuzz`: kernels and situations at random, until one fails or the time is up."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click
from rich.text import Text

from gemmgen.cli.clustered import Workers, workers_of
from gemmgen.cli.options import FAMILY, cluster_option, device_option, json_option, seed_option
from gemmgen.cli.output import emit, stderr
from gemmgen.cli.progress import LOG_SECONDS
from gemmgen.cli.reports.fuzz import replay_document, report_document, show_replay, show_report
from gemmgen.exports.writing import require_writable
from gemmgen.families import FAMILIES, family_named
from gemmgen.problem.device import Limits
from gemmgen.run.target import DeviceChoice, open_target
from gemmgen.support.child import Child, crew
from gemmgen.support.files import Store
from gemmgen.support.words import plural
from gemmgen.verification.fuzz import Budget, FuzzTally, Report
from gemmgen.verification.fuzz import fuzz as run
from gemmgen.verification.fuzz import replay as run_entry
from gemmgen.verification.parallel import lanes_like

FAILED = 1
OPEN = ("M", "N", "K", "batch")
DEFAULT_MINUTES = 1.0
TERMINAL_SECONDS = 0.2  # between two lines of progress; elsewhere LOG_SECONDS

OnStep = Callable[[FuzzTally, str], None]


@click.command()
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help=f"Stop after this time.  [default: {DEFAULT_MINUTES:g}, unless --examples is given]",
)
@click.option("--examples", type=click.IntRange(1), help="Stop after this many situations.")
@click.option(
    "--family", "names", type=FAMILY, multiple=True, help="Only this kernel family; may be repeated.  [default: all]"
)
@click.option(
    "--open",
    "open_sizes",
    type=click.Choice(OPEN),
    multiple=True,
    help="Only kernels that leave this size to run time; may be repeated.",
)
@device_option
@cluster_option
@seed_option
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    default="gemmgen-corpus",
    show_default=True,
    help="Folder of failures: replayed first, and where a new one is written.",
)
@click.option("--replay", type=click.Path(path_type=Path, dir_okay=False), help="Run only this file of a corpus.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    minutes: float | None,
    examples: int | None,
    names: tuple[str, ...],
    open_sizes: tuple[str, ...],
    device: DeviceChoice,
    cluster: str | None,
    seed: int,
    corpus: Path,
    replay: Path | None,
    as_json: bool,
) -> None:
    """Try kernels and situations at random, until one fails or the time is up.

    Each kernel is a random accepted point of a family's space, for a random problem: sizes fixed or at run time,
    layouts, padding, alignment. Each runs on tiny, ragged, prime, tall and flat shapes, K = 0, any alpha and beta
    (NaN and huge ones too), and data that is small integers, random, sparse, one-hot, denormal, huge, or has Inf and
    NaN in it.

    A failure is shrunk to the smallest kernel and situation that still fail, and saved in --corpus, whose files are
    replayed at the start of every run. With a GPU or without: kernels run where --device says.
    """
    families = [family_named(name) for name in names or FAMILIES]
    if minutes is None and examples is None:
        minutes = DEFAULT_MINUTES
    if replay is None:
        require_writable(corpus)
    with _lanes(device, cluster) as (lanes, executor, card):
        limits = card.arch.limits
        if replay is not None:
            _replay(ctx, lanes[0], limits, replay, as_json)
            return
        budget = Budget(None if minutes is None else 60 * minutes, examples)
        try:
            with _progress() as on_step:
                given = lanes, executor, limits, families, corpus, budget
                report = run(*given, seed=seed, open_sizes=open_sizes, on_step=on_step)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted. A failure that was found is in {corpus}; the same --seed starts from the beginning again"
            ) from None
    again = reproduction(report)
    emit(as_json, lambda: report_document(report, again), lambda console: show_report(console, report, again))
    if not report.passed:
        ctx.exit(FAILED)


@contextmanager
def _lanes(device: DeviceChoice, where: str | None) -> Iterator[Workers]:
    """Those of a cluster, or else of this machine."""
    if where is not None:
        with workers_of(where, device) as workers:
            yield workers
        return
    target = open_target(device, "auto", Store())
    with target.executor as executor, crew(lanes_like(executor)) as lanes:
        yield Workers(lanes, executor.name, target.spec)


def reproduction(report: Report) -> str | None:
    """The command that shows the failure again; None where there is none."""
    failing = [replay.path for replay in report.replays if replay.found is not None]
    path = report.path or next(iter(failing), None)
    return None if path is None else shlex.join(["gemmgen", "fuzz", "--device", report.executor, "--replay", str(path)])


def _replay(ctx: click.Context, lane: Child, limits: Limits, path: Path, as_json: bool) -> None:
    result = run_entry(lane, limits, path)
    emit(as_json, lambda: replay_document(result), lambda console: show_replay(console, result))
    if result.found is not None:
        ctx.exit(FAILED)


@contextmanager
def _progress() -> Iterator[OnStep]:
    """One live line in a terminal, a line now and then elsewhere; yields what to call at each step."""
    console = stderr()
    every = TERMINAL_SECONDS if console.is_terminal else LOG_SECONDS
    due = time.monotonic() + every
    with console.status("fuzz") if console.is_terminal else nullcontext() as live:

        def step(tally: FuzzTally, doing: str) -> None:
            nonlocal due
            if time.monotonic() < due:
                return
            due = time.monotonic() + every
            line = f"{doing}: {_line(tally)}"
            if live is None:
                console.print(line)
            else:
                live.update(Text(line))

        yield step


def _line(tally: FuzzTally) -> str:
    return (
        f"{plural(tally.situations, 'situation')}, {tally.rate:.0f} a second, {plural(tally.kernels, 'kernel')}, "
        f"{tally.seconds:.0f} s"
    )
