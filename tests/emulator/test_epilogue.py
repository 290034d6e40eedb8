"""Kernels with epilogues in the emulator: right for every family, and operands guarded as A and B are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmgen.families import FAMILIES
from gemmgen.families.base import check
from gemmgen.problem.device import DEFAULT_ARCH, parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.functions import FUNCTIONS, Function
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.proof.bugs.base import Subject
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.gpu.lt_epilogue import LEFT, epilogue_apart
from gemmgen.verification.comparison import compare
from gemmgen.verification.reference import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import THOROUGH, verify

CONTRIBUTING = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
RUNTIME = Problem(None, None, None)
BATCH = replace(RUNTIME, batch=None)
WHOLE = "scale_m+scale_n+bias+gelu+residual"
ALL = [
    ("naive", {}, "zero_a+scale_a+scale_n+bias", replace(RUNTIME, types=Types.parse("u8,s8,s8"))),
    ("naive", {}, "zero_m+zero_n+scale_m+scale_n", replace(RUNTIME, types=Types.parse("u8,s8,f32"))),
    ("naive", {}, "zero_m+scale_m+scale_n+bias+gelu", Problem(17, 20, 33, types=Types.parse("u8,s8,bf16"))),
    ("naive", {}, "bias+silu+residual", replace(BATCH, types=Types.parse("bf16"))),
    ("naive", {}, "scale_n+clamp(-100,100)", replace(RUNTIME, types=Types.parse("f16,e4m3,e5m2"))),
    ("naive", {}, "zero_m+zero_n+bias+relu", replace(RUNTIME, types=Types.parse("u8,s8,s32"), layout=Layout("c", "c"))),
    ("naive", {}, "alpha * (acc - zero_m * sum_n)", replace(RUNTIME, types=Types.parse("s8,s8,f32"))),
    ("naive", {}, "scale_n * (acc - 128 * column_sum) - row_sum / 4", replace(BATCH, types=Types.parse("u8,s8,f16"))),
    ("naive", {}, "zero_n+bias", RUNTIME),
    ("naive", {}, "zero_m+zero_n", Problem(17, 20, None, dtype=DType.F64)),
    ("naive", {}, "bias+gelu", RUNTIME),
    ("naive", {}, "scale_m+scale_n+bias+clamp(-1,2)+residual", replace(RUNTIME, dtype=DType.F64)),
    ("naive", {}, "silu(alpha * acc + bias_m) + residual", replace(BATCH, layout=Layout("r", "c"))),
    ("naive", {}, "bias+relu", replace(BATCH, pointers=True)),
    ("naive", {}, "tanh(acc)", Problem(33, 17, 20, ldc=19)),
    ("simt", {}, WHOLE, RUNTIME),
    ("simt", {"SPLIT": 3}, "bias_m+relu+residual", replace(RUNTIME, ld_align=4)),
    ("simt", {"STAGES": 3, "ASYNC": 1, "STREAM": 3, "FIXUP_UNROLL": 0}, WHOLE, RUNTIME),
    ("simt", {"BK": 32, "STAGES": 3, "ASYNC": 1, "K_UNROLL": 2, "SLICES": 4}, "bias+silu", BATCH),
    ("simt", {}, "max(alpha * acc, bias_n) - residual", Problem(70, 100, 35, dtype=DType.F64)),
    ("simt", {"STAGES": 2, "ASYNC": 1, "K_UNROLL": 4}, WHOLE, Problem(70, 131, 45)),
    ("skinny", {}, "bias+gelu_tanh", Problem(3, 200, None)),
    ("skinny", {"SPLIT": 3}, WHOLE, RUNTIME),
    ("skinny", {"SPLIT": 2}, "bias_m+residual", Problem(None, 5, None, layout=Layout("c", "c"))),
    ("batched", {"MB": 4, "BATCH_TILES": 5}, WHOLE, Problem(8, 12, 16, batch=None)),
    ("batched", {}, "bias+relu", Problem(8, 12, 16, batch=None, pointers=True)),
    ("simt", {}, "bias+gelu+residual", Problem(70, 100, 35, types=Types.parse("f16"))),
    ("simt", {"SPLIT": 3}, "scale_m+scale_n+bias", replace(RUNTIME, types=Types.parse("s8,s8,s8"))),
    ("simt", {"STREAM": 3}, WHOLE, replace(RUNTIME, types=Types.parse("e4m3,e5m2,bf16"))),
    ("simt", {"STAGES": 1}, "bias+silu", replace(BATCH, types=Types.parse("u8,bf16,e5m2"), ld_align=4)),
    ("simt", {}, "zero_m+zero_n+scale_m", replace(RUNTIME, types=Types.parse("u8,s8,f32"), ld_align=4)),
    (
        "simt",
        {"SPLIT": 3},
        "zero_m+zero_n+bias",
        replace(BATCH, types=Types.parse("s8,u8,s32"), layout=Layout("c", "c")),
    ),
    ("simt", {"STREAM": 3}, "zero_n+scale_n", replace(RUNTIME, types=Types.parse("u8,u8,bf16"))),
    (
        "simt",
        {"OUTER": 0, "WM": 0, "WN": 0, "STREAM": 3},
        "zero_m",
        Problem(70, 100, 35, types=Types.parse("s8,s8,f16")),
    ),
    ("simt", {"STAGES": 3, "ASYNC": 1, "SPLIT": 2}, "zero_m+zero_n", RUNTIME),
    ("batched", {"MB": 4}, "zero_m+zero_n+scale_n", Problem(8, 12, 15, batch=None, types=Types.parse("u8,s8,s8"))),
    ("naive", {}, "bias+aux+gelu", replace(BATCH, layout=Layout("r", "c"))),
    ("naive", {}, "zero_n+aux+relu", replace(RUNTIME, types=Types.parse("s8,s8,s32"))),
    ("simt", {"SPLIT": 3}, "scale_m+bias+aux+silu+residual", replace(RUNTIME, types=Types.parse("bf16"), ld_align=4)),
    ("simt", {"STAGES": 2, "ASYNC": 1, "K_UNROLL": 4}, "bias+aux+relu", Problem(70, 131, 45)),
    ("skinny", {"SPLIT": 2}, "relu(aux(alpha * acc + bias_m)) + 2", Problem(3, 200, None)),
    ("batched", {"MB": 4, "BATCH_TILES": 5}, "aux+gelu_tanh", Problem(8, 12, 16, batch=None)),
    ("skinny", {}, "bias+gelu_tanh+residual", Problem(3, 200, None, types=Types.parse("bf16"))),
    ("naive", {}, "bias+row_amax+column_amax", replace(BATCH, pointers=True)),
    ("naive", {}, "row_amax(acc) - column_amax(aux(alpha * acc))", replace(BATCH, dtype=DType.F64)),
    ("simt", {"STREAM": 3}, "aux+gelu+row_amax+column_amax", replace(RUNTIME, types=Types.parse("bf16"), ld_align=8)),
    ("simt", {"SPLIT": 3}, "zero_n+row_amax", replace(BATCH, types=Types.parse("u8,s8,s8"))),
    ("simt", {"STAGES": 2, "ASYNC": 1, "K_UNROLL": 4}, "column_amax+bias+row_amax", Problem(70, 131, 45)),
    (
        "simt",
        {"BK": 32, "STAGES": 3, "ASYNC": 1, "K_UNROLL": 2, "SLICES": 4},
        "row_amax+column_amax",
        replace(RUNTIME, ld_align=4),
    ),
    ("skinny", {"SPLIT": 2}, "bias_m+row_amax+column_amax+aux", Problem(3, 200, None, types=Types.parse("f16"))),
    ("simt", {"SPLIT": 2, "FIXUP_UNROLL": 0}, "row_amax+column_amax+silu", replace(BATCH, pointers=True)),
    ("batched", {"MB": 4, "BATCH_TILES": 5}, "aux+row_amax+column_amax", Problem(8, 12, 16, batch=None)),
    ("batched", {}, "row_amax+column_amax", Problem(8, 12, 16, batch=None, pointers=True)),
    (
        "skinny",
        {"SPLIT": 2, "BK": 128},
        "scale_a+scale_n",
        Problem(4, 37, None, layout="rc", types=Types.parse("s8,s8,f16")),
    ),
    ("batched", {"MB": 4}, WHOLE, Problem(8, 12, 16, batch=None, types=Types.parse("bf16,bf16,e4m3"))),
    ("batched", {}, "scale_n+bias+relu", Problem(8, 12, 16, batch=None, types=Types.parse("s8,u8,u8"))),
]

KERNELS = ALL[::5]  # `make soak` runs all, with sizes beyond 16 bits
EXAMPLES = 14
SMALL = 96  # sizes whose launches are all watched: a kernel that meets no others is compiled once
EVERY_SIZE = 4  # of so many kernels one meets all sizes


@pytest.fixture(scope="module")
def executor():
    with EmulatorExecutor() as opened:
        yield opened


@pytest.mark.parametrize(
    "epilogue", ["bias+aux+silu+residual", "scale_a+bias", "tanh(acc) * alpha", "relu+row_amax+column_amax"]
)
@pytest.mark.parametrize("batch", [1, 3])
def test_an_epilogue_apart_makes_of_a_product_what_a_fused_kernel_does(executor, epilogue, batch):
    case = Problem(20, 300, 7, batch=batch, ldc=303, epilogue=epilogue).case(alpha=2.0)
    situation = Situation(case, "exact", 0)
    operands = make_operands(situation)
    c = operands.c.copy()
    case.c.view(c)[...] = case.a.view(operands.a) @ case.b.view(operands.b)
    source = epilogue_apart(case.problem)
    kernel = executor.load(source)
    found = replace(operands, c=c)
    results = {name: kernel.run(case, found, output=name, watch=False) for name in case.written}  # it reads C anyway
    comparisons = [compare(situation, result, output=name) for name, result in results.items()]
    kernel.close()
    assert not any(comparison.mismatch for comparison in comparisons), comparisons


@pytest.mark.parametrize("batch", [1, 3])
def test_an_epilogue_apart_takes_sums_of_integers_as_they_were_left(executor, batch):
    """cuBLASLt stores them as s32, not as bf16. A, whose bytes stand for them here, is M x K, and K = 4N."""
    types = Types.parse("s8,s8,bf16")
    problem = Problem(20, 300, 1200, types=types, layout="rc", batch=batch, epilogue="scale_m+scale_n+bias")
    source = epilogue_apart(problem)
    text = re.sub(rf",\s+const int\* __restrict__ {LEFT}\)", ")", source.text).replace("A += matrix * s.stride_a;", "")
    text = text.replace(f"= {LEFT} +", "= reinterpret_cast<const int*>(A) +")
    source = replace(source, text=text).promising(parameters=source.parameters[:-1])
    case = problem.case(alpha=0.5)
    operands = make_operands(Situation(case, "random", 1))
    kernel = executor.load(source)
    found = case.c.dtype.decode(case.c.view(kernel.run(case, operands, watch=False)))
    kernel.close()
    sums = case.a.view(operands.a).view(np.int32).astype(np.float64)
    scale_m, scale_n, bias = (
        case.tensors[name].view(operands.extra[name]) for name in ("scale_m", "scale_n", "bias_n")
    )
    np.testing.assert_allclose(found, 0.5 * sums * scale_m * scale_n + bias, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize(("family", "values", "epilogue", "problem"), KERNELS, ids=str)
def test_kernels_compute_their_epilogue(executor, family, values, epilogue, problem):
    small = (
        {"largest": SMALL, "runs": 1}
        if KERNELS.index((family, values, epilogue, problem)) % EVERY_SIZE
        else {"runs": 2}
    )
    computes(executor, family, values, epilogue, problem, EXAMPLES, **small)


@pytest.mark.soak
@pytest.mark.parametrize(("family", "values", "epilogue", "problem"), ALL, ids=str)
def test_kernels_compute_their_epilogue_in_far_situations(executor, family, values, epilogue, problem):
    computes(executor, family, values, epilogue, problem, 2 * THOROUGH, runs=2)


def computes(executor, family, values, epilogue, problem, examples, **how):
    chosen, problem = FAMILIES[family], replace(problem, epilogue=epilogue)
    config = Subject("", problem, tuple(values.items()), chosen).config
    check(chosen, problem, config, parse_arch(DEFAULT_ARCH).limits)
    source = render(problem, chosen, config)
    verdict = verify(executor, source, examples=examples, **how)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"


def test_a_function_of_ones_own_takes_one_record(executor, monkeypatch):
    """The two of CONTRIBUTING.md."""
    own = (
        Function("hardswish", ("x",), definition="x * clamp(x + 3, 0, 6) / 6"),
        Function("sin", ("x",), cuda="sin{f}(x)", reference=np.sin, ulps=2),
    )
    for function in own:
        assert str(function.name) in CONTRIBUTING and function.definition + function.cuda in CONTRIBUTING
        monkeypatch.setitem(FUNCTIONS, function.name, function)
    problem = Problem(9, 20, 12, epilogue="hardswish(alpha * acc + bias_n) + sin(acc)")
    source = render(problem, FAMILIES["naive"], FAMILIES["naive"].default(problem))
    verdict = verify(executor, source, examples=7, runs=1)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
    wrong = replace(source, text=source.text.replace("sinf(acc)", "sinf(acc + 0.001f)"))
    assert wrong.text != source.text and not verify(executor, wrong, examples=7, runs=1, shrink=False).passed
