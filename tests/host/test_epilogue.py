"""The epilogue's tree: what it parses from and to, its CUDA text, and that its error bound holds and is no excuse."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import LINEAR, Epilogue, epilogue_of_token, parse_epilogue
from gemmgen.problem.functions import FUNCTIONS, Function, function_named
from gemmgen.problem.gemm import Problem
from gemmgen.problem.nodes import Binary, Call, Name, Negation, Number
from gemmgen.problem.operands import OPERANDS, SCALARS
from gemmgen.problem.parser import parse
from gemmgen.problem.types import Types
from gemmgen.render.epilogue_text import epilogue_text
from gemmgen.run.gpu.lt_epilogue import LEFT, baseline_words, epilogue_apart, left_apart, own_epilogue, product_before
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import TEMPLATES
from gemmgen.verification.reference import expected, expected_amax
from gemmgen.verification.roundings import Bounded, apply_epilogue
from gemmgen.verification.situation import Situation
from gemmgen.verification.window import Window

READ = tuple(name for name, operand in OPERANDS.items() if not operand.written)
SUMS = (DType.F32, DType.F64)  # what kernels compute epilogues in
UNARY = tuple(name for name, function in FUNCTIONS.items() if len(function.parameters) == 1)
NAMES = {"alpha": "e.alpha", "beta": "e.beta", "C": "c"}

numbers = st.sampled_from([0.0, 1.0, 2.0, 0.5, -1.75, 3.0, 1e-3]).map(Number)
leaves = st.one_of(st.sampled_from(["acc", *SCALARS, *READ]).map(Name), numbers)


def grown(part):
    """Trees of one operation more, in the form that the parser gives them."""
    unary = st.builds(lambda name, x: Call(name, (x,)), st.sampled_from(UNARY), part)
    clamp = st.builds(lambda x: Call("clamp", (x, Number(-1.0), Number(2.5))), part)
    pair = st.builds(lambda name, x, y: Call(name, (x, y)), st.sampled_from(["min", "max"]), part, part)
    binary = st.builds(Binary, st.sampled_from("+-*"), part, part)
    divided = st.builds(lambda x: Binary("/", x, Number(3.0)), part)
    negated = part.filter(lambda x: not isinstance(x, Number)).map(Negation)
    return st.one_of(unary, clamp, pair, binary, divided, negated)


trees = st.recursive(leaves, grown, max_leaves=8)
epilogues = st.builds(lambda tree: Epilogue(Binary("+", tree, Name("acc"))), trees)


@given(epilogues)
def test_text_reads_back_as_the_same_tree(epilogue):
    assert parse_epilogue(str(epilogue)) == epilogue


@pytest.mark.parametrize(
    ("forms", "expression"),
    [
        ("bias", "alpha * acc + beta * C + bias_n"),
        ("bias+gelu", "gelu(alpha*acc + beta*C + bias_n)"),
        ("relu", "relu(alpha * acc + beta * C)"),
        ("scale_m + scale_n", "alpha * acc * scale_m * scale_n + beta * C"),
        ("scale_n+bias_m+silu+residual", "silu(alpha * acc * scale_n + beta * C + bias_m) + residual"),
        ("bias+clamp(-1,2.5)", "clamp(alpha * acc + beta * C + bias_n, -1, 2.5)"),
        ("zero_m", "alpha * (acc - zero_m * column_sum) + beta * C"),
        ("zero_n+scale_n", "alpha * (acc - row_sum * zero_n) * scale_n + beta * C"),
        (
            "zero_n+zero_m+relu",
            "relu(alpha * (acc - zero_m * (column_sum - K * zero_n) - row_sum * zero_n) + beta * C)",
        ),
    ],
)
def test_forms_stand_for_expressions(forms, expression):
    assert parse_epilogue(forms) == parse_epilogue(expression)


def test_tokens_of_forms_read_back_and_others_are_digits_of_their_own():
    assert LINEAR.token == ""
    assert parse_epilogue("bias+gelu").token == "bias_gelu"
    assert epilogue_of_token("scale_m_bias_relu_residual") == parse_epilogue("scale_m+bias+relu+residual")
    for forms in ("zero_a", "zero_n_scale_a_scale_n_bias_gelu_tanh", "zero_a_zero_n_scale_m_scale_b_bias_m_residual"):
        epilogue = epilogue_of_token(forms)
        assert epilogue is not None and epilogue.token == forms
    assert parse_epilogue("zero_n+zero_a+relu").token == "zero_a_zero_n_relu"
    assert parse_epilogue("+".join(["bias"] * 9)).token.startswith("ep")
    odd, other = parse_epilogue("acc + 1").token, parse_epilogue("acc + 2").token
    assert odd != other
    assert epilogue_of_token(odd) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gelu(alpha*acc + bais)", r"'bais' is no name here: known are acc, .* \(character 18 of"),
        ("foo(acc)", r"'foo\(acc\)' is no function: known are .*relu, .*character 1 of"),
        ("bias+swish", "'swish' is no name here: known are swiglu, geglu, lstm, zero_m, zero_a, "),
        ("bias+swish", r", exp, abs, clamp\(lo, hi\) \(character 6 of"),
        ("acc + bias", r"'bias' is no name here: write bias_n \(one for each column\) or bias_m \(one for each row\)"),
        ("gelu+bias+", r"'gelu\+bias\+' is no expression \(it ends too early\)"),
        ("clamp(acc, 1, -1)", r"'clamp\(acc, 1, -1\)' has lo = 1 above hi = -1 \(character 1 of"),
        ("bias+clamp(2.5,2)", r"'clamp\(2.5,2\)' has lo = 2.5 above hi = 2 \(character 6 of"),
        ("bias*gelu", "'bias \\* gelu' of 'bias\\*gelu' is no form"),
        ("scale_m+zero_m", "zero_m in 'scale_m.zero_m': zero points come first, one of A's and one of B's at most"),
        ("zero_m+zero_a", "zero_. in 'zero_m.zero_a': zero points come first, one of A's and one of B's at most"),
        ("acc/alpha", "'alpha' divides: only numbers"),
        ("acc/0", "'0' divides"),
        ("acc + C", "C stands apart from beta in 'acc . C'"),
        ("beta * C", "no name here"),
        ("gelu(acc", "is no expression"),
        ("gelu(acc, 1)", r"takes 1 arguments \(x\), not 2"),
        ("gelu + acc", "gelu takes an argument"),
        ("clamp(acc, alpha, 1)", "'alpha' is lo of clamp, which has to be a number"),
        ("aux(acc) + aux(acc)", "writes aux 2 times"),
        ("row_amax(acc, 1)", r"takes 1 arguments \(x\), not 2"),
        ("acc + column_amax", "column_amax takes an argument"),
        ("acc ** 2", "neither a number"),
        ("acc if 1 else 2", "neither a number"),
        ("acc + 1e99", "out of range"),
        ("acc + 1j", "neither a number"),
        ("__import__('os')", "means nothing here .character 12 of"),
        ("\uff11 + acc", "means nothing here"),
        ("acc" + " + 1" * 60, "at most 100 terms, not 121"),
        ("acc+" + "(" * 490, "is no expression"),
        ("acc" * 200, "at most 500 characters"),
        ("", "is no expression"),
    ],
)
def test_what_is_no_epilogue_is_told_with_its_place(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse_epilogue(text)


@given(st.text("acbetlphgu_nCbias+-*/(), .0123", max_size=40))
def test_any_text_is_parsed_or_refused(text):
    with contextlib.suppress(InvalidInput):
        parse_epilogue(text)


def test_text_is_what_a_person_would_write():
    text = epilogue_text(parse_epilogue("gelu(alpha*acc + beta*C + bias_n) + residual"), DType.F32, NAMES)
    (gelu,), (x,) = text.functions, text.statements
    assert (gelu.name, gelu.template) == ("gelu", "device/gelu.cu")
    assert (x.name, x.text) == ("x", "fmaf(e.alpha, acc, e.beta == 0.0f ? bias_n : fmaf(e.beta, c, bias_n))")
    assert text.result == "gelu(x) + residual"
    assert [operand.name for operand in text.operands] == ["bias_n", "residual"]
    double = epilogue_text(parse_epilogue("bias+tanh"), DType.F64, NAMES)
    assert double.functions == ()
    summed = "fma(e.alpha, acc, e.beta == 0.0 ? bias_n : fma(e.beta, c, bias_n))"
    assert (double.statements[0].text, double.result) == (summed, "tanh(x)")


@pytest.mark.parametrize(
    ("epilogue", "statements", "result"),
    [
        ("acc - bias_n + residual", [], "acc + residual - bias_n"),
        ("-(acc + bias_n) - residual", [], "-(acc + bias_n) - residual"),
        ("bias_n - (alpha * acc - residual * 2)", [], "fmaf(-e.alpha, acc, fmaf(residual, 2.0f, bias_n))"),
        ("alpha * acc * scale_m + beta * C", [], "fmaf(e.beta, c, e.alpha * acc * scale_m)"),
        ("alpha * acc - C * beta + K", [], "fmaf(e.alpha, acc, e.beta == 0.0f ? K : fmaf(-c, e.beta, K))"),
        ("2 * (acc + beta * C)", [], "2.0f * (e.beta == 0.0f ? acc : fmaf(e.beta, c, acc))"),
        ("relu(acc) + beta * C + K", ["relu(acc) + K"], "e.beta == 0.0f ? x : fmaf(e.beta, c, x)"),
    ],
)
def test_sums_end_with_products(epilogue, statements, result):
    text = epilogue_text(parse_epilogue(epilogue), DType.F32, NAMES)
    assert [one.text for one in text.statements] == statements and text.result == result


def test_where_results_are_short_so_are_functions():
    tree = parse_epilogue("gelu(acc) * acc2")
    long, short = (epilogue_text(tree, DType.F32, NAMES, short=one).functions[0].template for one in (False, True))
    assert (long, short) == ("device/gelu.cu", "device/gelu_short.cu")
    bounds = [
        apply_epilogue(tree, dict.fromkeys(("acc", "acc2"), Bounded.exact(1.0)), DType.F32, short=one).c.bound
        for one in (False, True)
    ]
    assert bounds[0] < 2.0**-21 and 2.0**-17 < bounds[1] < 2.0**-16.9
    cases = (("bf16", "gelu+row_amax", True), ("bf16,bf16,f32", "gelu", False), ("bf16", "bias+aux+gelu", False))
    for types, epilogue, wanted in cases:
        assert Problem(8, 8, 8, types=types, epilogue=epilogue).short_results is wanted


def test_functions_come_before_those_that_call_them_once(monkeypatch):
    text = epilogue_text(parse_epilogue("gelu_tanh(gelu_tanh(acc)) + relu(acc)"), DType.F32, NAMES)
    assert [function.name for function in text.functions] == ["logistic", "gelu_tanh", "relu"]
    monkeypatch.setitem(FUNCTIONS, "swish2", Function("swish2", ("x",), definition="x * sigmoid(x + x)"))
    text = epilogue_text(parse_epilogue("swish2(swish2(acc)) + sigmoid(acc)"), DType.F32, NAMES)
    assert [function.name for function in text.functions] == ["sigmoid", "swish2"]


@pytest.mark.parametrize("text", ["alpha * acc - -0.5", "acc - (-bias_m)", "-(-bias_n) + acc", "acc * -(-2 * bias_n)"])
def test_two_signs_are_no_decrement(text):
    epilogue = parse_epilogue(text)
    assert parse_epilogue(str(epilogue)) == epilogue and "--" not in str(epilogue)
    assert "--" not in epilogue_text(epilogue, DType.F32, NAMES).result


whole_leaves = st.one_of(
    st.sampled_from(["acc", "row_sum", "column_sum", "K", "zero_m", "zero_n", "sum_m", "sum_n"]).map(Name),
    st.integers(-300, 300).map(lambda value: Number(float(value))),
)
whole_trees = st.recursive(
    whole_leaves,
    lambda part: st.one_of(
        st.builds(Binary, st.sampled_from("+-*"), part, part),
        part.filter(lambda x: not isinstance(x, Number)).map(Negation),
    ),
    max_leaves=8,
)


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


def whole_value(node, names):
    """The tree in Python's integers."""
    match node:
        case Name(name):
            return names[name]
        case Number(value):
            return int(value)
        case Negation(value):
            return -whole_value(value, names)
    left, right = whole_value(node.left, names), whole_value(node.right, names)
    return {"+": left + right, "-": left - right, "*": left * right}[node.operator]


