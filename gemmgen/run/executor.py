"""The contract of executors, which the GPU and the emulator both keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case
from gemmgen.run.acceptance import Judged, Places, Rule
from gemmgen.run.coverage import Coverage, Near
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.threads import thread_pool

Floats = npt.NDArray[np.floating[Any]]  # of the problem's dtype
Products = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Operands:
    """Flat storage of A, B, C and the epilogue's operands, each exactly `elements` long, padding included."""

    a: Floats
    b: Floats
    c: Floats
    extra: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def by_name(self) -> dict[str, Floats]:
        """The operands by their names in `Case.tensors`."""
        return {"A": self.a, "B": self.b, "C": self.c, **self.extra}


def left_behind(semaphores: Words, wanted: npt.NDArray[Any] | int = 0) -> str | None:
    """A description of semaphores that differ from `wanted` after a launch; None if none does.

    After a whole launch all must be zero, as the next launch starts with them.
    """
    left = np.flatnonzero(semaphores != wanted)
    if not len(left):
        return None
    due = int(np.broadcast_to(wanted, semaphores.shape)[left[0]])
    reason = "the next launch needs it to be zero" if due == 0 else f"it is to be {due} until the other blocks run"
    return f"leaves semaphores[{left[0]}] = {semaphores[left[0]]}: {reason}"


def tells(case: Case) -> bool:
    """Whether the products of A and B show in C."""
    return case.k > 0 and case.alpha != 0 and math.isfinite(case.alpha) and math.isfinite(case.beta)


class LoadedKernel(Protocol):
    """A kernel ready to run on its executor. One that inherits this need not define what it does not offer."""

    source: KernelSource
    runs_parts: bool  # whether `run` takes some blocks of a grid, and lines and matrices that lie apart

    def can_run_whole(self, case: Case) -> bool:
        """Whether verification may run all blocks of `case`, or only some of them."""

    def run(
        self,
        case: Case,
        operands: Operands,
        *,
        seed: int = 0,
        blocks: Sequence[int] | None = None,
        watch: bool = True,
        output: str = "C",
        apart: Case | None = None,
    ) -> Floats:
        """Run one launch; return the storage of C, or of another `output`, afterwards. Operands do not change.

        With `blocks` only these blocks of the grid run, all of a tile's or none; only executors that run parts take it.
        With `apart`, likewise, the kernel sees that case's leading dimensions and strides, which exceed memory, while
        operands hold `case`. Without `watch` no block is watched for data races, as another run of the launch is.

        The executor surrounds every operand with memory that a kernel must not touch. Base pointers have the alignment
        that the problem promises and no more. The same holds for the workspace, whose semaphores are zero and whose
        partials are zero or NaN: see source.Workspace. `seed` selects what the executor is free to choose (thread
        schedule, order of the blocks, placement). The same seed gives the same run, up to the order in which blocks
        add.

        Raises CandidateFailed: launch, crash (illegal access, misaligned access, write outside C, semaphores or sums
        that are not zero again, deadlock), race or timeout.
        """

    def in_ring(self) -> LoadedKernel | None:
        """The same kernel in ring mode, with integers in place of floats: see gemmgen.verification.ring.

        The caller must close it. None if this executor has no ring mode. Raises CandidateFailed.
        """
        return None

    def multiply(
        self, case: Case, operands: Operands, *, seed: int, sizes: bool, largest: bool
    ) -> tuple[Products, Products, Products] | None:
        """Compute A * B and, with `sizes`, |A| * |B| (else A * B again), for all of C in float64, as a reference.

        With `largest` the third result has the largest product of each sum, as largest magnitudes of rows of A and
        columns of B tell; without it, it has no meaning. It is asked for where sums of parts of K have scales.

        The error is at most that of a float64 sum, for f64 that of a sum in twice as many bits; products of integers
        are exact. None if this executor is not faster than numpy for the case. Raises CandidateFailed.
        """
        return None

    def judge(self, case: Case, operands: Operands, *, seed: int, rule: Rule, places: Places) -> Judged | None:
        """Run one launch as `run` does, and check C against `rule`; the result has more detail for `places`.

        None if this executor is not faster than numpy for the case. Raises CandidateFailed as `run` does.
        """
        return None

    def watched(self, case: Case, *, seed: int, blocks: Sequence[int] | None = None) -> int:
        """The number of blocks that a run with these arguments watches for data races, access by access."""
        return 0

    def coverage(self) -> Coverage | None:
        """The coverage of its text by its launches so far; None if that is not counted."""
        return None

    def assumed(self) -> tuple[str, ...]:
        """The assumptions, in words, that its launches so far relied on and that CUDA does not guarantee."""
        return ()

    def lacking(self) -> dict[int, Near | None]:
        """The conditions that lack an outcome, by number, and the operands closest to it since the last call.

        None for a condition that has compared no numbers since then. Launches in which K = 0 or the scalars hide a
        wrong branch do not count: see `tells`.
        """
        return {}

    def close(self) -> None: ...


class Executor(Protocol):
    """A place where kernels run. It is a context manager: leaving it frees worker processes."""

    name: str  # "gpu" or "emulator"
    description: str  # for records: card and driver, or NVRTC
    flags: tuple[str, ...]  # that kernels are compiled with

    @property
    def unconfined(self) -> tuple[str, ...]:
        """The protections between a kernel's text and the rest of the machine that this machine lacks, in words."""

    @property
    def environment(self) -> str:
        """A key of everything except the kernel on which results depend: equal keys mean equal results."""

    def load(self, source: KernelSource) -> LoadedKernel:
        """Compile the kernel, or fetch it from the cache, and load it. Raises CandidateFailed: compile, launch or
        unjudged."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *_: object) -> None: ...


def load_in_parallel(executor: Executor, sources: Sequence[KernelSource]) -> None:
    """Compile `sources` in parallel; a later `load` finds them in the store, or meets their errors."""

    def load(source: KernelSource) -> None:
        with suppress(CandidateFailed):
            executor.load(source).close()

    with thread_pool() as pool:
        list(pool.map(load, sources))
