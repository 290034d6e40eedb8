"""Times kernels together with cuBLASLt's first heuristic, if that is installed."""

from __future__ import annotations

from collections.abc import Sequence

from gemmgen.problem.gemm import Case
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.timing import FIRST, InterleavedTimings, Protocol
from gemmgen.support.errors import CandidateFailed


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
