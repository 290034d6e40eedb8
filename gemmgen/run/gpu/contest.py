"""The worker's side of a measurement: kernels side by side, together with the library and bare memory traffic."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pycuda.driver as cuda

from gemmgen.kernel.launch import WORKSPACE
from gemmgen.kernel.prepare import PREPARED
from gemmgen.problem.dtype import WORD, DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.inputs import PLAIN
from gemmgen.run.gpu.cublas import BatchedPlan, Cublas
from gemmgen.run.gpu.cublaslt import Cublaslt, LtPlan
from gemmgen.run.gpu.images import Images
from gemmgen.run.gpu.launching import Binary, Enqueue, Pointers, Programs
from gemmgen.run.gpu.lt_epilogue import LEFT, left_apart, product_before
from gemmgen.run.gpu.plain import THREADS, plain_blocks
from gemmgen.run.gpu.power import Circumstances, Meter, Observed
from gemmgen.run.gpu.sampling import NUMBERS_B, InputSets, allocate, measure, observe
from gemmgen.run.gpu.timing import (
    CAREFUL,
    FINAL,
    GEMM_BATCHED,
    GRID,
    QUICK,
    Baseline,
    Beside,
    InterleavedTimings,
    Protocol,
    Timing,
    steady,
)
from gemmgen.support.errors import NoBaseline

MOVER_BLOCKS_PER_SM = (1, 2, 4, 8, 16)  # that are tried, of what moves bytes alone
CLOSE, CLOSE_ALGORITHMS = 0.1, 4  # of cuBLASLt's algorithms: as many, within so much of the fastest
VECTOR_BYTES = 16  # of its accesses


class FollowedPlan:
    """A library's product followed by another kernel, which reads it from C or from memory `between`."""

    def __init__(self, product: LtPlan | BatchedPlan, follow: Enqueue, between: Any = None) -> None:
        self._product, self._follow, self._between = product, follow, between
        self.offered = product.offered

    def enqueue(self, algorithm: int, pointers: Pointers, stream: Any) -> None:
        """Enqueue both on `stream`. Raises CandidateFailed (launch)."""
        to = pointers["C"] if self._between is None else int(self._between)
        self._product.enqueue(algorithm, {**pointers, "C": to}, stream)
        self._follow({**pointers, LEFT: to}, stream)


class PlanOfNumbers:
    """A library's product of A with numbers of A's type, where a kernel multiplies codes."""

    def __init__(self, product: LtPlan | BatchedPlan) -> None:
        self._product = product
        self.offered = product.offered

    def enqueue(self, algorithm: int, pointers: Pointers, stream: Any) -> None:
        """Enqueue it on `stream`. Raises CandidateFailed (launch)."""
        self._product.enqueue(algorithm, {**pointers, "B": pointers[NUMBERS_B]}, stream)


def product_of_numbers(case: Case) -> Case:
    """The product of A with a dense matrix of A's type in place of codes."""
    types = case.problem.types
    problem = replace(case.problem, types=replace(types, b=types.a), inputs=PLAIN)
    return replace(case, problem=problem)


