"""An executor that judges a large C where it lies: judge.cu, compiled for the host, finds what numpy finds."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from builds import built

from gemmgen.families import NAIVE
from gemmgen.problem.dtype import DType
from gemmgen.problem.functions import FUNCTIONS
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.run.acceptance import FUNCTION_STEPS, MOST_STEPS, STEPS
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.gpu.comparing_records import Known
from gemmgen.run.gpu.plain import plain_path
from gemmgen.verification.checks import Wrong, check
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.device_check import judge
from gemmgen.verification.domain import DomainTally
from gemmgen.verification.epilogue_steps import rule_of_steps
from gemmgen.verification.products import all_products
from gemmgen.verification.reference import expected
from gemmgen.verification.roundings import Bounded, apply_epilogue
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
using std::isfinite; using std::isinf; using std::isnan; using std::max;
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
    done = built([*HostCompiler.find().command, *flags, source, "-o", library], folder)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


class Memory:
    """A device's, which is the host's."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values.copy()

    def __int__(self) -> int:
        return int(self.values.ctypes.data)


@contextmanager
def driver_of(compiled: ctypes.CDLL) -> Iterator[None]:
    """What the worker asks of pycuda, of a library in a cubin's place."""

    def function(name: str, *arguments: np.generic, grid: tuple[int, int], block: tuple[int, int, int]) -> None:
        kinds = {np.uintp: ctypes.c_void_p, np.int64: ctypes.c_longlong}
        getattr(compiled, name)(*(kinds[type(value)](int(value)) for value in arguments))

    driver = SimpleNamespace(
        module_from_buffer=lambda cubin: SimpleNamespace(get_function=lambda name: partial(function, name)),
        to_device=Memory,
        memcpy_dtoh=lambda values, memory: ctypes.memmove(values.ctypes.data, int(memory), values.nbytes),
    )
    stubs = {
        "pycuda": SimpleNamespace(driver=driver),
        "pycuda.driver": driver,
        "gemmgen.run.gpu.sampling": SimpleNamespace(allocate=lambda size: Memory(np.empty(size, np.uint8))),
    }
    with patch.dict(sys.modules, stubs):
        sys.modules.pop("gemmgen.run.gpu.comparing", None)
        yield


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
        most = 0.9 if case.problem.epilogue.is_linear else 0.4  # storing f32 takes half of a few roundings' bound
        off = np.where(np.isfinite(bound), bound, 0.0) * rng.uniform(-most, most, values.shape)
        made = case.c.dtype.nearest(values + off).astype(case.c.dtype.numpy)
        self.harm(made)
        bits = case.c.dtype.bits
        case.c.view(self.result.view(bits))[...] = made.view(bits)
        return self

    def judge(self, case, operands, *, seed, rule, places):
        self.judged += 1
        what = replace(self.situation, case=replace(case, alpha=1.0, beta=0.0))
        of_each = all_products(what.case, what.data, seed, Window.whole(case))
        product, size = (np.concatenate([of[i] for of in of_each], axis=-1) for i in (0, 1))
        largest = np.concatenate([np.broadcast_to(of[2], of[0].shape) for of in of_each], axis=-1)
        rows, columns = self._lines(case, operands)
        assert not rule.largest or np.array_equal(rows @ columns, np.broadcast_to(largest, product.shape))
        tables = {matrix.dtype: table_of(matrix.dtype) for matrix in case.tensors.values()}
        used = [np.ascontiguousarray(x) for x in (product, size, rows, columns)]
        product, size, rows, columns = (one.ctypes.data for one in used)
        lines = (rows, columns) if rule.largest else (0, 0)
        ends = operands.c.ctypes.data, self.result.ctypes.data
        stored = {"C": operands.c, **operands.extra}
        read = {
            step.operand: (stored[step.operand].ctypes.data, tables[case.tensors[step.operand].dtype].ctypes.data)
            for step in rule.steps
            if step.operand
        }
        sizes = size if rule.sizes else product
        known = Known(product, sizes, *lines, *ends, tables[case.c.dtype].ctypes.data, read)
        with driver_of(self.compiled):
            from gemmgen.run.gpu.comparing import Judge

            judged = Judge(b"", 1).judge(case, rule, known, places)
        self.wrong = judged.wrong
        return self.distort(replace(judged, result=self.result if judged.wrong else None))

    def _lines(self, case, operands):
        def most(matrix, storage, axis):
            magnitudes = np.abs(matrix.dtype.decode(matrix.view(storage)))
            return np.where(np.isfinite(magnitudes), magnitudes, 0.0).max(axis, keepdims=True)

        return most(case.a, operands.a, -1), most(case.b, operands.b, -2)


