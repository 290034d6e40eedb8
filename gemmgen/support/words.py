"""Counts and figures as text, for kernels' headers and all reports."""

import math
import re
from collections.abc import Iterable

NONE = "-"
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tabs and line breaks


def plural(count: float, noun: str) -> str:
    """ "1 step", "1,234 candidates", "0.5 reads"."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"


def listed(names: Iterable[str], joint: str = "and") -> str:
    """ "A", "A and B", "A, B and C"."""
    *first, last = names
    return f"{', '.join(first)} {joint} {last}" if first else last


def with_article(name: str) -> str:
    """ "an H200", "a B200": a card's name with its article; the name begins with a letter that is spelt out."""
    return f"{'an' if name[:1] in 'AEFHILMNORSX' else 'a'} {name}"


def figure(value: float) -> str:
    """Four significant digits, no exponent: 20.45, 1374, 0.06211."""
    if not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def short(value: float) -> str:
    """Like `figure`, without trailing zeros: 64, 0.5, 10.67."""
    text = figure(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """ "12%", or "0.062%" for a share that would round to 0%."""
    return f"{share:.0%}" if share >= 0.01 or share == 0 else f"{100 * share:.2g}%"


def printable(text: str) -> str:
    """`text` with control characters, which a terminal would obey, and halves of characters as Python writes them."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
