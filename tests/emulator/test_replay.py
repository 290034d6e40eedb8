"""Kernels on tensor cores have the bits that their plans say, and a missing product shows among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.families import FAMILIES
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.proof.bugs import BUGS
from gemmgen.proof.edits import EDITS
from gemmgen.proof.selfcheck import edited, plant
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.files import Store
from gemmgen.verification.bit_replay import Replayer
from gemmgen.verification.checks import REPLAY
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify
from gemmgen.verification.window import Window


@pytest.fixture
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def problem(types: str, compute: Compute = Compute.FMA, layout: str = "rc", epilogue: str = "") -> Problem:
    plain = Problem(None, None, None, types=Types.parse(types, compute), layout=layout)
    return replace(plain, epilogue=parse_epilogue(epilogue)) if epilogue else plain


def kernel(problem: Problem, arch: str = "sm_90", **axes: int) -> KernelSource:
    mma = FAMILIES["mma"]
    config = mma.default(problem).with_values(**{**mma.small, **axes})
    return render(problem, mma, config, arch)


SPLIT = "f16 on sm_80, K split"
SOURCES = {
    "bf16 on sm_90": kernel(problem("bf16")),
    SPLIT: kernel(problem("f16,f16,f32", layout="cr"), "sm_80", SPLIT=3),
    "tf32, with an epilogue": kernel(problem("f32", Compute.TF32, epilogue="bias+gelu+residual")),
    "e5m2 and e4m3, promoted, K split": kernel(problem("e5m2,e4m3,bf16", Compute.PROMOTED), "sm_89", SPLIT=2),
}
MORE = {
    "f16, summed in f16": kernel(problem("f16", Compute.F16)),
    "e4m3, fast": kernel(problem("e4m3", Compute.FAST), "sm_89"),
    "integers to bf16": kernel(problem("u8,s8,bf16")),
    "integers, with zero points": kernel(problem("u8,s8,s8", epilogue="zero_m+zero_n+scale_m+bias")),
    "f64, with an epilogue": kernel(problem("f64", epilogue="bias+relu")),
}


@pytest.mark.parametrize("name", [*SOURCES, *(pytest.param(name, marks=pytest.mark.soak) for name in MORE)])
def test_all_elements_are_as_planned(name: str, emulator: EmulatorExecutor) -> None:
    source = {**SOURCES, **MORE}[name]
    verdict = verify(emulator, source, examples=24, largest=160, runs=1)
    assert verdict.passed, verdict.failure
    assert verdict.replayed is not None and verdict.replayed.elements > 200
    assert verdict.replayed.equal == verdict.replayed.elements, verdict.replayed.first


def test_one_product_among_many_shows_in_the_bits_alone(emulator: EmulatorExecutor) -> None:
    """It is off by one part in a hundred: far less than the bound of so deep a sum."""
    source = SOURCES[SPLIT]
    case = source.problem.case(32, 32, 4096)
    what = Situation(case, "random", 1)
    operands = make_operands(what)
    a = operands.a.copy()
    case.a.view(a)[:, 1000] *= np.float16(0.99)
    loaded = emulator.load(source)
    result = loaded.run(case, replace(operands, a=a), watch=False)
    assert compare(what, result).mismatch is None
    replayer = Replayer(source)
    at = replayer.places(what, Window.whole(case))
    wrong = replayer.compare(what, case.c.view(result.view(case.c.dtype.bits))[at], at)
    assert wrong is not None and "planned 0x" in wrong and "in 3 ranges of K" in wrong
    told = replayer.replayed
    assert told is not None and told.equal < told.elements / 2 and told.first is not None


def test_other_bits_fail_a_text_that_gemmgen_renders_and_others_where_asked(emulator: EmulatorExecutor) -> None:
    turned = replace(SOURCES[SPLIT], text=SOURCES[SPLIT].text.replace("+ peer *", "+ (fixup.peers - 1 - peer) *"))
    let_pass, told = (verify(emulator, turned, examples=16, largest=200, runs=1, bits=bits) for bits in (False, True))
    assert let_pass.passed and let_pass.replayed is not None and let_pass.replayed.equal < let_pass.replayed.elements
    assert told.failure is not None and told.failure.source == REPLAY and "planned 0x" in told.failure.reason


def test_an_edited_text_keeps_what_its_compute_promises_about_sums(emulator: EmulatorExecutor) -> None:
    limits = parse_arch("sm_90").limits
    promised = next(bug for bug in BUGS if bug.name == "sums of two k tiles are added up")
    right = next(edit for edit in EDITS if edit.name == "sums of half a k tile are added up")
    sources = plant(promised, limits), edited(right, limits)
    told, let_pass = (verify(emulator, one, examples=12, runs=1) for one in sources)
    assert told.failure is not None and "added up after each 128 k" in told.failure.reason
    assert let_pass.passed and let_pass.replayed is not None and let_pass.replayed.equal < let_pass.replayed.elements
