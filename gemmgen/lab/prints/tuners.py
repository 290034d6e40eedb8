"""The comparison of searches for people: a table, a page with the same contents, and the files of both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from gemmgen.cli.reports.words import bold, show_table, table
from gemmgen.lab.markdown import markdown_table
from gemmgen.lab.prints.plots import draw_contests, why_no_plot
from gemmgen.lab.prints.study import Written
from gemmgen.lab.tuners import NEAR, OURS, Contest, tuners_document, tuners_of
from gemmgen.support.files import write_atomic
from gemmgen.support.words import NONE, figure, percent, plural

TITLE = f"Runs until a search has a kernel within {percent(NEAR)} of the fastest"
STEM = "study_tuners"
LEGEND = (
    "Of each tuner the least budget with which at least half of its searches are that near, and with each larger one "
    f"({NONE}: none is). {OURS}: our search, which draws nothing and knows nothing of earlier ones; the others are "
    "Kernel Tuner's strategies with its own settings. All search the same recorded configs of one family."
)


def show_contests(console: Console, contests: Sequence[Contest], files: Sequence[str] = ()) -> None:
    """Print the table with one line per tuner, what it means, and the files written."""
    made = table("<tuner", *_columns(contests), title=TITLE)
    for row in _rows(contests):
        made.add_row(*row)
    show_table(console, made)
    console.print(LEGEND, soft_wrap=True)
    if files:
        console.print(bold("\nfiles"), *files, sep="\n  ", soft_wrap=True)


def write_contests(contests: Sequence[Contest], command: str, out: Path) -> Written:
    """Write study_tuners.md, .json and, with matplotlib, .svg and .png into `out`. Raises GemmgenError."""
    no_plot = why_no_plot()
    pictures = {} if no_plot else draw_contests(contests, TITLE)
    files: dict[str, bytes | str] = {
        "md": _page(contests, command, f"{STEM}.svg" if pictures else None),
        "json": json.dumps({**tuners_document(contests), "command": command}, indent=1, allow_nan=False) + "\n",
        **pictures,
    }
    paths = tuple(out / f"{STEM}.{suffix}" for suffix in files)
    for path, data in zip(paths, files.values(), strict=True):
        write_atomic(path, data)
    return Written(paths, no_plot)


def _columns(contests: Sequence[Contest]) -> tuple[str, ...]:
    return tuple(f"{one.recorded.problem}, {one.recorded.family.name}" for one in contests)


def _rows(contests: Sequence[Contest]) -> list[tuple[str, ...]]:
    rows = [("configs", *(str(len(one.recorded.us)) for one in contests))]
    rows.append(("fastest us", *(figure(one.recorded.fastest_us) for one in contests)))
    return rows + [(tuner, *(_runs(one.needed(tuner)) for one in contests)) for tuner in tuners_of(contests)]


def _runs(needed: int | None) -> str:
    return NONE if needed is None else str(needed)


def _page(contests: Sequence[Contest], command: str, plot: str | None) -> str:
    lines = [f"# {TITLE}", "", LEGEND, ""]
    if plot is not None:
        lines += [f"![{TITLE}]({plot})", ""]
    lines += [*markdown_table(("<tuner", *_columns(contests)), _rows(contests)), ""]
    spaces = plural(len(contests), "space")
    return "\n".join(
        [*lines, f"- {spaces}, recorded on {contests[0].recorded.device.name}.", f"- Made by `{command}`.", ""]
    )
