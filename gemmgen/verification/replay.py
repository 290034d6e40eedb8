"""A kernel's results to the bit, from its plan: `dot` in the order in which the plan says that it sums.

A bound has to let through what a right kernel may round. Where the order of a sum is known, every element has one right
bit pattern, and a product that is missing shows at any K, in types of few bits, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.families import plan_of
from gemmgen.kernel.plan import SumOrder
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.case import Case
from gemmgen.problem.device import Arch, parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.tensor_core import Codes, dot, fused
from gemmgen.verification.window import Window

Index = tuple[npt.NDArray[np.int64], ...]  # of some elements of C: (matrix of the batch,) row, column

ELEMENTS = 64  # of a comparison, at most,
PRODUCTS, F64_PRODUCTS = 2**16, 2**10  # and so many products in all; those of f64 are slow


@dataclass(frozen=True)
class Replayed:
    """How many of the elements that were replayed have the bits which the plan says.

    first  the first that has not
    """

    elements: int
    equal: int
    first: str | None = None


class Replayer:
    """Holds samples of what a kernel computes against its plan, and counts."""

    def __init__(self, source: KernelSource) -> None:
        self._order, self._arch = order_of(source), parse_arch(source.arch)
        self._elements = self._equal = 0
        self._first: str | None = None

    def compare(self, situation: Situation, result: Floats, window: Window) -> None:
        """Some elements of C, as it is in storage after a run, inside `window`."""
        if self._order is None or not window.elements:
            return
        case, at = situation.case, sample(situation, window)
        planned = replay(self._order, self._arch, case, make_operands(situation), at)
        got = case.c.view(result.view(case.c.dtype.bits))[at]
        same = (got == planned) | _both_nan(case.c.dtype, got, planned)
        self._elements += len(same)
        self._equal += int(same.sum())
        if self._first is None and not same.all():
            self._first = _shown(situation, at, got, planned, int(np.argmin(same)))

    @property
    def replayed(self) -> Replayed | None:
        """None where the plan says nothing, or nothing was compared."""
        return Replayed(self._elements, self._equal, self._first) if self._elements else None


def order_of(source: KernelSource) -> SumOrder | None:
    """What the plan says of sums, where the rest of the arithmetic is known, too: alpha * sum + beta * C in floats."""
    try:
        order = plan_of(source).sums
    except InvalidInput:
        return None  # of no family that is known
    types = source.problem.types
    whole = order is not None and (order.mma.a, order.mma.b) == (types.a, types.b) and types.a is not DType.F32
    return order if whole and source.problem.epilogue.is_linear and not types.accumulator.is_integer else None


def sample(situation: Situation, window: Window) -> Index:
    """Some elements inside `window`, by the situation's seed."""
    case = situation.case
    most = (F64_PRODUCTS if case.problem.types.a is DType.F64 else PRODUCTS) // max(case.k, 1)
    rng = np.random.default_rng(situation.seed)
    spans = [(window.top, window.bottom), (window.left, window.right)]
    if case.problem.batched:
        spans.insert(0, (window.matrices[0].start, window.matrices[0].stop))
    count = max(1, min(ELEMENTS, most, window.elements))
    return tuple(rng.integers(first, end, count) for first, end in spans)


def replay(order: SumOrder, arch: Arch, case: Case, operands: Operands, at: Index) -> Codes:
    """The bits of C at `at`: `case`'s alpha * sum + beta * C, stored with one rounding."""
    real = np.float64 if order.mma.a is DType.F64 else np.float32
    a, b = _lines(case, operands, at)
    total = np.zeros(len(a), real)
    with np.errstate(all="ignore"):
        for number, (first, end) in enumerate(order.ranges(case.k)):
            part = _sum(order, arch, a[:, first:end], b[:, first:end]).astype(real)
            total = total + part if number else part
        value = real(case.alpha if case.k or not case.problem.epilogue.alpha_scales_acc else 0.0) * total
        if case.beta != 0:
            old = case.c.dtype.decode(case.c.view(operands.c)[at])
            value = _multiply_add(real(case.beta), old.astype(real), value)
        stored = case.c.dtype.encode(value.astype(np.float64))
    return np.asarray(stored.view(case.c.dtype.bits))


def _lines(case: Case, operands: Operands, at: Index) -> tuple[Codes, Codes]:
    """The row of A and the column of B that make each element, as bits."""
    of_a, of_b = (*at[:-2], at[-2]), (*at[:-2], at[-1])
    a, b = case.a.view(operands.a.view(case.a.dtype.bits)), case.b.view(operands.b.view(case.b.dtype.bits))
    return a[of_a], np.swapaxes(b, -1, -2)[of_b]


def _sum(order: SumOrder, arch: Arch, a: Codes, b: Codes) -> Floats:
    """Of a range: from 0 on, with zeros up to a whole number of steps."""
    a, b = (np.pad(codes, ((0, 0), (0, -codes.shape[-1] % order.step))) for codes in (a, b))
    dtype = order.mma.accumulator
    return dot(order.mma, arch, a, b, np.zeros(len(a), dtype.bits)).view(dtype.numpy)


def _multiply_add(a: np.floating[Any], b: Floats, c: Floats) -> Floats:
    """a * b + c with one rounding."""
    if c.dtype == np.float64:
        return fused(*(np.broadcast_to(np.asarray(x, np.float64), c.shape) for x in (a, b, c)))
    product, addend = np.float64(a) * b.astype(np.float64), c.astype(np.float64)  # exact
    total = product + addend
    rest = (product - (total - (total - product))) + (addend - (total - product))
    # What rounding to doubles took away decides ties of f32: it stays as the last bit, towards where it lies.
    inexact = (rest != 0) & np.isfinite(total) & (total.view(np.int64) & 1 == 0)
    towards = np.where(rest > 0, np.inf, -np.inf)
    odd = np.where(inexact, np.nextafter(total, towards), total)
    return np.asarray(odd.astype(np.float32))


def _both_nan(dtype: DType, got: Codes, planned: Codes) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isnan(dtype.decode(got.view(dtype.numpy))) & np.isnan(dtype.decode(planned.view(dtype.numpy))))


def _shown(situation: Situation, at: Index, got: Codes, planned: Codes, number: int) -> str:
    place = "".join(f"[{int(axis[number])}]" for axis in at)
    return f"C{place} is 0x{int(got[number]):x}, planned 0x{int(planned[number]):x}, in {situation}"
