"""Launches on a GPU against a driver that is played: which functions, with what arguments, where and in which order."""

from __future__ import annotations

import ctypes
import gc
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest
from cuda.bindings import driver as cuda

from gemmgen.arrays import card, checked, form, libraries
from gemmgen.arrays import kernel as kernel_module
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.families import SIMT, WGMMA
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TensorMap, tail_lines
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu import bindings
from gemmgen.support.errors import CandidateFailed, InvalidInput
from gemmgen.support.files import Store

OK = cuda.CUresult.CUDA_SUCCESS
SMS = 4
SECOND = 1 << 40  # from here on addresses are those of device 1


class Array:
    """On device 0, at an address that nobody reads."""

    in_c: ClassVar[list[str]] = []  # see the fixture

    def __init__(self, shape: tuple[int, ...], dtype: str = "float32", address: int = 0, strides: Any = None) -> None:
        self.shape, self.dtype, self.address = shape, dtype, address or Array.free(1 << 27)
        self._strides = strides

    _next = 1 << 32

    @classmethod
    def free(cls, size: int) -> int:
        cls._next += size
        return cls._next - size

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "strides": self._strides, "data": (self.address, False)}

    @property
    def T(self) -> Array:
        size = {"float32": 4, "bfloat16": 2}[self.dtype]
        return Array(self.shape[::-1], self.dtype, self.address, (size, size * self.shape[1]))


class Place(NamedTuple):
    type: str = "cuda"
    index: int = 0


class Tensor(Array):
    """As torch's, as far as a call reads it."""

    device, is_cuda, requires_grad, size = Place(), True, False, {"float32": 4, "bfloat16": 2}

    def __init__(self, shape: tuple[int, ...], dtype: str = "float32", address: int = 0, strides: Any = None) -> None:
        super().__init__(shape, sys.intern(dtype), address, strides)

    def get_device(self) -> int:
        return self.device.index

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return self._strides or tuple(math.prod(self.shape[place + 1 :]) for place in range(len(self.shape)))

    @property
    def T(self) -> Tensor:
        return Tensor(self.shape[::-1], self.dtype, self.address, (1, self.shape[1]))


class Parameter(Tensor):
    """A class that is derived from torch's."""


Array.__module__ = Tensor.__module__ = Parameter.__module__ = "played"


class Library:
    name, asynchronous, ordered = "played", True, True
    current, recording = 11, False
    zeroed: ClassVar[list[int]] = []  # streams on which workspaces were made
    written: ClassVar[list[Any]] = []

    def empty(self, shape: tuple[int, ...], dtype: Any, like: Any) -> Array:
        return type(like)(shape, str(dtype.numpy))

    def zeros(self, count: int, like: Any, stream: int) -> Array:
        self.zeroed.append(stream)
        return Array((count,), "uint8")

    def wrote(self, array: Any) -> None:
        self.written.append(array)

    def stream(self, ordinal: int) -> int:
        return self.current

    def capturing(self, stream: int, ordinal: int) -> bool:
        return self.recording


