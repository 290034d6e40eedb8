"""A batch of pointers in the emulator: matrices lie apart, in no order, each guarded; so are the arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from gemmgen.families import BATCHED, SKINNY
from gemmgen.families.base import check
from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.render.kernel_text import environment, render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.arena import GUARDED_MATRICES
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.errors import CandidateFailed, InvalidInput
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation

PROBLEM = Problem(4, 8, 6, batch=None, pointers=True)
CP_ASYNC = """
//% from "device/cp_async.cu" import cp_async
${ cp_async() }
"""
BATCH = PROBLEM.case(batch=7)
LARGE = Problem(128, 128, 128, batch=None, pointers=True)  # so large that seeds other than 0 do not watch it


def by_hand(body: str, problem: Problem = PROBLEM) -> KernelSource:
    """A kernel called `k`, of one thread for each product `p`."""
    T, batch = problem.types.accumulator.ctype, "" if problem.batch else "int batch, "
    arrays = f"const {T}* const* A, const {T}* const* B, {T}* const* C"
    head = f'extern "C" __global__ void k({arrays}, {batch}{T} alpha, {T} beta)'
    parameters = (
        *(Parameter(name, f"const {T}* const*") for name in "AB"),
        Parameter("C", f"{T}* const*"),
        *(Parameter(name, "int") for name in problem.runtime_names),
        *(Parameter(name, T) for name in ("alpha", "beta")),
    )
    functions = environment(problem.types).from_string(CP_ASYNC).render()
    text = f"{functions}{head} {{\nconst int p = blockIdx.x;\n{body}\n}}\n"
    return KernelSource("k", text, "test", {}, Contract(problem, Launch(1, (("batch", 1),)), parameters))


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


def data(case: Case) -> Operands:
    """Each matrix holds its product's number."""
    numbers = [
        np.repeat(np.arange(matrix.stored.batch or 1, dtype=np.float32), matrix.span) for matrix in case.matrices
    ]
    return Operands(*numbers)


def run(emulator: EmulatorExecutor, source: KernelSource, case: Case, seed: int = 0) -> Floats:
    kernel = emulator.load(source)
    try:
        return kernel.run(case, data(case), seed=seed)
    finally:
        kernel.close()


def failure(emulator: EmulatorExecutor, body: str, case: Case = BATCH, seed: int = 0) -> str:
    with pytest.raises(CandidateFailed) as caught:
        run(emulator, by_hand(body, case.problem), case, seed)
    assert caught.value.failure.kind in ("crash", "race")
    return caught.value.failure.reason


@pytest.mark.parametrize("batch", [1, 7, GUARDED_MATRICES + 1])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_each_product_finds_its_matrices(emulator: EmulatorExecutor, batch: int, seed: int) -> None:
    case = PROBLEM.case(batch=batch, beta=1.0)
    result = run(emulator, by_hand("C[p][31] = A[p][23] + 100 * B[p][47] + 10000 * C[p][0];"), case, seed)
    c = case.c.view(result)
    assert (c[:, 3, 7] == 10101 * np.arange(batch)).all()
    assert (c.reshape(batch, -1)[:, :31] == np.arange(batch)[:, None]).all(), "the rest stays"


@pytest.mark.parametrize("different", [1, 3])
def test_products_may_share_matrices(emulator: EmulatorExecutor, different: int) -> None:
    case = PROBLEM.case(batch=5, different_a=different)
    result = run(emulator, by_hand(f"C[p][0] = A[p] == A[p % {different}] ? A[p][0] : -1; C[p][1] = B[p][0];"), case)
    c = case.c.view(result)
    assert c[:, 0, 0].tolist() == [p % different for p in range(5)] and c[:, 0, 1].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("align", "dtype"), [(4, DType.F32), (8, DType.F32), (16, DType.F32), (8, DType.F64)])
@pytest.mark.parametrize("batch", [6, GUARDED_MATRICES + 1])
def test_matrices_are_aligned_as_promised_and_no_more(
    emulator: EmulatorExecutor, align: int, dtype: DType, batch: int
) -> None:
    problem = Problem(3, 3, 3, dtype=dtype, pointer_align=align, batch=batch, pointers=True)
    addresses = "const size_t a = size_t(A[p]), b = size_t(B[p]), c = size_t(C[p]);"
    no_more = "true" if align == 16 else f"(a & b & c & {align}) != 0"
    kernel = emulator.load(by_hand(f"{addresses} C[p][0] = (a | b | c) % {align} == 0 && {no_more};", problem))
    case = problem.case()
    for seed in (0, 1):
        result = kernel.run(case, make_operands(Situation(case, "exact", 0)), seed=seed)
        assert (case.c.view(result)[:, 0, 0] == 1).all()


