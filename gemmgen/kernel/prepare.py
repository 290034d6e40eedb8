"""What is launched before a kernel: copies of operands into the workspace, laid out as the kernel takes them, and sums.

TMA takes lines that begin a multiple of 16 bytes apart, and wgmma tiles of 8-bit and tf32 elements with lines along K.
A copy has such lines, whatever the operand's leading dimension, alignment and order are. Where a product is computed of
pieces of its operands (`gemmgen.problem.pieces`), a copy is a matrix of each piece, one behind the other.

Tensor cores that read shared memory themselves leave no element of A and B in a register: the sums of A's rows and B's
columns, which zero points take, are made before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from gemmgen.kernel.tensor_map import UNIT
from gemmgen.problem.case import Case
from gemmgen.problem.device import L2_LINE
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import ORDERS, Matrix, Order
from gemmgen.problem.sizes import MatrixSizes
from gemmgen.support.errors import require

SUMMED = {"sums_a": "row_sum", "sums_b": "column_sum"}  # likewise of sums, and what an epilogue calls them
PREPARED = ("prepared_a", "prepared_b", *SUMMED)  # parts of the workspace, and parameters
SUFFIX = "_(?:prepare|sum)_[ab]_kernel"  # of the functions of these launches, behind the kernel's name
ENTRY = rf"\w+{SUFFIX}"
THREADS = 256  # of a block: 8 warps
SUM_LANES = 8  # threads that sum a line: chunks of 128 bytes
SUM_LINES = THREADS // SUM_LANES  # of a block's tile
COPY_LINES, COPY_CHUNKS = 8, 32  # of a block's tile: a line a warp, a chunk of 16 bytes a lane
COPY_ALIGNS = UNIT, L2_LINE  # bytes of which a copy's lines may begin at multiples
TRANSPOSE_TILE = 64  # lines, and elements of each, of a block's tile that is transposed through shared memory


def tiles_of_sizes(grid: Iterable[tuple[str, int]], sizes: Mapping[str, float]) -> int:
    """The number of tiles of a `grid` of (size, tile) pairs, by the `sizes` of a case."""
    return math.prod([-(-int(sizes[size]) // tile) for size, tile in grid])


@dataclass(frozen=True)
class _Before:
    """A launch before a kernel, for `operand`: A or B."""

    operand: str

    def __post_init__(self) -> None:
        require(self.operand in ("A", "B"), f"no launch prepares {self.operand}: known are A and B")

    @property
    def document(self) -> dict[str, Any]:
        """As JSON-ready data; without an `align` as most copies have it."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("align", UNIT)}

    @property
    def threads(self) -> int:
        """Of a block."""
        return THREADS

    def of(self, problem: Problem) -> MatrixSizes:
        """Which sizes say how the operand lies."""
        require(not problem.pointers, f"no launch prepares {self.operand}, whose matrices lie where pointers say")
        return next(matrix for matrix in problem.matrices if matrix.name == self.operand)


