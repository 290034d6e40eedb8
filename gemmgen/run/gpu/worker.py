"""The child's side of the gpu executor: owns pycuda and the primary context, answers the parent's requests.

A request is (verb, *arguments) with plain data; each public method of Worker is a verb. A CUDA error after a
launch may have poisoned the context, so one that nobody expected ends this process (FatalFailure) and the parent
starts another.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pycuda.driver as cuda

from gemmgen.kernel.prepare import PREPARED
from gemmgen.kernel.source import WORKSPACE, KernelSource
from gemmgen.problem.case import Case
from gemmgen.problem.dtype import CANARY, WORD, DType
from gemmgen.run.executor import Floats, Operands
from gemmgen.run.gpu import arena
from gemmgen.run.gpu.bindings import DriverError
from gemmgen.run.gpu.cublas import BatchedPlan, Cublas
from gemmgen.run.gpu.cublaslt import Cublaslt, LtPlan
from gemmgen.run.gpu.images import Images
from gemmgen.run.gpu.launching import Pointers, launch, load_program
from gemmgen.run.gpu.lt_epilogue import LEFT, product_before
from gemmgen.run.gpu.multiplier import Multiplier
from gemmgen.run.gpu.plain import THREADS
from gemmgen.run.gpu.properties import DeviceProperties
from gemmgen.run.gpu.replay import Enqueue, InputSets, allocate, measure
from gemmgen.run.gpu.timing import FINAL, GEMM_BATCHED, QUICK, Baseline, InterleavedTimings, Protocol, Timing
from gemmgen.support.child import FatalFailure
from gemmgen.support.errors import CandidateFailed, Failure, NoBaseline

PLAIN_BLOCKS_PER_SM = 8  # of the kernels that are no products
PLAIN_SAMPLES = 9
MOVER_BLOCKS_PER_SM = (1, 2, 4, 8, 16)  # that are tried, of what moves bytes alone
VECTOR_BYTES = 16  # of its accesses
IMAGES_BYTES = 8 * 2**30  # of device memory for images of operands that are kept, and at most
IMAGES_SHARE = 4  # a quarter of it

Binary = tuple[KernelSource, bytes]  # a kernel and its cubin


class FollowedPlan:
    """A library's product, and behind each launch of it another kernel's. It goes to C, or to memory `between`."""

    def __init__(self, product: LtPlan | BatchedPlan, follow: Enqueue, between: Any = None) -> None:
        self._product, self._follow, self._between = product, follow, between
        self.offered = product.offered

    def enqueue(self, algorithm: int, pointers: Pointers, stream: Any) -> None:
        """Put both on `stream`. Raises CandidateFailed (launch)."""
        to = pointers["C"] if self._between is None else int(self._between)
        self._product.enqueue(algorithm, {**pointers, "C": to}, stream)
        self._follow({**pointers, LEFT: to}, stream)


@dataclass(frozen=True)
class Champion:
    """The library's fastest algorithm for a case, and how long its first heuristic took."""

    plan: LtPlan | BatchedPlan | FollowedPlan
    algorithm: int
    first: Timing


