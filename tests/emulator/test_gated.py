"""Kernels of gated epilogues in the emulator: right in each layout, by copies, in clusters, in batches, of arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gemmgen
from gemmgen.kernel.families import FAMILIES
from gemmgen.kernel.families.base import check
from gemmgen.kernel.render import render
from gemmgen.problem.device import DEFAULT_ARCH, parse_arch
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.bugs.base import Subject
from gemmgen.verification.verifier import verify

SCALED = "silu(scale_n * acc) * (scale_n2 * acc2)"
KERNELS = [
    ("naive", {}, "geglu+bias", Problem(None, None, None, "f64", "cc", batch=None)),
    ("wgmma", {}, "swiglu", Problem(None, None, None, "bf16", "rr")),
    ("wgmma", {"BK": 128, "CLUSTER": 2}, "swiglu+residual", Problem(70, 40, 150, "bf16", "rc", batch=2)),
    (
        "wgmma",
        {"BK": 128, "IN_FLIGHT": 0},
        SCALED,
        Problem(70, 40, 100, layout="rr", types=Types.parse("e4m3,e4m3,bf16_promoted")),
    ),
    ("wgmma", {}, "swiglu+row_amax", Problem(70, 37, 64, layout="rc", types=Types.parse("f16_f16acc"))),
]


@pytest.fixture(scope="module")
def executor():
    with EmulatorExecutor() as opened:
        yield opened


@pytest.mark.parametrize(("family", "values", "epilogue", "problem"), KERNELS, ids=str)
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