@dataclass(frozen=True)
class Prepare(_Before):
    """A launch that copies `operand`, A or B, into the workspace, in storage order `order`.

    Lines of the copy begin a multiple of `align` bytes apart: of 16, as TMA asks, or of 128, so that each begins with a
    line of L2. They end in whole chunks of 16 bytes, with zeros behind the operand's elements; matrices of a batch
    follow each other. Its grid may have any number of blocks: they stride over the tiles.
    """

    order: Order
    align: int = UNIT

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.order in ORDERS, f"unknown order {self.order!r} of a copy of {self.operand}")
        known = ", ".join(map(str, COPY_ALIGNS))
        require(self.align in COPY_ALIGNS, f"lines of a copy {self.align} bytes apart: known are {known}")

    @property
    def source(self) -> str:
        """What it reads: "A"."""
        return self.operand

    @property
    def part(self) -> str:
        """The part of the workspace that it writes, and the parameter: "prepared_a"."""
        return f"prepared_{self.operand.lower()}"

    def entry(self, kernel: str) -> str:
        """Its function's name."""
        return f"{kernel}_prepare_{self.operand.lower()}_kernel"

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
        """Elements of 16 bytes of the copy."""
        return UNIT // self.lies(problem).dtype.size

    def unit(self, problem: Problem) -> int:
        """Elements that divide its leading dimension."""
        return self.align // self.lies(problem).dtype.size

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

    def blocks_of_end(self, case: Case, far: Case) -> range:
        """The blocks that copy `case`, the end of `far`: the last ones of `far`'s grid with one block per tile."""
        grid = self.grid(case.problem)
        last = tiles_of_sizes(grid, far.values)
        return range(last - tiles_of_sizes(grid, case.values), last)

    def is_end(self, case: Case, far: Case) -> bool:
        """Whether the copy of `case` is the end of that of `far`: not if there are several matrices that get longer."""
        one, longer = self.matrix(case), self.matrix(far)
        return (one.batch or 1) == 1 or one.stride == longer.stride

    def matrix(self, case: Case) -> Matrix:
        """The copy, or the batch of them: each product has one, though all share the operand; pieces likewise."""
        operand, unit = case.tensors[self.operand], self.unit(case.problem)
        dense = replace(operand, order=self.order, ld=0, stride=0, dtype=self.lies(case.problem).dtype)
        ld, pieces = -(-max(1, dense.line_length) // unit) * unit, self.pieces(case.problem)
        if operand.batch is None and pieces == 1:
            return replace(dense, ld=ld)
        return replace(dense, ld=ld, batch=(operand.batch or 1) * pieces, stride=dense.lines * ld)

    def bytes(self, case: Case) -> int:
        """Of the copy, with what lies behind its last line."""
        matrix = self.matrix(case)
        return matrix.dtype.bytes((matrix.batch or 1) * matrix.lines * matrix.ld)


@dataclass(frozen=True)
class LineSums(_Before):
    """A launch that sums the rows of A, or the columns of B, into the workspace: those of a batch follow each other.

    Lines run along K and begin a multiple of 16 bytes apart: those of the operand or, where it is `copied`, of what the
    `Prepare` before made of it. Any grid will do, as there.
    """

    copied: bool

    def chunk(self, problem: Problem) -> int:
        """Elements of 16 bytes."""
        return UNIT // self.of(problem).dtype.size

    @property
    def part(self) -> str:
        """The part of the workspace that it writes, and the parameter: "sums_a"."""
        return f"sums_{self.operand.lower()}"

    @property
    def source(self) -> str:
        """What it reads: "A", or "prepared_a"."""
        return f"prepared_{self.operand.lower()}" if self.copied else self.operand

    def entry(self, kernel: str) -> str:
        """Its function's name."""
        return f"{kernel}_sum_{self.operand.lower()}_kernel"

    @property
    def lines(self) -> str:
        """The size that counts them."""
        return "M" if self.operand == "A" else "N"

    def grid(self, problem: Problem) -> tuple[tuple[str, int], ...]:
        """As `Launch.grid`: of so many tiles."""
        return (self.lines, SUM_LINES), *((("batch", 1),) if problem.batched else ())

    def blocks_of_end(self, case: Case, far: Case) -> range:
        """As `Prepare.blocks_of_end`; the lines before `case` must be a multiple of SUM_LINES."""
        blocks = -(-self.elements(far) // SUM_LINES)
        return range((self.elements(far) - self.elements(case)) // SUM_LINES, blocks)

    def is_end(self, case: Case, far: Case) -> bool:
        """As `Prepare.is_end`."""
        return case.batch == 1 or case.values[self.lines] == far.values[self.lines]

    def elements(self, case: Case) -> int:
        """Sums: one a line."""
        return int(case.values[self.lines]) * (case.batch if case.problem.batched else 1)

    def bytes(self, case: Case) -> int:
        """Of these."""
        return case.problem.types.accumulator.bytes(self.elements(case))


Step = Prepare | LineSums  # a launch before a kernel


def step_of_record(record: dict[str, Any]) -> Step:
    """The launch that JSON tells of."""
    return LineSums(**record) if "copied" in record else Prepare(**record)


def dtype_of_part(problem: Problem, part: str) -> DType:
    """The element type of one of PREPARED."""
    if part in SUMMED:
        return problem.types.accumulator
    return dict(zip(PREPARED, problem.types.factors, strict=False))[part]
