"""Kernels of `wmma` and `batchedmma` on a card: right, and to the bit what the emulator makes of the same text."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.families import BATCHED_MMA, WMMA, Family
from gemmgen.families.base import first_rejection
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify

KERNELS = (
    (WMMA, Problem(None, None, None, types="bf16", layout="rc")),
    (WMMA, Problem(None, None, None, types="bf16,bf16,f32", layout="cr")),
    (WMMA, Problem(None, None, None, types="f16,f16,f32", layout="rr")),
    (WMMA, Problem(None, None, None, types="f16", layout="cc", batch=None)),
    (BATCHED_MMA, Problem(32, 32, 32, types="bf16", batch=None)),
    (BATCHED_MMA, Problem(16, 16, 16, types="f16", layout="rc", batch=None)),
    (BATCHED_MMA, Problem(64, 48, 32, types="bf16,bf16,f32", layout="cr", batch=None)),
    (BATCHED_MMA, Problem(16, 32, 64, types="f16,f16,f32", layout="cc", ldb=66, batch=None)),
)


def source(family: Family, problem: Problem, arch: str) -> KernelSource:
    config = family.default(problem)
    if first_rejection(family, problem, config, parse_arch(arch).limits) is not None:
        pytest.skip(f"{arch} has no instruction for {problem.types}")
    return render(problem, family, config, arch)


@pytest.mark.parametrize(("family", "problem"), KERNELS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_situation(family: Family, problem: Problem, gpu: GpuExecutor) -> None:
    verdict = verify(gpu, source(family, problem, gpu.arch), examples=60)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"


@pytest.mark.parametrize(("family", "problem"), KERNELS, ids=lambda value: getattr(value, "name", str(value)))
def test_the_emulator_computes_the_same_bits(family: Family, problem: Problem, gpu: GpuExecutor) -> None:
    kernel = source(family, problem, gpu.arch)
    sizes = {} if problem.m else {"m": 70, "n": 52, "k": 333}
    case = problem.case(**sizes, beta=0.5, **({"batch": 5} if problem.batched else {}))
    operands = make_operands(Situation(case, "random", 0))
    with EmulatorExecutor() as emulator:
        card, host = (executor.load(kernel).run(case, operands) for executor in (gpu, emulator))
    assert np.array_equal(card.view(np.uint8), host.view(np.uint8))
