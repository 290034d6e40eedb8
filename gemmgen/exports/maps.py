"""What an exported launcher encodes of the tensor maps that its kernel takes. Values only, no code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from gemmgen.exports.copies import Copy
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import FAR, NEAR, UNIT, TensorMap
from gemmgen.problem.sizes import MatrixSizes


@dataclass(frozen=True)
class EncodedMap:
    """A tensor map and the matrix that it is of, or the `copy` of it.

    Sizes are as `Interface.sizes` has them, names or numbers.
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
        """The argument that it is the map of."""
        return self.map.operand if self.copy is None else self.copy.part

    @property
    def located(self) -> str:
        """Where the map begins."""
        return "nullptr" if self.map.anywhere else self.address

    @property
    def _batched(self) -> bool:
        return len(self.map.box) == 3

    @property
    def type(self) -> str:
        """CUDA's word for elements as wide as these, which no conversion touches, or for those that become tf32."""
        if self.map.tf32:
            return "TFLOAT32"
        return f"UINT{self._lies.dtype.storage_bits}"

    @property
    def element_bytes(self) -> int:
        return self._lies.dtype.size

    @property
    def tensor(self) -> tuple[str, ...]:
        """Elements along each dimension, the contiguous one first. Those of K may be none."""
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
        """Elements from one line, and from one matrix, to the next; of a map of all memory what a coordinate is."""
        if self.map.anywhere:
            return (self.sizes[self.matrix.ld], *(str(step // self.element_bytes) for step in (UNIT, UNIT * NEAR)))
        if self.copy is not None:
            return (self.copy.ld, *((self.copy.stride,) if self._batched else ()))
        names = (self.matrix.ld, *((self.matrix.stride,) if self._batched else ()))
        return tuple(self.sizes[name] for name in names)

    @property
    def box(self) -> tuple[str, ...]:
        """Elements of a box along each dimension, as the launcher has them."""
        length, lines, *matrices = map(str, self.map.box)
        return length, f"tail_lines({self.tensor[1]}, {lines})" if self.map.tail else lines, *matrices

    @property
    def swizzle(self) -> str:
        """CUDA's word."""
        return f"{self.map.swizzle}B" if self.map.swizzle else "NONE"

    @property
    def promotion(self) -> str:
        """CUDA's word."""
        return f"L2_{self.map.promotion}B" if self.map.promotion else "NONE"


@dataclass(frozen=True)
class Maps:
    """Those of `source`, and what TMA asks of its operands beyond what the problem promises: of copies nothing."""

    source: KernelSource
    sizes: dict[str, str]
    copies: tuple[Copy, ...]

    @cached_property
    def encoded(self) -> tuple[EncodedMap, ...]:
        matrices = {matrix.name: matrix for matrix in self.source.problem.matrices}
        copies = {copy.operand: copy for copy in self.copies}
        return tuple(
            EncodedMap(one, matrices[one.operand], self.sizes, copies.get(one.operand))
            for one in self.source.launch.maps
        )

    @cached_property
    def _of_operands(self) -> tuple[EncodedMap, ...]:
        return tuple(one for one in self.encoded if one.copy is None)

    def align(self, operand: str) -> int:
        """Bytes that divide its address; 1 for one that TMA does not move."""
        return UNIT if any(one.located == operand for one in self._of_operands) else 1

    def unit(self, distance: str) -> int:
        """Elements that divide this leading dimension, or stride."""
        units = (
            UNIT // math.gcd(UNIT, one.element_bytes)
            for one in self._of_operands
            if distance in (one.matrix.ld, one.matrix.stride)
        )
        return max(units, default=1)
