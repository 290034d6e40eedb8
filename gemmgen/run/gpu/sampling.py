"""Samples of device time: rotating input sets, CUDA graphs of launches, rounds. Runs in the worker.

pycuda has no graphs; they come from cuda.bindings, on pycuda's context and stream.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pycuda.driver as cuda
from cuda.bindings import driver

from gemmgen.kernel.contract import OPERANDS
from gemmgen.kernel.prepare import Pack
from gemmgen.problem.dtype import WIDEST_ACCESS, DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.sizes import POINTER_BYTES
from gemmgen.run.gpu.bindings import checked
from gemmgen.run.gpu.launching import Enqueue, Pointers
from gemmgen.run.gpu.power import Meter, Observed
from gemmgen.run.gpu.timing import DRIFT, STABLE, Conditions, Protocol, Timing, drift_of
from gemmgen.run.scatter import scatter
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.stamp import now

WARMING_SECONDS = 0.3  # of what is observed, before that
CHUNK_US = 20_000.0  # of launches that are enqueued at once while it is

PACKED_B, NUMBERS_B = Pack("B").part, "numbers_b"  # what input sets have beside B's codes
ALIGN = 256  # bytes; operands start where cuMemAlloc would place them, which is what cuBLASLt expects


def allocate(size: int) -> Any:
    """Allocate device memory. Raises CandidateFailed (launch) with the bytes needed and free."""
    free, _ = cuda.mem_get_info()
    if size <= free:  # Windows would move to host memory what does not fit
        with suppress(cuda.MemoryError):
            return cuda.mem_alloc(size)
    reason = f"needs {size / 2**30:.2f} GiB of device memory, {free / 2**30:.2f} GiB are free"
    raise CandidateFailed(Failure("launch", reason, "gpu"))


def numbers_of_rows(case: Case) -> dict[str, npt.NDArray[np.int32]]:
    """The companions that count or name rows, by name: random ones would name rows that there are not.

    Groups have random shares of all rows, or of K: some are several times as large as others. Masked groups have all of
    theirs.
    """
    inputs, rng, found = case.problem.inputs, np.random.default_rng(0), {}
    if inputs.masked:
        return {"group_rows": np.full(inputs.groups, case.m, np.int32)}
    if inputs.groups:
        shares = rng.random(inputs.groups) ** 2
        counts = rng.multinomial(case.k if inputs.along_k else case.m, shares / shares.sum())
        found["offs"] = counts.cumsum().astype(np.int32)
    if inputs.gathered:
        found["index_a"] = rng.integers(case.a.rows, size=case.m, dtype=np.int32)
    if inputs.scattered:
        found["index_c"] = rng.permutation(case.c.rows)[: case.m].astype(np.int32)
    return found


class InputSets:
    """Operands of `case`, repeated until they fill twice the L2 cache, at most `most` times.

    `fill(memory, count, type)` fills them with `data`: see gemmgen.run.gpu.timing.Protocol.

    The matrices of a batch of pointers lie close together in random order; each set has its own arrays. If B has codes,
    each set also has room for what a kernel packs of them, PACKED_B, and as many numbers as a library multiplies,
    NUMBERS_B.
    """

    def __init__(
        self,
        case: Case,
        most: int,
        data: str,
        least: int,
        l2_bytes: int,
        fill: Callable[[Any, int, DType], None],
    ) -> None:
        scattered = scatter(case, 0, WIDEST_ACCESS, 0) if case.problem.pointers else ()
        matrices = {**case.tensors, **dict(zip(OPERANDS, (one.matrix for one in scattered), strict=False))}
        names = sorted(matrices, key=lambda name: name in case.written)  # C is the first of what is written
        sizes = {name: -(-matrices[name].bytes // ALIGN) * ALIGN for name in names}
        self.key, self.case, self.data = (case, most, data, least), case, data
        self.set_bytes = sum(sizes.values())
        self.written_bytes = sum(sizes[name] for name in case.written)
        self.read_bytes = self.set_bytes - self.written_bytes
        count = min(max(least, -(-2 * l2_bytes // self.set_bytes)), most)
        self._memory = allocate(count * self.set_bytes)
        base = int(self._memory)
        starts = [base + index * self.set_bytes for index in range(count)]
        places = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
        self.pointers: list[Pointers] = [{name: start + place for name, place in places.items()} for start in starts]
        self._fill(fill, sizes)
        for name, numbers in numbers_of_rows(case).items():
            for pointers in self.pointers:
                cuda.memcpy_htod(int(pointers[name]), numbers)
        self._codes: Any = None
        self.packed = False  # whether PACKED_B holds what kernels pack
        if case.problem.coded:
            self._beside_codes(fill)
        self._arrays: Any = None
        if scattered:
            self._point(np.array([one.matrix.dtype.size * one.offsets for one in scattered], np.uint64))

    def _fill(self, fill: Callable[[Any, int, DType], None], sizes: dict[str, int]) -> None:
        """Fill all operands at once if they have one type, else one by one."""
        held = {name: self.case.problem.dtype_of(name) for name in sizes}
        dtypes = {name: dtype if dtype.storage_bits >= 8 else DType.U8 for name, dtype in held.items()}
        if len(set(dtypes.values())) == 1:
            fill(self._memory, len(self.pointers) * self.set_bytes // dtypes["A"].size, dtypes["A"])
            return
        for pointers in self.pointers:
            for name, size in sizes.items():
                fill(np.uintp(pointers[name]), size // dtypes[name].size, dtypes[name])

    def _beside_codes(self, fill: Callable[[Any, int, DType], None]) -> None:
        """Room for packed codes, and numbers of A's type instead of codes."""
        dtype, elements = self.case.problem.types.a, self.case.b.lines * self.case.b.ld
        packed, numbers = (-(-size // ALIGN) * ALIGN for size in (Pack("B").bytes(self.case), dtype.bytes(elements)))
        self._codes = allocate(len(self.pointers) * (packed + numbers))
        for index, pointers in enumerate(self.pointers):
            start = int(self._codes) + index * (packed + numbers)
            pointers |= {PACKED_B: start, NUMBERS_B: start + packed}
            fill(np.uintp(start + packed), elements, dtype)

    def _point(self, offsets: npt.NDArray[np.uint64]) -> None:
        """Put arrays of pointers in place of the operands; `offsets` are bytes within each."""
        starts = np.array([[pointers[name] for name in OPERANDS] for pointers in self.pointers], np.uint64)
        addresses = starts[:, :, None] + offsets
        self._arrays = allocate(addresses.nbytes)
        cuda.memcpy_htod(self._arrays, addresses)
        base, array_bytes = int(self._arrays), POINTER_BYTES * offsets.shape[1]
        self.pointers = [
            {
                **pointers,
                **{name: base + (len(OPERANDS) * index + place) * array_bytes for place, name in enumerate(OPERANDS)},
            }
            for index, pointers in enumerate(self.pointers)
        ]

    def free(self) -> None:
        self._memory.free()
        if self._codes is not None:
            self._codes.free()
        if self._arrays is not None:
            self._arrays.free()


class Graph:
    """One launch on each input set, captured once and replayed."""

    def __init__(self, enqueue: Enqueue, sets: InputSets, stream: Any) -> None:
        self.launches = len(sets.pointers)
        self._stream = stream
        handle = driver.CUstream(stream.handle)
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        checked(driver.cuStreamBeginCapture(handle, mode))
        try:
            for pointers in sets.pointers:
                enqueue(pointers, stream)
        finally:
            graph = checked(driver.cuStreamEndCapture(handle))
        self._executable = checked(driver.cuGraphInstantiate(graph, 0))
        checked(driver.cuGraphDestroy(graph))

    def sample(self, replays: int) -> Sample:
        """Enqueue a sample of `replays` replays on the stream."""
        start, stop = cuda.Event(), cuda.Event()
        start.record(self._stream)
        for _ in range(replays):
            self.replay()
        stop.record(self._stream)
        return Sample(start, stop, replays * self.launches)

    def free(self) -> None:
        checked(driver.cuGraphExecDestroy(self._executable))

    def replay(self) -> None:
        checked(driver.cuGraphLaunch(self._executable, driver.CUstream(self._stream.handle)))


@dataclass(frozen=True)
class Sample:
    """The launches between two events of a stream."""

    start: Any
    stop: Any
    launches: int

    def wait_us(self) -> float:
        """Device microseconds per launch, once the sample has ended."""
        self.stop.synchronize()
        return float(self.stop.time_since(self.start)) * 1e3 / self.launches


def measure(
    contestants: Sequence[Enqueue],
    sets: InputSets,
    protocol: Protocol,
    stream: Any,
    conditions: Callable[[], Conditions],
) -> list[Timing]:
    """Time the contestants in turn and return their timings in order.

    All samples are enqueued at once. So no sample waits for its launch, the card does not idle in between, and its
    clock is that of steady work. Every second round goes backwards, C A B B A C, which cancels steady changes; each
    pair of rounds has a new order. At its power limit a card is faster after a contestant that drew less power, so no
    contestant always follows the same one.

    conditions  called while the card works, for the conditions of the measurement
    """
    graphs = [Graph(enqueue, sets, stream) for enqueue in contestants]
    try:
        launch_us, warmup_s = _warm_up(graphs, protocol)
        replays = [
            max(1, round(protocol.sample_us / (us * graph.launches)))
            for us, graph in zip(launch_us, graphs, strict=True)
        ]
        graphs[0].replay()  # the latency of the first launch is no sample's
        for repeated in range(protocol.repeats + 1):
            rounds = [_round(graphs, replays, order) for order in _orders(len(graphs), protocol.samples)]
            seen = conditions()
            samples = [tuple(one.wait_us() for one in of_one) for of_one in zip(*rounds, strict=True)]
            seen = replace(seen, drift=round(drift_of(samples), 4), repeated=repeated)
            if abs(seen.drift) <= DRIFT:
                break
        return [
            Timing(of_one, _notes(protocol, warmup_s, one.launches, sets, len(graphs)), seen, place)
            for place, (of_one, one) in enumerate(zip(samples, rounds[0], strict=True))
        ]
    finally:
        for graph in graphs:
            graph.free()


def observe(
    contestants: Sequence[Enqueue], sets: InputSets, seconds: float, stream: Any, meter: Meter
) -> list[Observed]:
    """Observe the card while each contestant runs alone for `seconds`, after a warm-up of WARMING_SECONDS."""
    graphs = [Graph(enqueue, sets, stream) for enqueue in contestants]
    try:
        return [_observed(graph, seconds, meter) for graph in graphs]
    finally:
        for graph in graphs:
            graph.free()


def _observed(graph: Graph, seconds: float, meter: Meter) -> Observed:
    _run_for(graph, WARMING_SECONDS)
    with meter.watching() as readings:
        launches, took = _run_for(graph, seconds)
    return readings.observed(launches, took)


def _run_for(graph: Graph, seconds: float) -> tuple[int, float]:
    """(launches, seconds until the last one ended). The card always has the next sample waiting."""
    started, launches = time.perf_counter(), 0
    us = graph.sample(1).wait_us() * graph.launches
    replays = max(1, round(CHUNK_US / us))
    running = graph.sample(replays)
    while time.perf_counter() - started < seconds:
        following = graph.sample(replays)
        running.wait_us()
        launches, running = launches + running.launches, following
    running.wait_us()
    return launches + running.launches + graph.launches, time.perf_counter() - started


def _orders(contestants: int, rounds: int) -> Iterator[list[int]]:
    """The order of each round: a random one, and in the next round the same backwards."""
    order = list(range(contestants))
    for number in range(rounds):
        if number % 2 == 0:
            Random(number).shuffle(order)
        else:
            order.reverse()
        yield order


def _round(graphs: Sequence[Graph], replays: Sequence[int], order: Sequence[int]) -> list[Sample]:
    """A sample of each contestant, taken in this order."""
    samples = {number: graphs[number].sample(replays[number]) for number in order}
    return [samples[number] for number in range(len(graphs))]


def _warm_up(graphs: Sequence[Graph], protocol: Protocol) -> tuple[list[float], float]:
    """Replay in rounds until their sum is stable; return the last round's microseconds per launch, and the seconds
    taken."""
    started = time.perf_counter()
    once = [1] * len(graphs)
    last = math.inf
    while True:
        latest = [one.wait_us() for one in _round(graphs, once, range(len(graphs)))]
        elapsed = time.perf_counter() - started
        stable = abs(sum(latest) - last) <= STABLE * sum(latest)
        if elapsed >= 4 * protocol.warmup_s or (stable and elapsed >= protocol.warmup_s):
            return latest, elapsed
        last = sum(latest)


def _data_words(sets: InputSets) -> str:
    """ "uniform [-1, 1]", "normal integers"."""
    if sets.case.problem.types.accumulator.is_integer:
        return f"{sets.data} integers"
    return {"uniform": "uniform [-1, 1]", "normal": "normal, variance 1"}[sets.data]


def _notes(
    protocol: Protocol, warmup_s: float, launches: int, sets: InputSets, contestants: int
) -> dict[str, str | int | float]:
    """The protocol as it was carried out, for the record."""
    return {
        "protocol": protocol.name,
        "warmup_s": round(warmup_s, 3),
        "samples": protocol.samples,
        "launches_per_sample": launches,
        "graph_replay": True,
        "interleaved_with": contestants - 1,
        "input_sets": len(sets.pointers),
        "set_bytes": sets.set_bytes,
        "data": _data_words(sets),
        "date": now(),
    }