@given(whole_trees, st.integers(0, 2**32))
def test_what_is_made_of_integer_sums_and_zero_points_is_exact_modulo_2_to_the_32(tree, seed):
    """In the kernel's text as in the reference, whatever is then made of it; and where C is s32 all is."""
    rng = np.random.default_rng(seed)
    known = ("acc", "row_sum", "column_sum", "K", "zero_m", "zero_n", "sum_m", "sum_n")
    names = {name: int(rng.integers(-(2**31), 2**31)) for name in known}
    epilogue = Epilogue(Binary("+", tree, Name("acc")))
    inputs = {name: Bounded.exact(value) for name, value in names.items()}
    want = wrapped(whole_value(epilogue.tree, names))
    functions = {
        "multiply_add": lambda a, b, c: wrapped(a * b + c),
        "multiply_subtract": lambda a, b, c: wrapped(c - a * b),
    }
    for dtype in (DType.F32, DType.S32):
        text = epilogue_text(epilogue, dtype, {}, integer_sums=True)
        assert text.statements == () and eval(text.result, functions, names) == want
        got = apply_epilogue(epilogue, inputs, dtype, integer_sums=True).c
        assert got.value == want and got.bound <= abs(want) * 2.0**-23.9 + 1e-44


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bias+gelu", "calls gelu; with C of s32 all is integers, and of functions relu, clamp"),
        ("acc / 2", "divides, and with C of s32"),
        ("acc * 0.5", "has 0.5, and with C of s32"),
        ("acc + 3e9", "has 3e.09, and"),
    ],
)
def test_where_c_is_s32_an_epilogue_is_of_integers(text, message):
    with pytest.raises(InvalidInput, match=message):
        Problem(8, 8, 8, types="s8,s8,s32", epilogue=text)
    assert Problem(8, 8, 8, types="s8,s8,s32", epilogue="zero_m+bias+clamp(-9,9)").dtype_of("bias_n") == DType.S32


