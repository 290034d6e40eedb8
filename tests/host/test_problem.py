"""A Problem or Case cannot be built in an invalid state, and each message shows the number that is wrong."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.problem.dtype import ELEMENTS, DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.matrix import Layout, Matrix
from gemmgen.problem.sizes import SIZE_LIMIT, parse_shape
from gemmgen.problem.types import Compute, Types
from gemmgen.support.errors import InvalidInput

ANY = Problem(None, None, None, ld_align=4)


@pytest.mark.parametrize(
    ("given_values", "message"),
    [
        ({"m": 0}, "M = 0: a size is 1 to"),
        ({"n": -3}, "N = -3: a size is 1 to"),
        ({"k": SIZE_LIMIT + 1}, f"K = {SIZE_LIMIT + 1}: a size is 1 to {SIZE_LIMIT}"),
        ({"k": 2**80}, "K = 1208925819614629174706176"),
        ({"lda": 63}, "lda = 63 is shorter than a line of 64 elements"),
        ({"lda": 64, "layout": Layout("c", "r"), "m": 65}, "lda = 64 is shorter than a line of 65"),
        ({"ldb": 31}, "ldb = 31 is shorter than a line of 32"),
        ({"ldc": -1}, "ldc = -1 is shorter than a line of 32"),
        ({"ldc": SIZE_LIMIT + 1}, "exceeds"),
        ({"m": SIZE_LIMIT, "n": SIZE_LIMIT}, f"C has {SIZE_LIMIT} lines of {SIZE_LIMIT} elements"),
        ({"n": None, "ldc": 4096}, "ldc = 4096 is fixed while its line's length is a run-time size"),
        ({"pointer_align": 32}, "pointer_align = 32"),
        ({"pointer_align": 0}, "pointer_align = 0"),
        ({"ld_align": 3}, "ld_align = 3"),
        ({"batch": 0}, "batch = 0: a size is 1 to"),
        ({"stride_a": 0}, "stride_a = 0 serves a batch, and batch = 1"),
        ({"batch": 9, "stride_c": 0}, "stride_c = 0 is shorter than a matrix of 512 elements"),
        ({"batch": 9, "stride_a": -8}, "stride_a = -8 is negative"),
        ({"batch": 3, "ldc": 127, "stride_c": 48}, "and 3 lines of 32 elements so far apart do not fit between two of"),
        ({"batch": 3, "ldc": 128, "stride_c": 31}, "stride_c = 31 is shorter than a matrix of 1952 elements"),
        ({"batch": None, "m": None, "stride_a": 4096}, "stride_a = 4096 is fixed while its matrix has a run-time size"),
        ({"batch": 2**30, "stride_b": 2**40}, "overflow 63 bits"),
        ({"pointers": True}, "arrays of pointers serve a batch, and batch = 1"),
        ({"pointers": True, "batch": 9, "stride_b": None}, "stride_b = ?: matrices behind pointers have no stride"),
        ({"dtype": DType.F64, "pointer_align": 4}, "pointer_align = 4: addresses of f64 align to 8 or 16"),
        ({"dtype": "float99"}, "unknown dtype 'float99': known are f32, f64"),
        ({"layout": "row"}, "unknown layout 'row': known are rr, rc, cr, cc"),
        ({"m": "16"}, """M = '16' is no whole number, nor None or "?" for run time"""),
        ({"dtype": "int16"}, "unknown dtype 'int16': known are f32"),
        (
            {"dtype": "fp8"},
            "(e4m3 or e5m2 here): known are f32, f64, f16, bf16, e4m3, e5m2, s8, u8, of C alone s32, and of B",
        ),
        ({"dtype": np.complex64}, "unknown dtype 'complex64': known are f32"),
        ({"types": ("s8", "s8")}, """types = ('s8', 's8'): those of A, B and C, for example ("s8", "s8", "s32")"""),
        ({"types": None}, "types = None: those of A, B and C"),
        ({"types": ("s8", "s8", "int64")}, "unknown dtype 'int64': known are"),
        ({"compute": "tf33"}, "unknown compute 'tf33': known are fma, tf32"),
        ({"dtype": "bf16", "compute": "tf32"}, "A of bf16: tf32 multiplies f32"),
        (
            {"types": "f32_tf32", "compute": "bf16x6"},
            "types = 'f32_tf32' compute by tf32, and compute = bf16x6: give one",
        ),
        ({"n": 32.0}, "N = 32.0 is no whole number"),
        ({"k": True}, "K = True is no whole number"),
        ({"lda": "wide"}, """lda = 'wide': known are "dense", None or "?", and a number of elements"""),
        ({"pointer_align": "16"}, "pointer_align = '16' is no whole number"),
        ({"pointers": "no", "batch": 9}, "pointers = 'no': known are True and False"),
        ({"typical": {"M": 4}}, "typical M = 4, but M is fixed at 16: write ? for it"),
        ({"typical": {"batch": 4}}, "typical batch = 4, but batch is fixed at 1: write ? for it"),
        ({"m": None, "typical": {"M": 0}}, "typical M = 0: a size is 1 to"),
        ({"m": None, "typical": {"M": 4.5}}, "typical M = 4.5 is no whole number"),
        ({"m": None, "typical": {"m": 4}}, "typical m = 4: known are M, N, K, batch"),
        ({"m": None, "typical": "M=4"}, "typical = 'M=4': write sizes by name, as {'M': 16}"),
    ],
)
def test_invalid_problems(given_values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Problem(**{"m": 16, "n": 32, "k": 64, **given_values})
    assert message in str(caught.value)


def test_names_and_numpys_integers_are_taken_as_meant() -> None:
    given_values: dict[str, Any] = {
        **dict.fromkeys(("m", "n", "k", "batch"), np.int64(64)),
        "dtype": "f64",
        "layout": "rc",
        "lda": np.int32(72),
        "stride_c": np.uint64(5000),
        "ld_align": np.int8(4),
    }
    problem = Problem(**given_values)
    assert problem == Problem(
        64, 64, 64, dtype=DType.F64, layout=Layout("r", "c"), lda=72, batch=64, stride_c=5000, ld_align=4
    )
    numbers = (problem.m, problem.n, problem.k, problem.batch, problem.lda, problem.stride_c, problem.ld_align)
    assert {type(number) for number in numbers} == {int}  # what JSON takes


def test_sizes_left_to_run_time_may_be_written_as_on_the_command_line() -> None:
    assert Problem("?", 64, "?", lda="?", batch="?") == Problem(None, 64, None, lda=None, batch=None)


def test_element_types_may_be_numpys_and_types_a_tuple() -> None:
    assert Problem(8, 8, 8, np.float32) == Problem(8, 8, 8)
    assert Problem(8, 8, 8, dtype=np.dtype("float16")) == Problem(8, 8, 8, "f16")
    assert {Problem(8, 8, 8, one.numpy).dtype for one in ELEMENTS} == set(ELEMENTS)
    whole = Problem(8, 8, 8, types="s8,s8,s32")
    assert Problem(8, 8, 8, types=("s8", np.int8, DType.S32)) == whole
    assert Problem(8, 8, 8, types=("int8", "INT8", "Int32")) == whole
    assert Problem(8, 8, 8, types=["s8", "s8", np.dtype("int32")]) == whole


class Played:
    """An element type of torch as far as its name goes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


