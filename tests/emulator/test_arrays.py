"""`gemmgen.load` on arrays of the host: the emulator computes what the kernel would, and what does not fit is said."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmgen
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.exports.library.spec import spec_from
from gemmgen.families import NAIVE, SIMT, WGMMA
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def loaded(shared_store: Store) -> Iterator[Callable[[Problem], ArrayKernel]]:
    """A kernel of the family simt with small tiles, which compiles soon, one for each problem."""
    known: dict[Problem, ArrayKernel] = {}

    def load(problem: Problem) -> ArrayKernel:
        if problem not in known:
            config = SIMT.default(problem).with_values(**SIMT.small)
            known[problem] = load_source(render(problem, SIMT, config), "emulator", shared_store)
        return known[problem]

    yield load
    for kernel in known.values():
        kernel.close()


ANY = Problem(None, 24, None, layout="rc", epilogue="bias+gelu+residual")
PLAIN = Problem(None, None, None, layout="cr", pointer_align=4)
ALIGNED = Problem(None, None, None)
BATCH = Problem(20, 24, 16, batch=None, stride_b=0)


def normal(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def close(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-5, atol=1e-5)


def test_operands_lie_where_they_are_and_leading_dimensions_follow_their_strides(loaded) -> None:
    kernel = loaded(PLAIN)
    a, b, c = normal(30, 50)[3:20, 5:27], normal(20, 40)[1:18, 2:35], np.full((40, 60), 7, np.float32)
    out = c[1:23, 4:37]
    old = out.copy()
    assert kernel(a.T, b, out, alpha=2.0, beta=-0.5) is out
    close(out, 2.0 * a.T.astype(np.float64) @ b - 0.5 * old)
    out[...] = 7
    assert (c == 7).all(), "nothing beside C's elements is written"


def test_operands_of_the_epilogue_come_by_name(loaded) -> None:
    a, w, bias, residual = normal(9, 16), normal(24, 16), normal(24), normal(9, 24)
    found = loaded(ANY)(a, w.T, bias_n=bias, residual=residual)
    x = a.astype(np.float64) @ w.T + bias
    gelu = 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    np.testing.assert_allclose(found, gelu + residual, rtol=1e-4, atol=1e-4)


def test_products_of_a_batch_share_a_matrix(loaded) -> None:
    a, b = normal(3, 20, 16), normal(16, 24)
    wanted = a.astype(np.float64) @ b
    close(loaded(BATCH)(a, b), wanted)
    close(loaded(BATCH)(a, np.broadcast_to(b, (3, 16, 24))), wanted)


HEADS: dict[str, Any] = dict.fromkeys(("batch", "lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c"))


def test_matrices_of_a_batch_may_interleave_as_the_heads_of_attention_do(loaded) -> None:
    kernel = loaded(Problem(None, None, None, pointer_align=4, **HEADS))
    x, w, c = normal(16, 4, 8), normal(8, 4, 24), np.full((16, 6, 24), 7, np.float32)
    a, b, out = (one.transpose(1, 0, 2) for one in (x, w, c[:, 1:5]))
    wanted = a.astype(np.float64) @ b
    close(kernel(a, b), wanted)
    assert kernel(a, b, out, alpha=2.0, beta=1.0) is out
    close(out, 2 * wanted + 7)
    assert (c[:, [0, 5]] == 7).all(), "the heads beside them"
    products = kernel.plan(a, b, out)
    close(products(), wanted)
    windows = np.lib.stride_tricks.sliding_window_view(x.reshape(64, 8), 16, axis=0).transpose(0, 2, 1)  # that overlap
    close(kernel(windows[:5], b[:1].repeat(5, 0)), windows[:5].astype(np.float64) @ b[0])


def test_matrices_of_a_result_that_overlap_are_refused(loaded) -> None:
    kernel, a, b, c = (
        loaded(Problem(None, None, None, pointer_align=4, **HEADS)),
        normal(3, 5, 8),
        normal(3, 8, 6),
        normal(40),
    )
    for stride in (0, 5, 8):  # of lines 20 elements apart, which hold two lines of 6 and not three
        out = np.lib.stride_tricks.as_strided(c, (3, 5, 6), (4 * stride, 4 * 20, 4), writeable=True)
        with pytest.raises(
            InvalidInput, match=f"stride_c = {stride} is shorter than a matrix of 86 elements, and 3 lines"
        ):
            kernel(a, b, out)


def test_a_plan_reads_what_its_arrays_hold_by_then(loaded) -> None:
    a, b = normal(9, 7), normal(7, 5)
    plan = loaded(PLAIN).plan(a.T.copy().T, b)
    close(plan(), a.astype(np.float64) @ b)
    b *= 2
    close(plan(), a.astype(np.float64) @ b)


def test_an_operand_that_is_prepared_once_serves_later_calls(
    program: Callable[..., KernelSource], shared_store
) -> None:
    source = program("rr", "bf16,bf16,f32", pointer_align=2)
    a, b = (normal(*shape).astype(ml_dtypes.bfloat16) for shape in ((9, 21), (21, 11)))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    with load_source(source, "emulator", shared_store) as kernel:
        copy = kernel.prepare_b(b)
        assert copy.array.shape == (1, 11, 24), "columns of whole 16 bytes"
        close(kernel(a, copy), wanted)
        close(kernel(kernel.prepare_a(a), copy), wanted)
        close(kernel(a, b), wanted)
        with pytest.raises(InvalidInput, match="A is a prepared B"):
            kernel(copy, b)


def of_pieces(problem: Problem) -> KernelSource:
    small = {"BM": 64, "BN": 32, "CONSUMERS": 1, "STAGES": 2}
    return render(problem, WGMMA, WGMMA.default(problem).with_values(**small))


def test_pieces_of_an_operand_serve_later_calls(shared_store) -> None:
    source = of_pieces(Problem(None, 24, None, layout="rr", types="f32_bf16x6", batch=2))
    a, b = normal(2, 9, 140), normal(2, 140, 24)
    with load_source(source, "emulator", shared_store) as kernel:
        copy = kernel.prepare_b(b)
        assert copy.array.shape == (6, 140, 64) and copy.array.dtype == ml_dtypes.bfloat16
        assert np.array_equal(kernel(a, copy), kernel(a, b))
        close(kernel(kernel.prepare_a(a), copy), a.astype(np.float64) @ b)


def test_pieces_make_what_the_header_says_of_numbers_at_the_ends_of_the_range(shared_store) -> None:
    """Products with powers of two, and sums of one product: as in f32, but to a multiple of 2^-133 of a factor."""
    largest, tiny = float(np.finfo(np.float32).max), 2.0**-149
    a = np.array([[largest], [-largest], [np.inf], [-np.inf], [np.nan], [0], [tiny], [-3 * 2.0**-133], [2.0**-110]])
    b = np.array([[1.0, -0.5, tiny, -tiny, 0.0, np.inf, -np.inf, np.nan, 2.0**-20, -(2.0**-126)]])
    with load_source(of_pieces(Problem(None, 10, 1, types="f32_bf16x6")), "emulator", shared_store) as kernel:
        found = kernel(a.astype(np.float32), b.astype(np.float32)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        wanted = a * b
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    infinite = np.isinf(wanted)
    assert np.array_equal(found[infinite], wanted[infinite])
    with np.errstate(invalid="ignore"):
        bound = 2.0**-134 * (np.abs(a) + np.abs(b)) + tiny  # what one factor lacks, times the other; rounding
    finite = np.isfinite(wanted)
    assert (np.abs(found[finite] - wanted[finite]) <= bound[finite]).all()


def test_what_overflows_of_pieces_is_infinite_or_nan(shared_store) -> None:
    """Of the other sign where the second piece's product has it, and overflows first."""
    above, below = (float(np.float32(2.0**100 * (1 + off))) for off in (2.0**-10, -(2.0**-10)))
    a, b = np.array([[above], [below]], np.float32), np.array([[2.0**27, 2.0**28, 2.0**60]], np.float32)
    with load_source(of_pieces(Problem(None, 3, 1, types="f32_bf16x6")), "emulator", shared_store) as kernel:
        found = kernel(a, b)
    assert found[0].tolist() == [above * 2.0**27, np.inf, np.inf]
    assert found[1].tolist() == [below * 2.0**27, below * 2.0**28, -np.inf]


