"""What is right for each element of a large C, as numbers: an executor holds C against them where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]  # of elements of C, counted row by row


# What a step does, by its place here; functions stand behind. templates/device/plain/judge.cu has the same list.
STEPS = (
    *("constant", "acc", "acc2", "operand", "+", "negated", "*", "/"),
    *("float", "int +", "int -", "int *", "int negated"),
)
FUNCTION_STEPS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "erf", "exp", "abs", "min", "max", "clamp")
MOST_STEPS = 48  # of an epilogue: the results of all are kept


@dataclass(frozen=True)
class Step:
    """One operation of an epilogue, on numbers and what each may be off by; see gemmgen.verification.epilogue_steps.

    name     of STEPS or FUNCTION_STEPS
    of       the steps whose results it takes, by their numbers: any number of terms for "+"
    value    of a constant; of a function what its own error is times, of its result or, with `of_x`, of its argument
    bound    of a constant; of a function what it may be off by besides
    operand  of C and the epilogue's operands the one that it reads
    """

    name: str
    of: tuple[int, ...] = ()
    value: float = 0.0
    bound: float = 0.0
    operand: str = ""
    of_x: bool = False


@dataclass(frozen=True)
class Rule:
    """C = alpha * A * B + beta * C, and what each element may be off by before it is stored:

        of_terms * (|alpha| size + |beta C|) + of_largest * largest + least
        + of_sum * |sum| + of_spread * spread + min(of_size * size, of_size_spread * spread)

    sum and size are elements of A * B and of |A| * |B|, largest is the largest finite |A| of a row times that of B's
    column, and spread = min(size, sqrt(largest * size)). No result that is not finite may be off at all.

    exact    nothing may be off
    sizes    size is asked for, and else |sum| takes its place
    largest  so is the largest, and else 0
    steps    of an epilogue: the last one's result is C's element. Then alpha is 1 and beta 0, and the above is of acc,
             and of acc2

    rounding, tiny  a step's result may be off by `rounding` times its magnitude, and `tiny`
    reordering      and a sum of n > 2 terms by n - 2 times that, times the largest partial sum of its terms
    most            what is larger is infinite
    """

    alpha: float
    beta: float
    exact: bool = True
    sizes: bool = False
    largest: bool = False
    of_terms: float = 0.0
    of_largest: float = 0.0
    least: float = 0.0
    of_sum: float = 0.0
    of_spread: float = 0.0
    of_size: float = 0.0
    of_size_spread: float = 0.0
    steps: tuple[Step, ...] = ()
    rounding: float = 0.0
    tiny: float = 0.0
    reordering: float = 0.0
    most: float = 0.0


@dataclass(frozen=True)
class Judged:
    """What an executor found.

    elements       of C that it has judged, and how many of them are `wrong`
    worst          the largest error over its bound
    largest_bound  the largest finite bound
    bits           C's elements at the places that were asked for, as they are stored; with their values and bounds
    result         C's storage, where an element is wrong
    """

    elements: int
    wrong: int
    worst: float
    largest_bound: float
    bits: npt.NDArray[np.unsignedinteger[Any]]
    values: Doubles
    bounds: Doubles
    result: npt.NDArray[Any] | None = None