ERF = np.vectorize(math.erf, otypes=[np.float64])
OPERATORS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


def gelu(x, real):
    return real(0.5) * x * (real(1) + ERF(x * real(math.sqrt(0.5))).astype(real))


def gelu_tanh(x, real):
    inner = real(math.sqrt(2 / math.pi)) * (x + real(0.044715) * (x * x * x))
    return real(0.5) * x * (real(1) + np.tanh(inner))


def sigmoid(x, real):
    return real(1) / (real(1) + np.exp(-x))


def silu(x, real):
    return x * sigmoid(x, real)


ROUNDED = {"gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu, "sigmoid": sigmoid}


def computed(node, names, real):
    """The tree in arithmetic of `real`, every operation rounded."""
    if isinstance(node, Name):
        return names[node.name]
    if isinstance(node, Number | Negation):
        return real(node.value) if isinstance(node, Number) else -computed(node.value, names, real)
    if isinstance(node, Binary):
        return OPERATORS[node.operator](computed(node.left, names, real), computed(node.right, names, real))
    values = [computed(argument, names, real) for argument in node.arguments]
    if node.name in ROUNDED:
        return ROUNDED[node.name](values[0], real)
    function = FUNCTIONS[node.name]
    if function.definition:
        inner = parse(function.definition, function.parameters)
        return computed(inner, dict(zip(function.parameters, values, strict=True)), real)
    return np.asarray(function.reference(*values)).astype(real)


def inputs_of(rng, dtype, spread):
    """Inputs by name, acc with an error; and what a kernel may have in its place."""
    real, shape = dtype.numpy.type, (5, 7)
    shapes = {"": (1, 1), "m": (5, 1), "n": (1, 7), "mn": shape}
    given = {name: rng.uniform(-spread, spread) for name in SCALARS}
    given |= {"C": rng.uniform(-spread, spread, shape)}
    given |= {name: rng.uniform(-spread, spread, shapes[OPERANDS[name].along]) for name in READ}
    kernel = {name: np.asarray(value).astype(real) for name, value in given.items()}
    reference = {name: Bounded.exact(value.astype(np.float64)) for name, value in kernel.items()}
    acc = rng.uniform(-spread, spread, shape)
    kernel["acc"] = acc.astype(real)
    reference["acc"] = Bounded(acc, np.abs(kernel["acc"].astype(np.float64) - acc))
    return kernel, reference


@given(epilogues, st.integers(0, 2**32), st.sampled_from([1e-3, 1.0, 30.0]), st.sampled_from(SUMS))
def test_a_kernel_that_rounds_each_operation_stays_within_the_bound(epilogue, seed, spread, dtype):
    kernel, reference = inputs_of(np.random.default_rng(seed), dtype, spread)
    want = apply_epilogue(epilogue, reference, dtype).c
    with np.errstate(all="ignore"):
        got = computed(epilogue.tree, kernel, dtype.numpy.type).astype(np.float64)
    finite = np.isfinite(got) & (np.abs(want.value) < 2.0**120)
    found, value, bound = (np.broadcast_to(one, finite.shape)[finite] for one in (got, want.value, want.bound))
    assert (np.abs(found - value) <= bound).all()


def test_what_is_exact_in_one_order_may_round_in_another():
    epilogue = parse_epilogue("acc + alpha + bias_n")

    def summed(*terms):
        inputs = {name: Bounded.exact(term) for name, term in zip(("acc", "alpha", "bias_n"), terms, strict=True)}
        return apply_epilogue(epilogue, inputs, DType.F32).c

    small, one = np.float32(2.0**-40), np.float32(1)
    want = summed(one, -one, small)
    assert want.value == (one - one) + small and abs(want.value - (one + (small - one))) <= want.bound < 2.0**-22
    assert summed(3.0, -1.0, 2.0).bound == 0
    exact = {name: Bounded.exact(term) for name, term in {"acc": 2.0**53, "alpha": 1.0, "bias_n": 1.0}.items()}
    large = apply_epilogue(epilogue, exact, DType.F64, exact=True).c  # 2^53 + 2 in another order
    assert large.value == 2.0**53 and 2.0 <= large.bound < 16.0


TERMS = ("alpha * acc", "-(beta * C)", "bias_n", "residual")


@given(st.permutations(TERMS), st.integers(0, 2**32), st.sampled_from([1e-3, 1.0, 30.0]), st.sampled_from(SUMS))
def test_a_kernel_may_sum_in_any_order(terms, seed, spread, dtype):
    """Terms that nearly cancel are those whose partial sums round more than all of them together."""
    kernel, reference = inputs_of(np.random.default_rng(seed), dtype, spread)
    opposed = kernel["beta"] * kernel["C"] - kernel["residual"]
    for of_all, value in ((kernel, opposed[:1]), (reference, Bounded.exact(opposed[:1].astype(np.float64)))):
        of_all["bias_n"] = value
    want = apply_epilogue(parse_epilogue("alpha * acc - beta * C + bias_n + residual"), reference, dtype).c
    first, second, third, last = (parse(term, tuple(kernel)) for term in terms)
    pair = sum_of(first, second)
    for tree in (sum_of(sum_of(pair, third), last), sum_of(pair, sum_of(third, last))):
        got = computed(tree, kernel, dtype.numpy.type).astype(np.float64)
        assert (np.abs(got - want.value) <= want.bound).all()


def sum_of(left, right):
    return Binary("+", left, right)


@given(st.floats(allow_nan=True), st.floats(-6.5, 6.5))
def test_erf_of_arrays_is_that_of_the_c_library(anything, near):
    x = np.array([anything, near, near * 2.0**-40, 0.0, -0.0, np.inf, -np.inf])
    ours, right = FUNCTIONS["erf"].reference(x), np.array([math.erf(one) for one in x])
    np.testing.assert_array_almost_equal_nulp(ours[~np.isnan(x)], right[~np.isnan(x)], nulp=2)
    assert (np.isnan(ours) == np.isnan(x)).all() and (np.signbit(ours) == np.signbit(right))[~np.isnan(x)].all()


@pytest.mark.parametrize(("short", "degree"), [(False, 8), (True, 4)])
def test_gelu_of_f32_is_off_by_no_more_than_its_record_says(short, degree):
    """The template's fit in f32; exp2 is off by half a unit of x, of those of the record."""
    gelu = function_named("gelu", short)
    text = (TEMPLATES / gelu.f32).read_text().partition("macro gelu(")[0]
    most, *fit = (np.float32(number) for number in re.findall(r"\"(-?[\d.]+(?:e-\d+)?)f\"", text))
    rng = np.random.default_rng(7)
    x = np.concatenate([rng.uniform(-20, 20, 100_000), 10.0 ** rng.uniform(-30, 30, 1000)]).astype(np.float32)
    x = np.concatenate([x, -x])
    t = np.minimum(np.abs(x), most).astype(np.float64)
    p = np.full_like(t, fit[0])
    for coefficient in fit[1:]:
        p = (p * t + coefficient).astype(np.float32).astype(np.float64)
    got = (np.maximum(x, 0) - t * np.exp2(p)).astype(np.float32)
    off = np.abs(got - FUNCTIONS["gelu"].reference(x.astype(np.float64))) / np.abs(x) / 2.0**-23
    assert len(fit) == degree + 1 and off.max() < gelu.ulps - 1


def exponent_of_silu(text, x):
    (factor,) = (np.float32(number) for number in re.findall(r"logistic_approx\((-[\d.]+)f", text))
    return factor * x


def exponent_of_gelu_tanh(text, x):
    cubic, linear = (np.float32(number) for number in re.findall(r"(-[\d.]+)f[,)]", text))
    return x * (cubic.astype(np.float64) * (x * x) + linear).astype(np.float32)


@pytest.mark.parametrize(("name", "exponent"), [("silu", exponent_of_silu), ("gelu_tanh", exponent_of_gelu_tanh)])
def test_a_function_by_the_logistic_one_is_off_by_no_more_than_its_record_says(name, exponent):
    """exp2 and the reciprocal are off by 2^-22 and 2^-23 of their values besides: half a unit of x each at most."""
    text = (TEMPLATES / FUNCTIONS[name].f32).read_text()
    rng = np.random.default_rng(7)
    x = np.concatenate([rng.uniform(-20, 20, 100_000), 10.0 ** rng.uniform(-30, 30, 1000)]).astype(np.float32)
    x = np.concatenate([x, -x])
    with np.errstate(over="ignore"):
        below = (1 + np.exp2(exponent(text, x).astype(np.float64))).astype(np.float32)
        got = x * (1 / below.astype(np.float64)).astype(np.float32)
        wanted = FUNCTIONS[name].reference(x.astype(np.float64))
    off = np.abs(got - wanted) / np.abs(x) / 2.0**-23
    assert off.max() < FUNCTIONS[name].ulps - 1


@pytest.mark.parametrize("dtype", SUMS)
def test_a_denormal_result_may_be_off_by_the_smallest_denormal(dtype):
    """A sum that is off by one such number, scaled: the product rounds to another one."""
    rng, least = np.random.default_rng(4), dtype.smallest
    names = {"scale_m": rng.uniform(-2, 2, (64, 1)), "acc": least * rng.integers(-1000, 1000, (64, 32))}
    kernel = {name: value.astype(dtype.numpy) for name, value in names.items()}
    reference = {name: Bounded.exact(value.astype(np.float64)) for name, value in kernel.items()}
    reference["acc"] = Bounded(reference["acc"].value, np.full((64, 32), least))
    kernel["acc"] += dtype.numpy.type(least)
    epilogue = parse_epilogue("scale_m * acc")
    want = apply_epilogue(epilogue, reference, dtype).c
    got = computed(epilogue.tree, kernel, dtype.numpy.type).astype(np.float64)
    assert (np.abs(got - want.value) <= want.bound).all() and want.bound.max() <= 4 * least


@pytest.mark.parametrize(
    "text", ["bias+gelu", "bias+gelu_tanh", "bias+silu+residual", "scale_m+scale_n+bias+relu", "tanh"]
)
@pytest.mark.parametrize("dtype", SUMS)
def test_the_bound_is_a_few_roundings(text, dtype):
    _, reference = inputs_of(np.random.default_rng(1), dtype, 3.0)
    reference["acc"] = Bounded.exact(reference["acc"].value.astype(dtype.numpy))
    want = apply_epilogue(parse_epilogue(text), reference, dtype).c
    assert want.bound.max() < 400 * dtype.unit_roundoff


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("bias+gelu", "bias+gelu_tanh"),
        ("bias+gelu", "gelu(alpha * acc + beta * C) + bias_n"),
        ("bias+gelu", "gelu(alpha * acc + beta * C + bias_m)"),
        ("bias+relu", "bias"),
        ("scale_m+bias", "(alpha * acc + beta * C + bias_n) * scale_m"),
        ("bias+residual", "bias"),
        ("bias+silu", "sigmoid(alpha * acc + beta * C + bias_n)"),
    ],
)
def test_another_epilogue_is_outside_of_the_bound(text, change):
    _, reference = inputs_of(np.random.default_rng(2), DType.F32, 2.0)
    want, other = (apply_epilogue(parse_epilogue(one), reference, DType.F32).c for one in (text, change))
    assert (np.abs(want.value - other.value) > want.bound).any()


