"""Launches on a GPU, in the caller's context and on the caller's stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cuda.bindings import driver

from gemmgen.arrays.kernel import Arrays, Launch
from gemmgen.arrays.libraries import Library
from gemmgen.arrays.view import ArrayView, Device, placed, view_of
from gemmgen.kernel.prepare import Prepare
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.case import Case
from gemmgen.run.arguments import arguments_of
from gemmgen.run.compile import compile_kernel
from gemmgen.run.gpu.bindings import DriverError, DriverFunction, PlannedLaunch, blocks_on, checked, encoded
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store

PART_ALIGN = 256  # bytes, of the workspace's parts


@dataclass(frozen=True)
class Context:
    """A CUDA context: the driver's handle, and its device."""

    handle: int
    ordinal: int
    sms: int
    arch: str


@dataclass(frozen=True)
class Loaded:
    """A kernel's launches in one context, each by its name."""

    context: Context
    functions: Mapping[str, DriverFunction]


@dataclass
class Workspace:
    """Memory for the launches of one stream, which only grows: semaphores, which launches leave zero, and the rest."""

    semaphores: Any = None
    rest: Any = None
    sizes: dict[str, int] = field(default_factory=dict)

    def reserve(self, name: str, count: int, make: Callable[[], Any]) -> int:
        """The address of so many bytes of the part `name`."""
        if self.sizes.get(name, 0) < count:
            setattr(self, name, make())
            self.sizes[name] = count
        return view_of(name, getattr(self, name)).address if count else 0


