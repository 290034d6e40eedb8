"""Progress in a terminal: a bar for each stage."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn

from gemmgen.search.trial import Stage, Trial

STAGES: dict[Stage, str] = {
    "explore": "explore the space",
    "compile": "compile",
    "verify": "verify",
    "measure": "measure",
    "compare": "compare the finalists",
    "explain": "disassemble",
    "bench": "bench",
}


class Bars:
    """One bar per stage; all bars vanish at the end. A stage that starts again extends its bar."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(*columns(), console=console, transient=True)
        self._tasks: dict[Stage, TaskID] = {}

    def about(self, what: str) -> None:
        self._progress.console.print(what, markup=False, highlight=False)

    def stage(self, name: Stage, total: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(STAGES[name], total=total)
            return
        task = self._tasks[name]
        known = self._progress.tasks[self._progress.task_ids.index(task)].total or 0
        self._progress.update(task, total=known + total)

    def step(self, name: Stage, trial: Trial | None) -> None:  # a bar shows how many, not which
        self._progress.advance(self._tasks[name])

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def columns() -> tuple[ProgressColumn, ...]:
    """The columns of a bar: its description, the steps done out of all steps, and the time that it has run."""
    return TextColumn("{task.description:>22}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
