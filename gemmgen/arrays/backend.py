"""The backend that runs kernels on arrays, and the launches that it plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gemmgen.arrays.checked import Arrays, Checked
from gemmgen.arrays.fastcall import Direct
from gemmgen.arrays.libraries import Library
from gemmgen.arrays.view import ArrayView, Device
from gemmgen.kernel.prepare import Step
from gemmgen.problem.gemm import Case


class Planned(Protocol):
    """A function that enqueues a planned launch, on arrays that stay in place, on the stream of a call."""

    def __call__(self, stream: Any) -> None: ...


class Backend(Protocol):
    """Runs a kernel, on a GPU or in the emulator."""

    device: Device

    def run(self, known: Checked, rows: int | None, addresses: Sequence[int], a: Any, stream: Any) -> None:
        """Enqueue the kernel's launches; `a` and `stream` are those of the call, the rest is as in `Arrays`."""

    def plan(self, arrays: Arrays) -> Planned:
        """Prepare launches for later, in a workspace of their own."""

    def locate(self, view: ArrayView) -> ArrayView:
        """`view` with its device's number."""

    def prepare(
        self, step: Step, case: Case, views: Mapping[str, ArrayView], made: ArrayView, library: Library, stream: Any
    ) -> None:
        """Enqueue the launch that copies an operand, sums the lines of its copy, or packs codes; it reads `views`, by
        the names of its parameters."""

    @property
    def native(self) -> Any:
        """The module of fastcall.c, or None."""

    def direct(self, known: Checked) -> Direct | None:
        """The launch that ran, in the context of its first run, for fastcall.c; None if fastcall.c cannot run it.

        Raises LookupError if nothing of it ran.
        """

    def close(self) -> None: ...


class Plan:
    """A launch on arrays that stay in place: checked and encoded once, enqueued as often as it is called.

    It has its own workspace. Its calls must be on one stream, or be ordered by the caller. Calls on a stream other than
    the current one of its creation must be complete before the plan is deleted.

    out  the array of C, which it writes
    """

    def __init__(self, planned: Planned, arrays: Arrays) -> None:
        self.out, self.case = arrays.out, arrays.case
        self._planned, self._kept = planned, arrays.kept
        self._library, self._written = arrays.library, arrays.written

    def __call__(self, stream: Any = None) -> Any:
        """Enqueue the launch on the current stream, or on `stream`, and return `out`. Raises CandidateFailed:
        launch."""
        self._planned(stream)
        for array in self._written:
            self._library.wrote(array)
        return self.out
