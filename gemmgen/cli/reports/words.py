"""How figures and reasons read, the same in every report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from gemmgen.kernel.model import Occupancy
from gemmgen.support.errors import FailureKind
from gemmgen.support.words import NONE

if TYPE_CHECKING:
    from gemmgen.verification.verifier import Verdict

FAULTS: dict[FailureKind, str] = {  # of a kernel that fails so; of any other kind it is wrong
    "compile": "does not compile",
    "launch": "does not launch",
    "timeout": "hangs",
    "crash": "crashes",
    "race": "has a race",
    "nondeterministic": "gives other bits from one run to the next",
}
PROSE_WIDTH = 16  # at least
UNLIMITED = 1000  # columns


def table(*columns: str, title: str | None = None) -> Table:
    """A table with the program's look. Columns are figures; "<" begins the name of one with text, "<<" of prose."""
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    made.pad_edge, made.padding = False, (0, 1, 0, 0)
    for column in columns:
        prose = column.startswith("<<")  # wraps first where the terminal is narrow
        justify: JustifyMethod = "left" if column.startswith("<") else "right"
        made.add_column(
            column.lstrip("<"), justify=justify, no_wrap=not prose, min_width=PROSE_WIDTH if prose else None
        )
    return made


def show_table(console: Console, made: Table) -> None:
    """Print `made`, without prose as wide as it needs: a narrow terminal wraps lines rather than lose figures."""
    usual = console.width
    if all(column.no_wrap for column in made.columns):
        console.width = max(usual, console.measure(made, options=console.options.update(max_width=UNLIMITED)).maximum)
    console.print(made)
    console.width = usual


def facts() -> Table:
    """A list of (name, value)."""
    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    return made


def show_written(console: Console, files: Sequence[str], commands: Sequence[str]) -> None:
    """The files that a command wrote, and what to do with them next."""
    console.print(bold("\nfiles"), *files, sep="\n  ", soft_wrap=True)
    console.print(bold("\nnext"), *commands, sep="\n  ", soft_wrap=True)


def bold(words: object) -> Text:
    return Text(str(words), "bold")


def good(words: str) -> Text:
    return Text(words, "bold green")


def bad(words: str) -> Text:
    return Text(words, "bold red")


def accepted(count: int, total: int) -> str:
    """ "3,664 accepted (1 in 1,931,738)"; without the ratio where more than half are."""
    return f"{count:,} accepted" + (f" (1 in {round(total / count):,})" if 0 < 2 * count <= total else "")


def occupancy(fit: Occupancy) -> str:
    """ "25% registers": the share of an SM's threads, and what keeps another block out."""
    return f"{fit.share:.0%} {fit.limiter}"


def fault(kind: FailureKind) -> str:
    """What a kernel does that fails so: "has a race"."""
    return FAULTS.get(kind, "is wrong")


def verified(verdict: Verdict | None) -> str:
    """ "8 ok", "no", or nothing yet."""
    if verdict is None:
        return NONE
    return f"{verdict.examples} ok" if verdict.passed else "no"
