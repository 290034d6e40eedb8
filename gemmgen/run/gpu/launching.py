"""A cubin's function, ready to launch, and its arguments. Runs in processes that own a CUDA context."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import pycuda.driver as cuda
from cuda.bindings import driver

from gemmgen.kernel.source import KernelSource, Launch
from gemmgen.kernel.tensor_map import TiledTensor
from gemmgen.problem.case import Case
from gemmgen.problem.device import STATIC_SHARED_BYTES
from gemmgen.run.arguments import SCALARS, Argument, arguments_of
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput

Pointers = dict[str, int]  # device addresses by name: A, B, C, and the workspace's where a kernel has one

PORTABLE_CLUSTER_BLOCKS = 8  # that a cluster may have everywhere


class DriverFunction:
    """A kernel that cuda.bindings loads and launches, on pycuda's context and streams: pycuda has no launch attributes,
    no clusters and no structs by value. Raises CandidateFailed: launch."""

    def __init__(self, name: str, launch: Launch, cubin: bytes) -> None:
        self._module = checked(driver.cuModuleLoadData(cubin))
        self._function = checked(driver.cuModuleGetFunction(self._module, name.encode()))
        self._launch = launch
        attribute = driver.CUfunction_attribute
        if launch.shared_bytes > STATIC_SHARED_BYTES:
            self._set(attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared_bytes)
        if launch.cluster > PORTABLE_CLUSTER_BLOCKS:
            self._set(attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)

    def __call__(self, arguments: Sequence[Argument], blocks: int, stream: Any) -> None:
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = self._launch.threads, 1, 1
        config.sharedMemBytes = self._launch.shared_bytes
        config.hStream = driver.CUstream(stream.handle)
        config.attrs = _attributes(self._launch)
        config.numAttrs = len(config.attrs)
        # One address each, which CUDA reads before it returns: only the driver knows where in its buffer of parameters
        # the first one lies that is aligned to more than 16 bytes.
        values = [ctypes.create_string_buffer(one.data, len(one.data)) for one in arguments]
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        checked(driver.cuLaunchKernelEx(config, self._function, ctypes.addressof(addresses), 0))

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
    if "programmatic_stream_serialization" in launch.attributes:
        serialization = add(known.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        serialization.programmaticStreamSerializationAllowed = 1
    return attributes


def load_program(source: KernelSource, cubin: bytes) -> tuple[Any, ...]:
    """The functions of `KernelSource.program`, with leave to use shared memory. Raises CandidateFailed: launch."""
    return tuple(_load_function(step, cubin) for step in source.program)


def _load_function(source: KernelSource, cubin: bytes) -> Any:
    with launch_errors():
        if source.launch.cluster > 1 or source.launch.attributes or source.launch.maps:
            return DriverFunction(source.name, source.launch, cubin)
        function = cuda.module_from_buffer(cubin).get_function(source.name)
        if source.launch.shared_bytes > STATIC_SHARED_BYTES:
            attribute = cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, source.launch.shared_bytes)
    return function


def launch(
    functions: Sequence[Any],
    source: KernelSource,
    case: Case,
    pointers: Pointers,
    stream: Any,
    blocks: int | None = None,
) -> None:
    """Enqueue a kernel's launches: those that prepare its operands and, behind what sets its maxima to zero, its own.

    That is of the whole grid, or its first `blocks`.

    Raises CandidateFailed: launch.
    """
    for function, step in zip(functions, source.program, strict=True):
        _launch_step(function, step, case, pointers, stream, blocks if step is source else None)


def _launch_step(
    function: Any, source: KernelSource, case: Case, pointers: Pointers, stream: Any, blocks: int | None
) -> None:
    count = source.launch.blocks(case) if blocks is None else blocks
    if source.launch.persistent:
        count = source.launch.resident(count, cuda.Context.get_device().multiprocessor_count)
    if count == 0:  # K = 0, and a launch that prepares an operand without an element
        return
    with launch_errors():
        for name in source.zeroed:
            cuda.memset_d32_async(pointers[name], 0, case.extra[name].bytes // 4, stream)
        if isinstance(function, DriverFunction):
            function(arguments_of(source, case, pointers, encoded), count, stream)
            return
        values = zip(source.parameters, source.arguments(case, pointers), strict=True)
        arguments = [as_argument(parameter.ctype, value) for parameter, value in values]
        shape = {"grid": (count, 1), "block": (source.launch.threads, 1, 1), "shared": source.launch.shared_bytes}
        function(*arguments, **shape, stream=stream)


# Encoding takes about a microsecond, and a launch is often repeated with the same operands.
@lru_cache(maxsize=1024)
def encoded(tensor: TiledTensor, address: int) -> bytes:
    """The map of `tensor` at a device address, as TMA reads it. Raises CandidateFailed: launch."""
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


def as_argument(ctype: str, value: Any) -> Any:
    """`value` as the numpy scalar that a kernel parameter of type `ctype` takes."""
    if ctype.endswith("*"):
        return np.uintp(value)
    return np.dtype(SCALARS[ctype]).type(value)


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a cuda.bindings call. Raises pycuda's LogicError for a CUDA error."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise cuda.LogicError(status.name)
    return values[0] if values else None


@contextmanager
def launch_errors() -> Iterator[None]:
    """CUDA refuses the kernel: too many resources, no such function. The context is well."""
    try:
        yield
    except (cuda.Error, InvalidInput) as error:
        raise CandidateFailed(Failure("launch", str(error), "gpu")) from error
