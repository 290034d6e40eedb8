"""Kernels of several launches: copies of A and B are prepared in the workspace, and the kernel reads those alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import DEPENDENT_LAUNCH, Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.verifier import Verdict, verify

Program = Callable[..., KernelSource]


@pytest.fixture(scope="module")
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def judged(emulator: EmulatorExecutor, source: KernelSource) -> Verdict:
    return verify(emulator, source, examples=12, largest=160, runs=2)


@pytest.mark.parametrize(
    ("layout", "types", "fields"),
    [
        ("rr", "bf16", {}),
        ("cc", "s8,s8,s32", {"pointer_align": 1}),
        ("rc", "f32", {"pointer_align": 4, "batch": None}),
        ("cr", "bf16,bf16,f32", {"pointer_align": 2, "batch": None}),
    ],
)
def test_two_prepares_and_a_kernel_pass_verification(
    emulator: EmulatorExecutor, program: Program, layout: str, types: str, fields: dict[str, Any]
) -> None:
    """Copies and transpositions of any leading dimension and alignment."""
    verdict = judged(emulator, program(layout, types, **fields))
    assert verdict.passed, verdict.failure or verdict.mismatch


TRANSPOSED = r"(reads|writes) byte \d+ of transposed"
BUGS = {
    "a copy without its last chunk": ("chunk >= chunks", "chunk >= chunks - 1", "mismatch", ""),
    "no zeros behind a line's end": ("copied.at[i] = from[i]", "", "mismatch", ""),
    "lines as far apart as the operand's": (
        "(line) * chunks + chunk",
        "(line) * (lda / 8) + chunk",
        "race",
        "on prepared_a",
    ),
    "a chunk behind the copy": (
        "if (line >= lines || chunk >= chunks) continue;",
        "if (line > lines || chunk >= chunks) continue;",
        "crash",
        "(k_prepare_a_kernel|prepared_a|A)",
    ),
    "no barrier before the copy": ("__syncthreads();  // the tile is whole", "", "race", TRANSPOSED),
    "no barrier behind the copy": ("__syncthreads();  // and may be overwritten", "", "race", TRANSPOSED),
    "the kernel writes the copy": (
        "float sum = 0;",
        "float sum = 0; const_cast<Chunk<BF16>*>(a)[0].at[0] = BF16(0.0f);",
        "crash",
        "writes byte 0 of prepared_a",
    ),
}


FEW = ("a copy without its last chunk", "a chunk behind the copy", "the kernel writes the copy")


@pytest.mark.parametrize("bug", [bug if bug in FEW else pytest.param(bug, marks=pytest.mark.soak) for bug in BUGS])
def test_what_is_wrong_in_one_of_the_launches_is_found(emulator: EmulatorExecutor, program: Program, bug: str) -> None:
    right, wrong, kind, words = BUGS[bug]
    source = program("rr", "bf16")
    assert right in source.text
    verdict = judged(emulator, replace(source, text=source.text.replace(right, wrong)))
    found = "mismatch" if verdict.mismatch is not None else verdict.failure.kind if verdict.failure is not None else ""
    assert re.fullmatch(kind, found), verdict
    if words:
        assert verdict.failure is not None and re.search(words, verdict.failure.reason), verdict.failure


DEPENDENT = """
//% from "device/dependent_launch.cu" import dependent_launch
${ dependent_launch() }
extern "C" __global__ void __launch_bounds__(64) k(const float* A, const float* B, float* C)
{
    if (threadIdx.x == 0) grid_dependency_wait();
    __syncthreads();
    C[threadIdx.x] = A[threadIdx.x];
}
"""
WAITS = "if (threadIdx.x == 0) grid_dependency_wait();"


@pytest.mark.parametrize(
    ("edit", "dependent", "words"),
    [
        (("", ""), True, ""),  # one thread waits, and the others for it
        (("if (threadIdx.x == 0) ", ""), True, ""),
        (
            (f"{WAITS}\n    __syncthreads();", f"{WAITS}"),
            True,
            "before it has waited for the kernel ahead on the stream",
        ),
        ((WAITS, f"if (threadIdx.x == 0) C[0] = 1;\n    {WAITS}"), True, "thread 0 writes byte 0 of C before it has"),
        ((WAITS, ""), True, "reads byte .* of A before it has waited"),
        ((WAITS, ""), False, ""),
    ],
)
def test_what_a_kernel_touches_has_to_wait_for_the_kernel_before(
    edit: tuple[str, str], dependent: bool, words: str, emulator: EmulatorExecutor
) -> None:
    problem = Problem(1, 64, 64)
    text = environment(problem.types).from_string(DEPENDENT).render()
    functions, head, body = text.partition('extern "C"')
    launch = Launch(64, (("M", 1),), attributes=(DEPENDENT_LAUNCH,) if dependent else ())
    text = functions + head + body.replace(*edit)
    contract = Contract(problem, launch, Contract.of(problem, launch).parameters[:3])
    kernel = emulator.load(KernelSource("k", text, "test", {}, contract))
    operands = Operands(*(np.ones(matrix.elements, np.float32) for matrix in problem.case().matrices))
    if words:
        with pytest.raises(CandidateFailed, match=words):
            kernel.run(problem.case(), operands, seed=1)
    else:
        assert (kernel.run(problem.case(), operands, seed=1) == 1).all()
    kernel.close()
