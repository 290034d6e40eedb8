"""What is launched before a kernel: copies of operands into the workspace, laid out as the kernel takes them.

TMA takes lines that begin a multiple of 16 bytes apart, and wgmma tiles of 8-bit and tf32 elements with lines along K.
A copy has such lines, whatever the operand's leading dimension, alignment and order are. Where a product is computed of
pieces of its operands (`gemmgen.problem.types.Pieces`), a copy is a matrix of each piece, one behind the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmgen.kernel.tensor_map import UNIT
from gemmgen.problem.case import Case
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import ORDERS, Matrix, Order
from gemmgen.problem.sizes import MatrixSizes
from gemmgen.support.errors import require

PREPARED = ("prepared_a", "prepared_b")  # parts of the workspace, and parameters, that hold the copies
ENTRY = r"\w+_prepare_[ab]_kernel"  # what the functions of these launches are called
THREADS = 256  # of a block: 8 warps
COPY_LINES, COPY_CHUNKS = 8, 32  # of a block's tile: a line a warp, a chunk of 16 bytes a lane
TRANSPOSE_TILE = 64  # lines, and elements of each, of a block's tile that is transposed through shared memory


@dataclass(frozen=True)
class Prepare:
    """A launch that copies `operand`, A or B, into the workspace, in storage order `order`.

    Lines of the copy begin a multiple of 16 bytes apart, with zeros behind their ends; matrices of a batch follow each
    other. Its grid may have any number of blocks: they stride over the tiles.
    """

    operand: str
    order: Order

    def __post_init__(self) -> None:
        require(self.operand in ("A", "B"), f"no launch prepares {self.operand}: known are A and B")
        require(self.order in ORDERS, f"unknown order {self.order!r} of a copy of {self.operand}")

    @property
    def threads(self) -> int:
        """Of a block."""
        return THREADS

    @property
    def part(self) -> str:
        """The part of the workspace that it writes, and the parameter: "prepared_a"."""
        return f"prepared_{self.operand.lower()}"

    def entry(self, kernel: str) -> str:
        """Its function's name."""
        return f"{kernel}_prepare_{self.operand.lower()}_kernel"

    def of(self, problem: Problem) -> MatrixSizes:
        """Which sizes say how the operand lies."""
        require(not problem.pointers, f"no launch prepares {self.operand}, whose matrices lie where pointers say")
        return next(matrix for matrix in problem.matrices if matrix.name == self.operand)

    def lies(self, problem: Problem) -> MatrixSizes:
        """The same of the copy, or of one of its pieces, its leading dimension apart."""
        pieces = problem.types.compute.pieces
        operand = replace(self.of(problem), order=self.order)
        return operand if pieces is None else replace(operand, dtype=pieces.dtype)

    def pieces(self, problem: Problem) -> int:
        """Matrices that the copy of one is."""
        pieces = problem.types.compute.pieces
        return 1 if pieces is None else pieces.count

    def chunk(self, problem: Problem) -> int:
        """Elements of 16 bytes of the copy, which divide its leading dimension."""
        return UNIT // self.lies(problem).dtype.size

    def transposes(self, problem: Problem) -> bool:
        """Whether lines of the copy run across the operand's."""
        return self.of(problem).order != self.order

    def tile(self, problem: Problem) -> tuple[int, int]:
        """Lines of the copy, and elements of each, that a block writes at a time."""
        if self.transposes(problem):
            return TRANSPOSE_TILE, TRANSPOSE_TILE
        return COPY_LINES, COPY_CHUNKS * self.chunk(problem)

    def grid(self, problem: Problem) -> tuple[tuple[str, int], ...]:
        """As `Launch.grid`: of so many tiles."""
        copy, (lines, length) = self.lies(problem), self.tile(problem)
        return (copy.lines, lines), (copy.line, length), *((("batch", 1),) if problem.batched else ())

    def matrix(self, case: Case) -> Matrix:
        """The copy, or the batch of them: each product has one, though all share the operand; pieces likewise."""
        operand, unit = case.tensors[self.operand], self.chunk(case.problem)
        dense = replace(operand, order=self.order, ld=0, stride=0, dtype=self.lies(case.problem).dtype)
        ld, pieces = -(-max(1, dense.line_length) // unit) * unit, self.pieces(case.problem)
        if operand.batch is None and pieces == 1:
            return replace(dense, ld=ld)
        return replace(dense, ld=ld, batch=(operand.batch or 1) * pieces, stride=dense.lines * ld)

    def bytes(self, case: Case) -> int:
        """Of the copy, with what lies behind its last line."""
        matrix = self.matrix(case)
        return matrix.dtype.bytes((matrix.batch or 1) * matrix.lines * matrix.ld)
