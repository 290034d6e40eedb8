"""Kernels on tensor cores have the bits that their plans say, and a missing product shows among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gemmgen.kernel.families import FAMILIES, NAIVE
from gemmgen.kernel.render import render
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.files import Store
from gemmgen.verification.data import make_operands
from gemmgen.verification.reference import compare
from gemmgen.verification.replay import Replayer, order_of
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify
from gemmgen.verification.window import Window


@pytest.fixture
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def kernel(problem: Problem, arch: str = "sm_90", **axes: int) -> KernelSource:
    mma = FAMILIES["mma"]
    config = mma.default(problem).with_values(**{**mma.small, **axes})
    return render(problem, mma, config, arch)


SOURCES = {
    "bf16 on sm_90": kernel(Problem(None, None, None, types="bf16", layout="rc")),
    "f16 on sm_80, K split": kernel(Problem(None, None, None, types="f16,f16,f32", layout="cr"), "sm_80", SPLIT=3),
}


@pytest.mark.parametrize("name", SOURCES)
def test_all_bits_are_as_planned(name: str, emulator: EmulatorExecutor) -> None:
    verdict = verify(emulator, SOURCES[name], examples=24, largest=160)
    assert verdict.passed, verdict.failure
    assert verdict.replayed is not None and verdict.replayed.elements > 500
    assert verdict.replayed.equal == verdict.replayed.elements, verdict.replayed.first


def test_one_product_among_many_shows_in_the_bits_alone(emulator: EmulatorExecutor) -> None:
    """It is off by one part in a hundred: far less than the bound of so deep a sum."""
    source = SOURCES["f16 on sm_80, K split"]
    case = source.problem.case(32, 32, 4096)
    what = Situation(case, "random", 1)
    operands = make_operands(what)
    a = operands.a.copy()
    case.a.view(a)[:, 1000] *= np.float16(0.99)
    loaded = emulator.load(source)
    result = loaded.run(case, replace(operands, a=a), watch=False)
    assert compare(what, result).mismatch is None
    replayer = Replayer(source)
    replayer.compare(what, result, Window.whole(case))
    told = replayer.replayed
    assert told is not None and told.equal < told.elements / 2
    assert told.first is not None and "planned 0x" in told.first


def test_what_no_plan_says_is_not_replayed() -> None:
    problem = Problem(None, None, None, types="bf16")
    assert order_of(render(problem, NAIVE, NAIVE.default(problem))) is None
    assert order_of(kernel(replace(problem, epilogue="bias+gelu"))) is None
    assert order_of(kernel(Problem(None, None, None, types="s8,s8,s32", layout="rc"))) is None


def test_ranges_of_a_split_cover_k_once() -> None:
    order = order_of(SOURCES["f16 on sm_80, K split"])
    assert order is not None
    for k in (0, 1, order.step, 5 * order.step + 1, 1000):
        ranges = order.ranges(k)
        assert len(ranges) == 3 and ranges[0][0] == 0 and ranges[-1][1] == k
        assert all(one[1] == other[0] for one, other in pairwise(ranges))
        assert np.all([first % order.step == 0 or first == k for first, _ in ranges])
