"""The check of the model for people: a table, a page with the same contents, and the files of both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from gemmgen.cli.reports.words import bold, show_table, table
from gemmgen.kernel.model import MODEL_ERROR
from gemmgen.lab.markdown import markdown_table
from gemmgen.lab.prints.plots import draw_check, why_no_plot
from gemmgen.lab.prints.study import Written
from gemmgen.lab.study.modelcheck import TOP, Agreement, ModelCheck, check_document
from gemmgen.support.files import write_atomic
from gemmgen.support.words import figure, percent, plural

COLUMNS = (
    "<problem",
    "configs",
    "skipped",
    "rank correlation",
    f"within {percent(MODEL_ERROR)}",
    "place of the fastest",
    f"lost in its top {TOP}",
    "fastest us",
)
LEGEND = (
    "Rank correlation: Spearman's, of predicted and measured times. Place: where the model's order of these kernels "
    "has the fastest, apart from details, which a search tries last. Lost: how much slower than the fastest the best "
    f"of the model's first {TOP} is. Predictions are this version's, from the registers that were compiled then."
)


def show_check(console: Console, check: ModelCheck, files: Sequence[str] = ()) -> None:
    """Print the table with one line per problem, its totals, the origin of the times, and the files written."""
    made = table(*COLUMNS, title=check_title(check))
    for one in check.agreements:
        made.add_row(*_cells(one))
    show_table(console, made)
    console.print(total(check), soft_wrap=True)
    console.print(LEGEND, soft_wrap=True)
    console.print(_source(check), soft_wrap=True)
    if files:
        console.print(bold("\nfiles"), *files, sep="\n  ", soft_wrap=True)


def check_title(check: ModelCheck) -> str:
    """ "The model against 672 measured times of simt on H200"."""
    times, families = plural(check.configs, "measured time"), ", ".join(one.name for one in check.times.families)
    return f"The model against {times} of {families} on {check.times.device.name}"


def total(check: ModelCheck) -> str:
    """The totals over all problems, in one sentence."""
    top = f"the fastest is in the model's top {TOP} for {check.in_top} of {plural(len(check.agreements), 'problem')}"
    within = f"{check.within:,} of {plural(check.configs, 'time')} within {percent(MODEL_ERROR)}"
    skipped = (
        f"; {plural(check.skipped, 'config')} skipped, which this version does not accept" if check.skipped else ""
    )
    return f"Mean rank correlation {check.rank_correlation:.3f}; {within}; {top}{skipped}."


def write_check(check: ModelCheck, command: str, out: Path) -> Written:
    """Write study_model_FAMILY_DEVICE.md, .json and, with matplotlib, .svg and .png into `out`; the name lists all
    families. Raises GemmgenError."""
    times, no_plot = check.times, why_no_plot()
    stem = "_".join(["study_model", *(one.name for one in times.families), times.device.name.replace(" ", "_")])
    pictures = {} if no_plot else draw_check(check, check_title(check))
    document = {**check_document(check), "command": command}
    files: dict[str, bytes | str] = {
        "md": _page(check, command, f"{stem}.svg" if pictures else None),
        "json": json.dumps(document, indent=2, allow_nan=False) + "\n",
        **pictures,
    }
    paths = tuple(out / f"{stem}.{suffix}" for suffix in files)
    for path, data in zip(paths, files.values(), strict=True):
        write_atomic(path, data)
    return Written(paths, no_plot)


def _cells(one: Agreement) -> tuple[str, ...]:
    configs = len(one.measured_us)
    return (
        str(one.problem),
        str(configs),
        str(one.skipped),
        f"{one.rank_correlation:.3f}",
        percent(one.within / configs),
        str(one.place),
        f"{one.lost:.1%}",
        figure(one.measured_us[0]),
    )


def _page(check: ModelCheck, command: str, plot: str | None) -> str:
    lines = [f"# {check_title(check)}", "", total(check), "", LEGEND, ""]
    if plot is not None:
        lines += [f"![{check_title(check)}]({plot})", ""]
    lines += [*markdown_table(COLUMNS, [_cells(one) for one in check.agreements]), "", f"- {_source(check)}"]
    return "\n".join([*lines, f"- Checked by `{command}`.", ""])


def _source(check: ModelCheck) -> str:
    return "Times: " + "; ".join(f"{name} {value}" for name, value in check.times.provenance.items()) + "."
