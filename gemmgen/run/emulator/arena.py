"""Operands and workspace in memory that the driver and the emulator share.

Each lies in a segment of whole pages, which the emulator maps between guard pages that fault on any access. It touches
the upper or the lower guard page, as far as its alignment allows. Bytes of C's segment that are not elements of C hold
a canary, so that a write there shows; so do the bytes beside the workspace. In a batch of pointers a segment holds all
matrices of an operand, with canaries between them, or guard pages if there are few matrices.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.contract import OPERANDS
from gemmgen.kernel.launch import SEMAPHORE_BYTES, WORKSPACE, Workspace
from gemmgen.kernel.prepare import dtype_of_part
from gemmgen.kernel.streamk import Numbers
from gemmgen.problem.dtype import CANARY, WIDEST_ACCESS, WORD
from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.operands import is_written
from gemmgen.problem.sizes import POINTER_BYTES
from gemmgen.run.executor import Floats, Operands, left_behind
from gemmgen.run.scatter import Scattered, one_after_another, scatter
from gemmgen.support.errors import require

Bits = npt.NDArray[np.unsignedinteger[Any]]  # elements as bit patterns
Bytes = npt.NDArray[np.uint8]
Blocks = npt.NDArray[np.int64]

CANARY_BYTE = CANARY & 0xFF  # each of its bytes is the same
GUARDED_MATRICES = 64  # of an operand at most, that have pages between them: a process can have some 2^16 mappings
GUARD = mmap.PAGESIZE + 2 * WIDEST_ACCESS  # bytes between such matrices: a whole page, wherever they are skewed
GAP = 4 * WIDEST_ACCESS  # bytes between others


@dataclass(frozen=True)
class Segment:
    """`bytes_mapped` at `offset` of the shared file; the operand's `length` bytes start at `skew`."""

    offset: int
    bytes_mapped: int
    skew: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.bytes_mapped


def place(offset: int, length: int, align: int, high: bool) -> Segment:
    """Place an operand that aligns to `align` bytes and no more, as high or as low in its segment as that allows.

    A kernel cannot tell alignments apart that exceed its widest access: 16 may be 32.
    """
    if length == 0:
        return Segment(offset, 0, 0, 0)  # all band: any access shows
    step = min(2 * align, WIDEST_ACCESS)
    lowest = align % step
    mapped = whole_pages(lowest + length)
    highest = mapped - length - (mapped - length - lowest) % step
    return Segment(offset, mapped, highest if high else lowest, length)


