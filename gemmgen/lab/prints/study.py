"""A study for people: its table, the reason for each row's speed, and a comparison with the source document.

The same rows make the terminal's table and the Markdown beside the plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from gemmgen.cli.reports.words import bold, occupancy, show_table, table, verified
from gemmgen.exports.kernelfile import text_link
from gemmgen.exports.record_form import record_text
from gemmgen.exports.writing import write_kernel
from gemmgen.lab.markdown import markdown_table
from gemmgen.lab.prints.plots import draw, why_no_plot
from gemmgen.lab.study import StudyResult, StudyRow
from gemmgen.lab.study.beside import Beside, beside, reference
from gemmgen.lab.study.points import REPORTED_CARD
from gemmgen.lab.study.reasons import number, shared_reads
from gemmgen.lab.study.study_json import kernels, study_document
from gemmgen.render.naming import problem_name
from gemmgen.support.files import write_atomic
from gemmgen.support.words import NONE, figure, percent


def show_study(console: Console, result: StudyResult, files: Sequence[str] = ()) -> None:
    """Print the table, a sentence per row, the comparison with the source document, and the files written."""
    made = table(*_columns(result, "\n"), title=title(result))
    for row in result.rows:
        made.add_row(*_cells(row, result))
    show_table(console, made)
    console.print(result.study.question, soft_wrap=True)
    console.print(limit_sentence(result) + "\n", soft_wrap=True)
    console.print(bold("why"))
    for row in result.rows:
        console.print("  ", bold(row.point.label), f": {sentence(row)}", sep="", soft_wrap=True)
    compared = beside(result)
    if compared:
        console.print(bold(f"\nbeside the document's {REPORTED_CARD}"))
        console.print(f"  {_reference_sentence(result)}", soft_wrap=True)
        for one in compared:
            console.print("  ", bold(one.label), f": {_beside_sentence(one)}", sep="", soft_wrap=True)
    if files:
        console.print(bold("\nfiles"), *files, sep="\n  ", soft_wrap=True)


def markdown(result: StudyResult, date: str, command: str, plot: str | None, folder: Path = Path()) -> str:
    """The study as a page of `folder`, which has its kernels; `plot` is the name of the picture beside it."""
    lines = [f"# {title(result)}", "", result.study.question, "", limit_sentence(result), ""]
    if plot is not None:
        lines += [f"![{title(result)}]({plot})", ""]
    cells = [(_linked(row, result, folder), *_cells(row, result)[1:]) for row in result.rows]
    lines += [*markdown_table(_columns(result, " "), cells), "", "## Why", ""]
    lines += [f"- **{row.point.label}**: {sentence(row)}." for row in result.rows]
    compared = beside(result)
    if compared:
        lines += ["", f"## Beside the document's {REPORTED_CARD}", "", f"{_reference_sentence(result)}", ""]
        lines += [f"- **{one.label}**: {_beside_sentence(one)}." for one in compared]
    lines += ["", f"- {result.runner}, {date}: `{command}`", ""]
    return "\n".join(lines)


def title(result: StudyResult) -> str:
    """ "1024x1024x1024 f32 rr on H200, one idea at a time (predicted)"."""
    return f"{result.problem} on {result.device.name}, {result.study.title} ({result.kind})"


def limit_sentence(result: StudyResult) -> str:
    """The limit to which shares refer, and the kind of the times."""
    limit = f"The limit is {figure(result.limit.tflops)} TFLOPS ({result.limit.source})"
    if result.kind == "measured":
        return f"{limit}; medians of rounds in which all rows took turns."
    spills = any(it.compiled and it.compiled.spill_bytes for row in result.rows if (it := row.explanation))
    added = "; spilled registers add a cycle of the L1 cache for each access" if spills else ""
    return f"{limit}. Nothing was measured: times are the model's, from what the compiler made of each kernel{added}."


def sentence(row: StudyRow) -> str:
    """The lesson, if there is one, and the reason."""
    return "; ".join(part for part in (row.point.lesson, row.reason) if part)


def _columns(result: StudyResult, newline: str) -> tuple[str, ...]:
    return (
        f"<{result.study.axis}",
        f"{result.kind}{newline}us",
        "TFLOPS",
        f"of the{newline}limit",
        "registers",
        f"spilled{newline}bytes",
        f"shared{newline}bytes",
        "<occupancy",
        f"shared loads{newline}per FMA",
        f"FMAs of the{newline}main loop",
        "verified",
    )


def _cells(row: StudyRow, result: StudyResult) -> tuple[str, ...]:
    it, tflops = row.explanation, row.tflops(result.case)
    loop = it.main_loop if it is not None else None
    compiled = it.compiled if it is not None else None
    return (
        row.point.label,
        figure(row.time_us),
        figure(tflops) if row.runs else NONE,
        percent(tflops / result.limit.tflops) if row.runs else NONE,
        str(compiled.registers) if compiled else NONE,
        f"{compiled.spill_bytes:,}" if compiled else NONE,
        f"{it.prediction.shared_bytes:,}" if it else NONE,
        occupancy(it.prediction.occupancy) if it else NONE,
        number(shared_reads(it)) if it and loop and loop.fmas else NONE,
        percent(loop.share(loop.fma)) if loop else NONE,
        verified(row.trial.verdict) if row.trial else NONE,
    )


def _linked(row: StudyRow, result: StudyResult, folder: Path) -> str:
    """The row's label, which leads to its kernel where `folder` has that."""
    if not (result.study.keeps and row.runs) or row.trial is None:
        return row.point.label
    return f"[{row.point.label}]({text_link(folder / f'{row.trial.source.name}.cu')})"


def _reference_sentence(result: StudyResult) -> str:
    base = reference(result)
    assert base is not None
    best = result.best
    here = "it is the fastest here too"
    if best is not None and best is not base:
        here = f"the fastest here is {best.point.label}, {base.time_us / best.time_us:.2f}x as fast ({result.kind})"
    return f"Shares are of {base.point.label} on the same card, the document's best; {here}."


def _beside_sentence(one: Beside) -> str:
    there = (
        f"{figure(one.reported)} TFLOPS ({percent(one.reported_share)} of its best)" if one.reported else "no launch"
    )
    here = f"{figure(one.tflops)} ({percent(one.share)})" if one.tflops else "none"
    return f"{there}, here {here}"


@dataclass(frozen=True)
class Written:
    """The files of a study; `no_plot` gives the reason if there is no picture among them."""

    paths: tuple[Path, ...] = ()
    no_plot: str | None = None


def write_study(result: StudyResult, command: str, out: Path) -> Written:
    """Write study_NAME_PROBLEM.md, .json and, with matplotlib, .svg and .png into `out`. Raises GemmgenError.

    If each kernel of the study teaches an idea, the kernels are written as well, as NAME.cu and NAME.json. `command` is
    the command that the records name.
    """
    record = study_document(result, command)
    stem, no_plot = f"study_{result.study.name}_{problem_name(result.problem)}", why_no_plot()
    pictures = {} if no_plot else draw(result)
    shown = f"{stem}.svg" if pictures else None
    keeps = kernels(result, command) if result.study.keeps else ()
    written = [path for source, beside in keeps for path in write_kernel(source, beside, out)]
    files: dict[str, bytes | str] = {
        "md": markdown(result, str(record["date"])[:10], command, shown, out),
        "json": record_text(record),
        **pictures,
    }
    paths = [out / f"{stem}.{suffix}" for suffix in files]
    for path, data in zip(paths, files.values(), strict=True):
        write_atomic(path, data)
    return Written(tuple(dict.fromkeys((*paths, *written))), no_plot)  # two rungs may be one kernel
