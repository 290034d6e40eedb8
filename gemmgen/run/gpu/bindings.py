"""A cubin's functions by cuda.bindings, in whatever context is current: no pycuda, whoever made context and stream."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from cuda.bindings import driver

from gemmgen.kernel.source import DEPENDENT_LAUNCH, Launch
from gemmgen.kernel.tensor_map import TiledTensor
from gemmgen.problem.case import Case
from gemmgen.problem.device import STATIC_SHARED_BYTES
from gemmgen.run.arguments import Argument

PORTABLE_CLUSTER_BLOCKS = 8  # that a cluster may have everywhere


class DriverError(Exception):
    """CUDA's driver refuses a call: its name for the reason."""


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a cuda.bindings call. Raises DriverError."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(status.name)
    return values[0] if values else None


def blocks_on(launch: Launch, case: Case, sms: int) -> int:
    """Blocks of the grid for `case` on a card of so many SMs: see `Launch.resident`."""
    count = launch.blocks(case)
    return launch.resident(count, sms) if launch.persistent else count


class PlannedLaunch:
    """A launch whose grid and arguments are set. Raises DriverError."""

    def __init__(self, function: Any, launch: Launch, arguments: Sequence[Argument], blocks: int) -> None:
        self._function = function
        self._config = config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.threads, 1, 1
        config.sharedMemBytes = launch.shared_bytes
        config.attrs = _attributes(launch)
        config.numAttrs = len(config.attrs)
        # One address each, which CUDA reads before it returns: only the driver knows where in its buffer of parameters
        # the first one lies that is aligned to more than 16 bytes.
        self._values = [ctypes.create_string_buffer(one.data, len(one.data)) for one in arguments]
        self._addresses = (ctypes.c_void_p * len(self._values))(*map(ctypes.addressof, self._values))
        self._parameters = ctypes.addressof(self._addresses)
        self._stream = 0  # as a new config says

    def pass_map(self, place: int, data: bytes) -> None:
        """Set the bytes of the argument of that place anew."""
        ctypes.memmove(self._values[place], data, len(data))

    def pointer(self, place: int) -> ctypes.c_uint64:
        """The argument of that place, whose `value` may be set anew."""
        return ctypes.c_uint64.from_buffer(self._values[place])

    def __call__(self, stream: int) -> None:
        """Enqueue it on the stream of this handle."""
        if stream != self._stream:
            self._config.hStream, self._stream = driver.CUstream(stream), stream
        (status,) = driver.cuLaunchKernelEx(self._config, self._function, self._parameters, 0)
        if status:
            raise DriverError(status.name)


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


# Encoding takes about a microsecond, and a launch is often repeated with the same operands.
@lru_cache(maxsize=1024)
def encoded(tensor: TiledTensor, address: int) -> bytes:
    """The map of `tensor` at a device address, as TMA reads it. Raises DriverError, or InvalidInput for the address."""
    tensor.require_address(address)
    kinds = driver.CUtensorMapDataType
    types = {1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"}
    swizzles = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
    promotions = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}
    made = checked(
        driver.cuTensorMapEncodeTiled(
            getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{'TFLOAT32' if tensor.tf32 else types[tensor.element_bytes]}"),
            len(tensor.sizes),
            address,
            [driver.cuuint64_t(size) for size in tensor.sizes],
            [driver.cuuint64_t(stride) for stride in tensor.strides],
            [driver.cuuint32_t(length) for length in tensor.box],
            [driver.cuuint32_t(1)] * len(tensor.box),  # every element
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzles[tensor.swizzle]}"),
            getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{promotions[tensor.promotion]}"),
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,  # zeros
        )
    )
    return struct.pack("<16Q", *(int(word) for word in made.opaque))
