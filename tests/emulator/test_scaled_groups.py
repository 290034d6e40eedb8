"""Groups of rows whose operands have scales, in the emulator: each group has its own, and the bits are the planned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gemmgen.families import NAIVE, WGMMA
from gemmgen.families.base import check
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.files import Store
from gemmgen.verification.verifier import verify

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
def test_each_group_has_its_own_scales_of_blocks(executor: EmulatorExecutor, kernel) -> None:
    verdict = verify(executor, kernel_of(*kernel), examples=15, largest=200, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
    assert verdict.replayed is not None and verdict.replayed.equal == verdict.replayed.elements > 0


@pytest.mark.parametrize("inputs", ["groups=5+blocks", "groups=3+blocks+lines+padded"])
def test_naive_kernels_take_scales_of_groups(executor: EmulatorExecutor, inputs: str) -> None:
    problem = Problem(None, 140, 200, types="e4m3,e4m3,f32", layout="rr", inputs=inputs)
    source = render(problem, NAIVE, NAIVE.default(problem), "sm_90")
    verdict = verify(executor, source, examples=15, largest=64, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