def test_what_overflows_no_array_is_empty(loaded) -> None:
    """K = 0 makes the product zero, of arrays without an element."""
    close(loaded(PLAIN)(normal(0, 4).T, normal(0, 6)), np.zeros((4, 6)))


@pytest.mark.parametrize(("m", "n"), [(0, 5), (4, 0), (0, 0)])
@pytest.mark.parametrize("k", [0, 6])
def test_an_empty_product_is_an_empty_array(loaded, m: int, n: int, k: int) -> None:
    kernel, a, b = loaded(PLAIN), normal(k, m).T, normal(k, n)
    assert kernel(a, b).shape == (m, n)
    out = np.empty((m, n), np.float32)
    assert kernel(a, b, out, alpha=2.0, beta=1.0) is out and kernel.plan(a, b, out)() is out
    with pytest.raises(InvalidInput, match=rf"B is {k + 1} x {n} \(K x N\): the other operands have K = {k}"):
        kernel(a, normal(k + 1, n))
    with pytest.raises(InvalidInput, match="A is of f64"):
        kernel(a.astype("f8"), b)


def test_a_batch_of_no_product_is_an_empty_array(loaded) -> None:
    for a, b in ((normal(0, 20, 16), normal(16, 24)), (normal(0, 20, 16), normal(0, 16, 24))):
        assert loaded(BATCH)(a, b).shape == (0, 20, 24)