def test_sums_and_products_of_small_integers_have_no_error():
    rng = np.random.default_rng(3)
    whole = {name: Bounded.exact(rng.integers(-8, 8, (4, 4))) for name in ("acc", "C", *SCALARS, *READ)}
    for dtype in SUMS:
        for text in ("bias+relu", "scale_m+scale_n+bias+clamp(-5,9)+residual", "max(acc, bias_n) / 2"):
            assert not apply_epilogue(parse_epilogue(text), whole, dtype, exact=True).c.bound.any()
    assert apply_epilogue(parse_epilogue("acc / 3"), whole, DType.F32).c.bound.any()


def test_nan_and_infinities_follow_the_formula():
    values = Bounded.exact(np.array([np.nan, np.inf, -np.inf, 1.0]))
    inputs = {name: values if name == "acc" else Bounded.exact(1.0) for name in ("acc", "alpha", "beta", "C")}
    relu = apply_epilogue(parse_epilogue("relu(acc)"), inputs, DType.F32).c
    np.testing.assert_array_equal(relu.value, [np.nan, np.inf, 0.0, 1.0])
    silu = apply_epilogue(parse_epilogue("silu(acc)"), inputs, DType.F32).c
    np.testing.assert_array_equal(silu.value[:3], [np.nan, np.inf, np.nan])
    assert not silu.bound[:3].any()


