"""Kernels of mma whose threads copy rows of A from images, in the emulator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gemmgen.families import MMA
from gemmgen.families.base import check
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.files import Store
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify

SMALL = {"BM": 32, "BN": 32, "WM": 16, "WN": 16}
# K that ends in a k tile, tiles that begin and end within an image, padding of each side, none, dilation, strides, few
# channels.
KERNELS: tuple[tuple[str, str, tuple[int | None, int | None], str, str, dict[str, int]], ...] = (
    ("f16", "rc", (None, 136), "7x9x16_3x3_p2x1x0x1_s2x1_d1x2", "bias+relu", SMALL),
    ("bf16", "rr", (None, None), "7x9x64_3x2_s3x8", "", {**SMALL, "BK": 128}),
    ("f16", "rc", (None, 72), "9x8x4_3x3_p1x1", "residual", SMALL),
    ("bf16", "rc", (None, 64), "7x9x24_1x3_p0x1", "", {**SMALL, "SPLIT": 2}),
    ("bf16", "rc", (None, 72), "7x9x64_3x3_p1x1", "", {"BN": 64, "WM": 32}),
    ("bf16", "rc", (None, 64), "5x4x32_5x4_p4x3x2x3", "", SMALL),
    ("bf16", "rc", (None, 64), "9x8x8_7x5_p3x3_s2x2", "residual+silu", {**SMALL, "BK": 64}),
    ("f16", "rc", (20, 64), "4x4x2_3x3_p1x1", "", SMALL),
    ("bf16", "rc", (None, 64), "6x5x8_1x1_p1x0", "", SMALL),
    ("bf16,bf16,f32", "rc", (None, 131), "16x3x128_1x1_s2x1", "", {**SMALL, "SWIZZLE": 0}),
    ("bf16", "rc", (64, 64), "8x8x64_3x1_p1x0", "", {**SMALL, "EXCHANGE": 1, "STAGES": 5, "WN": 32}),
    ("f32_tf32", "rr", (None, 64), "7x9x8_3x3_p1x1", "", {}),
    ("s8,s8,s32", "rc", (None, 64), "7x9x32_3x3_p1x1", "", {}),
    ("f64", "rc", (None, 64), "7x9x2_3x3_p1x1", "", {"MMA_K": 4}),
)


def kernel_of(
    types: str, layout: str, sizes: tuple[int | None, int | None], conv: str, epilogue: str, axes: dict[str, int]
) -> KernelSource:
    more = {"epilogue": epilogue} if epilogue else {}
    depth = Convolution.parse(conv).depth
    problem = Problem(*sizes, depth, types=types, layout=layout, inputs=f"im2col={conv}", ld_align=16, **more)
    config = MMA.default(problem).with_values(**axes)
    check(MMA, problem, config, parse_arch("sm_80").limits)
    return render(problem, MMA, config, "sm_80")


@pytest.fixture(scope="module")
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


@pytest.mark.parametrize(
    "kernel",
    [one if at < 4 else pytest.param(one, marks=pytest.mark.soak) for at, one in enumerate(KERNELS)],
    ids=lambda one: f"{one[0]} {one[3]}",
)
def test_convolutions_are_computed(emulator: EmulatorExecutor, kernel) -> None:
    verdict = verify(emulator, kernel_of(*kernel), examples=15, largest=150, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
    assert verdict.replayed is not None and verdict.replayed.equal == verdict.replayed.elements > 100


def test_pixels_have_the_bits_of_an_im2col_matrix(emulator: EmulatorExecutor) -> None:
    """Of the same kernel for a matrix: taps around the image are zeros of the sum, too."""
    images = kernel_of("bf16", "rc", (None, 40), "5x6x16_3x2_p1x0x2x1_s2x1_d1x2", "", SMALL)
    conv = images.problem.inputs.conv
    assert conv is not None
    plain = Problem(None, 40, conv.depth, types="bf16", layout="rc", ld_align=16)
    case, unrolled = images.problem.case(m=conv.per_image * 3 - 4), plain.case(m=conv.per_image * 3 - 4)
    operands = make_operands(Situation(case, "random", seed=3))
    (top, left, bottom, right), (dh, dw), (p, q) = conv.pad, conv.dilation, conv.places
    pixels = case.a.view(operands.a).reshape(-1, *conv.size)
    padded = np.pad(pixels, ((0, 0), (top, bottom), (left, right), (0, 0)))
    rows = [
        padded[:, r * dh :: conv.stride[0], s * dw :: conv.stride[1]][:, :p, :q] for r in range(3) for s in range(2)
    ]
    matrix = np.ascontiguousarray(np.concatenate(rows, axis=3).reshape(-1, conv.depth)[: case.m]).ravel()
    source = render(plain, MMA, MMA.default(plain).with_values(**SMALL), "sm_80")
    got = emulator.load(images).run(case, operands)
    wanted = emulator.load(source).run(unrolled, type(operands)(matrix, operands.b, operands.c))
    np.testing.assert_array_equal(case.c.view(got).view(np.uint16), unrolled.c.view(wanted).view(np.uint16))
