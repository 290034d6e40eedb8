"""Codes of 4 and 8 bits on the card: what a launch packs, and products with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmgen.arrays.card import CardBackend
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.families import MMA, SKINNY, WGMMA
from gemmgen.families.base import Family
from gemmgen.kernel.packing import Scaled, packed
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.support.files import Store
from gemmgen.verification.verifier import verify

CASES = (
    *(("bf16,u4,bf16", "scales=128+zeros"), ("f16,s4,f16", "scales=32"), ("bf16,u4,bf16", "scales=K")),
    *(("bf16,u8,bf16", "scales=128+zeros"), ("f16,s8,f16", "scales=32")),
)
FAMILIES = (
    *((WGMMA, *case) for case in CASES),
    (WGMMA, "bf16,u4,bf16_promoted", "scales=128+zeros"),
    (WGMMA, "f16,s4,f32_promoted", "scales=64"),
    (WGMMA, "bf16,s8,bf16_promoted", "scales=128"),
    *((family, *case) for family in (MMA, SKINNY) for case in CASES),
)


@pytest.fixture(autouse=True)
def hopper(gpu: GpuExecutor) -> None:
    if gpu.arch != "sm_90":
        pytest.skip("wgmma is of sm_90a alone")


@pytest.mark.parametrize(("family", "types", "inputs"), FAMILIES)
def test_kernels_of_codes_are_right(family: Family, types: str, inputs: str, gpu: GpuExecutor) -> None:
    problem = Problem(None, 200, 384, types=types, layout="rc", inputs=inputs)
    verdict = verify(gpu, render(problem, family, family.default(problem), "sm_90"), examples=60)
    assert verdict.failure is None, verdict.failure
    assert verdict.replayed or family is SKINNY  # its sums have no planned order


@pytest.mark.parametrize(("types", "inputs"), CASES)
def test_a_launch_packs_as_the_host_does(types: str, inputs: str, gpu: GpuExecutor, torch: Any) -> None:
    problem = Problem(None, 128, 256, types=types, layout="rc", inputs=inputs)
    source, case = render(problem, WGMMA, WGMMA.default(problem), "sm_90"), problem.case(m=1)
    rng, groups = np.random.default_rng(0), -(-256 // (problem.inputs.group or 256))
    last = 2**problem.code_bits - 1
    codes = rng.integers(0, last, (128, 256), np.uint8, endpoint=True)
    zeros = rng.integers(0, last, (groups, 128), np.uint8, endpoint=True) if problem.inputs.zeros else None
    bits = rng.integers(0, 2**14, (groups, 128), np.uint16)

    def stored(some: Any) -> Any:
        halves = problem.code_bits == 4
        held = some[:, ::2] | some[:, 1::2] << 4 if halves else some.view(problem.types.b.numpy)
        return torch.from_numpy(held).cuda()

    kind = torch.bfloat16 if problem.types.a.label == "bf16" else torch.float16
    scales = torch.from_numpy(bits.astype(np.int16)).view(kind).cuda()
    with ArrayKernel(source, CardBackend(source, Store())) as kernel:
        made = kernel.pack_b(stored(codes), scales, None if zeros is None else stored(zeros)).array
    np.testing.assert_array_equal(
        made.cpu().numpy().reshape(-1).view(np.uint32), packed(case, Scaled(codes, bits, zeros))
    )
