"""Memory that the executor shares with its worker: large operands and results do not go through the pipe.

A request's operands lie in it until the worker has them on the device, and its result from then on.
"""

from __future__ import annotations

import mmap
import os
import sys
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.run.executor import Floats, Operands
from gemmgen.run.gpu.arena import ImageKey
from gemmgen.support.threads import in_threads

Bytes = npt.NDArray[np.uint8]
Sent = Operands | Literal["shared"] | None  # with a request: the operands, where they are, or nothing

ALIGN = 64  # bytes, between operands
COPIED_BYTES = 2**23  # by a thread


@dataclass(frozen=True)
class Given:
    """Operands of one launch, and the place for its results.

    seed    seed of their place on the device
    key     key of their image, which the worker may have kept; None if it keeps none
    sent    the operands, or None if their image is kept: the worker asks for operands that it lacks
    shared  path of the executor's shared memory; None if there is none
    """

    case: Case
    seed: int
    key: ImageKey | None
    sent: Sent
    shared: str | None


class SharedMemory:
    """The executor's side: a file in memory. `path` is None on systems without one.

    Both sides keep it mapped, because the first touch of a page takes longer than its copy.
    """

    def __init__(self) -> None:
        self._file = os.fdopen(os.memfd_create("gemmgen"), "r+b") if sys.platform == "linux" else None
        self.path = None if self._file is None else f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        self._mapped = Mapped()

    def put(self, case: Case, operands: Operands) -> None:
        """Put the operands where the worker's `operands_in` finds them."""
        assert self.path is not None
        spans = spans_of(case)
        whole = self._mapped.part(self.path, slice(0, max(span.stop for span in spans.values())))
        for name, values in operands.by_name.items():
            _copy(values.view(np.uint8), whole[spans[name]])

    def read(self, elements: int, dtype: DType) -> Floats:
        """Return the first `elements` of a result, copied, as the next request overwrites them."""
        assert self.path is not None
        result: Floats = np.empty(elements, dtype.numpy)
        _copy(self._mapped.part(self.path, slice(0, result.nbytes)), result.view(np.uint8))
        return result

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Mapped:
    """A file in memory as one process sees it; it grows on demand."""

    def __init__(self) -> None:
        self._path, self._bytes = "", np.empty(0, np.uint8)

    def part(self, path: str, span: slice) -> Bytes:
        """The bytes `span` of the file `path`. Raises OSError."""
        if path != self._path or span.stop > self._bytes.size:
            with open(path, "r+b") as file:
                file.truncate(max(span.stop, os.fstat(file.fileno()).st_size))
                self._path, self._bytes = path, np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8)
        return self._bytes[span]


def operands_in(mapped: Mapped, path: str, case: Case) -> Operands:
    """The operands that `SharedMemory.put` left there; they stay until a result overwrites them."""
    found = {name: mapped.part(path, span) for name, span in spans_of(case).items()}
    a, b, c, *_ = typed = [bytes_.view(case.tensors[name].dtype.numpy) for name, bytes_ in found.items()]
    return Operands(a, b, c, dict(zip(list(found)[3:], typed[3:], strict=True)))


def spans_of(case: Case) -> dict[str, slice]:
    """The bytes of each operand, by its name."""
    sizes = [matrix.elements * matrix.dtype.numpy.itemsize for matrix in case.tensors.values()]
    starts = accumulate((-(-size // ALIGN) * ALIGN for size in sizes), initial=0)
    named = zip(case.tensors, starts, sizes, strict=False)
    return {name: slice(start, start + size) for name, start, size in named}


def _copy(values: Bytes, to: Bytes) -> None:
    def copy(first: int) -> None:
        to[first : first + COPIED_BYTES] = values[first : first + COPIED_BYTES]

    in_threads(copy, range(0, to.size, COPIED_BYTES))
