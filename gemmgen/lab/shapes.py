"""The performance suite: its problems by group, and their goals.

Every problem belongs to a group, both in the suite and in a user's own list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from gemmgen.lab.fma_shapes import FMA_GROUPS
from gemmgen.lab.group import THIN, Goal, Group, cubes, every, thin_side
from gemmgen.lab.tensor_shapes import BF16, S8, TENSOR_GROUPS, tensor_group
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import F32_TYPES
from gemmgen.support.errors import require

GROUPS = {group.name: group for group in (*FMA_GROUPS, *TENSOR_GROUPS)}
# The problems of predictions for architectures that are not at hand: a small and a large product of two types that all
# multiply.
PREDICTED = tuple(problem for types in (BF16, S8) for problem in every(types, cubes(512, 4096), "rc"))

__all__ = ["GROUPS", "PREDICTED", "Goal", "Group", "group_of", "select", "suite"]


@cache  # a page asks for each of its rows in each group
def group_of(problem: Problem) -> Group:
    """The one group that `problem` belongs to."""
    if problem.types != F32_TYPES or not problem.epilogue.is_linear or not problem.inputs.is_plain:
        return GROUPS[tensor_group(problem)]
    if problem.batched:
        return GROUPS["batched"]
    return GROUPS["skinny" if thin_side(problem) <= THIN else "large"]


def suite() -> tuple[Problem, ...]:
    """Every problem, group after group."""
    return tuple(problem for group in GROUPS.values() for problem in group.problems)


def select(
    problems: Iterable[Problem], groups: Sequence[str] = (), only: Sequence[str] = (), part: tuple[int, int] = (1, 1)
) -> tuple[Problem, ...]:
    """The problems in `groups` whose text has one of `only`, and of these part I of N: every N-th, from the I-th on.

    Without `groups`, or without `only`, all match. Numbers match as a whole: 8x8 does not match 128x8192. Raises
    InvalidInput for an invalid part, or if no problem matches.
    """
    index, parts = part
    require(1 <= index <= parts, f"part {index} of {parts}: write I/N with I from 1 to N")
    chosen = [one for one in dict.fromkeys(problems) if not only or any(_has(one, text) for text in only)]
    chosen = [one for one in chosen if not groups or group_of(one).name in groups]
    texts = " or ".join(map(repr, only)) or "any text"
    require(bool(chosen), f"no shape of {', '.join(groups) or 'any group'} has {texts} in it")
    return tuple(chosen[index - 1 :: parts])


def _has(problem: Problem, text: str) -> bool:
    before, behind = r"(?<!\d)" * text[:1].isdigit(), r"(?!\d)" * text[-1:].isdigit()
    return re.search(before + re.escape(text) + behind, str(problem)) is not None
