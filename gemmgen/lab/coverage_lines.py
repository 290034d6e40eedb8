"""Transfers coverage of a kernel's text to another text with the same machine code but other line numbers."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

CONDITIONS = ("untaken", "unreachable")  # of a Coverage: each has a line


def moved(verdict: Mapping[str, Any], before: str, now: str) -> dict[str, Any]:
    """The JSON `verdict` on the text `before`, with its coverage transferred to `now`, or dropped if a line is missing
    there."""
    there = _lines(before, now)
    try:
        return {name: _moved(value, there) if name == "coverage" else value for name, value in verdict.items()}
    except KeyError:
        return {name: value for name, value in verdict.items() if name != "coverage"}


def _lines(before: str, now: str) -> dict[int, int]:
    """The line in `now` of each line of `before` that is in both; numbers are from 1."""
    old, new = before.splitlines(), now.splitlines()
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return {at.a + offset + 1: at.b + offset + 1 for at in blocks for offset in range(at.size)}


def _moved(known: Mapping[str, Any] | None, there: Mapping[int, int]) -> dict[str, Any] | None:
    if known is None:
        return None
    conditions = {name: [{**one, "line": there[one["line"]]} for one in known.get(name, ())] for name in CONDITIONS}
    return {**known, **conditions, "lines": [[there[first], there[last]] for first, last in known["lines"]]}
