"""The values that the template of prepare launches needs for each launch: names and numbers, no code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from gemmgen.kernel.notes import ORDER_WORDS
from gemmgen.kernel.prepare import SUM_LANES, SUM_LINES, LineSums, Prepare, Step
from gemmgen.kernel.source import Launch, Parameter, prepare_parameters
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import MatrixSizes


@dataclass(frozen=True)
class _StepText(ABC):
    """A launch before the kernel `name`. Sizes are numbers, or names of parameters."""

    problem: Problem
    prepare: Step
    name: str

    @property
    def entry(self) -> str:
        return self.prepare.entry(self.name)

    @property
    def operand(self) -> str:
        return self.prepare.operand

    @property
    def part(self) -> str:
        return self.prepare.part

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return prepare_parameters(self.problem, self.prepare)

    @property
    def chunk(self) -> int:
        """Elements of 16 bytes: of a copy, or of what is summed."""
        return self.prepare.chunk(self.problem)

    @property
    def _operand(self) -> MatrixSizes:
        return self.prepare.of(self.problem)

    @property
    def ctype(self) -> str:
        return self._operand.dtype.ctype

    @property
    def threads(self) -> int:
        return self.prepare.threads

    @property
    def batched(self) -> bool:
        return self.problem.batched

    @property
    def batch(self) -> str:
        return self._size("batch")

    @property
    def stride(self) -> str:
        """The distance from one of the operand's matrices to the next."""
        return self._size(self._operand.stride)

    @property
    def lead(self) -> str:
        """The operand's leading dimension."""
        return self._size(self._operand.ld)

    @property
    @abstractmethod
    def extent(self) -> str:
        """The elements that it writes, as text for a person."""

    def _size(self, name: str) -> str:
        size = self.problem.sizes[name]
        return name if size is None else str(size)


@dataclass(frozen=True)
class LineSumsText(_StepText):
    """A launch that sums lines."""

    prepare: LineSums
    unit: int = 0  # elements that divide the leading dimension of a copy that it reads

    @property
    def source(self) -> str:
        return self.prepare.source

    @property
    def copied(self) -> bool:
        return self.prepare.copied

    @property
    def words(self) -> str:
        return "A's rows" if self.operand == "A" else "B's columns"

    @property
    def lines(self) -> str:
        return self._size(self.prepare.lines)

    @property
    def tile_lines(self) -> int:
        return SUM_LINES

    @property
    def lanes(self) -> int:
        """Threads per line that is summed."""
        return SUM_LANES

    @property
    def length(self) -> str:
        return self._size("K")

    @property
    def may_end_early(self) -> bool:
        """Whether a line may end within a chunk, with other bytes behind it. A copy has zeros there instead."""
        return not self.copied and (self.problem.k is None or self.problem.k % self.chunk != 0)

    @property
    def extent(self) -> str:
        return f"{self.batch} * {self.lines}" if self.batched else self.lines


@dataclass(frozen=True)
class PrepareText(_StepText):
    """A launch that copies an operand."""

    prepare: Prepare

    @property
    def piece(self) -> str:
        """The type of an element of a piece; empty if the operand is copied whole."""
        return self.prepare.lies(self.problem).dtype.ctype if self.pieces > 1 else ""

    @property
    def pieces(self) -> int:
        """Pieces per matrix; 1 if the operand is copied as it is."""
        return self.prepare.pieces(self.problem)

    @property
    def access(self) -> int:
        """Elements per access that reads the operand, a power of two."""
        return min(self.chunk, self.problem.vector_limit(self._operand.ld))  # type: ignore[arg-type]

    @property
    def whole(self) -> bool:
        """Whether lines are whole chunks, so that no access reads beyond their ends."""
        return self.length.isdigit() and int(self.length) % self.chunk == 0

    @property
    def reads_edge(self) -> bool:
        """Whether accesses of several elements, which are split, may end beyond a line."""
        return self.pieces > 1 and self.access > 1 and not self.whole

    @property
    def order_word(self) -> str:
        return ORDER_WORDS[self.prepare.order]

    @property
    def transposes(self) -> bool:
        return self.prepare.transposes(self.problem)

    @property
    def way(self) -> str:
        """How a block copies: the name of the template's macro."""
        return {
            (False, False): "copy",
            (False, True): "split",
            (True, False): "transpose",
            (True, True): "transpose_split",
        }[self.transposes, self.pieces > 1]

    @property
    def matrices(self) -> str:
        """The template of how it finds the matrices of a batch."""
        return f"prepare/{'batch' if self.batched else 'matrix'}.cu"

    @property
    def pad(self) -> int:
        """Elements per 4-byte word of shared memory."""
        return max(1, WORD // self.prepare.of(self.problem).dtype.size)

    @property
    def tile_lines(self) -> int:
        return self.prepare.tile(self.problem)[0]

    @property
    def tile_length(self) -> int:
        return self.prepare.tile(self.problem)[1]

    @property
    def lines(self) -> str:
        """Lines of the copy, as text."""
        return self._extent(self.prepare.lies(self.problem).lines)

    @property
    def length(self) -> str:
        """Elements per line of the copy, as text."""
        return self._extent(self.prepare.lies(self.problem).line)

    @property
    def unit(self) -> int:
        """The number of elements that divides the copy's leading dimension."""
        return self.prepare.unit(self.problem)

    @property
    def pitch(self) -> str:
        """Chunks from one line of the copy to the next, as the launch calls their number."""
        return "chunks" if self.unit == self.chunk else "pitch"

    @property
    def ld(self) -> str:
        """The copy's leading dimension, as text for a person."""
        length = self.length
        if length.isdigit():
            return str(-(-int(length) // self.unit) * self.unit)
        return f"ceil({length} / {self.unit}) * {self.unit}"

    @property
    def extent(self) -> str:
        matrices = f"{self.batch} * " if self.batched else ""
        matrices += f"{self.pieces} * " if self.pieces > 1 else ""
        return f"{matrices}{self.lines} * {self.ld}"

    def _extent(self, size: str) -> str:
        """The operand's rows or columns."""
        return self._operand.extent_text(size, {size: self._size(size)})


def copy_texts(problem: Problem, launch: Launch, name: str) -> tuple[PrepareText, ...]:
    """The launches before the kernel `name` that copy operands, as their template reads them."""
    return tuple(PrepareText(problem, one, name) for one in launch.copies)


def sum_texts(problem: Problem, launch: Launch, name: str) -> tuple[LineSumsText, ...]:
    """The launches before the kernel `name` that sum lines, as their template reads them."""
    copies = {one.operand: one.unit(problem) for one in launch.copies}
    return tuple(LineSumsText(problem, one, name, copies.get(one.operand, 0)) for one in launch.sums)
