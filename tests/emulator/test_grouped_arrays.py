"""Kernels of groups on arrays of the host: a mixture of experts from Python, and what does not fit is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmgen
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.exports.library.spec import spec_from
from gemmgen.families import NAIVE, WGMMA
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store

Array = np.ndarray[Any, Any]
G, M, N, K = 4, 11, 6, 8
ENDS = (3, 3, 8, 10)  # the second group is empty, and the last row is nobody's


@pytest.fixture(scope="module")
def loaded(shared_store: Store) -> Iterator[Callable[[Problem], ArrayKernel]]:
    """A kernel of the family naive, one for each problem."""
    known: dict[Problem, ArrayKernel] = {}

    def load(problem: Problem) -> ArrayKernel:
        if problem not in known:
            known[problem] = load_source(render(problem, NAIVE, NAIVE.default(problem)), "emulator", shared_store)
        return known[problem]

    yield load
    for kernel in known.values():
        kernel.close()


EXPERTS = Problem(None, N, None, layout="rc", pointer_align=4, inputs=f"groups={G}")
MASKED = Problem(None, N, K, layout="rc", pointer_align=4, inputs=f"groups={G}+masked")
ALONG_K = Problem(None, None, None, layout="cr", pointer_align=4, inputs=f"groups={G}+along_k")
GATHERED = Problem(None, N, K, layout="rc", pointer_align=4, inputs="gathered")
BIASED = Problem(None, N, None, layout="rc", pointer_align=4, inputs=f"groups={G}", epilogue="scale_m+scale_b+bias")
MIXTURE = Problem(None, N, K, layout="rc", pointer_align=4, inputs=f"groups={G}+gathered")
SCATTERED = Problem(None, N, K, layout="rc", pointer_align=4, inputs="scattered")
SECOND = Problem(None, N, K, layout="rc", pointer_align=4, inputs=f"groups={G}+scattered", epilogue="scale_m")


def whole(*shape: int) -> Array:
    """Small integers, whose products are exact."""
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


def ends(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def product_of_groups(a: Array, b: Array, c: Array, offs: Array) -> Array:
    found, begin = c.copy(), 0
    for matrix, end in zip(b, offs, strict=True):
        found[begin:end] = a[begin:end] @ matrix
        begin = end
    return found


def test_each_group_of_rows_has_its_b(loaded) -> None:
    kernel, w = loaded(EXPERTS), whole(G, N, K)
    for rows in (M, M + 4, 1, M):
        a, out, offs = whole(rows, K), np.full((rows, N), 7, np.float32), np.minimum(ends(*ENDS), rows)
        assert kernel(a, w.mT, out, offs=offs) is out
        np.testing.assert_array_equal(out, product_of_groups(a, w.mT, np.full_like(out, 7), offs))
        made = kernel(a, w.mT, offs=offs)
        np.testing.assert_array_equal(made[: offs[-1]], out[: offs[-1]])


def test_a_plan_reads_ends_that_changed(loaded) -> None:
    a, w, out, offs = whole(M, K), whole(G, N, K), np.zeros((M, N), np.float32), ends(*ENDS)
    plan = loaded(EXPERTS).plan(a, w.mT, out, offs=offs)
    np.testing.assert_array_equal(plan(), product_of_groups(a, w.mT, np.zeros_like(out), offs))
    offs[:] = 2, 4, 6, M
    np.testing.assert_array_equal(plan(), product_of_groups(a, w.mT, np.zeros_like(out), offs))


def test_b_may_lie_in_a_larger_array(loaded) -> None:
    kernel = loaded(Problem(None, N, K, layout="rc", ldb=None, stride_b=None, pointer_align=4, inputs=f"groups={G}"))
    a, offs = whole(M, K), ends(0, 0, 5, M)
    b = whole(2 * G, N + 1, K + 3)[1::2, 1:, 2:-1].mT
    np.testing.assert_array_equal(kernel(a, b, offs=offs), product_of_groups(a, b, np.zeros((M, N)), offs))
    one = np.broadcast_to(b[:1], b.shape)
    np.testing.assert_array_equal(kernel(a, one, offs=offs), a @ b[0])


def test_masked_groups_have_an_a_and_a_c_each(loaded) -> None:
    a, w, out = whole(G, M, K), whole(G, N, K), np.full((G, M, N), 7, np.float32)
    rows = ends(0, M, 1, 5)
    loaded(MASKED)(a, w.mT, out, group_rows=rows)
    for group, count in enumerate(rows):
        np.testing.assert_array_equal(out[group, :count], a[group, :count] @ w[group].T)
        assert (out[group, count:] == 7).all()
    assert loaded(MASKED)(a, w.mT, group_rows=rows).shape == (G, M, N)


def test_groups_along_k_have_a_c_each(loaded) -> None:
    kernel, offs = loaded(ALONG_K), ends(*ENDS)
    a, b, begin = whole(M, K), whole(M, N), 0  # of M rows in all, which are K here
    found = kernel(a.T, b, offs=offs)
    assert found.shape == (G, K, N)
    for group, end in enumerate(offs):
        np.testing.assert_array_equal(found[group], a[begin:end].T @ b[begin:end])
        begin = end
    nothing = kernel(whole(0, K).T, whole(0, N), offs=ends(*[0] * G))
    assert nothing.shape == (G, K, N) and not nothing.any()


def test_rows_are_gathered(loaded) -> None:
    w, index = whole(G, N, K), ends(2, 0, 2, 4, 1)
    for rows in (5, 9):
        a = whole(rows, K)
        np.testing.assert_array_equal(loaded(GATHERED)(a, w[0].T, index_a=index), a[index] @ w[0].T)
        offs = ends(1, 1, 4, 5)
        found = loaded(MIXTURE)(a, w.mT, offs=offs, index_a=index)
        np.testing.assert_array_equal(found, product_of_groups(a[index], w.mT, np.zeros((5, N)), offs))
    assert loaded(GATHERED)(a[:0], w[0].T, index_a=index[:0]).shape == (0, N)
    with pytest.raises(InvalidInput, match="A has 0 rows, and index_a names 5"):
        loaded(GATHERED)(a[:0], w[0].T, index_a=index)
    with pytest.raises(InvalidInput, match=r"C is 4 x 6 \(M x N\): the other operands have M = 5"):
        loaded(GATHERED)(a, w[0].T, np.zeros((4, N), np.float32), index_a=index)


def test_rows_are_scattered(loaded) -> None:
    a, w, index = whole(5, K), whole(G, N, K), ends(2, 0, 3, 4, 1)
    right = a @ w[0].T
    np.testing.assert_array_equal(loaded(SCATTERED)(a, w[0].T, index_c=index)[index], right)
    out = np.full((9, N), 7, np.float32)
    assert loaded(SCATTERED)(a, w[0].T, out, index_c=index + 4) is out
    np.testing.assert_array_equal(out[index + 4], right)
    assert (out[:4] == 7).all()
    loaded(SCATTERED)(a, w[0].T, out, alpha=-1, beta=1, index_c=index + 4)
    assert not out[4:].any() and (out[:4] == 7).all()
    assert (loaded(SCATTERED)(a[:0], w[0].T, out[:3], index_c=index[:0]) == 7).all()
    with pytest.raises(InvalidInput, match="C has 4 rows, and index_c names 5"):
        loaded(SCATTERED)(a, w[0].T, out[:4], index_c=index)
    with pytest.raises(InvalidInput, match="index_c is 4: this launch takes 5"):
        loaded(SCATTERED)(a, w[0].T, out, index_c=index[:4])


def test_rows_of_experts_are_scattered_with_a_weight(loaded) -> None:
    a, w, weight, offs = whole(5, K), whole(G, N, K), whole(5), ends(1, 1, 3, 4)
    index, out = ends(6, 2, 0, 3, -1), np.full((7, N), 7, np.float32)
    loaded(SECOND)(a, w.mT, out, offs=offs, index_c=index, scale_m=weight)
    wanted = np.full((7, N), 7, np.float32)
    wanted[index[:4]] = (product_of_groups(a, w.mT, np.zeros((5, N)), offs) * weight[:, None])[:4]
    np.testing.assert_array_equal(out, wanted)


def test_no_row_is_an_empty_array(loaded) -> None:
    assert loaded(EXPERTS)(whole(0, K), whole(G, N, K).mT, offs=ends(*[0] * G)).shape == (0, N)
    assert loaded(MASKED)(whole(G, 0, K), whole(G, N, K).mT, group_rows=ends(*[0] * G)).shape == (G, 0, N)


def test_tensor_cores_multiply_experts_of_bf16(shared_store: Store) -> None:
    problem = Problem(None, 72, 64, "bf16", layout="rc", inputs="groups=3")
    config = WGMMA.default(problem).with_values(BM=64, BN=64, CONSUMERS=1)
    w = whole(3, 72, 64)
    with load_source(render(problem, WGMMA, config, "sm_90a"), "emulator", shared_store) as kernel:
        for rows in (150, 90):
            a, offs = whole(rows, 64) / 4, ends(0, 65, rows)
            found = kernel(a.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.bfloat16).mT, offs=offs)
            wanted = product_of_groups(a, w.mT, np.zeros((rows, 72), np.float32), offs)
            np.testing.assert_array_equal(found, wanted.astype(ml_dtypes.bfloat16))


def test_a_gated_epilogue_takes_both_weights_of_each_expert(loaded) -> None:
    kernel = loaded(Problem(None, N, K, layout="rc", pointer_align=4, inputs=f"groups={G}", epilogue="swiglu"))
    a, w, offs = whole(M, K) / 8, whole(G, 2 * N, K), ends(2, 2, 6, M)
    both = product_of_groups(a, w.mT, np.zeros((M, 2 * N), np.float32), offs)
    gate, up = both[:, :N], both[:, N:]
    np.testing.assert_allclose(kernel(a, w.mT, offs=offs), gate / (1 + np.exp(-gate)) * up, rtol=1e-5, atol=1e-6)


def test_a_group_has_a_bias_and_a_factor(loaded) -> None:
    a, w, offs, of_row = whole(M, K), whole(G, N, K), ends(*ENDS), whole(M)
    factor, bias, out = whole(G), whole(G, N), np.full((M, N), 7, np.float32)
    loaded(BIASED)(a, w.mT, out, offs=offs, scale_m=of_row, scale_b=factor, bias_n=bias)
    group = np.repeat(np.arange(G), np.diff(offs, prepend=0))
    scaled = product_of_groups(a, w.mT, out, offs)[: offs[-1]] * of_row[: offs[-1], None] * factor[group, None]
    np.testing.assert_array_equal(out[: offs[-1]], scaled + bias[group])
    assert (out[offs[-1] :] == 7).all()


def test_masked_groups_have_a_bias_each(loaded) -> None:
    a, w, bias, rows = whole(G, M, K), whole(G, N, K), whole(G, N), ends(0, M, 1, 5)
    found = loaded(replace(MASKED, epilogue="bias"))(a, w.mT, group_rows=rows, bias_n=bias)
    for group, count in enumerate(rows):
        np.testing.assert_array_equal(found[group, :count], a[group, :count] @ w[group].T + bias[group])


WRONG: dict[str, tuple[Problem, dict[str, Any], str]] = {
    "without ends": (EXPERTS, {"offs": None}, "inputs = groups=4 have offs, ends of the groups of rows: give offs="),
    "three ends": (EXPERTS, {"offs": ends(1, 2, 3)}, "offs is 3: this launch takes 4"),
    "ends in a column": (EXPERTS, {"offs": ends(1, 2, 3, 4)[:, None]}, "offs is 4 x 1: this launch takes 4"),
    "ends apart": (EXPERTS, {"offs": ends(*range(8))[::2]}, r"offs of 4 has strides \(2,\): this launch takes \(1,\)"),
    "long ends": (EXPERTS, {"offs": np.arange(G)}, "offs is of int64: known are"),
    "ends of f32": (EXPERTS, {"offs": whole(G)}, r"offs is of f32: this kernel \(.*\) takes s32"),
    "five matrices": (EXPERTS, {"b": whole(5, N, K).mT}, r"B is 5 x 8 x 6 .*: this kernel is built for groups = 4"),
    "one matrix": (EXPERTS, {"b": whole(N, K).T}, "B is 8 x 6: this kernel takes it as groups x K x N"),
    "as it was": (EXPERTS, {"b": whole(G, N, K)}, "have K = 8. Pass its transpose, a view of 4 x 8 x 6"),
    "another name": (EXPERTS, {"group_rows": ends(1, 2, 3, 4)}, "no argument is called group_rows: known are .*offs"),
    "one bias": (BIASED, {"bias_n": whole(N)}, "bias_n is 6: this launch takes 4 x 6"),
    "three biases": (BIASED, {"bias_n": whole(3, N)}, "bias_n is 3 x 6: this launch takes 4 x 6"),
    "a bias apart": (
        BIASED,
        {"bias_n": whole(G, 8)[:, :N]},
        r"bias_n of 4 x 6 has strides \(8, 1\): its elements have",
    ),
    "one factor": (BIASED, {"scale_b": whole(1)}, "scale_b is 1: this launch takes 4"),
    "C of one group": (MASKED, {"out": whole(M, N)}, "C is 11 x 6: this kernel takes it as groups x M x N"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_said_with_both_values(loaded, name: str) -> None:
    problem, given, message = WRONG[name]
    masked = problem is MASKED
    known = {"group_rows": ends(*[1] * G)} if masked else {"offs": ends(*ENDS)}
    if problem is BIASED:
        known |= {"scale_m": whole(M), "scale_b": whole(G), "bias_n": whole(G, N)}
    call = {"a": whole(G, M, K) if masked else whole(M, K), "b": whole(G, N, K).mT, **known, **given}
    with pytest.raises(InvalidInput, match=message):
        loaded(problem)(**{name: one for name, one in call.items() if one is not None})


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of one product of 3 experts: for any weights, and for those of 256 x 256 in tiles of many rows or
    few."""
    folder = tmp_path_factory.mktemp("library")
    product: dict[str, Any] = {"name": "experts", "types": "bf16", "layout": "rc", "inputs": "groups=3"}
    product |= {"M": "1..4096", "N": [256], "K": [256], "epilogue": "bias"}
    described = spec_from({"name": "moe", "architectures": ["sm_90"], "product": [product]}, "sm_90", folder).products[
        0
    ]
    some, many = {"BM": 64, "BN": 64, "CONSUMERS": 1}, {"BM": 128, "BN": 128, "CONSUMERS": 2}
    few = {"BM": 16, "BN": 64, "CONSUMERS": 1, "SWAP": 1}
    files = []
    for problem, axes in (
        (described.general, some),
        (described.fixed(4096, 256, 256), many),
        (described.fixed(16, 256, 256), few),
    ):
        source = render(problem, WGMMA, WGMMA.default(problem).with_values(**axes), "sm_90a")
        files.append(str(folder / f"{source.name}.cu"))
        Path(files[-1]).write_text(source.text)
    spec = spec_from({"name": "moe", "architectures": ["sm_90"], "product": [product | {"kernels": files}]}, "", folder)
    gemmgen.library(spec, to=folder / "out", device="emulator", examples=0, points=16)
    return folder / "out"


