"""Kernels whose A and B are more than two matrices, in the emulator."""

from __future__ import annotations

import pytest

from gemmgen.families import NAIVE
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.verification.verifier import verify

PROBLEMS = [
    Problem(None, None, None, types="f16,s4,f16", layout="rr", inputs="scales=32"),
    Problem(33, 35, 67, types="bf16,s4,bf16", layout="rc", inputs="scales=K+zeros"),  # odd K: lines begin in a byte
    Problem(5, 7, 131, types="f32,u4,f32", layout="cr", inputs="scales=64+zeros", epilogue="bias+gelu"),
    Problem(None, None, None, types="bf16,u8,f32", layout="cc", inputs="scales=128+zeros"),
    Problem(None, None, None, "f32", inputs="groups=4"),
    Problem(70, 33, None, "bf16", "rc", inputs="groups=7", epilogue="scale_n+scale_b+bias"),
    Problem(None, 9, 64, types="s8,s8,s32", layout="rc", inputs="groups=3", stride_b=None),
    Problem(None, None, None, "f32", inputs="groups=4+masked"),
    Problem(70, 33, None, "bf16", "cc", inputs="groups=1+masked", stride_b=0),
    Problem(48, 9, 64, types="s8,s8,s32", layout="rc", inputs="groups=3+masked", stride_a=None),
    Problem(None, 40, 64, types="bf16,bf16,f32", inputs="groups=6+masked", epilogue="scale_b+bias+gelu"),
    Problem(None, None, None, "f32", "cr", inputs="groups=4+along_k"),
    Problem(33, 35, 100, "bf16", "cr", inputs="groups=7+along_k"),
    Problem(None, 9, None, types="s8,s8,s32", layout="rc", inputs="groups=3+along_k", stride_c=None),
    Problem(40, None, None, "f64", inputs="groups=1+along_k", epilogue="relu(alpha * acc + beta * C)"),
    Problem(None, 40, 64, types="e4m3,e4m3,f32", layout="cc", inputs="groups=5+along_k", epilogue="bias+residual"),
    Problem(None, None, None, "f32", inputs="gathered"),
    Problem(70, 33, None, "bf16", "rc", inputs="groups=7+gathered", epilogue="bias"),
    Problem(40, 9, 64, types="s8,s8,s32", layout="rc", inputs="gathered"),
    Problem(None, None, None, types="e4m3,e4m3,f32", layout="rc", inputs="blocks"),
    Problem(40, 200, 300, types="e4m3,e4m3,bf16", layout="rr", inputs="blocks"),
    Problem(None, None, 18, "f32", "rc", inputs="im2col=5x6x3_3x2_p1x0x2x1_s2x1"),
    Problem(70, 33, 24, "bf16", "rc", lda=6, inputs="im2col=7x5x4_2x3_d2x2"),
    Problem(None, 9, 36, types="f16,f16,f32", inputs="im2col=8x9x4_3x3_p1x1_s2x2_d2x1", epilogue="bias+relu"),
    Problem(None, 18, None, "f32", "cr", inputs="im2col=5x6x3_3x2_p1x0x2x1_s2x1+wgrad"),
    Problem(33, 24, 70, "bf16", "rr", ldb=6, inputs="im2col=7x5x4_2x3_d2x2+wgrad", epilogue="acc + residual"),
    Problem(None, 40, 64, types="bf16,bf16,f32", layout="cr", inputs="groups=16", epilogue="bias+gelu+residual"),
    Problem(None, None, None, "f32", "cc", inputs="scattered", ldc=None),
    Problem(None, 33, None, "bf16", "rc", inputs="groups=7+gathered+scattered", epilogue="scale_m+bias+residual"),
    Problem(40, 35, 67, types="bf16,u4,f32", layout="rc", inputs="scales=32+groups=3+scattered"),
    Problem(None, 40, 300, types="e4m3,e4m3,f32", layout="rc", inputs="blocks+scattered"),
]


@pytest.fixture(scope="module")
def executor(shared_store):
    with EmulatorExecutor(shared_store) as opened:
        yield opened


# One of each kind of inputs; `make soak` runs all.
FEW = {PROBLEMS[number] for number in (0, 1, 4, 6, 10, 12, 17, 20, 22, 24, 28)}


@pytest.mark.parametrize(
    "problem", [one if one in FEW else pytest.param(one, marks=pytest.mark.soak) for one in PROBLEMS], ids=str
)
@pytest.mark.parametrize("examples", [12, pytest.param(30, marks=pytest.mark.soak)])
def test_naive_serves_inputs(executor, problem, examples):
    verdict = verify(executor, render(problem, NAIVE, NAIVE.default(problem)), examples=examples, largest=160, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