def test_largest_magnitudes_are_those_of_a_value_and_do_not_change_it():
    text = epilogue_text(parse_epilogue("bias+gelu+row_amax+column_amax"), DType.F32, NAMES)
    assert [(one.name, one.text) for one in text.statements] == [
        ("x", "fmaf(e.alpha, acc, e.beta == 0.0f ? bias_n : fmaf(e.beta, c, bias_n))"),
        ("x2", "gelu(x)"),
        ("row_amax", "x2"),
        ("column_amax", "x2"),
    ]
    assert text.result == "x2"
    assert epilogue_text(parse_epilogue("-row_amax(-acc)"), DType.F32, NAMES).result == "-x", "no -- of it"


def test_largest_magnitudes_are_floats():
    with pytest.raises(InvalidInput, match="has row_amax, and with C of s32"):
        Problem(4, 5, 6, types="s8,s8,s32", epilogue="row_amax")
    assert Problem(4, 5, 6, types="s8,s8,s8", epilogue="row_amax").dtype_of("row_amax") == DType.F32


def test_each_product_of_a_batch_has_largest_magnitudes_of_its_own():
    case = Problem(4, 5, 6, batch=3, epilogue="row_amax+column_amax").case()
    assert [case.extra[name].elements for name in ("row_amax", "column_amax")] == [12, 15]
    without = Problem(4, 5, 6, batch=3, epilogue="aux").case()
    assert case.bytes_moved == without.bytes_moved - without.extra["aux"].bytes + 4 * 27
    assert Problem(4, 5, 6, epilogue="row_amax").case().extra["row_amax"].elements == 4