def test_a_fixed_size_is_none_of_an_empty_product(loaded) -> None:
    with pytest.raises(InvalidInput, match=r"A is 3 x 0 x 16 .*: this kernel is built for M = 20"):
        loaded(BATCH)(normal(3, 0, 16), normal(16, 24))


def test_operands_of_the_epilogue_are_as_empty_as_c(loaded) -> None:
    w, bias, residual = normal(24, 16), normal(24), normal(0, 24)
    assert loaded(ANY)(normal(0, 16), w.T, bias_n=bias, residual=residual).shape == (0, 24)
    with pytest.raises(InvalidInput, match="bias_n is 23: this launch takes 24"):
        loaded(ANY)(normal(0, 16), w.T, bias_n=bias[:23], residual=residual)
    with pytest.raises(InvalidInput, match=r"residual is 1 x 24 .* the other operands have M = 0"):
        loaded(ANY)(normal(0, 16), w.T, bias_n=bias, residual=normal(1, 24))


def test_the_largest_magnitude_of_no_element_is_zero(loaded) -> None:
    kernel = loaded(Problem(None, None, 16, batch=None, epilogue="row_amax(column_amax(alpha * acc))"))
    rows, columns = np.full((2, 9), 7, np.float32), np.full((2, 0), 7, np.float32)
    assert kernel(normal(2, 9, 16), normal(2, 16, 0), row_amax=rows, column_amax=columns).shape == (2, 9, 0)
    assert not rows.any()
    rows, columns = np.full((2, 0), 7, np.float32), np.full((2, 5), 7, np.float32)
    assert kernel(normal(2, 0, 16), normal(2, 16, 5), row_amax=rows, column_amax=columns).shape == (2, 0, 5)
    assert not columns.any()


