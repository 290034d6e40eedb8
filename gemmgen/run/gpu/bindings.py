"""A cubin's functions by cuda.bindings, in any current context: without pycuda, whoever made context and stream."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from cuda.bindings import driver

from gemmgen.kernel.launch import DEPENDENT_LAUNCH, Launch
from gemmgen.kernel.tensor_map import MAP_ALIGNMENT, MAP_BYTES, TiledTensor, tail_lines
from gemmgen.problem.device import STATIC_SHARED_BYTES
from gemmgen.run.arguments import Argument
from gemmgen.run.gpu import DRIVER

CONFIG_BYTES = 56  # of CUlaunchConfig
PORTABLE_CLUSTER_BLOCKS = 8  # that a cluster may have everywhere


class DriverError(Exception):
    """CUDA's driver refused a call; the message is its name for the reason."""


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a cuda.bindings call. Raises DriverError."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(status.name)
    return values[0] if values else None


@cache
def entry(name: str) -> Any:
    """The driver's function of this name as ctypes calls it: in half the time of cuda.bindings' function."""
    return getattr(ctypes.CDLL(DRIVER), name)


def pointer(name: str) -> int:
    """The address of the driver's function of this name."""
    return ctypes.cast(entry(name), ctypes.c_void_p).value or 0


def blocks_on(launch: Launch, sizes: Mapping[str, float], sms: int) -> int:
    """Blocks of the grid for these sizes on a card of `sms` SMs: see `Launch.resident`."""
    count = launch.blocks_of_sizes(sizes)
    return launch.resident(count, sms) if launch.persistent else count


class Moving(ctypes.Structure):
    """The head of CUlaunchConfig (cuda.h), with the fields that change from launch to launch."""

    _fields_ = (("blocks", ctypes.c_uint), ("_others", ctypes.c_uint * 6), ("stream", ctypes.c_uint64))


class PlannedLaunch:
    """A launch whose grid and arguments are set. Raises DriverError.

    config      the fields of its configuration that may be set again
    parameters  the host addresses of the arguments, which may be set again: the caller keeps that memory alive
    """

    def __init__(self, function: Any, launch: Launch, arguments: Sequence[Argument], blocks: int) -> None:
        self._whole = config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.threads, 1, 1
        config.sharedMemBytes = launch.shared_bytes
        config.attrs = _attributes(launch)
        config.numAttrs = len(config.attrs)
        self.config = Moving.from_address(config.getPtr())
        # One address each, which CUDA reads before it returns: only the driver knows where in its buffer of parameters
        # the first one lies that is aligned to more than 16 bytes.
        self._values = [ctypes.create_string_buffer(one.data, len(one.data)) for one in arguments]
        self.parameters = (ctypes.c_uint64 * len(self._values))(*map(ctypes.addressof, self._values))
        self.function = int(function)
        given = config.getPtr(), self.function, ctypes.addressof(self.parameters), 0
        self._launch = partial(entry("cuLaunchKernelEx"), *map(ctypes.c_void_p, given))

    @property
    def config_bytes(self) -> bytes:
        """The bytes of CUlaunchConfig, as cuda.h defines it."""
        return ctypes.string_at(self._whole.getPtr(), CONFIG_BYTES)

    def __call__(self, stream: int) -> None:
        """Enqueue the launch on the stream with this handle."""
        self.config.stream = stream
        status = self._launch()
        if status:
            raise DriverError(driver.CUresult(status).name)


class DriverFunction:
    """A kernel that is loaded into the current context. Raises DriverError."""

    def __init__(self, name: str, launch: Launch, cubin: bytes) -> None:
        self._module = checked(driver.cuModuleLoadData(cubin))
        self._function = checked(driver.cuModuleGetFunction(self._module, name.encode()))
        self._launch = launch
        attribute = driver.CUfunction_attribute
        if launch.shared_bytes > STATIC_SHARED_BYTES:
            self._set(attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared_bytes)
        if launch.cluster > PORTABLE_CLUSTER_BLOCKS:
            self._set(attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)

    def planned(self, arguments: Sequence[Argument], blocks: int) -> PlannedLaunch:
        return PlannedLaunch(self._function, self._launch, arguments, blocks)

    def _set(self, attribute: Any, value: int) -> None:
        checked(driver.cuFuncSetAttribute(self._function, attribute, value))


