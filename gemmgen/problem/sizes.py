"""Sizes of a problem: what they may be, how people write them, and which of them say how a matrix lies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Literal

from gemmgen.problem.dtype import DType
from gemmgen.problem.matrix import Matrix, Order
from gemmgen.support.errors import require
from gemmgen.support.words import listed

Size = int | None  # None: a parameter of the kernel at run time, written `?`
Distance = Size | Literal["dense"]  # a leading dimension or a stride
Sizes = Mapping[str, Size]  # by name: M, lda, ...

RUNTIME = "?"
SIZE_LIMIT = 2**31 - 2**16  # sizes travel as 32-bit int, and rounding one up to a tile must not overflow
TILE_REACH = 2048  # lines past the edge to which a tile may compute (never access) an address
ALIGNS = (1, 2, 4, 8, 16)  # of addresses, in bytes, and of leading dimensions, in elements: to the widest access
POINTER_BYTES = 8
TYPICAL = ("M", "N", "K", "batch")  # sizes for which Problem.typical may give a number
BATCH_SIZES = ("batch", "stride_a", "stride_b", "stride_c", "stride_residual")  # of Problem.sizes, in a batch
POINTER_SIZES = ("batch", "different_a", "different_b")  # of a Case, in a batch of pointers


@dataclass(frozen=True)
class MatrixSizes:
    """Which sizes say how a matrix of a problem lies, each by its name.

    name        the matrix: "A", "residual"
    rows, cols  of M, N and K the one that counts them
    ld          its leading dimension: elements from a line to the next
    beside      as many such matrices lie side by side: columns are so many times their size
    channels    of images, whose pixels are the lines: the number of columns; 0 of a matrix
    """

    name: str
    rows: str
    cols: str
    order: Order
    dtype: DType
    ld: str
    beside: int = 1
    channels: int = 0

    def times(self, size: str) -> int:
        """How many times `size`, that of its rows or columns, it has."""
        return self.beside if size == self.cols else 1

    def extent(self, size: str, sizes: Sizes) -> Size:
        """Its rows or columns, by the name of their size."""
        if self.channels and size == self.cols:
            return self.channels
        known = sizes[size]
        return None if known is None else known * self.times(size)

    def extent_text(self, size: str, texts: Mapping[str, str]) -> str:
        """The same as C++ writes it, where `texts` are numbers and names: "2 * N"."""
        if self.channels and size == self.cols:
            return str(self.channels)
        text, times = texts[size], self.times(size)
        return text if times == 1 else str(times * int(text)) if text.isdigit() else f"{times} * {text}"

    @property
    def lines(self) -> str:
        """The size that counts the lines: rows (order r) or columns (order c)."""
        return self.rows if self.order == "r" else self.cols

    @property
    def line(self) -> str:
        """The size along a line, which the leading dimension must hold."""
        return self.cols if self.order == "r" else self.rows

    @property
    def stride(self) -> str:
        """Elements from this matrix to the next of a batch."""
        return stride_of(self.ld)

    def require_line(self, given: Distance, sizes: Sizes) -> None:
        """Raise InvalidInput unless lines fit the leading dimension `given`."""
        if given == "dense" or given is None:
            return
        line = self.extent(self.line, sizes)
        require(given <= SIZE_LIMIT, f"{self.ld} = {given} exceeds {SIZE_LIMIT}")
        require(line is not None, f"{self.ld} = {given} is fixed while its line's length is a run-time size: write ?")
        require(line is None or given >= line, f"{self.ld} = {given} is shorter than a line of {line} elements")

    def require_addressable(self, sizes: Sizes) -> None:
        """Raise InvalidInput unless its columns fit 32 bits, and its bytes, with what a tile computes past them, 63."""
        columns = self.extent(self.cols, sizes) or 0
        require(columns <= SIZE_LIMIT, f"{self.name} has {columns} columns, which exceeds {SIZE_LIMIT}")
        lines, ld = self.extent(self.lines, sizes), sizes[self.ld]
        fits = lines is None or ld is None or self.dtype.bytes((lines + TILE_REACH) * ld) < 2**63
        require(fits, f"{self.name} has {lines} lines of {ld} elements, whose bytes overflow 63 bits")

    @property
    def written(self) -> bool:
        """Whether kernels write it: C, and what lies as C does."""
        return self.stride == "stride_c"

    def require_stride(self, matrix: Matrix) -> None:
        """Raise InvalidInput unless `matrix`, a batch of this one, lies in memory as kernels take it.

        Matrices that are read may lie anywhere: their lines may interleave, as those of attention's heads do, and
        overlap. Those that are written may interleave, too, where no line overlaps another.
        """
        require(matrix.stride >= 0, f"{self.stride} = {matrix.stride} is negative")
        require(
            not self.written or not matrix.overlaps,
            f"{self.stride} = {matrix.stride} is shorter than a matrix of {matrix.span} elements, and "
            f"{matrix.batch} lines of {matrix.line_length} elements so far apart do not fit between two of its own, "
            f"which are {matrix.ld} apart: matrices of {self.name}, which is written, would overlap",
        )

    def require_apart(self, given: Distance, sizes: Sizes, batch: Size) -> None:
        """Raise InvalidInput unless the stride `given`, of so many matrices, is one that `require_stride` allows."""
        if given == "dense" or given is None or (given == 0 and not self.written):
            return
        lines, ld, line = self.extent(self.lines, sizes), sizes[self.ld], self.extent(self.line, sizes)
        known = lines is not None and ld is not None and line is not None
        require(known, f"{self.stride} = {given} is fixed while its matrix has a run-time size: write ?")
        assert lines is not None and ld is not None and line is not None
        shape = (lines, line) if self.order == "r" else (line, lines)
        self.require_stride(Matrix(*shape, ld, self.order, batch or SIZE_LIMIT, given, dtype=self.dtype))
        overflows = self.dtype.bytes(given * (batch or 1)) >= 2**63
        require(not overflows, f"{self.stride} = {given}: bytes overflow 63 bits")

    def dense_stride(self, sizes: Sizes) -> Size:
        """Lines times leading dimension, where both are known."""
        lines, ld = self.extent(self.lines, sizes), sizes[self.ld]
        return None if lines is None or ld is None else lines * ld

    def vector_limit(self, sizes: Sizes, strided: bool, address_align: int, ld_align: int) -> int:
        """Elements of the widest access that every line's start allows: a power of two, of 16 bytes at most."""
        steps = (sizes[name] for name in ((self.ld, self.stride) if strided else (self.ld,)))
        return gcd(
            8 * address_align // self.dtype.storage_bits, *(ld_align if step is None else step for step in steps)
        )


