"""Coverage of a kernel's text, told of another text that compiles to the same machine code.

Conditions and blocks are the same ones then, in the same order; they lie in other lines, or name things by other words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmgen.run.coverage import Coverage, coverage_from
from gemmgen.run.emulator.conditions import probed
from gemmgen.run.emulator.hosted import for_host
from gemmgen.run.emulator.probes import Block, Condition, Site


def moved(verdict: Mapping[str, Any], before: str, now: str) -> dict[str, Any]:
    """`verdict` on the text `before`, as JSON has it, with coverage of `now`; without, where these do not agree."""
    rest = {name: value for name, value in verdict.items() if name != "coverage"}
    known = verdict.get("coverage")
    there = _places(before, now)
    if known is None or there is None:
        return rest
    try:
        return {name: _moved(known, there) if name == "coverage" else value for name, value in verdict.items()}
    except KeyError:  # a line that is no site of `before`: the emulator counted otherwise then
        return rest


def _places(before: str, now: str) -> dict[Site, Site] | None:
    """Where each condition and block of `before` is in `now`; None where these are not alike one by one."""
    old, new = (probed(for_host(text)).sites for text in (before, now))
    if [type(site) for site in old] != [type(site) for site in new]:
        return None
    return dict(zip(old, new, strict=True))


def _moved(known: Mapping[str, Any], there: Mapping[Site, Site]) -> dict[str, Any]:
    coverage: Coverage = coverage_from(known)
    blocks = {
        (site.line, site.last): [new.line, new.last]
        for site, new in there.items()
        if isinstance(site, Block) and isinstance(new, Block)
    }

    def condition(one: Mapping[str, Any]) -> dict[str, Any]:
        new = there[Condition(one["line"], one["text"])]
        assert isinstance(new, Condition)
        return {**one, "line": new.line, "text": new.text}

    return {
        **known,
        "untaken": [condition(one) for one in known["untaken"]],
        "lines": [blocks[place] for place in coverage.lines],
        "unreachable": [condition(one) for one in known.get("unreachable", ())],
    }
