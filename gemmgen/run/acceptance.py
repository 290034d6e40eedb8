"""The acceptance rule for each element of a large C, as numbers: an executor checks C against it in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.operands import ACCUMULATORS

Doubles = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]  # of elements of C, counted row by row


# The operation of a step, by its place here, followed by functions. templates/device/plain/judge.cu has the same list.
STEPS = (
    *("constant", *ACCUMULATORS, "operand", "+", "negated", "*", "/"),
    *("float", "int +", "int -", "int *", "int negated"),
)
FUNCTION_STEPS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "erf", "exp", "abs", "min", "max", "clamp")
MOST_STEPS = 48  # of an epilogue: the results of all are kept


@dataclass(frozen=True)
class Step:
    """One operation of an epilogue, on numbers and their error bounds; see gemmgen.verification.epilogue_steps.

    name     the operation's name in STEPS or FUNCTION_STEPS
    of       the numbers of the steps whose results it takes: any number of terms for "+"
    value    a constant's value; for a function its relative error, of the result or, with `of_x`, of the argument
    bound    a constant's error bound; for a function its absolute error
    operand  the name of the operand that it reads: C or one of the epilogue's
    """

    name: str
    of: tuple[int, ...] = ()
    value: float = 0.0
    bound: float = 0.0
    operand: str = ""
    of_x: bool = False


@dataclass(frozen=True)
class Rule:
    """The rule C = alpha * A * B + beta * C, with this error bound for each element before it is stored:

        of_terms * (|alpha| size + |beta C|) + of_largest * largest + least
        + of_sum * |sum| + of_spread * spread + min(of_size * size, of_size_spread * spread)

    sum and size are elements of A * B and of |A| * |B|, largest is the largest finite |A| of a row times that of B's
    column, and spread = min(size, sqrt(largest * size)). A result that is not finite must be exact.

    exact    whether every element must be exact
    sizes    whether `size` is needed; else |sum| takes its place
    largest  whether `largest` is needed; else it is 0
    steps    the steps of an epilogue: the last one's result is C's element. Then alpha is 1 and beta 0, and the bound
             above applies to each accumulator

    rounding, tiny  a step's error bound: `rounding` times its result's magnitude, plus `tiny`
    reordering      the further error of a sum of n > 2 terms: n - 2 times this, times the largest partial sum
    most            the largest finite value of the type
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
    """The findings of an executor about C.

    elements       the number of elements of C that it has judged; `wrong` counts the wrong ones
    worst          the largest error over its bound
    largest_bound  the largest finite bound
    bits           C's elements as stored at the requested places; `values` and `bounds` are what they should be
    result         C's storage, if an element is wrong
    """

    elements: int
    wrong: int
    worst: float
    largest_bound: float
    bits: npt.NDArray[np.unsignedinteger[Any]]
    values: Doubles
    bounds: Doubles
    result: npt.NDArray[Any] | None = None
