"""One-hot data: one operand selects, and the other has a different number for each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.run.executor import Floats
from gemmgen.verification.situation import Side

CODES = 1_048_573  # different ones: a prime number below 2^20, so that no line has the codes of another
CODE_MULTIPLIER = 0x9E3779B1 % 2**20  # odd, so that no two of 2^20 numbers have the same product modulo 2^20


def selection(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """Zeros with a 1 in each row of A, or column of B; every k is selected if there are enough rows."""
    if len(shape) > 2:
        return np.stack([selection(name, shape[1:], rng) for _ in range(shape[0])])
    rows, cols = shape
    selected = np.zeros(shape, np.int8)
    if name == "A":
        selected[np.arange(rows), rng.permutation(cols)[np.arange(rows) % cols]] = 1
    else:
        selected[rng.permutation(rows)[np.arange(cols) % rows], np.arange(cols)] = 1
    return selected


def codes(shape: tuple[int, ...], dtype: DType, digit: int) -> npt.NDArray[Any]:
    """A number for each element, in row order.

    f32 and f64 have odd numbers of 22 bits, so that no rounding keeps them; every other one has a further high bit,
    which only f64 can hold as well. The sum of two of them, each times two, is exact. Narrower types have all finite
    bit patterns in turn, including -0 and denormals: they are the lowest digit of the element's index, or the next one.
    """
    count = math.prod(shape)
    if dtype.storage_bits <= 16:
        finite = dtype.finite()
        times = len(finite) ** digit
        return np.repeat(np.resize(finite, -(-count // times)), times)[:count].reshape(shape)
    index = np.arange(count).reshape(shape) % CODES
    odd = _odd(index, bits=22)
    return odd + index % 2 * 2 ** (dtype.precision - 3) if dtype == DType.F64 else odd


def _odd(index: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
    """An odd number of `bits` bits for each index below CODES."""
    leading = 1 << (bits - 1)
    return np.asarray(leading + (2 * index * CODE_MULTIPLIER % leading | 1))


def code_fully(name: str, view: Floats, side: Side) -> None:
    """Codes of f32 that need all of its bits, in every other row or column of results. C is 0 there."""
    lines = (..., slice(1, None, 2), slice(None)) if side == "B" else (..., slice(1, None, 2))
    index = np.arange(view.size).reshape(view.shape)[lines] % CODES
    view[lines] = 0 if name == "C" else _odd(index, DType.F32.precision)
