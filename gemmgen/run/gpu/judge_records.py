"""The records that templates/device/plain/judge.cu takes, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.case import Case
from gemmgen.problem.dtype import DType
from gemmgen.run.judging import Rule

STORAGES = {DType.F32: 0, DType.F64: 1, DType.S32: 2}
BYTE, PAIR = 3, 4  # of other types, whose numbers a table has


@dataclass(frozen=True)
class Known:
    """Addresses of what C is made of and held against; 0 is none.

    product, size  of A * B, and of the product of their magnitudes
    rows, columns  of the largest magnitudes of A's rows and B's columns
    old, result    of C before the launch, and after it
    numbers        of what C's bit patterns stand for
    """

    product: int
    size: int
    rows: int
    columns: int
    old: int
    result: int
    numbers: int


def records(case: Case, rule: Rule, known: Known) -> tuple[npt.NDArray[Any], ...]:
    """What judge.cu calls Known, Rule, Shape and Format, in the order of its fields."""
    c, types = case.c, case.problem.types
    storage = STORAGES.get(c.dtype, PAIR if c.dtype.size == 2 else BYTE)
    whole = types.scalar.is_integer
    shape = (
        *(c.rows, c.cols, case.batch, c.ld, c.stride, storage),
        *(rule.exact, types.accumulator.is_integer, whole, c.dtype == types.scalar, types.uniform or whole),
        *(c.dtype.saturates, c.dtype.is_integer),
    )
    numbers = (
        *(rule.alpha, rule.beta, rule.of_terms, rule.of_largest, rule.least),
        *(rule.of_sum, rule.of_spread, rule.of_size, rule.of_size_spread),
    )
    form = c.dtype.least, c.dtype.largest, c.dtype.precision, c.dtype.min_exponent
    addresses = known.product, known.size, known.rows, known.columns, known.old, known.result, known.numbers
    return (
        np.array(addresses, np.uint64),
        np.array(numbers, np.float64),
        np.array(shape, np.int64),
        np.array(form, np.float64),
    )
