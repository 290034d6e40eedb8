"""Where a call shows its progress: below a notebook's cell, in a terminal, or nowhere."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gemmgen.search.trial import Progress, Silent


@contextmanager
def shown(progress: Progress | None) -> Iterator[Progress]:
    """Yield `progress` or, if it is None, bars for the duration of a call.

    A notebook keeps its bars; those in a terminal vanish at the end. If standard error is not a terminal there are
    none.
    """
    display = _notebook()
    if progress is not None:
        yield progress
    elif display is not None:
        from gemmgen.search.notebook import NotebookBars

        yield NotebookBars(display)
    elif sys.stderr is not None and sys.stderr.isatty():
        from gemmgen.search.bars import Bars  # rich takes a while
        from gemmgen.support.console import PlainConsole

        with Bars(PlainConsole(stderr=True, width=shutil.get_terminal_size().columns)) as bars:
            yield bars
    else:
        yield Silent()


def _notebook() -> Any:
    """IPython's display in a notebook, else None. IPython is used only if the process has already loaded it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    has_kernel = shell is not None and hasattr(shell, "kernel")  # a terminal's IPython has none
    return sys.modules["IPython"].display.display if has_kernel else None
