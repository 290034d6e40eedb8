"""Groups of rows whose operands have scales, in the emulator: each group has its own, and the bits are the planned."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.arrays.quantising import quantise_rows, quantise_squares
from gemmgen.families import NAIVE, WGMMA
from gemmgen.families.base import check
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store
from gemmgen.verification.verifier import verify

Array = np.ndarray[Any, Any]
LIMITS = parse_arch("sm_90a").limits
SMALL = {"BM": 64, "CONSUMERS": 1}
# Tiles in one block of B, in two of them and beside each other, scales of B's columns, rows of scales that are padded.
BLOCKS: tuple[tuple[str, str, tuple[int | None, ...], str, str, dict[str, int]], ...] = (
    ("e4m3,e4m3,bf16_promoted", "rc", (None, 264, 384), "groups=5+blocks", "", {"BM": 128}),
    ("e4m3,e4m3,f32_promoted", "rc", (None, 200, 272), "groups=40+blocks+padded", "bias", {**SMALL, "BN": 96}),
    ("e4m3,e4m3,f32_promoted", "rc", (None, 136, None), "groups=3+blocks+lines+padded", "", {**SMALL, "BN": 64}),
    ("e4m3,e4m3,bf16_promoted", "rc", (150, 256, 256), "groups=8+blocks", "", {"BN": 64, "CLUSTER": 2, "ACROSS": 1}),
    ("e4m3,e4m3,bf16_promoted", "rc", (None, 520, 256), "groups=5+blocks", "", {**SMALL, "BN": 160, "IN_FLIGHT": 0}),
)
FEW_ROWS = {"BM": 24, "BN": 64, "CONSUMERS": 1}
# Tiles of few rows and of many, groups of K shorter than a chunk, sums that are scaled, codes of 8 bits, clusters.
CODES: tuple[tuple[str, str, tuple[int | None, ...], str, str, dict[str, int]], ...] = (
    ("bf16,u4,bf16", "rc", (None, 136, 272), "scales=128+zeros+groups=5", "", {**FEW_ROWS, "BN": 128, "CONSUMERS": 2}),
    ("f16,s4,f32_promoted", "rr", (None, 72, 176), "scales=64+groups=5", "bias+silu", {**FEW_ROWS, "BK": 128}),
    ("bf16,u8,bf16", "rc", (None, 128, 256), "scales=K+zeros+groups=3", "", {**FEW_ROWS, "BM": 64}),
    ("bf16,s4,f32", "rc", (150, 200, 128), "scales=32+groups=8", "", {**FEW_ROWS, "BM": 32, "CLUSTER": 2, "ACROSS": 1}),
)


def kernel_of(
    types: str, layout: str, sizes: tuple[int | None, ...], inputs: str, epilogue: str, axes: dict[str, int]
) -> KernelSource:
    more = {"epilogue": epilogue} if epilogue else {}
    problem = Problem(*sizes, types=types, layout=layout, inputs=inputs, ld_align=16, **more)
    config = WGMMA.default(problem).with_values(**axes)
    check(WGMMA, problem, config, LIMITS)
    return render(problem, WGMMA, config, "sm_90a")


@pytest.fixture(scope="module")
def executor(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as one:
        yield one


@pytest.mark.parametrize(
    "kernel",
    [one if at < 3 else pytest.param(one, marks=pytest.mark.soak) for at, one in enumerate(BLOCKS)],
    ids=lambda one: " ".join(map(str, one[:5])),
)
@pytest.mark.parametrize("examples", [8, pytest.param(15, marks=pytest.mark.soak)])
def test_each_group_has_its_own_scales_of_blocks(executor: EmulatorExecutor, kernel, examples: int) -> None:
    verdict = verify(executor, kernel_of(*kernel), examples=examples, largest=200, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
    assert verdict.replayed is not None and verdict.replayed.equal == verdict.replayed.elements > 0


@pytest.mark.parametrize(
    "kernel",
    [one if at < 2 else pytest.param(one, marks=pytest.mark.soak) for at, one in enumerate(CODES)],
    ids=lambda one: " ".join(map(str, one[:5])),
)
@pytest.mark.parametrize("examples", [8, pytest.param(15, marks=pytest.mark.soak)])
def test_each_group_has_codes_scales_and_zero_points(executor: EmulatorExecutor, kernel, examples: int) -> None:
    verdict = verify(executor, kernel_of(*kernel), examples=examples, largest=200, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
    assert verdict.replayed is not None and verdict.replayed.equal == verdict.replayed.elements > 0


@pytest.mark.parametrize(
    ("types", "inputs"),
    [
        ("e4m3,e4m3,f32", "groups=5+blocks"),
        ("e4m3,e4m3,f32", "groups=3+blocks+lines+padded"),
        ("bf16,u4,f32", "scales=32+zeros+groups=5"),
        ("f16,s8,f32_promoted", "scales=K+groups=3"),
    ],
)
@pytest.mark.parametrize("examples", [8, pytest.param(15, marks=pytest.mark.soak)])
def test_naive_kernels_take_scales_of_groups(
    executor: EmulatorExecutor, types: str, inputs: str, examples: int
) -> None:
    problem = Problem(None, 141, 203, types=types, layout="rr", inputs=inputs, stride_b=None)
    source = render(problem, NAIVE, NAIVE.default(problem), "sm_90")
    verdict = verify(executor, source, examples=examples, largest=64, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"


@pytest.fixture(scope="module")
def loaded(shared_store: Store) -> Iterator[ArrayKernel]:
    """A kernel of wgmma for four experts, whose rows of scales are padded."""
    source = kernel_of("e4m3,e4m3,bf16_promoted", "rc", (None, 136, 272), "groups=4+blocks+padded", "", BLOCKS[1][5])
    with load_source(source, "emulator", shared_store) as kernel:
        yield kernel


def test_arrays_hold_the_scales_of_each_group(loaded: ArrayKernel) -> None:
    rng = np.random.default_rng(0)
    experts = [quantise_squares(one) for one in rng.standard_normal((4, 136, 272), np.float32)]
    codes_b, scales_b = (np.stack(of_all) for of_all in zip(*experts, strict=True))
    wide_b = DType.E4M3.decode(codes_b) * scales_b.repeat(128, 1).repeat(128, 2)[:, :136, :272]
    offs = np.array([13, 13, 70, 75], np.int32)
    codes, scales = quantise_rows(rng.standard_normal((75, 272), np.float32))
    rows = np.zeros((3, 76), np.float32)[:, :75]  # as far apart as 16 bytes want
    rows[...] = scales
    found = loaded(codes, codes_b.swapaxes(1, 2), offs=offs, scales_a=rows, scales_b=scales_b)
    wide_a = DType.E4M3.decode(codes) * scales.repeat(128, 0).T[:, :272]
    for group, (begin, end) in enumerate(pairwise((0, *offs))):
        wanted = wide_a[begin:end] @ wide_b[group].T
        np.testing.assert_allclose(found[begin:end].astype(float), wanted, rtol=0.01, atol=0.2)


@pytest.mark.parametrize(
    ("scales_a", "scales_b", "words"),
    [
        ((3, 75), (4, 2, 3), "scales_a of 3 x 75 has strides .75, 1.: this launch takes .76, 1."),
        ((3, 76), (2, 3), "scales_b is 2 x 3: this launch takes 4 x 2 x 3"),
        ((3, 76), (8, 3), "scales_b is 8 x 3: this launch takes 4 x 2 x 3"),
        ((3, 76), (4, 3, 2), "scales_b is 4 x 3 x 2: this launch takes 4 x 2 x 3"),
    ],
)
def test_scales_of_groups_that_do_not_fit_are_refused(loaded: ArrayKernel, scales_a, scales_b, words: str) -> None:
    a, b = (np.zeros(shape, DType.E4M3.numpy) for shape in ((75, 272), (4, 136, 272)))
    given = {"scales_a": np.ones(scales_a, np.float32)[:, :75], "scales_b": np.ones(scales_b, np.float32)}
    with pytest.raises(InvalidInput, match=words):
        loaded(a, b.swapaxes(1, 2), offs=np.zeros(4, np.int32), **given)


@pytest.fixture(scope="module")
def of_codes(shared_store: Store) -> Iterator[ArrayKernel]:
    """A kernel of wgmma for three experts of weights of four bits."""
    source = kernel_of("bf16,u4,bf16", "rc", (None, 72, 48), "scales=32+zeros+groups=3", "", FEW_ROWS)
    with load_source(source, "emulator", shared_store) as kernel:
        yield kernel


def halves(codes: Array) -> Array:
    """Codes of 4 bits, two to a byte."""
    return codes[..., ::2] | codes[..., 1::2] << 4


def test_a_packed_weight_holds_the_codes_of_all_groups(of_codes: ArrayKernel) -> None:
    rng = np.random.default_rng(0)
    codes, zeros = (rng.integers(0, 16, shape).astype(np.uint8) for shape in ((3, 72, 48), (3, 2, 72)))
    scales = rng.choice((0.5, 1, 2), (3, 2, 72)).astype(DType.BF16.numpy)
    packed = of_codes.pack_b(halves(codes), scales, halves(zeros))
    assert packed.shape == (3, 48, 72)
    of_group = np.arange(48) // 32
    wide = (codes - zeros.swapaxes(1, 2).astype(float)[..., of_group]) * scales.swapaxes(1, 2).astype(float)[
        ..., of_group
    ]
    for offs in ((5, 5, 40), (0, 30, 71)):
        a = rng.integers(-2, 3, (offs[-1] + 1, 48)).astype(DType.BF16.numpy)
        found = of_codes(a, packed, offs=np.array(offs, np.int32))
        for group, (begin, end) in enumerate(pairwise((0, *offs))):
            wanted = (a[begin:end].astype(float) @ wide[group].T).astype(DType.BF16.numpy)
            np.testing.assert_array_equal(found[begin:end], wanted)


@pytest.mark.parametrize(
    ("codes", "scales", "words"),
    [
        ((72, 24), (2, 72), "codes of shape .72, 24.: they are matrices of 3 groups, of lines of bytes"),
        ((2, 72, 24), (2, 2, 72), "codes of shape .2, 72, 24.: this kernel is built for groups = 3"),
        ((3, 72, 24), (2, 72), "scales_b has 144 elements: this product has 432"),
    ],
)
def test_codes_that_are_not_of_all_groups_are_refused(of_codes: ArrayKernel, codes, scales, words: str) -> None:
    given = np.zeros(codes, np.uint8), np.zeros(scales, DType.BF16.numpy), np.zeros((3, 2, 36), np.uint8)
    with pytest.raises(InvalidInput, match=words):
        of_codes.pack_b(*given)
