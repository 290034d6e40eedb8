"""Sources of the times of a library's kernels: a GPU or, without one, the model."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gemmgen.exports.library.choice import Timed
from gemmgen.exports.library.members import Contestant, Member, Needs, case_of, hopeful
from gemmgen.exports.library.table import Sizes
from gemmgen.problem.device import DeviceSpec
from gemmgen.run.compile import compile_kernel
from gemmgen.run.gpu.executor import BesideLibrary, GpuExecutor, GpuKernel
from gemmgen.run.gpu.timing import GRID
from gemmgen.support.errors import require

LONG_US, LONG_SAMPLES = 150.0, 3  # from so many microseconds on, as predicted, more samples gain nothing


@dataclass(frozen=True)
class Predicted:
    """The model's times on a card: a choice.Clock."""

    spec: DeviceSpec
    kind: Literal["measured", "predicted"] = "predicted"
    most: int = 256

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        """Predict the times. Raises InvalidInput for cuBLASLt, whose times the model does not predict."""
        kernels = [member for member in members if isinstance(member, Member)]
        require(len(kernels) == len(members), "cuBLASLt's times are measured, and nothing is measured here")
        return [Timed([kernel.predicted_us(sizes, self.spec) for kernel in kernels]) for sizes in points]


class Measured:
    """Times on the GPU here, with kernels interleaved and cuBLASLt's first heuristic among them if it is installed."""

    def __init__(self, gpu: GpuExecutor, spec: DeviceSpec) -> None:
        self.description = gpu.description
        self._gpu, self._spec = gpu, spec
        self._kernels: dict[str, GpuKernel] = {}
        self._beside = BesideLibrary(gpu)

    def times(self, members: Sequence[Contestant], sizes: Sizes, given: Needs) -> Timed:
        """The times of a call of these sizes that meets what is `given`."""
        tried = hopeful([one for one in members if isinstance(one, Member)], sizes, self._spec)
        kernels = [self._kernel(one) for one in members if isinstance(one, Member) and one.name in tried]
        protocol = GRID if min(tried.values()) < LONG_US else replace(GRID, samples=LONG_SAMPLES)
        found = self._beside.measure(kernels, case_of(members[0].product, sizes, given), protocol)
        measured, theirs = found.steady_us()
        ours, us = iter(measured), []
        for one in members:
            if isinstance(one, Member):
                us.append(next(ours) if one.name in tried else math.nan)
            else:
                us.append(math.inf if theirs is None else theirs)
        return Timed(us, theirs)

    def load_ms(self, members: Sequence[Member]) -> float:
        """Milliseconds to load the machine code of all `members` again, one after the other, through the worker."""
        for member in members:
            self._kernel(member).close()
            del self._kernels[member.name]
        started = time.perf_counter()
        for member in members:
            self._kernel(member)
        return 1e3 * (time.perf_counter() - started)

    def _kernel(self, member: Member) -> GpuKernel:
        if member.name not in self._kernels:
            compiled = member.compiled or compile_kernel(member.source, self._gpu.arch, self._gpu.store)
            self._kernels[member.name] = self._gpu.load_compiled(member.source, compiled)
        return self._kernels[member.name]
