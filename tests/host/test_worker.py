"""The processes that own a CUDA context, on a CUDA driver that is played: what they keep, send, find and refuse."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from enum import IntEnum
from functools import partial
from time import sleep
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from gemmgen.exports.json_records import kernel_document
from gemmgen.families import NAIVE, SKINNY
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.run.executor import Operands
from gemmgen.run.gpu import arena, executor
from gemmgen.run.gpu.comparing_records import OPERAND
from gemmgen.run.gpu.shared import Given, SharedMemory
from gemmgen.run.gpu.timing import CAREFUL, FINAL, FULL, MOST_SETS, NORMAL, QUICK, Conditions, Protocol, Timing
from gemmgen.support.errors import CandidateFailed, NoBaseline
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.epilogue_steps import rule_of_steps
from gemmgen.verification.linear import rule_of
from gemmgen.verification.sanitizers import tool as sanitizer
from gemmgen.verification.situation import Situation

PROBLEM = Problem(None, None, None, lda=None, ldc=None)
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
LARGE = PROBLEM.case(300, 500, 400, lda=410, ldc=512)
SITUATION = Situation(LARGE, "random", 3)
OPERANDS = make_operands(SITUATION)
MIB = 2**20
# Those that import pycuda.
MODULES = (
    "launching",
    "sampling",
    "images",
    "programs",
    "multiplier",
    "comparing",
    "runs",
    "cublaslt",
    "cublas",
    "contest",
    "worker",
)


class Memory:
    """A device allocation; its address is its own."""

    def __init__(self, driver: Driver, size: int) -> None:
        self.driver, self.data = driver, np.full(size, 0xEE, np.uint8)
        self.address = next(driver.addresses)
        driver.live[self.address] = self

    def __int__(self) -> int:
        return self.address

    def free(self) -> None:
        self.driver.live.pop(self.address, None)

    def __del__(self) -> None:
        self.free()


class Driver(ModuleType):
    """As much of pycuda.driver as the worker uses, on numpy arrays. Kernels are functions in `kernels`."""

    class Error(Exception):
        pass

    def __init__(self, total: int) -> None:
        super().__init__("pycuda.driver")
        self.total, self.live, self.uploads = total, {}, 0
        self.MemoryError = type("MemoryError", (self.Error,), {})
        self.addresses = itertools.count(2**40, 2**32)
        self.kernels = {"changed": self.changed, "fill": self.fill}
        self.function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
        self.Context = SimpleNamespace(synchronize=lambda: None)
        self.Stream = lambda: SimpleNamespace(synchronize=lambda: None)

    def init(self) -> None:
        pass

    def Device(self, index: int) -> SimpleNamespace:
        context = SimpleNamespace(push=lambda: None, pop=lambda: None)
        return SimpleNamespace(
            retain_primary_context=lambda: context, total_memory=lambda: self.total, multiprocessor_count=2
        )

    def mem_get_info(self) -> tuple[int, int]:
        return self.total - sum(memory.data.size for memory in self.live.values()), self.total

    def mem_alloc(self, size: int) -> Memory:
        return Memory(self, size)

    def words(self, address: object, size: int) -> np.ndarray:
        """`size` bytes at `address`, which must lie in one allocation."""
        base = max(start for start in self.live if start <= int(address))  # type: ignore[call-overload]
        offset = int(address) - base  # type: ignore[call-overload]
        assert offset + size <= self.live[base].data.size
        return self.live[base].data[offset : offset + size]

    def memcpy_htod(self, to: object, values: np.ndarray) -> None:
        self.uploads += 1
        self.words(to, values.nbytes)[:] = values.ravel().view(np.uint8)

    def memcpy_dtoh(self, values: np.ndarray, address: object) -> None:
        values.view(np.uint8)[:] = self.words(address, values.nbytes)

    def memcpy_dtod(self, to: object, address: object, size: int) -> None:
        self.words(to, size)[:] = self.words(address, size)

    def to_device(self, values: np.ndarray) -> Memory:
        memory = self.mem_alloc(values.nbytes)
        self.memcpy_htod(memory, values)
        return memory

    def memset_d32(self, to: object, value: int, count: int) -> None:
        self.words(to, 4 * count).view(np.uint32)[:] = value

    def memset_d32_async(self, to: object, value: int, count: int, stream: object) -> None:
        self.memset_d32(to, value, count)

    def module_from_buffer(self, cubin: bytes) -> SimpleNamespace:
        return SimpleNamespace(get_function=lambda name: self.kernels[name])

    def changed(self, before, after, words, c, rows, columns, ldc, size, batch, stride, count, **shape) -> None:
        """changed.cu"""
        differs = np.flatnonzero(self.words(before, 4 * words) != self.words(after, 4 * words))
        matrix, inside = divmod((differs - c) // size, stride) if stride else (0, (differs - c) // size)
        element = (differs >= c) & (matrix < batch) & (inside // ldc < rows) & (inside % ldc < columns)
        self.words(count, 8).view(np.uint64)[0] += np.count_nonzero(~element)

    def fill(self, values, sources, targets, size, *, grid, **shape) -> None:
        """fill.cu"""
        for line, to in enumerate(self.words(targets, 8 * grid[0]).view(np.uint64)):
            source = int(self.words(sources, 8 * grid[0]).view(np.int64)[line])
            self.words(to, int(size))[:] = self.words(int(values) + source, int(size))


def product(driver: Driver, outside: int | None = None):
    """A kernel that fills C with 7, and writes `outside` (an element of its storage) too."""

    def run(a, b, c, m, n, k, lda, ldb, ldc, *scalars, **shape) -> None:
        storage = driver.words(c, 4 * ((m - 1) * ldc + n)).view(np.float32)
        np.lib.stride_tricks.as_strided(storage, (m, n), (4 * int(ldc), 4))[:] = 7
        if outside is not None:
            storage[outside] = 7

    return run


@pytest.fixture
def driver(monkeypatch):
    """A driver of 64 MiB, and the modules that import it."""
    played = Driver(64 * MIB)
    package = ModuleType("pycuda")
    package.driver = played  # type: ignore[attr-defined]
    names = [f"gemmgen.run.gpu.{name}" for name in MODULES]
    names.append("gemmgen.verification.sanitizers.watched")
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", played)
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    played.kernels[SOURCE.name] = product(played)
    yield played
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def worker(driver):
    return importlib.import_module("gemmgen.run.gpu.worker").Worker("0")


def run(worker, operands: Operands | None, *, seed: int = 3, results: str | None = None, source=SOURCE):
    key = arena.image_key(LARGE, OPERANDS, 1, seed)
    return worker.runs.run((source, b"cubin"), Given(LARGE, seed, key, operands, results), b"changed")


def test_operands_travel_once(worker, driver):
    assert run(worker, None) is None, "it asks for what it does not have"
    first = run(worker, OPERANDS)
    assert driver.uploads == 3 and (LARGE.c.view(first) == 7).all()
    np.testing.assert_array_equal(run(worker, None), first)
    assert driver.uploads == 3
    assert run(worker, None, seed=4) is None, "another placement is another image"
    assert run(worker, OPERANDS, seed=4) is not None and driver.uploads == 6


def test_a_run_starts_from_the_operands_each_time(worker, driver):
    run(worker, OPERANDS)
    driver.kernels["idle"] = lambda *arguments, **shape: None
    np.testing.assert_array_equal(run(worker, None, source=replace(SOURCE, name="idle", text="idle")), OPERANDS.c)


def test_what_a_kernel_writes_outside_is_found_with_kept_operands_too(worker, driver):
    run(worker, OPERANDS)
    driver.kernels["wild"] = product(driver, outside=LARGE.n)
    wild = replace(SOURCE, name="wild", text="wild")
    with pytest.raises(CandidateFailed, match=r"padding of C at row 0, column 500 \(C is 300 x 500, ldc = 512\)"):
        run(worker, None, source=wild)
    assert run(worker, None) is None, "what the wild kernel may have met is sent again"
    assert (LARGE.c.view(run(worker, OPERANDS)) == 7).all()


DOUBLES = Problem(5, 7, 9, dtype=DType.F64, batch=3, stride_a=50, stride_b=0, ldc=8, stride_c=48)
BATCH = render(DOUBLES, NAIVE, NAIVE.default(DOUBLES))


def products(driver: Driver, outside: int | None = None):
    """A kernel that fills the batch's C with 7, and writes `outside` (an element of its storage) too."""
    c = DOUBLES.case().c

    def run(a, b, address, *scalars, **shape) -> None:
        storage = driver.words(address, 8 * c.elements).view(np.float64)
        c.view(storage)[:] = 7
        if outside is not None:
            storage[outside] = 7

    return run


