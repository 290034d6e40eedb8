"""Progress in a terminal: a bar for each stage."""

from __future__ import annotations

from rich import progress as bars
from rich.console import Console

from gemmgen.search.trial import Progress, Stage, Trial

STAGES: dict[Stage, str] = {
    "explore": "explore the space",
    "compile": "compile",
    "verify": "verify",
    "measure": "measure",
    "compare": "compare the finalists",
    "explain": "disassemble",
    "bench": "bench",
}


class Bars(bars.Progress, Progress):
    """One bar per stage; all bars vanish at the end. A stage that starts again extends its bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(*columns(), console=console, transient=True)
        self._stages: dict[Stage, bars.TaskID] = {}

    def about(self, what: str) -> None:
        self.console.print(what, markup=False, highlight=False)

    def stage(self, name: Stage, total: int) -> None:
        if name not in self._stages:
            self._stages[name] = self.add_task(STAGES[name], total=total)
            return
        task = self._stages[name]
        known = self.tasks[self.task_ids.index(task)].total or 0
        self.update(task, total=known + total)

    def step(self, name: Stage, trial: Trial | None) -> None:  # a bar shows how many, not which
        self.advance(self._stages[name])


def columns() -> tuple[bars.ProgressColumn, ...]:
    """The columns of a bar: its description, the steps done out of all steps, and the time that it has run."""
    described = bars.TextColumn("{task.description:>22}", markup=False)
    return described, bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn()
