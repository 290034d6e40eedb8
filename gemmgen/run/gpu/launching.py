"""A cubin's functions, which stay loaded between requests, and their arguments. Runs in the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pycuda.driver as cuda

from gemmgen.kernel.contract import Contract
from gemmgen.kernel.prepare import Pack
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import STATIC_SHARED_BYTES
from gemmgen.problem.gemm import Case
from gemmgen.run.arguments import SCALARS, arguments_of
from gemmgen.run.gpu.bindings import DriverError, DriverFunction, blocks_on, encoded
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput

Binary = tuple[KernelSource, bytes]  # a kernel and its cubin
Pointers = dict[str, int]  # device addresses by name: A, B, C, and the workspace's where a kernel has one
Enqueue = Callable[[Pointers, Any], None]  # puts one launch on a stream


class Programs:
    """The loaded kernels, until they are forgotten."""

    def __init__(self) -> None:
        self._functions: dict[tuple[object, ...], tuple[Any, ...]] = {}

    def load(self, binary: Binary) -> tuple[Any, ...]:
        """The functions of `KernelSource.program`, allowed to use their shared memory. Raises CandidateFailed:
        launch."""
        source, cubin = binary
        identity = _identity(source)
        if identity not in self._functions:
            self._functions[identity] = load_program(source, cubin)
        return self._functions[identity]

    def forget(self, source: KernelSource) -> None:
        self._functions.pop(_identity(source), None)

    def launcher(self, binary: Binary, case: Case, packed: bool = False) -> Enqueue:
        """A function that enqueues a launch for `case` on a stream; codes of B may be `packed` already."""
        functions, (source, _) = self.load(binary), binary

        def enqueue(pointers: Pointers, stream: Any) -> None:
            launch(functions, source.contract, case, pointers, stream, packed=packed)

        return enqueue

    def packer(self, binary: Binary, case: Case) -> Enqueue | None:
        """A function that enqueues the launch that packs B's codes; None if the kernel has none."""
        functions, (source, _) = self.load(binary), binary
        steps = zip(functions, source.contract.program, source.launch.prepares, strict=False)
        packing = next(((one, step) for one, step, prepare in steps if isinstance(prepare, Pack)), None)
        if packing is None:
            return None

        def enqueue(pointers: Pointers, stream: Any) -> None:
            _launch_step(*packing, case, pointers, stream, None)

        return enqueue


def _identity(source: KernelSource) -> tuple[object, ...]:
    """The key of a loaded function: its text, and how it is launched."""
    launch = source.launch
    return source.digest, source.name, launch.shared_bytes, launch.cluster, launch.attributes, launch.prepares


def load_program(source: KernelSource, cubin: bytes) -> tuple[Any, ...]:
    """The functions of `KernelSource.program`, allowed to use their shared memory. Raises CandidateFailed: launch."""
    return tuple(_load_function(step, cubin) for step in source.program)


def _load_function(source: KernelSource, cubin: bytes) -> Any:
    with launch_errors():
        # pycuda has no launch attributes, no clusters and no structs by value.
        if source.launch.cluster > 1 or source.launch.attributes or source.launch.maps:
            return DriverFunction(source.name, source.launch, cubin)
        function = cuda.module_from_buffer(cubin).get_function(source.name)
        if source.launch.shared_bytes > STATIC_SHARED_BYTES:
            attribute = cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, source.launch.shared_bytes)
    return function


def launch(
    functions: Sequence[Any],
    contract: Contract,
    case: Case,
    pointers: Pointers,
    stream: Any,
    blocks: int | None = None,
    packed: bool = False,
) -> None:
    """Enqueue a kernel's launches: first those that prepare operands, then zeroing of its maxima, then its own.

    Its own launch runs the whole grid, or its first `blocks`. Codes of B that are `packed` stay so.

    Raises CandidateFailed: launch.
    """
    absent = [one.name for one in contract.parameters if one.is_pointer and one.name not in pointers]
    if absent:
        what = f"the kernel takes {', '.join(absent)}; its launch, as stated, allocates none"
        raise CandidateFailed(Failure("launch", what, "gpu"))
    prepares = (*contract.launch.prepares, None)
    for function, step, prepare in zip(functions, contract.program, prepares, strict=True):
        if packed and isinstance(prepare, Pack):
            continue
        _launch_step(function, step, case, pointers, stream, blocks if step is contract else None)


def _launch_step(
    function: Any, contract: Contract, case: Case, pointers: Pointers, stream: Any, blocks: int | None
) -> None:
    sms = cuda.Context.get_device().multiprocessor_count if contract.launch.persistent else 0
    count = blocks_on(contract.launch, case.values, sms)
    count = count if blocks is None else min(count, blocks)
    if count == 0:  # K = 0, and a launch that prepares an operand without an element
        return
    with launch_errors():
        for name in contract.zeroed:
            cuda.memset_d32_async(pointers[name], 0, case.extra[name].bytes // 4, stream)
        if isinstance(function, DriverFunction):
            function.planned(arguments_of(contract, case, pointers, encoded), count)(int(stream.handle))
            return
        values = zip(contract.parameters, contract.arguments(case, pointers), strict=True)
        arguments = [as_argument(parameter.ctype, value) for parameter, value in values]
        shape = {"grid": (count, 1), "block": (contract.launch.threads, 1, 1), "shared": contract.launch.shared_bytes}
        function(*arguments, **shape, stream=stream)


def as_argument(ctype: str, value: Any) -> Any:
    """`value` as the numpy scalar that a kernel parameter of type `ctype` takes."""
    if ctype.endswith("*"):
        return np.uintp(value)
    return np.dtype(SCALARS[ctype]).type(value)


@contextmanager
def launch_errors() -> Iterator[None]:
    """Report CUDA's refusal of a kernel as a failure (too many resources, no such function); the context stays
    valid."""
    try:
        yield
    except (cuda.Error, DriverError, InvalidInput) as error:
        raise CandidateFailed(Failure("launch", str(error), "gpu")) from error