def test_a_batch_of_doubles_comes_back(worker, driver):
    case = DOUBLES.case()
    driver.kernels[BATCH.name] = products(driver)
    given = Given(case, 3, None, make_operands(Situation(case, "random", 3)), None)
    result = worker.runs.run((BATCH, b"cubin"), given, b"changed")
    assert result.dtype == np.float64 and len(result) == case.c.elements and (case.c.view(result) == 7).all()


@pytest.mark.parametrize(
    ("outside", "where"), [(7, "row 0, column 7 of matrix 0"), (48 + 41, "row 5, column 1 of matrix 1")]
)
def test_what_is_written_between_lines_and_matrices_is_found(worker, driver, outside, where):
    case = DOUBLES.case()
    driver.kernels[BATCH.name] = products(driver, outside)
    operands = make_operands(Situation(case, "random", 3))
    with pytest.raises(CandidateFailed, match=f"outside C's elements, the first in the padding of C at {where}"):
        worker.runs.run((BATCH, b"cubin"), Given(case, 3, None, operands, None), b"changed")


POINTED = Problem(5, 7, 9, dtype=DType.F64, batch=None, ldc=8, pointers=True)
POINTERS = render(POINTED, NAIVE, NAIVE.default(POINTED))


def by_pointers(driver: Driver, outside: int | None = None, harm: Callable[[np.ndarray], None] = lambda array: None):
    """A kernel that reads its pointers, gives each C 10 times the first elements of its A and B, and does `harm`."""

    def run(a, b, c, batch, *scalars, **shape) -> None:
        arrays = [driver.words(array, 8 * int(batch)).view(np.uint64) for array in (a, b, c)]
        one = POINTED.case(batch=1).c
        for from_a, from_b, to_c in zip(*arrays, strict=True):
            first = [driver.words(int(matrix), 8).view(np.float64)[0] for matrix in (from_a, from_b)]
            storage = driver.words(int(to_c), 8 * (one.span + 2)).view(np.float64)
            one.view(storage)[0][:] = 10 * first[0] + first[1]
            if outside is not None:
                storage[outside] = 7
        harm(arrays[1])

    return run


def run_pointers(worker, case, seed=3, results=None):
    situation = Situation(case, "random", 3)
    given = Given(case, seed, None, make_operands(situation), results)
    return worker.runs.run((POINTERS, b"cubin"), given, b"changed")


@pytest.mark.parametrize("different", [0, 1, 4])
def test_a_batch_of_pointers_comes_back_in_order(worker, driver, different):
    case = POINTED.case(batch=6, different_b=different)
    operands = make_operands(Situation(case, "random", 3))
    driver.kernels[POINTERS.name] = by_pointers(driver)
    firsts = 10 * case.a.view(operands.a)[:, 0, 0] + case.b.view(operands.b)[:, 0, 0]
    for seed in (3, 4):
        result = run_pointers(worker, case, seed)
        assert result.dtype == np.float64 and len(result) == case.c.elements
        assert (case.c.view(result) == firsts[:, None, None]).all()


def test_pointers_name_matrices_in_no_order_aligned_as_promised_and_no_more():
    case = replace(POINTED, pointer_align=8).case(batch=50)
    layout = arena.place(case, 3)
    base = 2**40
    addresses = layout.addresses(base)
    assert addresses.shape == (3, 50) and (addresses % 8 == 0).all() and (addresses % 16 == 8).all()
    for name, ours, matrix in zip("ABC", addresses, case.matrices, strict=True):
        assert ours.min() == base + layout.offsets[name] and len(np.unique(np.diff(ours.astype(np.int64)))) > 2
        assert np.diff(np.sort(ours)).min() >= 8 * matrix.span + arena.GAP_BYTES
    assert (arena.place(case, 4).scattered[0].slots != layout.scattered[0].slots).any()


@pytest.mark.parametrize(
    ("outside", "where"), [(7, "row 0, column 7 of matrix"), (40, "1 elements after the end of matrix")]
)
def test_what_is_written_beside_the_matrices_of_pointers_is_found(worker, driver, outside, where):
    driver.kernels[POINTERS.name] = by_pointers(driver, outside)
    with pytest.raises(CandidateFailed, match=f"outside C's elements, the first in C's memory, {where}"):
        run_pointers(worker, POINTED.case(batch=3))


def overwrite(array):
    array[1] = 0


def write_past(array):
    np.lib.stride_tricks.as_strided(array, (len(array) + 1,), (8,))[-1] = 0


@pytest.mark.parametrize(
    ("harm", "words"),
    [(overwrite, "the first in the pointers to B"), (write_past, "0 bytes after the end of the pointers to B")],
)
def test_arrays_of_pointers_are_guarded(worker, driver, harm, words):
    driver.kernels[POINTERS.name] = by_pointers(driver, harm=harm)
    with pytest.raises(CandidateFailed, match=words) as caught:
        run_pointers(worker, POINTED.case(batch=3))
    assert caught.value.failure.kind == "crash"


def test_timed_pointers_rotate_over_sets_that_hold_their_own_matrices(driver):
    replay = importlib.import_module("gemmgen.run.gpu.sampling")
    case = POINTED.case(batch=6)
    sets = replay.InputSets(case, MOST_SETS, "uniform", 2, 3000, lambda memory, count, dtype: None)
    assert len(sets.pointers) > 1 and len({pointers["A"] for pointers in sets.pointers}) == len(sets.pointers)
    met = set()
    for pointers in sets.pointers:
        arrays = {name: driver.words(pointers[name], 8 * 6).view(np.uint64) for name in "ABC"}
        for name, matrix in zip("ABC", case.matrices, strict=True):
            starts = np.sort(arrays[name])
            assert (starts % 16 == 0).all() and (np.diff(starts) >= 8 * matrix.span).all()
            assert driver.words(starts[-1], 8 * matrix.span).size, "inside of the allocation"
            met |= set(starts.tolist())
    assert len(met) == 3 * 6 * len(sets.pointers), "no matrix is in two sets, or two operands"
    sets.free()
    assert not driver.live