class Driver:
    """Records launches as (function, stream, blocks, arguments' bytes), memory that is set, and waits."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.contexts = [0]
        self.status, self.major = OK, 9
        self.sizes: dict[str, list[int]] = {}
        self.functions = ["none"]  # by their handles
        self.images: list[list[int]] = []  # sizes of maps in im2col mode

    def __getattr__(self, name: str) -> Any:  # types and constants
        return getattr(cuda, name)

    def cuInit(self, flags: int) -> Any:
        return (OK,)

    def cuCtxGetCurrent(self) -> Any:
        return OK, self.contexts[-1]

    def cuCtxGetDevice(self) -> Any:
        return OK, 0

    def cuCtxPushCurrent(self, context: Any) -> Any:
        self.contexts.append(int(context))
        return (OK,)

    def cuCtxPopCurrent(self) -> Any:
        return OK, self.contexts.pop()

    def cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        return OK, 77 + int(device)

    def cuDeviceGetAttribute(self, attribute: Any, device: Any) -> Any:
        kinds = cuda.CUdevice_attribute
        return OK, {
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: self.major,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: 0,
        }.get(attribute, SMS)

    def cuPointerGetAttribute(self, attribute: Any, address: int) -> Any:
        return OK, int(address >= SECOND)

    def cuModuleLoadData(self, cubin: bytes) -> Any:
        self.log.append(("module", self.contexts[-1]))
        return OK, "module"

    def cuModuleGetFunction(self, module: str, name: bytes) -> Any:
        self.functions.append(name.decode())
        return OK, len(self.functions) - 1

    def cuFuncSetAttribute(self, *given: Any) -> Any:
        return (OK,)

    def entry(self, name: str) -> Any:
        """As `bindings.entry`: what is called by ctypes."""
        return getattr(self, f"_{name}")

    def _cuTensorMapEncodeTiled(self, to: Any, dtype: Any, rank: Any, address: Any, sizes: Any, *others: Any) -> int:
        assert address.value, "no map is of address 0"
        assert to.value % 64 == 0 and rank.value == len(sizes)
        (ctypes.c_uint64 * (1 + len(sizes))).from_address(to.value)[:] = [address.value, *sizes]
        return int(OK)

    def _cuTensorMapEncodeIm2col(self, *given: Any) -> int:
        self.images.append([*given[4]])
        return self._cuTensorMapEncodeTiled(*given)

    def _cuLaunchKernelEx(self, config: Any, function: Any, parameters: Any, extra: Any) -> int:
        name, taken = self.functions[function.value], bindings.Moving.from_address(config.value)
        sizes = self.sizes[name]
        at = (ctypes.c_void_p * len(sizes)).from_address(parameters.value)
        values = [ctypes.string_at(address, size) for address, size in zip(at, sizes, strict=True)]
        self.log.append((name, taken.stream, taken.blocks, values))
        return int(self.status)

    def cuMemsetD32Async(self, address: int, value: int, words: int, stream: Any) -> Any:
        self.log.append(("memset", address, value, words, int(stream)))
        return (OK,)

    def cuStreamSynchronize(self, stream: Any) -> Any:
        self.log.append(("wait", int(stream)))
        return (OK,)

    @property
    def launches(self) -> list[tuple[Any, ...]]:
        return [entry for entry in self.log if len(entry) == 4]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    played = Driver()
    for module in (card, form, bindings):
        monkeypatch.setattr(module, "driver", played)
    monkeypatch.setattr(bindings, "entry", played.entry)
    monkeypatch.setattr(card, "compile_kernel", lambda *given: SimpleNamespace(cubin=b""))
    monkeypatch.setitem(libraries.KINDS, "played", Library)
    monkeypatch.setitem(sys.modules, "played", ModuleType("played"))
    monkeypatch.setattr(Library, "current", 11)
    monkeypatch.setattr(Library, "recording", False)
    monkeypatch.setattr(Library, "ordered", True)
    monkeypatch.setattr(Library, "zeroed", [])
    monkeypatch.setattr(Library, "written", [])
    caches = (form.primary, form.context_of, bindings.encoded)
    for cached in caches:
        cached.cache_clear()
    yield played
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def in_c(driver: Driver, fastcalls: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Known calls on a `Tensor` are made by fastcall.c, in the primary context: what it asked of the driver."""
    asked: list[str] = []

    def current(to: int) -> int:
        ctypes.c_uint64.from_address(to).value = driver.contexts[-1]
        return int(OK)

    def launch(*given: int | None) -> int:
        asked.append("launch")
        return driver._cuLaunchKernelEx(*map(ctypes.c_void_p, given))

    def encode(to: int, dtype: int, rank: int, at: int, sizes: int, strides: int, box: int, *others: Any) -> int:
        ctypes.memset(to, 0, 128)
        arrays = (ctypes.c_uint64 * rank).from_address(sizes), strides, (ctypes.c_uint32 * rank).from_address(box)
        return driver._cuTensorMapEncodeTiled(*map(ctypes.c_void_p, (to, dtype, rank, at)), *arrays, *others)

    whole, word = ctypes.c_void_p, ctypes.c_int
    kinds = {
        "cuCtxGetCurrent": (current, whole),
        "cuLaunchKernelEx": (launch, *[whole] * 4),
        "cuTensorMapEncodeTiled": (encode, whole, word, word, *[whole] * 5, *[word] * 4),
    }
    functions = {name: ctypes.CFUNCTYPE(word, *types)(function) for name, (function, *types) in kinds.items()}
    monkeypatch.setattr(form, "pointer", lambda name: ctypes.cast(functions[name], whole).value)
    monkeypatch.setattr(card, "native", lambda store: fastcalls)
    monkeypatch.setattr(kernel_module, "tensor_type", lambda: Tensor)
    monkeypatch.setattr(Library, "name", "torch")
    driver.contexts = [77]
    driver.functions_in_c = functions
    return asked


