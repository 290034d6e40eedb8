"""Element types of A, B and C: which go together, what they are called, and what counts as right."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.exports.json_records import problem_document
from gemmgen.exports.record_reading import problem_from
from gemmgen.families.naive.family import NAIVE
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.comparison import compare, right
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation, data_kinds

SOME = ["bf16", "f16", "e4m3", "e5m2", "s8,s8,s32", "s8,u8,bf16", "u8", "bf16,bf16,f32", "f16,s8,bf16", "e4m3,e5m2,f16"]
ANY_TYPES = pytest.mark.parametrize("text", SOME)


@pytest.mark.parametrize(
    ("text", "sums", "scalar", "token"),
    [
        ("f32", "f32", "f32", "f32"),
        ("f64", "f64", "f64", "f64"),
        ("bf16", "f32", "f32", "bf16"),
        ("s8,u8,s32", "s32", "s32", "s8u8s32"),
        ("s8", "s32", "f32", "s8"),
        ("s8,s8,bf16", "s32", "f32", "s8s8bf16"),
        ("bf16,s8,f32", "f32", "f32", "bf16s8f32"),
        ("e4m3,e5m2,bf16", "f32", "f32", "e4m3e5m2bf16"),
    ],
)
def test_sums_and_scalars_follow_from_the_operands(text: str, sums: str, scalar: str, token: str) -> None:
    types = Types.parse(text)
    assert (types.accumulator.label, types.scalar.label, types.token, str(types)) == (sums, scalar, token, text)
    assert Types.from_token(token) == types


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f64,f32,f64", "A of f64, B of f32: f64 goes with f64 only"),
        ("f64,f64,f32", "C of f32: from f64 and f64 comes f64"),
        ("bf16,bf16,s32", "C of s32: from bf16 and bf16 comes f32, f16"),
        ("s32,s8,s32", "A of s32: a product takes f32"),
        ("u4", "A of u4: a product takes"),
        ("bf16,bf16", "write those of A, B and C, for example s8,s8,s32"),
        ("bf16,x,f32", "unknown dtype 'x': known are f32"),
    ],
)
def test_what_no_kernel_computes_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Types.parse(text)


def test_a_way_of_computing_is_named() -> None:
    assert Compute.parse("fma") is Compute.FMA
    with pytest.raises(InvalidInput, match="unknown compute 'bf16x9': known are fma, tf32"):
        Compute.parse("bf16x9")


def test_dtype_is_short_for_three_types() -> None:
    assert Problem(8, 8, 8, dtype=DType.BF16).types == Types.parse("bf16,bf16,bf16")
    assert Problem(8, 8, 8, types="s8,s8,s32").types == Types.parse("s8,s8,s32")  # type: ignore[arg-type]
    assert replace(Problem(8, 8, 8, types=Types.parse("u8")), m=9).types == Types.parse("u8")


@ANY_TYPES
def test_types_come_back_from_json(text: str) -> None:
    problem = Problem(8, 16, 32, types=Types.parse(text))
    assert problem_from(json.loads(json.dumps(problem_document(problem)))) == problem


def test_records_with_one_dtype_still_read() -> None:
    old = {**problem_document(Problem(8, 16, 32)), "dtype": "f64"}
    del old["types"], old["compute"]
    assert problem_from(old) == Problem(8, 16, 32, dtype=DType.F64)


def test_accesses_are_of_16_bytes_of_any_type() -> None:
    problem = Problem(64, 64, 64, types=Types.parse("bf16,e4m3,f32"))
    assert [problem.vector_limit(ld) for ld in ("lda", "ldb", "ldc")] == [8, 16, 4]
    narrow = replace(problem, pointer_align=1)
    assert [narrow.vector_limit(ld) for ld in ("lda", "ldb", "ldc")] == [1, 1, 1]
    assert [narrow.align_of(name) for name in "ABC"] == [2, 1, 4]
    assert replace(problem, m=None, n=None, k=None, ld_align=8).vector_limit("ldb") == 8
    assert narrow.case().bytes_moved == 64 * 64 * (2 + 1 + 4)


def computed(what: Situation) -> np.ndarray:
    """What a kernel computes that sums in order of k."""
    case, operands, types = what.case, make_operands(what), what.case.problem.types
    real = types.accumulator.numpy.type
    a, b = (m.dtype.decode(m.view(x)).astype(real) for m, x in ((case.a, operands.a), (case.b, operands.b)))
    old = case.c.dtype.decode(case.c.view(operands.c))
    total = np.zeros((case.m, case.n), real)
    with np.errstate(all="ignore"):
        for k in range(case.k):
            total += a[:, k, None] * b[None, k, :]
        scalar = types.scalar.numpy.type
        scaled = scalar(case.alpha) * total.astype(scalar)
        if case.beta != 0:
            scaled = scaled + scalar(case.beta) * old.astype(scalar)
    result = operands.c.copy()
    stored = scaled if types.scalar.is_integer else types.c.encode(scaled)
    case.c.view(result)[...] = stored
    return result


@ANY_TYPES
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-1.0, 2.0), (0.0, 1.0)])
@pytest.mark.parametrize("k", [0, 1, 70])
def test_arithmetic_in_order_of_k_is_right(text: str, alpha: float, beta: float, k: int) -> None:
    problem = Problem(None, None, None, types=Types.parse(text))
    for data in data_kinds(problem.types):
        for seed in range(4):
            what = Situation(problem.case(13, 11, k, alpha=alpha, beta=beta), data, seed)
            comparison = compare(what, computed(what))
            assert comparison.mismatch is None, f"{what}: {comparison.mismatch}"
            assert comparison.worst <= 1


@ANY_TYPES
def test_the_next_number_of_a_type_is_wrong_for_exact_data(text: str) -> None:
    """One step of C's type off, up or down."""
    types = Types.parse(text)
    for data in ("exact", "onehot"):
        what = Situation(Problem(13, 11, 20, types=types).case(beta=1.0), data, 3)
        result = computed(what)
        view = what.case.c.view(result)
        at = tuple(int(index) for index in np.argwhere(types.c.decode(view) != 0)[0])
        kept = view[at]
        bits = view.view(types.c.bits)
        for step in (1, -1):
            bits[at] = (int(np.array(kept).view(types.c.bits)) + step) % 2 ** (8 * types.c.size)
            assert compare(what, result).mismatch is not None
        view[at] = kept
        assert compare(what, result).mismatch is None


