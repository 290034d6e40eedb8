"""Predicts a kernel's results to the bit, by `dot` in the order of summation that its plan states.

An error bound must allow all rounding of a right kernel. If the order of summation is known, each element of
alpha * sum + beta * C has exactly one right bit pattern, so a missing product shows at any K and in narrow types. With
another epilogue the sum is known exactly, and the bound covers only the few operations after it.

An edited text may sum in another order and be right, unless its user asks for the planned bits. But if `--compute`
promises after how many products sums are added up in f32, the text must keep that promise: it may add them up more
often, not less often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.families import plan_of
from gemmgen.kernel.plan import SumOrder
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import Arch, parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.operands import ACCUMULATORS
from gemmgen.problem.types import Compute, Types
from gemmgen.render.rerender import is_rendered
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.companions import by_rows, factor, group_of, groups_of_rows, unrolled
from gemmgen.verification.comparison import right
from gemmgen.verification.data import make_operands
from gemmgen.verification.linear import alpha_of
from gemmgen.verification.reference import Index, elements_at, epilogue_inputs
from gemmgen.verification.roundings import Bounded, results_of
from gemmgen.verification.situation import Situation
from gemmgen.verification.tensor_core import Codes, dot, fused
from gemmgen.verification.tensor_core_recordings import is_recorded
from gemmgen.verification.window import Window

Mask = npt.NDArray[np.bool_]
Scaled = tuple[int, Floats]  # products along K that share a scale, and the scales of such sums: (elements, sums)

ELEMENTS = 64  # most elements per comparison,
PRODUCTS, F64_PRODUCTS = 2**16, 2**10  # and most products in all; f64 is slow
TF32_CUT = 13  # bits that an f32 has beyond those of a tf32


@dataclass(frozen=True)
class Replayed:
    """The result of a replay: `equal` of the `elements` that were replayed are as planned.

    first  the first element that is not as planned
    order  the plan's order of summation
    """

    elements: int
    equal: int
    first: str | None = None
    order: str = ""


@dataclass(frozen=True)
class Planned:
    """The planned values of some elements of C.

    agrees  a function that says which bit patterns are right
    shown   a function that shows the right pattern, or the range of them, of an element by its number
    """

    agrees: Callable[[Codes], Mask]
    shown: Callable[[int], str]


class Replayer:
    """Compares samples of a kernel's results with its plan, and counts.

    executor  name of the executor; a card's results are judged only if such a card has been recorded
    strict    whether bits other than planned are wrong even in a text that gemmgen does not render
    """

    def __init__(self, source: KernelSource, *, executor: str = "emulator", strict: bool = False) -> None:
        self._source, self._executor, self._strict = source, executor, strict
        self._order, self._arch = order_of(source), parse_arch(source.arch)
        self._elements = self._equal = 0
        self._first: str | None = None

    def places(self, situation: Situation, window: Window) -> Index | None:
        """The elements of C inside `window` that are compared; None if the plan does not predict them."""
        return None if self._order is None or not window.elements else sample(situation, window)

    def compare(self, situation: Situation, got: Codes, at: Index) -> str | None:
        """Compare `got`, the bits of C at places `at` after a run, with the plan; return the error, if any."""
        assert self._order is not None
        planned = replay(self._order, self._arch, situation, at)
        agrees = planned.agrees(got)
        self._elements += len(agrees)
        self._equal += int(agrees.sum())
        if agrees.all():
            return None
        number = int(np.argmin(agrees))
        place = "".join(f"[{int(axis[number])}]" for axis in at)
        trouble = f"C{place} is 0x{int(got[number]):x}, planned {planned.shown(number)}"
        self._first = self._first or f"{trouble}, in {situation}"
        if self._right_orders is None:
            return None
        others = (replay(order, self._arch, situation, at) for order in self._right_orders[1:])
        return None if any(one.agrees(got).all() for one in others) else f"{trouble}, by {self._order}"

    @property
    def replayed(self) -> Replayed | None:
        """The result so far; None if the plan states no order, or if nothing was compared."""
        return Replayed(self._elements, self._equal, self._first, str(self._order)) if self._elements else None

    @cached_property
    def _right_orders(self) -> tuple[SumOrder, ...] | None:
        """The orders in which the text may sum, the planned one first; None if any order may be right."""
        assert self._order is not None
        if self._executor != "emulator" and not is_recorded(self._order.mma, self._arch):
            return None
        if self._strict or is_rendered(self._source):
            return (self._order,)
        return promoting_more_often(self._order) if self._source.problem.types.compute.promotes else None


def promoting_more_often(order: SumOrder) -> tuple[SumOrder, ...]:
    """`order`, and the same order with its interval halved repeatedly, down to the k of one instruction."""
    found = [order]
    while found[-1].promotion >= 2 * order.mma.k:
        found.append(replace(order, promotion=found[-1].promotion // 2))
    return tuple(found)


def order_of(source: KernelSource) -> SumOrder | None:
    """The plan's order of summation; None unless all other arithmetic is known, too."""
    try:
        order = plan_of(source).sums
    except InvalidInput:
        return None  # of no family that is known
    types, epilogue = source.problem.types, source.problem.epilogue
    known = order is not None and (types.accumulator.is_integer or not epilogue.sums)
    return order if known else None


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


