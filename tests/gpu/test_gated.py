"""Gated epilogues on a card: products with both matrices of B, kernels, and the baseline beside them."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.families import NAIVE, WGMMA
from gemmgen.families.base import first_rejection
from gemmgen.problem.device import parse_arch
from gemmgen.problem.functions import function_named
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.run.executor import Operands
from gemmgen.run.gpu import executor
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.gpu.timing import FULL
from gemmgen.verification.device_products import products_by
from gemmgen.verification.products import all_products, of_each_matrix
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify
from gemmgen.verification.window import Window

SCALED = "silu(scale_a * acc) * (scale_a * acc2)"


@pytest.mark.parametrize(("layout", "batch"), [("rr", 1), ("rc", 3)])
def test_products_of_a_card_are_those_with_each_matrix(
    gpu: GpuExecutor, monkeypatch: pytest.MonkeyPatch, layout: str, batch: int
) -> None:
    monkeypatch.setattr(executor, "MULTIPLY_FLOPS", 0)
    case = Problem(130, 71, 97, "bf16", layout, batch=batch, epilogue="swiglu").case()
    what = Situation(case, "exact", seed=5)
    made = products_by(gpu.multiply, what)
    assert made is not None
    for ours, theirs in zip(
        of_each_matrix(case, made), all_products(case, "exact", 5, Window.whole(case)), strict=True
    ):
        np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize(
    ("problem", "values"),
    [
        (Problem(None, None, None, "bf16", "rc", ld_align=8, epilogue="swiglu"), {}),
        (Problem(300, 520, 700, "bf16", "rr", epilogue="geglu+residual"), {"BN": 64, "CLUSTER": 2}),
        (Problem(260, 200, 136, "f16", "cr", batch=3, epilogue="swiglu"), {"BN": 96, "STAGES": 3}),
        (Problem(None, None, 64, "f16", "rr", epilogue="geglu"), {"BN": 32}),  # N: any multiple, of 16 bytes or not
        (Problem(None, None, 40, types=Types.parse("f32_bf16x6"), layout="cr", epilogue="swiglu"), {"BN": 16}),
        (
            Problem(130, 512, 1024, types=Types.parse("e4m3,e4m3,bf16_promoted"), layout="rc", epilogue=SCALED),
            {},
        ),
    ],
    ids=str,
)
def test_kernels_pass(gpu: GpuExecutor, problem: Problem, values: dict[str, int]) -> None:
    config = WGMMA.default(problem).with_values(**values)
    if first_rejection(WGMMA, problem, config, parse_arch(gpu.arch).limits) is not None:
        pytest.skip(f"wgmma needs sm_90a, and the GPU here is {gpu.arch}")
    verdict = verify(gpu, render(problem, WGMMA, config, gpu.arch), examples=10, largest=600)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"


def test_a_kernel_stands_beside_the_librarys_product_and_another(gpu: GpuExecutor) -> None:
    problem = Problem(256, 512, 256, "bf16", "rc", epilogue="swiglu")
    kernel = gpu.load(render(problem, NAIVE, NAIVE.default(problem), gpu.arch))
    measured = gpu.measure_many([kernel], problem.case(), beside=FULL)
    assert measured.baseline is not None and measured.baseline.timing.median_us > 0


@pytest.mark.parametrize(("name", "short"), [("silu", False), ("gelu", False), ("gelu", True), ("gelu_tanh", False)])
def test_a_function_is_as_exact_as_its_record_says(
    gpu: GpuExecutor, name: str, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Problem, "short_results", short)  # which f32, that shows all of its bits, would not take
    problem, function = Problem(2**20, 1, 1, epilogue=f"{name}(acc)"), function_named(name, short)
    kernel = gpu.load(render(problem, NAIVE, NAIVE.default(problem), gpu.arch))
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-20, 20, 2**19), rng.uniform(-2, 2, 2**18), rng.uniform(-90, 90, 2**18)])
    x = x.astype(np.float32)
    found = kernel.run(problem.case(), Operands(x, np.ones(1, np.float32), np.zeros(2**20, np.float32)), seed=1)
    with np.errstate(over="ignore"):  # of exp, as where the verifier takes a reference
        reference = function.reference(x.astype(np.float64))
    off = np.abs(found - reference) / np.abs(x) / 2.0**-23
    assert off.max() < function.ulps, off.max()
    print(f"{name} is off by {off.max():.3f} units of x at most")
