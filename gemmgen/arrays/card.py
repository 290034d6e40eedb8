"""Launches on a GPU, in the caller's context and on the caller's stream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_uint64
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from threading import Lock
from typing import Any

from cuda.bindings import driver

from gemmgen.arrays.kernel import Arrays, Planned
from gemmgen.arrays.libraries import Library
from gemmgen.arrays.view import ArrayView, Device, view_of
from gemmgen.kernel.prepare import Step as PrepareStep
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import MAP_BYTES
from gemmgen.problem.case import Case
from gemmgen.problem.dtype import WORD
from gemmgen.run.arguments import Slot, slots_of
from gemmgen.run.compile import arch_for, compile_kernel
from gemmgen.run.gpu.bindings import DriverError, DriverFunction, PlannedLaunch, blocks_on, checked, encoded
from gemmgen.support.errors import CandidateFailed, Failure, require
from gemmgen.support.files import Store

PART_ALIGN = 256  # bytes, of the workspace's parts


@dataclass(frozen=True)
class Context:
    """A CUDA context: the driver's handle, and its device."""

    handle: int
    ordinal: int
    sms: int
    arch: str


@dataclass
class Part:
    """Memory of a workspace, which only grows: an array of the operands' library, its address and bytes.

    It belongs to one stream, whose launches alone use it. So what is freed when it grows serves other arrays behind the
    launches that still use it: by the library's order, else they are waited for.
    """

    array: Any = None
    address: int = 0
    size: int = 0

    def reserve(self, size: int, library: Library, like: Any, stream: int) -> int:
        """The address of `size` bytes, which are zero where launches on `stream` first use them."""
        if self.size < size:
            if self.array is not None and not library.ordered:
                checked(driver.cuStreamSynchronize(driver.CUstream(stream)))
            self.array = _zeros(library, size, like, stream)
            self.address, self.size = view_of("workspace", self.array).address, size
        return self.address


@dataclass
class Workspace:
    """What the launches of one stream share. Semaphores lie apart: what is written to the rest leaves them zero."""

    semaphores: Part = field(default_factory=Part)
    rest: Part = field(default_factory=Part)
    alone: Lock = field(default_factory=Lock)  # of threads: the launches of one call follow each other, in one array


@dataclass(frozen=True)
class Step:
    """One launch of a kernel's program: what it passes, and the outputs that are zero before it, with their words."""

    planned: PlannedLaunch
    pointers: tuple[tuple[str, c_uint64], ...]
    maps: tuple[tuple[int, str, Slot], ...]
    zeroed: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, planned: PlannedLaunch, slots: Sequence[Slot], zeroed: tuple[tuple[str, int], ...]) -> Step:
        located = [(place, slot.name, slot) for place, slot in enumerate(slots) if slot.name is not None]
        pointers = tuple((name, planned.pointer(place)) for place, name, slot in located if slot.tensor is None)
        return cls(planned, pointers, tuple(one for one in located if one[2].tensor is not None), zeroed)

    def bind(self, addresses: Mapping[str, int]) -> None:
        for name, pointer in self.pointers:
            pointer.value = addresses[name]
        for place, name, slot in self.maps:
            self.planned.pass_map(place, slot.located(addresses[name], encoded))

    def __call__(self, addresses: Mapping[str, int], stream: int) -> None:
        for name, words in self.zeroed:
            checked(driver.cuMemsetD32Async(addresses[name], 0, words, driver.CUstream(stream)))
        self.planned(stream)