def test_an_empty_operand_is_prepared(program: Callable[..., KernelSource], shared_store) -> None:
    a, b = (normal(*shape).astype(ml_dtypes.bfloat16) for shape in ((9, 21), (21, 0)))
    with load_source(program("rr", "bf16,bf16,f32", pointer_align=2), "emulator", shared_store) as kernel:
        assert kernel(a, kernel.prepare_b(b)).shape == (9, 0)
        assert kernel(kernel.prepare_a(a[:0]), kernel.prepare_b(b)).shape == (0, 0)
        close(kernel(kernel.prepare_a(a[:, :0]), kernel.prepare_b(normal(0, 4).astype(b.dtype))), np.zeros((9, 4)))


A, W = normal(9, 16), normal(24, 16)
GIVEN = {"bias_n": normal(24), "residual": normal(9, 24)}
MISFITS: dict[str, tuple[Problem, Callable[[], tuple[Any, ...]], dict[str, Any], str]] = {
    "transposed": (ANY, lambda: (A, W), GIVEN, r"B is 24 x 16 (K x N): the other operands have K = 16. Pass its"),
    "depth": (ANY, lambda: (A, W[:, :15].T), GIVEN, "B is 15 x 24 (K x N): the other operands have K = 16"),
    "fixed": (ANY, lambda: (A, W[:23].T), GIVEN, "B is 16 x 23 (K x N): this kernel is built for N = 24"),
    "order": (ANY, lambda: (A, W.T.copy()), GIVEN, "B of 16 x 24 has strides (24, 1): this kernel reads it column-maj"),
    "type": (ANY, lambda: (A.astype("f8"), W.T), GIVEN, "A is of f64: this kernel ("),
    "vector": (ANY, lambda: (A, W.T), {**GIVEN, "bias_n": normal(9)}, "bias_n is 9: this launch takes 24"),
    "apart": (ANY, lambda: (A, W.T), {**GIVEN, "bias_n": normal(48)[::2]}, "bias_n of 24 has strides (2,)"),
    "unknown": (
        ANY,
        lambda: (A, W.T),
        {**GIVEN, "scale_a": A},
        "called scale_a: known are out, alpha, beta, stream, bias_n,",
    ),
    "misspelt": (
        PLAIN,
        lambda: (A.T.copy().T, W.T.copy()),
        {"alfa": 2},
        "called alfa: known are out, alpha, beta, stream",
    ),
    "hidden": (PLAIN, lambda: (A.T.copy().T, W.T.copy()), {"A": A}, "called A: known are out, alpha, beta, stream"),
    "missing": (ANY, lambda: (A, W.T), {"bias_n": GIVEN["bias_n"]}, "reads residual: give residual="),
    "no old C": (PLAIN, lambda: (A.T.copy().T, W.T.copy()), {"beta": 1.0}, "beta = 1.0 reads C: give it as out="),
    "no array": (ANY, lambda: (A, 1.5), GIVEN, "B is no array, of type float: one has"),
    "dimensions": (ANY, lambda: (A[0], W.T), GIVEN, "A is 16: this kernel takes it as M x K"),
    "in place": (PLAIN, lambda: (S.T, S, S), {}, "out is A's array"),
    "read-only": (PLAIN, lambda: (S.T, W[:16, :16], frozen()), {}, "C is written, and its array is read-only"),
    "stride": (BATCH, lambda: (normal(2, 20, 16), normal(2, 16, 24)), {}, "stride_b = 384, but this kernel is built"),
}
S = normal(16, 16)