@pytest.fixture
def loaded(driver: Driver, store: Store) -> Callable[[KernelSource], ArrayKernel]:
    def load(source: KernelSource) -> ArrayKernel:
        for step in source.program:
            sizes = {"int": 4, "float": 4, "long long": 8}
            driver.sizes[step.name] = [
                128 if p.is_map else 8 if p.is_pointer else sizes[p.ctype] for p in step.parameters
            ]
        return ArrayKernel(source, card.CardBackend(source, store))

    return load


@pytest.fixture(params=["Python", "C"])
def kind(request: pytest.FixtureRequest) -> type[Array]:
    """Of a call's arrays: known calls on a Tensor are made by fastcall.c."""
    if request.param == "C":
        Tensor.in_c = request.getfixturevalue("in_c")
    return Tensor if request.param == "C" else Array


def simt(*sizes: int | None, split: int = 1, **fields: Any) -> KernelSource:
    problem = Problem(*sizes, **fields)
    return render(problem, SIMT, SIMT.default(problem).with_values(SPLIT=split))


def address(value: bytes) -> int:
    return int.from_bytes(value[:8], "little")


def test_a_call_passes_addresses_and_sizes_on_the_current_stream(driver, loaded) -> None:
    kernel = loaded(simt(None, 64, 32, layout="rc"))
    a, w = Array((100, 32)), Array((64, 32))
    out = kernel(a, w.T)
    assert out.shape == (100, 64) and out.dtype == "float32"
    (_, stream, blocks, values), case = driver.launches[0], kernel.source.problem.case(100)
    assert (stream, blocks) == (11, kernel.source.launch.blocks(case))
    assert [address(one) for one in values[:4]] == [a.address, w.address, out.address, 100]
    other = Array((100, 32))
    kernel(other, w.T, out, stream=5)
    kernel(other, w.T, out, stream=SimpleNamespace(cuda_stream=6))
    assert [(entry[1], address(entry[3][0])) for entry in driver.launches[1:]] == [
        (5, other.address),
        (6, other.address),
    ]
    assert driver.log.count(("module", 77)) == 1, "the primary context, where none is current"
    assert driver.contexts == [0], "as it was"


def test_a_known_call_is_made_in_c_and_what_is_unusual_is_not(driver, loaded, in_c, monkeypatch) -> None:
    kernel = loaded(wgmma(epilogue="bias_m+aux"))
    w, bias = Tensor((64, 64), "bfloat16").T, Tensor((64,))

    def call(rows: int = 64, **change: Any) -> int:
        """How many launches of it were made in C; one is made anyway."""
        before, launches = in_c.count("launch"), len(driver.launches)
        given = {"a": Tensor((rows, 64), "bfloat16"), "b": w, "out": Tensor((rows, 64), "bfloat16")}
        given |= {"bias_m": Tensor((rows,)), "aux": Tensor((rows, 64))} | change
        Library.written.clear()
        found = kernel(**given)
        assert found is given["out"] or given["out"] is None
        assert Library.written == ([given["out"]] if given["out"] is not None else []) + [given["aux"]]
        assert len(driver.launches) == launches + 1
        return in_c.count("launch") - before

    assert [call(rows) for rows in (64, 64, 65, 1, 1, 3000)] == [0, 1, 1, 0, 1, 1]
    assert [call(out=None) for _ in range(3)] == [0, 1, 1]
    assert call(stream=5) == 1 and driver.launches[-1][1] == 5
    assert call(stream=SimpleNamespace(cuda_stream=6)) == 0 and driver.launches[-1][1] == 6
    driver.contexts = [78]
    assert [call(), call()] == [0, 0], "what it knows is of the context of the first call"
    driver.contexts = [77]
    assert call(bias_m=bias) == 1
    far = [Tensor((64, 64), "bfloat16") for _ in range(2)]
    for one in far:
        one.device = Place(index=1)
    with pytest.raises(InvalidInput, match="and A on cuda:1"):
        call(a=far[0])
    wide = Tensor((64, 64), "bfloat16", strides=(72, 1))
    with pytest.raises(InvalidInput, match="lda = 72"):
        call(a=wide)
    assert [call(a=Parameter((64, 64), "bfloat16")) for _ in range(2)] == [0, 0], "its class may read otherwise"
    learning = Tensor((64, 64), "bfloat16")
    learning.requires_grad = True
    monkeypatch.setattr(checked, "records_gradients", lambda: False)
    assert [call(a=learning), call(a=learning)] == [0, 0]
    monkeypatch.setattr(checked, "records_gradients", lambda: True)
    with pytest.raises(InvalidInput, match="A requires a gradient"):
        call(a=learning)
    with pytest.raises(InvalidInput, match="no argument is called bias_n"):
        call(bias_n=bias)
    shape = SIZE_LIMIT + 1, 64
    kinds = {"a": "bfloat16", "out": "bfloat16", "aux": "float32"}
    large = {name: Tensor(shape, kind, place << 45) for place, (name, kind) in enumerate(kinds.items(), 1)}
    with pytest.raises(InvalidInput, match=f"exceeds {SIZE_LIMIT}"):
        call(SIZE_LIMIT + 1, **large)


