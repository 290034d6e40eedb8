"""Kernels of wgmma that multiply groups of rows, in the emulator: any ends, each row by its own group's B alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from gemmgen.families import WGMMA
from gemmgen.families.base import check
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Case, Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.files import Store
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify

LIMITS = parse_arch("sm_90a").limits
ONE = {"BM": 64, "BN": 64, "CONSUMERS": 1}
TWO = {"BM": 128, "BN": 64, "CONSUMERS": 2}
FEW = {"BM": 24, "BN": 64, "CONSUMERS": 1, "SWAP": 1}
SCALED_SWIGLU = "silu(scale_m * scale_n * acc) * (scale_m * scale_n2 * acc2)"
KERNELS: tuple[tuple[str, str, tuple[int | None, ...], str, str, dict[str, int]], ...] = (
    ("bf16", "rc", (None, 136, 128), "groups=40", "", TWO),
    ("f16", "rr", (None, 72, None), "groups=8", "scale_n+scale_b+bias", {**ONE, "WHOLE": 1}),
    ("bf16", "rc", (None, 128, 64), "groups=3", "bias+gelu+residual", {**FEW, "WHOLE": 1, "BROADCAST": 1}),
    ("bf16,bf16,f32", "rc", (None, 256, 128), "groups=33", "", {**TWO, "CLUSTER": 2, "ACROSS": 1, "PINGPONG": 1}),
    ("bf16", "rc", (200, 131, 128), "groups=1", "", ONE),
    ("bf16", "rc", (None, 72, 128), "groups=40", "swiglu", {**TWO, "WHOLE": 1}),
    ("f16", "rc", (None, 200, 128), "groups=8", "bias_m+silu", {**FEW, "BN": 128, "CONSUMERS": 2, "PINGPONG": 1}),
    ("bf16", "rc", (None, 128, 128), "groups=40", "", {"BM": 128, "BN": 128, "CONSUMERS": 1, "C_BOXES": 2, "WHOLE": 1}),
    ("bf16", "rc", (40, None, 64), "groups=3", "", {**TWO, "BROADCAST": 1}),
    ("e4m3,e4m3,bf16_promoted", "rc", (None, 136, 256), "groups=5", "scale_m+scale_n", ONE),
    ("s8,s8,s32", "rc", (None, 136, 128), "groups=5", "", {**TWO, "BN": 32}),
    ("e4m3,e4m3,bf16_fast", "rc", (None, 72, 128), "groups=40", SCALED_SWIGLU, {**TWO, "PINGPONG": 1}),
    ("e4m3,e4m3,bf16_fast", "rc", (None, 64, 128), "groups=5", "scale_m+scale_n+bias", {**FEW, "WHOLE": 1}),
    ("f32_tf32", "rc", (None, 136, 64), "groups=5", "", {**TWO, "BK": 32}),
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
@pytest.mark.parametrize("examples", [10, pytest.param(25, marks=pytest.mark.soak)])
def test_groups_are_multiplied(executor: EmulatorExecutor, kernel, examples: int) -> None:
    verdict = verify(executor, kernel_of(*kernel), examples=examples, largest=200, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"


def operands_of(case: Case, ends: Sequence[int]) -> Operands:
    """Small integers, whose products are exact, and these ends."""
    operands = make_operands(Situation(case, "exact", seed=1))
    return replace(operands, extra={**operands.extra, "offs": np.array(ends, np.int32)})


def values(case: Case, name: str, operands: Operands) -> npt.NDArray[np.float64]:
    matrix = case.tensors[name]
    return matrix.dtype.decode(matrix.view(operands.by_name[name]))


# By number of groups: none has rows, one has all, ends at and beside multiples of 64 and 24, rows behind the last end.
ENDS: dict[int, tuple[tuple[int, ...], ...]] = {
    1: ((0,), (1,), (150,), (129,)),
    3: ((0, 0, 0), (150, 150, 150), (0, 150, 150), (0, 0, 150), (63, 127, 128), (24, 25, 98)),
    40: ((*[0] * 39, 150), (*range(1, 40), 150), (*[150] * 40,), (*[5] * 35, 6, 70, 70, 71, 149)),
}


@pytest.mark.parametrize("beta", [0.0, 1.0])
@pytest.mark.parametrize(
    ("groups", "axes"),
    [
        (one, axes) if one == 3 or axes is TWO else pytest.param(one, axes, marks=pytest.mark.soak)
        for one in ENDS
        for axes in (ONE, TWO, FEW)
    ],
    ids=[f"{one} groups, {rows} rows" for one in ENDS for rows in (64, 128, 24)],
)
def test_ends_may_lie_anywhere(executor: EmulatorExecutor, groups: int, axes: dict[str, int], beta: float) -> None:
    source = kernel_of("bf16,bf16,f32", "rc", (None, 72, 64), f"groups={groups}", "", axes)
    kernel = executor.load(source)
    case = source.problem.case(m=150, beta=beta)
    for ends in ENDS[groups]:
        operands = operands_of(case, ends)
        a, b, c = (values(case, name, operands) for name in "ABC")
        wanted, begin = c.copy(), 0
        for group, end in enumerate(ends):
            wanted[begin:end] = a[begin:end] @ b[group] + (beta * c[begin:end] if beta else 0)
            begin = end
        got = case.c.view(kernel.run(case, operands, seed=len(ends)))
        np.testing.assert_array_equal(got, wanted, err_msg=str(ends))


@pytest.mark.parametrize("axes", [{**TWO, "PINGPONG": 1}, FEW], ids=["in turns, gated", "swapped"])
def test_each_group_has_vectors_along_n_and_a_factor(executor: EmulatorExecutor, axes: dict[str, int]) -> None:
    gated = "" if axes is FEW else " + scale_n2 * acc2"  # products of the transpose take one matrix
    epilogue = f"scale_b * (scale_n * acc + bias_n) + bias_m{gated}"
    source = kernel_of("bf16,bf16,f32", "rc", (None, 72, 64), "groups=40", epilogue, axes)
    kernel = executor.load(source)
    case = source.problem.case(m=150)
    assert {name: case.tensors[name].elements for name in ("bias_n", "scale_b")} == {"bias_n": 40 * 72, "scale_b": 40}
    for ends in ENDS[40]:
        operands = operands_of(case, ends)
        given = {name: values(case, name, operands) for name in case.tensors}
        wanted, begin = given["C"].copy(), 0
        for group, end in enumerate(ends):
            product = given["A"][begin:end] @ given["B"][group]
            scaled = given["scale_n"][group] * product[:, :72] + given["bias_n"][group]
            wanted[begin:end] = given["scale_b"][group] * scaled + given["bias_m"][begin:end]
            if gated:
                wanted[begin:end] += given["scale_n2"][group] * product[:, 72:]
            begin = end
        got = case.c.view(kernel.run(case, operands, seed=len(ends)))
        np.testing.assert_array_equal(got, wanted, err_msg=str(ends))


def test_the_bits_of_a_row_depend_on_its_own_group_alone(executor: EmulatorExecutor) -> None:
    source = kernel_of("bf16", "rc", (None, 72, 64), "groups=3", "", TWO)
    kernel = executor.load(source)
    case = source.problem.case(m=150)
    operands = make_operands(Situation(case, "random", seed=2))

    def rows(ends: Sequence[int], first: int) -> npt.NDArray[np.uint16]:
        """Those of a group 1 of 70 rows that begin at `first`, with the same A and B wherever that is."""
        moved = np.roll(operands.a, first * case.lda)
        given = replace(operands, a=moved, extra={**operands.extra, "offs": np.array(ends, np.int32)})
        result = case.c.view(kernel.run(case, given, seed=first).view(np.uint16))
        return result[first : first + 70].copy()

    alone = rows((0, 70, 70), 0)
    for ends, first in (((0, 70, 150), 0), ((13, 83, 83), 13), ((80, 150, 150), 80)):
        np.testing.assert_array_equal(rows(ends, first), alone)
