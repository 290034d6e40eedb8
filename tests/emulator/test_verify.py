"""What a verdict says of a kernel that is wrong. That the verifier finds what it must: test_selfcheck.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmgen.emulator import EmulatorExecutor
from gemmgen.families import NAIVE
from gemmgen.problem import Problem
from gemmgen.render import render
from gemmgen.verifier import verify

PROBLEM = Problem(None, None, None)


@pytest.fixture(scope="module")
def emulator():
    with EmulatorExecutor() as executor:
        yield executor


def test_a_counterexample_is_shrunk_and_shown(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    wrong = replace(source, text=source.text.replace("k < s.K", "k < s.K - (s.K > 20)"))
    verdict = verify(emulator, wrong, examples=200)
    assert verdict.situation is not None and verdict.mismatch is not None
    case = verdict.situation.case
    assert (case.m, case.n, case.k) == (1, 1, 21), "the smallest shape that shows the bug"
    assert "C[0][0]" in str(verdict.mismatch)


def test_a_kernel_that_does_not_compile_is_a_verdict(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    verdict = verify(emulator, replace(source, text=source.text.replace("float acc", "flaot acc")), examples=1)
    assert verdict.failure is not None and verdict.failure.kind == "compile"


def test_the_same_seed_gives_the_same_verdict(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    assert verify(emulator, source, examples=20, seed=3) == verify(emulator, source, examples=20, seed=3)
