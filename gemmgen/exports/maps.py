"""The tensor maps of a kernel, and the launches that prepare its operands, as an exported launcher needs them. Values
only, no code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from gemmgen.exports.arguments import ELEMENTS
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.prepare import PACKED_LINE, LineSums, Pack, Prepare, Step
from gemmgen.kernel.tensor_map import BOUND, FAR, NEAR, UNIT, WRAP, TensorMap
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import MatrixSizes
from gemmgen.support.words import listed


@dataclass(frozen=True)
class Prepared:
    """A part of the workspace that an earlier launch writes; sizes are as in `Interface.sizes`.

    entry    the launch's function
    passed   its arguments, in order
    """

    prepare: Step
    problem: Problem
    sizes: dict[str, str]
    entry: str
    passed: tuple[str, ...]

    @property
    def part(self) -> str:
        return self.prepare.part

    @property
    def operand(self) -> str:
        return self.prepare.operand

    @property
    def grid(self) -> tuple[tuple[str, int], ...]:
        """(size, tile) pairs of its grid, as in `Interface.grid`."""
        return tuple((self.sizes[size], tile) for size, tile in self.prepare.grid(self.problem))


@dataclass(frozen=True)
class Sums(Prepared):
    """The sums of an operand's lines."""

    prepare: LineSums

    @property
    def does(self) -> str:
        """What its launch does, for the header."""
        return f"sums {self.operand}'s {'rows' if self.operand == 'A' else 'columns'}"

    @property
    def element(self) -> str:
        """The C++ element type."""
        return ELEMENTS[self.problem.types.accumulator].name

    @property
    def bytes(self) -> str:
        """The bytes of all products' sums, as an expression."""
        batch = f"{self.sizes['batch']} * " if self.problem.batched else ""
        return f"sizeof({self.element}) * {batch}{self.sizes[self.prepare.lines]}"

    @property
    def sized_by(self) -> tuple[str, ...]:
        """The arguments that its size depends on."""
        return tuple(name for name in (self.prepare.lines, "batch") if name in self.problem.runtime_names)


@dataclass(frozen=True)
class Copy(Prepared):
    """The copy of an operand."""

    prepare: Prepare

    @property
    def does(self) -> str:
        """What its launch does, for the header."""
        return f"copies {self.operand}"

    @property
    def dtype(self) -> DType:
        """The element type of the copy, or of its pieces."""
        return self.prepare.lies(self.problem).dtype

    @property
    def element(self) -> str:
        """The C++ element type. Pieces have the kernels' own types: their bits need no CUDA header."""
        if self.prepare.pieces(self.problem) > 1:
            return "unsigned short"
        return ELEMENTS[self.dtype].name

    @property
    def unit(self) -> int:
        """The number of elements that divides the copy's leading dimension."""
        return self.prepare.unit(self.problem)

    @property
    def lines(self) -> str:
        copy = self.prepare.lies(self.problem)
        return copy.extent_text(copy.lines, self.sizes)

    @property
    def length(self) -> str:
        """The length of its lines."""
        copy = self.prepare.lies(self.problem)
        return copy.extent_text(copy.line, self.sizes)

    @property
    def ld(self) -> str:
        """Elements from one line to the next, in terms of a function copy_ld(length, unit)."""
        return f"copy_ld({self.length}, {self.unit})"

    @property
    def stride(self) -> str:
        """Elements from the copy for one product to the next."""
        return f"{self.lines} * {self.ld}"

    @property
    def elements(self) -> str:
        """Elements of all copies, including the padding of lines."""
        return f"{self.matrices} * {self.stride}" if self.matrices else self.stride

    @property
    def matrices(self) -> str:
        """The number of matrices, over all products and pieces; empty if it is one."""
        pieces = self.prepare.pieces(self.problem)
        batch = [self.sizes["batch"]] if self.problem.batched else []
        return " * ".join([*([str(pieces)] if pieces > 1 else []), *batch])

    @property
    def bytes(self) -> str:
        """The bytes of all copies, as an expression."""
        return f"sizeof({self.element}) * {self.elements}"

    @property
    def sized_by(self) -> tuple[str, ...]:
        """The arguments that its size depends on."""
        operand = self.prepare.of(self.problem)
        names = (operand.rows, operand.cols, "batch")
        return tuple(name for name in names if name in self.problem.runtime_names)


@dataclass(frozen=True)
class PackedCodes(Copy):
    """B's codes with their scales and zero points: a matrix of words, whose lines are those of all chunks."""

    prepare: Pack
    words = PACKED_LINE // DType.S32.size  # of a line

    @property
    def does(self) -> str:
        return f"packs {listed((self.operand, *(one.name for one in self.problem.packed_with_b)))}"

    @property
    def dtype(self) -> DType:
        return DType.S32

    @property
    def lines(self) -> str:
        """In terms of a function tiles_of(size, tile)."""
        chunks = (f"tiles_of({size}, {tile})" for size, tile in self.grid)
        groups = self.problem.inputs.row_groups
        return " * ".join([*([str(groups)] if groups else []), *chunks, str(self.prepare.chunk_lines(self.problem))])

    @property
    def length(self) -> str:
        return str(self.words)

    @property
    def ld(self) -> str:
        return str(self.words)


