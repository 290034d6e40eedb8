"""Kernels of wgmma whose threads gather rows of A by an index, in the emulator."""

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
# Lines of 128, 64 and 32 bytes, several boxes of a k tile, K that ends inside of 16 bytes, two stages and many.
KERNELS: tuple[tuple[str, str, tuple[int | None, ...], str, str, dict[str, int]], ...] = (
    ("bf16", "rc", (None, 136, 128), "groups=40+gathered", "", {**TWO, "BROADCAST": 1}),
    ("f16", "rr", (None, 72, None), "gathered", "bias", {**ONE, "STAGES": 2}),
    ("bf16", "rc", (None, 64, None), "groups=3+gathered", "bias+gelu+residual", {**FEW, "WHOLE": 1}),
    ("bf16,bf16,f32", "rc", (None, 72, 200), "gathered", "", {**TWO, "BK": 128, "PINGPONG": 1, "STAGES": 3}),
    ("bf16", "rc", (None, 128, None), "gathered", "", {**ONE, "CLUSTER": 2, "STAGES": 5}),
    ("bf16", "rc", (128, 64, 128), "gathered", "", ONE),
    ("bf16", "rc", (100, 64, 200), "gathered", "", {**ONE, "SPLIT": 2, "PERSISTENT": 0, "BK": 32}),
    ("bf16", "rc", (None, 72, 128), "groups=40+gathered", "swiglu", ONE),
    ("f16", "rc", (None, 64, None), "groups=5+gathered", "", {**ONE, "BK": 16, "STAGES": 8}),
    ("bf16", "rc", (None, 128, 128), "groups=5+gathered", "", {"BM": 256, "BN": 64, "CONSUMERS": 2, "STAGES": 3}),
    ("bf16", "rc", (40, None, None), "groups=3+gathered", "", {**TWO, "IN_FLIGHT": 0}),
    ("s8,s8,s32", "rc", (None, 136, 128), "groups=5+gathered", "", {**TWO, "BN": 32}),
    ("e4m3,e4m3,bf16_promoted", "rc", (None, 136, None), "groups=5+gathered", "scale_m+scale_n", {**ONE, "STAGES": 3}),
    ("e4m3,e4m3,bf16_fast", "rc", (None, 64, 128), "groups=5+gathered", "scale_m+scale_n+bias", FEW),
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
    [one if at < 4 else pytest.param(one, marks=pytest.mark.soak) for at, one in enumerate(KERNELS)],
    ids=lambda one: " ".join(map(str, one[:5])),
)
@pytest.mark.parametrize("examples", [10, pytest.param(20, marks=pytest.mark.soak)])
def test_rows_are_gathered(executor: EmulatorExecutor, kernel, examples: int) -> None:
    verdict = verify(executor, kernel_of(*kernel), examples=examples, largest=200, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"
    assert verdict.replayed is not None and verdict.replayed.equal == verdict.replayed.elements > 200


@pytest.mark.parametrize("axes", [ONE, TWO, FEW], ids=["64 rows", "128 rows", "24 rows"])
def test_groups_may_name_any_rows(executor: EmulatorExecutor, axes: dict[str, int]) -> None:
    """Tokens that several experts take, fewer and more rows of A than of C, and groups that end anywhere."""
    source = kernel_of("bf16,bf16,f32", "rc", (None, 72, 72), "groups=3+gathered", "", axes)
    kernel, rng = executor.load(source), np.random.default_rng(5)
    for rows, ends in (
        (1, (0, 0, 1)),
        (7, (64, 64, 150)),
        (300, (1, 25, 149)),
        (150, (0, 0, 0)),
        (33, (150, 150, 150)),
    ):
        case = source.problem.case(m=150, rows_a=rows)
        operands = make_operands(Situation(case, "exact", seed=1))
        index = rng.integers(0, rows, 150).astype(np.int32)
        beside = {"offs": np.array(ends, np.int32), "index_a": index}
        operands = replace(operands, extra={**operands.extra, **beside})
        a, b, c = (case.tensors[name].dtype.decode(case.tensors[name].view(operands.by_name[name])) for name in "ABC")
        wanted, begin = c.copy(), 0
        for group, end in enumerate(ends):
            wanted[begin:end] = a[index[begin:end]] @ b[group]
            begin = end
        got = case.c.view(kernel.run(case, operands, seed=rows))
        np.testing.assert_array_equal(got, wanted, err_msg=str((rows, ends)))


def test_gathered_rows_have_the_bits_of_copied_ones(executor: EmulatorExecutor) -> None:
    gathering = kernel_of("bf16", "rc", (None, 72, 136), "gathered", "", ONE)
    plain = kernel_of("bf16", "rc", (None, 72, 136), "plain", "", ONE)
    case, copied = gathering.problem.case(m=150, rows_a=40), plain.problem.case(m=150)
    operands = make_operands(Situation(case, "random", seed=3))
    index = operands.extra["index_a"]
    rows = np.ascontiguousarray(case.a.view(operands.a)[index]).ravel()
    got = executor.load(gathering).run(case, operands)
    wanted = executor.load(plain).run(copied, replace(operands, a=rows, extra={}))
    np.testing.assert_array_equal(case.c.view(got).view(np.uint16), copied.c.view(wanted).view(np.uint16))
