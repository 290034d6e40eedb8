"""Changes a kernel's text to a smaller K, so that every block of a large grid can run.

A block's addresses, and its tile of C, depend on K only through the number of k tiles. So the kernel that gemmgen
renders for a smaller K, with the same config and leading dimensions, differs from the original only by numbers in some
lines. These lines are put in place of the original ones; edits by hand elsewhere are kept. A text cannot be changed if
the two kernels differ in more than numbers, or if one of these lines was edited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from math import lcm
from typing import Any

from gemmgen.families import k_tile_of, plan_of
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.render.rerender import rendered_or_none

MOST_TRIES = 8


def shortened(source: KernelSource, most: int) -> KernelSource | None:
    """`source` with a K of at most `most`; None if its text cannot be changed to one."""
    fixed = source.problem.k is None or source.problem.inputs.conv is not None
    original = None if fixed else rendered_or_none(source)
    if original is None:  # gemmgen does not render it
        return None
    for k in _candidates(source, most):
        problem = _of_k(source.problem, k)
        other = rendered_or_none(source, problem=problem)
        if other is None or other.launch != original.launch:
            continue
        changes = _other_numbers(original.text, other.text.replace(other.name, original.name))
        text = None if changes is None else _with_lines(source.text, original.text, changes)
        if text is not None:
            return replace(source, text=text).promising(problem=problem)
    return None


def _candidates(source: KernelSource, most: int) -> Iterator[int]:
    """Smaller K, from the smallest on, with the same remainder: modulo all by which kernels divide K, then modulo the
    k tile alone."""
    k, tile, work = source.problem.k or 0, k_tile_of(source), plan_of(source).work
    for step in dict.fromkeys((lcm(16, tile, source.launch.splits, work.k_slices, work.prefetch + 1), lcm(16, tile))):
        for times in range(1, MOST_TRIES + 1):
            candidate = k % step + times * step
            if candidate <= min(most, k - 1):
                yield candidate


def _of_k(problem: Problem, k: int) -> Problem:
    """`problem` with this K, and with the same leading dimensions and strides."""
    apart = {name: size for name, size in problem.sizes.items() if name.startswith(("ld", "stride_"))}
    distances: dict[str, Any] = dict(apart)
    return replace(problem, k=k, **distances)


def _other_numbers(original: str, other: str) -> dict[int, str] | None:
    """The lines of `other` whose numbers differ, by line number in `original`; None if more than numbers differs."""
    ours, theirs = _code(original), _code(other)
    if [_without_numbers(code) for _, code in ours] != [_without_numbers(code) for _, code in theirs]:
        return None
    lines = zip(ours, theirs, strict=True)
    return {number: code for (number, before), (_, code) in lines if code != before}


def _code(text: str) -> list[tuple[int, str]]:
    """The lines that contain code, without comments, with their numbers from 0."""
    lines = ((number, re.sub(r"\s*//.*", "", line)) for number, line in enumerate(text.splitlines()))
    return [(number, line) for number, line in lines if line]


def _without_numbers(line: str) -> str:
    return re.sub(r"\b\d+", "0", line)


def _with_lines(text: str, original: str, changes: dict[int, str]) -> str | None:
    """`text`, an edit of `original`, with `changes` to lines of `original`; None if one of these lines was edited."""
    lines, ours = text.splitlines(), original.splitlines()
    at = _places(ours, lines)
    if not changes.keys() <= at.keys():
        return None
    for number, line in changes.items():
        lines[at[number]] = line
    return "\n".join(lines) + "\n"


def _places(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """The positions in `after` of the lines of `before` that are still there."""
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return {block.a + i: block.b + i for block in blocks for i in range(block.size)}