def test_matrices_come_in_no_order(emulator: EmulatorExecutor) -> None:
    case = PROBLEM.case(batch=9)
    apart = by_hand("C[p][0] = C[(p + 1) % batch] - C[p]; C[p][1] = p == 0 ? 0 : C[p] > C[p - 1];")
    steps = case.c.view(run(emulator, apart, case, seed=3))
    assert len(np.unique(steps[:, 0, 0])) > 2 and 0 < steps[:, 0, 1].sum() < 8


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("C[p][0] = A[p][24];", "reads 0 bytes after the end of matrix {p} of A"),
        ("C[p][0] = A[p][-1];", "reads 4 bytes before the start of matrix {p} of A"),
        ("C[p][32] = 1;", "writes 0 bytes after the end of matrix {p} of C"),
        ("C[p][0] = *B[p + 1];", "reads 0 bytes after the end of the pointers to B"),
        ("C[p][0] = *B[p - 1];", "reads 8 bytes before the start of the pointers to B"),
        ("const_cast<const float**>(A)[p] = B[p];", "writes byte {at} of the pointers to A"),
    ],
)
def test_what_is_outside_is_found_to_the_byte(emulator: EmulatorExecutor, body: str, words: str, seed: int) -> None:
    product = r"\d+"
    expected = words.format(p=product, at=product)
    assert re.search(expected, failure(emulator, body, seed=seed))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("C[p][0] = A[p][1024 * 20];", "reads .* matrix .* of A"),
        ("C[p][128 * 128 + 1024] = 1;", "writes .* matrix .* of C"),
    ],
)
def test_pages_between_matrices_are_nobodys(emulator: EmulatorExecutor, body: str, words: str, seed: int) -> None:
    """In a launch that is not watched, too."""
    case = LARGE.case(batch=5)
    kernel = emulator.load(by_hand(body, LARGE))
    assert kernel.watched(case, seed=seed) == 0
    assert re.search(words, failure(emulator, body, case, seed))


def test_writes_between_many_matrices_are_found_where_nobody_watches(emulator: EmulatorExecutor) -> None:
    case = LARGE.case(batch=GUARDED_MATRICES + 1)
    assert emulator.load(by_hand("", LARGE)).watched(case, seed=1) == 0
    reason = failure(emulator, "if (p == 2) C[p][128 * 128 + 3] = 1;", case, seed=1)
    assert "block 2, thread 0 writes 12 bytes after the end of matrix 2 of C" in reason


def test_a_race_names_the_matrix(emulator: EmulatorExecutor) -> None:
    reason = failure(emulator, "C[3][5] = p;")
    assert re.search(r"data race on C: block 0, thread 0 writes byte 20 of matrix 3 of C at", reason)


def test_cp_async_stays_in_its_matrix(emulator: EmulatorExecutor) -> None:
    body = "__shared__ __align__(16) float s[4]; cp_async<16>(s, A[p] + 24, 16); cp_async_wait<0>();"
    assert "reads 0 bytes after the end of matrix" in failure(emulator, body)


def test_a_batch_as_large_as_any_runs_whole(emulator: EmulatorExecutor) -> None:
    problem = Problem(8, 8, 8, batch=65536, pointers=True)
    kernel = emulator.load(render(problem, BATCHED, BATCHED.default(problem).with_values(MB=16)))
    for seed in (1, 2):
        situation = Situation(problem.case(beta=1.0), "exact", seed)
        assert kernel.can_run_whole(situation.case)
        result = kernel.run(situation.case, make_operands(situation), seed=seed)
        assert compare(situation, result).mismatch is None


def test_skinny_says_that_it_serves_none() -> None:
    with pytest.raises(InvalidInput, match="it serves no batches"):
        check(SKINNY, PROBLEM, SKINNY.default(PROBLEM), ARCHS["sm_90"].limits)
