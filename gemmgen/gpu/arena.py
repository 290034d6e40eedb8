"""A, B, C and the workspace between guard bands in one allocation, and what a kernel wrote that it must not.

    | guard | A | guard | B | guard | C | guard |        | partials | guard | tickets | guard |   where it has them

The allocation is compared as a whole before and after a launch: only C's elements and the partials may change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmgen.errors import CandidateFailed, Failure
from gemmgen.executor import Floats, Operands
from gemmgen.problem import Case
from gemmgen.source import POINTERS, WORKSPACE, Workspace

Words = npt.NDArray[np.uint32]

GUARD_BYTES = 256 * 1024  # on each side of each operand
GUARD_WORD = 0x7FFCDEAD  # a NaN, and two are a double's: it shows in the result of whoever reads it
ALLOCATION_ALIGN = 256  # bytes, as cuMemAlloc gives
PLACES = 8  # different placements, chosen by the seed
WORD = 4
NO_WORKSPACE = Workspace(0, 0)


@dataclass(frozen=True)
class Arena:
    """Byte offsets of the operands and the workspace of `case`. Each address has the promised alignment and no more."""

    case: Case
    workspace: Workspace
    offsets: dict[str, int]
    size: int

    @property
    def word_counts(self) -> dict[str, int]:
        return _word_counts(self.case, self.workspace)

    def words(self, image: Words, name: str) -> Words:
        """The storage of an operand, or of the workspace, inside `image`."""
        start = self.offsets[name] // WORD
        return image[start : start + self.word_counts[name]]

    def image(self, operands: Operands) -> Words:
        """What to copy to the device: guard words, which the partials hold, too; operands; tickets, all zero."""
        image = np.full(self.size // WORD, GUARD_WORD, np.uint32)
        for name, values in zip("ABC", (operands.a, operands.b, operands.c), strict=True):
            self.words(image, name)[:] = values.view(np.uint32)
        self.words(image, "tickets")[:] = 0
        return image

    def result(self, before: Words, after: Words) -> Floats:
        """C's storage after the launch. Raises CandidateFailed (crash) where anything else changed."""
        changed = before != after
        dtype = self.case.problem.dtype
        self.case.c.view(self.words(changed, "C").view(f"u{dtype.words}"))[...] = 0  # a byte a word
        self.words(changed, "partials")[:] = False
        left = np.flatnonzero(self.words(changed, "tickets"))
        if len(left):
            value = self.words(after, "tickets")[left[0]]
            reason = f"it leaves tickets[{left[0]}] = {value}: the next launch needs it to be zero"
            raise CandidateFailed(Failure("crash", reason, "gpu"))
        if changed.any():
            where = self._describe(int(changed.argmax()) * WORD)
            reason = f"it wrote {np.count_nonzero(changed)} words outside C's elements, the first {where}"
            raise CandidateFailed(Failure("crash", reason, "gpu"))
        result: Floats = self.words(after, "C").view(dtype.numpy).copy()
        return result

    def _describe(self, offset: int) -> str:
        """Where the byte `offset` is, for a person: in an operand, or how far from the nearest one."""
        distances: list[tuple[int, str]] = []
        for name, start in self.offsets.items():
            end = start + WORD * self.word_counts[name]
            if start <= offset < end:
                return self._describe_inside(name, offset - start)
            beyond = offset >= end
            distance = offset - end if beyond else start - offset
            distances.append((distance, f"{distance} bytes {'after the end of' if beyond else 'before'} {name}"))
        return min(distances)[1]

    def _describe_inside(self, name: str, offset: int) -> str:
        element = offset // (WORD if name in WORKSPACE else self.case.problem.dtype.size)
        if name != "C":
            return f"in {name}, at element {element} of its storage"
        c = self.case.c
        apart = "" if c.batch is None else f", stride_c = {c.stride}"
        return f"in the padding of C at {c.place(element)} (C is {c.rows} x {c.cols}, ldc = {c.ld}{apart})"


def place(case: Case, seed: int, workspace: Workspace = NO_WORKSPACE) -> Arena:
    """Lay out operands and workspace; the seed chooses one of `PLACES` distances from the alignment boundary."""
    align = case.problem.pointer_align
    lead = align * (1 + 2 * (seed % PLACES))  # an odd multiple: aligned to `align` and not to 2 * align
    offsets: dict[str, int] = {}
    end = 0
    for name, words in _word_counts(case, workspace).items():
        if words == 0 and name in WORKSPACE:
            offsets[name] = end  # it has none, and nothing points there
            continue
        offsets[name] = _round_up(end + GUARD_BYTES, ALLOCATION_ALIGN) + lead
        end = offsets[name] + WORD * words
    return Arena(case, workspace, offsets, _round_up(end + GUARD_BYTES, ALLOCATION_ALIGN))


def _word_counts(case: Case, workspace: Workspace) -> dict[str, int]:
    """Words of everything that a kernel may have a pointer to."""
    operands = (matrix.elements * case.problem.dtype.words for matrix in case.matrices)
    return dict(zip(POINTERS, (*operands, workspace.partials, workspace.tickets), strict=True))


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
