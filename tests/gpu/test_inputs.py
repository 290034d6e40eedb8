"""Products whose operands are more than two plain matrices: scales along K, groups, gathered rows, blocks, images."""

from __future__ import annotations

import pytest

from gemmgen.families import MMA, NAIVE, WGMMA
from gemmgen.families.base import first_rejection
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.problem.wgmma import ARCH
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.verification.verifier import verify

PROBLEMS = [
    Problem(None, None, None, types="bf16,u4,bf16", layout="rc", inputs="scales=128+zeros"),
    Problem(None, None, None, types="f16,s4,f16", layout="rr", inputs="scales=32"),
    Problem(None, None, None, types="bf16,u8,f32", layout="rr", inputs="scales=K+zeros"),
    Problem(None, 300, None, types="bf16", layout="rc", inputs="groups=8"),
    Problem(None, 300, None, types="e4m3,e4m3,bf16", layout="rc", inputs="groups=8", epilogue="scale_m+scale_n"),
    Problem(None, 300, None, types="bf16", layout="rc", inputs="groups=8+gathered"),
    Problem(None, 300, None, types="bf16", layout="rc", inputs="groups=8+masked"),
    Problem(None, 300, None, types="bf16,bf16,f32", layout="cr", inputs="groups=8+along_k"),
    Problem(None, None, None, types="e4m3,e4m3,bf16", layout="rc", inputs="blocks"),
    Problem(None, None, None, types="e4m3,e4m3,f32", layout="rc", inputs="blocks+lines"),
    Problem(None, None, None, types="bf16,u4,bf16_promoted", layout="rc", inputs="scales=64+zeros"),
    Problem(None, 64, 24, types="f16", layout="rc", inputs="im2col=8x9x4_3x2_p1x1x2x0_s2x1_d1x2"),
    Problem(None, None, None, types="bf16", layout="rc", epilogue="lstm"),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_naive_computes_them_on_a_card(gpu: GpuExecutor, problem: Problem) -> None:
    verdict = verify(gpu, render(problem, NAIVE, NAIVE.default(problem)), examples=40)
    assert verdict.passed, (verdict.failure, verdict.situation, verdict.mismatch)


IMAGES = (
    ("bf16", (None, 256, 576), "im2col=14x15x64_3x3_p1x1", {}, ""),
    ("bf16", (None, 64, 576), "im2col=28x28x64_3x3_p1x1", {"BM": 136, "BN": 64, "CONSUMERS": 1, "SWAP": 1}, ""),
    ("f16", (None, 256, 144), "im2col=28x30x16_3x3_p1x1x2x0_s2x1_d1x2", {"BN": 128, "CLUSTER": 2, "ACROSS": 1}, "bias"),
    ("bf16", (None, 128, 576), "im2col=9x9x64_3x3_p2x0x0x3_s1x3_d2x1", {"BN": 64, "CLUSTER": 2}, ""),  # tiles behind M
    ("f16", (70, 128, 480), "im2col=5x4x32_5x3_p4x2", {"BN": 128, "SPLIT": 2, "PERSISTENT": 0}, ""),
    ("bf16", (None, 64, 392), "im2col=60x58x8_7x7_p3x3_s2x2", {"BN": 64}, ""),
    ("bf16", (None, 64, 256), "im2col=20x22x16_4x4_p2x2x1x1", {"BN": 64}, "relu(acc + bias_n + beta * C)"),
    ("f16", (None, 64, 216), "im2col=9x8x24_3x3_p1x1", {"BM": 24, "BN": 64, "CONSUMERS": 1, "SWAP": 1}, ""),
    ("bf16", (None, 64, 128), "im2col=17x16x128_1x1_s2x2", {"BN": 64, "BK": 128}, ""),
    ("f32_tf32", (None, 128, 288), "im2col=14x14x32_3x3_p1x1", {"BN": 128}, ""),
    ("s8,s8,s32", (None, 128, 1152), "im2col=14x14x128_3x3_p1x1", {"BN": 128, "BK": 128}, ""),
)


@pytest.mark.parametrize(("types", "sizes", "inputs", "axes", "epilogue"), IMAGES, ids=str)
def test_wgmma_computes_convolutions_on_a_card(
    types: str,
    sizes: tuple[int | None, int, int],
    inputs: str,
    axes: dict[str, int],
    epilogue: str,
    gpu: GpuExecutor,
) -> None:
    if gpu.arch.rstrip("a") != ARCH.rstrip("a"):
        pytest.skip(f"wgmma needs {ARCH}, and the GPU here is {gpu.arch}")
    more = {"epilogue": epilogue} if epilogue else {}
    problem = Problem(*sizes, types=types, layout="rc", inputs=inputs, **more)
    verdict = verify(gpu, render(problem, WGMMA, WGMMA.default(problem).with_values(**axes), ARCH), examples=40)
    assert verdict.passed, (verdict.failure, verdict.situation, verdict.mismatch)


PIXELS = (
    ("bf16", (None, 256, 576), "im2col=14x15x64_3x3_p1x1", {"WM": 32}, ""),
    ("f16", (None, 256, 144), "im2col=28x30x16_3x3_p1x1x2x0_s2x1_d1x2", {"WM": 32, "SPLIT": 2}, "bias"),
    ("bf16", (None, 64, 392), "im2col=60x58x8_7x7_p3x3_s2x2", {"BN": 64, "BK": 64, "WM": 32}, ""),
    ("bf16", (None, 64, 256), "im2col=20x22x16_4x4_p2x2x1x1", {"BM": 64, "BN": 64}, "relu(acc + bias_n + beta * C)"),
    ("f16", (None, 64, 36), "im2col=9x8x4_3x3_p1x1", {**MMA.small}, "residual"),
    ("bf16,bf16,f32", (None, 131, 128), "im2col=17x16x128_1x1_s2x2", {"STAGES": 5, "WM": 32}, ""),
    ("f32_tf32", (None, 128, 288), "im2col=14x14x32_3x3_p1x1", {}, ""),
    ("s8,s8,s32", (None, 128, 1152), "im2col=14x14x128_3x3_p1x1", {}, ""),
)


@pytest.mark.parametrize(("types", "sizes", "inputs", "axes", "epilogue"), PIXELS, ids=str)
def test_mma_computes_convolutions_on_a_card(
    types: str,
    sizes: tuple[int | None, int, int],
    inputs: str,
    axes: dict[str, int],
    epilogue: str,
    gpu: GpuExecutor,
) -> None:
    more = {"epilogue": epilogue} if epilogue else {}
    problem = Problem(*sizes, types=types, layout="rc", inputs=inputs, ld_align=8, **more)
    config = MMA.default(problem).with_values(**axes)
    rejection = first_rejection(MMA, problem, config, parse_arch(gpu.arch).limits)
    if rejection is not None:
        pytest.skip(f"mma on {gpu.arch}: {rejection}")
    verdict = verify(gpu, render(problem, MMA, config, gpu.arch), examples=40)
    assert verdict.passed, (verdict.failure, verdict.situation, verdict.mismatch)


WGRADS = (
    ("bf16,bf16,f32", (256, None), "im2col=14x15x64_3x3_p1x1+wgrad", {"BN": 192, "BM": 64, "CONSUMERS": 1}),
    ("bf16", (64, None), "im2col=28x28x64_3x3_p1x1+wgrad", {"BM": 64, "BN": 64, "CONSUMERS": 1, "SPLIT": 8}),
    ("f16,f16,f32", (136, None), "im2col=28x30x16_3x3_p1x1x2x0_s2x1_d1x2+wgrad", {"BN": 96, "CLUSTER": 2}),
    ("f16", (None, None), "im2col=9x9x64_3x3_p2x0x0x3_s1x3_d2x1+wgrad", {"BN": 64, "CLUSTER": 2, "ACROSS": 1}),
    ("bf16,bf16,f32", (200, 1960), "im2col=14x14x32_5x3_p4x2+wgrad", {"BM": 48, "BN": 64, "CONSUMERS": 1, "SWAP": 1}),
    ("bf16", (64, None), "im2col=17x16x128_1x1_s2x2+wgrad", {"BM": 64, "BN": 128, "CONSUMERS": 1, "BK": 128}),
)


@pytest.mark.parametrize(("types", "sizes", "inputs", "axes"), WGRADS, ids=str)
def test_wgmma_computes_gradients_of_filters_on_a_card(
    types: str, sizes: tuple[int | None, int | None], inputs: str, axes: dict[str, int], gpu: GpuExecutor
) -> None:
    if gpu.arch.rstrip("a") != ARCH.rstrip("a"):
        pytest.skip(f"wgmma needs {ARCH}, and the GPU here is {gpu.arch}")
    conv = Inputs.parse(inputs).conv
    assert conv is not None
    (m, k), split = sizes, "SPLIT" in axes
    problem = Problem(m, conv.depth, k, types=types, layout="cr", inputs=inputs)
    config = WGMMA.default(problem).with_values(**axes, **({"PERSISTENT": 0} if split else {}))
    verdict = verify(gpu, render(problem, WGMMA, config, ARCH), examples=40)
    assert verdict.passed, (verdict.failure, verdict.situation, verdict.mismatch)


LD_ALIGN = 16  # elements: TMA's lines are multiples of 16 bytes
GATED = "silu(scale_m * scale_n * acc) * (scale_m * scale_n2 * acc2)"
GROUPS = (
    ("bf16", "rc", "groups=128", {"WHOLE": 1, "BROADCAST": 1}, ""),
    ("bf16", "rc", "groups=8", {"BM": 16, "BN": 128, "STAGES": 7, "SWAP": 1, "WHOLE": 1}, ""),
    (
        "bf16",
        "rc",
        "groups=40",
        {"BN": 128, "CLUSTER": 2, "ACROSS": 1, "PINGPONG": 1, "WHOLE": 1},
        "bias+gelu+residual",
    ),
    ("e4m3,e4m3,bf16_fast", "rc", "groups=40", {"BN": 128, "PINGPONG": 1}, "scale_m+scale_n"),
    ("e4m3,e4m3,bf16_fast", "rc", "groups=8", {"BM": 16, "BN": 128, "STAGES": 4, "SWAP": 1}, "scale_m+scale_n+bias"),
    ("e4m3,e4m3,bf16_fast", "rc", "groups=8", {"BN": 128, "WHOLE": 1}, GATED),
    ("e4m3,e4m3,bf16_promoted", "rc", "groups=8+blocks", {"BN": 128}, ""),
    ("e4m3,e4m3,f32_promoted", "rc", "groups=40+blocks+lines+padded", {"BN": 64}, ""),
    ("bf16,u4,bf16", "rc", "scales=64+zeros+groups=8", {}, ""),
    ("f16,s4,f16_promoted", "rr", "scales=64+groups=40", {}, "bias"),
    ("bf16", "rc", "groups=8+gathered", {"WHOLE": 1, "BROADCAST": 1}, ""),
    ("bf16", "rc", "groups=40+gathered", {"BM": 256, "BN": 128, "BROADCAST": 1}, "bias+gelu"),
    ("f16", "rc", "groups=8+gathered", {"BM": 16, "BN": 128, "BK": 128, "STAGES": 6, "SWAP": 1}, ""),
    ("bf16", "rc", "groups=8+gathered", {"BN": 128, "STAGES": 4, "WHOLE": 1}, "swiglu"),
    ("f16", "rr", "gathered", {"BN": 128, "CLUSTER": 2, "PINGPONG": 1}, "bias"),
    ("bf16", "rc", "groups=8+scattered", {"WHOLE": 1, "BROADCAST": 1}, "scale_m"),
    ("f16", "rc", "groups=8+gathered+scattered", {"BM": 24, "BN": 128, "BK": 128, "STAGES": 5, "SWAP": 1}, ""),
    ("bf16", "rc", "scattered", {"BN": 128, "CLUSTER": 2}, "bias+residual"),
    ("bf16", "rc", "gathered", {"BM": 64, "BN": 64, "BK": 32, "CONSUMERS": 1, "SPLIT": 2, "PERSISTENT": 0}, ""),
    ("e4m3,e4m3,bf16_fast", "rc", "groups=8+gathered", {"BN": 128, "STAGES": 2}, "scale_m+scale_n"),
    ("bf16", "rc", "groups=6+masked", {"BM": 32, "BN": 128, "STAGES": 7, "SWAP": 1}, ""),
    ("bf16", "rr", "groups=40+masked", {"BN": 128, "CLUSTER": 2, "ACROSS": 1, "PINGPONG": 1}, "bias+gelu"),
    ("bf16", "cr", "groups=8+along_k", {"WHOLE": 1, "BROADCAST": 1}, ""),
    ("bf16", "cr", "groups=40+along_k", {"BN": 128, "CLUSTER": 2, "PINGPONG": 1}, ""),
    ("bf16", "cr", "groups=5+along_k", {"BN": 128, "CLUSTER": 2, "ACROSS": 1, "PERSISTENT": 0}, "bias+gelu"),
)


@pytest.mark.parametrize(("types", "layout", "inputs", "axes", "epilogue"), GROUPS, ids=str)
def test_wgmma_multiplies_groups_on_a_card(
    types: str, layout: str, inputs: str, axes: dict[str, int], epilogue: str, gpu: GpuExecutor
) -> None:
    if gpu.arch.rstrip("a") != ARCH.rstrip("a"):
        pytest.skip(f"wgmma needs {ARCH}, and the GPU here is {gpu.arch}")
    more = {"epilogue": epilogue} if epilogue else {}
    problem = Problem(None, 328, 320, types=types, layout=layout, inputs=inputs, ld_align=LD_ALIGN, **more)
    verdict = verify(gpu, render(problem, WGMMA, WGMMA.default(problem).with_values(**axes), ARCH), examples=40)
    assert verdict.passed, (verdict.failure, verdict.situation, verdict.mismatch)