@given(st.integers(0, 2**32))
def test_a_largest_magnitude_lies_within_the_bound_of_what_a_kernel_may_store(seed):
    situation = Situation(Problem(9, 13, 40, epilogue="scale_m+row_amax+silu").case(alpha=3.0), "random", seed % 64)
    whole = Window.whole(situation.case)
    values, bound = expected(situation, whole, "row_amax")
    stored = np.abs(values + bound * np.random.default_rng(seed).uniform(-1, 1, values.shape)).max(-1, keepdims=True)
    value, allowed = expected_amax(situation, [Window(0, 0, 9, 5), Window(0, 5, 9, 13)], "row_amax")
    assert (value == np.abs(values).max(-1, keepdims=True)).all()
    assert (np.abs(stored - value) <= allowed * (1 + 1e-9)).all() and (
        allowed <= bound.max(-1, keepdims=True) * (1 + 1e-9)
    ).all()
    value, allowed = expected_amax(situation, [Window(3, 5, 9, 13)], "row_amax")
    assert not value[:3].any() and not allowed[:3].any(), "which nothing raised"
    assert (value[3:] == np.abs(values)[3:, 5:].max(-1, keepdims=True)).all()


def test_a_row_with_nan_has_nan_for_its_largest_magnitude():
    situation = Situation(Problem(40, 30, None, epilogue="column_amax").case(k=0, beta=1.0), "special", 5)
    values, _ = expected(situation, Window.whole(situation.case), "column_amax")
    value, bound = expected_amax(situation, [Window.whole(situation.case)], "column_amax")
    np.testing.assert_array_equal(np.isnan(value[0]), np.isnan(values).any(0))
    assert np.isnan(value).any() and np.isinf(value).any() and not bound[~np.isfinite(value)].any()


