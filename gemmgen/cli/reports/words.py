"""How figures and reasons read, the same in every report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from gemmgen.kernel.model import Occupancy
from gemmgen.verification.verifier import Verdict

NONE = "-"
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


def bold(words: object) -> Text:
    return Text(str(words), "bold")


def good(words: str) -> Text:
    return Text(words, "bold green")


def bad(words: str) -> Text:
    return Text(words, "bold red")


def figure(value: float) -> str:
    """Four significant digits, no exponent: 20.45, 1374, 0.06211."""
    if not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def short(value: float) -> str:
    """Like `figure`, without zeros that say nothing: 64, 0.5, 10.67."""
    text = figure(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """ "12%", or "0.062%" for what would round to nothing."""
    return f"{share:.0%}" if share >= 0.01 or share == 0 else f"{100 * share:.2g}%"


def accepted(count: int, total: int) -> str:
    """ "3,664 accepted (1 in 1,931,738)"."""
    return f"{count:,} accepted" + (f" (1 in {round(total / count):,})" if count else "")


def occupancy(fit: Occupancy) -> str:
    """ "25% registers": the share of an SM's threads, and what keeps another block out."""
    return f"{fit.share:.0%} {fit.limiter}"


def verified(verdict: Verdict | None) -> str:
    """ "8 ok", "no", or nothing yet."""
    if verdict is None:
        return NONE
    return f"{verdict.examples} ok" if verdict.passed else "no"


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown, of columns named as for `table`."""
    yield _line([column.lstrip("<") for column in columns])
    yield _line(["---" if column.startswith("<") else "---:" for column in columns])
    yield from (_line(row) for row in rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