def test_a_result_may_lie_between_the_lines_of_an_operand_and_not_on_them(loaded) -> None:
    """Two views of one buffer, all ways to place a result of 5 x 8 beside an operand of 5 x 8."""
    kernel, buffer, b = (
        loaded(Problem(None, None, None, lda=None, ldc=None, pointer_align=4)),
        normal(12, 24),
        normal(8, 8),
    )
    a, old = buffer[3:8, 7:15], buffer.copy()
    wanted, refused = old[3:8, 7:15].astype(np.float64) @ b, 0
    for row in range(8):
        for column in range(17):
            out = buffer[row : row + 5, column : column + 8]
            if np.shares_memory(out, a):
                same = (row, column) == (3, 7)
                with pytest.raises(InvalidInput, match="out is A's array" if same else r"out overlaps A: .* from 0x"):
                    kernel(a, b, out)
                refused += 1
            elif (row + column) % 5 == 0:  # some: the emulator takes its time
                close(kernel(a, b, out), wanted)
                buffer[...] = old
    assert refused == 8 * 15, "rows 0 to 7, columns 0 to 14"
    assert np.array_equal(buffer, old)


def test_what_an_epilogue_writes_overlaps_nothing_either(loaded) -> None:
    kernel = loaded(Problem(None, 24, 16, epilogue="aux(alpha * acc) + residual"))
    a, b, both = normal(9, 16), normal(16, 24), normal(18, 24)
    for first, aux in ((0, 8), (8, 0)):
        with pytest.raises(InvalidInput, match="aux overlaps residual: it has addresses from"):
            kernel(a, b, aux=both[aux : aux + 9], residual=both[first : first + 9])
    with pytest.raises(InvalidInput, match="out is aux's array"):
        kernel(a, b, both[:9], aux=both[:9], residual=both[9:])
    kernel(a, b, both[:9], aux=normal(9, 24), residual=both[9:])


def frozen() -> np.ndarray[Any, Any]:
    made = np.zeros((16, 16), np.float32)
    made.flags.writeable = False
    return made


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_said_with_both_values(loaded, name: str) -> None:
    problem, positional, named, message = MISFITS[name]
    with pytest.raises(InvalidInput, match=re.escape(message)):
        loaded(problem)(*positional(), **named)