@dataclass(frozen=True)
class Champion:
    """The library's fastest algorithm for a case, and the time of its first heuristic."""

    plan: LtPlan | BatchedPlan | FollowedPlan | PlanOfNumbers
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
        """Make room for `size` bytes, a multiple of 4."""
        if size > self._size:
            if self._memory is not None:
                self._memory.free()
                self._memory, self._size = None, 0
            self._memory = allocate(size)
            self._size = size

    def clear(self) -> None:
        if self._memory is not None:
            cuda.memset_d32(self._memory, 0, self._size // WORD)


class Contest:
    """Times kernels on `device`. Input sets, the library's best and the bare traffic stay between requests."""

    def __init__(self, index: int, device: Any, stream: Any, programs: Programs, images: Images) -> None:
        self._device, self._stream, self._programs, self._images = device, stream, programs, images
        self._circumstances = Circumstances(index)
        self._sets: InputSets | None = None
        self._champions: dict[tuple[Case, int | None], Champion] = {}
        self._movers: dict[Case, Enqueue] = {}
        self._libraries: dict[type[Cublaslt] | type[Cublas], Cublaslt | Cublas] = {}
        self._workspace = {name: Scratch() for name in (*WORKSPACE, *PREPARED)}  # semaphores are zero between launches

    def measure(
        self,
        binaries: Sequence[Binary],
        case: Case,
        protocol: Protocol,
        beside: Beside | None,
        random: bytes,
        move: bytes,
        apart: Binary | None = None,
    ) -> InterleavedTimings:
        """Time the kernels interleaved, with the library if something is `beside` them, and then the bytes alone.

        The bytes are moved separately, because at the card's power limit a kernel that follows them would run faster.
        `random` and `move` are the cubins of random.cu and move.cu. `apart` is the epilogue that follows the library's
        product if the library lacks it.
        """
        sets = self._input_sets(case, random, protocol)
        self._pack(binaries, case, sets)
        contestants = [self._with_workspace(binary, case) for binary in binaries]
        for enqueue in contestants:
            enqueue(sets.pointers[0], self._stream)
            self._stream.synchronize()
        if beside is None:
            return InterleavedTimings(tuple(self._measure(contestants, sets, protocol)))
        try:
            best = self._champion(case, sets, apart, beside.heuristics)
        except NoBaseline as error:
            ours = self._measure(contestants, sets, protocol)
            return InterleavedTimings(tuple(ours), None, self._moving(case, sets, move, beside), error.failure)
        *ours, theirs = self._measure([*contestants, partial(best.plan.enqueue, best.algorithm)], sets, protocol)
        version = self.library(case).version
        champion = Baseline(best.algorithm, best.plan.offered, best.first, theirs, version)
        return InterleavedTimings(tuple(ours), champion, self._moving(case, sets, move, beside))

    def observe(
        self, binary: Binary, case: Case, seconds: float, random: bytes, apart: Binary | None, uuid: str, beside: bool
    ) -> tuple[Observed, Observed | None]:
        """Observe the card while the kernel runs, and while the library's best runs; None for the latter if there is
        none, or if it is not to be `beside` the kernel.

        Raises CandidateFailed (unavailable) without NVML.
        """
        meter, sets = Meter(uuid), self._input_sets(case, random, CAREFUL)
        self._pack([binary], case, sets)
        contestants = [self._with_workspace(binary, case)]
        if beside:
            with suppress(NoBaseline):
                best = self._champion(case, sets, apart, None)
                contestants.append(partial(best.plan.enqueue, best.algorithm))
        ours, *theirs = observe(contestants, sets, seconds, self._stream, meter)
        return ours, theirs[0] if theirs else None

    def _with_workspace(self, binary: Binary, case: Case) -> Enqueue:
        """A launcher that needs only pointers to the operands. All launchers share one workspace: launches follow each
        other, and each leaves zero what must be zero. Reserve for all before the first runs."""
        enqueue = self._programs.launcher(binary, case, packed=True)
        workspace = binary[0].launch.workspace(case)
        for name, length in workspace.lengths.items():
            self._images.with_room(partial(self._workspace[name].reserve, length))
        self._workspace["semaphores"].clear()  # a kernel that was stopped may have left something

        def with_workspace(pointers: Pointers, stream: Any) -> None:
            enqueue({**{name: part.address for name, part in self._workspace.items()}, **pointers}, stream)

        return with_workspace

    def _pack(self, binaries: Sequence[Binary], case: Case, sets: InputSets) -> None:
        """Pack the codes of all sets, once: weights are, before any product. All kernels take the same."""
        if not case.problem.coded or sets.packed:
            return
        packers = (self._programs.packer(binary, case) for binary in binaries)
        pack = next((one for one in packers if one is not None), None)
        if pack is not None:
            for pointers in sets.pointers:
                pack(pointers, self._stream)
            sets.packed = True

    def _input_sets(self, case: Case, random: bytes, protocol: Protocol) -> InputSets:
        """The sets of the last case, or new ones: the candidates of one problem share them."""
        key = case, protocol.most_sets, protocol.data, protocol.least_sets
        if self._sets is None or self._sets.key != key:
            if self._sets is not None:
                self._sets.free()
                self._sets = None
            module = cuda.module_from_buffer(random)

            def fill(memory: Any, count: int, dtype: DType) -> None:
                function, arguments = (
                    module.get_function(f"random_{protocol.data}_{dtype.label}"),
                    (np.uintp(int(memory)), np.int64(count)),
                )
                grid = (plain_blocks(self._device), 1)
                function(*arguments, grid=grid, block=(THREADS, 1, 1), stream=self._stream)

            l2_bytes = self._device.l2_cache_size
            self._sets = self._images.with_room(lambda: InputSets(*key, l2_bytes, fill))
        return self._sets

    def _measure(self, contestants: Sequence[Enqueue], sets: InputSets, protocol: Protocol) -> list[Timing]:
        return measure(contestants, sets, protocol, self._stream, self._circumstances.now)

    def _champion(self, case: Case, sets: InputSets, apart: Binary | None, most: int | None) -> Champion:
        """The winner of a contest between the first `most` of the heuristics' algorithms, held once per case.

        Algorithms close to the fastest are timed again, for longer, because clocks differ in short runs.
        """
        key = case, most
        if key not in self._champions:
            plan = self._library_plan(case, apart)
            contenders = range(plan.offered)[:most]
            protocol = QUICK if len(contenders) > 1 else GRID
            timings = self._measure([partial(plan.enqueue, index) for index in contenders], sets, protocol)
            times = steady(timings)
            close = sorted(contenders, key=times.__getitem__)[:CLOSE_ALGORITHMS]
            close = [index for index in close if times[index] <= (1 + CLOSE) * times[close[0]]]
            if len(close) > 1:
                again = self._measure([partial(plan.enqueue, index) for index in close], sets, FINAL)
                close = [index for _, index in sorted(zip(steady(again), close, strict=True))]
            best = close[0]
            self._champions[key] = Champion(plan, best, timings[0])
        return self._champions[key]

    def _library_plan(self, case: Case, apart: Binary | None) -> LtPlan | BatchedPlan | FollowedPlan | PlanOfNumbers:
        """The library's product, followed by `apart`, which finds A * B in C or in memory between."""
        if case.problem.inputs.scattered:
            raise NoBaseline(f"cuBLASLt has no product with inputs = {case.problem.inputs}", "cublaslt")
        if case.problem.coded and case.problem.epilogue.is_linear:
            return PlanOfNumbers(self.library(case).plan(product_of_numbers(case)))
        blocks = case.problem.inputs.blocks and case.problem.epilogue.is_linear
        if not (case.problem.inputs.is_plain or blocks):
            raise NoBaseline(f"cuBLASLt has no product with inputs = {case.problem.inputs}", "cublaslt")
        if apart is None:
            plan = self.library(case).plan(case)
            if isinstance(plan, LtPlan) and plan.takes_bias:
                plan.take_bias(np.random.default_rng(0).uniform(-1, 1, case.n))  # as operands are
            return plan
        if case.problem.products > 1 and case.problem.pointers:
            raise NoBaseline(f"{GEMM_BATCHED} multiplies no matrices B that lie side by side", "cublas")
        before = product_before(case)
        product = self.library(case).plan(before)
        between = None if left_apart(case.problem) is None else self._images.with_room(lambda: allocate(before.c.bytes))
        return FollowedPlan(product, self._programs.launcher(apart, replace(case, beta=0.0)), between)

    def _moving(self, case: Case, sets: InputSets, cubin: bytes, beside: Beside) -> Timing | None:
        """The time of moving the bytes of a set alone; None if it is not asked for, or if they are not contiguous."""
        if not beside.moving or case.problem.pointers:
            return None
        return self._measure([self._mover(case, sets, cubin)], sets, FINAL)[0]

    def _mover(self, case: Case, sets: InputSets, cubin: bytes) -> Enqueue:
        """A launcher that moves the bytes of a set, on the fastest of several grids; found once per case."""
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

    def library(self, case: Case) -> Cublaslt | Cublas:
        """The baseline for `case`: cuBLASLt, or cuBLAS for a batch of pointers."""
        kind = Cublas if case.problem.pointers else Cublaslt
        if kind not in self._libraries:
            self._libraries[kind] = kind()
        return self._libraries[kind]