Played.__module__ = "torch"


def test_element_types_may_be_torchs_where_torch_is_missing() -> None:
    named = {one: Played(f"torch.{one.numpy}") for one in ELEMENTS}
    assert {one: Problem(8, 8, 8, given).dtype for one, given in named.items()} == {one: one for one in ELEMENTS}
    s8, s32 = named[DType.S8], Played("torch.int32")
    assert Problem(8, 8, 8, types=(s8, s8, s32)) == Problem(8, 8, 8, types="s8,s8,s32")
    with pytest.raises(InvalidInput, match=r"unknown dtype 'torch\.complex64': known are f32"):
        Problem(8, 8, 8, Played("torch.complex64"))


def test_element_types_may_be_those_of_torch_and_jax(torch, jax) -> None:
    types = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.float8_e4m3fn: "e4m3"}
    assert [str(Problem(8, 8, 8, given).types) for given in types] == [*types.values()]
    assert str(Problem(8, 8, 8, types=(torch.int8, torch.int8, torch.int32)).types) == "s8,s8,s32"
    assert Problem(8, 8, 8, jax.numpy.bfloat16) == Problem(8, 8, 8, ml_dtypes.bfloat16) == Problem(8, 8, 8, "bf16")


def test_what_is_no_element_type_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"unknown dtype .*SimpleNamespace"):
        Problem(8, 8, 8, SimpleNamespace(dtype=SimpleNamespace))


def test_compute_is_said_as_on_the_command_line() -> None:
    tf32 = Problem(8, 8, 8, types=Types.parse("f32", Compute.TF32))
    assert Problem(8, 8, 8, compute="tf32") == Problem(8, 8, 8, "f32", compute=Compute.TF32) == tf32
    assert Problem(8, 8, 8, types="f32_tf32") == Problem(8, 8, 8, types="f32_tf32", compute="tf32") == tf32
    assert replace(tf32, compute="fma") == Problem(8, 8, 8)  # type: ignore[call-arg]
    assert replace(tf32, m=16).types.compute is Compute.TF32