def test_a_baseline_leaves_sums_of_integers_as_they_are():
    """To a dense matrix, from which the kernel behind it makes C."""
    problem = Problem(64, 48, 32, types=Types.parse("s8,s8,bf16"), layout="rc", ldc=80, epilogue="scale_m+scale_n")
    before = product_before(problem.case(alpha=3.0))
    assert before.problem.types == Types.parse("s8,s8,s32") and before.problem.epilogue.is_linear
    assert (before.n, before.ldc, before.alpha, before.beta) == (48, 48, 1, 0)
    source = epilogue_apart(problem)
    assert "const int acc = left[0];" in source.text and source.parameters[-1].name == LEFT
    in_c = replace(problem, types=Types.parse("s8,s8,s32"), epilogue=parse_epilogue("relu"))
    assert left_apart(in_c) is None and product_before(in_c.case()).ldc == 80


def test_outputs_take_the_value_of_their_argument():
    values = {name: Bounded.exact(np.full((2, 2), -3.0)) for name in ("acc", "alpha")}
    results = apply_epilogue(parse_epilogue("relu(aux(alpha * acc - 12))"), values, DType.F32)
    assert (results.outputs["aux"].value == -3).all()
    assert (results.c.value == 0).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alpha * acc + beta * C", ""),
        ("bias", ", BIAS"),
        ("bias+relu", ", RELU_BIAS"),
        ("gelu(alpha * acc + bias_n)", ", GELU_BIAS"),
        ("gelu_tanh", ", GELU"),
        ("bias_m", " and a kernel behind it"),
        ("bias+gelu+residual", " and a kernel behind it"),
    ],
)
def test_a_baseline_takes_its_own_epilogue_or_a_kernel_behind_it(text, words):
    problem = Problem(64, 64, 64, epilogue=text)
    assert baseline_words(problem) == words
    assert (epilogue_apart(problem) is not None) == (words == " and a kernel behind it")
    for types in ("bf16", "f16", "f32_tf32"):
        assert own_epilogue(replace(problem, types=Types.parse(types))) == own_epilogue(problem)
    for types in ("f64", "bf16,bf16,f32", "f16_f16acc", "f32_bf16x6", "e4m3,e4m3,bf16_fast"):
        assert own_epilogue(replace(problem, types=Types.parse(types))) is None


def test_a_baseline_adds_a_residual_as_its_c_where_both_have_one_type():
    scores = Problem(64, 64, 64, types="bf16,bf16,f32", batch=4, epilogue="alpha * acc + residual", stride_residual=0)
    assert baseline_words(scores) == ", residual as C" and epilogue_apart(scores) is None
    for other in ({"types": Types.parse("bf16")}, {"epilogue": parse_epilogue("residual")}):
        assert baseline_words(replace(scores, **other)) == " and a kernel behind it"
