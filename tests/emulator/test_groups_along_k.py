"""Kernels of wgmma that multiply groups along K, in the emulator: any ends, each C by its own group's k alone."""

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
KERNELS: tuple[tuple[str, tuple[int | None, ...], str, str, dict[str, int]], ...] = (
    ("bf16,bf16,f32", (None, 72, None), "groups=5+along_k", "", TWO),
    ("f16", (136, 64, 200), "groups=3+along_k", "bias+gelu", {**ONE, "PERSISTENT": 0, "IN_FLIGHT": 0}),
    ("bf16", (None, 128, None), "groups=9+along_k", "", {**TWO, "PINGPONG": 1, "CLUSTER": 2, "BROADCAST": 1}),
    ("bf16", (40, 128, None), "groups=1+along_k", "", {"BM": 32, "BN": 64, "CONSUMERS": 1, "SWAP": 1}),
    ("bf16,bf16,f32", (200, 131, None), "groups=8+along_k", "", {**ONE, "BN": 128, "CLUSTER": 2, "ACROSS": 1}),
    ("f16", (None, 256, 300), "groups=4+along_k", "", {**TWO, "BN": 256, "PERSISTENT": 0}),
    ("f16_f16acc", (64, None, None), "groups=4+along_k", "", {"BM": 192, "BN": 64, "CONSUMERS": 3, "PINGPONG": 1}),
)


def kernel_of(
    types: str, sizes: tuple[int | None, ...], inputs: str, epilogue: str, axes: dict[str, int]
) -> KernelSource:
    problem = Problem(*sizes, types=types, layout="cr", inputs=inputs, ldb=None, ld_align=16)
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
    ids=lambda one: " ".join(map(str, one[:4])),
)
def test_groups_along_k_are_multiplied(executor: EmulatorExecutor, kernel) -> None:
    verdict = verify(executor, kernel_of(*kernel), examples=12, largest=200, runs=2)
    assert verdict.passed, f"{verdict.failure} in {verdict.situation}"


def operands_of(case: Case, ends: Sequence[int]) -> Operands:
    """Small integers, whose products are exact, and these ends."""
    operands = make_operands(Situation(case, "exact", seed=1))
    return replace(operands, extra={**operands.extra, "offs": np.array(ends, np.int32)})


def values(case: Case, name: str, operands: Operands) -> npt.NDArray[np.float64]:
    matrix = case.tensors[name]
    return matrix.dtype.decode(matrix.view(operands.by_name[name]))


# None has a k, one has all, ends at and beside multiples of 64, k behind the last end.
ENDS = ((0, 0, 0), (150, 150, 150), (0, 150, 150), (0, 0, 150), (63, 127, 128), (64, 65, 129), (1, 2, 3), (7, 7, 149))


@pytest.mark.parametrize("beta", [0.0, 1.0])
@pytest.mark.parametrize("axes", [TWO, {**TWO, "PINGPONG": 1}], ids=["one by one", "in turns"])
def test_ends_may_lie_anywhere_and_nan_beside_them_does_not_count(
    executor: EmulatorExecutor, axes: dict[str, int], beta: float
) -> None:
    source = kernel_of("bf16,bf16,f32", (None, 72, None), "groups=3+along_k", "", axes)
    kernel = executor.load(source)
    case = source.problem.case(m=136, k=150, beta=beta)
    for ends in ENDS:
        operands = operands_of(case, ends)
        behind = ends[-1]
        a, b, c = (values(case, name, operands) for name in "ABC")
        wanted = np.stack([a[:, i:j] @ b[i:j] for i, j in zip((0, *ends), ends, strict=False)])
        wanted += beta * c if beta else 0
        of_a, of_b = operands.a.copy(), operands.b.copy()
        case.a.view(of_a)[:, behind:], case.b.view(of_b)[behind:] = np.uint16(0x7FC0), np.uint16(0x7FC0)
        got = case.c.view(kernel.run(case, replace(operands, a=of_a, b=of_b), seed=len(ends)))
        np.testing.assert_array_equal(got, wanted, err_msg=str(ends))


def test_the_bits_of_a_group_depend_on_its_own_k_alone(executor: EmulatorExecutor) -> None:
    source = kernel_of("bf16", (None, 72, None), "groups=3+along_k", "", TWO)
    kernel = executor.load(source)
    case = source.problem.case(m=136, k=150)
    operands = make_operands(Situation(case, "random", seed=2))

    def product(ends: Sequence[int], first: int) -> npt.NDArray[np.uint16]:
        """That of a group 1 of 70 k that begin at `first`, with the same A and B wherever that is."""
        a, b = np.roll(operands.a, first * case.lda), np.roll(operands.b, first * case.ldb)
        given = replace(operands, a=a, b=b, extra={**operands.extra, "offs": np.array(ends, np.int32)})
        return case.c.view(kernel.run(case, given, seed=first).view(np.uint16))[1].copy()

    alone = product((0, 70, 70), 0)
    for ends, first in (((0, 70, 150), 0), ((13, 83, 83), 13), ((80, 150, 150), 80)):
        np.testing.assert_array_equal(product(ends, first), alone)
