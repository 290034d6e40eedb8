"""The tensor maps of a kernel, as an exported launcher encodes them. Values only, no code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from gemmgen.exports.copies import Copy
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.tensor_map import FAR, NEAR, UNIT, TensorMap
from gemmgen.problem.sizes import MatrixSizes


@dataclass(frozen=True)
class EncodedMap:
    """A tensor map and its matrix, or the `copy` of that.

    Sizes are names or numbers, as in `Interface.sizes`.
    """

    map: TensorMap
    matrix: MatrixSizes
    sizes: dict[str, str]
    copy: Copy | None

    @property
    def parameter(self) -> str:
        return self.map.parameter

    @property
    def address(self) -> str:
        """The argument to whose matrix the map belongs."""
        return self.map.operand if self.copy is None else self.copy.part

    @property
    def located(self) -> str:
        """The address at which the map begins."""
        return "nullptr" if self.map.anywhere else self.address

    @property
    def _batched(self) -> bool:
        return len(self.map.box) == 3

    @property
    def type(self) -> str:
        """CUDA's word for elements of this width, which no conversion touches, or for those that become tf32."""
        if self.map.tf32:
            return "TFLOAT32"
        return f"UINT{self._lies.dtype.storage_bits}"

    @property
    def element_bytes(self) -> int:
        return self._lies.dtype.size

    @property
    def tensor(self) -> tuple[str, ...]:
        """Elements along each dimension, the contiguous one first. There may be none along K."""
        lies = self._lies
        extents = (lies.extent_text(name, self.sizes) for name in (lies.line, lies.lines))
        if self.map.anywhere:
            return (*extents, str(NEAR), str(FAR))
        matrices = self.sizes.get("batch", "") if self.copy is None else self.copy.matrices
        return (*extents, *((matrices,) if self._batched else ()))

    @property
    def _lies(self) -> MatrixSizes:
        return self.matrix if self.copy is None else self.copy.prepare.lies(self.copy.problem)

    @property
    def distances(self) -> tuple[str, ...]:
        """Elements from one line, and from one matrix, to the next; for a map of all memory, the steps of its
        coordinates."""
        if self.map.anywhere:
            return (self.sizes[self.matrix.ld], *(str(step // self.element_bytes) for step in (UNIT, UNIT * NEAR)))
        if self.copy is not None:
            return (self.copy.ld, *((self.copy.stride,) if self._batched else ()))
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
            EncodedMap(one, matrices[one.operand], self.sizes, copies.get(one.operand))
            for one in self.contract.launch.maps
        )

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
