"""Where a command's words go: one result to standard output, everything else to standard error.

With --json the result is one document, errors included, and nothing else goes to standard output.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

from gemmgen.support.errors import CandidateFailed, GemmgenError, InvalidInput, interrupt_of
from gemmgen.support.words import printable

if TYPE_CHECKING:
    from rich.console import Console  # imported by what prints: --help and --json do without

DONE, FAILED, WRONG_USAGE, NOT_JUDGED, IN_PART, INTERRUPTED = 0, 1, 2, 3, 4, 130  # exit codes
PLAIN_WIDTH = 140  # columns where output goes to a file or a pipe
INTERRUPTED_MESSAGE = (
    "interrupted. What was compiled, verified and measured is kept: the same command resumes from there"
)

Show = Callable[["Console"], None]


class OutputLost(GemmgenError):
    """Standard output takes no more."""


class NotJudged(CandidateFailed):
    """The kernel cannot be judged, on this machine or at all. It may be right."""


@contextmanager
def judging() -> Iterator[None]:
    """For a command that judges kernels: turn failures "unavailable" and "unjudged" into NotJudged."""
    try:
        yield
    except CandidateFailed as error:
        if error.failure.kind not in ("unavailable", "unjudged"):
            raise
        raise NotJudged(error.failure) from error


def emit(as_json: bool, document: Callable[[], Any], show: Show) -> None:
    """Print a command's result: `document()` as JSON, or whatever `show` prints to the console. Raises OutputLost."""
    if as_json:
        _print_json(document())
        return
    with _whole_output():
        show(stdout())


def _print_json(document: Any) -> None:
    text = json.dumps(document, indent=2, allow_nan=False)
    with _whole_output():
        click.echo(text)


@contextmanager
def _whole_output() -> Iterator[None]:
    """What is printed within is written when this ends. Raises OutputLost where it cannot be."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError):  # what is still buffered the interpreter would try to write again as it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputLost(f"cannot write to standard output: {error.strerror or error}") from error


def stdout() -> Console:
    """The console of results."""
    return _console(stderr=False)


def stderr() -> Console:
    """The console of progress and errors."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from gemmgen.support.console import PlainConsole

    stream = sys.stderr if stderr else sys.stdout
    width = shutil.get_terminal_size().columns if stream.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return PlainConsole(stderr=stderr, width=width)


def _say(text: str) -> None:
    """Print a line to standard error."""
    click.echo(printable(text), err=True)


def report_error(error: BaseException, *, as_json: bool) -> int:
    """Tell the user what went wrong; returns the exit code. A bug in gemmgen is raised on, with its traceback."""
    kind, message, code = classify(error)
    if as_json and not isinstance(error, OutputLost):
        try:
            _print_json({"error": error_document(error)})
            return code
        except OutputLost:
            pass  # then standard error has it
    if isinstance(error, click.UsageError) and error.ctx is not None:
        _say(error.ctx.get_usage())
    _say(f"gemmgen: {kind}: {message}")
    return code


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """What `warnings.showwarning` becomes: one line, without the place in the code."""
    _say(f"gemmgen: warning: {message}")


def error_document(error: BaseException) -> dict[str, Any]:
    """`error` as JSON-ready data; raises it on where it is none that users are meant to see."""
    kind, message, code = classify(error)
    document: dict[str, Any] = {"kind": kind, "message": message, "exit_code": code}
    if isinstance(error, CandidateFailed):
        document["failure"] = vars(error.failure)
    return document


def classify(error: BaseException) -> tuple[str, str, int]:
    """(kind, message, exit code); raises `error` where it is a bug."""
    interrupt = interrupt_of(error)  # click's Abort hides it, and so do some imports
    if interrupt is not None or isinstance(error, click.Abort):
        return "stopped", str(interrupt or error) or INTERRUPTED_MESSAGE, INTERRUPTED
    if isinstance(error, click.ClickException):
        return "wrong usage", error.format_message(), error.exit_code
    if isinstance(error, InvalidInput):
        return "wrong usage", str(error), WRONG_USAGE
    if isinstance(error, NotJudged):
        return "not judged", str(error), NOT_JUDGED
    if isinstance(error, GemmgenError | OSError):  # a full disk under $TMPDIR or standard output, say
        return "failed", str(error), FAILED
    if isinstance(error, MemoryError):
        return "failed", f"out of memory ({error})" if str(error) else "out of memory", FAILED
    raise error
