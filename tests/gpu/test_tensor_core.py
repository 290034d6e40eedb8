"""A card's tensor cores compute the bits of the model, and kernels on them those of their plans."""

from __future__ import annotations

import pytest

from gemmgen.families import FAMILIES
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.verification.tensor_core_recordings import record
from gemmgen.verification.verifier import verify


def test_each_native_instruction_has_the_models_bits(gpu: GpuExecutor) -> None:
    recording = record(gpu, gpu.arch, {"device": gpu.description})
    assert not recording.failures
    assert [told for told in recording.against_model() if told.differing] == []


def test_a_kernel_has_the_bits_of_its_plan(gpu: GpuExecutor) -> None:
    if parse_arch(gpu.arch).number < 80:
        pytest.skip(f"{gpu.arch} does not multiply bf16")
    mma, problem = FAMILIES["mma"], Problem(None, None, None, types="bf16,bf16,f32", layout="rc")
    source = render(problem, mma, mma.default(problem).with_values(**mma.small), gpu.arch)
    verdict = verify(gpu, source, examples=24, largest=160)
    assert verdict.passed, verdict.failure
    assert verdict.replayed is not None
    assert verdict.replayed.equal == verdict.replayed.elements > 500, verdict.replayed.first