def test_a_problem_says_its_one_dtype_or_that_it_has_none() -> None:
    half = Problem(8, 8, 8, "bf16", epilogue="bias+gelu")
    assert half.dtype is DType.BF16 and Problem(8, 8, 8).dtype is DType.F32
    with pytest.raises(InvalidInput, match="no one dtype: A is of s8, B of s8 and C of s32"):
        _ = Problem(8, 8, 8, types="s8,s8,s32").dtype


def test_a_copy_takes_a_dtype_or_types_or_keeps_its_own() -> None:
    half = Problem(8, None, 8, "bf16", typical={"N": 4})
    assert replace(half, m=16) == Problem(16, None, 8, DType.BF16, typical=(("N", 4),))
    assert replace(half, dtype="f64").dtype is DType.F64  # type: ignore[call-arg]
    assert replace(half, types=Types.parse("s8,s8,s32")).types.c is DType.S32
    copied = pickle.loads(pickle.dumps(half))
    assert copied == half and hash(copied) == hash(half) and repr(copied) == repr(half) and "dtype" not in vars(half)


def test_a_layout_of_unknown_orders_is_refused() -> None:
    with pytest.raises(InvalidInput, match="unknown order 'row' of A: known are r, c"):
        Layout("row", "r")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("problem", "given_values", "message"),
    [
        (ANY, {"m": 4, "n": 4}, "K is a run-time size of this kernel: give it a value"),
        (ANY, {"m": 0, "n": 4, "k": 4}, "M = 0, N = 4: a launch needs at least one element of C"),
        (ANY, {"m": 4, "n": 4, "k": -1}, "K = -1 is negative"),
        (ANY, {"m": 4, "n": 4, "k": 8, "lda": 4}, "lda = 4 is shorter than a line of 8"),
        (ANY, {"m": 4, "n": 4, "k": 8, "lda": 10}, "lda = 10 is no multiple of ld_align = 4"),
        (Problem(8, 8, 8), {"batch": 2}, "batch = 2, but this kernel is built for one product"),
        (Problem(8, 8, 8, batch=3), {"batch": 2}, "batch = 2, but this kernel is built for batch = 3"),
        (Problem(8, 8, 8, batch=None), {}, "batch is a run-time size of this kernel: give it a value"),
        (Problem(8, 8, 8, batch=None), {"batch": 0}, "batch = 0: a launch needs at least one product"),
        (Problem(8, 8, 8, batch=3, stride_c=None), {"stride_c": 63}, "stride_c = 63 is shorter than a matrix of 64"),
        (Problem(8, 8, 8, batch=3, stride_b=None), {"stride_b": -1}, "stride_b = -1 is negative"),
        (Problem(8, 8, 8, batch=3, pointers=True), {"stride_b": 64}, "stride_b = 64: matrices behind pointers have no"),
        (Problem(8, 8, 8), {"m": 9}, "M = 9, but this kernel is built for M = 8"),
        (Problem(8, 8, 8, lda=12), {"lda": 8}, "lda = 8, but this kernel is built for lda = 12"),
    ],
)
def test_invalid_cases(problem: Problem, given_values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        problem.case(**given_values)
    assert message in str(caught.value)


def test_matrices_of_a_batch_may_interleave_and_those_that_are_read_overlap() -> None:
    """Heads side by side in rows of 4 x 8 elements; C's must not overlap."""
    apart = Problem(16, 8, 8, batch=4, lda=32, stride_a=8, ldb=32, stride_b=1, ldc=32, stride_c=8)
    case = apart.case()
    assert not case.c.overlaps and case.c.elements == 16 * 32
    flat = np.arange(16 * 32).reshape(16, 4, 8)
    assert np.array_equal(case.a.view(flat.ravel()), flat.transpose(1, 0, 2))
    assert case.c.place(5 * 32 + 2 * 8 + 3) == "row 5, column 3 of matrix 2"
    loose = Problem(
        None, None, None, batch=None, **dict.fromkeys(("lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c"))
    )
    assert loose.case(16, 8, 8, lda=32, ldc=32, batch=4, stride_a=8, stride_b=0, stride_c=8).c.stride == 8


@pytest.mark.parametrize("text", ["", "512", "512x512", "1x2x3x4", "axbxc", "1.5x2x3", "1 x 2 x 3", "512x512x512\n"])
def test_text_that_is_no_shape(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no shape: write MxNxK"):
        parse_shape(text)


@pytest.mark.parametrize(
    ("text", "shape"),
    [("1x2x3", (1, 2, 3)), ("1X2x3", (1, 2, 3)), ("?x4096x?", (None, 4096, None)), ("-1x0x3", (-1, 0, 3))],
)
def test_shapes(text: str, shape: tuple[int | None, ...]) -> None:
    assert parse_shape(text) == shape  # Problem judges the numbers


def test_unknown_dtype_and_layout_name_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="unknown dtype 'f31': known are f32, f64"):
        DType.parse("f31")
    with pytest.raises(InvalidInput, match="unknown layout 'row': known are rr, rc, cr, cc"):
        Layout.parse("row")


def test_dense_leading_dimensions_follow_the_layout() -> None:
    sizes = {text: Problem(2, 3, 5, layout=Layout.parse(text)).sizes for text in ("rr", "cc")}
    assert sizes["rr"] == {"M": 2, "N": 3, "K": 5, "lda": 5, "ldb": 3, "ldc": 3}
    assert sizes["cc"] == {"M": 2, "N": 3, "K": 5, "lda": 2, "ldb": 5, "ldc": 3}


def test_a_dense_line_of_a_runtime_size_is_a_parameter() -> None:
    assert Problem(2, None, 5).runtime_names == ("N", "ldb", "ldc")
    assert Problem(2, 3, 5, lda=None).runtime_names == ("lda",)
    assert Problem(2, 3, 5).runtime_names == ()


@pytest.mark.parametrize(("k", "ld_align", "expected"), [(5, 1, 13), (8, 4, 16), (0, 4, 4), (9, 4, 12)])
def test_shortest_leading_dimension_that_the_promise_allows(k: int, ld_align: int, expected: int) -> None:
    problem = Problem(2, 2, None, lda=None, ld_align=ld_align)
    case = problem.case(k=k, lda=expected if expected > k + 4 else None)
    assert case.lda == expected


@pytest.mark.parametrize(
    ("problem", "widest"),
    [
        (Problem(8, 8, 512), 4),
        (Problem(8, 8, 510), 2),
        (Problem(8, 8, 511), 1),
        (Problem(8, 8, 511, lda=512), 4),
        (Problem(8, 8, 512, pointer_align=8), 2),
        (Problem(8, 8, 512, lda=None), 1),
        (Problem(8, 8, 512, batch=9), 4),
        (Problem(8, 8, 512, batch=9, stride_a=0), 4),
        (Problem(8, 8, 512, batch=9, stride_a=4098), 2),
        (Problem(8, 8, 512, batch=9, stride_a=None), 1),
        (Problem(8, 8, 512, batch=9, pointers=True), 4),
        (Problem(8, 8, 512, batch=9, pointers=True, pointer_align=8), 2),
        (Problem(8, 8, 512, batch=9, stride_a=None, ld_align=2), 2),
        (Problem(8, 8, 512, dtype=DType.F64), 2),
        (Problem(8, 8, 512, dtype=DType.F64, pointer_align=8), 1),
        (Problem(8, 8, 512, lda=None, ld_align=4), 4),
        (Problem(8, 8, 512, lda=None, ld_align=4, pointer_align=4), 1),
    ],
)
def test_widest_access_to_a(problem: Problem, widest: int) -> None:
    assert problem.vector_limit("lda") == widest


@pytest.mark.parametrize(
    ("problem", "needed"),
    [
        (Problem(4096, 4096, 4096), False),
        (Problem(2**16, 2**15, 64), True),  # C has 2^31 elements
        (Problem(2**16 - 4096, 2**15, 64), False),
        (Problem(64, 64, 64, ldc=2**25), True),  # by the tile that reaches past the edge
        (Problem(None, 8, 8), True),
        (Problem(64, 64, 64, batch=None), False),  # strides are 64-bit anyway
    ],
)
def test_offsets_beyond_32_bits(problem: Problem, needed: bool) -> None:
    assert problem.needs_64bit is needed


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 3), st.sampled_from(["r", "c"]))
def test_a_view_reaches_exactly_the_elements(rows: int, cols: int, padding: int, order: Any) -> None:
    line = cols if order == "r" else rows
    matrix = Matrix(rows, cols, line + padding, order)
    flat = np.zeros(matrix.elements, np.float32)
    if flat.size:
        matrix.view(flat)[...] = 1
    assert flat.sum() == rows * cols
    assert flat.size == 0 or (flat[0] == flat[-1] == 1)
    lines = flat.size - rows * cols
    assert lines == (max(0, matrix.lines - 1) * padding if flat.size else 0)


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 9),
    st.sampled_from(["rr", "rc", "cr", "cc"]),
    st.sampled_from([0.0, 1.0, -2.0]),
)
def test_traffic_and_work_of_a_case(m: int, n: int, k: int, layout: str, beta: float) -> None:
    case = Problem(None, None, None, layout=Layout.parse(layout)).case(m, n, k, beta=beta)
    assert case.flops == 2 * m * n * k
    assert case.bytes_moved == 4 * (m * k + k * n + (m * n if beta == 0 else 2 * m * n))
    assert [(x.rows, x.cols) for x in case.matrices] == [(m, k), (k, n), (m, n)]
    sizes = {"M": m, "N": n, "K": k, "lda": case.lda, "ldb": case.ldb, "ldc": n}
    assert case.values == {**sizes, "alpha": 1.0, "beta": beta}


