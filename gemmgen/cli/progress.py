"""What a person sees on standard error while a command works: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import Progress

from gemmgen.cli.output import stderr
from gemmgen.search.bars import STAGES, Bars, columns
from gemmgen.search.trial import Progress as SearchProgress
from gemmgen.search.trial import Stage, Trial

LOG_SECONDS = 10.0  # between two lines that say how far it is, where there is no terminal


def watch() -> Bars | Lines:
    """Bars where standard error is a terminal, else lines."""
    console = stderr()
    return Bars(console) if console.is_terminal else Lines(console)


class Lines(ExitStack, SearchProgress):
    """For logs: lines of one stage, until the next starts."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._advance: Callable[[], None] = lambda: None

    def about(self, what: str) -> None:
        self.close()
        self._console.print(what, markup=False, highlight=False)

    def stage(self, name: Stage, total: int) -> None:
        self.close()
        self._advance = self.enter_context(_lines(self._console, STAGES[name], total))

    def step(self, name: Stage, trial: Trial | None) -> None:
        self._advance()


@contextmanager
def counter(description: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar for `total` equal steps where standard error is a terminal, else lines; yields what to call at each."""
    console = stderr()
    if not console.is_terminal:
        with _lines(console, description, total) as advance:
            yield advance
        return
    with Progress(*columns(), console=console, transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def rows(total: int) -> Iterator[Callable[[str], None]]:
    """A bar for `total` rows where standard error is a terminal; yields what to call with a row's line as it ends."""
    console = stderr()
    with Progress(*columns(), console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("rows", total=total)
        done = itertools.count(1)

        def tell(line: str) -> None:
            progress.console.print(f"{f'{next(done)}/{total}':>7}  {line}", soft_wrap=True)
            progress.advance(task)

        yield tell


@contextmanager
def _lines(console: Console, description: str, total: int) -> Iterator[Callable[[], None]]:
    """A line at the start, and one every LOG_SECONDS until the end; yields what to call at each of `total` steps."""
    started, over, done = time.monotonic(), threading.Event(), 0

    def advance() -> None:
        nonlocal done
        done += 1

    def report() -> None:  # in a thread: a step may take minutes
        while not over.wait(LOG_SECONDS):
            count = "" if total == 1 else f"{done} of {total}, " if done <= total else f"{done}, "
            console.print(f"{description}: {count}{time.monotonic() - started:.0f} s")

    console.print(description if total == 1 else f"{description}: {total}")
    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        over.set()
        thread.join()