def test_a_launch_that_fails_in_c_fails_in_python_which_says_why(driver, loaded, in_c) -> None:
    kernel, (a, b, c) = loaded(simt(64, 64, 64)), (Tensor((64, 64)) for _ in range(3))
    kernel(a, b, c)
    driver.status = cuda.CUresult.CUDA_ERROR_INVALID_HANDLE
    with pytest.raises(CandidateFailed, match="CUDA_ERROR_INVALID_HANDLE"):
        kernel(a, b, c)
    assert in_c == ["launch"] and len(driver.launches) == 3


def test_a_kernel_that_is_closed_knows_no_call(driver, loaded, in_c) -> None:
    kernel, given = loaded(simt(64, 64, 64)), [Tensor((64, 64)) for _ in range(3)]
    kernel(*given)
    kernel.close()
    kernel(*given)
    assert in_c == []


def test_blocks_and_maps_are_those_of_each_call_in_c(driver, loaded, in_c) -> None:
    """Of more places and numbers of rows than it keeps, and of those that it keeps."""
    kernel, w = loaded(wgmma()), Tensor((64, 64), "bfloat16").T
    problem, launch = kernel.source.problem, kernel.source.launch
    maps, places = (
        [one.operand for one in launch.maps],
        [(Array.free(1 << 27), Array.free(1 << 27)) for _ in range(300)],
    )
    first, many = places[0], range(2, 30000, 97)
    for rows, (at_a, at_c) in [*((rows, first) for rows in many), *((64, one) for one in places)] * 2:
        a, out = Tensor((rows, 64), "bfloat16", at_a), Tensor((rows, 64), "bfloat16", at_c)
        kernel(a, w, out)
        _, _, blocks, values = driver.launches[-1]
        for operand, value in zip(maps, values, strict=False):
            one, lines = {"A": (a, rows), "B": (w, 64), "C": (out, rows)}[operand]
            assert (address(value), address(value[16:])) == (one.address, lines)
        assert blocks == bindings.blocks_on(launch, problem.case(rows).values, SMS)
        driver.log.clear()
    assert len(in_c) == 2 * (len(many) + len(places)) - 1


def test_each_number_of_rows_has_its_blocks_in_c(driver, loaded, in_c) -> None:
    kernel, w = loaded(simt(None, 64, 64, layout="rc")), Tensor((64, 64)).T
    for rows in [*range(2, 30000, 97)] * 2:
        kernel(Tensor((rows, 64)), w, Tensor((rows, 64)))
        assert driver.launches[-1][2] == kernel.source.launch.blocks(kernel.source.problem.case(rows))
        driver.log.clear()
    assert len(in_c) == 2 * len(range(2, 30000, 97)) - 1


def test_what_was_planned_alone_is_launched_in_python_first(driver, loaded, in_c) -> None:
    kernel, given = loaded(simt(None, 64, 64, layout="rc")), (Tensor((9, 64)), Tensor((64, 64)).T, Tensor((9, 64)))
    kernel.plan(*given)
    (known,) = kernel._known.values()
    with pytest.raises(LookupError):
        kernel.direct(known)
    for _ in range(2):
        kernel(*given)
    assert in_c == ["launch"]


