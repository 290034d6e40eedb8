"""Launches before a kernel: they copy operands into the workspace in the layout that it reads, or sum their lines.

TMA takes lines that begin a multiple of 16 bytes apart, and wgmma tiles of 8-bit and tf32 elements with lines along K.
A copy has such lines, whatever the operand's leading dimension, alignment and order are. If a product is computed from
pieces of its operands (`gemmgen.problem.pieces`), a copy has one matrix per piece, one behind the other.

Tensor cores that read shared memory leave no element of A and B in a register. So the sums of A's rows and B's columns
that zero points need are computed before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from gemmgen.kernel.tensor_map import UNIT
from gemmgen.problem.device import L2_LINE
from gemmgen.problem.dtype import WORD, DType
from gemmgen.problem.gemm import Case, Problem
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
PACKED_COLUMNS, PACKED_DEPTH = 64, 128  # of B in a chunk of what is packed; k of it, at most
PACKED_LINE = 128  # bytes
ADDED = {DType.BF16: 2**7, DType.F16: 2**10, DType.F32: 2**23}  # to codes, which become the last bits of the sum,
MAGIC = {DType.BF16: 0x4300, DType.F16: 0x6400, DType.F32: 0x4B000000}  # and the bits of these numbers
CODES_STEP = 16  # k of a thread's eight codes of a step, of two columns
CODES_AT_ONCE = 8
TRANSPOSE_TILE = 64  # lines, and elements of each, of a block's tile that is transposed through shared memory


def tiles_of_sizes(grid: Iterable[tuple[str, int]], sizes: Mapping[str, float]) -> int:
    """The number of tiles of a `grid` of (size name, tile) pairs, given the `sizes` of a case."""
    return math.prod([-(-int(sizes[size]) // tile) for size, tile in grid])


@dataclass(frozen=True)
class _Before:
    """A launch before a kernel that reads `operand`, A or B."""

    operand: str

    def __post_init__(self) -> None:
        require(self.operand in ("A", "B"), f"no launch prepares {self.operand}: known are A and B")

    @property
    def document(self) -> dict[str, Any]:
        """The launch as JSON-ready data; the usual `align` is left out."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("align", UNIT)}

    @property
    def threads(self) -> int:
        """Threads per block."""
        return THREADS

    def of(self, problem: Problem) -> MatrixSizes:
        """The operand's layout in terms of the problem's sizes."""
        require(not problem.pointers, f"no launch prepares {self.operand}, whose matrices lie where pointers say")
        return next(matrix for matrix in problem.matrices if matrix.name == self.operand)


