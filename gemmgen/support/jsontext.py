"""Writes JSON for people to read, with short entries sharing lines; reads JSON that is not trusted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

WIDTH = 120
DEEPEST = 64  # levels; functions that read and write values recurse
SHORT = 40  # characters of an entry that shares a line with others


def json_value(text: str | bytes) -> Any:
    """The value of the JSON `text`. Raises ValueError if it is not JSON, or is nested more than DEEPEST levels deep."""
    too_deep = ValueError(f"it is nested more than {DEEPEST} deep")
    try:
        value = json.loads(text)
    except RecursionError:
        raise too_deep from None
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [entry for one in level for entry in _entries(one)]
        if not level:
            return value
    raise too_deep


def _entries(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def json_text(value: Any, margin: str = "") -> str:
    """`value` as JSON; lists and objects span lines only if one line is too short. Raises ValueError for NaN."""
    line = json.dumps(value, allow_nan=False)
    if len(margin) + len(line) < WIDTH or not isinstance(value, dict | list | tuple) or not value:
        return line
    inner = f"{margin} "
    if isinstance(value, dict):
        entries = [(one, f"{json.dumps(str(name))}: {json_text(one, inner)}") for name, one in value.items()]
    else:
        entries = [(one, json_text(one, inner)) for one in value]
    parts = ((text, not isinstance(one, dict) and len(text) <= SHORT) for one, text in entries)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f",\n{inner}".join(_filled(parts, WIDTH - len(inner))).join((f"{opening}\n{inner}", f"\n{margin}{closing}"))


def _filled(parts: Iterable[tuple[str, bool]], width: int) -> Iterator[str]:
    """Fill lines with entries; each comes with whether it may share a line with others."""
    line, open_ = "", False
    for text, shares in parts:
        if open_ and shares and len(line) + len(text) + len(", ,") <= width:
            line += f", {text}"
            continue
        if line:
            yield line
        line, open_ = text, shares
    yield line
