"""GpuExecutor: compiles here, runs and times kernels in a worker process on an NVIDIA GPU.

If a candidate breaks its context or its process, only that candidate is lost: the worker is started again for the next
request. Processes that share a card take turns, one request each, so that no process disturbs another's measurement.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.run.acceptance import Judged, Places, Rule
from gemmgen.run.compile import CompiledKernel, compile_kernel
from gemmgen.run.executor import Floats, LoadedKernel, Operands, Products
from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.gpu.arena import KEPT_BYTES, ImageKey, image_key
from gemmgen.run.gpu.capability import DeviceProperties, properties_here
from gemmgen.run.gpu.limits import MeasuredLimits, measure_limits
from gemmgen.run.gpu.lt_epilogue import epilogue_apart
from gemmgen.run.gpu.plain import plain_cubin
from gemmgen.run.gpu.power import Observed
from gemmgen.run.gpu.shared import Given, Sent, SharedMemory
from gemmgen.run.gpu.timing import FIRST, QUICK, Beside, InterleavedTimings, Protocol, Timing
from gemmgen.run.nvrtc import compiler_version, flags_for
from gemmgen.support.child import Child, ChildDied
from gemmgen.support.errors import CandidateFailed, Failure, FailureKind
from gemmgen.support.files import Store, content_key
from gemmgen.support.threads import in_threads

START_TIMEOUT = 120.0  # seconds for a worker to import pycuda and make a context
PLAIN_KERNELS = ("random", "move", "changed", "judge", "multiply")
MULTIPLY_FLOPS = 2**27  # of a reference's product: below it numpy is done before the card has its answer copied
MULTIPLY_COLUMNS = 64 * 65535  # that a grid has room for
JUDGED_ELEMENTS = 2**20  # of C: fewer are with the host as soon
MULTIPLY_TIMEOUT = 300.0  # seconds for a reference's product: a card may have few units for f64
BASELINE_TIMEOUT = 120.0  # seconds on top, for cuBLASLt's heuristics


MEASURING = ("measure", "observe", "time_plain")  # of the requests of a worker


class GpuKernel(LoadedKernel):
    """A kernel on the GPU; see gemmgen.run.executor.LoadedKernel."""

    runs_parts = False

    def __init__(self, executor: GpuExecutor, source: KernelSource, compiled: CompiledKernel) -> None:
        self.source = source
        self.compiled = compiled
        self._executor = executor

    @property
    def binary(self) -> tuple[KernelSource, bytes]:
        return self.source, self.compiled.cubin

    def can_run_whole(self, case: Case) -> bool:
        return True

    def run(
        self,
        case: Case,
        operands: Operands,
        *,
        seed: int = 0,
        blocks: Sequence[int] | None = None,
        watch: bool = True,
        output: str = "C",
        apart: Case | None = None,
    ) -> Floats:
        assert blocks is None, "a GPU runs the whole grid"
        assert apart is None, "a GPU has memory for all that it is given"
        return self._executor.run(self, case, operands, seed, output)

    def multiply(
        self, case: Case, operands: Operands, *, seed: int, sizes: bool, largest: bool
    ) -> tuple[Products, Products, Products] | None:
        return self._executor.multiply(case, operands, seed=seed, sizes=sizes, largest=largest)

    def judge(self, case: Case, operands: Operands, *, seed: int, rule: Rule, places: Places) -> Judged | None:
        return self._executor.judge(self, case, operands, seed=seed, rule=rule, places=places)

    def close(self) -> None:
        self._executor.unload(self)


class GpuExecutor:
    """Runs kernels on GPU `device` (the driver's index); see gemmgen.run.executor.Executor.

    `timeout` is the limit in seconds for one candidate's run or quick measurement; a hung kernel is killed then. Raises
    CandidateFailed (unavailable), naming what is missing.
    """

    name = "gpu"
    unconfined: tuple[str, ...] = ()  # nothing of a kernel's text runs on the host

    def __init__(self, store: Store, device: int = 0, timeout: float = 30.0) -> None:
        missing = why_no_gpu()
        if missing is not None:
            raise CandidateFailed(Failure("unavailable", missing, "gpu"))
        self.store = store
        self._timeout = timeout
        self.device = device
        self._child = Child("gemmgen.run.gpu.worker:Worker", str(device))
        self._child.start()
        self._is_ready = False
        self.properties = self._properties()
        self._shared = SharedMemory()
        self._tokens: dict[int, int] = {}
        self._numbers = itertools.count()
        self.description = str(self.properties)
        self.compile_for(self.properties.arch)

    def compile_for(self, arch: str) -> None:
        """Compile kernels for `arch` from now on, which the card must run: "sm_90a" on an sm_90 card."""
        self.arch, self.flags = arch, flags_for(arch)

    @property
    def environment(self) -> str:
        return content_key(self.description, compiler_version(), *self.flags)

    def prepare(self) -> None:
        """Compile what runs and measurements need beside kernels, while nobody waits for it."""
        in_threads(lambda name: plain_cubin(name, self.arch, self.store), PLAIN_KERNELS)

    def load(self, source: KernelSource) -> GpuKernel:
        """Compile and load. Raises CandidateFailed: compile or launch."""
        return self.load_compiled(source, compile_kernel(source, self.arch, self.store))

    def load_compiled(self, source: KernelSource, compiled: CompiledKernel) -> GpuKernel:
        """Load the result of `compile_many` for `source`. Raises CandidateFailed: launch."""
        kernel = GpuKernel(self, source, compiled)
        self._request(self._timeout, "load", kernel.binary)
        return kernel

    def run(self, kernel: GpuKernel, case: Case, operands: Operands, seed: int = 0, output: str = "C") -> Floats:
        """The storage of C, or of another `output`, after one launch. Raises CandidateFailed.

        Large read-only operands are sent once: the worker keeps what it can.
        """
        key = image_key(case, operands, self._token(operands), seed)

        def run_with(sent: Sent) -> Any:
            given = Given(case, seed, key, sent, self._shared.path)
            return self._request(self._timeout, "run", kernel.binary, given, self._changed, output)

        reply = self._with_image(key, case, operands, run_with)
        return self._shared.read(reply, case.problem.types.c) if isinstance(reply, int) else reply

    def multiply(
        self, case: Case, operands: Operands, *, seed: int, sizes: bool, largest: bool
    ) -> tuple[Products, Products, Products] | None:
        """See gemmgen.run.executor.LoadedKernel."""
        shared = self._shared
        if shared.path is None or not _multiplies(case):
            return None
        try:
            key, cubin = image_key(case, operands, self._token(operands), seed), self._multiply

            def multiply_with(sent: Sent) -> Any:
                given = Given(case, seed, key, sent, shared.path)
                return self._request(MULTIPLY_TIMEOUT, "multiply", given, cubin, sizes, largest)

            count = self._with_image(key, case, operands, multiply_with)
            shape = (-1, *((case.batch,) if case.problem.batched else ()), case.m, case.b.cols)
            products = shared.read(count, DType.F64).reshape(shape)
        except CandidateFailed:  # for want of memory, say: it is not the candidate that failed
            return None
        return products[0], products[1 if sizes else 0], products[-1]

    def judge(
        self, kernel: GpuKernel, case: Case, operands: Operands, *, seed: int, rule: Rule, places: Places
    ) -> Judged | None:
        """See gemmgen.run.executor.LoadedKernel."""
        shared = self._shared
        if shared.path is None or not _multiplies(case) or case.m * case.n * case.batch < JUDGED_ELEMENTS:
            return None
        key, cubins = image_key(case, operands, self._token(operands), seed), (self._multiply, self._judge)

        def run_with(sent: Sent) -> Any:
            given = Given(case, seed, key, sent, shared.path)
            return self._request(self._timeout, "run_kept", kernel.binary, given, self._changed)

        self._with_image(key, case, operands, run_with)
        try:
            judged: Judged = self._request(MULTIPLY_TIMEOUT, "judge", case, rule, places, *cubins)
            reply = self._request(self._timeout, "deliver", shared.path) if judged.wrong else None
        except CandidateFailed:  # for want of memory, say: it is not the candidate that failed
            return None
        result = shared.read(reply, case.problem.types.c) if isinstance(reply, int) else reply
        return replace(judged, result=result)

    def run_baseline(self, case: Case, operands: Operands) -> Floats:
        """Return C's storage after cuBLASLt's product, or cuBLAS's for a batch of pointers. Raises CandidateFailed."""
        result: Floats = self._request(BASELINE_TIMEOUT, "run_baseline", case, operands)
        return result

    def measure(self, kernel: GpuKernel, case: Case, protocol: Protocol = QUICK) -> Timing:
        """Time one kernel alone. Raises CandidateFailed."""
        (timing,) = self._measure_together([kernel], case, protocol).timings
        assert isinstance(timing, Timing)
        return timing

    def measure_many(
        self, kernels: Sequence[GpuKernel], case: Case, protocol: Protocol = QUICK, *, beside: Beside | None = None
    ) -> InterleavedTimings:
        """Time `kernels` interleaved with what is `beside` them (cuBLASLt, bytes alone): A B C A B C ...

        A kernel that crashes or hangs gets its Failure, and the others are measured without it. Raises CandidateFailed
        if the baseline or the inputs are not available.
        """
        try:
            return self._measure_together(kernels, case, protocol, beside)
        except CandidateFailed:
            alone = [self._probe(kernel, case) for kernel in kernels]
        well = [kernel for kernel, failure in zip(kernels, alone, strict=True) if failure is None]
        together = self._measure_together(well, case, protocol, beside)
        timings = iter(together.timings)
        merged = tuple(next(timings) if failure is None else failure for failure in alone)
        return replace(together, timings=merged)

    def observe(
        self, kernel: GpuKernel, case: Case, seconds: float, *, beside: bool = True
    ) -> tuple[Observed, Observed | None]:
        """Observe energy, power and clocks of the card while the kernel runs alone for `seconds`, and while cuBLASLt's
        best does. The latter is None if cuBLASLt has no kernel for the problem, or if nothing is to be `beside` the
        kernel.

        Raises CandidateFailed: unavailable, without NVML.
        """
        timeout, random = self._timeout + BASELINE_TIMEOUT + 4 * seconds, plain_cubin("random", self.arch, self.store)
        apart, uuid = self._apart(case) if beside else None, self.properties.uuid
        found: tuple[Observed, Observed | None] = self._request(
            timeout, "observe", kernel.binary, case, seconds, random, apart, uuid, beside
        )
        return found

    def _apart(self, case: Case) -> tuple[KernelSource, bytes] | None:
        """The epilogue that follows cuBLASLt's product, if cuBLASLt lacks it."""
        follower = epilogue_apart(case.problem, self.arch)
        return None if follower is None else (follower, compile_kernel(follower, self.arch, self.store).cubin)

    def limits(self) -> MeasuredLimits:
        """The card's measured FMA rates and bandwidths, measured once a day."""
        return measure_limits(self, self.store)

    def time_plain(self, cubin: bytes, name: str, buffer_bytes: int, count: int) -> tuple[float, int]:
        """(best microseconds, threads) of the kernel `name(float* buffer, long long count)`; see limits.py."""
        best_us, threads = self._request(self._timeout, "time_plain", cubin, name, buffer_bytes, count)
        return float(best_us), int(threads)

    def unload(self, kernel: GpuKernel) -> None:
        """Forget the kernel's module; a worker that is not running has none."""
        if self._child.running:
            self._request(self._timeout, "unload", kernel.source)

    def close(self) -> None:
        self._child.close()
        self._shared.close()

    def __enter__(self) -> GpuExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _changed(self) -> bytes:
        return plain_cubin("changed", self.arch, self.store)

    @cached_property
    def _multiply(self) -> bytes:
        return plain_cubin("multiply", self.arch, self.store)

    @cached_property
    def _judge(self) -> bytes:
        return plain_cubin("judge", self.arch, self.store)

    def _token(self, operands: Operands) -> int:
        """A number for this very object; no later object gets it."""
        address = id(operands)
        if address not in self._tokens:
            self._tokens[address] = next(self._numbers)
            weakref.finalize(operands, self._tokens.pop, address)
        return self._tokens[address]

    def _with_image(self, key: ImageKey | None, case: Case, operands: Operands, request: Callable[[Sent], Any]) -> Any:
        """Return `request(None)` or, if the worker has no image of `operands`, the request with them; large ones go
        through memory."""
        reply = request(None) if key is not None else None
        if reply is not None:
            return reply
        if self._shared.path is None or sum(array.nbytes for array in operands.by_name.values()) < KEPT_BYTES:
            return request(operands)
        self._shared.put(case, operands)
        return request("shared")

    def _probe(self, kernel: GpuKernel, case: Case) -> Failure | None:
        """The kernel's failure when it runs alone, or None."""
        try:
            self.measure(kernel, case)
        except CandidateFailed as error:
            return error.failure
        return None

    def _measure_together(
        self, kernels: Sequence[GpuKernel], case: Case, protocol: Protocol, beside: Beside | None = None
    ) -> InterleavedTimings:
        random, move = (plain_cubin(name, self.arch, self.store) for name in ("random", "move"))
        timeout = self._timeout * max(1, len(kernels)) + (BASELINE_TIMEOUT if beside else 0)
        binaries = [kernel.binary for kernel in kernels]
        apart = self._apart(case) if beside else None
        comparison: InterleavedTimings = self._request(
            timeout, "measure", binaries, case, protocol, beside, random, move, apart
        )
        return comparison

    def _request(self, timeout: float, verb: str, *arguments: object) -> Any:
        """Ask the worker. Raises CandidateFailed; a worker that dies is a crash or a timeout."""
        card = content_key(self.properties.uuid)
        # A launch of another process would be in a measured time; others may overlap.
        with self.store.alone("gpu", card, shared=verb not in MEASURING):
            if not (self._is_ready and self._child.running):
                self._start()  # apart, so that the start does not eat the candidate's time
            try:
                return self._child.request((verb, *arguments), timeout)
            except ChildDied as error:
                kind: FailureKind = "timeout" if error.timed_out else "crash"
                raise CandidateFailed(Failure(kind, str(error), "gpu")) from error

    def _properties(self) -> DeviceProperties:
        """Read the card's properties from the driver while the worker starts."""
        try:
            return properties_here(self.device)
        except CandidateFailed:
            self._child.close()
            raise

    def _start(self) -> None:
        """Wait until the worker answers."""
        try:
            self._child.request(("ready",), START_TIMEOUT)
            self._is_ready = True
        except ChildDied as error:
            reason = f"the gpu worker does not start: {error}"
            raise CandidateFailed(Failure("unavailable", reason, "gpu")) from error


class BesideLibrary:
    """Times kernels together with cuBLASLt's first heuristic, and alone once cuBLASLt turns out to be missing."""

    def __init__(self, gpu: GpuExecutor) -> None:
        self.gpu = gpu
        self._installed = True

    def measure(self, kernels: Sequence[GpuKernel], case: Case, protocol: Protocol) -> InterleavedTimings:
        """Measure as GpuExecutor.measure_many does. If cuBLASLt fails there is no baseline."""
        if self._installed:
            try:
                return self.gpu.measure_many(kernels, case, protocol, beside=FIRST)
            except CandidateFailed as error:
                self._installed = error.failure.kind != "unavailable"
        return self.gpu.measure_many(kernels, case, protocol)


def _multiplies(case: Case) -> bool:
    """Whether the card can compute a reference's product: it is large enough, and multiply.cu can read its numbers."""
    types = case.problem.types
    readable = DType.S32 not in (types.a, types.b) and not case.problem.pointers
    return readable and case.b.cols <= MULTIPLY_COLUMNS and case.flops >= MULTIPLY_FLOPS
