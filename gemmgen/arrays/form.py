"""The launches of calls whose operands have the same layout: what is planned once, and what is bound per call. CUDA
contexts: the one that is current on a device, or else its primary one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import addressof, c_uint64, sizeof
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from struct import Struct
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple

from cuda.bindings import driver

from gemmgen.arrays.fastcall import Direct
from gemmgen.arrays.libraries import Library
from gemmgen.arrays.view import view_of
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.tensor_map import MAP_BYTES, TiledTensor
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import Case
from gemmgen.run.arguments import slots_of
from gemmgen.run.gpu.bindings import (
    DriverError,
    DriverFunction,
    EncodedMap,
    MapEncoder,
    PlannedLaunch,
    blocks_on,
    checked,
    pointer,
)
from gemmgen.support.errors import CandidateFailed, Failure


@dataclass(frozen=True)
class Context:
    """A CUDA context: the driver's handle, and its device."""

    handle: int
    ordinal: int
    sms: int
    arch: str


def elsewhere(context: Context) -> str:
    """The end of an error message if the current context is not that of a launch; "" if it is."""
    status, now = driver.cuCtxGetCurrent()
    same = status == driver.CUresult.CUDA_SUCCESS and int(now) == context.handle
    return "" if same else f": the launch belongs to device {context.ordinal}, whose context is not the current one"


@contextmanager
def failures() -> Iterator[None]:
    """Turn errors of the driver, and tensor maps that it refuses, into launch failures."""
    try:
        yield
    except DriverError as error:
        raise CandidateFailed(Failure("launch", str(error), "gpu")) from error


@contextmanager
def current(ordinal: int) -> Iterator[Context]:
    """Yield the current context if it belongs to this device; else its primary one, which is current in the block."""
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


def arch_here() -> str:
    """The architecture of the first device: "sm_90". Raises CandidateFailed."""
    with failures():
        checked(driver.cuInit(0))
        return context_of(0, 0).arch


@cache
def context_of(handle: int, ordinal: int) -> Context:
    attribute, device = driver.CUdevice_attribute, driver.CUdevice(ordinal)

    def value(name: str) -> int:
        return int(checked(driver.cuDeviceGetAttribute(getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device)))

    major, minor = value("COMPUTE_CAPABILITY_MAJOR"), value("COMPUTE_CAPABILITY_MINOR")
    return Context(handle, ordinal, value("MULTIPROCESSOR_COUNT"), f"sm_{major}{minor}")


PART_ALIGN = 256  # bytes, of the workspace's parts
MOST_MAPS = 1024  # of an argument that are kept: addresses of activations come again, and some do not
MOST_EXTENTS = 1 << 14  # of a form: numbers of rows that a server brings


@dataclass
class Part:
    """Memory of a workspace, which only grows: an array of the operands' library, its address and bytes.

    It belongs to one stream, and only that stream's launches use it. Memory that is freed on growth is reused only
    after the launches that read it: the allocator is ordered by the stream, or else the stream is synchronized first.
    """

    array: Any = None
    address: int = 0
    size: int = 0

    def reserve(self, size: int, library: Library, like: Any, stream: int) -> int:
        """The address of `size` bytes, which are zero when launches on `stream` first use them."""
        if self.size < size:
            if self.array is not None and not library.ordered:
                checked(driver.cuStreamSynchronize(driver.CUstream(stream)))
            self.array = _zeros(library, size, like, stream)
            self.address, self.size = view_of("workspace", self.array).address, size
        return self.address


@dataclass
class Workspace:
    """Memory that the launches of one stream share. Semaphores lie in a part that no other write reaches."""

    semaphores: Part = field(default_factory=Part)
    rest: Part = field(default_factory=Part)
    alone: Lock = field(default_factory=Lock)  # of threads: the launches of one call follow each other, in one array


class Maps:
    """The tensor maps of one argument, each kept where the driver reads it.

    place    index of the operand among the addresses
    by_rows  whether the operand has as many lines as C has rows
    images   whether they are in im2col mode
    """

    def __init__(self, tensor: TiledTensor, place: int, by_rows: bool) -> None:
        self._encode = MapEncoder(tensor)
        self._anywhere, self._place, self._by_rows = tensor.anywhere, place, by_rows
        self.images = bool(tensor.steps)
        self._made: dict[tuple[int, int | None], EncodedMap] = {}

    @property
    def direct(self) -> tuple[int, ...]:
        """See fastcall.Direct.maps."""
        return self._place, self._by_rows, *self._encode.arguments

    def at(self, addresses: Sequence[int], rows: int | None) -> int:
        """The host address of the map for these operands. Raises DriverError, or InvalidInput for the address."""
        key = 0 if self._anywhere else addresses[self._place], rows if self._by_rows else None
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= MOST_MAPS:
                self._made.clear()
            made = self._made[key] = self._encode(*key)
        return made.address