@dataclass(frozen=True)
class EncodedMap:
    """A tensor map and its matrix, or the `copy` of that.

    Sizes are names or numbers, as in `Interface.sizes`.
    """

    map: TensorMap
    problem: Problem
    matrix: MatrixSizes
    sizes: dict[str, str]
    copy: Copy | None

    @property
    def address(self) -> str:
        """The argument to whose matrix the map belongs."""
        return self.map.operand if self.copy is None else self.copy.part

    @property
    def located(self) -> str:
        """The address at which the map begins."""
        return "nullptr" if self.map.anywhere else self.address

    @property
    def conv(self) -> Convolution | None:
        """The convolution whose images it gathers; None in tile mode."""
        return self.problem.inputs.conv if self.map.steps else None

    @property
    def _batched(self) -> bool:
        return len(self.map.box) == 3

    @property
    def type(self) -> str:
        """CUDA's word for elements of this width, which no conversion touches, or for those that become tf32."""
        if self.map.tf32:
            return "TFLOAT32"
        return f"UINT{self._dtype.storage_bits}"

    @property
    def element_bytes(self) -> int:
        return self._dtype.size

    @property
    def tensor(self) -> tuple[str, ...]:
        """Elements along each dimension, the contiguous one first. There may be none along K.

        The number of images is in terms of a function tiles_of(size, tile).
        """
        if self.copy is not None:
            return (self.copy.length, self.copy.lines, *((self.copy.matrices,) if self._batched else ()))
        if self.conv is not None:
            places = self.sizes[self.problem.inputs.places]
            some = "std::max(1, K)" if places == "K" else places
            known = places.isdigit()
            images = str(self.conv.images(int(places))) if known else f"tiles_of({some}, {self.conv.per_image})"
            return (*map(str, self.conv.size[::-1]), images)
        extents = (self.matrix.extent_text(name, self.sizes) for name in (self.matrix.line, self.matrix.lines))
        if self.map.anywhere:
            return (*extents, str(NEAR), str(FAR))
        if self.map.bounded:
            return (next(extents), str(BOUND), str(NEAR), str(NEAR))
        return (*extents, *((self.sizes["batch"],) if self._batched else ()))

    @property
    def _dtype(self) -> DType:
        return self.matrix.dtype if self.copy is None else self.copy.dtype

    @property
    def distances(self) -> tuple[str, ...]:
        """Elements from one line, and from one matrix, to the next; for a map of all memory, the steps of its
        coordinates."""
        if self.map.anywhere:
            return (self.sizes[self.matrix.ld], *(str(step // self.element_bytes) for step in (UNIT, UNIT * NEAR)))
        if self.copy is not None:
            return (self.copy.ld, *((self.copy.stride,) if self._batched else ()))
        if self.conv is not None:
            pixel = self.sizes[self.matrix.ld]
            return (pixel, *(f"{pixels}ULL * {pixel}" for pixels in (self.conv.size[1], self.conv.pixels)))
        if self.map.bounded:
            ld = self.sizes[self.matrix.ld]
            return (ld, f"{WRAP // BOUND // self.element_bytes} - {ld}", ld)
        names = (self.matrix.ld, *((self.matrix.stride,) if self._batched else ()))
        return tuple(self.sizes[name] for name in names)

    @property
    def box(self) -> tuple[str, ...]:
        """Elements of a box along each dimension, as the launcher writes them."""
        length, lines, *matrices = map(str, self.map.box)
        return length, f"tail_lines({self.tensor[1]}, {lines})" if self.map.tail else lines, *matrices

    @property
    def swizzle(self) -> str:
        """CUDA's word for the swizzle."""
        return f"{self.map.swizzle}B" if self.map.swizzle else "NONE"

    @property
    def promotion(self) -> str:
        """CUDA's word for the L2 promotion."""
        return f"L2_{self.map.promotion}B" if self.map.promotion else "NONE"


@dataclass(frozen=True)
class Maps:
    """The tensor maps of a kernel, and TMA's conditions on operands beyond the problem's promises; copies need none."""

    contract: Contract
    sizes: dict[str, str]
    copies: tuple[Copy, ...]

    @cached_property
    def encoded(self) -> tuple[EncodedMap, ...]:
        matrices = {matrix.name: matrix for matrix in self.contract.problem.matrices}
        copies = {copy.operand: copy for copy in self.copies}
        return tuple(
            EncodedMap(one, self.contract.problem, matrices[one.operand], self.sizes, copies.get(one.operand))
            for one in self.contract.launch.maps
        )

    @property
    def bound(self) -> int:
        """The most lines of an operand whose map is bounded; 0 if none is."""
        return BOUND if any(one.map.bounded for one in self.encoded) else 0

    @cached_property
    def _of_operands(self) -> tuple[EncodedMap, ...]:
        return tuple(one for one in self.encoded if one.copy is None)

    def align(self, operand: str) -> int:
        """The alignment of an operand's address in bytes; 1 if TMA does not move it."""
        return UNIT if any(one.located == operand for one in self._of_operands) else 1

    def unit(self, distance: str) -> int:
        """The number of elements that divides this leading dimension, or stride."""
        units = (
            UNIT // math.gcd(UNIT, one.element_bytes)
            for one in self._of_operands
            if distance in (one.matrix.ld, one.matrix.stride)
        )
        return max(units, default=1)
