"""WMMA in the emulator: kernels compute every situation to the bit, and what is wrong about a fragment is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.kernel.families import WMMA
from gemmgen.kernel.render import render
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
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
        ("wmma_load_b_col(b[j]", "wmma_load_b_row(b[j]", "wmma_row_col_bf16 of a fragment of B that was loaded in the"),
        ("wmma_load_a_row(a[i]", "if (k > 0) wmma_load_a_row(a[i]", "of a fragment of A that nobody has loaded"),
        ("[step], PITCH_A)", "[step], 20)", "wmma_load_a of lines that are no multiple of 16 bytes apart"),
        ("&As[warp_m + 16 * i]", "&As[warp_m + 16 * i + 8]", "wmma_load_a of a line outside shared memory"),
        (
            "wmma_store(sums[warp][0]",
            "wmma_store(sums[warp][0] + 4",
            "wmma_store of lines at an address that 32 does not",
        ),
        ("a[i], b[j]);", "a[i], b[j]), acc[i][j].registers[0] *= 2;", "no member named 'registers'"),
    ],
)
def test_what_is_wrong_about_a_fragment_is_told(old: str, new: str, said: str, emulator: EmulatorExecutor) -> None:
    with pytest.raises(CandidateFailed, match=said):
        run(emulator, old, new)