def test_a_library_chooses_among_kernels_of_experts_by_the_rows_of_all(experts: Path) -> None:
    with gemmgen.load_library(experts, device="emulator") as products:
        product, chosen = products["experts"], []
        for n, k, rows in ((256, 256, 5), (256, 256, 4000), (40, 64, 70)):
            a, w, beside = whole(rows, k) / 4, whole(3, n, k), {"offs": ends(0, 2, rows), "bias_n": whole(3, n)}
            given = a.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.bfloat16).mT
            chosen.append(product.kernel_for(*given, **beside).source)
            if rows < 100:
                wanted = product_of_groups(a, w.mT, np.zeros((rows, n), np.float32), beside["offs"])
                wanted += np.repeat(beside["bias_n"][1:], (2, rows - 2), 0)
                np.testing.assert_array_equal(product(*given, **beside), wanted.astype(ml_dtypes.bfloat16))
        assert [(one.problem.n, dict(one.launch.grid)["M"]) for one in chosen] == [(256, 16), (256, 128), (None, 64)]
        a, w = (one.astype(ml_dtypes.bfloat16)[..., :64] for one in (whole(9, 64), whole(3, 72, 65)))
        with pytest.raises(InvalidInput, match="ldb = 65 is no multiple of ld_align = 8"):
            product(a, w.mT, offs=ends(0, 2, 9), bias_n=whole(3, 72))
        with pytest.raises(InvalidInput, match="inputs = groups=3 have offs, ends of the groups of rows: give offs="):
            product(a, w.mT)
    header = (experts / "moe.h").read_text()
    assert "for each of 3 groups of rows, each with its own B" in header
    assert "bias_n   float, 3 x N, row-major, a row for each group: added" in header
    assert "moe_experts takes such multiples alone, and offs at addresses divisible by 16" in header


