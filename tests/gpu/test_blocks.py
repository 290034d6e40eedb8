"""Scales of blocks on the card: kernels of wgmma, and launches that quantise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmgen.arrays.quantising import quantise_rows, quantise_squares
from gemmgen.families import WGMMA
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.verification.verifier import verify


@pytest.mark.parametrize(
    ("types", "layout", "inputs", "axes"),
    [
        ("e4m3,e4m3,bf16", "rc", "blocks", {}),
        ("e4m3,e5m2,f16", "cc", "blocks", {"BN": 64}),
        ("e4m3,e4m3,bf16", "rc", "blocks", {"CLUSTER": 2, "ACROSS": 1}),
        ("e4m3,e4m3,f32", "rc", "blocks+lines", {}),
        ("e4m3,e4m3,f32", "rc", "blocks+lines+padded", {}),
        ("e4m3,e4m3,bf16", "cr", "blocks+lines", {"SPLIT": 2, "PERSISTENT": 0}),
    ],
)
def test_sums_of_blocks_are_scaled_and_added(
    types: str, layout: str, inputs: str, axes: dict[str, int], gpu: GpuExecutor
) -> None:
    if gpu.arch != "sm_90":
        pytest.skip("wgmma is of sm_90a alone")
    problem = Problem(None, 256, 1024, types=Types.parse(types, Compute.PROMOTED), layout=layout, inputs=inputs)
    verdict = verify(gpu, render(problem, WGMMA, WGMMA.default(problem).with_values(**axes), "sm_90"), examples=40)
    assert verdict.failure is None, verdict.failure
    assert verdict.replayed


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "k", "lead"), [(1, 128, 128), (300, 1000, 1007), (4096, 4096, 4096), (0, 128, 128)])
def test_the_card_quantises_as_the_host_does(dtype: str, rows: int, k: int, lead: int, torch: Any) -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    torch.manual_seed(rows)
    x = (torch.randn(rows, lead) * torch.randn(rows, lead).exp2())[:, :k].to(getattr(torch, dtype))
    for quantise in (quantise_rows, quantise_squares):
        codes, scales = quantise(x)
        on_card, of_card = quantise(x.cuda())
        np.testing.assert_array_equal(on_card.cpu().view(torch.uint8).numpy(), codes.view(torch.uint8).numpy())
        np.testing.assert_array_equal(of_card.cpu().numpy(), scales.numpy())
