"""Kernels of wgmma that multiply masked groups, in the emulator: the first rows of each alone are computed."""

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
ONE = {"BM": 64, "BN": 64, "CONSUMERS": 1}
TWO = {"BM": 128, "BN": 64, "CONSUMERS": 2}
FEW = {"BM": 24, "BN": 64, "CONSUMERS": 1, "SWAP": 1}
KERNELS: tuple[tuple[str, str, tuple[int | None, ...], str, str, dict[str, int]], ...] = (
    ("bf16", "rc", (None, 72, 64), "groups=33+masked", "", TWO),
    ("f16", "cr", (72, 72, None), "groups=5+masked", "bias+gelu+residual", {**ONE, "WHOLE": 1}),
    ("bf16,bf16,f32", "rc", (None, 128, 64), "groups=3+masked", "", {**FEW, "BROADCAST": 1}),
    (
        "bf16,bf16,f32",
        "rr",
        (None, 256, 128),
        "groups=33+masked",
        "",
        {**TWO, "CLUSTER": 2, "ACROSS": 1, "PINGPONG": 1},
    ),
    ("bf16", "rc", (20, 131, 128), "groups=4+masked", "", ONE),
    ("e4m3,e4m3,bf16_promoted", "rc", (None, 136, 256), "groups=5+masked", "scale_m+scale_n", ONE),
    ("s8,s8,s32", "rc", (None, 136, 128), "groups=5+masked", "", {**TWO, "BN": 32}),
    ("f32_tf32", "rc", (None, 136, 64), "groups=1+masked", "", {**TWO, "BK": 32}),
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
def test_masked_groups_are_multiplied(executor: EmulatorExecutor, kernel) -> None:
    verdict = verify(executor, kernel_of(*kernel), examples=12, largest=130, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"


@pytest.mark.parametrize("axes", [TWO, FEW], ids=["128 rows", "24 rows"])
def test_rows_that_do_not_count_keep_their_values(executor: EmulatorExecutor, axes: dict[str, int]) -> None:
    source = kernel_of("bf16,bf16,f32", "rc", (None, 72, 64), "groups=4+masked", "", axes)
    kernel = executor.load(source)
    case = source.problem.case(m=130)
    for counts in ((0, 0, 0, 0), (130, 0, 1, 130), (0, 24, 25, 23), (64, 65, 128, 129), (0, 0, 0, 7)):
        operands = make_operands(Situation(case, "exact", seed=1))
        rows = np.array(counts, np.int32)
        operands = replace(operands, extra={**operands.extra, "group_rows": rows})
        of_a = operands.a.copy()
        for group, count in enumerate(counts):
            case.a.view(of_a)[group, count:] = np.uint16(0x7FC0)  # NaN
        a, b, c = (
            matrix.dtype.decode(matrix.view(stored))
            for matrix, stored in zip(case.matrices, (of_a, operands.b, operands.c), strict=True)
        )
        wanted = c.copy()
        for group, count in enumerate(counts):
            wanted[group, :count] = a[group, :count] @ b[group]
        got = case.c.view(kernel.run(case, replace(operands, a=of_a), seed=len(counts)))
        np.testing.assert_array_equal(got, wanted, err_msg=str(counts))