@dataclass(frozen=True)
class Step:
    """One launch of a kernel's program.

    launch  its geometry
    zeroed  outputs that must be zeroed before it, by the index of their address
    """

    launch: Launch
    planned: PlannedLaunch
    zeroed: tuple[tuple[int, str], ...]

    def zero(self, addresses: Sequence[int], words: Mapping[str, int], stream: int) -> None:
        for place, name in self.zeroed:
            checked(driver.cuMemsetD32Async(addresses[place], 0, words[name], driver.CUstream(stream)))


class Extent(NamedTuple):
    """The launch parameters of a form for one number of rows.

    blocks      blocks of each step
    semaphores  bytes of the workspace's semaphores
    offsets     offsets of the other parts of the workspace in `rest` bytes
    words       number of 4-byte words of each output that must be zeroed before a launch
    """

    blocks: tuple[int, ...]
    semaphores: int = 0
    offsets: tuple[int, ...] = ()
    rest: int = 0
    words: Mapping[str, int] = MappingProxyType({})


class Form:
    """The launches for one `Checked`: at any addresses and, if the kernel leaves M open, for any number of rows.

    case     the case of one of them
    by_rows  whether they take any M, instead of only that of `case`
    names    names of the operands whose addresses a launch gets
    parts    parts of the workspace: their addresses follow, that of the semaphores last
    waits    whether it returns only when they are done

    All arguments that vary are read from one array of words: the addresses, and M.
    """

    def __init__(
        self,
        context: Context,
        contract: Contract,
        case: Case,
        by_rows: bool,
        names: Sequence[str],
        parts: Sequence[str] = (),
        waits: bool = False,
    ) -> None:
        self.context, self._contract, self._case, self._by_rows = context, contract, case, by_rows
        self._zeroed = contract.zeroed
        self._parts, self._waits = (*parts, "semaphores") if parts else (), waits
        self.takes_workspace = bool(parts)
        places = (*names, *self._parts, "M")
        self._places = {name: place for place, name in enumerate(places)}
        self._pack, self._words = Struct(f"<{len(places)}Q").pack_into, (c_uint64 * len(places))()
        self._steps: tuple[Step, ...] = ()
        self._maps: list[tuple[Any, int, Maps]] = []  # a launch's parameters, the place of one, and its maps
        self._variables: list[tuple[int, int]] = []  # the place of a parameter, and of its word
        self._bound: int | None = -1  # rows of the last launch
        self._extents: dict[int | None, Extent] = {}
        self._alone = Lock()  # threads of one stream's callers share the arguments

    def add(self, contract: Contract, function: DriverFunction) -> None:
        """Add the launch of `contract` as the next step, unless it has no block."""
        blocks = blocks_on(contract.launch, self._case.values, self.context.sms)
        if blocks == 0:
            return  # K = 0, and a launch that prepares an operand without an element
        slots, place_of = slots_of(contract, self._case), self._places
        unbound = defaultdict[str, int](int)
        arguments = [slot.argument(unbound, lambda tensor, address: bytes(MAP_BYTES)) for slot in slots]
        planned = function.planned(arguments, blocks)
        for place, (parameter, slot) in enumerate(zip(contract.parameters, slots, strict=True)):
            name = "M" if parameter.name == "M" and self._by_rows else slot.name
            if name is None:
                continue
            if slot.tensor is not None:
                maps = Maps(slot.tensor, place_of[name], self._by_rows and slot.tensor.operand != "B")
                self._maps.append((planned.parameters, place, maps))
            else:  # of M, an int, the low bytes of a word: hosts of CUDA are little-endian
                planned.parameters[place] = addressof(self._words) + sizeof(c_uint64) * place_of[name]
                self._variables.append((place, place_of[name]))
        zeroed = tuple((place_of[name], name) for name in contract.zeroed)
        self._steps = (*self._steps, Step(contract.launch, planned, zeroed))

    def extent(self, rows: int | None) -> Extent:
        found = self._extents.get(rows)
        if found is None:
            if len(self._extents) >= MOST_EXTENTS:
                self._extents.clear()
            found = self._extents[rows] = self._extent(rows)
        return found

    def _extent(self, rows: int | None) -> Extent:
        case, sms = self._case, self.context.sms
        sizes = case.values if rows is None else {**case.values, "M": rows}
        found = Extent(tuple([blocks_on(step.launch, sizes, sms) for step in self._steps]))
        if not self._parts and not self._zeroed:
            return found
        return self._with_memory(found, case if rows is None else replace(case, m=rows))

    def _with_memory(self, extent: Extent, case: Case) -> Extent:
        """`extent` with the memory that launches of `case` use or zero."""
        lengths = self._contract.launch.workspace(case).lengths
        rounded = [-(-lengths[name] // PART_ALIGN) * PART_ALIGN for name in self._parts[:-1]]
        *offsets, rest = accumulate(rounded, initial=0)
        words = {name: case.extra[name].bytes // WORD for name in self._zeroed}
        return Extent(extent.blocks, lengths.get("semaphores", 0), tuple(offsets), rest, words)

    def direct(self) -> Direct | None:
        """The form for fastcall.c; None if it is more than one launch on operands in place."""
        images = any(maps.images for _, _, maps in self._maps)  # whose maps fastcall.c does not encode
        if len(self._steps) != 1 or self._zeroed or self._parts or self._waits or images:
            return None
        (step,) = self._steps
        planned, by_m = step.planned, [tile for size, tile in step.launch.grid if size == "M"]
        if step.launch.groups:
            by_m = []  # each row more may be a group's, with a tile of its own
        found = Direct(
            tuple(map(pointer, ("cuCtxGetCurrent", "cuLaunchKernelEx", "cuTensorMapEncodeTiled"))),
            self.context.handle,
            planned.function,
            planned.config_bytes,
            [*planned.parameters],
            self._variables,
            [(place, *maps.direct) for _, place, maps in self._maps],
            by_m[0] if len(by_m) == 1 else 1,
            lambda rows: self.extent(rows).blocks[0],
            self,
        )
        return found if found.fits else None

    def run(self, addresses: Sequence[int], rows: int | None, stream: int) -> None:
        """Bind the arguments and enqueue the launches."""
        with self._alone:
            self.bind(addresses, rows)
            self.enqueue(addresses, rows, stream)

    def bind(self, addresses: Sequence[int], rows: int | None) -> None:
        """Bind the arguments. Raises CandidateFailed (launch), or InvalidInput, if a tensor map cannot be made."""
        self._pack(self._words, 0, *addresses, rows or 0)
        if rows != self._bound:
            for step, blocks in zip(self._steps, self.extent(rows).blocks, strict=True):
                step.planned.config.blocks = blocks
            self._bound = rows
        try:
            for parameters, place, maps in self._maps:
                parameters[place] = maps.at(addresses, rows)
        except DriverError as error:
            raise CandidateFailed(Failure("launch", str(error), "gpu")) from error

    def enqueue(self, addresses: Sequence[int], rows: int | None, stream: int) -> None:
        """Enqueue the launches. Raises CandidateFailed: launch."""
        try:
            for step in self._steps:
                if step.zeroed:
                    step.zero(addresses, self.extent(rows).words, stream)
                step.planned(stream)
            if self._waits:
                checked(driver.cuStreamSynchronize(driver.CUstream(stream)))
        except DriverError as error:
            raise CandidateFailed(Failure("launch", f"{error}{elsewhere(self.context)}", "gpu")) from error

    def placed(self, rows: int | None, memory: Workspace, library: Library, like: Any, stream: int) -> tuple[int, ...]:
        """Addresses of the workspace's parts in `memory`, for launches on `stream`."""
        if not self._parts:
            return ()
        extent = self.extent(rows)
        first = memory.rest.reserve(extent.rest, library, like, stream)
        last = memory.semaphores.reserve(extent.semaphores, library, like, stream)
        return *(first + offset for offset in extent.offsets), last


def _zeros(library: Library, count: int, like: Any, stream: int) -> Any:
    """An array of zero bytes, as `stream` sees it."""
    made = library.zeros(count, like, stream)
    if not library.ordered:  # the default stream writes them
        checked(driver.cuStreamSynchronize(driver.CUstream(0)))
    return made