@cache
def table_of(dtype: DType) -> np.ndarray:
    """The numbers of bit patterns, of types of at most two bytes; of others it is not read."""
    return dtype.decode(np.arange(2**16, dtype=np.uint32).astype(dtype.bits).view(dtype.numpy))


def situations(types: str, batch: int = 1, epilogue: str | None = None) -> Iterator[Situation]:
    says = {} if epilogue is None else {"epilogue": epilogue}
    problem = Problem(33, 27, 65, types=Types.parse(types), layout="rc", batch=batch, ldc=None, **says)
    for data in data_kinds(problem.types):
        exact = data in EXACT_KINDS or problem.types.scalar.is_integer
        for alpha, beta in ((1.0, 0.0), (-1.0, 2.0)) if exact else ((1.0, 0.0), (0.7, -3.0), (np.inf, 1.0)):
            yield Situation(problem.case(alpha=alpha, beta=beta, ldc=31), data, 3)


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_what_is_judged_in_place_is_what_numpy_finds(compiled: ctypes.CDLL, types: str, batch: int) -> None:
    for what in situations(types, batch):
        kernel = Kernel(compiled, what.case.problem).makes(what)
        wanted, found = compare(what, kernel.result), judge(kernel, what, None)
        assert found is not None and kernel.wrong == 0, what
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


EPILOGUES = (
    ("bf16", "bias+gelu"),
    ("f32", "scale_m+scale_n+bias+silu+residual"),
    ("f16,f16,f32", "bias_m+tanh"),
    ("e4m3,e4m3,bf16", "scale_a+scale_b+bias+gelu_tanh"),
    ("e4m3,e4m3,e5m2", "bias+sigmoid"),
    ("bf16", "alpha * acc - (beta * C - bias_n) + residual - 0.1"),
    ("bf16", "max(min(acc, residual), -1.5) / 3 + abs(erf(acc)) * exp(-(acc * acc)) + relu(bias_m)"),
    ("s8,s8,bf16", "scale_m+scale_n+bias+relu"),
    ("u8,s8,s8", "scale_n+clamp(-9,9)"),
    ("s8,s8,bf16", "(acc - zero_m * sum_n - (-zero_a) * K) * scale_a + beta * C"),
    ("f16", "bias+clamp(-1,2)"),
    ("bf16", "swiglu+bias"),
    ("f16", "sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3) + bias_n"),
    ("bf16", "acc * bias_n - acc2 * bias_n2 + silu(acc3 * scale_n3) * (acc4 + bias_n4)"),
    ("s8,s8,bf16", "silu(acc * scale_m * scale_n) * (acc2 * scale_m * scale_n2)"),
)


@pytest.mark.parametrize(("types", "epilogue"), EPILOGUES)
@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_what_is_judged_behind_an_epilogue_is_what_numpy_finds(
    compiled: ctypes.CDLL, types: str, epilogue: str, batch: int
) -> None:
    for what in situations(types, batch, epilogue):
        kernel = Kernel(compiled, what.case.problem).makes(what)
        wanted, found = compare(what, kernel.result), judge(kernel, what, None)
        assert found is not None and kernel.wrong == 0, what
        assert wanted.mismatch is None and found[0].mismatch is None, what
        np.testing.assert_allclose(found[0].worst, wanted.worst, rtol=1e-6)
        np.testing.assert_allclose(found[0].largest_bound, wanted.largest_bound, rtol=1e-6)


@pytest.mark.parametrize("types", [types for types in TYPES if not Types.parse(types).scalar.is_integer])
def test_no_alpha_of_sums_that_overflow_is_judged_where_it_lies(compiled: ctypes.CDLL, types: str) -> None:
    """NaN, as BLAS has it; pytest takes the warning of a judgement that numpy does not share for an error."""
    for one in situations(types):
        what = replace(one, case=replace(one.case, alpha=0.0, beta=0.0))
        kernel = Kernel(compiled, what.case.problem).makes(what)
        found = judge(kernel, what, None)
        assert found is not None and kernel.wrong == 0 and compare(what, kernel.result).mismatch is None, what


def test_what_nan_becomes_as_an_integer_is_judged_by_neither(compiled: ctypes.CDLL) -> None:
    """silu of -infinity, which sums that overflow are."""
    what = next(iter(situations("s8,s8,s8", 1, "silu")))
    what = replace(what, case=replace(what.case, alpha=-DType.F32.largest))
    with np.errstate(invalid="ignore"):  # numpy, too, makes something of it
        kernel = Kernel(compiled, what.case.problem).makes(what)
    found = judge(kernel, what, None)
    assert found is not None and kernel.wrong == 0 and compare(what, kernel.result).mismatch is None


