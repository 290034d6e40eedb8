"""Where the times of a library's kernels come from: a GPU, or without one the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gemmgen.artifacts.library.fallback import Contestant
from gemmgen.artifacts.library.members import Member, Needs, case_of
from gemmgen.artifacts.library.table import Sizes
from gemmgen.problem.device import DeviceSpec
from gemmgen.run.compile import compile_kernel
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.timing import Protocol, Timing
from gemmgen.support.errors import require

# Of a point of a grid: differences of a few percent between kernels decide, and there are hundreds of points.
GRID = Protocol("grid", samples=5, sample_us=300, warmup_s=0.005, most_sets=64)


@dataclass(frozen=True)
class Predicted:
    """The model's times on a card: a rules.Clock."""

    spec: DeviceSpec
    kind: Literal["measured", "predicted"] = "predicted"
    most: int = 1024

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[list[float]]:
        """Raises InvalidInput for cuBLASLt, whose times nobody predicts."""
        kernels = [member for member in members if isinstance(member, Member)]
        require(len(kernels) == len(members), "cuBLASLt's times are measured, and nothing is measured here")
        return [[kernel.predicted_us(sizes, self.spec) for kernel in kernels] for sizes in points]


class Measured:
    """Times on the GPU here, kernels interleaved."""

    def __init__(self, gpu: GpuExecutor) -> None:
        self.description = gpu.description
        self._gpu = gpu
        self._kernels: dict[str, GpuKernel] = {}

    def times(self, members: Sequence[Contestant], sizes: Sizes, given: Needs) -> list[float]:
        """Microseconds of each, for a call of these sizes that keeps what is `given`; infinite of one that fails."""
        kernels = [self._kernel(member) for member in members if isinstance(member, Member)]
        case = case_of(members[0].product, sizes, given)
        found = self._gpu.measure_many(kernels, case, GRID, baseline=len(kernels) < len(members))
        ours = iter(timing.median_us if isinstance(timing, Timing) else math.inf for timing in found.timings)
        # The first of its heuristics, which is what a call of it takes.
        theirs = math.inf if found.baseline is None else found.baseline.first.median_us
        return [next(ours) if isinstance(member, Member) else theirs for member in members]

    def _kernel(self, member: Member) -> GpuKernel:
        if member.name not in self._kernels:
            compiled = member.compiled or compile_kernel(member.source, self._gpu.arch, self._gpu.store)
            self._kernels[member.name] = self._gpu.load_compiled(member.source, compiled)
        return self._kernels[member.name]
