"""Kernels of gated epilogues in the emulator: right in each layout, by copies, in clusters, in batches, of arrays."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import gemmgen
from gemmgen.families import FAMILIES
from gemmgen.families.base import check
from gemmgen.problem.device import DEFAULT_ARCH, parse_arch
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.proof.bugs.base import Subject
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.gpu.lt_epilogue import LEFT, epilogue_apart
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify

ADDED = "sigmoid(acc + residual2) * residual + tanh(acc2 + residual3) * (acc3 + residual4)"
THREE = "sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)"
SCALED = "silu(scale_n * acc) * (scale_n2 * acc2)"
KERNELS = [
    ("naive", {}, "geglu+bias", Problem(None, None, None, "f64", "cc", batch=None)),
    ("naive", {}, "lstm", Problem(None, None, None, "bf16", "rr", batch=None)),
    ("naive", {"BM": 8}, f"row_amax({THREE})", Problem(None, 37, 40, layout="rc", types=Types.parse("s8,s8,bf16"))),
    ("naive", {}, "acc * scale_n - acc2 * scale_n2 + relu(acc3 + bias_n3)", Problem(None, None, None, "f32", "cr")),
    ("naive", {}, "acc - acc2 * acc3 + acc4", Problem(20, None, None, layout="cc", types=Types.parse("s8,u8,s32"))),
    ("wgmma", {}, "swiglu", Problem(None, None, None, "bf16", "rr")),
    ("wgmma", {"BN": 16}, "geglu", Problem(70, 37, 64, "f16", "rr", ld_align=8)),
    ("wgmma", {}, "swiglu", Problem(70, 37, 50, layout="cr", batch=2, types=Types.parse("f32_bf16x6"))),
    ("wgmma", {"BK": 128, "CLUSTER": 2}, "swiglu+residual", Problem(70, 40, 150, "bf16", "rc", batch=2)),
    (
        "wgmma",
        {"BK": 128, "IN_FLIGHT": 0},
        SCALED,
        Problem(70, 40, 100, layout="rr", types=Types.parse("e4m3,e4m3,bf16_promoted")),
    ),
    ("wgmma", {}, "swiglu+row_amax", Problem(70, 37, 64, layout="rc", types=Types.parse("f16_f16acc"))),
    (
        "wgmma",
        {"BM": 64, "BN": 16, "CONSUMERS": 1, "SPLIT": 2, "PERSISTENT": 0},
        "lstm",
        Problem(None, 40, None, "bf16", "rc"),
    ),
    ("wgmma", {"BM": 64, "BN": 8, "CONSUMERS": 1}, "lstm", Problem(16, 72, 136, "f16", "rc", batch=2)),
    ("wgmma", {"BN": 16}, THREE, Problem(70, 37, 64, layout="rr", types=Types.parse("e4m3,e4m3,bf16_promoted"))),
    ("naive", {}, ADDED, Problem(None, None, None, "f32", "rr")),
    ("wgmma", {"BN": 16}, ADDED, Problem(16, 40, None, "bf16", "rc", ld_align=8, batch=2)),
    ("wgmma", {"BN": 32}, "silu(acc) * acc2 + acc3 * bias_n3", Problem(None, None, None, "bf16", "rr", ld_align=8)),
]


@pytest.fixture(scope="module")
def executor():
    with EmulatorExecutor() as opened:
        yield opened


@pytest.mark.parametrize(
    ("family", "values", "epilogue", "problem"),
    [one if number % 2 else pytest.param(*one, marks=pytest.mark.soak) for number, one in enumerate(KERNELS)],
    ids=str,
)
def test_kernels_gate_one_product_by_the_other(executor, family, values, epilogue, problem):
    chosen, problem = FAMILIES[family], replace(problem, epilogue=parse_epilogue(epilogue))
    config = Subject("", problem, tuple(values.items()), chosen).config
    check(chosen, problem, config, parse_arch(DEFAULT_ARCH).limits)
    verdict = verify(executor, render(problem, chosen, config), examples=8, largest=96, runs=1)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"


def test_from_python_b_is_two_matrices_side_by_side():
    problem = Problem(None, None, None, "f32", "rc", epilogue="swiglu")
    rng = np.random.default_rng(0)
    x, gate_up = rng.standard_normal((5, 16), np.float32), rng.standard_normal((2 * 12, 16), np.float32)
    source = render(problem, FAMILIES["naive"], FAMILIES["naive"].default(problem))
    with gemmgen.load(source, device="emulator") as kernel:
        y = kernel(x, gate_up.T)
        gate, up = np.split(x.astype(np.float64) @ gate_up.T, 2, axis=1)
        np.testing.assert_allclose(y, gate / (1 + np.exp(-gate)) * up, rtol=1e-5, atol=1e-6)
        with pytest.raises(InvalidInput, match="B has 23 columns: of 2 matrices side by side as many each"):
            kernel(x, gate_up[:-1].T)
        with pytest.raises(InvalidInput, match="C is 5 x 11 \\(M x N\\): the other operands have N = 12"):
            kernel(x, gate_up.T, np.empty((5, 11), np.float32))


def test_from_python_an_lstm_takes_four_matrices_and_its_state():
    problem = Problem(None, None, None, "f32", "rr", epilogue="lstm")
    rng = np.random.default_rng(0)
    x, gates, state = (rng.standard_normal(shape, np.float32) for shape in ((5, 16), (16, 4 * 12), (5, 12)))
    with gemmgen.load(
        render(problem, FAMILIES["naive"], FAMILIES["naive"].default(problem)), device="emulator"
    ) as lstm:
        new = np.empty_like(state)
        hidden = lstm(x, gates, residual=state, aux=new)
        forget, take, add, out = np.split(x.astype(np.float64) @ gates, 4, axis=1)
        wanted = state / (1 + np.exp(-forget)) + np.tanh(add) / (1 + np.exp(-take))
        np.testing.assert_allclose(new, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(hidden, np.tanh(wanted) / (1 + np.exp(-out)), rtol=1e-5, atol=1e-6)
        with pytest.raises(InvalidInput, match="B has 47 columns: of 4 matrices side by side as many each"):
            lstm(x, np.ascontiguousarray(gates[:, 1:]), residual=state, aux=new)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("epilogue", ["swiglu", "silu(acc) * acc2 + acc3", "silu(acc) * acc2 + acc3 - acc4"])
def test_the_kernel_behind_a_product_takes_all_parts_of_what_was_left(executor, batch, epilogue):
    """A, which it does not read, stands for that here: M x K, and K is N times the number of products."""
    products = parse_epilogue(epilogue).products
    problem = Problem(20, 30, 30 * products, "f32", batch=batch, epilogue=epilogue)
    source = epilogue_apart(problem)
    text = re.sub(rf",\s+const float\* __restrict__ {LEFT}\)", ")", source.text).replace(
        "A += matrix * s.stride_a;", ""
    )
    source = replace(source, text=text.replace(LEFT, "A")).promising(parameters=source.parameters[:-1])
    case = problem.case()
    operands = make_operands(Situation(case, "random", 1))
    kernel = executor.load(source)
    found = case.c.view(kernel.run(case, operands, watch=False))
    kernel.close()
    gate, up, *others = np.split(case.a.view(operands.a).astype(np.float64), products, axis=-1)
    wanted = gate / (1 + np.exp(-gate)) * up + sum(sign * other for sign, other in zip((1, -1), others, strict=False))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