def test_a_case_is_checked_however_it_is_built() -> None:
    with pytest.raises(InvalidInput, match="ldc = 7 is shorter than a line of 8"):
        Case(Problem(8, 8, 8), 8, 8, 8, 8, 8, 7)


def test_dense_strides_are_lines_times_leading_dimension() -> None:
    problem = Problem(2, 3, 5, layout=Layout("c", "c"), lda=4, batch=7)
    assert {name: problem.sizes[name] for name in ("batch", "stride_a", "stride_b", "stride_c")} == {
        "batch": 7,
        "stride_a": 20,
        "stride_b": 15,
        "stride_c": 6,
    }
    assert Problem(2, None, 5, batch=7).runtime_names == ("N", "ldb", "ldc", "stride_b", "stride_c")


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.integers(0, 5), st.integers(1, 4))
def test_a_view_of_a_batch_reaches_each_matrix_once(rows: int, cols: int, padding: int, gap: int, batch: int) -> None:
    ld = cols + padding
    matrix = Matrix(rows, cols, ld, "r", batch, (rows - 1) * ld + cols + gap)
    flat = np.zeros(matrix.elements, np.float64)
    view = matrix.view(flat)
    view += 1
    assert view.shape == (batch, rows, cols)
    assert flat.sum() == batch * rows * cols and flat[0] == flat[-1] == flat.max() == 1