def stride_of(ld: str) -> str:
    """The name of the stride that goes with a leading dimension: lda and stride_a, ld_residual and stride_residual."""
    return f"stride_{ld.removeprefix('ld').removeprefix('_')}"


def ld_of(matrix: str) -> str:
    """The name of a matrix' leading dimension."""
    return f"ld{matrix.lower()}" if len(matrix) == 1 else f"ld_{matrix}"


def matrix_of(ld: str) -> str:
    """The matrix that a leading dimension belongs to."""
    return ld.removeprefix("ld_") if ld.startswith("ld_") else ld[-1].upper()


def require_typical(typical: Mapping[str, int], sizes: Sizes) -> None:
    """Raise InvalidInput unless what is typical is said of sizes that are left to run time."""
    for name, size in typical.items():
        require(name in TYPICAL, f"typical {name} = {size}: known are {', '.join(TYPICAL)}")
        fixed = sizes.get(name, 1)
        require(fixed is None, f"typical {name} = {size}, but {name} is fixed at {fixed}: write ? for it")
        require(1 <= size <= SIZE_LIMIT, f"typical {name} = {size}: a size is 1 to {SIZE_LIMIT}")


def require_align(name: str, align: int, what: str, unit: str, least: int = 1) -> None:
    """Raise InvalidInput unless `align`, of `what` in `unit`, is one of ALIGNS from `least` on."""
    aligns = [one for one in ALIGNS if one >= least]
    require(align in aligns, f"{name} = {align}: {what} align to {listed(map(str, aligns), 'or')} {unit}")


def agreed(name: str, fixed: Size, given: Size) -> Size:
    """`fixed`, or `given` where it is left to run time; raises InvalidInput where both stand and differ."""
    agrees = fixed is None or given is None or fixed == given
    require(agrees, f"{name} = {given}, but this kernel is built for {name} = {fixed}")
    return given if fixed is None else fixed


def parse_shape(text: str) -> tuple[Size, Size, Size]:
    """`MxNxK` with a number or `?` for each size, x in either case; raises InvalidInput otherwise."""
    parts = re.fullmatch(r"[xX]".join([r"(-?\d{1,20}|\?)"] * 3), text, re.ASCII)
    require(parts is not None, f"{text[:60]!r} is no shape: write MxNxK, for example 512x512x512 or ?x4096x4096")
    assert parts is not None
    m, n, k = (None if part == RUNTIME else int(part) for part in parts.groups())
    return m, n, k
