"""A, B and C between guard bands in one allocation, a workspace in another, and the detection of illegal writes.

    | guard | A | guard | B | guard | C | guard |           | guard | partials | guard | semaphores | guard | ...

Each allocation is compared as a whole before and after a launch: only C's elements, partials and copies of operands may
change. The image of the first can stay on the device for all kernels that run on the same operands; the second is set
for each launch. In a batch of pointers A, B and C hold all matrices, with guard words between them, and a third
allocation holds the arrays of pointers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.contract import OPERANDS
from gemmgen.kernel.launch import Launch, Workspace
from gemmgen.problem.dtype import CANARY, WORD
from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.sizes import POINTER_BYTES
from gemmgen.run.executor import Floats, Operands, Words, left_behind
from gemmgen.run.scatter import Scattered, scatter
from gemmgen.support.errors import CandidateFailed, Failure

ImageKey = tuple[int, int, int]
Elements = npt.NDArray[Any]

GUARD_BYTES = 256 * 1024  # on each side of each operand
ALLOCATION_ALIGN = 256  # bytes, as cuMemAlloc gives
KEPT_BYTES = 2**20  # from here on, operands take longer to send than to keep
PLACES = 8  # different placements, chosen by the seed
GAP_BYTES = 256  # between the matrices of a batch of pointers


@dataclass(frozen=True)
class DeviceArena:
    """Byte offsets of the operands of `case`. Each base address has the promised alignment and no more.

    scattered   for a batch of pointers, the place of each matrix in its operand; else empty
    """

    case: Case
    offsets: dict[str, int]
    size: int
    scattered: tuple[Scattered, ...] = ()

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """A, B and C as they lie here."""
        return tuple(one.matrix for one in self.scattered) or self.case.matrices

    @property
    def lengths(self) -> dict[str, int]:
        """Bytes of each operand."""
        return _operand_bytes(self.case, self.matrices)

    def elements(self, image: Words, name: str) -> Elements:
        """The operand's storage inside `image`, as bit patterns."""
        start = self.offsets[name]
        dtype = self.case.problem.dtype_of(name)
        return image.view(np.uint8)[start : start + self.lengths[name]].view(dtype.bits)

    def image(self, operands: Operands) -> Words:
        """The image to copy to the device: guard words, and the operands where they belong."""
        image = np.full(self.size // WORD, CANARY, np.uint32)
        for index, values in enumerate((operands.a, operands.b, operands.c)):
            elements, bits = self.elements(image, OPERANDS[index]), self.matrices[index].dtype.bits
            if self.scattered:
                self.scattered[index].put(elements, self.case.matrices[index].view(values.view(bits)))
            else:
                elements[:] = self.matrices[index].dtype.packed(values).view(bits)
        for name, values in operands.extra.items():
            elements = self.elements(image, name)
            elements[:] = self.case.extra[name].dtype.packed(values).view(elements.dtype)
        return image

    def storage(self, c: Floats) -> Floats:
        """Return `c`, the elements of C as they lie here, in the layout of Operands."""
        if not self.scattered:
            return c
        stored: Floats = np.full(self.case.c.bytes, CANARY & 0xFF, np.uint8).view(c.dtype)
        self.case.c.view(stored)[...] = self.scattered[2].take(c)
        return stored

    def addresses(self, base: int) -> npt.NDArray[np.uint64]:
        """The pointers to each product's A, B and C if the arena begins at address `base`."""
        starts = [base + self.offsets[name] for name in OPERANDS]
        placed = zip(starts, self.scattered, strict=True)
        return np.array([start + one.matrix.dtype.size * one.offsets for start, one in placed], np.uint64)

    def result(self, before: Words, after: Words, output: str = "C") -> Floats:
        """The storage of C, or of another output, after the launch.

        Raises CandidateFailed (crash) if anything but outputs changed.
        """
        changed = before ^ after
        self.matrices[2].view(self.elements(changed, "C"))[...] = 0
        for one in self.case.problem.epilogue.outputs:
            self.case.extra[one.name].view(self.elements(changed, one.name))[...] = 0
        if changed.any():
            wrong = np.flatnonzero(changed.view(np.uint8))
            reason = f"it wrote {len(wrong)} bytes outside C's elements, the first {self._describe(int(wrong[0]))}"
            raise CandidateFailed(Failure("crash", reason, "gpu"))
        found: Floats = self.elements(after, output).view(self.case.tensors[output].dtype.numpy).copy()
        return self.storage(found) if output == "C" else found

    def _describe(self, offset: int) -> str:
        """Describe for a person where the byte `offset` is: in an operand, or how far from the nearest one."""
        for name, start in self.offsets.items():
            if start <= offset < start + self.lengths[name]:
                return self._describe_inside(name, offset - start)
        return _beside(offset, self.offsets, self.lengths)

    def _describe_inside(self, name: str, offset: int) -> str:
        element = offset // self.case.problem.dtype_of(name).size
        if name != "C":
            return f"in {name}, at element {element} of its storage"
        if self.scattered:
            return f"in C's memory, {self.scattered[2].place(element)}"
        c = self.case.c
        apart = "" if c.batch is None else f", stride_c = {c.stride}"
        return f"in the padding of C at {c.place(element)} (C is {c.rows} x {c.cols}, ldc = {c.ld}{apart})"


@dataclass(frozen=True)
class WorkspaceArena:
    """Byte offsets of the parts, each with the alignment that the kernel may rely on and no more.

    Before a launch all words are CANARY, except for the semaphores, which are zero.
    """

    workspace: Workspace
    offsets: dict[str, int]
    size: int

    @property
    def lengths(self) -> dict[str, int]:
        """Bytes of each part."""
        return self.workspace.lengths

    def words(self, name: str) -> slice:
        start = self.offsets[name] // WORD
        return slice(start, start + self.lengths[name] // WORD)

    def kept(self) -> tuple[slice, ...]:
        """The words that a launch must not change: all but the parts that may hold anything."""
        free = [self.words(name) for name in self.lengths if name != "semaphores"]
        starts, stops = (0, *(part.stop for part in free)), (*(part.start for part in free), self.size // WORD)
        return tuple(slice(start, stop) for start, stop in zip(starts, stops, strict=True))

    def check(self, after: Words) -> None:
        """Raise CandidateFailed (crash) if one of the kept words changed."""
        semaphores = self.words("semaphores")
        left = left_behind(after[semaphores])
        if left is not None:
            raise CandidateFailed(Failure("crash", f"it {left}", "gpu"))
        for part in self.kept():
            changed = part.start + np.flatnonzero(after[part] != CANARY)
            changed = changed[(changed < semaphores.start) | (changed >= semaphores.stop)]
            if len(changed):
                where = _beside(int(changed[0]) * WORD, self.offsets, self.lengths)
                reason = f"it wrote {len(changed)} words beside its workspace, the first {where}"
                raise CandidateFailed(Failure("crash", reason, "gpu"))


@dataclass(frozen=True)
class PointerArena:
    """Byte offsets of the arrays of pointers, by operand name, and the image to copy to the device."""

    offsets: dict[str, int]
    lengths: dict[str, int]
    image: Words

    def check(self, after: Words) -> None:
        """Raise CandidateFailed (crash) if the launch changed a pointer, or a word around the arrays."""
        changed = np.flatnonzero(self.image != after)
        if not len(changed):
            return
        at, named = int(changed[0]) * WORD, {f"the pointers to {name}": start for name, start in self.offsets.items()}
        lengths = {f"the pointers to {name}": length for name, length in self.lengths.items()}
        inside = [name for name, start in named.items() if start <= at < start + lengths[name]]
        where = f"in {inside[0]}" if inside else _beside(at, named, lengths)
        reason = f"it wrote {len(changed)} words beside C, the first {where}"
        raise CandidateFailed(Failure("crash", reason, "gpu"))


def image_key(case: Case, operands: Operands, token: int, seed: int) -> ImageKey | None:
    """The key under which the image of `operands`, known by `token`, is kept on the device; None if it is not kept.

    Small operands are sent again, and so are arrays that their owner may still change.
    """
    arrays = tuple(operands.by_name.values())
    if sum(array.nbytes for array in arrays) < KEPT_BYTES or any(array.flags.writeable for array in arrays):
        return None
    return token, case.problem.pointer_align, seed % PLACES


def place(case: Case, seed: int) -> DeviceArena:
    """Lay out the operands; the seed chooses one of `PLACES` distances from the alignment boundary.

    In a batch of pointers it also chooses one of `PLACES` orders of the matrices.
    """
    scattered: tuple[Scattered, ...] = ()
    if case.problem.pointers:
        scattered = scatter(case, GAP_BYTES, ALLOCATION_ALIGN, seed % PLACES)
    matrices = tuple(one.matrix for one in scattered) or case.matrices
    lengths = _operand_bytes(case, matrices)
    offsets, size = _between_guards(lengths, {name: case.problem.align_of(name) for name in lengths}, seed)
    return DeviceArena(case, offsets, size, scattered)


def place_pointers(layout: DeviceArena, base: int, seed: int) -> PointerArena | None:
    """Lay out the arrays of pointers for operands at address `base`; None if the kernel takes none."""
    if not layout.scattered:
        return None
    addresses = layout.addresses(base).view(np.uint32).reshape(len(OPERANDS), -1)
    lengths = dict.fromkeys(OPERANDS, WORD * addresses.shape[1])
    offsets, size = _between_guards(lengths, dict.fromkeys(OPERANDS, POINTER_BYTES), seed)
    image = np.full(size // WORD, CANARY, np.uint32)
    for name, words in zip(OPERANDS, addresses, strict=True):
        image[offsets[name] // WORD :][: len(words)] = words
    return PointerArena(offsets, lengths, image)


def place_workspace(launch: Launch, case: Case, seed: int) -> WorkspaceArena | None:
    """Lay out the workspace of `launch`, in a place that the seed chooses; None if it needs none."""
    workspace = launch.workspace(case)
    if not launch.parts:
        return None
    offsets, size = _between_guards(workspace.lengths, workspace.aligns, seed)
    return WorkspaceArena(workspace, offsets, size)


def _between_guards(lengths: Mapping[str, int], aligns: Mapping[str, int], seed: int) -> tuple[dict[str, int], int]:
    """Return (byte offset of each part, total bytes)."""
    offsets: dict[str, int] = {}
    end = 0
    for name, length in lengths.items():
        lead = aligns[name] * (1 + 2 * (seed % PLACES))  # an odd multiple: aligned to that and not to twice as much
        offsets[name] = _round_up(end + GUARD_BYTES, ALLOCATION_ALIGN) + lead
        end = offsets[name] + length
    return offsets, _round_up(end + GUARD_BYTES, ALLOCATION_ALIGN)


def _operand_bytes(case: Case, matrices: tuple[Matrix, ...]) -> dict[str, int]:
    named = {**dict(zip(OPERANDS, matrices, strict=True)), **case.extra}
    return {name: matrix.bytes for name, matrix in named.items()}


def _beside(offset: int, offsets: Mapping[str, int], lengths: Mapping[str, int]) -> str:
    """Describe how far the byte `offset`, which is in none of the parts, lies from the nearest one."""
    distances: list[tuple[int, str]] = []
    for name, start in offsets.items():
        end = start + lengths[name]
        beyond = offset >= end
        distance = offset - end if beyond else start - offset
        distances.append((distance, f"{distance} bytes {'after the end of' if beyond else 'before'} {name}"))
    return min(distances)[1]


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
