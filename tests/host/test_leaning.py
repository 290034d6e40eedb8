"""Errors that lean to one side: which sums show them, and which right ones must not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.operands import ACCUMULATORS
from gemmgen.problem.types import Types
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.error_bias import different_products, leans
from gemmgen.verification.reference import epilogue_inputs
from gemmgen.verification.roundings import Bounded, apply_epilogue
from gemmgen.verification.situation import Situation

TOWARDS = {"zero": np.zeros_like, "up": lambda x: np.full_like(x, np.inf), "down": lambda x: np.full_like(x, -np.inf)}


def rounded(values, way):
    """float64 as f32: to nearest, or as `way` says."""
    nearest = values.astype(np.float32)
    if way == "nearest":
        return nearest
    over = (
        np.abs(nearest) > np.abs(values) if way == "zero" else nearest > values if way == "down" else nearest < values
    )
    return np.where(over, np.nextafter(nearest, TOWARDS[way](nearest)), nearest)


def sums_of(what, way, scale=1.0):
    """Fused multiply-adds in order of k, each rounded as `way` says, with `scale` times A, rounded to nearest."""
    case, operands = what.case, make_operands(what)
    a, b = (case.tensors[name].view(operands.by_name[name]).astype(np.float64) for name in "AB")
    a = rounded(scale * a, "nearest").astype(np.float64)
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for k in range(case.k):
        total = rounded(total + a[..., :, k, None] * b[..., None, k, :], way)  # in float64 exact but for few last bits
    return total


def summed(what, way, scale=1.0):
    """C of `sums_of`, as they are."""
    result = make_operands(what).c.copy()
    what.case.c.view(result)[...] = sums_of(what, way, scale)
    return result


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("way", TOWARDS)
@pytest.mark.parametrize(("m", "n", "k"), [(96, 96, 24), (24, 32, 120), (3, 5000, 40)])
def test_a_directed_rounding_leans(m, n, k, way, seed):
    what = Situation(Problem(m, n, k).case(), "random", seed)
    compared = compare(what, summed(what, way))
    assert compared.mismatch is None and compared.worst < 1
    assert "where roundings are to nearest" in compared.trouble


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 500), (1, 3, 1), (96, 96, 2), (96, 96, 24), (3, 5000, 40)])
def test_roundings_to_nearest_do_not(m, n, k, seed):
    what = Situation(Problem(m, n, k).case(), "random", seed)
    assert compare(what, summed(what, "nearest")).trouble is None


def test_one_element_of_a_deep_sum_of_one_sign_passes_its_bound():
    for seed, passes in ((0, False), (1, True)):
        what = Situation(Problem(1, 1, 1000).case(), "random", seed)
        assert (compare(what, summed(what, "zero")).mismatch is not None) == passes


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_a_rounding_that_a_row_shares_does_not_lean(k, seed):
    """alpha times A, rounded before it is multiplied."""
    what = Situation(Problem(4, 3000, k).case(alpha=1.2000000476837158), "random", seed)
    assert compare(what, summed(what, "nearest", scale=what.case.alpha)).trouble is None


@pytest.mark.parametrize("seed", range(20))
def test_products_that_are_the_same_count_once(seed):
    case = Problem(1, 1, 9, batch=300, stride_a=0, stride_b=0).case()
    what = Situation(case, "random", seed)
    assert different_products(case) == 1
    assert compare(what, summed(what, "nearest")).trouble is None


def test_pointers_name_products_again():
    problem = Problem(2, 2, 2, batch=100, pointers=True)
    assert different_products(problem.case(different_a=4, different_b=6)) == 12
    assert different_products(problem.case(different_a=4)) == 100
    assert different_products(Problem(2, 2, 2, batch=100, stride_a=0).case()) == 100


@pytest.mark.parametrize(
    ("types", "data", "expected"),
    [
        ("f32", "random", True), ("f64", "random", True), ("f32", "sparse", False), ("f32,bf16,f32", "random", True),
        ("bf16,bf16,f32", "random", False), ("f32_tf32", "random", False), ("f32_bf16x6", "random", False),
        ("f32,f32,bf16", "random", False), ("s8,s8,f32", "random", False), ("s8,s8,s32", "random", False),
    ],
)  # fmt: skip
def test_only_what_is_rounded_to_nearest_must_not_lean(types, data, expected):
    case = Problem(4, 4, 4, types=Types.parse(types)).case()
    assert leans(Situation(case, data, 0), "C") == expected
    assert not leans(Situation(case, data, 0), "aux")


def test_sums_of_rows_are_shared():
    epilogue = parse_epilogue("zero_n")
    assert epilogue.sums and not leans(Situation(Problem(4, 4, 4, epilogue=epilogue).case(), "random", 0), "C")


@pytest.mark.parametrize("epilogue", ["bias+relu", "scale_m+bias+gelu+residual", "swiglu"])
@pytest.mark.parametrize("way", ["nearest", "zero"])
def test_sums_lean_through_an_epilogue(epilogue, way):
    """Not by all data: of large sums below 0 relu leaves nothing."""
    case = Problem(64, 64, 160, epilogue=parse_epilogue(epilogue)).case()
    situations = [Situation(case, "random", seed) for seed in range(4)]
    leaning = [compare(what, through(what, sums_of(what, way).astype(np.float64))).leaning for what in situations]
    assert any(leaning) == (way == "zero")


def through(what, sums):
    """C as the epilogue makes it of `sums`, without an error of its own but that of storing."""
    case = what.case
    names = dict(zip(ACCUMULATORS, np.split(sums, case.problem.products, axis=1), strict=False))
    inputs = {name: Bounded.exact(value) for name, value in names.items()} | epilogue_inputs(what, lambda one: one)
    result = make_operands(what).c.copy()
    case.c.view(result)[...] = apply_epilogue(case.problem.epilogue, inputs, DType.F32).c.value
    return result


def test_the_sums_of_these_tests_are_rounded_as_they_say():
    values = np.array([1 + 2.0**-30, -1 - 2.0**-30, 1 - 2.0**-30])
    for way, wanted in {"nearest": (1, -1, 1), "up": (1 + 2.0**-23, -1, 1), "down": (1, -1 - 2.0**-23, 1 - 2.0**-24),
                        "zero": (1, -1, 1 - 2.0**-24)}.items():  # fmt: skip
        assert [Fraction(float(x)) for x in rounded(values, way)] == [Fraction(x) for x in wanted]