def test_calls_of_threads_do_not_mix_their_arguments_in_c(driver, loaded, in_c) -> None:
    kernel, w = loaded(simt(None, 64, 64, layout="rc")), Tensor((64, 64)).T
    kernel(Tensor((2, 64)), w, Tensor((2, 64)))
    calls = [[(Tensor((rows, 64)), Tensor((rows, 64))) for _ in range(50)] for rows in (3, 4, 5)]

    def call(pairs: list[tuple[Tensor, Tensor]]) -> None:
        for a, out in pairs:
            kernel(a, w, out)

    threads = [threading.Thread(target=call, args=(one,)) for one in calls]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    wanted = sorted((a.address, w.address, out.address, a.shape[0]) for one in calls for a, out in one)
    assert sorted(tuple(map(address, entry[3][:4])) for entry in driver.launches[1:]) == wanted
    assert len(in_c) == len(wanted)


def test_known_calls_hold_neither_arrays_nor_their_kernel(driver, loaded, in_c) -> None:
    kernel, a, w = loaded(simt(None, 64, 64, layout="rc", epilogue="bias")), Tensor((9, 64)), Tensor((64, 64)).T
    bias, out, stream = Tensor((64,)), Tensor((9, 64)), 1 << 40

    def counts() -> list[int]:
        driver.log.clear()
        Library.written.clear()
        return [sys.getrefcount(one) for one in (a, w, bias, out, Tensor, a.dtype, stream, *known)]

    kernel(a, w, out, bias_n=bias)
    known = [*kernel._known.values()]
    before = counts()
    for _ in range(100):
        kernel(a, w, out, bias_n=bias)
        kernel(a, w, out, bias_n=bias, stream=stream)
    assert len(in_c) == 200 and counts() == before
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_nothing_is_launched_for_an_empty_result(driver, loaded) -> None:
    kernel, w = loaded(simt(None, 64, 32, layout="rc")), Array((64, 32))
    out = kernel(Array((0, 32), address=None), w.T)
    assert out.shape == (0, 64) and kernel.plan(Array((0, 32)), w.T)().shape == (0, 64)
    assert driver.launches == []
    most = Array((64,))
    loaded(simt(None, 64, 64, epilogue="column_amax(alpha * acc)"))(Array((0, 64)), Array((64, 64)), column_amax=most)
    assert driver.log[-1] == ("memset", most.address, 0, 64, 11) and driver.launches == []


def test_a_context_that_is_current_is_the_callers(driver, loaded) -> None:
    kernel = loaded(simt(64, 64, 64))
    driver.contexts = [5]
    kernel(Array((64, 64)), Array((64, 64)))
    driver.contexts = [6]
    kernel(Array((64, 64)), Array((64, 64)))
    assert [entry for entry in driver.log if entry[0] == "module"] == [("module", 5), ("module", 6)]


def test_arrays_are_on_one_device_and_launches_in_its_context(driver, loaded) -> None:
    kernel = loaded(simt(64, 64, 64))
    kernel(Array((64, 64)), Array((64, 64)))
    far = [Array((64, 64), address=SECOND + place * 2**20) for place in range(3)]
    kernel(*far)
    assert [entry for entry in driver.log if entry[0] == "module"] == [("module", 77), ("module", 78)]
    with pytest.raises(InvalidInput, match="B is on cuda:1, and A on cuda:0"):
        kernel(Array((64, 64)), far[1])


def test_streams_have_workspaces_of_their_own_and_grow_them(driver, loaded) -> None:
    kernel = loaded(simt(None, 64, 4096, layout="rc", split=4))
    place = [one.name for one in kernel.source.parameters].index("semaphores")

    def semaphores(m: int, stream: int) -> int:
        kernel(Array((m, 4096)), Array((64, 4096)).T, stream=stream)
        return address(driver.launches[-1][3][place])

    first = semaphores(64, 1)
    assert semaphores(64, 1) == first != semaphores(64, 2)
    grown = semaphores(64 * 64, 1)
    assert grown != first and semaphores(64, 1) == grown
    assert Library.zeroed == [1, 1, 2, 2, 1, 1], "it is the stream's, which sets it to zero itself"
    assert not any(entry[0] == "wait" for entry in driver.log)
    a, b = Array((64, 4096)), Array((64, 4096)).T
    plans = [kernel.plan(a, b) for _ in range(2)]
    assert Library.zeroed[6:] == [11] * 4 and driver.log.count(("wait", 11)) == 2, "any stream may run a plan"
    seen = {address((plan(), driver.launches[-1])[1][3][place]) for plan in plans}
    assert len(seen | {grown}) == 3, "so has a plan"
    Library.recording = True
    assert semaphores(64, 1) not in {*seen, grown}, "and a graph"