@pytest.mark.parametrize(
    ("inputs", "name", "ends", "least"),
    [
        ("groups=5", "offs", 96, 0),
        ("groups=5+along_k", "offs", 64, 0),
        ("groups=5+masked", "group_rows", 96, 96),
        ("gathered", "index_a", None, 0),
    ],
)
def test_timed_sets_name_rows_that_there_are(driver, inputs, name, ends, least):
    replay = importlib.import_module("gemmgen.run.gpu.sampling")
    case = Problem(96, 32, 64, types="bf16", layout="rc", inputs=inputs).case()
    sets = replay.InputSets(case, MOST_SETS, "uniform", 2, 3000, lambda memory, count, dtype: None)
    for pointers in sets.pointers:
        numbers = driver.words(pointers[name], 4 * case.extra[name].elements).view(np.int32)
        assert least <= numbers.min() and numbers.max() <= 96
        if ends is not None:
            assert numbers[-1] == ends and (np.diff(numbers) >= 0).all()
    sets.free()


class PlayedCublas(ModuleType):
    """nvmath.bindings.cublas, products apart."""

    cuBLASError = type("cuBLASError", (RuntimeError,), {})

    def __init__(self, driver: Driver) -> None:
        super().__init__("nvmath.bindings.cublas")
        self.driver, self.calls = driver, []
        self.sgemm_batched = self.dgemm_batched = None
        self.ComputeType = SimpleNamespace(COMPUTE_32F=68, COMPUTE_32I=72)

    def create(self) -> int:
        return 77

    def get_version(self, handle: int) -> int:
        return 130100

    def set_stream(self, handle: int, stream: object) -> None:
        self.calls.append("stream")

    def set_workspace(self, handle: int, workspace: int, size: int) -> None:
        self.calls.append("workspace")


