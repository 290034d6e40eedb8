"""What runs a kernel: the contract that the gpu and the emulator both keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.case import Case
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
        """As `Case.tensors` names them."""
        return {"A": self.a, "B": self.b, "C": self.c, **self.extra}


def left_behind(semaphores: Words, wanted: npt.NDArray[Any] | int = 0) -> str | None:
    """What a launch leaves in its semaphores instead of `wanted`; None where it does not.

    After a whole launch that is zero, which the next one starts with.
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
    """A kernel ready to run on its executor."""

    source: KernelSource
    runs_parts: bool  # whether `run` takes some blocks of a grid, and lines and matrices that lie apart

    def can_run_whole(self, case: Case) -> bool:
        """Whether verification may run all blocks of `case`, or only some of them."""
        ...

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
        """One launch; returns C's storage afterwards, or that of another `output` (operands stay as they were).

        `blocks` runs only these blocks of the grid, all of a tile's or none; it is for executors
        that run parts. With `apart`, for those that run so, the kernel meets that case's leading dimensions and
        strides, beyond what memory holds, and operands hold what `case` says. Without `watch` no block is watched for
        data races: another run of the launch is.

        The executor surrounds every operand with memory that a kernel must not touch and gives
        base pointers the alignment that the problem promises and no more; likewise the workspace, whose semaphores are
        zero and whose partials are, too, or hold NaN: see source.Workspace. `seed` selects what the executor is free to
        choose (thread schedule, order of the blocks, placement); the same seed gives the same run, up to the order in
        which blocks add.

        Raises CandidateFailed: launch, crash (illegal access, misaligned access, write outside C, semaphores or sums
        that are not zero again, deadlock), race or timeout.
        """
        ...

    def in_ring(self) -> LoadedKernel | None:
        """The same kernel in ring mode, with integers in place of floats: see gemmgen.verification.ring.

        The caller must close it. None if this executor has no ring mode. Raises CandidateFailed.
        """
        ...

    def multiply(self, case: Case, operands: Operands, *, seed: int, sizes: bool) -> tuple[Products, Products] | None:
        """A * B and, with `sizes`, |A| * |B| (else A * B again) of all of C in float64: for references.

        They are off by no more than a sum in float64 is, of f64 by no more than one in twice as many bits; integers'
        are exact. None where this executor has nothing faster than numpy for the case. Raises CandidateFailed.
        """
        ...

    def judge(self, case: Case, operands: Operands, *, seed: int, rule: Rule, places: Places) -> Judged | None:
        """One launch like that of `run`, and what of C is right by `rule`, which tells more of `places`.

        None where this executor has nothing faster than numpy for the case. Raises CandidateFailed as `run` does.
        """
        ...

    def watched(self, case: Case, *, seed: int, blocks: Sequence[int] | None = None) -> int:
        """How many blocks of such a run are watched for data races, access by access."""
        ...

    def coverage(self) -> Coverage | None:
        """What its launches ran of its text so far; None where that is not counted."""
        ...

    def assumed(self) -> tuple[str, ...]:
        """What its launches so far came to their end by and CUDA does not promise, in words."""
        ...

    def lacking(self) -> dict[int, Near | None]:
        """The conditions that lack an outcome, by number, and the operands closest to it since the last call.

        None for one that has compared no numbers since then. Launches whose scalars or K = 0 leave a wrong branch
        nothing to do wrong do not count: see `tells`.
        """
        ...

    def close(self) -> None: ...


class Executor(Protocol):
    """Where kernels run. A context manager: leaving it frees worker processes."""

    name: str  # "gpu" or "emulator"
    description: str  # for records: card and driver, or NVRTC
    flags: tuple[str, ...]  # that kernels are compiled with

    @property
    def unconfined(self) -> tuple[str, ...]:
        """What usually keeps a kernel's text from the rest of the machine and is missing on this one, in words."""
        ...

    @property
    def environment(self) -> str:
        """A key for all that results depend on beside the kernel: where it is the same, so are they."""
        ...

    def load(self, source: KernelSource) -> LoadedKernel:
        """Compile (or fetch from the cache) and load. Raises CandidateFailed: compile, launch or unjudged."""
        ...

    def __enter__(self) -> Executor: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def load_in_parallel(executor: Executor, sources: Sequence[KernelSource]) -> None:
    """Compile `sources` side by side; a later `load` finds them in the store, or meets what is wrong with them."""

    def load(source: KernelSource) -> None:
        with suppress(CandidateFailed):
            executor.load(source).close()

    with thread_pool() as pool:
        list(pool.map(load, sources))