class CardBackend:
    """Runs `source` on the device of its arrays, in the context that is current there, else the primary one."""

    device: Device = "cuda"

    def __init__(self, source: KernelSource, store: Store) -> None:
        with failures():
            checked(driver.cuInit(0))
        self._source, self._store = source, store
        self._loaded: dict[int, Loaded] = {}
        self._workspaces: dict[tuple[int, int], Workspace] = {}

    def locate(self, view: ArrayView) -> ArrayView:
        if view.device != "cuda" or view.ordinal is not None or view.address == 0:
            return view
        attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        with failures():
            return placed(view, int(checked(driver.cuPointerGetAttribute(attribute, view.address))))

    def launch(self, arrays: Arrays, stream: int | None, kept: bool) -> Launch:
        with failures(), current(arrays.ordinal or 0) as context:
            loaded = self._load(context)
            pointers = self._pointers(arrays, context, stream, kept)
            steps = [
                self._planned(loaded, step, arrays.case, pointers)
                for step in self._source.program
                if step is self._source or not self._is_prepared(step, arrays)
            ]
        return _joined([launch for step in steps for launch in step], context, not arrays.library.asynchronous)

    def prepare(self, prepare: Prepare, case: Case, view: ArrayView, copy: ArrayView, stream: int) -> None:
        entry = prepare.entry(self._source.name)
        step = next(one for one in self._source.program if one.name == entry)
        pointers = {prepare.operand: view.address, prepare.part: copy.address}
        with failures(), current(view.ordinal or 0) as context:
            for launch in self._planned(self._load(context), step, case, pointers):
                launch(stream)

    def close(self) -> None:
        """Forget functions and workspaces; modules go with their context."""
        self._loaded.clear()
        self._workspaces.clear()

    def _load(self, context: Context) -> Loaded:
        if context.handle not in self._loaded:
            cubin = compile_kernel(self._source, context.arch, self._store).cubin
            functions = {step.name: DriverFunction(step.name, step.launch, cubin) for step in self._source.program}
            self._loaded[context.handle] = Loaded(context, functions)
        return self._loaded[context.handle]

    def _is_prepared(self, step: KernelSource, arrays: Arrays) -> bool:
        name = self._source.name
        return any(
            one.operand in arrays.prepared and one.entry(name) == step.name for one in self._source.launch.prepares
        )

    def _planned(self, loaded: Loaded, step: KernelSource, case: Case, pointers: Mapping[str, int]) -> list[Launch]:
        """What enqueues one launch, and before it what sets its maxima to zero."""
        blocks = blocks_on(step.launch, case, loaded.context.sms)
        if blocks == 0:  # K = 0, and a launch that prepares an operand without an element
            return []
        zeroed: list[Launch] = [_zero(pointers[name], case.extra[name].bytes // 4) for name in step.zeroed]
        arguments = arguments_of(step, case, pointers, encoded)
        planned: PlannedLaunch = loaded.functions[step.name].planned(arguments, blocks)
        return [*zeroed, planned]

    def _pointers(self, arrays: Arrays, context: Context, stream: int | None, kept: bool) -> dict[str, int]:
        """Addresses of operands and of the parts of the workspace."""
        pointers = {name: view.address for name, view in arrays.views.items()}
        workspace = self._source.launch.workspace(arrays.case)
        copies = {f"prepared_{name.lower()}": view.address for name, view in arrays.prepared.items()}
        lengths = {name: count for name, count in workspace.lengths.items() if count and name not in copies}
        if not lengths:
            return pointers | copies
        memory = self._workspace(arrays, context, stream, kept)
        return pointers | copies | _parts(memory, lengths, arrays.library, arrays.like)

    def _workspace(self, arrays: Arrays, context: Context, stream: int | None, kept: bool) -> Workspace:
        """That of the stream; a new one for a plan, and for a graph that torch records, to which its memory belongs."""
        if kept or stream is None or arrays.library.capturing():
            return Workspace()
        return self._workspaces.setdefault((context.handle, stream), Workspace())


def _parts(memory: Workspace, lengths: Mapping[str, int], library: Library, like: Any) -> dict[str, int]:
    """Addresses of the parts. Semaphores stay where they are, whatever the others take."""
    rest = {name: count for name, count in lengths.items() if name != "semaphores"}
    rounded = {name: -(-count // PART_ALIGN) * PART_ALIGN for name, count in rest.items()}
    whole, semaphores = sum(rounded.values()), lengths.get("semaphores", 0)
    addresses = {"semaphores": memory.reserve("semaphores", semaphores, lambda: _zeros(library, semaphores, like))}
    at = memory.reserve("rest", whole, lambda: _zeros(library, whole, like))
    for name, count in rounded.items():
        addresses[name] = at
        at += count
    return addresses


def _zeros(library: Library, count: int, like: Any) -> Any:
    """Bytes of zero that any stream finds so."""
    made = library.zeros(count, like)
    if not library.capturing():
        ordinal = int(checked(driver.cuCtxGetDevice()))
        checked(driver.cuStreamSynchronize(driver.CUstream(library.stream(ordinal))))
    return made


def _zero(address: int, words: int) -> Launch:
    def zero(stream: int) -> None:
        checked(driver.cuMemsetD32Async(address, 0, words, driver.CUstream(stream)))

    return zero


def _joined(launches: list[Launch], context: Context, waits: bool) -> Launch:
    """One that enqueues all of them, and where it `waits` returns when they are done."""

    def launch(stream: int) -> None:
        try:
            for one in launches:
                one(stream)
            if waits:
                checked(driver.cuStreamSynchronize(driver.CUstream(stream)))
        except DriverError as error:
            raise CandidateFailed(Failure("launch", f"{error}{_elsewhere(context)}", "gpu")) from error

    return launch


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


@cache
def context_of(handle: int, ordinal: int) -> Context:
    attribute, device = driver.CUdevice_attribute, driver.CUdevice(ordinal)

    def value(name: str) -> int:
        return int(checked(driver.cuDeviceGetAttribute(getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device)))

    major, minor = value("COMPUTE_CAPABILITY_MAJOR"), value("COMPUTE_CAPABILITY_MINOR")
    return Context(handle, ordinal, value("MULTIPROCESSOR_COUNT"), f"sm_{major}{minor}")
