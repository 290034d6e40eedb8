"""The files of a study: the table as Markdown, the plot, and the record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gemmgen.exports.record_form import record_text
from gemmgen.exports.writing import write_kernel
from gemmgen.lab.prints.plots import draw, why_no_plot
from gemmgen.lab.prints.study import markdown
from gemmgen.lab.study import StudyResult
from gemmgen.lab.study.study_json import kernels, study_document
from gemmgen.render.naming import problem_name
from gemmgen.support.files import write_atomic


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
