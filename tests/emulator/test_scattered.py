"""Kernels of wgmma that scatter rows of C by an index, in the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.families import WGMMA
from gemmgen.families.base import check
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.files import Store
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify

LIMITS = parse_arch("sm_90a").limits
ONE = {"BM": 64, "BN": 64, "CONSUMERS": 1, "STAGES": 3}
TWO = {"BM": 128, "BN": 64, "CONSUMERS": 2, "STAGES": 3}
FEW = {"BM": 24, "BN": 64, "CONSUMERS": 1, "SWAP": 1}
# Whole pieces and rows of eight, with several boxes of C, in turns, in clusters, of split tiles and of transposed ones.
KERNELS: tuple[tuple[str, str, tuple[int | None, ...], str, str, dict[str, int]], ...] = (
    ("bf16", "rc", (None, 136, 128), "groups=40+scattered", "scale_m", {**TWO, "BROADCAST": 1, "WHOLE": 1}),
    ("bf16,bf16,f32", "rc", (None, 131, 72), "groups=5+scattered", "scale_m+bias", ONE),
    ("f16", "rc", (None, 72, 64), "groups=3+gathered+scattered", "", FEW),
    ("f16", "rr", (None, 130, None), "scattered", "", {**TWO, "ROWS_UNROLL": 1}),
    ("bf16", "rc", (None, 256, 64), "scattered", "residual+scale_m", {**TWO, "BN": 128, "CLUSTER": 2}),
    ("bf16", "cr", (256, 256, None), "scattered", "", {**ONE, "BN": 128, "SPLIT": 2, "PERSISTENT": 0}),
    (
        "bf16",
        "rc",
        (None, 128, 128),
        "groups=5+scattered",
        "bias+gelu",
        {**TWO, "BN": 128, "PINGPONG": 1, "C_BOXES": 2},
    ),
    ("bf16", "rc", (None, 72, 128), "groups=3+scattered", "swiglu", ONE),
    ("e4m3,e4m3,bf16_promoted", "rc", (None, 136, 272), "groups=5+blocks+padded+scattered", "", {"STAGES": 2}),
    ("e4m3,e4m3,bf16_promoted", "rc", (None, 136, None), "groups=5+scattered", "scale_m+scale_n", ONE),
    ("bf16,u4,bf16", "rc", (None, 128, 256), "scales=128+zeros+groups=5+scattered", "scale_m", {}),
    ("f16,s4,f16", "rc", (None, 128, 256), "scales=32+scattered", "", {}),
)


def kernel_of(
    types: str, layout: str, sizes: tuple[int | None, ...], inputs: str, epilogue: str, axes: dict[str, int]
) -> KernelSource:
    problem = Problem(*sizes, types=types, layout=layout, inputs=inputs, ld_align=16)
    problem = replace(problem, epilogue=epilogue) if epilogue else problem
    config = WGMMA.default(problem).with_values(**axes)
    check(WGMMA, problem, config, LIMITS)
    return render(problem, WGMMA, config, "sm_90a")


@pytest.fixture(scope="module")
def executor(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as one:
        yield one


@pytest.mark.parametrize(
    "kernel",
    [one if at < 3 else pytest.param(one, marks=pytest.mark.soak) for at, one in enumerate(KERNELS)],
    ids=lambda one: " ".join(map(str, one[:5])),
)
def test_rows_are_scattered(executor: EmulatorExecutor, kernel) -> None:
    verdict = verify(executor, kernel_of(*kernel), examples=12, largest=200, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"


def test_scattered_rows_have_the_bits_of_others(executor: EmulatorExecutor) -> None:
    scattering = kernel_of("bf16", "rc", (None, 72, 136), "groups=3+scattered", "scale_m", ONE)
    plain = kernel_of("bf16", "rc", (None, 72, 136), "groups=3", "scale_m", ONE)
    case, ordered = scattering.problem.case(m=150, spare_c=7), plain.problem.case(m=150)
    operands, ends = make_operands(Situation(case, "random", seed=3)), np.array((70, 70, 141), np.int32)
    rows, places = ends[-1], np.random.default_rng(0).permutation(case.c.rows)[: case.m].astype(np.int32)
    operands = replace(operands, extra={**operands.extra, "offs": ends, "index_c": places})
    index, extra = places[:rows], {name: values for name, values in operands.extra.items() if name != "index_c"}
    got = case.c.view(executor.load(scattering).run(case, operands))
    c = np.zeros(ordered.c.elements, operands.c.dtype)
    wanted = ordered.c.view(executor.load(plain).run(ordered, replace(operands, c=c, extra=extra)))
    np.testing.assert_array_equal(got[index].view(np.uint16), wanted[:rows].view(np.uint16))
    others = np.setdiff1d(np.arange(case.c.rows), index)
    np.testing.assert_array_equal(got[others].view(np.uint16), case.c.view(operands.c)[others].view(np.uint16))
