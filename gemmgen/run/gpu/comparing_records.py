"""The records that templates/device/plain/judge.cu takes, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.run.acceptance import FUNCTION_STEPS, STEPS, Rule

STORAGES = {DType.F32: 0, DType.F64: 1, DType.S32: 2}
BYTE, PAIR = 3, 4  # of other types, whose numbers a table has
OPERAND = np.dtype([(name, np.int64) for name in ("first", "numbers", "storage", "row", "column", "matrix")])
STEP = np.dtype(
    [
        *((name, np.int64) for name in ("operation", "first", "count", "operand", "of_x")),
        *((name, np.float64) for name in ("value", "bound")),
    ]
)


@dataclass(frozen=True)
class Known:
    """Addresses of the inputs of C and of what it is compared with; 0 if absent.

    product, size  A * B, with all columns of B, and the product of their magnitudes
    rows, columns  the largest magnitudes of A's rows and B's columns
    old, result    C before the launch, and after it
    numbers        the value of each bit pattern of C's type
    operands       the operands that an epilogue's steps read, including C, by name: (the first element, the value of
                   each bit pattern of its type)
    """

    product: int
    size: int
    rows: int
    columns: int
    old: int
    result: int
    numbers: int
    operands: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def records(case: Case, rule: Rule, known: Known) -> tuple[npt.NDArray[Any], ...]:
    """The records that judge.cu calls Known, Rule, Shape, Format, Operands, Steps and `of`, in the order of its
    fields."""
    c, types = case.c, case.problem.types
    whole = types.scalar.is_integer
    shape = (
        *(c.rows, c.cols, case.batch, c.ld, c.stride, _storage(c.dtype)),
        *(rule.exact, types.accumulator.is_integer, whole, c.dtype == types.scalar, types.uniform or whole),
        *(c.dtype.saturates, c.dtype.is_integer, len(rule.steps), case.problem.products),
    )
    numbers = (
        *(rule.alpha, rule.beta, rule.of_terms, rule.of_largest, rule.least),
        *(rule.of_sum, rule.of_spread, rule.of_size, rule.of_size_spread),
        *(rule.rounding, rule.tiny, rule.reordering, rule.most),
    )
    form = c.dtype.least, c.dtype.largest, c.dtype.precision, c.dtype.min_exponent
    addresses = known.product, known.size, known.rows, known.columns, known.old, known.result, known.numbers
    return (
        np.array(addresses, np.uint64),
        np.array(numbers, np.float64),
        np.array(shape, np.int64),
        np.array(form, np.float64),
        *_epilogue(case, rule, known),
    )


def _storage(dtype: DType) -> int:
    return STORAGES.get(dtype, PAIR if dtype.size == 2 else BYTE)


def _epilogue(case: Case, rule: Rule, known: Known) -> Iterator[npt.NDArray[Any]]:
    """Operands, Steps and the steps whose results these take; if nothing reads them, an array of one."""
    names, operands, steps = list(known.operands), [], []
    taken: list[int] = []
    for name, (address, numbers) in known.operands.items():
        matrix = case.tensors[name]
        across = matrix.ld if matrix.rows > 1 else 0, int(matrix.cols > 1), matrix.stride
        operands.append((address, numbers, _storage(matrix.dtype), *across))
    for step in rule.steps:
        operation = (*STEPS, *FUNCTION_STEPS).index(step.name)
        operand = names.index(step.operand) if step.operand else 0
        steps.append((operation, len(taken), len(step.of), operand, step.of_x, step.value, step.bound))
        taken += step.of
    yield np.array(operands, OPERAND) if operands else np.zeros(1, OPERAND)
    yield np.array(steps, STEP) if steps else np.zeros(1, STEP)
    yield np.array(taken or [0], np.int64)
