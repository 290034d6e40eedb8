"""The child's side of the gpu executor: owns pycuda and the primary context, answers the parent's requests.

A request is (verb, *arguments) with plain data. A CUDA error after a launch may have poisoned the context, so one that
nobody expected ends this process (FatalFailure) and the parent starts another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pycuda.driver as cuda

from gemmgen.problem.gemm import Case
from gemmgen.run.executor import Floats, Operands
from gemmgen.run.gpu.bindings import DriverError
from gemmgen.run.gpu.contest import Contest
from gemmgen.run.gpu.cublaslt import LtPlan
from gemmgen.run.gpu.images import Images
from gemmgen.run.gpu.launching import Binary, Programs
from gemmgen.run.gpu.plain import THREADS, plain_blocks
from gemmgen.run.gpu.runs import Runs
from gemmgen.run.gpu.sampling import allocate
from gemmgen.support.child import FatalFailure
from gemmgen.support.errors import Failure

PLAIN_SAMPLES = 9
IMAGES_BYTES = 8 * 2**30  # of device memory for images of operands that are kept, and at most
IMAGES_SHARE = 4  # a quarter of it


class Worker:
    """Answers requests on device `index`. Modules and input sets stay loaded between them."""

    def __init__(self, index: str) -> None:
        cuda.init()
        self._device = cuda.Device(int(index))
        self._device.retain_primary_context().push()
        self._stream = cuda.Stream()
        self.images = Images(min(IMAGES_BYTES, self._device.total_memory() // IMAGES_SHARE))
        self._programs = Programs()
        parts = self._device, self._stream, self._programs, self.images
        self.runs, self.contest = Runs(*parts), Contest(int(index), *parts)
        self._verbs: dict[str, Callable[..., Any]] = {
            "ready": self.ready,
            "load": self.load,
            "unload": self._programs.forget,
            "run": self.runs.run,
            "run_kept": self.runs.run_kept,
            "judge": self.runs.judge,
            "deliver": self.runs.deliver,
            "multiply": self.runs.multiply,
            "run_baseline": self.run_baseline,
            "measure": self.contest.measure,
            "observe": self.contest.observe,
            "time_plain": self.time_plain,
        }

    def __call__(self, message: tuple[Any, ...]) -> Any:
        verb, *arguments = message
        try:
            return self._verbs[verb](*arguments)
        except (cuda.Error, DriverError) as error:
            raise FatalFailure(Failure("crash", str(error), "gpu")) from error

    def ready(self) -> None:
        """Answer that the worker is ready: pycuda is imported, and there is a context."""

    def load(self, binary: Binary) -> None:
        """Load the module and ask for its shared memory. Raises CandidateFailed: launch."""
        self._programs.load(binary)

    def run_baseline(self, case: Case, operands: Operands) -> Floats:
        """Return C's storage after the product by the library's first heuristic."""
        plan = self.contest.library(case).plan(case)
        try:
            if isinstance(plan, LtPlan) and plan.takes_bias:
                bias = case.tensors["bias_n"]
                plan.take_bias(bias.dtype.decode(bias.view(operands.extra["bias_n"])))
            return self.runs.run_guarded(partial(plan.enqueue, 0), case, operands)
        finally:
            plan.close()

    def time_plain(self, cubin: bytes, name: str, buffer_bytes: int, count: int) -> tuple[float, int]:
        """(best microseconds, threads) of `name(float* buffer, long long count)` on a grid that fills the card."""
        function = cuda.module_from_buffer(cubin).get_function(name)
        memory, blocks = allocate(buffer_bytes), plain_blocks(self._device)
        cuda.memset_d32(memory, 0x3F800000, buffer_bytes // 4)  # ones: no denormals, no NaN
        try:
            best = min(self._time_once(function, blocks, memory, count) for _ in range(PLAIN_SAMPLES))
            return best, blocks * THREADS
        finally:
            memory.free()

    def _time_once(self, function: Any, blocks: int, memory: Any, count: int) -> float:
        start, stop = cuda.Event(), cuda.Event()
        arguments = np.uintp(int(memory)), np.int64(count)
        start.record(self._stream)
        function(*arguments, grid=(blocks, 1), block=(THREADS, 1, 1), stream=self._stream)
        stop.record(self._stream)
        stop.synchronize()
        return float(stop.time_since(start)) * 1e3
