"""Kernels' functions, which stay loaded between requests. Runs in the worker."""

from __future__ import annotations

from typing import Any

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case
from gemmgen.run.gpu.launching import Pointers, launch, load_program
from gemmgen.run.gpu.sampling import Enqueue

Binary = tuple[KernelSource, bytes]  # a kernel and its cubin


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

    def launcher(self, binary: Binary, case: Case) -> Enqueue:
        """A function that enqueues a launch for `case` on a stream."""
        functions, (source, _) = self.load(binary), binary

        def enqueue(pointers: Pointers, stream: Any) -> None:
            launch(functions, source, case, pointers, stream)

        return enqueue


def _identity(source: KernelSource) -> tuple[object, ...]:
    """The key of a loaded function: its text, and how it is launched."""
    launch = source.launch
    return source.digest, source.name, launch.shared_bytes, launch.cluster, launch.attributes, launch.prepares