def test_cublas_multiplies_a_batch_of_pointers(worker, driver, monkeypatch):
    played, driver.total = PlayedCublas(driver), 256 * MIB

    def column_major(address, ld, rows, columns):
        storage = driver.words(int(address), 8 * ((columns - 1) * ld + rows)).view(np.float64)
        return np.lib.stride_tricks.as_strided(storage, (rows, columns), (8, 8 * ld))

    def dgemm_batched(handle, op_x, op_y, m, n, k, alpha, xs, ldx, ys, ldy, beta, zs, ldz, count):
        alpha, beta = (ctypes.c_double.from_address(scalar).value for scalar in (alpha, beta))
        arrays = [driver.words(array, 8 * count).view(np.uint64) for array in (xs, ys, zs)]
        for x, y, z in zip(*arrays, strict=True):
            left = column_major(x, ldx, k, m).T if op_x else column_major(x, ldx, m, k)
            right = column_major(y, ldy, n, k).T if op_y else column_major(y, ldy, k, n)
            column_major(z, ldz, m, n)[:] = alpha * left @ right + beta * column_major(z, ldz, m, n)

    played.dgemm_batched = dgemm_batched
    bindings = ModuleType("nvmath.bindings")
    bindings.cublas = played
    for name, module in (("nvmath", ModuleType("nvmath")), ("nvmath.bindings", bindings)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(worker._stream, "handle", 0, raising=False)
    for layout in ("rr", "rc", "cr", "cc"):
        problem = replace(POINTED, layout=Layout.parse(layout), lda=None)
        situation = Situation(problem.case(batch=4, lda=11, different_a=3, alpha=-2.0, beta=0.5), "random", 1)
        result = worker.run_baseline(situation.case, make_operands(situation))
        assert compare(situation, result).mismatch is None, layout
    assert worker.contest.library(situation.case).version == "cuBLAS 13.1.0 gemmBatched"
    assert played.calls == ["stream", "workspace"] * 4


@pytest.mark.parametrize(
    ("types", "numbers", "sums"),
    [("bf16", (14, 14, 14), 68), ("f16,f16,f32", (2, 2, 0), 68), ("s8,s8,s32", (3, 3, 10), 72)],
)
def test_cublas_converts_types_of_a_batch_of_pointers(driver, types, numbers, sums):
    played, calls = PlayedCublas(driver), []
    played.gemm_batched_ex = lambda *arguments: calls.append(arguments)
    library = SimpleNamespace(api=played, handle=77, workspace=0, products={})
    case = Problem(5, 7, 9, types=types, batch=4, pointers=True).case()
    module = importlib.import_module("gemmgen.run.gpu.cublas")
    module.BatchedPlan(library, case).enqueue(0, {"A": 10, "B": 20, "C": 30}, SimpleNamespace(handle=0))
    ((_, op_b, op_a, n, m, k, _, b, of_b, ldb, a, of_a, lda, _, c, of_c, ldc, count, compute, _),) = calls
    assert (op_b, op_a, m, n, k, count) == (0, 0, 5, 7, 9, 4)
    assert ((a, lda), (b, ldb), (c, ldc)) == ((10, case.lda), (20, case.ldb), (30, case.ldc))
    assert (of_a, of_b, of_c) == numbers and compute == sums


def test_cublas_says_which_types_it_lacks(driver):
    module = importlib.import_module("gemmgen.run.gpu.cublas")
    case = Problem(5, 7, 9, types="e4m3", batch=4, pointers=True).case()
    with pytest.raises(CandidateFailed, match="no baseline: gemmBatched has no kernel for e4m3"):
        module.BatchedPlan(SimpleNamespace(products={}), case)


class PlayedLt:
    """nvmath.bindings.cublasLt with one algorithm; `attributes` are those of products, `products` the calls."""

    cuBLASLtError = type("cuBLASLtError", (RuntimeError,), {})
    names = ("TRANSA", "TRANSB", "EPILOGUE", "BIAS_POINTER", "FAST_ACCUM")
    MatmulDescAttribute = IntEnum("MatmulDescAttribute", names)
    MatmulPreferenceAttribute = MatrixLayoutAttribute = SimpleNamespace(MAX_WORKSPACE_BYTES=0)

    def __init__(self) -> None:
        self.attributes, self.products = {}, []
        self.matmul_desc_create = self.matrix_layout_create = self.matmul_preference_create = lambda *given: 1
        self.matrix_layout_destroy = self.matmul_desc_destroy = self.matmul_preference_destroy = lambda given: None
        self.matmul_preference_set_attribute = lambda *given: None

    def matmul_desc_set_attribute(self, product: int, attribute: int, address: int, size: int) -> None:
        self.attributes[self.MatmulDescAttribute(attribute).name] = int.from_bytes(
            ctypes.string_at(address, size), "little"
        )

    def MatmulHeuristicResult(self, most: int) -> object:
        result = {"algo": np.zeros(16, np.int64), "state": 0}
        return type("Results", (), {"ptr": 0, "__getitem__": lambda self, index: result})()

    def matmul_algo_get_heuristic(self, *given: int) -> None:
        ctypes.c_int32.from_address(given[-1]).value = 1

    def matmul(self, *given: object) -> None:
        self.products.append(given)


@pytest.mark.parametrize(("types", "converts"), [("f32", False), ("bf16", True), ("f16", True), ("f32_tf32", False)])
def test_cublaslt_adds_a_bias_of_its_own_type(driver, types, converts):
    """That of f32 is the operand; beside bf16 and f16 it is rounded to these, once for a plan."""
    module = importlib.import_module("gemmgen.run.gpu.cublaslt")
    played, case = PlayedLt(), Problem(8, 5, 16, types=Types.parse(types), epilogue="bias+gelu").case()
    library = SimpleNamespace(api=played, handle=77, workspace=4096, compute_type=lambda types: 68)
    plan = module.LtPlan(library, case)
    assert plan.offered == 1 and played.attributes["EPILOGUE"] == 36 and plan.takes_bias == converts
    values = np.array([1.5, -2, 0.1, 3, 1e-3])
    if converts:
        plan.take_bias(values[None])
    plan.enqueue(0, {"A": 10, "B": 20, "C": 30, "bias_n": 40}, SimpleNamespace(handle=0))
    assert len(played.products) == 1
    if converts:
        dtype = case.c.dtype
        added = driver.words(played.attributes["BIAS_POINTER"], 10).view(dtype.bits)
        np.testing.assert_array_equal(added, dtype.encode(values).view(dtype.bits))
    else:
        assert played.attributes["BIAS_POINTER"] == 40
    plan.close()
    assert not driver.live


def test_cublaslt_adds_a_residual_as_a_c_of_its_own(driver):
    module = importlib.import_module("gemmgen.run.gpu.cublaslt")
    played, made = PlayedLt(), []
    played.matrix_layout_create = lambda *given: made.append(given) or len(made)
    case = Problem(8, 5, 16, types="bf16,bf16,f32", epilogue="alpha * acc + residual", ld_residual=9).case(alpha=3)
    plan = module.LtPlan(SimpleNamespace(api=played, handle=77, workspace=0, compute_type=lambda types: 68), case)
    plan.enqueue(0, {"A": 10, "B": 20, "C": 30, "residual": 40}, SimpleNamespace(handle=0))
    ((_, _, alpha, b, of_b, a, of_a, beta, added, of_added, c, of_c, *_),) = played.products
    assert [ctypes.c_float.from_address(at).value for at in (alpha, beta)] == [3, 1]
    assert (a, b, added, c) == (10, 20, 40, 30)
    lines = [made[one - 1][1:] for one in (of_a, of_b, of_added, of_c)]
    assert lines == [(16, 8, 16), (5, 16, 5), (5, 8, 9), (5, 8, 5)]
    plan.close()


def test_input_sets_hold_the_data_that_a_protocol_asks_for(worker, driver):
    filled: list[str] = []
    for data in ("uniform", "normal"):
        driver.kernels[f"random_{data}_f32"] = lambda *_, data=data, **__: filled.append(data)
    worker.contest._device = SimpleNamespace(l2_cache_size=MIB, multiprocessor_count=2)
    uniform = worker.contest._input_sets(LARGE, b"random", CAREFUL)
    assert worker.contest._input_sets(LARGE, b"random", QUICK) is uniform and uniform.data == "uniform"
    normal = worker.contest._input_sets(LARGE, b"random", NORMAL)
    assert normal is not uniform and normal.data == "normal" and filled == ["uniform", "normal"]


def test_kernels_are_timed_without_a_baseline_that_the_library_lacks(worker, monkeypatch):
    def lacks(*_: object) -> None:
        raise NoBaseline("cuBLASLt has no kernel for u8", "cublaslt")

    def ours(pointers: object, stream: object) -> None:
        pass

    times = iter((5.0, 4.0))
    for name, played in {
        "_champion": lacks,
        "_input_sets": lambda *_: SimpleNamespace(pointers=[{}]),
        "_with_workspace": lambda *_: ours,
        "_mover": lambda *_: "mover",
        "_measure": lambda contestants, *_: [(contestant, next(times)) for contestant in contestants],
    }.items():
        monkeypatch.setattr(worker.contest, name, played)
    found = worker.contest.measure([(SOURCE, b"cubin")], LARGE, QUICK, FULL, b"", b"")
    assert (found.timings, found.baseline, found.moving) == (((ours, 5.0),), None, ("mover", 4.0))
    assert found.lacking.reason == "no baseline: cuBLASLt has no kernel for u8"


PARAMETERS = "QQQiiiiiiff"  # of SOURCE, as `struct` has them


def played_launches(monkeypatch, driver: Driver, status: int = 0) -> list[SimpleNamespace]:
    """Play the parts of cuda.bindings that pycuda lacks; returns what is launched."""
    from cuda.bindings import driver as bindings

    launches: list[SimpleNamespace] = []
    loaded: dict[int, list[tuple[object, int]]] = {}
    configs: list[object] = []
    done, new_config = bindings.CUresult.CUDA_SUCCESS, bindings.CUlaunchConfig

    def kept_config():
        configs.append(new_config())
        return configs[-1]

    def launch_kernel(*given):
        at, function, parameters, extra = (one.value or 0 for one in given)
        assert extra == 0
        config = next(one for one in configs if one.getPtr() == at)
        places = (ctypes.c_void_p * len(PARAMETERS)).from_address(parameters)
        data = [
            struct.unpack(code, ctypes.string_at(at, struct.calcsize(code)))
            for at, code in zip(places, PARAMETERS, strict=True)
        ]
        attributes = {attribute.id.name: attribute.value for attribute in config.attrs}
        launches.append(SimpleNamespace(config=config, function=function, data=data, attributes=attributes))
        launches[-1].settings = loaded[function]
        return status

    def get_function(module, name):
        loaded[len(loaded) + 1] = []
        return done, len(loaded)

    def set_attribute(function, attribute, value):
        loaded[function].append((attribute.name, value))
        return (done,)

    monkeypatch.setattr(bindings, "cuModuleLoadData", lambda cubin: (done, "module"))
    monkeypatch.setattr(bindings, "cuModuleGetFunction", get_function)
    monkeypatch.setattr(bindings, "cuFuncSetAttribute", set_attribute)
    monkeypatch.setattr(bindings, "CUlaunchConfig", kept_config)
    monkeypatch.setattr("gemmgen.run.gpu.bindings.entry", {"cuLaunchKernelEx": launch_kernel}.__getitem__)
    return launches


def test_what_pycuda_lacks_is_launched_through_cuda_bindings(worker, driver, monkeypatch):
    launches = played_launches(monkeypatch, driver)
    monkeypatch.setattr(worker._stream, "handle", 0x1234, raising=False)
    wanted = replace(
        SOURCE.launch, cluster=16, shared_bytes=100_000, attributes=("cooperative", "programmatic_stream_serialization")
    )
    np.testing.assert_array_equal(run(worker, OPERANDS, source=SOURCE.promising(launch=wanted)), OPERANDS.c)
    (launch,) = launches
    config = launch.config
    assert (config.gridDimX, config.gridDimY, config.gridDimZ) == (wanted.blocks(LARGE), 1, 1)
    assert (config.blockDimX, config.blockDimY, config.blockDimZ) == (wanted.threads, 1, 1)
    assert (config.sharedMemBytes, int(config.hStream)) == (100_000, 0x1234)
    cluster = launch.attributes["CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"].clusterDim
    assert (cluster.x, cluster.y, cluster.z) == (16, 1, 1)
    assert launch.attributes["CU_LAUNCH_ATTRIBUTE_COOPERATIVE"].cooperative == 1
    serialization = launch.attributes["CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"]
    assert serialization.programmaticStreamSerializationAllowed == 1
    assert launch.settings == [
        ("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 100_000),
        ("CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1),
    ]
    *pointers, m, n, k, lda, ldb, ldc, alpha, beta = [value for (value,) in launch.data]
    assert (m, n, k, lda, ldb, ldc) == (LARGE.m, LARGE.n, LARGE.k, LARGE.a.ld, LARGE.b.ld, LARGE.c.ld)
    assert (alpha, beta) == (np.float32(LARGE.alpha), np.float32(LARGE.beta)) and sorted(pointers) == pointers


def test_what_the_driver_refuses_is_a_launch_failure(worker, driver, monkeypatch):
    from cuda.bindings import driver as bindings

    played_launches(monkeypatch, driver, int(bindings.CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE))
    monkeypatch.setattr(worker._stream, "handle", 0, raising=False)
    driver.LogicError = type("LogicError", (driver.Error,), {})
    clustered = SOURCE.promising(launch=replace(SOURCE.launch, cluster=2))
    with pytest.raises(CandidateFailed, match="CUDA_ERROR_INVALID_CLUSTER_SIZE") as caught:
        run(worker, OPERANDS, source=clustered)
    assert caught.value.failure.kind == "launch"


SPLIT = render(PROBLEM, SKINNY, SKINNY.default(PROBLEM).with_values(SPLIT=2))
SPLIT_MORE = render(PROBLEM, SKINNY, SKINNY.default(PROBLEM).with_values(SPLIT=4))


def adding(
    driver: Driver, harm: Callable[[np.ndarray, np.ndarray], None] = lambda partials, semaphores: None, of=SPLIT
):
    """A kernel that fills C with 7 by way of its workspace, and does `harm` there."""
    fill, workspace = product(driver), of.launch.workspace(LARGE)

    def run(a, b, c, partials, semaphores, *scalars, **shape) -> None:
        parts = driver.words(partials, workspace.partials).view(np.uint32)
        counters = driver.words(semaphores, 4 * workspace.semaphores).view(np.uint32)
        assert (parts == arena.CANARY).all() and (counters == 0).all()
        parts[:] = 1
        harm(parts, counters)
        fill(a, b, c, *scalars)

    return run


def test_kernels_with_a_workspace_and_others_share_kept_operands(worker, driver):
    run(worker, OPERANDS)
    for source in (SPLIT, SPLIT_MORE, SPLIT):
        driver.kernels[source.name] = adding(driver, of=source)
        assert (LARGE.c.view(run(worker, None, source=source)) == 7).all()
    assert driver.uploads == 3


def test_timed_kernels_share_a_workspace(worker, driver):
    addresses = {SPLIT.name: set(), SPLIT_MORE.name: set()}

    def timed(of):
        workspace = of.launch.workspace(LARGE)

        def run(a, b, c, partials, semaphores, *scalars, **shape) -> None:
            addresses[of.name].add((int(partials), int(semaphores)))
            assert (driver.words(semaphores, 4 * workspace.semaphores).view(np.uint32) == 0).all()
            driver.words(partials, workspace.partials).view(np.uint32)[:] = 1

        return run

    for source in (SPLIT, SPLIT_MORE):
        driver.kernels[source.name] = timed(source)
    contestants = [worker.contest._with_workspace((source, b"cubin"), LARGE) for source in (SPLIT, SPLIT_MORE)]
    for enqueue in (*contestants, *contestants):
        enqueue({"A": 0, "B": 0, "C": 0}, None)
    few, more = addresses.values()
    assert few == more and len(few) == 1


def leave_a_semaphore(partials, semaphores):
    semaphores[1] = 1


def write_behind(partials, semaphores):
    beyond = np.lib.stride_tricks.as_strided(partials, (len(partials) + 1,), (4,))
    beyond[-1] = 1


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (leave_a_semaphore, r"leaves semaphores\[1\] = 1"),
        (write_behind, "beside its workspace, the first 0 bytes after the end"),
    ],
)
def test_the_workspace_is_guarded(worker, driver, harm, words):
    driver.kernels[SPLIT.name] = adding(driver, harm)
    with pytest.raises(CandidateFailed, match=words) as caught:
        run(worker, OPERANDS, source=SPLIT)
    assert caught.value.failure.kind == "crash"


def test_large_operands_and_results_go_through_memory_that_both_sides_share(worker, driver):
    case = Problem(300, 500, 400, types="bf16", ldc=512, epilogue="bias_n+residual").case()
    source, operands = (
        render(case.problem, NAIVE, NAIVE.default(case.problem)),
        make_operands(Situation(case, "random", 3)),
    )
    met = {}

    def kernel(a, b, c, bias_n, residual, *scalars, **shape) -> None:
        for name, address in {"A": a, "B": b, "C": c, "bias_n": bias_n, "residual": residual}.items():
            met[name] = driver.words(address, case.tensors[name].bytes).tobytes()

    driver.kernels[source.name] = kernel
    with closing(SharedMemory()) as shared:
        shared.put(case, operands)
        given = Given(case, 3, None, "shared", shared.path)
        result = worker.runs.run((source, b"cubin"), given, b"changed")
        assert met == {name: values.tobytes() for name, values in operands.by_name.items()}
        assert result.tobytes() == operands.c.tobytes()
        worker.runs._copy_out(driver.to_device(OPERANDS.a), OPERANDS.a.nbytes, shared.path)
        assert shared.read(OPERANDS.a.size, DType.F32).tobytes() == OPERANDS.a.tobytes()


@pytest.mark.parametrize("wrong", [0, 2])
def test_what_is_judged_in_place_is_delivered_where_it_is_wrong(worker, driver, wrong):
    met = {}

    def judge(known, rule, shape, form, operands, steps, of, found, **grid) -> None:
        product, size, rows, columns, old, result, numbers = driver.words(known, 56).view(np.uint64).tolist()
        for name, address in {"old": old, "result": result}.items():
            met[name] = driver.words(address, LARGE.c.bytes).view(np.float32).copy()
        met["made"] = (product != size, rows, columns, numbers)
        driver.words(found, 32).view(np.uint64)[:] = [300 * 500, wrong, *np.array([0.25, 3.0]).view(np.uint64).tolist()]

    def sample(known, rule, shape, form, operands, steps, of, places, count, bits, values, bounds, **grid) -> None:
        driver.words(values, 8 * count).view(np.float64)[:] = driver.words(places, 8 * count).view(np.int64)

    idle = {name: lambda *arguments, **grid: None for name in ("decode_32", "multiply")}
    driver.kernels |= {**idle, "judge": judge, "sample": sample}
    given = Given(LARGE, 3, arena.image_key(LARGE, OPERANDS, 1, 3), None, None)
    binary = SOURCE, b"cubin"
    assert worker.runs.run_kept(binary, given, b"changed") is None, "it asks for what it does not have"
    assert worker.runs.run_kept(binary, replace(given, sent=OPERANDS), b"changed") is True
    rule, places = rule_of(SITUATION), np.array([5, 2, 9])
    found = worker.runs.judge(LARGE, rule, places, b"multiply", b"judge")
    assert (found.elements, found.wrong, found.worst, found.largest_bound) == (300 * 500, wrong, 0.25, 3.0)
    assert found.values.tolist() == [5, 2, 9] and found.bits.dtype == np.uint32
    assert (met["old"].view(np.uint32) == OPERANDS.c.view(np.uint32)).all() and (LARGE.c.view(met["result"]) == 7).all()
    assert met["made"] == (True, 0, 0, 0), "f32 needs sizes, and no largest"
    if wrong:
        np.testing.assert_array_equal(worker.runs.deliver(None), met["result"])
    else:
        with pytest.raises(AssertionError):
            worker.runs.deliver(None)


def test_steps_of_an_epilogue_are_told_where_its_operands_lie(worker, driver):
    case = Problem(300, 500, 400, types="bf16", ldc=512, epilogue="bias_m+residual").case(beta=2.0)
    what = Situation(case, "random", 3)
    source, operands, rule = (
        render(case.problem, NAIVE, NAIVE.default(case.problem)),
        make_operands(what),
        rule_of_steps(what),
    )
    names = list(dict.fromkeys(step.operand for step in rule.steps if step.operand))
    met = {}

    def judge(known, rule, shape, form, given, steps, of, found, **grid) -> None:
        for name, record in zip(names, driver.words(given, len(names) * OPERAND.itemsize).view(OPERAND), strict=True):
            matrix = case.tensors[name]
            met[name] = driver.words(int(record["first"]), matrix.bytes).tobytes()
            assert (record["numbers"] != 0) == (matrix.dtype.size == 2), "what 16 bits stand for a table says"
            along = (record["row"], record["column"]), (record["matrix"],)
            assert along == {"C": ((512, 1), (0,)), "bias_m": ((1, 0), (0,)), "residual": ((500, 1), (0,))}[name]

    idle = {name: lambda *arguments, **grid: None for name in ("decode_16", "multiply", "largest", "sample")}
    driver.kernels |= {source.name: lambda *arguments, **grid: None, **idle, "judge": judge}
    worker.runs.run_kept((source, b"cubin"), Given(case, 3, None, operands, None), b"changed")
    worker.runs.judge(case, rule, np.array([5]), b"multiply", b"judge")
    assert set(names) == {"C", "bias_m", "residual"}
    assert met == {name: operands.by_name[name].tobytes() for name in names}


def test_large_results_go_through_a_file(worker, tmp_path, monkeypatch):
    path = tmp_path / "results"
    path.touch()
    assert isinstance(run(worker, OPERANDS, results=str(path)), np.ndarray), "it is small"
    monkeypatch.setattr(arena, "KEPT_BYTES", 4 * LARGE.c.elements)
    unshared = run(worker, OPERANDS, results=str(tmp_path / "no" / "file"))
    assert (LARGE.c.view(unshared) == 7).all()
    assert run(worker, OPERANDS, results=str(path)) == LARGE.c.elements
    assert (LARGE.c.view(np.fromfile(path, np.float32)) == 7).all()


def test_images_give_way_where_memory_is_short(worker, driver):
    size = arena.place(LARGE, 0).size
    for seed in range(6):
        assert run(worker, OPERANDS, seed=seed) is not None
        assert worker.images.bytes <= driver.total // 4
    kept = worker.images.bytes
    assert kept > size
    driver.total = sum(memory.data.size for memory in driver.live.values()) + size // 2
    assert run(worker, OPERANDS, seed=7) is not None and worker.images.bytes < kept


def test_too_little_memory_is_a_failure_with_both_numbers(worker, driver):
    driver.total = MIB
    with pytest.raises(CandidateFailed, match=r"needs 0\.00 GiB of device memory, 0\.00 GiB are free") as caught:
        run(worker, OPERANDS)
    assert caught.value.failure.kind == "launch"
    driver.total = 64 * MIB
    assert run(worker, OPERANDS) is not None, "the worker lives on"


def test_changing_arrays_and_small_ones_are_not_kept():
    assert arena.image_key(LARGE, OPERANDS, 1, 3) is not None
    mine = Operands(OPERANDS.a.copy(), OPERANDS.b, OPERANDS.c)
    assert arena.image_key(LARGE, mine, 1, 3) is None
    small = Situation(PROBLEM.case(8, 8, 8), "random", 3)
    assert arena.image_key(small.case, make_operands(small), 1, 3) is None


# The parent's side


class PlayedChild:
    """The worker's process: keeps what it was sent, and answers with it."""

    running = True

    def __init__(self) -> None:
        self.kept: set[object] = set()
        self.sent: list[object] = []

    def request(self, message: tuple[object, ...], timeout: float) -> object:
        verb, _, given, *_ = message
        assert verb == "run" and isinstance(given, Given)
        key, operands = given.key, given.sent
        self.sent.append("pipe" if isinstance(operands, Operands) else operands)
        if key in self.kept or operands is not None:
            self.kept |= {key} - {None}
            return np.zeros(LARGE.c.elements, np.float32)
        return None

    def close(self) -> None:
        pass


def test_the_parent_sends_large_operands_once_and_again_to_a_new_worker(monkeypatch, store):
    monkeypatch.setattr(executor, "why_no_gpu", lambda: None)
    monkeypatch.setattr(executor, "properties_here", lambda device: SimpleNamespace(arch="sm_90", uuid="GPU-1"))
    monkeypatch.setattr(executor.GpuExecutor, "_start", lambda gpu: None)
    monkeypatch.setattr(executor.Child, "start", lambda child: None)
    gpu = executor.GpuExecutor(store)
    gpu._changed = b""
    kernel = SimpleNamespace(binary=(SOURCE, b""))
    gpu._child = child = PlayedChild()
    for _ in range(3):
        gpu.run(kernel, LARGE, OPERANDS, 3)
    assert child.sent == [None, "shared", None, None]
    gpu.run(kernel, LARGE, replace(OPERANDS), 3)
    assert child.sent[4:] == [None, "shared"], "an equal object is another one: its arrays may differ"
    gpu._child = child = PlayedChild()
    gpu.run(kernel, LARGE, OPERANDS, 3)
    small = Situation(PROBLEM.case(8, 8, 8), "random", 3)
    gpu.run(kernel, small.case, make_operands(small), 3)
    assert child.sent == [None, "shared", "pipe"]
    gpu.close()


def test_results_are_copied_out_of_the_shared_file():
    results = SharedMemory()
    assert results.path is not None
    with open(results.path, "r+b") as file:
        file.write(np.arange(4, dtype=np.float32).tobytes())
        file.flush()
        first = results.read(4, DType.F32)
        file.seek(0)
        file.write(np.array([2.0**-60, -0.5]).tobytes())
        file.flush()
        second = results.read(2, DType.F64)
    assert first.tolist() == [0, 1, 2, 3] and second.tolist() == [2.0**-60, -0.5]
    results.close()


# Under compute-sanitizer

SMALL = PROBLEM.case(5, 7, 3, lda=4, ldc=9)


@pytest.mark.parametrize(
    ("tool", "beta", "unwritten"), [("memcheck", 0.0, ""), ("initcheck", 0.0, "C"), ("initcheck", 1.0, "")]
)
def test_each_operand_has_an_allocation_that_ends_with_it(driver, tool, beta, unwritten):
    driver.kernels[SOURCE.name] = lambda *arguments, **shape: None
    case = replace(SMALL, beta=beta)
    situations = tuple(Situation(case, "exact", seed) for seed in (0, 1))
    job = sanitizer.WatchJob(SOURCE, b"", b"", situations, tool, 0)
    runner = importlib.import_module("gemmgen.verification.sanitizers.watched").Runner(job)
    outcome = runner.run()
    assert (outcome.situations, outcome.error) == (2, None) and len(outcome.allocations) == 6
    for one in outcome.allocations:
        base = max(start for start in driver.live if start <= one.address)
        assert one.address - base == (16 if one.situation == 1 else 0)
        assert one.address + one.size == base + driver.live[base].data.size
        fresh = driver.words(one.address, one.size) == 0xEE
        assert fresh.all() == (one.operand == unwritten)
        if one.operand == "A":
            assert fresh.reshape(-1)[12:16].all(), "the padding of A's first line stays as it is"


def test_a_batch_of_doubles_has_allocations_that_end_with_it(driver):
    driver.kernels[BATCH.name] = lambda *arguments, **shape: None
    situation = Situation(DOUBLES.case(beta=1.0), "random", 0)
    job = sanitizer.WatchJob(BATCH, b"", b"", (situation,), "initcheck", 0)
    runner = importlib.import_module("gemmgen.verification.sanitizers.watched").Runner(job)
    outcome = runner.run()
    storages = make_operands(situation).by_name.values()
    assert (outcome.situations, outcome.error) == (1, None)
    for one, matrix, values in zip(outcome.allocations, situation.case.matrices, storages, strict=True):
        base = max(start for start in driver.live if start <= one.address)
        assert one.size == 8 * matrix.elements and one.address + one.size == base + driver.live[base].data.size
        found = driver.words(one.address, one.size).view(np.float64)
        np.testing.assert_array_equal(matrix.view(found), matrix.view(values))
        padding = np.ones(matrix.elements, bool)
        matrix.view(padding)[...] = False
        assert (found[padding].view(np.uint8) == 0xEE).all(), "the padding stays as it is"


@pytest.mark.parametrize("tool", ["memcheck", "initcheck"])
def test_a_workspace_has_allocations_too(driver, tool):
    driver.kernels[SPLIT.name] = lambda *arguments, **shape: None
    situations = tuple(Situation(SMALL, "exact", seed) for seed in (0, 1))
    runner = importlib.import_module("gemmgen.verification.sanitizers.watched").Runner(
        sanitizer.WatchJob(SPLIT, b"", b"", situations, tool, 0)
    )
    outcome = runner.run()
    assert (outcome.situations, outcome.error) == (2, None)
    workspace = SPLIT.launch.workspace(SMALL)
    sizes = {"partials": workspace.partials, "semaphores": 4 * workspace.semaphores}
    ours = [one for one in outcome.allocations if one.operand in sizes]
    assert [one.operand for one in ours] == ["partials", "semaphores"] * 2
    for one in ours:
        base = max(start for start in driver.live if start <= one.address)
        assert one.size == sizes[one.operand]
        assert one.address + one.size == base + driver.live[base].data.size
        assert (driver.words(one.address, one.size) == (0 if one.operand == "semaphores" else 0xEE)).all()


def test_what_cuda_refuses_ends_the_run_with_its_words(driver):
    def refuse(*arguments, **shape):
        raise driver.Error("cuLaunchKernel failed: too many resources")

    driver.kernels[SOURCE.name] = refuse
    job = sanitizer.WatchJob(SOURCE, b"", b"", (Situation(SMALL, "exact", 0),), "memcheck", 0)
    outcome = importlib.import_module("gemmgen.verification.sanitizers.watched").Runner(job).run()
    assert outcome.situations == 0 and "too many resources" in str(outcome.error)


def test_no_situation_starts_after_the_time_for_launches(driver, monkeypatch):
    sanitized = importlib.import_module("gemmgen.verification.sanitizers.watched")
    launched = []
    driver.kernels[SOURCE.name] = lambda *arguments, **shape: launched.append(shape)
    clock = itertools.count(step=sanitizer.LAUNCH_SECONDS / 2)
    monkeypatch.setattr(sanitized.time, "monotonic", lambda: next(clock))
    situations = tuple(Situation(SMALL, "exact", seed) for seed in range(8))
    outcome = sanitized.Runner(sanitizer.WatchJob(SOURCE, b"", b"", situations, "racecheck", 0)).run()
    assert (outcome.situations, outcome.error, len(launched)) == (3, None, 3)


@pytest.mark.parametrize(("most", "allocations"), [(256, 4 + 2 + 4 + 3), (3, 1 + 2 + 1 + 3), (1, 1 + 1 + 1 + 3)])
def test_matrices_behind_pointers_have_allocations_as_far_as_there_are_few(driver, monkeypatch, most, allocations):
    sanitized = importlib.import_module("gemmgen.verification.sanitizers.watched")
    monkeypatch.setattr(sanitized, "MOST_MATRICES", most)
    case = POINTED.case(batch=4, different_b=2, beta=1.0)
    met = []

    def kernel(a, b, c, batch, *scalars, **shape):
        arrays = [driver.words(array, 8 * int(batch)).view(np.uint64) for array in (a, b, c)]
        spans = [matrix.span for matrix in case.matrices]
        met.append(
            [
                [driver.words(int(start), 8 * span).view(np.float64).copy() for start in array]
                for array, span in zip(arrays, spans, strict=True)
            ]
        )

    driver.kernels[POINTERS.name] = kernel
    for tool in ("memcheck", "initcheck"):
        situations = tuple(Situation(case, "exact", seed) for seed in (0, 1))
        outcome = sanitized.Runner(sanitizer.WatchJob(POINTERS, b"", b"", situations, tool, 0)).run()
        assert (outcome.situations, outcome.error, len(outcome.allocations)) == (2, None, 2 * allocations)
        for one in outcome.allocations:
            base = max(start for start in driver.live if start <= one.address)
            assert one.address + one.size == base + driver.live[base].data.size and one.address % 8 == 0
        for situation, found in zip(situations, met[-2:], strict=True):
            operands = make_operands(situation)
            for matrix, values, ours in zip(case.matrices, (operands.a, operands.b, operands.c), found, strict=True):
                want, flat = matrix.view(values), replace(matrix.stored, batch=None)
                assert all((flat.view(some) == want[product]).all() for product, some in enumerate(ours))


def test_what_a_kernel_writes_beside_c_is_an_output_and_its_padding_is_none() -> None:
    case = Problem(5, 6, 7, ldc=9, epilogue="bias+aux+gelu").case()
    operands = make_operands(Situation(case, "exact", 0))
    layout = arena.place(case, 3)
    before = layout.image(operands)
    after = before.copy()
    for name in ("C", "aux"):
        case.tensors[name].view(layout.elements(after, name).view(np.float32))[...] = len(name)
    for name in ("C", "aux"):
        assert (case.c.view(layout.result(before, after, name)) == len(name)).all()
    layout.elements(after, "aux")[6] = 0
    with pytest.raises(CandidateFailed, match="wrote 4 bytes outside C's elements, the first in aux, at element 6"):
        layout.result(before, after, "aux")


def test_a_launch_begins_with_its_largest_magnitudes_at_zero(worker, driver):
    problem = Problem(5, 6, 7, batch=2, epilogue="row_amax")
    source, case, met = render(problem, NAIVE, NAIVE.default(problem)), problem.case(), []

    def kernel(a, b, c, row_amax, *scalars, **shape) -> None:
        met.append(driver.words(row_amax, 4 * 10).view(np.float32).copy())
        driver.words(row_amax, 4 * 10).view(np.float32)[:] = 3

    driver.kernels[source.name] = kernel
    operands = make_operands(Situation(case, "exact", 0))
    given = Given(case, 3, None, operands, None)
    assert (worker.runs.run((source, b"cubin"), given, b"changed", output="row_amax") == 3).all()
    assert np.isnan(operands.extra["row_amax"]).all() and not met[0].any()
    assert kernel_document(source)["zeroed"] == ["row_amax"] and "zeroed" not in kernel_document(SOURCE)


def test_timed_sets_count_all_that_is_written(driver):
    replay = importlib.import_module("gemmgen.run.gpu.sampling")
    case = Problem(64, 64, 64, epilogue="bias+aux+gelu+residual+row_amax").case()
    sets = replay.InputSets(case, MOST_SETS, "uniform", 2, 3000, lambda memory, count, dtype: None)
    matrix, vector = 4 * 64 * 64, 4 * 64
    assert (sets.read_bytes, sets.written_bytes) == (3 * matrix + vector, 2 * matrix + vector)
    first = sets.pointers[0]
    assert {name for name in first if first[name] >= first["A"] + sets.read_bytes} == {"C", "aux", "row_amax"}
    assert first["C"] == first["A"] + sets.read_bytes, "what moves the same bytes writes from C on"
    sets.free()


class SlowChild:
    """Notes how many requests are answered at a time, of all such children."""

    running = True
    at_once: ClassVar[list[int]] = []
    busy = 0

    def request(self, message: tuple[object, ...], timeout: float) -> object:
        SlowChild.busy += 1
        SlowChild.at_once.append(SlowChild.busy)
        sleep(0.002)
        SlowChild.busy -= 1
        return 1.0, 1

    def close(self) -> None:
        pass


def test_executors_that_share_a_card_take_turns(monkeypatch, store):
    monkeypatch.setattr(executor, "why_no_gpu", lambda: None)
    monkeypatch.setattr(executor, "properties_here", lambda device: SimpleNamespace(arch="sm_90", uuid="GPU-1"))
    monkeypatch.setattr(executor.GpuExecutor, "_start", lambda gpu: None)
    monkeypatch.setattr(executor.Child, "start", lambda child: None)
    gpus = [executor.GpuExecutor(store) for _ in range(2)]
    for gpu in gpus:
        gpu._child = SlowChild()
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda number: gpus[number % 2].time_plain(b"", "fma", 0, 0), range(8)))
    for gpu in gpus:
        gpu.close()
    assert SlowChild.at_once == 8 * [1]


