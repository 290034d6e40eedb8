"""Sources of the times of a library's kernels: a GPU or, without one, the model; and results of earlier runs, so that a
library that is built again repeats only what changed.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from gemmgen.exports.json_records import problem_document
from gemmgen.exports.kernelfile import KernelFile, source_from_record
from gemmgen.exports.library.choice import Timed
from gemmgen.exports.library.members import Contestant, Member, Needs, case_of, hopeful
from gemmgen.exports.library.table import Sizes
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.run.compile import compile_kernel
from gemmgen.run.gpu.executor import BesideLibrary, GpuExecutor, GpuKernel
from gemmgen.run.gpu.timing import GRID
from gemmgen.run.target import Target
from gemmgen.search.trial import Progress
from gemmgen.support.errors import require
from gemmgen.support.files import Store, code_digest, content_key, generator_digest

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


def known_or(store: Store, kind: str, key: str, make: Callable[[], Any]) -> Any:
    """Return the JSON-ready value that the store has for `key`, or else the result of `make`, which it keeps."""
    payload = store.get(kind, key)
    if payload is not None:
        return json.loads(payload)
    made = make()
    store.put(kind, key, json.dumps(made).encode())
    return made


def found_before(
    problems: Sequence[Problem],
    target: Target,
    store: Store,
    asked: Sequence[object],
    search: Callable[[], Sequence[KernelFile]],
) -> list[KernelFile]:
    """Return the result of `search` for `problems`, or of an earlier run that `asked` the same of the same gemmgen and
    machine."""

    def documents() -> list[dict[str, Any]]:
        return [{"record": found.record, "text": found.source.text} for found in search()]

    wanted = json.dumps([problem_document(problem) for problem in problems])
    key = content_key(wanted, target.arch, target.executor.environment, generator_digest(), *map(str, asked))
    return [
        KernelFile(
            replace(source_from_record(known["record"], Path("the record of a winner")), text=known["text"]),
            known["record"],
        )
        for known in known_or(store, "winner", key, documents)
    ]


@dataclass(frozen=True)
class Remembered:
    """A GPU's times: a choice.Clock.

    spec   the GPU's card
    store  keeps them, so that each is measured once; None: all are measured now
    most   most points of a grid that are timed
    """

    clock: Measured
    spec: DeviceSpec
    store: Store | None
    progress: Progress
    kind: Literal["measured", "predicted"] = "measured"
    most: int = 224

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        self.progress.stage("measure", len(points))
        return [self._at(members, sizes, given) for sizes in points]

    def _at(self, members: Sequence[Contestant], sizes: Sizes, given: Needs) -> Timed:
        if self.store is None:
            found = self.clock.times(members, sizes, given)
        else:
            found = self._known(self.store, members, sizes, given)
        self.progress.step("measure", None)
        return found

    def _known(self, store: Store, members: Sequence[Contestant], sizes: Sizes, given: Needs) -> Timed:
        case = case_of(members[0].product, sizes, given)
        key = content_key(
            self.clock.description,
            f"{case.problem} {case}",
            code_digest("exports/library/clocks.py", "run/gpu/timing.py", "run/gpu/sampling.py"),
            *(f"{one.arch} {one.source.digest}" if isinstance(one, Member) else one.name for one in members),
        )

        def measured() -> list[float | None]:
            found = self.clock.times(members, sizes, given)
            return [found.library_us, *found.us]

        library_us, *times = known_or(store, "timing", key, measured)
        return Timed(times, library_us)
