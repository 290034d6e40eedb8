"""Text that no terminal obeys."""

from __future__ import annotations

import re

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tabs and line breaks


def printable(text: str) -> str:
    """`text` with control characters, which a terminal would obey, and halves of characters as Python writes them."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
