"""A cubin's function, ready to launch, and its arguments. Runs in processes that own a CUDA context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pycuda.driver as cuda

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import STATIC_SHARED_BYTES
from gemmgen.problem.gemm import Case
from gemmgen.support.errors import CandidateFailed, Failure

Pointers = dict[str, int]  # device addresses by name: A, B, C, and the workspace's where a kernel has one

SCALARS: dict[str, Callable[[Any], Any]] = {
    "int": np.int32,
    "unsigned": np.uint32,
    "long long": np.int64,
    "float": np.float32,
    "double": np.float64,
}


def load_function(source: KernelSource, cubin: bytes) -> Any:
    """The kernel, with leave to use its shared memory. Raises CandidateFailed: launch."""
    with launch_errors():
        function = cuda.module_from_buffer(cubin).get_function(source.name)
        if source.launch.shared_bytes > STATIC_SHARED_BYTES:
            attribute = cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, source.launch.shared_bytes)
    return function


def launch(
    function: Any, source: KernelSource, case: Case, pointers: Pointers, stream: Any, blocks: int | None = None
) -> None:
    """Enqueue one launch, of the whole grid or its first `blocks`. Raises CandidateFailed: launch."""
    values = source.arguments(case, pointers)
    arguments = [
        as_argument(parameter.ctype, value) for parameter, value in zip(source.parameters, values, strict=True)
    ]
    grid = (source.launch.blocks(case) if blocks is None else blocks, 1)
    shape = {"grid": grid, "block": (source.launch.threads, 1, 1), "shared": source.launch.shared_bytes}
    with launch_errors():
        function(*arguments, **shape, stream=stream)


def as_argument(ctype: str, value: Any) -> Any:
    """`value` as the numpy scalar that a kernel parameter of type `ctype` takes."""
    if ctype.endswith("*"):
        return np.uintp(value)
    return SCALARS[ctype.removeprefix("const ").strip()](value)


@contextmanager
def launch_errors() -> Iterator[None]:
    """CUDA refuses the kernel: too many resources, no such function. The context is well."""
    try:
        yield
    except cuda.Error as error:
        raise CandidateFailed(Failure("launch", str(error), "gpu")) from error
