"""The same kernel for a smaller K: what every block of a large grid can be run at.

A block's addresses, and which tile of C is its own, hang on K in the number of its k tiles alone. What gemmgen renders
for a smaller K, with the same config and leading dimensions, is the same code with other numbers in some lines: these
lines take the place of theirs in the `.cu`, edits by hand elsewhere included. A text is none for a smaller K where the
two differ in more than numbers, or where it was edited in such a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from math import lcm
from typing import Any

from gemmgen.kernel.again import rendered_or_none
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem

MOST_TRIES = 8
FACTORS = ("BK", "SPLIT", "SLICES", "STAGES", "DEPTH")  # of a config, in whose multiples kernels divide K


def shortened(source: KernelSource, most: int) -> KernelSource | None:
    """`source` for a K of at most `most`, or None where its text is none for such."""
    own = None if source.problem.k is None else rendered_or_none(source, source.arch)
    if own is None:  # not gemmgen's own
        return None
    for k in _candidates(source, most):
        problem = _of_k(source.problem, k)
        other = rendered_or_none(source, source.arch, problem)
        if other is None or other.launch != own.launch:
            continue
        changes = _other_numbers(own.text, other.text.replace(other.name, own.name))
        text = None if changes is None else _with_lines(source.text, own.text, changes)
        if text is not None:
            return replace(source, text=text, problem=problem)
    return None


def _candidates(source: KernelSource, most: int) -> Iterator[int]:
    """Smaller K with the same remainders, from the smallest on: by all FACTORS, or by k tiles alone."""
    k = source.problem.k or 0
    factors = [max(1, source.config.get(name, 1)) for name in FACTORS]
    for step in dict.fromkeys((lcm(16, *factors), lcm(16, factors[0]))):
        for times in range(1, MOST_TRIES + 1):
            candidate = k % step + times * step
            if candidate <= min(most, k - 1):
                yield candidate


def _of_k(problem: Problem, k: int) -> Problem:
    """The problem of this K whose matrices lie as those of `problem`."""
    apart = {name: size for name, size in problem.sizes.items() if name.startswith(("ld", "stride_"))}
    distances: dict[str, Any] = dict(apart)
    return replace(problem, k=k, **distances)


def _other_numbers(own: str, other: str) -> dict[int, str] | None:
    """The lines of code in which `other` has other numbers, by their number in `own`; None where more differs."""
    ours, theirs = _code(own), _code(other)
    if [_without_numbers(code) for _, code in ours] != [_without_numbers(code) for _, code in theirs]:
        return None
    lines = zip(ours, theirs, strict=True)
    return {number: code for (number, before), (_, code) in lines if code != before}


def _code(text: str) -> list[tuple[int, str]]:
    """The lines with code, without comments, and their numbers from 0."""
    lines = ((number, re.sub(r"\s*//.*", "", line)) for number, line in enumerate(text.splitlines()))
    return [(number, line) for number, line in lines if line]


def _without_numbers(line: str) -> str:
    return re.sub(r"\b\d+", "0", line)


def _with_lines(text: str, own: str, changes: dict[int, str]) -> str | None:
    """`text`, an edit of `own`, with these changes to lines of `own`; None where one of them was edited."""
    lines, ours = text.splitlines(), own.splitlines()
    at = _places(ours, lines)
    if not changes.keys() <= at.keys():
        return None
    for number, line in changes.items():
        lines[at[number]] = line
    return "\n".join(lines) + "\n"


def _places(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """Where the lines of `before` that are in `after`, too, stand there."""
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return {block.a + i: block.b + i for block in blocks for i in range(block.size)}
