"""WMMA in the emulator: kernels compute every situation to the bit, and what is wrong about a fragment is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.families import WMMA
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.verifier import verify

FREE = Problem(None, None, None, types="bf16", layout="rc")


@pytest.fixture
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def kernel(problem: Problem = FREE, arch: str = "sm_90", **axes: int) -> KernelSource:
    return render(problem, WMMA, WMMA.default(problem).with_values(**{**WMMA.small, **axes}), arch)


@pytest.mark.parametrize(
    "source",
    [
        kernel(WN=32),
        kernel(Problem(None, None, None, types="f16", layout="cr"), "sm_75", BM=32),
        kernel(Problem(35, 50, None, types="f16,f16,f32", layout="rr", epilogue="bias+gelu+aux"), "sm_80", BK=16),
        kernel(Problem(None, None, None, types="bf16,bf16,f32", layout="cc", batch=None), "sm_120"),
    ],
    ids=lambda source: f"{source.problem} {source.arch}",
)
def test_all_bits_are_as_planned(source: KernelSource, emulator: EmulatorExecutor) -> None:
    verdict = verify(emulator, source, examples=12, largest=100, runs=2)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"
    if source.problem.epilogue.is_linear:
        assert verdict.replayed is not None and verdict.replayed.equal == verdict.replayed.elements > 100


def run(emulator: EmulatorExecutor, old: str, new: str) -> None:
    source = kernel()
    assert source.text.count(old) == 1
    case = source.problem.case(16, 32, 32)
    loaded = emulator.load(replace(source, text=source.text.replace(old, new)))
    try:
        loaded.run(case, Operands(*(np.zeros(matrix.elements, matrix.dtype.numpy) for matrix in case.matrices)))
    finally:
        loaded.close()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("wmma_load_a_row(a[i], &As[warp_m + 16 * i][step], PITCH_A);", ";", "a value that nobody has given"),
        ("[step], PITCH_A)", "[step], 20)", "a wmma of lines 40 bytes apart, no multiple of 16"),
        ("&As[warp_m + 16 * i]", "&As[warp_m + 16 * i + 8]", r"reads \d+ bytes after the end of As"),
        ("[step], PITCH_A)", "[step] + lane, PITCH_A)", "a wmma of another matrix than thread 32's"),
        (
            "wmma_store(sums[warp][0]",
            "wmma_store(sums[warp][0] + 4",
            r"a wmma of lines at an address that 32 does not divide \(byte 16 of sums\)",
        ),
    ],
)
def test_what_is_wrong_about_a_fragment_is_told(old: str, new: str, said: str, emulator: EmulatorExecutor) -> None:
    with pytest.raises(CandidateFailed, match=said):
        run(emulator, old, new)