def test_a_workspace_that_grows_waits_for_its_stream_where_the_library_orders_no_memory(driver, loaded) -> None:
    Library.ordered = False
    kernel = loaded(simt(None, 64, 4096, layout="rc", split=4))
    w = Array((64, 4096)).T
    for m in (64, 64, 64 * 64):
        kernel(Array((m, 4096)), w, stream=5)
    kinds = [entry[:2] if entry[0] == "wait" else "launch" for entry in driver.log if entry[0] != "module"]
    zeroed, grown = [("wait", 0)] * 2, [("wait", 5), ("wait", 0)] * 2
    assert kinds == [*zeroed, "launch", "launch", *grown, "launch"]


def test_calls_of_threads_that_share_a_stream_do_not_share_a_workspace_at_once(driver, loaded) -> None:
    """The launch of a small product comes before the workspace grows under it, or after."""
    kernel, w = loaded(simt(None, 64, 4096, layout="rc", split=4)), Array((64, 4096)).T
    places = [one.name for one in kernel.source.parameters]
    inside, order = threading.Event(), []
    zeros = Library.zeros

    def slow(library: Library, count: int, like: Any, stream: int) -> Array:
        inside.set()
        time.sleep(0.05)
        order.append(count)
        return zeros(library, count, like, stream)

    kernel(Array((64, 4096)), w, stream=5)
    known = address(driver.launches[-1][3][places.index("semaphores")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Library, "zeros", slow)
        growing = threading.Thread(target=lambda: kernel(Array((64 * 64, 4096)), w, stream=5))
        growing.start()
        inside.wait(10)
        kernel(Array((64, 4096)), w, stream=5)
        growing.join()
    large, small = (address(entry[3][places.index("semaphores")]) for entry in driver.launches[-2:])
    assert len(order) == 2 and large == small != known, "the second call waits, and gets the memory that has grown"


def test_maxima_are_zero_before_each_launch(driver, loaded) -> None:
    kernel = loaded(simt(64, 64, 64, epilogue="row_amax(alpha * acc)"))
    most = Array((64,))
    plan = kernel.plan(Array((64, 64)), Array((64, 64)), row_amax=most)
    for _ in range(2):
        plan()
    assert Library.written == [most] * 2, "what was there before"
    kinds = [entry[0] if entry[0] == "memset" else "launch" for entry in driver.log if entry[0] != "module"]
    assert kinds == ["memset", "launch"] * 2
    assert ("memset", most.address, 0, 64, 11) in driver.log


def test_maps_are_of_the_operands_and_a_weight_is_prepared_once(driver, loaded) -> None:
    problem = Problem(None, 64, 100, "bf16", layout="rr", pointer_align=2)
    kernel = loaded(render(problem, WGMMA, WGMMA.default(problem)))
    prepares, own = [step.name for step in kernel.source.program[:-1]], kernel.name
    a, b = Array((200, 100), "bfloat16"), Array((100, 64), "bfloat16")
    kernel(a, b)
    assert [entry[0] for entry in driver.launches] == [*prepares, own]
    assert driver.launches[-1][2] <= SMS, "a persistent kernel has as many blocks as the device has SMs"
    names = [one.name for one in kernel.source.parameters]
    driver.log.clear()
    packed = kernel.prepare_b(b)
    assert [address(entry[3][0]) for entry in driver.launches] == [b.address]
    kernel(a, packed)
    assert [entry[0] for entry in driver.launches[1:]] == [f"{own}_prepare_a_kernel", own]
    assert address(driver.launches[-1][3][names.index("map_b")]) == packed.array.address
    with pytest.raises(InvalidInput, match="nothing to prepare"):
        loaded(simt(64, 64, 64)).prepare_b(Array((64, 64)))


def test_a_weight_that_is_prepared_once_comes_with_the_sums_that_zero_points_take(driver, loaded) -> None:
    problem = Problem(None, 64, 100, types="u8,s8,s32", layout="rr", epilogue="zero_a+zero_b")
    kernel = loaded(render(problem, WGMMA, WGMMA.default(problem)))
    own, names = kernel.name, [one.name for one in kernel.source.parameters]
    a, b, zero = Array((200, 100), "uint8"), Array((100, 64), "int8"), Array((1,), "int32")
    packed = kernel.prepare_b(b)
    assert [entry[0] for entry in driver.launches] == [f"{own}_prepare_b_kernel", f"{own}_sum_b_kernel"]
    assert [address(one) for one in driver.launches[1][3][:2]] == [packed.array.address, packed.sums.address]
    driver.log.clear()
    kernel(a, packed, zero_a=zero, zero_b=zero)
    assert [entry[0] for entry in driver.launches] == [f"{own}_prepare_a_kernel", f"{own}_sum_a_kernel", own]
    assert address(driver.launches[-1][3][names.index("sums_b")]) == packed.sums.address
    plain = Problem(None, 64, 100, types="u8,s8,s32", layout="rr")
    with pytest.raises(
        InvalidInput, match=r"whole 16 bytes and their sums, and .* takes it as s8 columns of whole 16 b"
    ):
        loaded(render(plain, WGMMA, WGMMA.default(plain)))(a, packed)


def test_what_the_driver_refuses_is_a_failed_launch(driver, loaded) -> None:
    kernel = loaded(simt(64, 64, 64))
    plan = kernel.plan(Array((64, 64)), Array((64, 64)))
    driver.status = cuda.CUresult.CUDA_ERROR_INVALID_HANDLE
    with pytest.raises(
        CandidateFailed, match="CUDA_ERROR_INVALID_HANDLE: the launch belongs to device 0, whose context"
    ):
        plan()
    with pytest.raises(InvalidInput, match="stream = 'main' is no stream"):
        plan(stream="main")


def test_a_kernel_of_one_architecture_is_refused_on_another(driver, loaded) -> None:
    driver.major = 10
    problem = Problem(128, 128, 64, "bf16", layout="rc")
    kernel = loaded(render(problem, WGMMA, WGMMA.default(problem)))
    with pytest.raises(InvalidInput, match="is for sm_90a alone, and device 0 is of sm_100"):
        kernel(Array((128, 64), "bfloat16"), Array((128, 64), "bfloat16").T)


def wgmma(layout: str = "rc", types: str = "bf16", **fields: Any) -> KernelSource:
    problem = Problem(None, 64, 64, layout=layout, types=types, **fields)
    return render(problem, WGMMA, WGMMA.default(problem))


OPEN: dict[str, KernelSource] = {
    "plain": simt(None, 64, 64, layout="rc"),
    "split": simt(None, 64, 4096, layout="rc", split=4),
    "maxima": simt(None, 64, 64, layout="rc", epilogue="row_amax(alpha * acc)"),
    "maps": wgmma(),
    "a map of a matrix": wgmma(epilogue="bias_m+residual"),
    "copy of B": wgmma("rr", "s8,s8,s32"),
    "copies": wgmma("rr", pointer_align=2),
    "groups of rows": wgmma("rr", inputs="groups=40"),
}


@pytest.mark.parametrize("name", OPEN)
def test_launches_with_another_m_are_those_of_a_kernel_that_saw_no_other(
    driver, loaded, kind, monkeypatch, name: str
) -> None:
    source, parts, zeros = OPEN[name], [], Library.zeros
    monkeypatch.setattr(Library, "zeros", lambda *given: parts.append(zeros(*given)) or parts[-1])
    problem, kernel = source.problem, loaded(source)
    n, k, dtype, of_c = 64, problem.k, str(problem.types.a.numpy), str(problem.types.c.numpy)

    def placed(value: bytes) -> bytes:
        """An argument, of a part of the workspace whatever its address is."""
        inside = any(0 <= address(value) - one.address < one.shape[0] for one in parts)
        return b"a part" + value[8:] if inside else value

    def launched(kernel: ArrayKernel, arrays: dict[str, Any]) -> list[Any]:
        driver.log.clear()
        kernel(**arrays)
        entries = [entry for entry in driver.log if entry[0] not in ("module", "wait")]
        return [(*entry[:3], [*map(placed, entry[3])]) if len(entry) == 4 else entry for entry in entries]

    for m in (64, 300, 2, 64, 1, 129, 300, 4000, 63, 40, 65):
        groups = [problem.inputs.groups] * bool(problem.inputs.groups)
        b = kind((n, k), dtype).T if problem.layout.b == "c" else kind((*groups, k, n), dtype)
        arrays = {"a": kind((m, k), dtype), "b": b, "out": kind((m, n), of_c)}
        kinds = {"bias_m": (m,), "residual": (m, n), "row_amax": (m,)}
        arrays |= {one.name: kind(kinds[one.name]) for one in problem.epilogue.operands}
        arrays |= {one.name: kind((*groups,), "int32") for one in problem.companions}
        assert launched(kernel, arrays) == launched(loaded(source), arrays)
    alone = name in ("plain", "maps", "a map of a matrix", "groups of rows")
    assert kind.in_c.count("launch") == (9 if kind is Tensor and alone else 0)


def test_maps_of_images_are_encoded_for_their_number_in_python(driver, loaded, kind) -> None:
    conv = "5x6x16_3x3_p1x1"
    problem = Problem(None, 64, 144, "bf16", layout="rc", inputs=f"im2col={conv}")
    kernel = loaded(render(problem, WGMMA, WGMMA.default(problem)))
    w, filters = kind((64, 144), "bfloat16").T, kind((64, 3, 3, 16), "bfloat16")
    for _ in range(2):
        for count in (2, 7):
            matrices = kind((count * 30, 16), "bfloat16"), w, kind((count * 30, 64), "bfloat16")
            images = kind((count, 5, 6, 16), "bfloat16"), filters, kind((count, 5, 6, 64), "bfloat16")
            for arrays in (matrices, images):
                driver.images.clear()
                kernel(*arrays)
                assert driver.images == [[16, 6, 5, count]]
                at = [address(value) for value in driver.launches[-1][3]]
                assert {one.address for one in arrays} <= set(at)
    assert kernel(*images[:2]).shape == (7, 5, 6, 64)
    assert not kind.in_c.count("launch")


def test_a_map_is_encoded_once_for_each_place_and_number_of_rows(driver, loaded, kind, monkeypatch) -> None:
    encoded: list[tuple[int, int, int]] = []
    encode = driver._cuTensorMapEncodeTiled
    monkeypatch.setattr(
        driver,
        "_cuTensorMapEncodeTiled",
        lambda to, dtype, rank, address, sizes, strides, box, *others: (
            encoded.append((address.value, sizes[1], box[1]))
            or encode(to, dtype, rank, address, sizes, strides, box, *others)
        ),
    )
    kernel = loaded(wgmma())
    a, w, out = kind((300, 64), "bfloat16"), kind((64, 64), "bfloat16"), kind((300, 64), "bfloat16")
    for rows in (300, 20, 300, 20):
        kernel(*(kind((rows, 64), "bfloat16", one.address) if one is not w else w.T for one in (a, w, out)))
    maps, given = kernel.source.launch.maps, {"A": a, "B": w, "C": out}

    def of(one: TensorMap, rows: int) -> tuple[int, int, int]:
        lines = 64 if one.operand == "B" else rows
        return given[one.operand].address, lines, tail_lines(lines, one.box[1]) if one.tail else one.box[1]

    wanted = [of(one, rows) for rows in (300, 20) for one in maps]
    again = wanted[: len(maps)] if kind is Tensor else []  # the first call is made in Python
    assert any(one.tail for one in maps)
    assert sorted(encoded) == sorted([*set(wanted), *again])


def test_what_changes_from_launch_to_launch_lies_where_cuda_reads_it() -> None:
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.sharedMemBytes, config.hStream = 5, 6, cuda.CUstream(1 << 40)
    moving = bindings.Moving.from_address(config.getPtr())
    assert (moving.blocks, moving.stream) == (5, 1 << 40)
    moving.blocks, moving.stream = 7, 8
    assert (config.gridDimX, config.sharedMemBytes, int(config.hStream)) == (7, 6, 8)
