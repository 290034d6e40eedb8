"""TMA's im2col mode in the emulator: boxes of the pixels under a tap of a filter, and kernels of wgmma of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from gemmgen.families import WGMMA
from gemmgen.families.base import check
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TensorMap, im2col_walk
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import environment, render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.verifier import verify

SEEDS = range(4)

# A thread moves boxes of 8 channels x 4 pixels of A to C, whose row m is what the filter meets at place m.
UNROLL = """
//% from "device/mbarrier.cu" import mbarrier
//% from "device/tma.cu" import tma, tma_im2col, tensor_map
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
${ tensor_map() }
${ shared_address() }
${ mbarrier() }
${ tma((), (2,)) }
${ tma_im2col() }
${ dynamic_shared(1024) }
extern "C" __global__ void __launch_bounds__(32, 1)
k(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_c, const float* B, int M, int N,
  int lda, int ldb, int ldc, float alpha, float beta)
{
    __shared__ unsigned long long full;
    unsigned char* const box = dynamic_shared();
    if (threadIdx.x != 0) return;
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    unsigned parity = 0;
    for (int m = 0; m < M; m += 4) {
        const int q = m % ${ q }, p = m / ${ q } % ${ p }, image = m / ${ p * q };
        for (int k = 0; k < ${ depth }; k += 8) {
            const int tap = k / ${ channels };
            mbarrier_arrive_expect_tx(&full, 128);
            tma_load_im2col(box, &map_a, &full, k % ${ channels }, q * ${ across } - ${ left },
                p * ${ down } - ${ top }, image, tap % ${ s } * ${ dw }, tap / ${ s } * ${ dh });
            mbarrier_wait(&full, parity);
            parity ^= 1;
            tma_store_2d(&map_c, box, k, m);
            tma_store_commit();
            tma_store_wait_read<0>();
        }
    }
}
"""


@pytest.fixture(scope="module")
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def unroller(conv: Convolution, swizzle: int = 0) -> KernelSource:
    problem = Problem(None, None, conv.depth, lda=None, inputs=f"im2col={conv}")
    (top, left, _, _), (p, q), (_, s), (down, across), (dh, dw) = (
        conv.pad,
        conv.places,
        conv.taps,
        conv.stride,
        conv.dilation,
    )
    numbers = {"p": p, "q": q, "s": s, "dh": dh, "dw": dw, "down": down, "across": across, "top": top, "left": left}
    text = environment(problem.types).from_string(UNROLL)
    rendered = text.render(depth=conv.depth, channels=conv.size[2], **numbers)
    corners, steps = im2col_walk(conv)
    maps = (TensorMap("A", (8, 4), swizzle, corners=corners, steps=steps), TensorMap("C", (8, 4), swizzle))
    launch = Launch(32, (("M", 128), ("N", 512)), 1024, maps=maps)
    taken = {one.name: one for one in Contract.of(problem, launch).parameters}
    order = re.findall(r"(\w+)[,)]", rendered[rendered.index("\nk(") : rendered.index("\n{", rendered.index("\nk("))])
    return KernelSource("k", rendered, "test", {}, Contract(problem, launch, tuple(taken[name] for name in order)))


def unrolled(conv: Convolution, images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """im2col by padding the images and slicing them, tap by tap."""
    top, left, bottom, right = conv.pad
    padded = np.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)))
    (p, q), (down, across), (dh, dw) = conv.places, conv.stride, conv.dilation
    taps = [
        padded[:, r * dh :: down, s * dw :: across][:, :p, :q] for r in range(conv.taps[0]) for s in range(conv.taps[1])
    ]
    return np.concatenate(taps, axis=3).reshape(-1, conv.depth)


@pytest.mark.parametrize("swizzle", [0, 32])
@pytest.mark.parametrize(
    ("text", "m"),
    [
        ("5x6x8_3x3_p1x1", 90),
        ("5x6x8_3x3_p1x1", 41),  # the last image is cut
        ("5x6x8_3x2_p1x0x2x1_s2x1", 60),
        ("7x5x16_2x3_d2x2", 15),  # two boxes for the channels of a tap
        ("8x9x8_3x3_p2x3x0x1_s3x2_d1x2", 40),
        ("4x4x8_1x1_s2x2", 20),
        ("2x3x8_3x5_p1x4x1x3", 12),  # a filter larger than the image
    ],
)
def test_boxes_walk_the_places_of_a_filter(text: str, m: int, swizzle: int, emulator: EmulatorExecutor) -> None:
    conv = Convolution.parse(text)
    kernel = emulator.load(unroller(conv, swizzle))
    case = kernel.source.problem.case(m=m, n=conv.depth, lda=conv.size[2] + 4)
    a = np.random.default_rng(1).normal(size=case.a.elements).astype(np.float32)
    given = Operands(a, np.zeros(case.b.elements, np.float32), np.full(case.c.elements, 7, np.float32))
    images = case.a.view(a).reshape(conv.images(m), *conv.size)
    for seed in SEEDS:
        np.testing.assert_array_equal(case.c.view(kernel.run(case, given, seed=seed)), unrolled(conv, images)[:m])
    kernel.close()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("q * 1 - 1", "q * 1 - 2", "of pixels from -2 on, outside of the bounding box, -1 to 5, along dimension 1"),
        ("p * 1 - 1", "p * 1 + 3", "outside of the bounding box, -1 to 4, along dimension 2"),
        ("(box, &map_a", "(box, &map_c", "of 4 dimensions by a map of 2"),
        ("expect_tx(&full, 128)", "expect_tx(&full, 96)", "bytes"),
        ("tma_load_im2col(box,", "tma_load_im2col(box + 64,", "128 does not divide"),
    ],
)
def test_a_walk_that_no_card_makes_is_refused(old: str, new: str, words: str, emulator: EmulatorExecutor) -> None:
    source = unroller(Convolution.parse("5x6x8_3x3_p1x1"))
    assert old in source.text
    kernel = emulator.load(replace(source, text=source.text.replace(old, new)))
    case = source.problem.case(m=30, n=72, lda=8)
    zeros = [np.zeros(one.elements, np.float32) for one in (case.a, case.b, case.c)]
    with pytest.raises(CandidateFailed, match=words):
        kernel.run(case, Operands(*zeros))
    kernel.close()


ONE, TWO = {"BM": 64, "BN": 64, "CONSUMERS": 1}, {"BM": 128, "BN": 64, "CONSUMERS": 2}
KERNELS: tuple[tuple[str, str, tuple[int | None, int | None], str, str, dict[str, int]], ...] = (
    ("bf16", "rc", (None, 72), "7x9x64_3x3_p1x1", "", TWO),
    ("f16", "rc", (None, 136), "7x9x16_3x3_p2x1x0x1_s2x1_d1x2", "bias+relu", {**ONE, "CLUSTER": 2, "ACROSS": 1}),
    ("bf16", "rc", (None, 64), "5x4x32_5x4_p4x3x2x3", "", {"BM": 24, "BN": 64, "CONSUMERS": 1, "SWAP": 1}),
    ("bf16", "rr", (None, None), "7x9x64_3x2_s3x8", "", {**ONE, "CLUSTER": 2, "BK": 128}),
    ("bf16", "rc", (None, 64), "9x8x8_7x5_p3x3_s2x2", "", TWO),
    ("f16", "rc", (None, 72), "9x8x24_3x3_p1x1", "", {"BM": 24, "BN": 64, "CONSUMERS": 1, "SWAP": 1}),
    ("f16", "rc", (20, 64), "4x4x64_3x3_p1x1", "", ONE),
    ("bf16", "rc", (None, 64), "7x9x64_3x3_p1x1", "", {**ONE, "SPLIT": 2, "PERSISTENT": 0}),
    ("bf16", "rc", (None, 128), "7x9x64_3x3_p1x1", "residual+silu", {"BM": 128, "BN": 128, "PINGPONG": 1}),
    ("bf16,bf16,f32", "rc", (None, 131), "16x1x128_1x1_s2x1", "", {**TWO, "BROADCAST": 1}),
    ("f32_tf32", "rr", (None, 64), "7x9x8_3x3_p1x1", "", {**ONE, "FROM_REGISTERS": 2, "BK": 16}),
    ("s8,s8,s32", "rc", (None, 64), "7x9x32_3x3_p1x1", "", {**TWO, "BK": 128}),
    ("e4m3,e4m3,bf16_promoted", "rc", (None, 64), "7x9x64_3x3_p1x1", "", {**TWO, "BK": 128}),
)


# The gradients of filters, of these types, for M filters and K places.
WGRADS: tuple[tuple[str, tuple[int | None, int | None], str, dict[str, int]], ...] = (
    ("bf16,bf16,f32", (64, None), "5x6x32_2x2_p1x0", {**ONE, "SPLIT": 2, "PERSISTENT": 0}),
    ("f16", (72, None), "7x9x16_3x3_p2x1x0x1_s2x1_d1x2", {**ONE, "CLUSTER": 2}),
    ("bf16,bf16,f32", (None, None), "7x9x64_3x3_p1x1", {**TWO, "BN": 192}),
    ("f16", (None, None), "7x9x16_3x3_p2x1x0x1_s2x1_d1x2", {**ONE, "CLUSTER": 2, "ACROSS": 1}),
    ("bf16", (136, None), "7x9x64_3x2_s3x8", {**ONE, "CLUSTER": 2, "BK": 128}),
    ("bf16,bf16,f32", (None, None), "5x4x32_5x4_p4x3x2x3", {"BM": 32, "BN": 64, "CONSUMERS": 1, "SWAP": 1}),
    ("bf16", (64, 315), "7x9x64_3x3_p1x1", {**ONE, "SPLIT": 2, "PERSISTENT": 0}),
    ("bf16", (None, None), "7x9x64_3x3_p1x1", {"BM": 128, "BN": 128, "PINGPONG": 1}),
    ("f16", (70, None), "9x8x48_1x2_p0x1", {"BM": 64, "BN": 48, "CONSUMERS": 1}),  # A is copied
)


@pytest.mark.parametrize(
    ("types", "sizes", "conv", "axes"),
    [one if at < 2 else pytest.param(*one, marks=pytest.mark.soak) for at, one in enumerate(WGRADS)],
    ids=[f"{one[0]} {one[2]} {at}" for at, one in enumerate(WGRADS)],
)
@pytest.mark.parametrize("examples", [10, pytest.param(25, marks=pytest.mark.soak)])
def test_gradients_of_filters_are_computed(
    emulator: EmulatorExecutor,
    types: str,
    sizes: tuple[int | None, int | None],
    conv: str,
    axes: dict[str, int],
    examples: int,
) -> None:
    (m, k), n = sizes, Convolution.parse(conv).depth
    problem = Problem(m, n, k, types=types, layout="cr", inputs=f"im2col={conv}+wgrad", ld_align=16)
    config = WGMMA.default(problem).with_values(**axes)
    check(WGMMA, problem, config, parse_arch("sm_90a").limits)
    verdict = verify(emulator, render(problem, WGMMA, config, "sm_90a"), examples=examples, largest=200, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"


@pytest.mark.parametrize(
    ("types", "layout", "sizes", "conv", "epilogue", "axes"),
    [one if at < 5 else pytest.param(*one, marks=pytest.mark.soak) for at, one in enumerate(KERNELS)],
    ids=[f"{one[0]} {one[3]}" for one in KERNELS],
)
@pytest.mark.parametrize("examples", [10, pytest.param(25, marks=pytest.mark.soak)])
def test_convolutions_are_computed(
    emulator: EmulatorExecutor,
    types: str,
    layout: str,
    sizes: tuple[int | None, int | None],
    conv: str,
    epilogue: str,
    axes: dict[str, int],
    examples: int,
) -> None:
    more = {"epilogue": epilogue} if epilogue else {}
    depth = Convolution.parse(conv).depth
    problem = Problem(*sizes, depth, types=types, layout=layout, inputs=f"im2col={conv}", ld_align=16, **more)
    config = WGMMA.default(problem).with_values(**axes)
    check(WGMMA, problem, config, parse_arch("sm_90a").limits)
    verdict = verify(emulator, render(problem, WGMMA, config, "sm_90a"), examples=examples, largest=200, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