def test_truncating_is_seen_in_random_data() -> None:
    what = Situation(Problem(32, 32, 64, dtype=DType.BF16).case(), "random", 0)
    case, operands = what.case, make_operands(what)
    a, b = (m.dtype.decode(m.view(x)) for m, x in ((case.a, operands.a), (case.b, operands.b)))
    result = operands.c.copy()
    cut = ((a @ b).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    case.c.view(result)[...] = cut.view(DType.BF16.numpy)
    mismatch = compare(what, result).mismatch
    assert mismatch is not None and mismatch.count > 300


def test_integers_wrap_around() -> None:
    problem = Problem(2, 2, 3, types=Types.parse("s8,s8,s32"))
    what = Situation(problem.case(alpha=2.0**15, beta=2.0**10), "random", 0)
    case, operands = what.case, make_operands(what)
    a, b, c = (
        m.view(x).astype(object) for m, x in zip(case.matrices, (operands.a, operands.b, operands.c), strict=True)
    )
    result = operands.c.copy()
    exact = 2**15 * (a @ b) + 2**10 * c
    case.c.view(result)[...] = ((exact + 2**31) % 2**32 - 2**31).astype(np.int64)
    assert compare(what, result).mismatch is None and max(abs(x) for x in exact.ravel()) >= 2**31


def test_unread_integers_are_garbage_of_the_seed() -> None:
    problem = Problem(4, 4, 4, types=Types.parse("s8,s8,s32"))
    one, other = (make_operands(Situation(problem.case(), "exact", seed)).c for seed in (0, 1))
    assert (one != other).any()


def test_scalars_of_integer_products_are_integers() -> None:
    with pytest.raises(InvalidInput, match=r"alpha = 0\.5: with C of s32 scalars are integers"):
        Problem(4, 4, 4, types=Types.parse("s8,s8,s32")).case(alpha=0.5)


@pytest.mark.parametrize(
    ("types", "value", "largest"),
    [
        ("f32", 1e39, 3.4028234663852886e38),
        ("f16", -1e39, 3.4028234663852886e38),
        ("s8,s8,f32", 1e39, 3.4028234663852886e38),
        ("s8,s8,s32", 2.0**31, 2**31 - 1),
        ("s8,s8,s32", -(2.0**31) - 1, 2**31 - 1),
    ],
)
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_a_scalar_that_its_type_does_not_hold_is_refused(types: str, value: float, largest: float, name: str) -> None:
    problem = Problem(8, 8, 8, types=types)
    label = problem.types.scalar.label
    words = f"{name} = {value} overflows {label}: its numbers are "
    with pytest.raises(InvalidInput, match=re.escape(words)) as caught:
        problem.case(**{name: value})
    assert str(caught.value).endswith(f" to {largest}")


def test_scalars_at_the_ends_of_their_range_infinity_and_nan_are_taken() -> None:
    single, whole = Problem(8, 8, 8, "f16"), Problem(8, 8, 8, types="s8,s8,s32")
    most = float(np.finfo(np.float32).max)
    for value in (most, -most, most * (1 + 2.0**-26), math.inf, -math.inf, math.nan):
        assert single.case(alpha=value, beta=value).alpha is value
    assert Problem(8, 8, 8, "f64").case(alpha=1e39).alpha == 1e39
    assert whole.case(alpha=2.0**31 - 1, beta=-(2.0**31)).beta == -(2.0**31)
    for value in (math.inf, math.nan):
        with pytest.raises(InvalidInput, match="with C of s32 scalars are integers"):
            whole.case(alpha=value)


def test_a_kernel_has_the_conversions_that_it_needs() -> None:
    def text(types: str) -> str:
        return render(Problem(8, 8, 8, types=Types.parse(types)), NAIVE, NAIVE.default(Problem(8, 8, 8))).text

    assert "struct" not in text("f32").replace("struct Shape", "")
    assert "explicit BF16" in text("bf16") and "explicit" not in text("bf16,bf16,f32")
    assert "saturated_s8" in text("s8") and "saturated" not in text("s8,s8,s32")
    assert "struct E4M3" not in text("e5m2") and "--types s8,s8,s32" in text("s8,s8,s32")


def test_what_nan_becomes_in_a_type_that_has_none_is_not_judged() -> None:
    types, at = Types.parse("s8,s8,s8"), np.zeros(3)
    got, values = np.array([100.0, 0.0, 127.0]), np.array([math.nan, math.inf, math.inf])
    assert right(types, DType.S8, got, values, at).tolist() == [True, False, True]
