"""What one launch of a kernel computes: `gemmgen.problem.gemm.Problem.case` makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gemmgen.problem.matrix import Matrix
from gemmgen.problem.operands import OPERANDS, Operand
from gemmgen.problem.sizes import POINTER_BYTES, SIZE_LIMIT, MatrixSizes
from gemmgen.support.errors import require

if TYPE_CHECKING:
    from gemmgen.problem.gemm import Problem


@dataclass(frozen=True)
class Case:
    """One launch: a Problem with a number for every size, and the scalars.

    batch and strides are 1 and 0 where the problem has no batch. In a batch of pointers strides are those of Operands,
    and `different_a` counts the matrices A that its pointers name: 0 is one for each product. Likewise B.
    """

    problem: Problem
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    alpha: float = 1.0
    beta: float = 0.0
    batch: int = 1
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    different_a: int = 0
    different_b: int = 0
    ld_residual: int = 0
    stride_residual: int = 0

    def __post_init__(self) -> None:
        require(self.batch >= 1, f"batch = {self.batch}: a launch needs at least one product")
        for name, different in (("different_a", self.different_a), ("different_b", self.different_b)):
            most = self.batch if self.problem.pointers else 0
            require(0 <= different <= most, f"{name} = {different}: of {self.batch} products at most {most} can differ")
        matrices = [(sizes, self._matrix(sizes)) for sizes in self.problem.matrices]
        for sizes, matrix in matrices:
            if matrix.batch is not None:
                sizes.require_stride(matrix)
        require(self.m >= 1 and self.n >= 1, f"M = {self.m}, N = {self.n}: a launch needs at least one element of C")
        require(self.k >= 0, f"K = {self.k} is negative")
        for name, size in (("M", self.m), ("N", self.n), ("K", self.k)):
            require(size <= SIZE_LIMIT, f"{name} = {size} exceeds {SIZE_LIMIT}")
        for name, scalar in (("alpha", self.alpha), ("beta", self.beta)):
            self.problem.types.require_scalar(name, scalar)
        for sizes, matrix in matrices:
            line = matrix.line_length
            require(matrix.ld >= line, f"{sizes.ld} = {matrix.ld} is shorter than a line of {line} elements")
            require(matrix.cols <= SIZE_LIMIT, f"{sizes.name} has {matrix.cols} columns, which exceeds {SIZE_LIMIT}")
            require(matrix.ld <= SIZE_LIMIT, f"{sizes.ld} = {matrix.ld} exceeds {SIZE_LIMIT}")

    @cached_property
    def a(self) -> Matrix:
        return self._matrix(self.problem.matrices[0])

    @cached_property
    def b(self) -> Matrix:
        return self._matrix(self.problem.matrices[1])

    @cached_property
    def c(self) -> Matrix:
        return self._matrix(self.problem.matrices[2])

    def _matrix(self, sizes: MatrixSizes) -> Matrix:
        count = {"M": self.m, "N": self.n, "K": self.k}
        different = {"A": self.different_a, "B": self.different_b}.get(sizes.name) or None
        ld, stride = getattr(self, sizes.ld), getattr(self, sizes.stride)
        cols = sizes.beside * count[sizes.cols]
        return Matrix(count[sizes.rows], cols, ld, sizes.order, self._batch, stride, different, sizes.dtype)

    @property
    def _batch(self) -> int | None:
        return self.batch if self.problem.batched else None

    @property
    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        return self.a, self.b, self.c

    @cached_property
    def extra(self) -> Mapping[str, Matrix]:
        """The epilogue's operands by name: a vector that is read serves all products."""
        matrices = {sizes.name: self._matrix(sizes) for sizes in self.problem.matrices[3:]}
        operands = self.problem.epilogue.operands
        return {one.name: matrices[one.name] if one.is_matrix else self._vector(one) for one in operands}

    def _vector(self, operand: Operand) -> Matrix:
        rows, cols = self.m if operand.along == "m" else 1, self.n if operand.along == "n" else 1
        apart = rows * cols if operand.is_amax and self.problem.batched else 0
        return Matrix(rows, cols, cols, "r", self._batch, apart, dtype=self.problem.dtype_of(operand.name))

    @property
    def read(self) -> dict[str, Matrix]:
        """Of these what kernels read."""
        return {name: matrix for name, matrix in self.extra.items() if not OPERANDS[name].written}

    @cached_property  # a situation asks dozens of times
    def tensors(self) -> Mapping[str, Matrix]:
        """A, B, C and the epilogue's operands, by name."""
        return {"A": self.a, "B": self.b, "C": self.c, **self.extra}

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * self.batch * self.problem.products

    @cached_property  # a prediction asks
    def bytes_moved(self) -> int:
        """The least traffic with device memory: operands read once, C written once (read with beta), pointers read."""
        c_passes = 2 if self.beta != 0 and self.problem.epilogue.reads_c else 1
        a, b, c = (matrix.stored.least_bytes for matrix in self.matrices)
        pointers = 3 * self.batch * POINTER_BYTES if self.problem.pointers else 0
        return a + b + c_passes * c + sum(one.stored.least_bytes for one in self.extra.values()) + pointers

    @property
    def written(self) -> dict[str, Matrix]:
        """C, and the epilogue's outputs by name."""
        return {"C": self.c, **{operand.name: self.extra[operand.name] for operand in self.problem.epilogue.outputs}}

    @cached_property  # a prediction asks
    def values(self) -> Mapping[str, int | float]:
        """Every number of the launch by name, those among them that a kernel may take as parameters."""
        lines = {name: getattr(self, name) for name in self.problem.line_sizes}
        sizes = {"M": self.m, "N": self.n, "K": self.k, **lines}
        batch = {name: getattr(self, name) for name in self.problem.batch_sizes}
        return {**sizes, **batch, "alpha": self.alpha, "beta": self.beta}

    def __str__(self) -> str:
        sizes = [f"{name}={_exactly(value)}" for name, value in self.values.items() if name not in ("M", "N", "K")]
        return f"{self.m}x{self.n}x{self.k} {self.problem.layout} {' '.join(sizes)}"


def _exactly(value: int | float) -> str:
    """In as few digits as tell it from others; 1, not 1.0."""
    short = f"{value:g}"
    return short if isinstance(value, float) and float(short) == value else str(value)