def replay(order: SumOrder, arch: Arch, situation: Situation, at: Index, operands: Operands | None = None) -> Planned:
    """The planned values of C at `at` after a launch; `operands` replace A and B of the situation."""
    case, operands = situation.case, operands or make_operands(situation)
    a, b = _lines(case, operands, at)
    depth = case.problem.scaled_depth
    scaled = (depth, _scales_of_sums(case, operands, at)) if depth else None
    total = sums_of(order, arch, case.problem.types, a, b, scaled)
    if case.problem.epilogue.is_linear:
        return _of_bits(case.c.dtype, _linear(situation, total, at))
    totals = [total]
    for matrix in range(1, case.problem.products):
        _, other = _lines(case, operands, (*at[:-1], at[-1] + matrix * case.n))
        totals.append(sums_of(order, arch, case.problem.types, a, other))
    accumulators = dict(zip(ACCUMULATORS, map(Bounded.exact, totals), strict=False))
    sums = {name: _signed_sum(case.problem.types, name, a, b) for name in case.problem.epilogue.sums}
    return _of_range(situation, {**accumulators, **sums}, at)


def sums_of(order: SumOrder, arch: Arch, types: Types, a: Codes, b: Codes, scaled: Scaled | None = None) -> Floats:
    """The sums of products of a and b, given as bits (elements, K), along their last axis, in the accumulator type.

    scaled  what sums are multiplied by as they are promoted, or None
    """
    if types.compute is Compute.TF32 and order.tf32 != "cut":
        a, b = _tf32(a, order.tf32), _tf32(b, order.tf32)
    total = np.zeros(len(a), types.accumulator.numpy)
    with np.errstate(all="ignore"):
        for first, end in order.ranges(a.shape[-1]):
            own = None if scaled is None else (scaled[0], scaled[1][:, first // scaled[0] :])
            part = _range_sum(order, arch, types, a[:, first:end], b[:, first:end], own)
            total = total + part if order.splits > 1 else part
    return total


def _range_sum(order: SumOrder, arch: Arch, types: Types, a: Codes, b: Codes, scaled: Scaled | None = None) -> Floats:
    if not order.promotion:
        return _sum(order, arch, types, a, b)
    total = np.zeros(len(a), types.accumulator.numpy)
    for first in range(0, a.shape[-1], order.promotion):
        at = slice(first, first + order.promotion)
        part = _sum(order, arch, types, a[:, at], b[:, at])
        total = total + part if scaled is None else _multiply_add(scaled[1][:, first // scaled[0]], part, total)
    return total


def _sum(order: SumOrder, arch: Arch, types: Types, a: Codes, b: Codes) -> Floats:
    """The sum by the instruction alone: from 0 on, with zeros up to a whole number of steps; pairs of pieces in
    order."""
    a, b = (np.pad(codes, ((0, 0), (0, -codes.shape[-1] % order.step))) for codes in (a, b))
    dtype = order.mma.accumulator
    codes: Codes = np.zeros(len(a), dtype.bits)
    for of_a, of_b in _pairs(order, a, b):
        codes = dot(order.mma, arch, of_a, of_b, codes)
    return np.asarray(codes.view(dtype.numpy).astype(types.accumulator.numpy))


def _pairs(order: SumOrder, a: Codes, b: Codes) -> list[tuple[Codes, Codes]]:
    if order.pieces is None:
        return [(a, b)]
    bits = order.pieces.dtype.bits
    of_a, of_b = (order.pieces.split(codes.view(np.float32)).view(bits) for codes in (a, b))
    return [(of_a[i], of_b[j]) for i, j in order.pieces.pairs]


def _lines(case: Case, operands: Operands, at: Index) -> tuple[Codes, Codes]:
    """The row of A and the column of B at each place, as bits; `at` indexes C or, with further columns, A * B."""
    if case.problem.inputs.along_k:
        return _lines_of_groups(case, operands, at)
    of_a, of_b = (*at[:-2], at[-2]), (*at[:-2], at[-1])
    if case.problem.coded:
        multiplied = case.problem.types.a
        scaled = multiplied.encode(_scaled_lines(case, operands, at)).view(multiplied.bits)
        return case.a.view(operands.a.view(multiplied.bits))[of_a], scaled
    a, b = case.a.view(operands.a.view(case.a.dtype.bits)), case.b.view(operands.b.view(case.b.dtype.bits))
    if case.problem.inputs.gathered:
        of_a = (operands.extra["index_a"][at[-2]].astype(np.int64),)
    if case.problem.inputs.row_groups:
        of_b = groups_of_rows(operands, at[-2]), at[-1]
    conv, images = case.problem.inputs.conv, case.problem.inputs.images
    lines_a = unrolled(conv, a, at[-2], np.arange(case.k)) if conv and images == "A" else a[of_a]
    lines_b = unrolled(conv, b, np.arange(case.k), at[-1]).T if conv and images == "B" else b.swapaxes(-1, -2)[of_b]
    return lines_a, lines_b


def _lines_of_groups(case: Case, operands: Operands, at: Index) -> tuple[Codes, Codes]:
    """The same of groups along K: of each place its group's k from the first one on, then zeros."""
    group, row, column = at
    begin, depth = _ranges(operands, group)
    k = np.arange(depth.max(initial=0))
    inside = k < depth[:, None]
    places = np.where(inside, begin[:, None] + k, 0)
    a, b = case.a.view(operands.a.view(case.a.dtype.bits)), case.b.view(operands.b.view(case.b.dtype.bits))
    return np.where(inside, a[row[:, None], places], 0), np.where(inside, b[places, column[:, None]], 0)


def _ranges(operands: Operands, group: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the range of K of each group begins, and how long it is."""
    ends = np.concatenate([[0], operands.extra["offs"].astype(np.int64)])
    return ends[group], ends[group + 1] - ends[group]


def _scaled_lines(case: Case, operands: Operands, at: Index) -> Floats:
    """The column of B at each place, of numbers that codes stand for."""
    if not case.problem.inputs.row_groups:
        return np.asarray(factor(case, operands, "B", (slice(None), at[-1])).T)
    found, groups = np.zeros((len(at[-1]), case.k)), groups_of_rows(operands, at[-2])
    for group in np.unique(groups).tolist():
        own = groups == group
        found[own] = factor(case, operands, "B", (slice(group, group + 1), slice(None), at[-1][own]))[0].T
    return found


def _scales_of_sums(case: Case, operands: Operands, at: Index) -> Floats:
    """The scale of each part of K that has one, at each place: of blocks that of A times that of B, rounded."""
    inputs, matrix = case.problem.inputs, case.extra["scales_b"]
    stored = matrix.view(operands.extra["scales_b"])
    lines = stored if inputs.squares else np.swapaxes(stored, -1, -2)
    place = at[-1] // (inputs.block if inputs.squares else 1)
    of_b = lines[groups_of_rows(operands, at[-2]), place] if inputs.row_groups else lines[place]
    if not inputs.blocks:
        starts = group_of(case)[:: case.problem.scaled_depth]
        return np.asarray(matrix.dtype.decode(of_b[:, starts]).astype(np.float32))
    of_a = case.extra["scales_a"].view(operands.extra["scales_a"])[:, at[-2]]
    with np.errstate(all="ignore"):
        return np.asarray(of_a.T * of_b)


def _tf32(codes: Codes, ties: str) -> Codes:
    """Round f32 to tf32 in the upper bits; Inf and NaN stay."""
    half = np.uint32(1 << (TF32_CUT - 1))
    added = half if ties == "away" else half - 1 + (codes >> TF32_CUT & 1)
    return np.where(codes & 0x7FFFFFFF < 0x7F800000, codes + added, codes)


def _linear(situation: Situation, total: Floats, at: Index) -> Floats:
    """alpha * total + beta * C, stored with one rounding."""
    case, types = situation.case, situation.case.problem.types
    operands = make_operands(situation)
    old = by_rows(case, operands, case.c.view(operands.c))[at]
    if types.scalar.is_integer:
        scaled = int(case.alpha) * total.astype(np.int64)
        return types.c.wrap(scaled + (int(case.beta) * old.astype(np.int64) if case.beta else 0)).astype(types.c.numpy)
    real = types.scalar.numpy.type
    with np.errstate(all="ignore"):
        value = _alpha(situation, real(alpha_of(case)), at) * total.astype(real)
        if case.beta != 0:
            value = _multiply_add(real(case.beta), types.c.decode(old).astype(real), value)
        return types.c.encode(value.astype(np.float64))


def _alpha(situation: Situation, alpha: Any, at: Index) -> Any:
    """alpha of each place, where groups along K may have nothing that it scales; else `alpha`."""
    if not situation.case.problem.inputs.along_k:
        return alpha
    _, depth = _ranges(make_operands(situation), at[0])
    return np.where(depth > 0, alpha, np.zeros_like(alpha))


def _multiply_add(a: np.floating[Any] | Floats, b: Floats, c: Floats) -> Floats:
    """a * b + c with one rounding."""
    if c.dtype == np.float64:
        return fused(*(np.broadcast_to(np.asarray(x, np.float64), c.shape) for x in (a, b, c)))
    product, addend = np.asarray(a, np.float64) * b.astype(np.float64), c.astype(np.float64)  # exact
    total = product + addend
    rest = (product - (total - (total - product))) + (addend - (total - product))
    # The part that rounding to doubles took away decides ties of f32: it is kept in the last bit, on the side where it
    # lies.
    inexact = (rest != 0) & np.isfinite(total) & (total.view(np.int64) & 1 == 0)
    towards = np.where(rest > 0, np.inf, -np.inf)
    odd = np.where(inexact, np.nextafter(total, towards), total)
    return np.asarray(odd.astype(np.float32))


def _signed_sum(types: Types, name: str, a: Codes, b: Codes) -> Bounded:
    """The sum of each element's row of A, or column of B, modulo 2^32."""
    codes, dtype = (a, types.a) if name == "row_sum" else (b, types.b)
    return Bounded.exact(DType.S32.wrap(codes.view(dtype.numpy).astype(np.int64).sum(-1)))


def _of_bits(dtype: DType, stored: Floats) -> Planned:
    wanted = stored.view(dtype.bits)
    nan = np.isnan(dtype.decode(stored))  # of whatever payload

    def agrees(got: Codes) -> Mask:
        return np.asarray((got == wanted) | nan & np.isnan(dtype.decode(got.view(dtype.numpy))))

    return Planned(agrees, lambda number: f"0x{int(wanted[number]):x}")


def _of_range(situation: Situation, sums: dict[str, Bounded], at: Index) -> Planned:
    types = situation.case.problem.types
    inputs = {**epilogue_inputs(situation, partial(elements_at, at=at)), **sums}
    if "alpha" in inputs:
        inputs["alpha"] = Bounded.exact(_alpha(situation, inputs["alpha"].value, at))
    c = results_of(situation.case.problem, inputs).c
    value, bound = (np.broadcast_to(x, at[-1].shape) for x in (c.value, c.bound))

    def agrees(got: Codes) -> Mask:
        return right(types, types.c, types.c.decode(got.view(types.c.numpy)), value, bound)

    return Planned(agrees, lambda number: f"{value[number]:.9g}, off by {bound[number]:.3g} at most")