class Scratch:
    """Device memory that only grows."""

    def __init__(self) -> None:
        self._memory: Any = None
        self._size = 0

    @property
    def address(self) -> int:
        return 0 if self._memory is None else int(self._memory)

    def reserve(self, size: int) -> None:
        """Bytes, a multiple of 4."""
        if size > self._size:
            if self._memory is not None:
                self._memory.free()
                self._memory, self._size = None, 0
            self._memory = allocate(size)
            self._size = size

    def clear(self) -> None:
        if self._memory is not None:
            cuda.memset_d32(self._memory, 0, self._size // WORD)


class Arrays:
    """A batch's arrays of pointers on the device, between guard words."""

    def __init__(self, layout: arena.PointerArena) -> None:
        self._layout, self._memory = layout, allocate(layout.image.nbytes)
        cuda.memcpy_htod(self._memory, layout.image)
        self.pointers = {name: int(self._memory) + offset for name, offset in layout.offsets.items()}

    def check(self) -> None:
        """Raises CandidateFailed (crash) where they are not what they were."""
        after = np.empty_like(self._layout.image)
        cuda.memcpy_dtoh(after, self._memory)
        self._layout.check(after)


class Worker:
    """Answers requests on device `index`. Modules and input sets stay loaded between them."""

    def __init__(self, index: str) -> None:
        cuda.init()
        self._device = cuda.Device(int(index))
        self._device.retain_primary_context().push()
        self._stream = cuda.Stream()
        self._functions: dict[tuple[object, ...], tuple[Any, ...]] = {}
        self._images = Images(min(IMAGES_BYTES, self._device.total_memory() // IMAGES_SHARE))
        self._changed: Any = None
        self._multiplier: Multiplier | None = None
        self._results: dict[str, npt.NDArray[np.uint8]] = {}  # the file of large ones, mapped, by its path
        self._sets: InputSets | None = None
        self._champions: dict[Case, Champion] = {}
        self._movers: dict[Case, Enqueue] = {}
        self._libraries: dict[type[Cublaslt] | type[Cublas], Cublaslt | Cublas] = {}
        self._workspace = {name: Scratch() for name in (*WORKSPACE, *PREPARED)}  # semaphores are zero between launches

    def __call__(self, message: tuple[Any, ...]) -> Any:
        verb, *arguments = message
        try:
            return getattr(self, verb)(*arguments)
        except (cuda.Error, DriverError) as error:
            raise FatalFailure(Failure("crash", str(error), "gpu")) from error

    # Verbs

    def properties(self) -> DeviceProperties:
        device = self._device
        major, minor = device.compute_capability()
        return DeviceProperties(
            name=device.name(),
            arch=f"sm_{major}{minor}",
            driver=_driver_version(),
            sms=device.multiprocessor_count,
            memory_bytes=device.total_memory(),
            l2_bytes=device.l2_cache_size,
            clock_mhz=device.clock_rate / 1e3,
            shared_bytes_per_block=device.max_shared_memory_per_block_optin,
            shared_bytes_per_sm=device.max_shared_memory_per_multiprocessor,
            registers_per_sm=device.max_registers_per_multiprocessor,
            threads_per_sm=device.max_threads_per_multiprocessor,
        )

    def load(self, binary: Binary) -> None:
        """Load the module and ask for its shared memory. Raises CandidateFailed: launch."""
        self._program(binary)

    def unload(self, source: KernelSource) -> None:
        self._functions.pop(_identity(source), None)

    def run(
        self,
        binary: Binary,
        case: Case,
        seed: int,
        key: arena.ImageKey | None,
        operands: Operands | None,
        changed: bytes,
        results: str | None,
        output: str = "C",
    ) -> Floats | int | None:
        """The storage of C, or of another `output`, after one launch between guard bands.

        Raises CandidateFailed: launch or crash.

        `operands` may be left out where their image is kept under `key`; None asks for them. `changed` is the cubin
        of changed.cu. A large result goes into the file `results`, and its count of elements is the answer.
        """
        enqueue, layout = self._launcher(binary, case), arena.place(case, seed)
        workspace = arena.place_workspace(binary[0].launch, case, seed)
        image = self._with_room(lambda: self._images.get(key, layout, operands))
        if image is None:
            return None
        memory = self._with_room(lambda: allocate(layout.size), spare=key)
        cuda.memcpy_dtod(memory, image, layout.size)
        base = int(memory)
        arrays = self._arrays(layout, base, seed, spare=key)
        pointers = _pointers(layout, base, arrays)
        if workspace is None:
            self._try_once(enqueue, pointers)
        else:
            self._try_in_workspace(enqueue, pointers, workspace, spare=key)
        self._check(arrays)
        if case.problem.epilogue.outputs or self._count_changed(changed, layout, image, memory):
            before, after = (np.empty(layout.size // WORD, np.uint32) for _ in range(2))
            cuda.memcpy_dtoh(before, image)
            cuda.memcpy_dtoh(after, memory)
            with self._images_distrusted():
                return layout.result(before, after, output)  # raises where more was written, and says what
        return self._deliver(base + layout.offsets["C"], layout, results)

    def multiply(
        self,
        case: Case,
        seed: int,
        key: arena.ImageKey | None,
        operands: Operands | None,
        cubin: bytes,
        results: str,
        sizes: bool,
    ) -> int | None:
        """A * B and, with `sizes`, |A| * |B| of `run`'s operands, into the file `results`; the count of all elements.

        None asks for the operands, as in `run`. `cubin` is that of multiply.cu.
        """
        layout = arena.place(case, seed)
        image = self._with_room(lambda: self._images.get(key, layout, operands))
        if image is None:
            return None
        if self._multiplier is None:
            self._multiplier = Multiplier(cubin, self._plain_threads // THREADS)
        addresses = {name: int(image) + offset for name, offset in layout.offsets.items()}
        kinds = (False, True) if sizes else (False,)
        made = [
            self._with_room(partial(self._multiplier.multiply, case, addresses, magnitudes=magnitudes), spare=key)
            for magnitudes in kinds
        ]
        elements = case.m * case.b.cols * case.batch
        for index, memory in enumerate(made):
            self._copy_out(int(memory), DType.F64.size * elements, results, index)
        return len(made) * elements

    def run_baseline(self, case: Case, operands: Operands) -> Floats:
        """Like `run`, with the library's first heuristic in the kernel's place."""
        plan = self._library(case).plan(case)
        try:
            return self._run_guarded(partial(plan.enqueue, 0), case, operands)
        finally:
            plan.close()

    def measure(
        self,
        binaries: Sequence[Binary],
        case: Case,
        protocol: Protocol,
        baseline: bool,
        uniform: bytes,
        move: bytes,
        apart: Binary | None = None,
    ) -> InterleavedTimings:
        """Time the kernels interleaved, if `baseline` with the library's best, and then the operands' bytes alone.

        These go apart: at the limit of the card's power whatever runs behind them is the faster for it. `uniform` and
        `move` are the cubins of uniform.cu and move.cu. `apart` is the epilogue that follows the library's product
        where it has none like it.
        """
        sets = self._input_sets(case, uniform, protocol.most_sets)
        contestants = [self._with_workspace(binary, case) for binary in binaries]
        for enqueue in contestants:
            self._try_once(enqueue, sets.pointers[0])
        if not baseline:
            return InterleavedTimings(tuple(self._measure(contestants, sets, protocol)))
        try:
            best = self._champion(case, sets, apart)
        except NoBaseline as error:
            ours = self._measure(contestants, sets, protocol)
            return InterleavedTimings(tuple(ours), None, self._moving(case, sets, move), error.failure)
        *ours, theirs = self._measure([*contestants, partial(best.plan.enqueue, best.algorithm)], sets, protocol)
        version = self._library(case).version
        champion = Baseline(best.algorithm, best.plan.offered, best.first, theirs, version)
        return InterleavedTimings(tuple(ours), champion, self._moving(case, sets, move))

    def time_plain(self, cubin: bytes, name: str, buffer_bytes: int, count: int) -> tuple[float, int]:
        """(best microseconds, threads) of `name(float* buffer, long long count)` on a grid that fills the card."""
        function = cuda.module_from_buffer(cubin).get_function(name)
        memory = allocate(buffer_bytes)
        cuda.memset_d32(memory, 0x3F800000, buffer_bytes // 4)  # ones: no denormals, no NaN
        try:
            return min(self._time_once(function, memory, count) for _ in range(PLAIN_SAMPLES)), self._plain_threads
        finally:
            memory.free()

    # Launching

    def _program(self, binary: Binary) -> tuple[Any, ...]:
        source, cubin = binary
        identity = _identity(source)
        if identity not in self._functions:
            self._functions[identity] = load_program(source, cubin)
        return self._functions[identity]

    def _launcher(self, binary: Binary, case: Case) -> Enqueue:
        functions, (source, _) = self._program(binary), binary
        return lambda pointers, stream: launch(functions, source, case, pointers, stream)

    def _with_room(self, make: Callable[[], Any], spare: arena.ImageKey | None = None) -> Any:
        """`make()`; where memory is short once more, without the images that are kept for later runs."""
        try:
            return make()
        except CandidateFailed:
            if not self._images.clear(spare):
                raise
            return make()

    def _count_changed(self, cubin: bytes, layout: arena.DeviceArena, before: Any, after: Any) -> int:
        """Bytes outside C's elements that the launch changed."""
        if self._changed is None:
            self._changed = cuda.module_from_buffer(cubin).get_function("changed")
        count, c = allocate(8), layout.matrices[2]
        cuda.memset_d32(count, 0, 2)
        numbers = np.int64(layout.size // WORD), np.int64(layout.offsets["C"])
        sizes = np.int32(c.rows), np.int32(c.cols), np.int32(c.ld)
        batch = np.int32(c.dtype.size), np.int64(c.batch or 1), np.int64(c.stride)
        pointers = (np.uintp(int(memory)) for memory in (before, after))
        blocks = self._plain_threads // THREADS
        self._changed(
            *pointers, *numbers, *sizes, *batch, np.uintp(int(count)), grid=(blocks, 1), block=(THREADS, 1, 1)
        )
        found = np.zeros(1, np.uint64)
        cuda.memcpy_dtoh(found, count)
        return int(found[0])

    def _arrays(self, layout: arena.DeviceArena, base: int, seed: int, spare: arena.ImageKey | None) -> Arrays | None:
        """The arrays of pointers to operands at address `base`; None where the kernel takes none."""
        placed = arena.place_pointers(layout, base, seed)
        return None if placed is None else self._with_room(lambda: Arrays(placed), spare)

    def _check(self, arrays: Arrays | None) -> None:
        """Raises CandidateFailed: crash, for what a launch did to `arrays`."""
        with self._images_distrusted():
            if arrays is not None:
                arrays.check()

    @contextmanager
    def _images_distrusted(self) -> Iterator[None]:
        """What is found wrong inside drops the kept images: a wild write may have met them, too."""
        try:
            yield
        except CandidateFailed:
            self._images.clear()
            raise

    def _deliver(self, address: int, layout: arena.DeviceArena, results: str | None) -> Floats | int:
        """C's storage, or its length where it is in the shared file `results`."""
        dtype, elements = layout.case.c.dtype, layout.matrices[2].elements
        if layout.scattered:
            scattered: Floats = np.empty(elements, dtype.numpy)
            cuda.memcpy_dtoh(scattered, address)
            return layout.storage(scattered)
        size = dtype.size * elements
        if results is not None and size >= arena.KEPT_BYTES:
            with suppress(OSError):
                self._copy_out(address, size, results)
                return elements
        result: Floats = np.empty(elements, dtype.numpy)
        cuda.memcpy_dtoh(result, address)
        return result

    def _copy_out(self, address: int, size: int, path: str, index: int = 0) -> None:
        """The `size` bytes at a device `address` into the file `path`, behind `index` others of this size."""
        end = (index + 1) * size
        mapped = self._results.get(path)
        if mapped is None or end > mapped.size:
            with open(path, "r+b") as file:
                file.truncate(max(end, os.fstat(file.fileno()).st_size))
                mapped = np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8)
            self._results = {path: mapped}
        cuda.memcpy_dtoh(mapped[end - size : end], address)

    def _with_workspace(self, binary: Binary, case: Case) -> Enqueue:
        """A launcher that needs pointers to the operands alone. All share one workspace: launches follow each other,
        and each leaves zero what it found so. Reserve for all before the first runs."""
        enqueue = self._launcher(binary, case)
        workspace = binary[0].launch.workspace(case)
        for name, length in workspace.lengths.items():
            self._with_room(partial(self._workspace[name].reserve, length))
        self._workspace["semaphores"].clear()  # a kernel that was stopped may have left something

        def with_workspace(pointers: Pointers, stream: Any) -> None:
            enqueue({**pointers, **{name: part.address for name, part in self._workspace.items()}}, stream)

        return with_workspace

    def _run_guarded(self, enqueue: Enqueue, case: Case, operands: Operands) -> Floats:
        layout = arena.place(case, 0)
        before = layout.image(operands)
        memory = allocate(layout.size)
        cuda.memcpy_htod(memory, before)
        arrays = self._arrays(layout, int(memory), 0, spare=None)
        self._try_once(enqueue, _pointers(layout, int(memory), arrays))
        after = np.empty_like(before)
        cuda.memcpy_dtoh(after, memory)
        memory.free()
        return layout.result(before, after)

    def _try_in_workspace(
        self, enqueue: Enqueue, pointers: Pointers, layout: arena.WorkspaceArena, spare: arena.ImageKey | None
    ) -> None:
        """One launch, to its end, in a workspace of its own. Raises CandidateFailed: crash, for what it leaves."""
        memory = self._with_room(lambda: allocate(layout.size), spare)
        base = int(memory)
        cuda.memset_d32(memory, CANARY, layout.size // WORD)
        if layout.workspace.semaphores:
            cuda.memset_d32(base + layout.offsets["semaphores"], 0, layout.workspace.semaphores)
        self._try_once(enqueue, {**pointers, **{name: base + offset for name, offset in layout.offsets.items()}})
        after = np.empty(layout.size // WORD, np.uint32)
        for part in layout.kept():
            cuda.memcpy_dtoh(after[part], base + WORD * part.start)
        with self._images_distrusted():
            layout.check(after)

    def _try_once(self, enqueue: Enqueue, pointers: Pointers) -> None:
        """One launch, to its end."""
        enqueue(pointers, self._stream)
        self._stream.synchronize()

    # Measuring

    def _input_sets(self, case: Case, uniform: bytes, most: int) -> InputSets:
        """The sets of the last case, or new ones: one problem's candidates share them."""
        if self._sets is None or (self._sets.case, self._sets.most) != (case, most):
            if self._sets is not None:
                self._sets.free()
                self._sets = None
            module = cuda.module_from_buffer(uniform)

            def fill(memory: Any, count: int, dtype: DType) -> None:
                self._launch_plain(module.get_function(f"uniform_{dtype.label}"), memory, count)

            self._sets = self._with_room(lambda: InputSets(case, self._device.l2_cache_size, fill, most))
        return self._sets

    def _measure(self, contestants: Sequence[Enqueue], sets: InputSets, protocol: Protocol) -> list[Timing]:
        return measure(contestants, sets, protocol, self._stream)

    def _champion(self, case: Case, sets: InputSets, apart: Binary | None) -> Champion:
        """The winner of a contest between all of the heuristics' algorithms, held once a case."""
        if case not in self._champions:
            plan = self._library_plan(case, apart)
            timings = self._measure([partial(plan.enqueue, index) for index in range(plan.offered)], sets, QUICK)
            best = min(range(plan.offered), key=lambda index: timings[index].median_us)
            self._champions[case] = Champion(plan, best, timings[0])
        return self._champions[case]

    def _library_plan(self, case: Case, apart: Binary | None) -> LtPlan | BatchedPlan | FollowedPlan:
        """The library's product, and behind it `apart`, which finds A * B in C."""
        if apart is None:
            return self._library(case).plan(case)
        if case.problem.products > 1 and case.problem.pointers:
            raise NoBaseline(f"{GEMM_BATCHED} multiplies no two matrices B side by side", "cublas")
        before = product_before(case)
        product = self._library(case).plan(before)
        between = None if case.problem.products == 1 else self._with_room(lambda: allocate(before.c.bytes))
        return FollowedPlan(product, self._launcher(apart, replace(case, beta=0.0)), between)

    def _moving(self, case: Case, sets: InputSets, cubin: bytes) -> Timing | None:
        """What the bytes of a set take alone; None where they do not lie in a row."""
        return None if case.problem.pointers else self._measure([self._mover(case, sets, cubin)], sets, FINAL)[0]

    def _mover(self, case: Case, sets: InputSets, cubin: bytes) -> Enqueue:
        """What moves the bytes of a set, on the grid of several that is the fastest; found once a case."""
        if case not in self._movers:
            function = cuda.module_from_buffer(cubin).get_function("move")
            read, written = sets.read_bytes // VECTOR_BYTES, sets.written_bytes // VECTOR_BYTES
            most = -(-max(read, written) // THREADS)
            sms = int(self._device.multiprocessor_count)
            grids = sorted({min(most, sms * blocks) for blocks in MOVER_BLOCKS_PER_SM})

            def enqueue(blocks: int, pointers: Pointers, stream: Any) -> None:
                addresses = np.uintp(pointers["A"]), np.uintp(pointers["C"])
                counts = np.int64(read), np.int64(written)
                function(*addresses, *counts, grid=(blocks, 1), block=(THREADS, 1, 1), stream=stream)

            timings = self._measure([partial(enqueue, blocks) for blocks in grids], sets, QUICK)
            best = min(range(len(grids)), key=lambda index: timings[index].median_us)
            self._movers[case] = partial(enqueue, grids[best])
        return self._movers[case]

    def _library(self, case: Case) -> Cublaslt | Cublas:
        """The baseline for `case`: cuBLASLt, and for a batch of pointers cuBLAS."""
        kind = Cublas if case.problem.pointers else Cublaslt
        if kind not in self._libraries:
            self._libraries[kind] = kind()
        return self._libraries[kind]

    @property
    def _plain_threads(self) -> int:
        return int(self._device.multiprocessor_count) * PLAIN_BLOCKS_PER_SM * THREADS

    def _launch_plain(self, function: Any, memory: Any, count: int) -> None:
        blocks = self._plain_threads // THREADS
        arguments = np.uintp(int(memory)), np.int64(count)
        function(*arguments, grid=(blocks, 1), block=(THREADS, 1, 1), stream=self._stream)

    def _time_once(self, function: Any, memory: Any, count: int) -> float:
        start, stop = cuda.Event(), cuda.Event()
        start.record(self._stream)
        self._launch_plain(function, memory, count)
        stop.record(self._stream)
        stop.synchronize()
        return float(stop.time_since(start)) * 1e3


def _pointers(layout: arena.DeviceArena, base: int, arrays: Arrays | None) -> Pointers:
    """What a kernel takes for its operands: those at address `base`, of A, B and C perhaps the arrays."""
    operands = {name: base + offset for name, offset in layout.offsets.items()}
    return operands if arrays is None else {**operands, **arrays.pointers}


def _identity(source: KernelSource) -> tuple[object, ...]:
    """What a loaded function depends on: its text, and how it is launched."""
    launch = source.launch
    return source.digest, source.name, launch.shared_bytes, launch.cluster, launch.attributes, launch.prepares


def _driver_version() -> str:
    """ "580.159.04" where the kernel module says so, else the CUDA version that the driver supports."""
    try:
        words = Path("/sys/module/nvidia/version").read_text().split()
    except OSError:
        words = []
    if words:
        return words[0]
    version = cuda.get_driver_version()
    return f"CUDA {version // 1000}.{version % 1000 // 10}"
