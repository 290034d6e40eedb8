"""Words of the comment at the top of a kernel: what it computes, its matrices and its launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmgen.kernel.launch import Launch
from gemmgen.kernel.notes import images_held, images_text, matrix_texts, walk_text
from gemmgen.problem.gemm import Problem
from gemmgen.problem.operands import Operand


@dataclass(frozen=True)
class HeaderText:
    """Each line begins behind `//` and the template's spaces.

    computes  the types, and what multiplies
    blocks    of the grid, as an expression, and what it counts in
    """

    problem: Problem
    launch: Launch
    computes: str
    blocks: str
    counted: str

    @property
    def formula(self) -> str:
        """What the kernel computes, and which of its operands it reads whatever the scalars are."""
        epilogue = self.problem.epilogue
        if epilogue.is_linear:
            return f"C = alpha * A * B + beta * C      {self.computes}; C is read unless beta = 0, A and B always"
        given = "".join(self._given())
        return f"C = {epilogue}      {epilogue.accumulators_text}{given}; {self.computes}{self._reads()}"

    def _given(self) -> Iterator[str]:
        sums = self.problem.epilogue.sums
        if "row_sum" in sums:
            yield ", row_sum of a row of A"
        if "column_sum" in sums:
            yield ", column_sum of a column of B"

    def _reads(self) -> str:
        epilogue = self.problem.epilogue
        scaled = "alpha" in epilogue.scalars
        if epilogue.reads_c:
            return "; C is read unless beta = 0" + (", A and B always" if scaled else "")
        return "; A and B are read even if alpha = 0" if scaled else ""

    @property
    def products(self) -> Iterator[str]:
        """A line each for a batch, a convolution and groups of rows."""
        images, groups = images_text(self.problem), self.problem.inputs.groups
        if self.problem.inputs.masked:
            rows = "the first group_rows[g] rows of group g"
            yield f"{groups} products, one per group: {rows}; C's other rows stay as they are"
        elif self.problem.inputs.along_k:
            depths = "group g sums k from offs[g - 1], or 0, to offs[g]"
            yield f"{groups} products, one per group: {depths}; an empty one has A * B = 0"
        elif self.problem.batched:
            count = self.problem.sizes["batch"] or "a batch's"
            where = ", whose matrices lie where A_array, B_array and C_array say" if self.problem.pointers else ""
            yield f"for each of {count} products{where}"
        if images is not None:
            yield images
            walk = walk_text(self.problem)
            yield f"{images_held(self.problem)}{f'; {walk}' if walk else ''}"
        if groups and not self.problem.inputs.own_c:
            rows = f"{groups} groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]"
            yield f"{rows}; further rows stay as they are"
        if self.problem.inputs.scattered:
            yield "C may have more rows than M: those that index_c does not name stay as they are"

    @property
    def operands(self) -> Iterator[str]:
        """A line for each matrix, and each vector of the epilogue."""
        for matrix in matrix_texts(self.problem):
            apart = f", {matrix.apart}" if matrix.apart else ""
            yield f"{matrix.name}  {matrix.rows} x {matrix.cols}, {matrix.order}-major, {matrix.stride}{apart}"
        for companion in self.problem.companions:
            yield f"{companion.name}  {companion.lies(self.problem.sizes)}: {companion.meaning}"
        for vector in self.problem.epilogue.operands:
            if not vector.is_matrix:
                yield f"{vector.name}  {self.problem.extent_of(vector)}, {self._note(vector)}{self._shared(vector)}"

    def _note(self, vector: Operand) -> str:
        return vector.note if vector.written else self.problem.whose(vector)

    def _shared(self, vector: Operand) -> str:
        if not self.problem.batched or self.problem.groups_of(vector):
            return ""
        return "; another for each product" if vector.written else "; the same for all products"

    @property
    def grid(self) -> str:
        """The launch."""
        most = "up to " if self.launch.persistent else ""
        shared = f", {self.launch.shared_bytes} bytes of dynamic shared memory" if self.launch.shared_bytes else ""
        return f"{most}{self.blocks} blocks of {self.launch.threads} threads{self.counted}{shared}"