def test_an_address_with_less_alignment_than_was_promised_is_refused(loaded) -> None:
    flat = np.zeros(8 * 16 + 8, np.float32)
    at = (-flat.ctypes.data // 4) % 4  # elements to the first address that 16 bytes divide
    with pytest.raises(InvalidInput, match=r"A begins at address 0x\w+, which 4 bytes divide: .* 16 bytes divide"):
        loaded(ALIGNED)(flat[at + 1 :][: 8 * 16].reshape(8, 16), normal(16, 24))


class Exported:
    """An array that speaks DLPack alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self) -> object:
        return self._array.__dlpack__()


def test_an_array_may_speak_dlpack_alone(loaded) -> None:
    a, b, out = normal(9, 7), normal(7, 5), np.empty((9, 5), np.float32)
    columns = np.asfortranarray(a)
    loaded(PLAIN)(Exported(columns), Exported(b), Exported(out))
    close(out, a.astype(np.float64) @ b)
    with pytest.raises(InvalidInput, match="give it as out="):
        loaded(PLAIN)(Exported(columns), b)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product of a kernel that serves every call, one for lines of whole chunks, and one for a weight of 24 x 16."""
    folder = tmp_path_factory.mktemp("library")
    anywhere = {"lda": None, "ldb": None, "ldc": None, "layout": "rc"}
    problems = (
        Problem(None, None, None, pointer_align=4, **anywhere),
        Problem(None, None, None, ld_align=4, **anywhere),
        Problem(None, 24, 16, layout="rc"),
    )
    families = (NAIVE, SIMT, SIMT)
    sources = [render(one, family, family.default(one)) for one, family in zip(problems, families, strict=True)]
    files = [str(folder / f"{one.name}.cu") for one in sources]
    for file, one in zip(files, sources, strict=True):
        Path(file).write_text(one.text)
    product = {"name": "dense", "types": "f32", "layout": "rc", "M": "?", "N": "?", "K": "?", "kernels": files}
    spec = spec_from({"name": "small", "architectures": ["sm_90"], "product": [product]}, "sm_90", folder)
    gemmgen.library(spec, to=folder / "out", device="emulator", examples=0, points=8)
    return folder / "out"


def test_a_librarys_rules_choose_among_its_kernels(library: Path) -> None:
    with gemmgen.load_library(library, device="emulator") as products:
        (name, dense), a, w = *products.items(), normal(9, 16), normal(24, 16)
        assert name == "dense" and "3 kernels" in repr(dense) and repr(products) == "<library of dense>"
        wide, odd = normal(24, 20)[:, :16], normal(24, 17)[:, :16]
        large = [(np.empty((900, 512), np.float32), np.empty((900, 516), np.float32)[:, :512])]  # what tiles pay for
        chosen = [dense.kernel_for(x, y.T).source.problem for x, y in [(a, w), *large, (a, odd)]]
        assert [(one.n, one.ld_align) for one in chosen] == [(24, 1), (None, 4), (None, 1)]
        for weight in (w, wide, odd, normal(5, 16)):
            close(dense(a, weight.T), a.astype(np.float64) @ weight.T)
        out = np.empty((9, 24), np.float32)
        assert dense.plan(a, w.T, out, alpha=3.0)() is out
        close(out, 3 * a.astype(np.float64) @ w.T)
        assert dense(a[:0], w.T).shape == (0, 24) and dense.plan(a, w[:0].T)().shape == (9, 0)
        close(dense(a[:, :0], w[:, :0].T), np.zeros((9, 24)))
        with pytest.raises(InvalidInput, match="B is 24 x 15"):
            dense(a, w[:, 1:])
        with pytest.raises(InvalidInput, match="a plan takes its stream when it is called"):
            dense.plan(a, w.T, stream=3)
        with pytest.raises(InvalidInput, match="no argument is called alfa"):
            dense(a, w.T, alfa=2)
        with pytest.raises(InvalidInput, match=r"alpha = '2' is no real number"):
            dense(a, w.T, alpha="2")
        with pytest.raises(InvalidInput, match=r"beta = 2j is no real number"):
            dense(a, w.T, out, beta=2j)
        with pytest.raises(InvalidInput, match=r"K = 16. Pass its transpose, a view of 16 x 24$"):
            dense(a, w)
        with pytest.raises(InvalidInput, match=r"K = 16$"):  # whose transpose would be row-major
            dense(a, np.asfortranarray(w))
    with pytest.raises(InvalidInput, match="unknown device 'emulater'"):
        gemmgen.load_library(library, device="emulater")
    with pytest.raises(InvalidInput, match="holds 0 libraries' records"):
        gemmgen.load_library(library.parent, device="emulator")


def test_what_an_epilogue_writes_comes_by_name_too(loaded) -> None:
    kernel = loaded(Problem(None, 24, 16, batch=None, epilogue="row_amax(aux(scale_a * acc) + bias_n)"))
    a, b, bias = normal(2, 9, 16), normal(2, 16, 24), normal(24)
    aux, most = np.full((2, 9, 24), 7, np.float32), np.full((2, 9), 7, np.float32)
    given = {"bias_n": bias, "scale_a": np.array(0.5, np.float32), "aux": aux}
    found = kernel(a, b, row_amax=most, **given)
    close(aux, 0.5 * a.astype(np.float64) @ b)
    close(found, aux + bias.astype(np.float64))
    np.testing.assert_array_equal(most, np.abs(found).max(2))
    with pytest.raises(InvalidInput, match="writes row_amax: give row_amax="):
        kernel(a, b, **given)
    with pytest.raises(InvalidInput, match="row_amax is 9: this launch takes 2 x 9"):
        kernel(a, b, row_amax=most[0], **given)
    with pytest.raises(InvalidInput, match="aux has ldc = 48, and C ldc = 24: they lie alike"):
        kernel(a, b, row_amax=most, out=np.empty((2, 9, 24), np.float32), **given | {"aux": normal(2, 9, 48)[..., :24]})
