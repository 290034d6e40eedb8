"""Kernels on integers in the place of floats: what is right there, what shows there alone, and what is not judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.families import MMA, NAIVE, SIMT
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.proof.bugs.base import Subject
from gemmgen.proof.bugs.extents import LAST, PAST_16_BITS
from gemmgen.proof.bugs.subjects import ASYNC_F64, DOUBLE_F16, NAIVE_BF16, NAIVE_RR, SKINNY_MMA, SMALL_EPILOGUE, STREAM
from gemmgen.proof.bugs.tensor_subjects import MMA_TF32, WGMMA_POINTERS, WGMMA_TWO_SUMS, WMMA_CR
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.files import Store
from gemmgen.verification.checks import Wrong, check
from gemmgen.verification.domain import DomainTally
from gemmgen.verification.ring import check_ring
from gemmgen.verification.situation import vast_situations

FMA = "acc = fmaf(a, b, acc);"


@pytest.fixture(scope="module")
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def rendered(subject: Subject, *edits: tuple[str, str]) -> KernelSource:
    source = render(subject.problem, subject.family, subject.config, arch=subject.arch)
    for old, new in edits:
        assert source.text.count(old) == 1
        source = replace(source, text=source.text.replace(old, new))
    return source


def narrow(subject: Subject, m: int, n: int) -> Subject:
    """That kernel for so small a C, so that launches of a long K are short: a bisection takes dozens of them."""
    return replace(subject, problem=replace(subject.problem, m=m, n=n))


def judged(emulator, source: KernelSource) -> DomainTally:
    kernel, tally = emulator.load(source), DomainTally()
    try:
        check_ring(kernel, tally)
    finally:
        kernel.close()
    return tally


@pytest.mark.parametrize(
    ("subject", "bits"),
    [
        (NAIVE_BF16, 16),  # widened by a shift
        (STREAM, 32),
        (ASYNC_F64, 64),
        (MMA_TF32, 32),
        (WGMMA_TWO_SUMS, 32),  # e4m3, promoted
        (SMALL_EPILOGUE, 32),
        *(
            pytest.param(subject, bits, marks=pytest.mark.soak)
            for subject, bits in ((DOUBLE_F16, 16), (SKINNY_MMA, 16), (WMMA_CR, 32), (WGMMA_POINTERS, 16))
        ),
    ],
    ids=str,
)
def test_right_kernels_are_right(subject, bits, emulator):
    tally = judged(emulator, rendered(subject))
    assert tally.no_ring is None and tally.ring is not None and f"modulo 2^{bits}, " in tally.ring


@pytest.mark.parametrize(
    ("types", "compute", "bits"),
    [("e4m3", Compute.FMA, 8), ("e5m2", Compute.FMA, 8), ("f16", Compute.F16, 16), ("f16,bf16,f32", Compute.FMA, 32)],
)
def test_narrow_types_are_right(types, compute, bits, emulator):
    problem = Problem(40, 24, 136, types=Types.parse(types, compute), layout="rc")
    family = MMA if compute is Compute.F16 else NAIVE
    tally = judged(emulator, render(problem, family, family.default(problem), arch="sm_90"))
    assert tally.ring == f"in the ring of integers modulo 2^{bits}, at K = 136: 960 elements equal"


def test_one_product_that_floats_do_not_miss_is_found(emulator):
    wrong = rendered(narrow(NAIVE_BF16, 3, 4), (LAST, PAST_16_BITS))
    kernel = emulator.load(wrong)
    deep = [one for one in vast_situations(wrong, 2562) if one.case.k > 2**16]
    assert deep and all(check(kernel, one) == 0 for one in deep)
    with pytest.raises(Wrong, match=r"C\[2\]\[3\] is 0, .*; A's column 65800 and B's row 65800 alone") as caught:
        check_ring(kernel, DomainTally())
    assert caught.value.mismatch is not None and caught.value.mismatch.count == 1


@pytest.mark.soak
def test_a_product_with_another_line_is_found(emulator):
    wrong = rendered(narrow(NAIVE_RR, 2, 1), ("lda + k]", "lda + k - (k == 65777 && m == 1)]"))
    with pytest.raises(Wrong, match=r"C\[1\]\[0\] is .*; A's column 6577[67] and B's row 65777 alone"):
        judged(emulator, wrong)


# a in floats: twice a, by an integer addition, less a. In the ring something else.
SAME = "(a == 0.0f ? a : __uint_as_float(__float_as_uint(a) + 0x800000u) - a)"


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ("acc = fmaxf(fmaf(a, b, acc), b);", "max.f32"),
        ("acc = fmaf(0.5f * a, 2.0f * b, acc);", "no integer for 0.5"),
        (f"acc = fmaf({SAME}, b, acc);", "a few products differ"),
        (f"acc = fmaf(k < 50000 ? a : {SAME}, b, acc);", "are right in floats"),  # nothing of a short K tells
    ],
)
def test_what_is_no_ring_is_not_judged(edit, why, emulator):
    tally = judged(emulator, rendered(narrow(NAIVE_RR, 2, 3), (FMA, edit)))
    assert tally.ring is None and tally.no_ring is not None and why in tally.no_ring


def test_sums_that_are_rounded_count_modulo_less(emulator):
    """As fma in f32 with a sum of f16 between: right modulo 2^16."""
    source = rendered(NAIVE_RR, (FMA, "acc = __half2float(__float2half_rn(fmaf(a, b, acc)));"))
    text = source.text.replace("namespace {", "#include <cuda_fp16.h>\n\nnamespace {", 1)
    tally = judged(emulator, replace(source, text=text))
    assert tally.ring is not None and "modulo 2^16, at K = 65,801" in tally.ring


def test_integers_and_other_epilogues(emulator):
    of_integers = Problem(8, 8, 8, types=Types.parse("s8,s8,s32"))
    tally = judged(emulator, render(of_integers, NAIVE, NAIVE.default(of_integers)))
    assert tally.ring is None and tally.no_ring is None
    relu = Problem(8, 8, 8, epilogue="bias+relu")
    tally = judged(emulator, render(relu, SIMT, SIMT.default(relu)))
    assert tally.no_ring is not None and "relu" in tally.no_ring


def test_a_launch_in_the_ring_is_no_launch_on_floats(emulator):
    problem = Problem(1, 1, 2)
    kernel = emulator.load(render(problem, NAIVE, NAIVE.default(problem)))
    twin = kernel.in_ring()
    case = problem.case(alpha=float(np.uint32(1 << 16).view(np.float32)))  # the integer 1

    def run(on, a, b) -> int:
        words = [np.array(one, np.uint32).view(np.float32) for one in (a, b, [0])]
        return int(on.run(case, Operands(*words)).view(np.uint32)[0])

    two, three, seven = 2 << 16, 3 << 16, 7 << 16
    assert run(twin, [two, three], [seven, 1]) == 14 << 16 | 3  # 2 * 7 + 3 * 2^16
    assert run(kernel, [two, three], [seven, 1]) == 0  # of denormal numbers
    twin.close()
