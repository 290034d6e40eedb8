"""Accesses that leave an operand's elements, or read what holds no value: findings whatever the value is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.matrix import Layout
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed

ANY_SHAPE = Problem(None, None, None, batch=None, layout=Layout("r", "c"))
PARAMETERS = tuple(
    Parameter(name, ctype)
    for name, ctype in (
        ("A", "const float*"),
        ("B", "const float*"),
        ("C", "float*"),
        ("beta", "float"),
    )
)
CP_ASYNC = """
//% from "device/cp_async.cu" import cp_async
${ cp_async() }
"""
PADDED = ANY_SHAPE.case(3, 4, 5, lda=8, ldb=6, ldc=7, batch=2, stride_a=40, stride_b=24, stride_c=22)


def kernel(body: str, before: str = "") -> KernelSource:
    """A kernel called `k`, whose body is line 2 where nothing stands before; its block takes a product."""
    head = 'extern "C" __global__ void __launch_bounds__(32) k(const float* A, const float* B, float* C, float beta)'
    text = f"{before}{head} {{\n{body}\n}}\n"
    return KernelSource("k", text, "test", {}, Contract(ANY_SHAPE, Launch(32, (("batch", 1),)), PARAMETERS))


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


def finding(emulator: EmulatorExecutor, source: KernelSource, case: Case = PADDED) -> str | None:
    """The diagnosis of one launch on numbers that are all zero, padding, too: no value tells anything."""
    operands = Operands(*(np.zeros(matrix.elements, np.float32) for matrix in case.matrices))
    try:
        emulator.load(source).run(case, operands)
    except CandidateFailed as error:
        return error.failure.reason
    return None


@pytest.mark.parametrize(
    ("access", "place"),
    [
        (
            "C[0] = A[5] * 0.0f;",
            "reads the padding of A at row 0, column 5 of matrix 0 (A is 3 x 5, lda = 8, stride_a = 40)",
        ),
        ("C[0] = A[2 * 8 + 5] * 0.0f;", "reads the padding of A at row 2, column 5"),
        ("C[0] = A[30] * 0.0f;", "reads the padding of A at row 3, column 6"),
        ("C[0] = B[24 + 5] * 0.0f;", "reads the padding of B at row 5, column 0 of matrix 1 (B is 5 x 4, ldb = 6"),
        ("C[0] = reinterpret_cast<const float2*>(A)[2].y * 0.0f;", "reads the padding of A at row 0, column 5"),
        (
            "const_cast<volatile float*>(C)[4] = const_cast<volatile float*>(C)[4];",
            "reads the padding of C at row 0, column 4 of matrix 0 (C is 3 x 4, ldc = 7, stride_c = 22)",
        ),
        ("C[18] = -1.5f;", "writes the padding of C at row 2, column 4"),
        ("C[22 + 20] = -1.5f;", "after the end of C (row 2, column 6 of matrix 1)"),
    ],
)
def test_padding_is_nobodys(access: str, place: str, emulator: EmulatorExecutor) -> None:
    reason = finding(emulator, kernel("if (threadIdx.x == 3 && blockIdx.x == 1)\n" + access))
    assert reason is not None
    assert reason.startswith("block 1, thread 3 ")
    assert place in reason
    assert reason.endswith("(k.cu:3)")


def test_every_element_is_free(emulator: EmulatorExecutor) -> None:
    body = """float sum = 0;
    for (int p = 0; p < 2; ++p) {
        for (int m = 0; m < 3; ++m) for (int k = 0; k < 5; ++k) sum += A[p * 40 + m * 8 + k];
        for (int n = 0; n < 4; ++n) for (int k = 0; k < 5; ++k) sum += B[p * 24 + n * 6 + k];
    }
    if (threadIdx.x == 0)
        for (int m = 0; m < 3; ++m) for (int n = 0; n < 4; ++n) C[blockIdx.x * 22 + m * 7 + n] = sum;"""
    assert finding(emulator, kernel(body)) is None


def test_rows_without_padding_may_be_read_across(emulator: EmulatorExecutor) -> None:
    dense = ANY_SHAPE.case(4, 4, 5, batch=2)
    body = "float sum = 0;\nfor (int i = 0; i < 10; ++i) sum += reinterpret_cast<const float4*>(A)[i].w;\n"
    assert finding(emulator, kernel(body + "if (threadIdx.x == 0) C[blockIdx.x * 16] = sum;"), dense) is None


OLD = "const float old = C[blockIdx.x * 22 + threadIdx.x];\nC[blockIdx.x * 22 + threadIdx.x] = old * beta;"


def test_c_is_unread_with_beta_0(emulator: EmulatorExecutor) -> None:
    source = kernel(f"if (threadIdx.x < 4) {{\n{OLD}\n}}")
    reason = finding(emulator, source)
    expected = (
        "block 0, thread 0 reads C at row 0, column 0 of matrix 0, which this launch has not written and may not read"
    )
    assert reason == f"{expected}: beta is 0, or no input (k.cu:3)"
    assert finding(emulator, source, replace(PADDED, beta=1.0)) is None


def test_what_the_launch_has_written_of_c_it_may_read(emulator: EmulatorExecutor) -> None:
    at = "C[blockIdx.x * 22 + threadIdx.x]"
    assert finding(emulator, kernel(f"if (threadIdx.x < 4) {{ {at} = A[1]; {at} += A[2]; }}")) is None


def test_a_copy_is_held_to_elements(emulator: EmulatorExecutor) -> None:
    copy = "if (threadIdx.x == 1) cp_async<4>(tile, A + 5, 4);"
    functions = environment(ANY_SHAPE.types).from_string(CP_ASYNC).render()
    source = kernel(f"__shared__ float tile[4];\n{copy}\ncp_async_wait<0>();", functions)
    reason = finding(emulator, source)
    assert reason is not None
    assert reason.startswith("block 0, thread 1 reads the padding of A at row 0, column 5")
    assert reason.endswith(f", called from line {source.text.splitlines().index(copy) + 1})")


def test_the_lines_are_those_of_all_callers(emulator: EmulatorExecutor) -> None:
    """What moves a vector knows no sizes: who gives it the address made the mistake."""
    helpers = """__device__ __forceinline__ float load_edge(const float* from, int valid)
{
    return valid > 0 ? from[valid - 1] : 0.0f;
}
__device__ __forceinline__ float last_of_row(const float* row)
{
    return load_edge(row, 6);
}
"""
    reason = finding(emulator, kernel("if (threadIdx.x == 0)\nC[0] = last_of_row(A);", helpers))
    assert reason is not None
    assert reason.startswith("block 0, thread 0 reads the padding of A at row 0, column 5")
    assert reason.endswith("(k.cu:3, called from line 7, called from line 11)")
