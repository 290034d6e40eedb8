"""Kernels with epilogues in the emulator: right for every family, and operands guarded as A and B are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmgen.kernel.families import FAMILIES
from gemmgen.kernel.render import render
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.verification.verifier import verify

RUNTIME = Problem(None, None, None)
KERNELS = [
    ("naive", {}, "bias+gelu", RUNTIME),
    ("naive", {}, "scale_m+scale_n+bias+clamp(-1,2)+residual", replace(RUNTIME, dtype=DType.F64)),
    ("naive", {}, "silu(alpha * acc + bias_m) + residual", replace(RUNTIME, batch=None, layout=Layout("r", "c"))),
    ("naive", {}, "bias+relu", replace(RUNTIME, batch=None, pointers=True)),
    ("naive", {}, "tanh(acc)", Problem(33, 17, 20, ldc=19)),
]


@pytest.fixture(scope="module")
def executor():
    with EmulatorExecutor() as opened:
        yield opened


@pytest.mark.parametrize(("family", "values", "epilogue", "problem"), KERNELS, ids=str)
def test_kernels_compute_their_epilogue(executor, family, values, epilogue, problem):
    chosen, problem = FAMILIES[family], replace(problem, epilogue=parse_epilogue(epilogue))
    source = render(problem, chosen, chosen.default(problem).with_values(**values))
    verdict = verify(executor, source, examples=25, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
