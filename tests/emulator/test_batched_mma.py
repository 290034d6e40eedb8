"""Kernels of `batchedmma` compute every situation: layouts, alignments, epilogues, strides and pointers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gemmgen.families import BATCHED_MMA
from gemmgen.families.base import check
from gemmgen.problem.device import ARCHS
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.files import Store
from gemmgen.verification.verifier import verify

KERNELS = (
    (Problem(32, 32, 32, types="bf16", batch=None), {}, "sm_90"),
    (Problem(16, 48, 64, types="f16,f16,f32", layout="cc", batch=None, ldb=66, ldc=50), {"BK": 32}, "sm_80"),
    (Problem(48, 16, 16, types="bf16", layout="cr", batch=None, pointers=True, epilogue="bias+gelu"), {}, "sm_120"),
    (Problem(32, 16, 16, types="bf16", batch=None, pointers=True), {"PDL": 1}, "sm_90"),
    (Problem(64, 64, 64, types="bf16", layout="rc", batch=7, stride_b=0), {"BK": 32, "WARPS": 4}, "sm_90"),
)


@pytest.fixture
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


@pytest.mark.parametrize(("problem", "axes", "arch"), KERNELS, ids=str)
def test_kernel_computes_every_situation(
    problem: Problem, axes: dict[str, int], arch: str, emulator: EmulatorExecutor
) -> None:
    config = BATCHED_MMA.default(problem).with_values(**{**BATCHED_MMA.small, **axes})
    check(BATCHED_MMA, problem, config, ARCHS[arch].limits)
    verdict = verify(emulator, render(problem, BATCHED_MMA, config, arch), examples=12, seed=1, runs=2)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"
    assert verdict.deterministic and verdict.worst <= 1
