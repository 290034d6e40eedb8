"""An executor that judges a large C where it lies: judge.cu, compiled for the host, finds what numpy finds."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.kernel.families import NAIVE
from gemmgen.kernel.render import render
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.gpu.judge_records import Known, records
from gemmgen.run.gpu.plain import plain_path
from gemmgen.run.judging import Judged
from gemmgen.verification.checks import Wrong, check
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.domain import DomainTally
from gemmgen.verification.judged import judge
from gemmgen.verification.linear import rule_of
from gemmgen.verification.products import products
from gemmgen.verification.reference import expected
from gemmgen.verification.situation import EXACT_KINDS, Situation, data_kinds
from gemmgen.verification.window import Window

TYPES = (
    "f32",
    "f64",
    "bf16",
    "f16,f16,f32",
    "f16",
    "e4m3,e4m3,bf16",
    "e4m3,e4m3,e5m2",
    "s8,s8,s32",
    "u8,s8,bf16",
    "s8",
)

# What a grid of one thread sees of CUDA.
SHIM = """
#include <cmath>
#include <cstring>
#include <algorithm>
#define __global__
#define __device__ static
#define __launch_bounds__(threads)
using std::isfinite; using std::isnan; using std::max;
struct { unsigned x; } constexpr blockIdx{0}, threadIdx{0}, blockDim{1}, gridDim{1};
template <class To, class From> To bits_as(From x) { To y; std::memcpy(&y, &x, sizeof y); return y; }
static float __uint_as_float(unsigned x) { return bits_as<float>(x); }
static double __longlong_as_double(long long x) { return bits_as<double>(x); }
static long long __double_as_longlong(double x) { return bits_as<long long>(x); }
static float __double2float_rn(double x) { return (float)x; }
static double __dmul_rn(double x, double y) { return x * y; }
static double __dadd_rn(double x, double y) { return x + y; }
template <class T> void atomicAdd(T* to, T x) { *to += x; }
template <class T> void atomicMax(T* to, T x) { *to = std::max(*to, x); }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("judge")
    source = folder / "judge.cpp"
    source.write_text(SHIM + plain_path("judge").read_text())
    library = folder / "judge.so"
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC")
    subprocess.run([*HostCompiler.find().command, *flags, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


class Kernel:
    """Gives C as numpy makes it, after `harm`; and judges it by judge.cu."""

    runs_parts = False

    def __init__(self, compiled: ctypes.CDLL, problem: Problem, harm=lambda c: None) -> None:
        self.source = render(Problem(8, 8, 8), NAIVE, NAIVE.default(Problem(8, 8, 8)))
        self.compiled, self.problem, self.harm = compiled, problem, harm
        self.judged = self.ran = 0
        self.distort = lambda judged: judged

    def can_run_whole(self, case):
        return True

    def run(self, case, operands, **_):
        self.ran += 1
        return self.result

    def multiply(self, *_, **__):
        return None

    def watched(self, case, **_):
        return 0

    def makes(self, situation: Situation) -> Kernel:
        """C of a kernel that rounds as often as it may: within the bound, and seldom the nearest number."""
        case, rng = situation.case, np.random.default_rng(5)
        values, bound = expected(situation, Window.whole(case))
        self.situation, self.result = situation, make_operands(situation).c.copy()
        off = np.where(np.isfinite(bound), bound, 0.0) * rng.uniform(-0.9, 0.9, values.shape)
        made = case.c.dtype.nearest(values + off).astype(case.c.dtype.numpy)
        self.harm(made)
        bits = case.c.dtype.bits
        case.c.view(self.result.view(bits))[...] = made.view(bits)
        return self

    def judge(self, case, operands, *, seed, rule, places):
        self.judged += 1
        what = replace(self.situation, case=replace(case, alpha=1.0, beta=0.0))
        product, size, largest = products(what.case, what.data, seed, Window.whole(case))
        rows, columns = self._lines(case, operands)
        assert not rule.largest or np.array_equal(rows @ columns, np.broadcast_to(largest, product.shape))
        numbers = np.arange(2**16, dtype=np.uint32).astype(case.c.dtype.bits).view(case.c.dtype.numpy)
        table = case.c.dtype.decode(numbers)
        used = [np.ascontiguousarray(x) for x in (product, size, rows, columns, table)]
        product, size, rows, columns, table = (one.ctypes.data for one in used)
        lines = (rows, columns) if rule.largest else (0, 0)
        ends = operands.c.ctypes.data, self.result.ctypes.data
        known = Known(product, size if rule.sizes else product, *lines, *ends, table)
        given = [*records(case, rule, known), places]
        pointers = [ctypes.c_void_p(values.ctypes.data) for values in given]
        found, made = np.zeros(4, np.uint64), [np.empty(len(places), kind) for kind in (np.uint64, float, float)]
        self.compiled.judge(*pointers[:4], ctypes.c_void_p(found.ctypes.data))
        outputs = [ctypes.c_void_p(values.ctypes.data) for values in made]
        self.compiled.sample(*pointers[:3], pointers[4], ctypes.c_longlong(len(places)), *outputs)
        worst, largest_bound = found[2:].view(np.float64).tolist()
        bits, values, bounds = made
        counts = [int(number) for number in found[:2]]
        judged = Judged(*counts, worst, largest_bound, bits.astype(case.c.dtype.bits), values, bounds)
        return self.distort(replace(judged, result=self.result if judged.wrong else None))

    def _lines(self, case, operands):
        def most(matrix, storage, axis):
            magnitudes = np.abs(matrix.dtype.decode(matrix.view(storage)))
            return np.where(np.isfinite(magnitudes), magnitudes, 0.0).max(axis, keepdims=True)

        return most(case.a, operands.a, -1), most(case.b, operands.b, -2)


def situations(types: str, batch: int = 1) -> Iterator[Situation]:
    problem = Problem(33, 27, 65, types=Types.parse(types), layout="rc", batch=batch, ldc=None)
    for data in data_kinds(problem.types):
        exact = data in EXACT_KINDS or problem.types.scalar.is_integer
        for alpha, beta in ((1.0, 0.0), (-1.0, 2.0)) if exact else ((1.0, 0.0), (0.7, -3.0), (np.inf, 1.0)):
            yield Situation(problem.case(alpha=alpha, beta=beta, ldc=31), data, 3)


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("batch", [1, 2])
def test_what_is_judged_in_place_is_what_numpy_finds(compiled: ctypes.CDLL, types: str, batch: int) -> None:
    for what in situations(types, batch):
        kernel = Kernel(compiled, what.case.problem).makes(what)
        wanted, found = compare(what, kernel.result), judge(kernel, what, None)
        assert found is not None, what
        ours, _ = found
        assert wanted.mismatch is None and ours.mismatch is None, what
        assert ours.elements == wanted.elements == 33 * 27 * batch
        np.testing.assert_allclose(ours.worst, wanted.worst, rtol=1e-9)
        np.testing.assert_allclose(ours.largest_bound, wanted.largest_bound, rtol=1e-9)
        assert set(np.round(ours.ratios, 9)) <= set(np.round(wanted.ratios.ravel(), 9))


@pytest.mark.parametrize("types", TYPES)
def test_one_wrong_element_shows(compiled: ctypes.CDLL, types: str) -> None:
    """Whatever it holds instead: another number, or NaN, or what it held before."""
    dtype = Types.parse(types).c
    wrong = [0x00, 0x7F] if dtype.is_integer else [0x00, 0x7F, 0xFF]
    for what in situations(types):
        if what.case.alpha == np.inf:
            continue
        for pattern in wrong:

            def harm(c: np.ndarray, pattern: int = pattern) -> None:
                c.view(np.uint8).reshape(33, 27, -1)[20, 13] = pattern

            kernel = Kernel(compiled, what.case.problem, harm).makes(what)
            wanted, found = compare(what, kernel.result), judge(kernel, what, None)
            assert found is not None and str(found[0].mismatch) == str(wanted.mismatch), what
            if what.data == "random":
                assert wanted.mismatch is not None and (wanted.mismatch.row, wanted.mismatch.col) == (20, 13), what


def test_bits_come_from_the_places_that_the_replay_asks_for(compiled: ctypes.CDLL) -> None:
    what = next(situations("bf16", 2))
    kernel, at = (
        Kernel(compiled, what.case.problem).makes(what),
        (np.array([1, 0]), np.array([32, 3]), np.array([0, 26])),
    )
    found = judge(kernel, what, at)
    assert found is not None
    np.testing.assert_array_equal(found[1], what.case.c.view(kernel.result.view(np.uint16))[at])


@pytest.mark.parametrize(
    "distort",
    [
        lambda judged: replace(judged, elements=judged.elements - 1),
        lambda judged: replace(judged, values=judged.values * 1.001),
        lambda judged: replace(judged, bounds=judged.bounds * 2),
        lambda judged: replace(judged, bits=judged.bits ^ 0x100),
    ],
    ids=["some are left out", "other values", "wide bounds", "other elements"],
)
def test_numpy_judges_where_the_executor_is_off(compiled: ctypes.CDLL, distort) -> None:
    what = next(one for one in situations("bf16") if one.data == "random")
    kernel = Kernel(compiled, what.case.problem).makes(what)
    kernel.distort = distort
    with pytest.warns(UserWarning, match="is not numpy's, which counts"):
        assert check(kernel, what, tally=DomainTally()) <= 1
    assert (kernel.judged, kernel.ran) == (1, 1)
    kernel.distort = lambda judged: judged
    assert check(kernel, what, tally=DomainTally()) <= 1
    assert (kernel.judged, kernel.ran) == (2, 1), "the result stays where it is"


def test_a_wrong_result_is_the_kernels_that_was_judged(compiled: ctypes.CDLL) -> None:
    """And not one of another run, which may be right."""
    what = next(one for one in situations("bf16") if one.data == "random")

    def harm(c: np.ndarray) -> None:
        c[7, 9] = 100.0

    kernel = Kernel(compiled, what.case.problem, harm).makes(what)
    with pytest.raises(Wrong, match=r"C\[7\]\[9\] is 100, not"):
        check(kernel, what)
    assert kernel.ran == 0


def test_other_epilogues_have_no_rule() -> None:
    for epilogue in ("bias", "relu", "bias+aux+gelu"):
        case = Problem(8, 8, 8, types="bf16", epilogue=epilogue).case()
        assert rule_of(Situation(case, "random", 0)) is None
    assert rule_of(Situation(Problem(8, 8, 8, dtype=DType.F32).case(), "random", 0)) is not None
