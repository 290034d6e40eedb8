"""The parts of the performance suite: groups of problems, and their goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gemmgen.families.skinny.axes import MOST_SMALL
from gemmgen.kernel.model import representative
from gemmgen.problem.epilogue import LINEAR, Epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import PLAIN, Inputs
from gemmgen.problem.types import Types

THIN = MOST_SMALL  # rows or columns of C up to which a product of f32 streams its weights

Size = tuple[int, int, int]


@dataclass(frozen=True)
class Goal:
    """The goal for one kernel; None: nothing is required.

    ratio   the baseline's time over ours
    share   of the card's measured limit
    moving  the time that moving the operands' bytes takes over ours
    """

    ratio: float | None = None
    share: float | None = None
    moving: float | None = None


@dataclass(frozen=True)
class Group:
    """Problems of one kind.

    title    title for a person
    goal     the goal of each problem
    geomean  the goal for the geometric mean of the ratios; None if there is none
    """

    name: str
    title: str
    problems: tuple[Problem, ...]
    goal: Callable[[Problem], Goal]
    geomean: float | None = None


def every(
    types: Types,
    sizes: Iterable[Size],
    *layouts: str,
    epilogue: Epilogue | str = LINEAR,
    inputs: Inputs | str = PLAIN,
) -> tuple[Problem, ...]:
    """A problem for each of `sizes` in each of `layouts`."""
    return tuple(
        Problem(*size, types=types, layout=layout, epilogue=epilogue, inputs=inputs)
        for size in sizes
        for layout in layouts
    )


def cubes(*sizes: int) -> tuple[Size, ...]:
    return tuple((size, size, size) for size in sizes)


def thin_side(problem: Problem) -> int:
    """Rows or columns of C, whichever are fewer."""
    case = representative(problem)
    return min(case.m, case.n)


def weight_bytes(problem: Problem) -> int:
    """Bytes of the larger of A and B."""
    case = representative(problem)
    return max(case.a.least_bytes, case.b.least_bytes)