def _attributes(launch: Launch) -> list[Any]:
    known, attributes = driver.CUlaunchAttributeID, []

    def add(number: Any) -> Any:
        attribute = driver.CUlaunchAttribute()
        attribute.id = number
        attributes.append(attribute)
        return attribute.value

    if launch.cluster > 1:
        cluster = add(known.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim
        cluster.x, cluster.y, cluster.z = launch.cluster, 1, 1
    if "cooperative" in launch.attributes:
        add(known.CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1
    if DEPENDENT_LAUNCH in launch.attributes:
        serialization = add(known.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        serialization.programmaticStreamSerializationAllowed = 1
    return attributes


class EncodedMap:
    """Host memory that holds a tensor map, at an address that the driver can write and read."""

    def __init__(self) -> None:
        self._room = (ctypes.c_char * (MAP_BYTES + MAP_ALIGNMENT))()
        start = ctypes.addressof(self._room)
        self.address = start + -start % MAP_ALIGNMENT


class MapEncoder:
    """Encodes tensor maps of `tensor` at any device address, with any number of lines, as TMA reads them; in im2col
    mode with its own number of images alone."""

    def __init__(self, tensor: TiledTensor) -> None:
        self._tensor, rank = tensor, len(tensor.sizes)
        kinds, swizzles, promotions = (
            driver.CUtensorMapDataType,
            driver.CUtensorMapSwizzle,
            driver.CUtensorMapL2promotion,
        )
        dtype = "TFLOAT32" if tensor.tf32 else f"UINT{8 * tensor.element_bytes}"
        swizzle = f"{tensor.swizzle}B" if tensor.swizzle else "NONE"
        promotion = f"L2_{tensor.promotion}B" if tensor.promotion else "NONE"
        self._to, self._address = ctypes.c_void_p(), ctypes.c_void_p()
        self._sizes = (ctypes.c_uint64 * rank)(*tensor.sizes)
        self._box = (ctypes.c_uint32 * rank)(*tensor.box)
        self._lengths = (
            (ctypes.c_uint64 * (rank - 1))(*tensor.strides),
            self._box,
            (ctypes.c_uint32 * rank)(*[1] * rank),  # every element
        )
        self._kinds = (
            int(getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{dtype}")),
            int(driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
            int(getattr(swizzles, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}")),
            int(getattr(promotions, f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}")),
            int(driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),  # zeros
        )
        kind, *others = map(ctypes.c_int, self._kinds)
        head = self._to, kind, ctypes.c_uint(rank), self._address, self._sizes
        if not tensor.steps:
            self._encode = partial(entry("cuTensorMapEncodeTiled"), *head, *self._lengths, *others)
            return
        strides = self._lengths[0]
        corners = ((ctypes.c_int * 2)(*tensor.corners[at : at + 2]) for at in (0, 2))
        box = map(ctypes.c_uint, tensor.box[:2])
        steps = (ctypes.c_uint32 * rank)(1, *tensor.steps, 1)
        self._encode = partial(entry("cuTensorMapEncodeIm2col"), *head, strides, *corners, *box, steps, *others)

    @property
    def arguments(self) -> tuple[int, ...]:
        """`TiledTensor.tail`, and the arguments of cuTensorMapEncodeTiled without map and address; arrays by their host
        address."""
        kind, *others = self._kinds
        lengths = (ctypes.addressof(one) for one in (self._sizes, *self._lengths))
        return self._tensor.tail, kind, len(self._sizes), *lengths, *others

    def __call__(self, address: int, lines: int | None = None) -> EncodedMap:
        """Encode the map. Raises DriverError, or InvalidInput for the address. Only one thread may call it at a
        time."""
        self._tensor.require_address(address)
        made = EncodedMap()
        self._to.value, self._address.value = made.address, address
        if lines is not None:
            self._sizes[1] = lines
            if self._tensor.tail:
                self._box[1] = tail_lines(lines, self._tensor.tail)
        status = self._encode()
        if status:
            raise DriverError(driver.CUresult(status).name)
        return made


# A launch is often repeated with the same operands.
@lru_cache(maxsize=1024)
def encoded(tensor: TiledTensor, address: int) -> bytes:
    """The map of `tensor` at a device address, as TMA reads it. Raises DriverError, or InvalidInput for the address."""
    return ctypes.string_at(MapEncoder(tensor)(address).address, MAP_BYTES)
