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
GUARD_WORD = 0x7FC0DEAD  # a NaN: it shows in the result of whoever reads it
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
    def elements(self) -> dict[str, int]:
        return _elements(self.case, self.workspace)

    def words(self, image: Words, name: str) -> Words:
        """The storage of an operand, or of the workspace, inside `image`."""
        start = self.offsets[name] // WORD
        return image[start : start + self.elements[name]]

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
        self.case.c.view(self.words(changed, "C"))[:] = False
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
        result: Floats = self.words(after, "C").view(np.float32).copy()
        return result

    def _describe(self, offset: int) -> str:
        """Where the byte `offset` is, for a person: in an operand, or how far from the nearest one."""
        distances: list[tuple[int, str]] = []
        for name, start in self.offsets.items():
            end = start + WORD * self.elements[name]
            if start <= offset < end:
                return self._describe_inside(name, (offset - start) // WORD)
            beyond = offset >= end
            distance = offset - end if beyond else start - offset
            distances.append((distance, f"{distance} bytes {'after the end of' if beyond else 'before'} {name}"))
        return min(distances)[1]

    def _describe_inside(self, name: str, element: int) -> str:
        if name != "C":
            return f"in {name}, at element {element} of its storage"
        row, column = divmod(element, self.case.ldc)
        return f"in the padding of C after row {row} (column {column} of N = {self.case.n}, ldc = {self.case.ldc})"


def place(case: Case, seed: int, workspace: Workspace = NO_WORKSPACE) -> Arena:
    """Lay out operands and workspace; the seed chooses one of `PLACES` distances from the alignment boundary."""
    align = case.problem.pointer_align
    lead = align * (1 + 2 * (seed % PLACES))  # an odd multiple: aligned to `align` and not to 2 * align
    offsets: dict[str, int] = {}
    end = 0
    for name, elements in _elements(case, workspace).items():
        if elements == 0 and name in WORKSPACE:
            offsets[name] = end  # it has none, and nothing points there
            continue
        offsets[name] = _round_up(end + GUARD_BYTES, ALLOCATION_ALIGN) + lead
        end = offsets[name] + WORD * elements
    return Arena(case, workspace, offsets, _round_up(end + GUARD_BYTES, ALLOCATION_ALIGN))


def _elements(case: Case, workspace: Workspace) -> dict[str, int]:
    """Words of everything that a kernel may have a pointer to."""
    words = (*(matrix.elements for matrix in case.matrices), workspace.partials, workspace.tickets)
    return dict(zip(POINTERS, words, strict=True))


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