SUMS = np.array([0.0, -0.7, 3.0, -200.0, 1e-30, 3.4e38, -3.3e38, np.inf, -np.inf, np.nan])
OFF = np.array([0.0, 1e-7, 1.0, 1e37, 1e39])  # which what is infinite, or no number, is not


@pytest.mark.parametrize(
    "text",
    [
        "silu(acc) * acc2",
        "acc * 1 * (acc2 * 1)",
        "acc * 1 - acc2 * 1",
        "acc * 1 + acc2 * 1 + silu(acc)",
        "gelu(acc * 1) + relu(acc2)",
        "max(tanh(acc), acc2 * 1) / 3",
        "exp(acc) * acc2",
    ],
)
def test_each_pair_of_sums_and_bounds_ends_as_numpy_says(compiled: ctypes.CDLL, text: str) -> None:
    """NaN, infinities, what may overflow or vanish, and what is in doubt."""
    values, bounds = (axis.ravel() for axis in np.meshgrid(SUMS, OFF))
    bounds = np.where(np.isfinite(values), bounds, 0.0)
    count = len(values)
    problem = Problem(count, count, 8, types="f32", epilogue=text)
    case = problem.case()
    first, second = (Bounded(x[:, None], off[:, None]) for x, off in ((values, bounds), (values, bounds)))
    turned = Bounded(second.value.T, second.bound.T)
    wanted = apply_epilogue(problem.epilogue, {"acc": first, "acc2": turned}, DType.F32).c
    rule = rule_of_steps(Situation(case, "random", 3))
    assert rule is not None
    numbers = {"of_terms": 1.0, "least": 0.0, "of_sum": 0.0, "of_spread": 0.0, "of_size": 0.0}
    beside = [
        np.broadcast_to(x, (count, count)) for x in (values[:, None], values[None], bounds[:, None], bounds[None])
    ]
    both = 2 if problem.products == 2 else 1
    product, size = (np.concatenate(beside[start : start + both], axis=1) for start in (0, 2))
    result, places = np.zeros(count * count, np.float32), np.arange(count * count)
    with driver_of(compiled):
        from gemmgen.run.gpu.comparing import Judge

        known = Known(product.ctypes.data, size.ctypes.data, 0, 0, result.ctypes.data, result.ctypes.data, 0)
        found = Judge(b"", 1).judge(case, replace(rule, largest=False, **numbers), known, places)
    made = [found.values, found.bounds]
    for got, want in zip(made, (wanted.value, wanted.bound), strict=True):
        np.testing.assert_allclose(got.reshape(count, count), np.broadcast_to(want, (count, count)), rtol=1e-6)


@pytest.mark.parametrize(("types", "epilogue"), EPILOGUES)
def test_one_wrong_element_shows_behind_an_epilogue(compiled: ctypes.CDLL, types: str, epilogue: str) -> None:
    for what in situations(types, epilogue=epilogue):

        def harm(c: np.ndarray) -> None:
            c.view(np.uint8).reshape(33, 27, -1)[20, 13] ^= 0x5F

        kernel = Kernel(compiled, what.case.problem, harm).makes(what)
        wanted, found = compare(what, kernel.result), judge(kernel, what, None)
        assert found is not None and str(found[0].mismatch) == str(wanted.mismatch), what
        assert what.data != "random" or wanted.mismatch is not None, what


def test_of_some_epilogues_numpy_judges_all() -> None:
    """Of outputs beside C, sums of A and B, other scalars than f32."""
    for says in (
        {"epilogue": "bias+aux+gelu"},
        {"epilogue": "zero_m+bias", "types": "s8,s8,bf16"},
        {"epilogue": "bias", "types": "f64"},
        {"epilogue": "bias", "types": "s8,s8,s32"},
    ):
        case = Problem(8, 8, 8, **{"types": "bf16", **says}).case()
        assert rule_of_steps(Situation(case, "random", 0)) is None, says


def test_steps_have_their_numbers_on_the_device() -> None:
    (names,) = re.findall(r"enum Operation \{(.*?)\}", plain_path("judge").read_text(), re.DOTALL)
    spelled = {"sum": "+", "times": "*", "over": "/", "to_float": "float"}
    spelled |= {"int_plus": "int +", "int_minus": "int -", "int_times": "int *", "int_negated": "int negated"}
    assert tuple(spelled.get(name.lower(), name.lower()) for name in re.findall(r"\w+", names)) == (
        *STEPS,
        *FUNCTION_STEPS,
    )
    assert f"MOST_STEPS = {MOST_STEPS};" in plain_path("judge").read_text()
    assert {name for name, one in FUNCTIONS.items() if not one.definition} == set(FUNCTION_STEPS)