def test_a_library_scatters_rows_of_experts(tmp_path: Path) -> None:
    product: dict[str, Any] = {"name": "second", "types": "bf16", "layout": "rc", "inputs": "groups=3+scattered"}
    product |= {"M": "1..64", "N": [72], "K": [64], "epilogue": "scale_m"}
    problem = spec_from({"name": "moe", "architectures": ["sm_90"], "product": [product]}, "sm_90", tmp_path).products[
        0
    ]
    config = WGMMA.default(problem.general).with_values(BM=64, BN=64, CONSUMERS=1)
    source = render(problem.general, WGMMA, config, "sm_90a")
    (tmp_path / "k.cu").write_text(source.text)
    kernels = [str(tmp_path / "k.cu")]
    document = {"name": "moe", "architectures": ["sm_90"], "product": [product | {"kernels": kernels}]}
    gemmgen.library(spec_from(document, "", tmp_path), to=tmp_path / "out", device="emulator", examples=0, points=8)
    with gemmgen.load_library(tmp_path / "out", device="emulator") as products:
        for rows, spare in ((90, 0), (70, 9)):
            a, w, weight = whole(rows, 64) / 4, whole(3, 72, 64), whole(rows)
            offs, index = ends(1, 66, rows - 1), np.random.default_rng(rows).permutation(rows + spare).astype(np.int32)
            index = index[:rows]
            out = np.full((rows + spare, 72), 7, ml_dtypes.bfloat16)
            wanted = out.astype(np.float32)
            scaled = product_of_groups(a, w.mT, np.zeros((rows, 72), np.float32), offs) * weight[:, None]
            wanted[index[:-1]] = scaled[:-1]
            given = a.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.bfloat16).mT
            assert products["second"](*given, out, offs=offs, index_c=index, scale_m=weight) is out
            np.testing.assert_array_equal(out, wanted.astype(ml_dtypes.bfloat16))
        with pytest.raises(InvalidInput, match="C has 60 rows, and index_c names 70"):
            products["second"](*given, out[:60], offs=offs, index_c=index, scale_m=weight)
    header = " ".join((tmp_path / "out" / "moe.h").read_text().replace("*", " ").split())
    assert "index_c names different rows that C has, which is not checked; C's other rows stay as they are" in header
