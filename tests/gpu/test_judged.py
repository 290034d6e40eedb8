"""A card that judges a large C where it lies finds what numpy finds. Skipped where there is no card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.families import NAIVE
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu import executor
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.device_check import judge
from gemmgen.verification.device_products import on_host
from gemmgen.verification.situation import EXACT_KINDS, Situation, data_kinds

TYPES = (
    "f32",
    "f64",
    "bf16",
    "f16",
    "f16,f16,f32",
    "e4m3,e4m3,bf16",
    "e4m3,e5m2,e4m3",
    "s8,s8,s32",
    "u8,s8,bf16",
    "s8",
)


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "MULTIPLY_FLOPS", 0)
    monkeypatch.setattr(executor, "JUDGED_ELEMENTS", 0)


def naive(types: str, batch: int, epilogue: str = "alpha * acc + beta * C") -> KernelSource:
    problem = Problem(130, 71, 97, types=Types.parse(types), layout="rc", batch=batch, ldc=80, epilogue=epilogue)
    return render(problem, NAIVE, NAIVE.default(problem))


def situations(problem: Problem) -> Iterator[Situation]:
    for data in data_kinds(problem.types):
        exact = data in EXACT_KINDS or problem.types.scalar.is_integer
        for alpha, beta in ((1.0, 0.0), (-1.0, 2.0)) if exact else ((1.0, 0.0), (0.7, -3.0), (np.inf, 1.0)):
            yield Situation(problem.case(alpha=alpha, beta=beta), data, 3)


CASES = (
    *((types, "alpha * acc + beta * C") for types in TYPES),
    ("bf16", "bias+gelu"),
    ("f32", "scale_m+scale_n+bias+silu+residual"),
    ("e4m3,e4m3,bf16", "scale_a+scale_b+bias+gelu_tanh"),
    ("bf16", "max(min(acc, residual), -1.5) / 3 + abs(erf(acc)) * exp(-(acc * acc)) + relu(bias_m)"),
    ("f16,f16,f32", "bias_m+tanh"),
    ("bf16", "swiglu+bias"),
    ("s8,s8,bf16", "(acc - zero_m * sum_n - (-zero_a) * K) * scale_a + beta * C"),
    ("u8,s8,s8", "scale_n+clamp(-9,9)"),
)


@pytest.mark.parametrize(("types", "epilogue"), CASES)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_card_judges_as_numpy_does(gpu: GpuExecutor, types: str, epilogue: str, batch: int) -> None:
    source = naive(types, batch, epilogue)
    kernel = gpu.load(source)
    # Slices leave out a little of numpy's own product of f64, up to 18 units in the last place of one of sparse data.
    multiply = kernel.multiply if source.problem.types.accumulator is DType.F64 else on_host
    for what in situations(source.problem):
        result = kernel.run(what.case, make_operands(what), seed=what.seed)
        wanted, found = compare(what, result, multiply=multiply), judge(kernel, what, None)
        assert wanted.mismatch is None and found is not None, what
        ours, _ = found
        assert ours.mismatch is None and ours.elements == wanted.elements
        np.testing.assert_allclose(ours.worst, wanted.worst, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(ours.largest_bound, wanted.largest_bound, rtol=1e-6)


@pytest.mark.parametrize("types", ["f32", "bf16", "s8,s8,s32"])
def test_a_wrong_element_comes_back_with_all_of_its_run(gpu: GpuExecutor, types: str) -> None:
    source = naive(types, 1)
    guard = "if (m >= s.M || n >= s.N)"
    assert guard in source.text
    kernel = gpu.load(replace(source, text=source.text.replace(guard, f"{guard[:-1]} || (m == 77 && n == 33))")))
    what = Situation(source.problem.case(), "random", 3)
    found = judge(kernel, what, None)
    assert found is not None and found[0].mismatch is not None
    mismatch = found[0].mismatch
    assert (mismatch.row, mismatch.col, mismatch.count) == (77, 33, 1)
