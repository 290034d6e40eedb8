"""Kernels of wgmma whose operands of fp8 have scales of blocks, in the emulator: as they are defined, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

import gemmgen
from gemmgen.arrays.emulated import EmulatedBackend
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.quantising import quantise_rows, quantise_squares
from gemmgen.exports.library.spec import spec_from
from gemmgen.families import NAIVE, WGMMA
from gemmgen.families.base import first_rejection
from gemmgen.problem.device import parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import LINEAR, parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.verifier import verify

KERNELS = (
    ("e4m3,e4m3,bf16", "rc", (None, 256, 512), {}),
    ("e4m3,e4m3,f32", "rc", (None, 200, 384), {"IN_FLIGHT": 0, "BN": 64}),
    ("e4m3,e4m3,bf16", "rr", (None, 136, None), {"BM": 64, "CONSUMERS": 1}),
    ("e4m3,e5m2,f16", "cc", (130, None, 300), {"BN": 64}),
    ("e4m3,e4m3,bf16", "rc", (None, 256, 1024), {"SPLIT": 2, "PERSISTENT": 0}),
    ("e4m3,e4m3,bf16", "rc", (None, 320, 256), {"CLUSTER": 2, "ACROSS": 1}),
    ("e4m3,e4m3,bf16", "rc", (None, 128, 640), {"PINGPONG": 1, "BM": 128, "BN": 64}),
    ("e4m3,e4m3,f32", "rc", (None, 136, 256), {"CLUSTER": 2, "BN": 32}),
    ("e4m3,e4m3,bf16", "rc", (None, 520, 384), {"BN": 96}),
    ("e4m3,e4m3,f32", "rc", (None, 600, 256), {"BN": 160, "IN_FLIGHT": 0}),
    ("e4m3,e4m3,bf16", "rc", (None, None, 300), {"BN": 144, "IN_FLIGHT": 0, "CLUSTER": 2, "ACROSS": 1}),
)
OF_LINES = (
    ("e4m3,e4m3,f32", "rc", (None, 256, 512), {}),
    ("e4m3,e4m3,f32", "rc", (None, 200, 384), {"IN_FLIGHT": 0, "BN": 96}),
    ("e4m3,e4m3,bf16", "cr", (130, None, 300), {"BN": 64, "BM": 64, "CONSUMERS": 1}),
    ("e5m2,e4m3,f32", "rc", (None, 256, 1024), {"SPLIT": 2, "PERSISTENT": 0}),
)


@pytest.fixture(scope="module")
def executor(shared_store):
    with EmulatorExecutor(shared_store) as one:
        yield one


def problem_of(
    types: str, layout: str, sizes: tuple[int | None, ...], epilogue: str = "", inputs: str = "blocks"
) -> Problem:
    wanted = parse_epilogue(epilogue) if epilogue else LINEAR
    of = Types.parse(types, Compute.PROMOTED)
    return Problem(*sizes, types=of, layout=layout, inputs=inputs, epilogue=wanted)


ALL = (
    *((*one, "blocks") for one in KERNELS),
    *((*one, "blocks+lines") for one in OF_LINES),
    (*KERNELS[0], "blocks+padded"),
    (*OF_LINES[2], "blocks+lines+padded"),
)
# A plain kernel, another type, K split, a cluster, two tiles by turns, padded lines; `make soak` runs all.
FEW = (ALL[0], *ALL[3:7], ALL[-1])


@pytest.mark.parametrize(
    ("types", "layout", "sizes", "axes", "inputs"),
    [one if one in FEW else pytest.param(*one, marks=pytest.mark.soak) for one in ALL],
    ids=str,
)
@pytest.mark.parametrize("examples", [8, pytest.param(12, marks=pytest.mark.soak)])
def test_sums_of_blocks_are_scaled_and_added(types, layout, sizes, axes, inputs, examples, executor) -> None:
    problem = problem_of(types, layout, sizes, "bias+silu" if "BN" in axes else "", inputs)
    config = WGMMA.default(problem).with_values(**axes)
    assert first_rejection(WGMMA, problem, config, parse_arch("sm_90").limits) is None
    verdict = verify(executor, render(problem, WGMMA, config, "sm_90"), examples=examples, largest=160, runs=2)
    assert verdict.failure is None, verdict.failure
    assert verdict.replayed


@pytest.mark.parametrize(
    ("axes", "because"),
    [
        ({"BK": 64}, "a k tile is a block of K"),
        ({"BN": 224, "CONSUMERS": 1, "BM": 64}, "a tile's columns lie in at most two blocks of B"),
        ({"BM": 96, "BN": 64, "SWAP": 1, "CONSUMERS": 1}, "a thread has sums of two rows of an instruction"),
    ],
)
def test_tiles_that_scales_do_not_fit_are_refused(axes, because) -> None:
    problem = problem_of("e4m3,e4m3,bf16", "rc", (None, 256, 512))
    config = WGMMA.default(problem).with_values(**axes)
    rejection = first_rejection(WGMMA, problem, config, parse_arch("sm_90").limits)
    assert rejection is not None and because in rejection.constraint.because


def test_a_product_of_a_library_takes_scales_of_blocks(shared_store, tmp_path) -> None:
    """Its rules send calls to several kernels; what is not aligned goes to the one that serves all."""
    fields = {"name": "linear", "types": "e4m3,e4m3,bf16", "compute": "promoted", "layout": "rc", "inputs": "blocks"}
    fields |= {"M": "1..4096", "N": 256, "K": 512}
    product = spec_from({"name": "fp8", "product": [fields]}, "sm_90", tmp_path).products[0]
    sources = [render(product.general, NAIVE, NAIVE.default(product.general), "sm_90")]
    problem = product.fixed(64, 256, 512)
    for rows in (64, 128):
        config = WGMMA.default(problem).with_values(BM=rows, CONSUMERS=rows // 64)
        sources.append(render(problem, WGMMA, config, "sm_90"))
    for source in sources:
        (tmp_path / f"{source.name}.cu").write_text(source.text)
    document = {"name": "fp8", "architectures": ["sm_90a"]}
    document |= {"product": [{**fields, "kernels": [f"{source.name}.cu" for source in sources]}]}
    gemmgen.library(
        spec_from(document, "sm_90", tmp_path), to=tmp_path / "fp8", device="emulator", examples=0, points=8
    )
    rng = np.random.default_rng(0)
    weight, values = rng.standard_normal((256, 512)), rng.standard_normal((70, 513))
    codes_b, scales_b = quantise_squares(weight.astype(np.float32))
    wide_b = DType.E4M3.decode(codes_b) * scales_b.repeat(128, 0).repeat(128, 1)
    with gemmgen.load_library(tmp_path / "fp8", device="emulator") as products:
        linear = products["linear"]
        for rows, skip in ((3, 0), (70, 0), (5, 1)):
            codes, scales = quantise_rows(values[:rows, :512].astype(np.float32))
            a = np.zeros((rows, 512 + skip), codes.dtype)[:, skip:]
            a[...] = codes
            c = linear(a, codes_b.T, scales_a=scales, scales_b=scales_b)
            wanted = DType.E4M3.decode(codes) * scales.repeat(128, 0).T @ wide_b.T
            np.testing.assert_allclose(c.astype(float), wanted, rtol=0.01, atol=0.2)
        given = {"scales_b": scales_b}
        chosen = {
            linear.kernel_for(a, codes_b.T, scales_a=np.empty((4, len(a)), np.float32), **given).name
            for a in (
                codes_b[:1],
                codes_b,
                np.empty((4096, 512), codes_b.dtype),
                np.empty((5, 513), codes_b.dtype)[:, 1:],
            )
        }
    assert len(chosen) >= 2 and sources[0].name in chosen


def test_arrays_are_multiplied_with_scales_of_blocks(shared_store) -> None:
    problem = problem_of("e4m3,e4m3,f32", "rc", (None, 136, 256))
    source = render(problem, WGMMA, WGMMA.default(problem), "sm_90")
    rng, e4m3 = np.random.default_rng(0), DType.E4M3.numpy
    a, b = (rng.standard_normal((lines, 256)).astype(e4m3) for lines in (5, 136))
    scales_a, scales_b = rng.random((2, 5), np.float32), rng.random((2, 2), np.float32)
    with ArrayKernel(source, EmulatedBackend(source, shared_store)) as kernel:
        c = kernel(a, b.T, scales_a=scales_a, scales_b=scales_b)
        with pytest.raises(InvalidInput, match=r"blocks have scales_b, .*: give scales_b="):
            kernel(a, b.T, scales_a=scales_a)
        with pytest.raises(InvalidInput, match="scales_a is 5 x 2: this launch takes 2 x 5"):
            kernel(a, b.T, scales_a=np.ascontiguousarray(scales_a.T), scales_b=scales_b)
        with pytest.raises(InvalidInput, match="scales_a of 2 x 5 has strides"):
            kernel(a, b.T, scales_a=np.ascontiguousarray(scales_a.T).T, scales_b=scales_b)
    wide_a = a.astype(float) * scales_a.repeat(128, 0).T
    wide_b = b.astype(float) * scales_b.repeat(128, 0).repeat(128, 1)[:136]
    np.testing.assert_allclose(c, wide_a @ wide_b.T, rtol=1e-3, atol=1e-2)


def test_rows_of_scales_may_be_padded_to_16_bytes(shared_store) -> None:
    problem = problem_of("e4m3,e4m3,f32", "rc", (None, 136, 256), inputs="blocks+padded")
    source = render(problem, WGMMA, WGMMA.default(problem), "sm_90")
    rng, e4m3 = np.random.default_rng(0), DType.E4M3.numpy
    a, b = (rng.standard_normal((lines, 256)).astype(e4m3) for lines in (5, 136))
    wide, scales_b = rng.random((2, 8), np.float32), rng.random((2, 2), np.float32)
    wide[:, 5:] = np.nan
    with ArrayKernel(source, EmulatedBackend(source, shared_store)) as kernel:
        c = kernel(a, b.T, scales_a=wide[:, :5], scales_b=scales_b)
        with pytest.raises(InvalidInput, match=r"scales_a of 2 x 5 has strides \(5, 1\): this launch takes \(8, 1\)"):
            kernel(a, b.T, scales_a=wide[:, :5].copy(), scales_b=scales_b)
    wide_a = a.astype(float) * wide[:, :5].repeat(128, 0).T
    wide_b = b.astype(float) * scales_b.repeat(128, 0).repeat(128, 1)[:136]
    np.testing.assert_allclose(c, wide_a @ wide_b.T, rtol=1e-3, atol=1e-2)
