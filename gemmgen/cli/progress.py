"""What a person sees on standard error while a command works: bars in a terminal, a line a stage elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn

from gemmgen.cli.output import stderr
from gemmgen.tuner import Stage, Trial

STAGES: dict[Stage, str] = {
    "explore": "explore the space",
    "compile": "compile",
    "verify": "verify",
    "measure": "measure",
    "compare": "compare the finalists",
    "explain": "disassemble",
}


class Watch(Protocol):
    """A gemmgen.tuner.Progress that is switched on and off as a context manager."""

    def stage(self, name: Stage, total: int) -> None: ...

    def step(self, name: Stage, trial: Trial | None) -> None: ...

    def __enter__(self) -> Watch: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def watch() -> Watch:
    """Bars where standard error is a terminal, else lines."""
    console = stderr()
    return Bars(console) if console.is_terminal else Lines(console)


class Bars:
    """A bar a stage, which vanish at the end. A stage that comes again lengthens its bar."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(*_columns(), console=console, transient=True)
        self._tasks: dict[Stage, TaskID] = {}

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


class Lines:
    """A line as each stage starts, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def stage(self, name: Stage, total: int) -> None:
        self._console.print(STAGES[name] if total == 1 else f"{STAGES[name]}: {total}")

    def step(self, name: Stage, trial: Trial | None) -> None:
        pass

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


@contextmanager
def counter(description: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar for `total` equal steps where standard error is a terminal, else a line; yields what to call at each."""
    console = stderr()
    if not console.is_terminal:
        console.print(f"{description}: {total}")
    with Progress(*_columns(), console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def rows(total: int) -> Iterator[Callable[[str], None]]:
    """A bar for `total` rows where standard error is a terminal; yields what to call with a row's line as it ends."""
    console = stderr()
    with Progress(*_columns(), console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("rows", total=total)
        done = itertools.count(1)

        def tell(line: str) -> None:
            progress.console.print(f"{f'{next(done)}/{total}':>7}  {escape(line)}", soft_wrap=True)
            progress.advance(task)

        yield tell


def _columns() -> tuple[ProgressColumn, ...]:
    return TextColumn("{task.description:>22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
