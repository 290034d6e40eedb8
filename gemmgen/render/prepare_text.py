"""The values that the template of prepare launches needs for each launch: names and numbers, no code."""

from __future__ import annotations

from gemmgen.kernel.contract import Contract, prepare_parameters
from gemmgen.kernel.notes import ORDER_WORDS
from gemmgen.kernel.prepare import (
    PACKED_COLUMNS,
    PACKED_LINE,
    SUM_LANES,
    SUM_LINES,
    Codes,
    LineSums,
    Pack,
    Prepare,
    Step,
)
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import Problem


class _StepText:
    """A launch before the kernel `name`. Sizes are numbers, or names of parameters."""

    extent: str  # what it writes, as text for a person

    def __init__(self, problem: Problem, prepare: Step, name: str) -> None:
        self._problem, self._operand = problem, prepare.of(problem)
        self.entry, self.operand, self.part, self.threads = (
            prepare.entry(name),
            prepare.operand,
            prepare.part,
            prepare.threads,
        )
        self.parameters = prepare_parameters(problem, prepare)
        self.chunk = prepare.chunk(problem)  # elements of 16 bytes: of a copy, or of what is summed
        self.ctype = self._operand.dtype.ctype
        self.batched = problem.batched
        # The number of products, and the distance from one of the operand's matrices to the next.
        self.batch, self.stride = (self._size(name) if self.batched else "" for name in ("batch", self._operand.stride))
        self.lead = self._size(self._operand.ld)  # the operand's leading dimension

    def _size(self, name: str) -> str:
        size = self._problem.sizes[name]
        return name if size is None else str(size)


class LineSumsText(_StepText):
    """A launch that sums lines. `unit` is the number of elements that divides the leading dimension of a copy that it
    reads."""

    tile_lines = SUM_LINES
    lanes = SUM_LANES  # threads per line that is summed

    def __init__(self, problem: Problem, prepare: LineSums, name: str, unit: int) -> None:
        super().__init__(problem, prepare, name)
        self.source, self.copied, self.unit = prepare.source, prepare.copied, unit
        self.words = "A's rows" if self.operand == "A" else "B's columns"
        self.lines, self.length = self._size(prepare.lines), self._size("K")
        # A line may end within a chunk, with other bytes behind it. A copy has zeros there instead.
        self.may_end_early = not self.copied and (problem.k is None or problem.k % self.chunk != 0)
        self.extent = f"{self.batch} * {self.lines} elements" if self.batched else f"{self.lines} elements"


class PrepareText(_StepText):
    """A launch that copies an operand."""

    def __init__(self, problem: Problem, prepare: Prepare, name: str) -> None:
        super().__init__(problem, prepare, name)
        copy = prepare.lies(problem)
        self.pieces = prepare.pieces(problem)  # per matrix; 1 if the operand is copied as it is
        self.piece = copy.dtype.ctype if self.pieces > 1 else ""  # the type of an element of a piece
        # Elements per access that reads the operand, a power of two.
        self.access = min(self.chunk, problem.vector_limit(self._operand.ld))  # type: ignore[arg-type]
        self.lines, self.length = self._extent(copy.lines), self._extent(copy.line)  # of the copy, as text
        # Lines are whole chunks, so that no access reads beyond their ends.
        self.whole = self.length.isdigit() and int(self.length) % self.chunk == 0
        # Accesses of several elements, which are split, may end beyond a line.
        self.reads_edge = self.pieces > 1 and self.access > 1 and not self.whole
        self.order_word = ORDER_WORDS[prepare.order]
        way = "transpose" if prepare.transposes(problem) else ""
        self.way = "_".join(filter(None, (way, "split" * (self.pieces > 1)))) or "copy"  # the template's macro
        self.matrices = f"prepare/{'batch' if self.batched else 'matrix'}.cu"  # how it finds the matrices of a batch
        self.pad = max(1, WORD // self._operand.dtype.size)  # elements per 4-byte word of shared memory
        self.tile_lines, self.tile_length = prepare.tile(problem)
        self.unit = prepare.unit(problem)  # elements that divide the copy's leading dimension
        # Chunks from one line of the copy to the next, as the launch calls their number.
        self.pitch = "chunks" if self.unit == self.chunk else "pitch"
        self.ld = self._ld()
        matrices = (f"{self.batch} * " if self.batched else "") + (f"{self.pieces} * " if self.pieces > 1 else "")
        self.extent = f"{matrices}{self.lines} * {self.ld} elements"

    def _ld(self) -> str:
        """The copy's leading dimension, as text for a person."""
        if self.length.isdigit():
            return str(-(-int(self.length) // self.unit) * self.unit)
        return f"ceil({self.length} / {self.unit}) * {self.unit}"

    def _extent(self, size: str) -> str:
        """The operand's rows or columns."""
        return self._operand.extent_text(size, {size: self._size(size)})


class PackText(_StepText):
    """A launch that packs B's codes."""

    way = "pack"
    pieces = 1
    reads_edge = False
    matrices = "prepare/matrix.cu"

    def __init__(self, problem: Problem, prepare: Pack, name: str, overlapped: bool) -> None:
        super().__init__(problem, prepare, name)
        self.overlapped = overlapped  # it may start before the launch ahead of it has ended
        self.n, self.k = self._size("N"), self._size("K")
        self.depth, self.lines = prepare.depth(problem), prepare.chunk_lines(problem)
        self.columns, self.words = PACKED_COLUMNS, PACKED_LINE // WORD  # of a chunk; of one of its lines
        self.group = problem.inputs.group  # k that share a scale; 0: all
        self.zeros, self.signed = problem.inputs.zeros, problem.types.b.is_signed
        self.scaled_by = "their scales and zero points" if self.zeros else "their scales"
        codes = Codes.of(problem)
        assert codes is not None, "what is packed has codes"
        self.bits, self.code_words = codes.bits, prepare.code_words(problem)
        self.access = codes.steps  # of K, whose codes a thread of the kernel takes at once
        # A zero point becomes the last bits of such a number; 0: it stays as it is.
        self.magic, self.added = f"{codes.beside_zero:04x}" if codes.beside_zero else "", codes.added
        self.along_k = self._operand.order == "c"
        self.groups = problem.inputs.row_groups  # of rows, each with a B of its own; 0: there is one
        self.stride = self._size(self._operand.stride) if self.groups else ""  # elements from one of them to the next
        chunks = f"ceil({self.n} / {self.columns}) * ceil({self.k} / {self.depth})"
        chunks = f"{self.groups} * {chunks}" if self.groups else chunks
        self.extent = f"{chunks} * {self.lines * self.words} words of 32 bits, at an address divisible by 16"


def copy_texts(contract: Contract, name: str) -> tuple[PrepareText | PackText, ...]:
    """The launches before the kernel `name` that copy or pack operands, as their template reads them."""
    return tuple(
        PackText(contract.problem, one, name, contract.launch.overlapped)
        if isinstance(one, Pack)
        else PrepareText(contract.problem, one, name)
        for one in contract.launch.copies
    )


def sum_texts(contract: Contract, name: str) -> tuple[LineSumsText, ...]:
    """The launches before the kernel `name` that sum lines, as their template reads them."""
    problem, launch = contract.problem, contract.launch
    copies = {one.operand: one.unit(problem) for one in launch.copies if not isinstance(one, Pack)}
    return tuple(LineSumsText(problem, one, name, copies.get(one.operand, 0)) for one in launch.sums)
