"""The fields of a problem, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import Epilogue
from gemmgen.problem.functions import function_named
from gemmgen.problem.inputs import BLOCK, OF_CODES, Companion, Inputs
from gemmgen.problem.matrix import Layout
from gemmgen.problem.operands import OPERANDS, Operand
from gemmgen.problem.sizes import (
    BATCH_SIZES,
    POINTER_SIZES,
    RUNTIME,
    TILE_REACH,
    TYPICAL,
    Distance,
    MatrixSizes,
    Size,
    Sizes,
)
from gemmgen.problem.types import PROMOTION, Compute, Types
from gemmgen.support.errors import require
from gemmgen.support.words import listed


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Fields:
    """The base of `Problem`, which says what each field means, and checks them."""

    m: Size
    n: Size
    k: Size
    layout: Layout
    lda: Distance
    ldb: Distance
    ldc: Distance
    pointer_align: int
    ld_align: int
    batch: Size
    stride_a: Distance
    stride_b: Distance
    stride_c: Distance
    pointers: bool
    types: Types
    epilogue: Epilogue
    ld_residual: Distance
    stride_residual: Distance
    typical: tuple[tuple[str, int], ...]
    inputs: Inputs

    @property
    def dtype(self) -> DType:
        """The element type of A, B and C. Raises InvalidInput where it is not one: `types` has each."""
        a, b, c = self.types.operands
        one = a == b == c
        require(one, f"no one dtype: A is of {a.label}, B of {b.label} and C of {c.label}, as `types` says")
        return c

    @cached_property  # a search asks for each of its configs
    def matrices(self) -> tuple[MatrixSizes, ...]:
        """A, B, C and the epilogue's matrices."""
        types, layout, conv = self.types, self.layout, self.inputs.conv
        channels = {self.inputs.images: conv.size[2]} if conv else {}
        return (
            MatrixSizes("A", "M", "K", layout.a, types.a, "lda", channels=channels.get("A", 0)),
            MatrixSizes("B", "K", "N", layout.b, types.b, "ldb", self.products, channels.get("B", 0)),
            MatrixSizes("C", "M", "N", "r", types.c, "ldc"),
            *(
                MatrixSizes(one.name, "M", "N", "r", self.dtype_of(one.name), one.ld)
                for one in self.epilogue.operands
                if one.is_matrix
            ),
        )

    @property
    def products(self) -> int:
        """The number of matrices that lie side by side in B, whose products with A make one C."""
        return self.epilogue.products

    @cached_property  # a search asks for each of its configs
    def function_instructions(self) -> float:
        """Instructions of the epilogue's functions for each element, which one thread computes."""
        return sum(function_named(name, self.short_results).instructions for name in self.epilogue.functions)

    @property
    def short_results(self) -> bool:
        """Whether all that the epilogue computes is rounded to 16 bits or fewer, so that shorter functions serve."""
        return self.types.c.storage_bits <= 16 and not self.epilogue.written_matrices

    @property
    def line_sizes(self) -> dict[str, str]:
        """The size (M, N or K) along which lines run, by the name of the leading dimension: of A, B, C and others."""
        return {matrix.ld: matrix.line for matrix in self.matrices}

    @property
    def stride_sizes(self) -> dict[str, tuple[str, str, str]]:
        """(size that counts the lines, leading dimension, size along a line) of each matrix by the stride's name."""
        return {matrix.stride: (matrix.lines, matrix.ld, matrix.line) for matrix in self.matrices}

    @property
    def operand_words(self) -> str:
        """ "A, B and C", and the epilogue's operands among them."""
        beside = (one.name for one in self.companions)
        return listed(("A", "B", "C", *beside, *(operand.name for operand in self.epilogue.operands)))

    @cached_property
    def companions(self) -> tuple[Companion, ...]:
        """The tensors that the product takes beside A and B, such as scales."""
        return tuple(self.inputs.companions(self.types))

    @property
    def packed_with_b(self) -> tuple[Companion, ...]:
        """The companions that are packed with B's codes: their scales and zero points."""
        return tuple(one for one in self.companions if self.coded and one.name in OF_CODES)

    @property
    def apart_from_b(self) -> tuple[Companion, ...]:
        """The other companions, which calls take beside packed codes."""
        return tuple(one for one in self.companions if one not in self.packed_with_b)

    @property
    def batched(self) -> bool:
        return self.batch != 1 or self.inputs.own_c

    @property
    def strided(self) -> bool:
        """Whether strides say where the matrices of a batch lie."""
        return self.batched and not self.pointers

    @cached_property  # a search asks for each of its configs
    def strides(self) -> tuple[MatrixSizes, ...]:
        """The matrices of which there are several, a stride apart: those of a batch, and each group's B, or C."""
        if self.inputs.along_k:
            return self.matrices[2:]
        return self.matrices if self.strided else self.matrices[1:2] if self.inputs.groups else ()

    @property
    def batch_sizes(self) -> tuple[str, ...]:
        """What a Case says of its batch, by name."""
        strides = tuple(one.stride for one in self.strides)
        beside = ("rows_a",) * self.inputs.gathered + ("spare_c",) * self.inputs.scattered
        return POINTER_SIZES if self.pointers else ("batch", *strides) if self.batched else (*beside, *strides)

    @property
    def shape(self) -> str:
        """MxNxK as `parse_shape` reads it: 512x512x512, ?x4096x4096."""
        return "x".join(RUNTIME if size is None else str(size) for size in (self.m, self.n, self.k))

    @cached_property  # a search asks for each of its configs
    def sizes(self) -> Sizes:
        """M, N, K, lda, ldb, ldc with "dense" resolved; None where the kernel takes a parameter.

        In a batch the batch, too, and where it has strides stride_a, stride_b and stride_c.
        """
        sizes: dict[str, Size] = {"M": self.m, "N": self.n, "K": self.k}
        for matrix in self.matrices:
            given = getattr(self, matrix.ld)
            sizes[matrix.ld] = matrix.extent(matrix.line, sizes) if given == "dense" else given
        if self.batched:
            sizes["batch"] = self.batch
        for matrix in self.strides:
            given = getattr(self, matrix.stride)
            sizes[matrix.stride] = matrix.dense_stride(sizes) if given == "dense" else given
        return sizes

    @property
    def runtime_names(self) -> tuple[str, ...]:
        """The sizes that the kernel takes as parameters, in their order."""
        return tuple(name for name, size in self.sizes.items() if size is None)

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """The sizes among M, N, K and batch that are left to run time."""
        return tuple(name for name in self.runtime_names if name in TYPICAL)

    def dtype_of(self, operand: str) -> DType:
        """The element type of an operand: of A, B or C, or one of the epilogue's."""
        if operand in OPERANDS:
            return self.types.accumulator if OPERANDS[operand].summed else self.types.scalar
        return self._dtypes[operand]

    @cached_property
    def _dtypes(self) -> Mapping[str, DType]:
        beside = {one.name: one.dtype for one in self.companions}
        return {**dict(zip("ABC", self.types.operands, strict=True)), **beside}

    def groups_of(self, operand: Operand) -> int:
        """The number of groups that have an operand of the epilogue each, one behind the other; 0: it serves all."""
        return self.inputs.groups if operand.is_of_b else 0

    def extent_of(self, vector: Operand) -> str:
        """The shape of a vector of the epilogue, for a header: "1536 elements", "8 x N, row-major"."""
        size, groups = (self.sizes[vector.size] or vector.size) if vector.size else 1, self.groups_of(vector)
        if groups and vector.size:
            return f"{groups} x {size}, row-major"
        return "one element" if 1 == size == (groups or 1) else f"{groups or size} elements"

    def whose(self, vector: Operand) -> str:
        """What each row, or element, of a vector of the epilogue is for."""
        by_group = "a row for each group" if vector.size else "one for each group"
        if self.groups_of(vector):
            return by_group
        return "one a row of the product" if self.inputs.scattered and vector.along == "m" else vector.whose

    @property
    def coded(self) -> bool:
        """Whether B holds codes, of `code_bits` bits."""
        return self.inputs.coded

    @property
    def code_bits(self) -> int:
        """Bits of a code of B; 0 if it holds none."""
        return self.types.b.storage_bits if self.coded else 0

    @property
    def scaled_depth(self) -> int:
        """k whose sum is multiplied by a scale; 0: elements are multiplied as they are stored, or were scaled."""
        group = self.inputs.group
        if self.inputs.blocks:
            return BLOCK
        if not self.coded or self.types.compute is not Compute.PROMOTED:
            return 0
        return min(PROMOTION, group or PROMOTION)

    @property
    def one_product(self) -> bool:
        """Whether each element of C is computed from its row of A and its column of B: no groups of rows, no images."""
        return self.inputs.is_plain or (
            (self.coded or self.inputs.blocks) and not (self.inputs.groups or self.inputs.scattered)
        )

    def align_of(self, operand: str) -> int:
        """Bytes that divide the address of an operand."""
        return max(self.pointer_align, self.dtype_of(operand).size)

    def vector_limit(self, ld: Literal["lda", "ldb", "ldc"]) -> int:
        """Elements of the widest access that every line's start allows: a power of two, of 16 bytes at most."""
        return self._vector_limits[ld]

    @cached_property  # a search asks for each of its configs
    def _vector_limits(self) -> Mapping[str, int]:
        return {
            matrix.ld: matrix.vector_limit(
                self.sizes, matrix in self.strides, self.align_of(matrix.name), self.ld_align
            )
            for matrix in self.matrices[:3]
        }

    @property
    def needs_64bit(self) -> bool:
        """True if an element offset into a matrix can reach 2^31. Strides between matrices are 64-bit anyway."""
        moved = self.inputs.by_index or self.inputs.conv
        if moved or any(name not in BATCH_SIZES for name in self.runtime_names):
            return True
        sizes = self.sizes
        reached = ((one.extent(one.lines, sizes) or 0) + TILE_REACH for one in self.matrices)
        return any(lines * (sizes[one.ld] or 0) >= 2**31 for one, lines in zip(self.matrices, reached, strict=True))
