"""Gated epilogues: several products of A, with matrices that lie side by side in B, and what becomes of them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.exports.json_records import problem_document
from gemmgen.exports.record_reading import problem_from
from gemmgen.families import FAMILIES, NAIVE, WGMMA
from gemmgen.families.base import check, first_rejection
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import full_name, parse_name
from gemmgen.run.gpu.lt_epilogue import LEFT, baseline_words, epilogue_apart, product_before
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.data import make_operands
from gemmgen.verification.device_products import products_by
from gemmgen.verification.products import all_products, of_each_matrix
from gemmgen.verification.reference import expected
from gemmgen.verification.roundings import Bounded, apply_epilogue
from gemmgen.verification.situation import Situation
from gemmgen.verification.window import Window

THREE = "sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)"
SWIGLU = Problem(None, None, None, "bf16", "rc", epilogue="swiglu")
LIMITS = ARCHS["sm_90"].limits


def sigmoid(x):
    return 1 / (1 + np.exp(np.minimum(-x, 700.0)))


def silu(x):
    return x * sigmoid(x)


@pytest.mark.parametrize(
    ("forms", "expression"),
    [
        ("swiglu", "silu(acc) * acc2"),
        ("geglu", "gelu(acc) * acc2"),
        ("swiglu+residual", "silu(acc) * acc2 + residual"),
        ("geglu+aux+relu", "relu(aux(gelu(acc) * acc2))"),
        ("lstm", "sigmoid(acc4) * tanh(aux(sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)))"),
        ("lstm+row_amax", "row_amax(sigmoid(acc4) * tanh(aux(sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3))))"),
    ],
)
def test_forms_and_expressions_are_the_same(forms, expression):
    epilogue = parse_epilogue(forms)
    assert epilogue == parse_epilogue(expression)
    products = max(int(number or 1) for number in re.findall(r"\bacc(\d?)\b", expression))
    assert (epilogue.token, epilogue.products) == (forms.replace("+", "_"), products)
    problem = replace(SWIGLU, epilogue=epilogue)
    assert parse_name(full_name(problem, WGMMA, WGMMA.default(problem)))[0] == problem
    assert problem_from(problem_document(problem)) == problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bias+swiglu", "swiglu stands behind others in 'bias\\+swiglu', and it begins"),
        ("silu(acc2)", "leaves out acc, the product of A and B1"),
        ("acc + acc3", "leaves out acc2, the product of A and B2"),
        ("acc * acc2 - acc4", "leaves out acc3, the product of A and B3"),
        ("acc + acc5", "'acc5' is no name here: known are acc, acc2, acc3, acc4, row_sum"),
        ("lstm+aux", "writes aux 2 times"),
        ("acc * acc2 - row_sum", "takes row_sum, which go with one product, and acc2"),
        ("acc * acc2 * acc3 - K * column_sum", "takes column_sum, which go with one product, and acc3"),
    ],
)
def test_what_is_no_gated_epilogue_is_told(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse_epilogue(text)


def test_b_has_twice_the_columns_of_c():
    rows, lines = (Problem(32, 48, 64, "bf16", layout, epilogue="swiglu") for layout in ("rr", "rc"))
    assert [(one.sizes["ldb"], one.case().b.lines, one.case().b.cols) for one in (rows, lines)] == [
        (96, 64, 96),
        (64, 96, 96),
    ]
    plain = replace(rows, epilogue=parse_epilogue("silu"))
    assert rows.case().flops == 2 * plain.case().flops
    assert rows.case().bytes_moved - plain.case().bytes_moved == 64 * 48 * 2
    batch = replace(rows, batch=3).case()
    assert batch.stride_b == 64 * 96
    with pytest.raises(InvalidInput, match="ldb = 95 is shorter than a line of 96 elements"):
        replace(rows, ldb=95)
    with pytest.raises(InvalidInput, match=f"B has {2 * (SIZE_LIMIT // 2 + 1)} columns, which exceeds {SIZE_LIMIT}"):
        Problem(1, SIZE_LIMIT // 2 + 1, 1, "bf16", "rc", epilogue="swiglu")


@pytest.mark.parametrize(("epilogue", "products"), [(THREE, 3), ("lstm", 4)])
def test_b_has_as_many_matrices_as_there_are_accumulators(epilogue, products):
    rows, lines = (Problem(32, 48, 64, "bf16", layout, epilogue=epilogue) for layout in ("rr", "rc"))
    assert (rows.sizes["ldb"], rows.case().b.cols, lines.case().b.lines) == (48 * products,) * 3
    plain = replace(
        rows, epilogue=parse_epilogue("silu(acc) * residual + aux(1)" if products == 4 else "acc * residual")
    )
    assert rows.case().flops == products * plain.case().flops
    assert rows.case().bytes_moved - plain.case().bytes_moved == (products - 1) * 64 * 48 * 2
    most = SIZE_LIMIT // products
    with pytest.raises(InvalidInput, match=f"B has {products * (most + 1)} columns, which exceeds {SIZE_LIMIT}"):
        Problem(1, most + 1, 1, "bf16", "rc", epilogue=epilogue)
    text = render(rows, NAIVE, NAIVE.default(rows)).text
    assert f"acc{products} = A * B{products}" in text and "acc5" not in text


def test_families_compute_it_or_say_why_not():
    for name, family in FAMILIES.items():
        problem = replace(SWIGLU, batch=None, m=16, n=16, k=16) if family.small_batches else SWIGLU
        if family in (NAIVE, WGMMA):
            check(family, problem, family.default(problem), LIMITS)
            continue
        with pytest.raises(InvalidInput, match="acc2, the sums of a second product, are for wgmma and naive"):
            check(family, problem, family.default(problem), LIMITS)
        with pytest.raises(InvalidInput, match="PRODUCTS == 1 fails \\(PRODUCTS = 4\\)"):
            check(family, replace(problem, epilogue=parse_epilogue("lstm")), family.default(problem), LIMITS)
        plain = replace(problem, epilogue=parse_epilogue("silu"))
        rejection = first_rejection(family, plain, family.default(plain), LIMITS)
        assert rejection is None or "PRODUCTS" not in str(rejection), name


@pytest.mark.parametrize("epilogue", [THREE, "lstm"])
@pytest.mark.parametrize("types", ["bf16", "f16_f16acc", "e4m3,e4m3,bf16_promoted"])
def test_wgmma_takes_three_products_and_four_by_default(epilogue, types):
    problem = Problem(None, None, None, layout="rc", types=Types.parse(types), epilogue=epilogue)
    config = WGMMA.default(problem)
    check(WGMMA, problem, config, LIMITS)
    assert WGMMA.plan(problem, config).mma.n == problem.products * config.BN


def test_an_instruction_has_the_columns_of_all_products():
    with pytest.raises(InvalidInput, match="an instruction multiplies the columns of all products"):
        check(WGMMA, SWIGLU, WGMMA.default(SWIGLU).with_values(BN=256), LIMITS)
    plan = WGMMA.plan(SWIGLU, WGMMA.default(SWIGLU))
    assert (plan.tile, plan.mma.n) == ((128, 128), 256)
    plain = replace(SWIGLU, epilogue=parse_epilogue("silu"))
    other = WGMMA.plan(plain, WGMMA.default(plain))
    assert (plan.work.outputs, plan.shared_bytes) == (other.work.outputs, other.shared_bytes)


def test_integers_of_all_products_have_a_multiple_of_16_columns():
    problem = Problem(None, None, None, layout="rc", types=Types.parse("u8,s8,bf16"), epilogue=THREE)
    config = WGMMA.default(problem)
    check(WGMMA, problem, config, LIMITS)
    with pytest.raises(InvalidInput, match="wgmma of integers has multiples of 16 columns"):
        check(WGMMA, problem, config.with_values(BN=24), LIMITS)


@pytest.mark.parametrize("types", ["f32", "bf16", "f64", "s8,s8,bf16"])
@pytest.mark.parametrize("batch", [1, 2])
def test_the_reference_gates_one_product_by_the_other(types, batch):
    case = Problem(9, 7, 20, layout="rc", types=Types.parse(types), batch=batch, epilogue="swiglu").case()
    situation = Situation(case, "random", 4)
    operands = make_operands(situation)
    a, b = case.a.dtype.decode(case.a.view(operands.a)), case.b.dtype.decode(case.b.view(operands.b))
    gate, up = a @ b[..., :7], a @ b[..., 7:]
    whole, bound = expected(situation, Window.whole(case))
    assert (np.abs(whole - silu(gate) * up) <= bound + 1e-12 * np.abs(whole)).all()
    part = Window(2, 3, 8, 6, 0, None if batch == 1 else 1)
    np.testing.assert_allclose(expected(situation, part)[0], whole[part.index], rtol=1e-12)
    wrong = [silu(up) * gate, silu(gate) * gate, silu(gate) * silu(up), silu(gate) + up]
    assert all((np.abs(whole - other) > bound).any() for other in wrong)


@pytest.mark.parametrize("types", ["f32", "bf16", "f64", "s8,s8,bf16"])
@pytest.mark.parametrize("batch", [1, 2])
def test_the_reference_computes_an_lstms_states(types, batch):
    problem = Problem(9, 7, 20, layout="rr", types=Types.parse(types), batch=batch, epilogue="lstm")
    situation = Situation(problem.case(), "random", 4)
    case, operands = situation.case, make_operands(situation)
    a, b = case.a.dtype.decode(case.a.view(operands.a)), case.b.dtype.decode(case.b.view(operands.b))
    forget, take, new, out = np.split(a.astype(np.float64) @ b, 4, axis=-1)
    old = case.extra["residual"].view(operands.extra["residual"])

    def states(forget, take, new, out):
        state = sigmoid(forget) * old + sigmoid(take) * np.tanh(new)
        return {"aux": state, "C": sigmoid(out) * np.tanh(state)}

    for name, right in states(forget, take, new, out).items():
        whole, bound = expected(situation, Window.whole(case), name)
        assert (np.abs(whole - right) <= bound + 1e-12 * np.abs(whole)).all()
        swapped = states(take, forget, new, out), states(forget, take, take, out)
        assert all((np.abs(whole - other[name]) > bound).any() for other in swapped)


@pytest.mark.parametrize("epilogue", ["geglu", THREE, "lstm"])
def test_products_of_an_executor_are_divided_among_the_matrices(epilogue):
    case = Problem(9, 7, 33, "bf16", "rr", batch=2, epilogue=epilogue).case()
    situation = Situation(case, "random", 5)

    def multiply(case, operands, *, seed, sizes, largest):
        a, b = (one.dtype.decode(one.view(flat)) for one, flat in ((case.a, operands.a), (case.b, operands.b)))
        return a @ b, np.abs(a) @ np.abs(b), np.zeros(())

    made = of_each_matrix(case, products_by(multiply, situation))
    wanted = all_products(case, "random", 5, Window.whole(case))
    assert len(made) == len(wanted) == case.problem.products
    for ours, theirs in zip(made, wanted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_infinity_times_a_gate_that_may_vanish_is_in_doubt():
    """In f32 sigmoid(-200) is 0, and 0 times infinity NaN; in float64 it is not."""
    acc = Bounded(np.array([-200.0, 3.0, -np.inf, 2.0, 1.0]), np.zeros(5))
    acc2 = Bounded.exact(np.array([np.inf, np.inf, 1.0, np.nan, 1.0]))
    inputs = {"acc": acc, "acc2": acc2, "residual": Bounded.exact(1.0), "bias_n": Bounded.exact(0.1)}
    for text in ("swiglu+residual", "swiglu+residual+bias"):  # two terms, and three in any order
        result = apply_epilogue(parse_epilogue(text), inputs, DType.F32).c
        np.testing.assert_array_equal(result.doubtful, [True, False, False, False, False])
        np.testing.assert_array_equal(result.value[1:-1], [np.inf, np.nan, np.nan])


def test_what_may_overflow_leaves_gelu_in_doubt():
    near = Bounded(np.array([-3e38, -3.0, 3e38]), np.array([1e38, 0.1, 0.0]))
    most = apply_epilogue(parse_epilogue("acc + acc"), {"acc": near}, DType.F32).c
    np.testing.assert_array_equal(most.may_overflow | np.isinf(most.value), [True, False, True])
    maybe = Bounded(np.array([-3e38, -3.0]), np.array([np.inf, 0.1]))
    for text in ("gelu(acc)", "acc * residual", "acc - acc"):
        result = apply_epilogue(parse_epilogue(text), {"acc": maybe, "residual": Bounded.exact(0.0)}, DType.F32).c
        np.testing.assert_array_equal(result.doubtful, [True, False])
    assert not apply_epilogue(parse_epilogue("relu(acc) * 2"), {"acc": maybe}, DType.F32).c.doubtful.any()


def test_the_baseline_is_one_product_of_all_columns_and_a_kernel_behind_it():
    problem = Problem(64, 48, 32, "bf16", "rc", ldb=40, batch=3, epilogue="swiglu")
    before = product_before(problem.case())
    assert (before.m, before.n, before.k, before.ldb, before.ldc) == (64, 96, 32, 40, 96)
    assert before.problem.epilogue.is_linear and before.stride_b == problem.case().stride_b
    assert baseline_words(problem) == " and a kernel behind it"
    source = epilogue_apart(problem)
    assert [one.name for one in source.parameters] == ["A", "B", "C", LEFT]
    assert "left[0], acc2 = left[s.N];" in source.text
    lstm = replace(problem, epilogue=parse_epilogue("lstm"))
    assert product_before(lstm.case()).n == 4 * 48
    assert "left[0], acc2 = left[s.N], acc3 = left[2 * s.N], acc4 = left[3 * s.N];" in epilogue_apart(lstm).text


def test_a_plain_kernel_says_nothing_of_a_second_product():
    for family in (NAIVE, WGMMA):
        plain = replace(SWIGLU, epilogue=parse_epilogue("silu"))
        text = render(plain, family, family.default(plain)).text
        assert "acc2" not in text and "sums2" not in text