@dataclass(frozen=True)
class Zeroing:
    """What there is to do where C has no element: largest magnitudes, with their bytes, become 0."""

    zeroed: tuple[tuple[str, int], ...]

    def bind(self, addresses: Mapping[str, int]) -> None:
        """Nothing is encoded."""

    def __call__(self, addresses: Mapping[str, int], stream: int) -> None:
        for name, size in self.zeroed:
            if size:
                checked(driver.cuMemsetD32Async(addresses[name], 0, size // WORD, driver.CUstream(stream)))


class Form:
    """The launches of operands that lie in one way, wherever: steps, and the workspace that they take.

    lengths  bytes of the workspace's parts
    waits    it returns when they are done
    """

    def __init__(
        self, context: Context, steps: tuple[Step | Zeroing, ...], lengths: Mapping[str, int], waits: bool
    ) -> None:
        self.context, self._steps, self._waits = context, steps, waits
        self._semaphores = lengths.get("semaphores", 0)
        rounded = {name: -(-size // PART_ALIGN) * PART_ALIGN for name, size in lengths.items() if name != "semaphores"}
        starts = (0, *accumulate(rounded.values()))
        self._offsets, self._rest = dict(zip(rounded, starts, strict=False)), starts[-1]
        self._alone = Lock()  # threads of one stream's callers share the arguments' buffers

    @property
    def takes_workspace(self) -> bool:
        return self._semaphores + self._rest > 0

    def run(self, addresses: Mapping[str, int], stream: int) -> None:
        """Bind and enqueue them."""
        with self._alone:
            self.bind(addresses)
            self.enqueue(addresses, stream)

    def bind(self, addresses: Mapping[str, int]) -> None:
        """Raises CandidateFailed (launch), or InvalidInput, for what no tensor map is made of."""
        try:
            for step in self._steps:
                step.bind(addresses)
        except DriverError as error:
            raise CandidateFailed(Failure("launch", str(error), "gpu")) from error

    def enqueue(self, addresses: Mapping[str, int], stream: int) -> None:
        """Raises CandidateFailed: launch."""
        try:
            for step in self._steps:
                step(addresses, stream)
            if self._waits:
                checked(driver.cuStreamSynchronize(driver.CUstream(stream)))
        except DriverError as error:
            raise CandidateFailed(Failure("launch", f"{error}{_elsewhere(self.context)}", "gpu")) from error

    def placed(self, memory: Workspace, library: Library, like: Any, stream: int) -> dict[str, int]:
        """Addresses of the workspace's parts in `memory`, for launches on `stream`."""
        first = memory.rest.reserve(self._rest, library, like, stream)
        addresses = {name: first + offset for name, offset in self._offsets.items()}
        addresses["semaphores"] = memory.semaphores.reserve(self._semaphores, library, like, stream)
        return addresses


class CardBackend:
    """Runs `source` on the device of its arrays, in the context that is current there, else the primary one."""

    device: Device = "cuda"

    def __init__(self, source: KernelSource, store: Store) -> None:
        with failures():
            checked(driver.cuInit(0))
        self._source, self._store = source, store
        self._functions: dict[Context, dict[str, DriverFunction]] = {}
        self._workspaces: dict[tuple[Context, int], Workspace] = {}

    def locate(self, view: ArrayView) -> ArrayView:
        if view.device != "cuda" or view.ordinal is not None or view.address == 0:
            return view
        attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        with failures():
            return replace(view, ordinal=int(checked(driver.cuPointerGetAttribute(attribute, view.address))))

    def run(self, arrays: Arrays, stream: int) -> None:
        """In the current context, where it is one of the arrays' device, with little ado."""
        forms = arrays.checked.forms
        form: Form | None = forms.get(int(driver.cuCtxGetCurrent()[1]))
        if form is not None:
            self._enqueue(form, arrays, stream)
            return
        with failures(), current(arrays.checked.ordinal) as context:
            if context.handle not in forms:
                forms[context.handle] = self._form(context, arrays)
            self._enqueue(forms[context.handle], arrays, stream)

    def _enqueue(self, form: Form, arrays: Arrays, stream: int) -> None:
        addresses = arrays.addresses
        if not form.takes_workspace:
            form.run(addresses, stream)
            return
        memory = self._workspace(form.context, stream, arrays.library)
        with memory.alone:
            form.run({**addresses, **form.placed(memory, arrays.library, arrays.like, stream)}, stream)

    def plan(self, arrays: Arrays) -> Planned:
        """Its context has to be current when it is called."""
        with failures(), current(arrays.checked.ordinal) as context:
            form, memory = self._form(context, arrays), Workspace()
            stream = arrays.library.stream(context.ordinal)
            addresses = {**arrays.addresses, **form.placed(memory, arrays.library, arrays.like, stream)}
            if form.takes_workspace and not arrays.library.capturing(stream, context.ordinal):
                checked(driver.cuStreamSynchronize(driver.CUstream(stream)))  # it is zero to any stream
            form.bind(addresses)

        def planned(stream: int, memory: Workspace = memory) -> None:  # which lives as long as this
            form.enqueue(addresses, stream)

        return planned

    def prepare(self, step: PrepareStep, case: Case, view: ArrayView, made: ArrayView, stream: int) -> None:
        entry = step.entry(self._source.name)
        source = next(one for one in self._source.program if one.name == entry)
        addresses = {step.source: view.address, step.part: made.address}
        with failures(), current(view.ordinal or 0) as context:
            for launch in self._steps(context, source, case):
                launch.bind(addresses)
                launch(addresses, stream)

    def close(self) -> None:
        """Forget functions and workspaces; modules go with their context."""
        self._functions.clear()
        self._workspaces.clear()

    def _form(self, context: Context, arrays: Arrays) -> Form:
        source, case = self._source, arrays.case
        if arrays.checked.empty:
            return Form(context, (Zeroing(arrays.checked.zeroed),), {}, not arrays.library.asynchronous)
        made = {one.entry(source.name): one.part for one in source.launch.prepares if one.part in arrays.addresses}
        lengths = source.launch.workspace(case).lengths
        needed = {name: size for name, size in lengths.items() if size and name not in made.values()}
        program = [one for one in source.program if one.name not in made]
        steps = [step for one in program for step in self._steps(context, one, case)]
        return Form(context, tuple(steps), needed, not arrays.library.asynchronous)

    def _steps(self, context: Context, source: KernelSource, case: Case) -> list[Step]:
        """The launch of `source`, without addresses; none where it has no block."""
        blocks = blocks_on(source.launch, case, context.sms)
        if blocks == 0:  # K = 0, and a launch that prepares an operand without an element
            return []
        slots = slots_of(source, case)
        unbound = defaultdict[str, int](int)
        arguments = [slot.argument(unbound, lambda tensor, address: bytes(MAP_BYTES)) for slot in slots]
        zeroed = tuple((name, case.extra[name].bytes // WORD) for name in source.zeroed)
        return [Step.of(self._function(context, source.name).planned(arguments, blocks), slots, zeroed)]

    def _function(self, context: Context, name: str) -> DriverFunction:
        if context not in self._functions:
            _require_arch(self._source, context)
            cubin = compile_kernel(self._source, context.arch, self._store).cubin
            self._functions[context] = {
                step.name: DriverFunction(step.name, step.launch, cubin) for step in self._source.program
            }
        return self._functions[context][name]

    def _workspace(self, context: Context, stream: int, library: Library) -> Workspace:
        """The stream's; a new one for a graph that is recorded, to whose memory it belongs."""
        if library.capturing(stream, context.ordinal):
            return Workspace()
        return self._workspaces.setdefault((context, stream), Workspace())


def _require_arch(source: KernelSource, context: Context) -> None:
    """Raise InvalidInput where the kernel has instructions of another architecture alone."""
    made = source.arch.rstrip("a")
    alone = arch_for(source, made).endswith("a") and made != context.arch
    require(not alone, f"{source.name} is for {made}a alone, and device {context.ordinal} is of {context.arch}")


def _zeros(library: Library, count: int, like: Any, stream: int) -> Any:
    """Bytes of zero that `stream` finds so."""
    made = library.zeros(count, like, stream)
    if not library.ordered:  # the default stream writes them
        checked(driver.cuStreamSynchronize(driver.CUstream(0)))
    return made


def _elsewhere(context: Context) -> str:
    """What to say where the current context is not the one that a launch belongs to."""
    status, now = driver.cuCtxGetCurrent()
    same = status == driver.CUresult.CUDA_SUCCESS and int(now) == context.handle
    return "" if same else f": the launch belongs to device {context.ordinal}, whose context is not the current one"


@contextmanager
def failures() -> Iterator[None]:
    """Errors of the driver, and of maps that it does not take, are a launch's."""
    try:
        yield
    except DriverError as error:
        raise CandidateFailed(Failure("launch", str(error), "gpu")) from error


@contextmanager
def current(ordinal: int) -> Iterator[Context]:
    """The context that is current, where it is of this device; else its primary one, which is current meanwhile."""
    now = int(checked(driver.cuCtxGetCurrent()))
    if now != 0 and int(checked(driver.cuCtxGetDevice())) == ordinal:
        yield context_of(now, ordinal)
        return
    handle = primary(ordinal)
    checked(driver.cuCtxPushCurrent(driver.CUcontext(handle)))
    try:
        yield context_of(handle, ordinal)
    finally:
        checked(driver.cuCtxPopCurrent())


@cache
def primary(ordinal: int) -> int:
    """The handle of the device's primary context, which torch, CuPy and JAX use."""
    return int(checked(driver.cuDevicePrimaryCtxRetain(driver.CUdevice(ordinal))))


def arch_here(ordinal: int = 0) -> str:
    """ "sm_90": that of a device. Raises CandidateFailed."""
    with failures():
        checked(driver.cuInit(0))
        return context_of(0, ordinal).arch


@cache
def context_of(handle: int, ordinal: int) -> Context:
    attribute, device = driver.CUdevice_attribute, driver.CUdevice(ordinal)

    def value(name: str) -> int:
        return int(checked(driver.cuDeviceGetAttribute(getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device)))

    major, minor = value("COMPUTE_CAPABILITY_MAJOR"), value("COMPUTE_CAPABILITY_MINOR")
    return Context(handle, ordinal, value("MULTIPROCESSOR_COUNT"), f"sm_{major}{minor}")