def test_a_shared_matrix_is_stored_and_read_once() -> None:
    case = Problem(8, 8, 4, batch=10, stride_b=0).case(beta=1.0)
    assert case.b.elements == 32 and case.b.view(np.zeros(32)).shape == (10, 4, 8)
    assert case.bytes_moved == 4 * (10 * 32 + 32 + 2 * 10 * 64)
    assert case.flops == 10 * 2 * 8 * 8 * 4
    assert case.c.place(64 * 3 + 17) == "row 2, column 1 of matrix 3"


def test_a_batch_of_pointers_has_no_strides_and_reads_its_pointers() -> None:
    problem = Problem(5, 3, 7, batch=None, pointers=True)
    assert problem.runtime_names == ("batch",) and not problem.strided
    case = problem.case(batch=10)
    assert case.c.stride == 15 and case.bytes_moved == 4 * 10 * (35 + 21 + 15) + 24 * 10
    shared = problem.case(batch=10, different_b=3)
    assert shared.b.elements == 3 * 21 and shared.bytes_moved == case.bytes_moved - 4 * 7 * 21
    numbers = shared.b.view(np.repeat(np.arange(3), 21))
    assert (numbers == (np.arange(10) % 3)[:, None, None]).all() and numbers.shape == (10, 7, 3)
    with pytest.raises(InvalidInput, match="different_a = 11: of 10 products at most 10 can differ"):
        problem.case(batch=10, different_a=11)
    with pytest.raises(InvalidInput, match="different_a = 2: of 10 products at most 0 can differ"):
        Problem(5, 3, 7, batch=None).case(batch=10, different_a=2)
    assert str(problem) == "5x3x7 x ? by pointers f32 rr"


def test_a_launch_takes_no_size_that_32_bits_do_not_hold() -> None:
    problem = Problem(None, 64, 64, lda=None)
    assert problem.case(m=5, lda=SIZE_LIMIT).lda == SIZE_LIMIT
    for sizes, name in (({"m": 5, "lda": 2**31 + 5}, "lda"), ({"m": 2**31}, "M")):
        with pytest.raises(InvalidInput, match=rf"{name} = \d+ exceeds {SIZE_LIMIT}"):
            problem.case(**sizes)
