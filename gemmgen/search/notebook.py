"""Progress in a notebook: a bar for each stage below the cell that runs."""

from __future__ import annotations

from typing import Any

from gemmgen.search.trial import Stage, Trial
from gemmgen.support.html import render_html


class NotebookBars:
    """Bars that IPython's display shows and updates; they need no widgets."""

    def __init__(self, display: Any) -> None:
        """Take `display`, which is IPython.display.display."""
        self._display = display
        self._handle: Any = None
        self._stages: dict[Stage, list[int]] = {}  # steps done, and of how many
        self._about = ""

    def about(self, what: str) -> None:
        self._about = what
        self._show()

    def stage(self, name: Stage, total: int) -> None:
        self._stages.setdefault(name, [0, 0])[1] += total
        self._show()

    def step(self, name: Stage, trial: Trial | None) -> None:  # a bar shows how many, not which
        done = self._stages[name]
        done[0] += 1
        if done[0] == done[1] or done[0] % max(1, done[1] // 100) == 0:  # a hundred times is enough
            self._show()

    def _repr_html_(self) -> str:
        return render_html("cards/progress.html", about=self._about, stages=self._stages)

    def _show(self) -> None:
        if self._handle is None:
            self._handle = self._display(self, display_id=True)
        else:
            self._handle.update(self)
