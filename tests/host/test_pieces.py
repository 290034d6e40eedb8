"""Operands of f32 as sums of pieces: what these hold, how kernels lay them out, and how exact their products are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.kernel.families import WGMMA
from gemmgen.kernel.plan import SumOrder
from gemmgen.problem.device import parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import BF16X6_PIECES, PROMOTION, Compute, Types
from gemmgen.problem.wgmma import Wgmma
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.replay import split, sums_of
from gemmgen.verification.tensor_bound import tensor_bound

TYPES = Types.parse("f32", Compute.BF16X6)
SMALLEST, LARGEST = DType.BF16.smallest, DType.BF16.largest
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def pieces_of(*numbers: float) -> list[list[float]]:
    """By number."""
    codes = np.array(numbers, np.float32).view(np.uint32)
    found = [DType.BF16.decode(piece.view(DType.BF16.numpy)) for piece in split(BF16X6_PIECES, codes)]
    return np.array(found).T.tolist()


@given(FLOATS)
def test_pieces_add_up_to_the_number(number: float) -> None:
    """Each at most half a unit of the one before; below 2^-110 to half of bf16's least number."""
    (pieces,) = pieces_of(number)
    assert abs(sum(pieces) - number) <= (0 if abs(number) >= 2.0**-110 else SMALLEST / 2)
    assert (pieces[0] == 0) == (number == 0) and np.copysign(1, pieces[0]) == np.copysign(1, number)
    if SMALLEST <= abs(number) <= LARGEST:
        assert abs(pieces[1]) <= max(abs(number) * 2.0**-8, SMALLEST)


def test_pieces_of_numbers_at_the_ends_of_the_range() -> None:
    largest = float(np.finfo(np.float32).max)
    first, *others = pieces_of(largest)[0]
    assert first == LARGEST and sum(others) == largest - LARGEST  # the first one saturates
    assert pieces_of(2.0**-140, -(2.0**-149)) == [[SMALLEST, -SMALLEST, 0.0], [-SMALLEST, SMALLEST, 0.0]]
    infinite, negative, nan = pieces_of(np.inf, -np.inf, np.nan)
    assert infinite == [SMALLEST, 0.0, np.inf] and negative == [-SMALLEST, 0.0, -np.inf]
    assert nan[:2] == [SMALLEST, 0.0] and np.isnan(nan[2])


def test_pieces_of_an_operand_lie_one_behind_the_other() -> None:
    problem = Problem(100, 52, 300, types=TYPES, layout="cr", batch=2)
    launch = WGMMA.plan(problem, WGMMA.default(problem)).launch
    of_a, of_b = (one.matrix(problem.case()) for one in launch.prepares)
    assert (of_a.dtype, of_a.order, of_a.ld, of_a.batch, of_a.stride) == (DType.BF16, "c", 104, 6, 300 * 104)
    assert (of_b.order, of_b.ld, of_b.batch, of_b.stride) == ("r", 56, 6, 300 * 56)
    assert launch.workspace(problem.case()).lengths["prepared_a"] == 2 * 6 * 300 * 104
    assert [len(one.box) for one in launch.maps] == [3, 3, 3]


def test_only_f32_is_split() -> None:
    assert TYPES.token == "f32_bf16x6" and Types.from_token("f32_bf16x6") == TYPES
    assert TYPES.factors == (DType.BF16, DType.BF16) and Types.parse("f32").factors == (DType.F32, DType.F32)
    with pytest.raises(InvalidInput, match="A of bf16: bf16x6 multiplies f32"):
        Types.parse("bf16", Compute.BF16X6)


def test_the_bound_is_that_of_f32_but_for_tiny_numbers() -> None:
    sums = np.array([[0.0, 1e30]])
    assert tensor_bound(TYPES, 300, 300, sums, sums, np.zeros((1, 1))).tolist() == [[300 * SMALLEST] * 2]


@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_sums_are_at_least_as_exact_as_those_of_ffmas(low: float) -> None:
    """One after the other, as a kernel without split-K does, of the same numbers."""
    rng, depth = np.random.default_rng(1), 4096
    a, b = rng.uniform(low, 1, (2, 64, depth)).astype(np.float32)
    exact, size = (a.astype(float) * b).sum(-1), np.abs(a.astype(float) * b).sum(-1)
    chain = np.zeros(len(a), np.float32)
    for k in range(depth):
        chain = (chain + a[:, k].astype(float) * b[:, k]).astype(np.float32)
    order = SumOrder(Wgmma(128, DType.BF16, DType.BF16, DType.F32), 64, promotion=PROMOTION, pieces=BF16X6_PIECES)
    ours = sums_of(order, parse_arch("sm_90a"), TYPES, a.view(np.uint32), b.view(np.uint32))
    of_ours, of_chain = (float((np.abs(one - exact) / size).max() * 2**24) for one in (ours, chain))
    print(f"in [{low:g}, 1]: {of_ours:.2g} of bf16x6, {of_chain:.2g} of FFMAs, in units of 2^-24")
    assert of_ours < of_chain / 3
