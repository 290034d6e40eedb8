"""Where the times of a library's kernels come from: a GPU, or without one the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gemmgen.artifacts.library.members import Member, Needs, case_of
from gemmgen.artifacts.library.table import Sizes
from gemmgen.problem.device import DeviceSpec
from gemmgen.run.compile import compile_kernel
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.timing import Protocol, Timing
from gemmgen.search.tuner import Progress

# Of a point of a grid: differences of a few percent between kernels decide, and there are hundreds of points.
GRID = Protocol("grid", samples=5, sample_us=300, warmup_s=0.005, most_sets=64)


@dataclass(frozen=True)
class Predicted:
    """The model's times on a card: a rules.Clock."""

    spec: DeviceSpec
    kind: Literal["measured", "predicted"] = "predicted"
    most: int = 1024

    @property
    def device(self) -> str:
        return self.spec.name

    def times(self, members: Sequence[Member], sizes: Sizes, given: Needs) -> list[float]:
        return [member.predicted_us(sizes, self.spec) for member in members]


class Measured:
    """Times on the GPU here, kernels interleaved: a rules.Clock. `most` points of a grid are timed."""

    kind: Literal["measured", "predicted"] = "measured"

    def __init__(self, gpu: GpuExecutor, device: str, progress: Progress, most: int = 256) -> None:
        self.device, self.most, self.description = device, most, gpu.description
        self._gpu, self._progress = gpu, progress
        self._kernels: dict[str, GpuKernel] = {}

    def times(self, members: Sequence[Member], sizes: Sizes, given: Needs) -> list[float]:
        kernels = [self._kernel(member) for member in members]
        case = case_of(members[0].product, sizes, given)
        self._progress.stage("measure", 1)
        timings = self._gpu.measure_many(kernels, case, GRID).timings
        self._progress.step("measure", None)
        return [timing.median_us if isinstance(timing, Timing) else math.inf for timing in timings]

    def _kernel(self, member: Member) -> GpuKernel:
        if member.name not in self._kernels:
            compiled = member.compiled or compile_kernel(member.source, self._gpu.arch, self._gpu.store)
            self._kernels[member.name] = self._gpu.load_compiled(member.source, compiled)
        return self._kernels[member.name]