@dataclass(frozen=True)
class Prepare(_Before):
    """A launch that copies `operand`, A or B, into the workspace, in storage order `order`.

    Lines of the copy begin a multiple of `align` bytes apart: 16, as TMA requires, or 128, so that each begins with a
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
        """The name of the matrix that it reads: "A"."""
        return self.operand

    @property
    def part(self) -> str:
        """The name of the part of the workspace that it writes, and of the parameter: "prepared_a"."""
        return f"prepared_{self.operand.lower()}"

    def entry(self, kernel: str) -> str:
        """The name of its function."""
        return f"{kernel}_prepare_{self.operand.lower()}_kernel"

    def lies(self, problem: Problem) -> MatrixSizes:
        """The layout of the copy, or of one of its pieces, except for its leading dimension."""
        pieces = problem.types.compute.pieces
        operand = replace(self.of(problem), order=self.order)
        return operand if pieces is None else replace(operand, dtype=pieces.dtype)

    def pieces(self, problem: Problem) -> int:
        """The number of matrices that hold the copy of one matrix: one per piece."""
        pieces = problem.types.compute.pieces
        return 1 if pieces is None else pieces.count

    def chunk(self, problem: Problem) -> int:
        """Elements per 16 bytes of the copy."""
        return UNIT // self.lies(problem).dtype.size

    def unit(self, problem: Problem) -> int:
        """The number of elements that divides the copy's leading dimension."""
        return self.align // self.lies(problem).dtype.size

    def transposes(self, problem: Problem) -> bool:
        """Whether lines of the copy run across those of the operand."""
        return self.of(problem).order != self.order

    def tile(self, problem: Problem) -> tuple[int, int]:
        """Lines of the copy, and elements per line, that a block writes at a time."""
        if self.transposes(problem):
            return TRANSPOSE_TILE, TRANSPOSE_TILE
        return COPY_LINES, COPY_CHUNKS * self.chunk(problem)

    def grid(self, problem: Problem) -> tuple[tuple[str, int], ...]:
        """(size name, tile) pairs that count its tiles, as in `Launch.grid`."""
        copy, (lines, length) = self.lies(problem), self.tile(problem)
        return (copy.lines, lines), (copy.line, length), *((("batch", 1),) if problem.batched else ())

    def blocks_of_end(self, case: Case, far: Case) -> range:
        """The blocks that copy `case`, the end of `far`: the last ones of `far`'s grid, with one block per tile."""
        grid = self.grid(case.problem)
        last = tiles_of_sizes(grid, far.values)
        return range(last - tiles_of_sizes(grid, case.values), last)

    def is_end(self, case: Case, far: Case) -> bool:
        """Whether the copy of `case` is the end of that of `far`. It is not if several matrices get longer."""
        one, longer = self.matrix(case), self.matrix(far)
        return (one.batch or 1) == 1 or one.stride == longer.stride

    def matrix(self, case: Case) -> Matrix:
        """The copy as a matrix, or as a batch: one per product, even if all products share the operand, and one per
        piece."""
        operand, unit = case.tensors[self.operand], self.unit(case.problem)
        dense = replace(operand, order=self.order, ld=0, stride=0, dtype=self.lies(case.problem).dtype)
        ld, pieces = -(-max(1, dense.line_length) // unit) * unit, self.pieces(case.problem)
        if operand.batch is None and pieces == 1:
            return replace(dense, ld=ld)
        return replace(dense, ld=ld, batch=(operand.batch or 1) * pieces, stride=dense.lines * ld)

    def bytes(self, case: Case) -> int:
        """Bytes of the copy, including the padding of its last line."""
        matrix = self.matrix(case)
        return matrix.dtype.bytes((matrix.batch or 1) * matrix.lines * matrix.ld)


@dataclass(frozen=True)
class LineSums(_Before):
    """A launch that sums the rows of A, or the columns of B, into the workspace, the sums of a batch one after another.

    Lines run along K and begin a multiple of 16 bytes apart: those of the operand or, if it is `copied`, of the copy
    that a `Prepare` made before. It works with any number of blocks, as `Prepare` does.
    """

    copied: bool

    def chunk(self, problem: Problem) -> int:
        """Elements per 16 bytes."""
        return UNIT // self.of(problem).dtype.size

    @property
    def part(self) -> str:
        """The name of the part of the workspace that it writes, and of the parameter: "sums_a"."""
        return f"sums_{self.operand.lower()}"

    @property
    def source(self) -> str:
        """The name of the matrix that it reads: "A", or "prepared_a"."""
        return f"prepared_{self.operand.lower()}" if self.copied else self.operand

    def entry(self, kernel: str) -> str:
        """The name of its function."""
        return f"{kernel}_sum_{self.operand.lower()}_kernel"

    @property
    def lines(self) -> str:
        """The size that counts the lines: "M" or "N"."""
        return "M" if self.operand == "A" else "N"

    def grid(self, problem: Problem) -> tuple[tuple[str, int], ...]:
        """(size name, tile) pairs that count its tiles, as in `Launch.grid`."""
        return (self.lines, SUM_LINES), *((("batch", 1),) if problem.batched else ())

    def blocks_of_end(self, case: Case, far: Case) -> range:
        """The blocks that sum `case`, the end of `far`; the lines before `case` must be a multiple of SUM_LINES."""
        blocks = -(-self.elements(far) // SUM_LINES)
        return range((self.elements(far) - self.elements(case)) // SUM_LINES, blocks)

    def is_end(self, case: Case, far: Case) -> bool:
        """Whether the sums of `case` are the end of those of `far`."""
        return case.batch == 1 or case.values[self.lines] == far.values[self.lines]

    def elements(self, case: Case) -> int:
        """The number of sums: one per line."""
        return int(case.values[self.lines]) * (case.batch if case.problem.batched else 1)

    def bytes(self, case: Case) -> int:
        """Bytes of all sums."""
        return case.problem.types.accumulator.bytes(self.elements(case))


@dataclass(frozen=True)
class Pack(Prepare):
    """A launch that packs B's codes, their scales and zero points, as wgmma takes fragments of B's columns.

    Chunks of PACKED_COLUMNS columns by `depth` of K follow each other, along N first. A chunk has lines of 128 bytes:
    first its codes, 16 bytes or less for each thread of a warpgroup, then a line of scales, then, if there are any, a
    line of zero points, to whose bits those of `Codes.beside_zero` are added. What lies beyond N has codes, scales and
    zero points of 0. The chunks of groups of rows, each with a B of its own, follow each other.
    """

    order: Order = "r"
    packed: bool = True  # in records

    def depth(self, problem: Problem) -> int:
        """k of a chunk: those that share a scale, at most PACKED_DEPTH."""
        return min(PACKED_DEPTH, problem.inputs.group or PACKED_DEPTH)

    def chunk_lines(self, problem: Problem) -> int:
        """Lines of 128 bytes of a chunk."""
        return self.code_words(problem) * WORD // PACKED_LINE + 1 + problem.inputs.zeros

    def code_words(self, problem: Problem) -> int:
        """Words of a chunk's codes, behind which its scales lie."""
        return PACKED_COLUMNS * self.depth(problem) * problem.code_bits // (8 * WORD)

    def pieces(self, problem: Problem) -> int:
        return 1

    def chunk(self, problem: Problem) -> int:
        return UNIT // DType.S32.size

    def transposes(self, problem: Problem) -> bool:
        return False

    def tile(self, problem: Problem) -> tuple[int, int]:
        return PACKED_COLUMNS, self.depth(problem)

    def grid(self, problem: Problem) -> tuple[tuple[str, int], ...]:
        columns, depth = self.tile(problem)
        return ("N", columns), ("K", depth), *((("batch", 1),) if problem.batched else ())

    def is_end(self, case: Case, far: Case) -> bool:
        return False

    def matrix(self, case: Case) -> Matrix:
        columns, depth = self.tile(case.problem)
        chunks = -(-case.n // columns) * -(-case.k // depth) * (case.problem.inputs.row_groups or 1)
        lines, words = chunks * self.chunk_lines(case.problem), PACKED_LINE // DType.S32.size
        operand = case.tensors[self.operand]
        batch = None if case.problem.inputs.row_groups else operand.batch
        chunked = replace(operand, dtype=DType.S32, order="r", rows=lines, cols=words, ld=words, batch=batch)
        return replace(chunked, stride=lines * words)


@dataclass(frozen=True)
class Codes:
    """Packed codes as threads read them, to make the numbers that tensor cores multiply: see templates/device/codes.cu.

    number  the type of the numbers that they stand for
    bits    of a code: 4 or 8
    zeros   whether each group has a zero point
    middle  the code that stands for 0 where it has none
    depth   k of a chunk
    fused   whether pairs of numbers are made by fma alone: before sm_90 there is nothing else for bf16
    sums    whether scales multiply sums of a chunk's k, not its numbers
    """

    number: DType
    bits: int
    zeros: bool
    middle: int
    depth: int
    fused: bool = False
    sums: bool = False

    @classmethod
    def of(cls, problem: Problem, *, fused: bool = False) -> Codes | None:
        """Return the packed codes of `problem`, or None if its B has none."""
        types, inputs = problem.types, problem.inputs
        if not problem.coded:
            return None
        bits = problem.code_bits
        middle = 2 ** (bits - 1) if types.b.is_signed else 0
        fused = fused and types.a is DType.BF16
        return cls(types.a, bits, inputs.zeros, middle, Pack("B").depth(problem), fused, problem.scaled_depth > 0)

    @property
    def wide(self) -> bool:
        """Whether numbers of A's type have too few bits for a code beside an exponent: those of f32 take it then."""
        return self.bits >= self.number.precision

    @property
    def holder(self) -> DType:
        """The type of the number whose last bits a code becomes."""
        return DType.F32 if self.wide else self.number

    @property
    def magic(self) -> str:
        """The bits of that number for code 0, in hexadecimal digits."""
        return f"{MAGIC[self.holder]:04x}"

    @property
    def added(self) -> int:
        """The number that is added to a code: the one whose bits `magic` has."""
        return ADDED[self.holder]

    @property
    def zero(self) -> str:
        """The same digits of the zero point where no group has one; negated where fma subtracts it."""
        return f"{(MAGIC[self.holder] | (self.negated << 15)) + self.middle:04x}"

    @property
    def negated(self) -> bool:
        """Whether zero points are negated, for fma to subtract them from pairs of codes."""
        return self.fused and not self.wide

    @property
    def beside_zero(self) -> int:
        """Bits that a packed zero point has beside its own: those of `magic`, if they fit 16 bits."""
        return 0 if self.wide else MAGIC[self.holder]

    @property
    def step_words(self) -> int:
        """Words that hold a thread's eight codes of a step."""
        return CODES_AT_ONCE * self.bits // (8 * WORD)

    @property
    def words(self) -> int:
        """Words that a thread loads at once."""
        return self.steps * self.step_words

    @property
    def steps(self) -> int:
        """Steps of K whose codes a thread loads at once, in 16 bytes or less."""
        return min(UNIT // WORD // self.step_words, self.depth // CODES_STEP)

    @property
    def span(self) -> int:
        """k of the words that a thread loads at once."""
        return CODES_STEP * self.steps


Step = Prepare | LineSums  # a launch before a kernel


def step_of_record(record: dict[str, Any]) -> Step:
    """The launch that a JSON record describes."""
    if "packed" in record:
        return Pack(**record)
    return LineSums(**record) if "copied" in record else Prepare(**record)


def dtype_of_part(problem: Problem, part: str) -> DType:
    """The element type of `part`, one of PREPARED."""
    if part in SUMMED:
        return problem.types.accumulator
    if part == "prepared_b" and problem.coded:
        return DType.S32
    return dict(zip(PREPARED, problem.types.factors, strict=False))[part]