@pytest.mark.parametrize(("later", "repeated"), [((), 0), ((1.02,), 1), ((1.02, 1.03, 0.97), 2)])
def test_a_measurement_whose_rounds_drift_is_repeated(worker, monkeypatch, later: tuple[float, ...], repeated: int):
    """`later`: how much longer the last rounds of each attempt take; of a third attempt whatever it finds stands."""
    replay = importlib.import_module("gemmgen.run.gpu.sampling")
    asked, factors = itertools.count(), iter((*later, 1.0))
    factor = 1.0

    def round_of(graphs: list[object], replays: list[int], order: list[int]) -> list[object]:
        nonlocal factor
        number = next(asked) % FINAL.samples
        factor = next(factors) if number == 0 else factor
        slower = factor if number >= FINAL.samples // 2 else 1.0
        return [SimpleNamespace(launches=1, wait_us=lambda us=us: us * slower) for us in (10.0, 20.0)]

    monkeypatch.setattr(replay, "Graph", lambda *_: SimpleNamespace(launches=1, replay=list, free=list))
    monkeypatch.setattr(replay, "_warm_up", lambda *_: ([10.0, 20.0], 0.1))
    monkeypatch.setattr(replay, "_round", round_of)
    monkeypatch.setattr(replay, "_notes", lambda *_: {})
    found = replay.measure([None, None], None, FINAL, None, lambda: Conditions("a card", "580", "host/GPU-1"))
    assert [one.place for one in found] == [0, 1] and all(one.conditions == found[0].conditions for one in found)
    assert found[0].conditions.repeated == repeated and next(asked) == FINAL.samples * (repeated + 1)
    assert found[0].conditions.drift == pytest.approx((*later, 1.0)[repeated] - 1)


def test_algorithms_of_cublaslt_that_come_close_meet_again_for_longer(worker, monkeypatch):
    """The quick contest finds #2 the fastest, and #0 and #1 close to it; #1 is, in the long run."""
    plan, asked = SimpleNamespace(offered=5, enqueue=lambda index, *_: None), []
    runs = {QUICK.name: (10.2, 10.1, 10.0, 12.0, 50.0), FINAL.name: {0: 11.0, 1: 10.5, 2: 10.8}}

    def measured(contestants: list[partial[None]], sets: object, protocol: Protocol) -> list[Timing]:
        asked.append([one.args[0] for one in contestants])
        return [Timing((runs[protocol.name][index],) * 3, {}) for index in asked[-1]]

    monkeypatch.setattr(worker.contest, "_library_plan", lambda *_: plan)
    monkeypatch.setattr(worker.contest, "_measure", measured)
    champion = worker.contest._champion(LARGE, None, None, None)
    assert asked == [[0, 1, 2, 3, 4], [2, 1, 0]]
    assert champion.algorithm == 1 and champion.first.samples_us[0] == 10.2
    assert worker.contest._champion(LARGE, None, None, None) is champion and len(asked) == 2, "held once a case"