def whole_pages(length: int) -> int:
    return -(-length // mmap.PAGESIZE) * mmap.PAGESIZE


@dataclass(frozen=True)
class Placement:
    """A segment as the interpreter is told of it.

    element_bytes  bytes per element
    written        whether the kernel may write there
    holds_values   whether it may read the contents from before the launch
    matrix         the layout of its elements, or of each matrix behind an array of pointers; None if it is not a matrix
    array          whether the kernel takes an array of pointers
    before         bytes before the segment that the kernel can address but that have no memory
    filed          their layout in the segment if it differs: there, lines or matrices have pages of their own
    """

    name: str
    segment: Segment
    element_bytes: int
    written: bool
    holds_values: bool = True
    matrix: Matrix | None = None
    array: bool = False
    filed: Matrix | None = None
    before: int = 0

    def pack(self) -> bytes:
        """The bytes of `Placement` in launch.hpp."""
        at = self.segment
        length = at.length if self.matrix is None or not self._lies_apart else self.matrix.bytes
        place = (at.offset, at.bytes_mapped, at.skew, length)
        matrix_bytes = self.matrix.span * self.element_bytes if self.matrix is not None and self.array else 0
        head = struct.pack(
            "<24s4QIHHQ", self.name.encode(), *place, self.element_bytes, self.written, self.array, matrix_bytes
        )
        return head + struct.pack("<4QHHI4Q", *self._geometry(), self.holds_values, *self._pieces(), self.before)

    @property
    def _lies_apart(self) -> bool:
        return self.filed is not None and self.filed != self.matrix and self.filed.span > 0

    def _pieces(self) -> tuple[int, int, int, int]:
        """(matrices, lines per matrix, bytes from one line to the next, bytes from one matrix to the next) in the
        segment."""
        one, filed = self.matrix, self.filed
        if one is None or filed is None or not self._lies_apart:
            return 1, 1, 0, 0
        matrices = one.stored.batch or 1
        lines = one.lines if one.ld != filed.ld else 1
        ld, stride = (self.element_bytes * step for step in (filed.ld, filed.stride or filed.lines * filed.ld))
        far = [self.element_bytes * step for step, count in ((one.ld, lines), (one.stride, matrices)) if count > 1]
        near = [step for step, count in ((ld, lines), (stride, matrices)) if count > 1]
        for there, here in zip(far, near, strict=True):
            require(
                (there - here) % mmap.PAGESIZE == 0, f"{self.name}: {there} and {here} bytes differ by parts of pages"
            )
        return matrices, lines, ld, stride

    def _geometry(self) -> tuple[int, ...]:
        """(bytes per line, from line to line, per matrix, from matrix to matrix; whether lines are rows)."""
        one = self.matrix
        if one is None or one.span == 0:
            return 0, 0, 0, 0, False
        stride = 0 if one.batch is None else one.stride
        return *(self.element_bytes * size for size in (one.line_length, one.ld, one.span, stride)), one.order == "r"


BLOCKS, STARTS = "blocks", "matrices"  # segments of the blocks to run, and of the start addresses of scattered matrices


@dataclass(frozen=True)
class ArenaLayout:
    """The places of one launch's operands, workspace and lists in the shared file.

    segments    by name: operands, parts of the workspace, BLOCKS and STARTS
    tensors     what kernels have pointers to, workspace apart; `filed` says how that lies in the segments,
    before      behind so many bytes that have no memory
    part_bytes  bytes of an element of each part of the workspace
    unset       tensors that a kernel may not read before it has written them
    scattered   the matrices A, B and C in their segments, for a batch of pointers; else empty
    far_pointers  elements from the first of a scattered operand to each product's matrix, where the kernel sees others
    """

    segments: Mapping[str, Segment]
    tensors: Mapping[str, Matrix]
    filed: Mapping[str, Matrix]
    before: Mapping[str, int]
    part_bytes: Mapping[str, int]
    unset: frozenset[str]
    scattered: tuple[Scattered, ...] = ()
    far_pointers: tuple[Numbers, ...] = ()

    @property
    def workspace(self) -> dict[str, Segment]:
        return {name: self.segments[name] for name in self.part_bytes}

    @property
    def products(self) -> int:
        """Products in a batch of pointers, else 0."""
        return len(self.scattered[0].slots) if self.scattered else 0

    @property
    def element_bytes(self) -> int:
        """The smallest element size that shared memory may hold: that of an operand or a sum."""
        parts = (size for name, size in self.part_bytes.items() if name != "semaphores")
        return min(*parts, *(matrix.dtype.size for matrix in self.tensors.values()))

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The placements to which a kernel may have a pointer."""
        names = dict.fromkeys((*OPERANDS, *WORKSPACE, *self.segments))
        return tuple(self._placement(name, self.segments[name]) for name in names if name not in (BLOCKS, STARTS))

    def preparing(self, part: str) -> tuple[Placement, ...]:
        """The placements for the launch that writes this part of the workspace, and nothing else."""
        return tuple(
            replace(one, written=one.name == part, holds_values=one.name != part and one.holds_values)
            for one in self.placements
        )

    def _placement(self, name: str, segment: Segment) -> Placement:
        before = self.before.get(name, 0)
        if name in self.part_bytes:
            return Placement(name, segment, self.part_bytes[name], name in WORKSPACE, before=before)
        matrix, array = self.tensors[name], name in OPERANDS and bool(self.scattered)
        values, written = name not in self.unset, name == "C" or is_written(name)
        return Placement(name, segment, matrix.dtype.size, written, values, matrix, array, self.filed[name], before)

    @classmethod
    def of(
        cls,
        case: Case,
        workspace: Workspace,
        block_count: int,
        seed: int,
        apart: Case | None = None,
        whole: Workspace | None = None,
    ) -> ArenaLayout:
        """The layout of `case`, which a kernel sees as `apart`: with other distances, or as the end of a larger
        launch.

        `workspace` is then the end of `whole`, the workspace of that launch.
        """
        problem, high = case.problem, seed % 2 == 0
        scattered: tuple[Scattered, ...] = ()
        if problem.pointers and apart is not None:
            scattered = one_after_another(case)
        elif problem.pointers:
            few = case.batch <= GUARDED_MATRICES
            scattered = scatter(case, GUARD if few else GAP, mmap.PAGESIZE if few else 2 * WIDEST_ACCESS, seed)
        lengths = {name: matrix.bytes for name, matrix in case.tensors.items()}
        lengths |= {name: one.matrix.bytes for name, one in zip(OPERANDS, scattered, strict=False)}
        aligns = {name: problem.align_of(name) for name in lengths} | workspace.aligns
        segments, end = {}, 0
        for name, length in (lengths | workspace.lengths).items():
            segments[name] = place(end, length, aligns[name], high)
            end = segments[name].end
        start_bytes = POINTER_BYTES * sum(len(one.slots) for one in scattered)
        for name, length in ((BLOCKS, block_count * WORD), (STARTS, start_bytes)):
            segments[name] = Segment(end, whole_pages(length), 0, length)
            end = segments[name].end
        tensors, before = _seen(case, case if apart is None else apart)
        before |= {name: length - workspace.lengths[name] for name, length in (whole or workspace).lengths.items()}
        pointers = tuple(one.offsets for one in one_after_another(apart)) if apart is not None and scattered else ()
        part_bytes = {"partials": problem.types.accumulator.size, "semaphores": SEMAPHORE_BYTES}
        part_bytes |= {name: dtype_of_part(problem, name).size for name, _ in workspace.prepared}
        filed = {name: one.in_bytes for name, one in case.tensors.items()}
        return cls(segments, tensors, filed, before, part_bytes, _unset(case), scattered, pointers)


def _seen(case: Case, apart: Case) -> tuple[dict[str, Matrix], dict[str, int]]:
    """Return what a kernel sees of `case`'s matrices, and the bytes before those that have the same distances as in
    `case`."""
    seen, before = {}, {}
    for name, filed in case.tensors.items():
        far = apart.tensors[name]
        lies_as_filed = (far.ld, far.stride) == (filed.ld, filed.stride)
        seen[name] = (filed if lies_as_filed else far).in_bytes
        before[name] = far.bytes - filed.bytes if lies_as_filed else 0
    return seen, before


def _unset(case: Case) -> frozenset[str]:
    """The outputs that are not inputs: C if beta = 0, and outputs that the epilogue only writes."""
    epilogue = case.problem.epilogue
    matrices = {one.name for one in epilogue.written_matrices}
    return frozenset(matrices if case.beta != 0 and epilogue.reads_c else {"C", *matrices})


class SharedArena:
    """The shared file: it is filled before a launch, and C is read from it afterwards. It has no name and vanishes with
    its last user."""

    def __init__(self) -> None:
        self.file = os.memfd_create("gemmgen-operands")
        self._bytes: Bytes = np.zeros(0, np.uint8)

    def close(self) -> None:
        self._bytes = np.zeros(0, np.uint8)  # lets go of the mapping
        os.close(self.file)

    def fill(self, layout: ArenaLayout, case: Case, operands: Operands, blocks: Blocks) -> None:
        segments = layout.segments
        self._reserve(segments[STARTS].end)
        for index, storage in enumerate((operands.a, operands.b)):
            segment = segments[OPERANDS[index]]
            if layout.scattered:
                self._segment(segment)[:] = CANARY_BYTE
                matrix = case.matrices[index]
                elements = self._operand(segment).view(matrix.dtype.bits)
                layout.scattered[index].put(elements, matrix.view(storage.view(matrix.dtype.bits)))
            else:
                self._slack_to_canary(segment)
                self._operand(segment)[:] = case.matrices[index].dtype.packed(storage)
        for name, matrix in case.extra.items():
            if not is_written(name):
                self._slack_to_canary(segments[name])
                self._operand(segments[name])[:] = matrix.dtype.packed(operands.extra[name])
        for one in case.problem.epilogue.outputs:
            matrix, values = case.extra[one.name], operands.extra[one.name]
            self._segment(segments[one.name])[:] = CANARY_BYTE
            before = matrix.view(values.view(matrix.dtype.bits))
            self._put(layout, case, one.name, np.zeros_like(before) if one.is_amax else before)
        self._segment(segments["C"])[:] = CANARY_BYTE
        self._put(layout, case, "C", case.c.view(operands.c.view(case.c.dtype.bits)))
        pointers = layout.far_pointers or [one.offsets for one in layout.scattered]
        offsets = [one.matrix.dtype.size * far for one, far in zip(layout.scattered, pointers, strict=True)]
        self._operand(segments[STARTS])[:] = np.array(offsets, np.uint64).view(np.uint8).ravel()
        for segment in layout.workspace.values():
            self._segment(segment)[:] = CANARY_BYTE
        self._operand(segments["semaphores"])[:] = 0
        self.list_blocks(layout, blocks)

    def list_blocks(self, layout: ArenaLayout, blocks: Blocks) -> None:
        """Write the blocks of the next launch, in order; there may be no more than the layout has room for."""
        self._operand(layout.segments[BLOCKS]).view(np.uint32)[: len(blocks)] = blocks

    def result(self, layout: ArenaLayout, case: Case, name: str, before: Floats) -> Floats:
        """Return the storage of C, or of another output, after the launch, with its padding as before."""
        after: Floats = before.copy()
        matrix = case.tensors[name]
        elements = self._operand(layout.segments[name]).view(matrix.dtype.bits)
        scattered = layout.scattered and name == "C"
        found = layout.scattered[2].take(elements) if scattered else matrix.view(elements)
        matrix.view(after.view(matrix.dtype.bits))[...] = found
        return after

    def write_outside(self, layout: ArenaLayout, case: Case, name: str) -> str | None:
        """Describe a write beside the elements of an output; None if there was none. Overwrites the output in the
        arena."""
        matrix, at = case.tensors[name], layout.segments[name]
        dtype = matrix.dtype
        self._put(layout, case, name, np.full(dtype.size, CANARY_BYTE, np.uint8).view(dtype.bits))
        segment = self._segment(at)
        if (segment.view(np.uint32) == CANARY).all():
            return None
        offset = (int(np.argmax(segment != CANARY_BYTE)) - at.skew) // dtype.size
        if layout.scattered and name == "C" and offset >= 0:
            return layout.scattered[2].place(offset)
        return describe_outside(matrix, offset, name)

    def _put(self, layout: ArenaLayout, case: Case, name: str, values: Bits) -> None:
        """Write the elements of an output into the arena."""
        matrix = case.tensors[name]
        elements = self._operand(layout.segments[name]).view(matrix.dtype.bits)
        if layout.scattered and name == "C":
            layout.scattered[2].put(elements, values)
        else:
            matrix.view(elements)[...] = values

    def workspace_trouble(self, layout: ArenaLayout, semaphores: Numbers) -> str | None:
        """Describe an illegal change of the workspace by the launch; None if there is none.

        `semaphores` holds the values that the blocks that ran must leave: zeros if they complete every tile that they
        begin.
        """
        left = left_behind(self._operand(layout.segments["semaphores"]).view(np.uint32), semaphores)
        if left is not None:
            return f"the kernel {left}"
        for name, segment in layout.workspace.items():
            held, first = self._segment(segment), segment.skew
            parts = (0, first), (first + segment.length, None)
            beside = [start + np.flatnonzero(held[start:stop] != CANARY_BYTE) for start, stop in parts]
            changed = np.concatenate(beside)
            if len(changed):
                offset = int(changed[0]) - segment.skew
                return f"the kernel writes beside {name}, {offset} bytes from its start"
        return None

    def _reserve(self, size: int) -> None:
        if self._bytes.nbytes < size:
            os.ftruncate(self.file, size)
            self._bytes = np.frombuffer(mmap.mmap(self.file, size), np.uint8)

    def _segment(self, segment: Segment) -> Bytes:
        return self._bytes[segment.offset : segment.end]

    def _operand(self, segment: Segment) -> Bytes:
        first = segment.offset + segment.skew
        return self._bytes[first : first + segment.length]

    def _slack_to_canary(self, segment: Segment) -> None:
        held = self._segment(segment)
        held[: segment.skew] = CANARY_BYTE
        held[segment.skew + segment.length :] = CANARY_BYTE


def describe_outside(c: Matrix, offset: int, name: str) -> str:
    """Describe the place `offset` elements from the first of C, or of another output, which lies outside of its
    elements."""
    if offset < 0:
        return f"{-offset} elements before the start of {name}"
    if offset >= c.elements:
        return f"{offset - c.elements} elements after the end of {name}"
    apart = "" if c.batch is None else f", stride_c = {c.stride}"
    return f"the padding of {name} at {c.place(offset)} ({name} is {c.rows} x {c.cols}, ldc = {c.ld}{apart})"
