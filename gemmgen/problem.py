"""The GEMM to solve: `Problem` (what the kernel is built for) and `Case` (what one launch computes).

    C = alpha * A * B + beta * C        A: M x K, B: K x N, C: M x N (row-major)

beta = 0 never reads C. K = 0 gives beta * C. A size or leading dimension of a Problem that is
`None` (written `?`) stays a parameter of the kernel; a Case gives it a number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import gcd
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from gemmgen.errors import require

Size = int | None  # None: a parameter of the kernel at run time, written `?`
Order = Literal["r", "c"]  # r row-major, c column-major

SIZE_LIMIT = 2**31 - 2**16  # sizes travel as 32-bit int, and rounding one up to a tile must not overflow
TILE_REACH = 1024  # lines past the edge to which a tile may compute (never access) an address
WIDEST_ACCESS = 16  # bytes that a thread reads or writes at once
RUNTIME = "?"

Scalar = TypeVar("Scalar", bound="np.generic[Any]")


class DType(Enum):
    """Element type of A, B, C, alpha, beta and the accumulator: an IEEE 754 binary format.

    label         name on the command line and in kernels' names
    ctype         CUDA type
    size          bytes
    precision     bits of the significand, the leading one included
    max_exponent  the largest finite number lies below 2^(max_exponent + 1)
    fma, zero     CUDA's function and its literal
    instruction   of the machine code: one fused multiply-add
    """

    F32 = ("f32", "float", 4, 24, 127, "fmaf", "0.0f", "FFMA")
    F64 = ("f64", "double", 8, 53, 1023, "fma", "0.0", "DFMA")

    def __init__(
        self,
        label: str,
        ctype: str,
        size: int,
        precision: int,
        max_exponent: int,
        fma: str,
        zero: str,
        instruction: str,
    ) -> None:
        self.label = label
        self.ctype = ctype
        self.size = size
        self.precision = precision
        self.max_exponent = max_exponent
        self.fma = fma
        self.zero = zero
        self.instruction = instruction

    @property
    def unit_roundoff(self) -> float:
        return 2.0**-self.precision

    @property
    def smallest(self) -> float:
        """The smallest denormal."""
        return 2.0 ** (2 - self.max_exponent - self.precision)

    @property
    def words(self) -> int:
        """4-byte words (of shared memory, of registers) that an element takes."""
        return self.size // 4

    @property
    def widest(self) -> int:
        """Elements of the widest access."""
        return WIDEST_ACCESS // self.size

    @property
    def numpy(self) -> np.dtype[np.floating[Any]]:
        return np.dtype(f"f{self.size}")

    @property
    def bits(self) -> np.dtype[np.unsignedinteger[Any]]:
        """Elements as bit patterns, which tell one NaN from another."""
        return np.dtype(f"u{self.size}")

    @classmethod
    def parse(cls, text: str) -> DType:
        """The dtype called `text`; raises InvalidInput with the known names."""
        known = {dtype.label: dtype for dtype in cls}
        require(text in known, f"unknown dtype {text!r}: known are {', '.join(known)}")
        return known[text]


@dataclass(frozen=True)
class Layout:
    """Storage order of A and of B; C is always row-major. Written as two letters, A then B."""

    a: Order = "r"
    b: Order = "r"

    @classmethod
    def parse(cls, text: str) -> Layout:
        """`rr`, `rc`, `cr` or `cc`; raises InvalidInput otherwise."""
        known = {a + b: cls(a, b) for a in ORDERS for b in ORDERS}
        require(text in known, f"unknown layout {text!r}: known are {', '.join(known)} (A, then B)")
        return known[text]

    def __str__(self) -> str:
        return self.a + self.b


ORDERS: tuple[Order, Order] = ("r", "c")


@dataclass(frozen=True)
class Matrix:
    """A matrix as it lies in memory: `rows` x `cols` elements, `ld` elements between lines.

    A line is a row (order r) or a column (order c).
    """

    rows: int
    cols: int
    ld: int
    order: Order

    @property
    def lines(self) -> int:
        return self.rows if self.order == "r" else self.cols

    @property
    def line_length(self) -> int:
        return self.cols if self.order == "r" else self.rows

    @property
    def elements(self) -> int:
        """Elements from the first to the last one, padding between lines included."""
        if self.rows == 0 or self.cols == 0:
            return 0
        return (self.lines - 1) * self.ld + self.line_length

    def view(self, flat: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """The rows x cols matrix inside `flat` (at least `elements` long), without its padding and without a copy."""
        step = flat.itemsize
        strides = (self.ld * step, step) if self.order == "r" else (step, self.ld * step)
        return np.lib.stride_tricks.as_strided(flat, (self.rows, self.cols), strides)


@dataclass(frozen=True)
class Problem:
    """What a kernel is built for.

    m, n, k         sizes in elements; None (`?`) leaves the size to run time
    dtype, layout   element type; storage orders of A and B
    lda, ldb, ldc   elements between the lines of A, B, C; "dense" takes the line's length,
                    None (`?`) leaves it to run time. A dense leading dimension of a run-time
                    size is itself a run-time parameter.
    pointer_align   bytes that divide the addresses of A, B and C: a promise of the caller
    ld_align        elements that divide every run-time leading dimension: likewise

    Raises InvalidInput for sizes outside 1 .. SIZE_LIMIT and for a leading dimension shorter than
    its line.
    """

    m: Size
    n: Size
    k: Size
    dtype: DType = DType.F32
    layout: Layout = Layout()
    lda: Size | Literal["dense"] = "dense"
    ldb: Size | Literal["dense"] = "dense"
    ldc: Size | Literal["dense"] = "dense"
    pointer_align: int = 16
    ld_align: int = 1

    def __post_init__(self) -> None:
        for name, size in (("M", self.m), ("N", self.n), ("K", self.k)):
            whole = size is None or type(size) is int
            require(
                whole and (size is None or 1 <= size <= SIZE_LIMIT),
                f"{name} = {size}: a size is 1 to {SIZE_LIMIT}, or ?",
            )
        for name, given, line in self._leading_dimensions():
            if given == "dense" or given is None:
                continue
            require(given <= SIZE_LIMIT, f"{name} = {given} exceeds {SIZE_LIMIT}")
            require(line is not None, f"{name} = {given} is fixed while its line's length is a run-time size: write ?")
            require(line is None or given >= line, f"{name} = {given} is shorter than a line of {line} elements")
        aligns = [align for align in (4, 8, 16) if align >= self.dtype.size]
        require(
            self.pointer_align in aligns,
            f"pointer_align = {self.pointer_align}: addresses of {self.dtype.label} align to {_either(aligns)}",
        )
        require(self.ld_align in (1, 2, 4), f"ld_align = {self.ld_align}: leading dimensions align to 1, 2 or 4")
        self._require_addressable()

    def _require_addressable(self) -> None:
        """Bytes from the start of a matrix, and what a tile computes past its end, must fit 63 bits."""
        counts = "M" if self.layout.a == "r" else "K", "K" if self.layout.b == "r" else "N", "M"
        for matrix, ld, count in zip("ABC", ("lda", "ldb", "ldc"), counts, strict=True):
            lines, stride = self.sizes[count], self.sizes[ld]
            fits = lines is None or stride is None or (lines + TILE_REACH) * stride * self.dtype.size < 2**63
            require(fits, f"{matrix} has {lines} lines of {stride} elements, whose bytes overflow 63 bits")

    def _leading_dimensions(self) -> tuple[tuple[str, Size | Literal["dense"], Size], ...]:
        """(name, as given, length of the line that it must hold) of A, B and C."""
        length = {"M": self.m, "N": self.n, "K": self.k}
        return tuple((name, getattr(self, name), length[line]) for name, line in self.line_sizes.items())

    @property
    def line_sizes(self) -> dict[str, str]:
        """The size (M, N or K) along which the lines of A, B and C run, by the name of the leading dimension."""
        return {"lda": "K" if self.layout.a == "r" else "M", "ldb": "N" if self.layout.b == "r" else "K", "ldc": "N"}

    @property
    def shape(self) -> str:
        """MxNxK as `parse_shape` reads it: 512x512x512, ?x4096x4096."""
        return "x".join(RUNTIME if size is None else str(size) for size in (self.m, self.n, self.k))

    @property
    def sizes(self) -> dict[str, Size]:
        """M, N, K, lda, ldb, ldc with "dense" resolved; None where the kernel takes a parameter."""
        resolved = {name: line if given == "dense" else given for name, given, line in self._leading_dimensions()}
        return {"M": self.m, "N": self.n, "K": self.k, **resolved}

    @property
    def runtime_names(self) -> tuple[str, ...]:
        """The sizes that the kernel takes as parameters, in their order."""
        return tuple(name for name, size in self.sizes.items() if size is None)

    def vector_limit(self, ld: Literal["lda", "ldb", "ldc"]) -> int:
        """Elements of the widest access that every line's start allows: 1, 2, or 4 of 4 bytes."""
        known = self.sizes[ld]
        line_align = self.ld_align if known is None else known
        return gcd(self.pointer_align // self.dtype.size, line_align)

    @property
    def needs_64bit(self) -> bool:
        """True if an element offset into A, B or C can reach 2^31."""
        if self.runtime_names:
            return True
        return max((matrix.lines + TILE_REACH) * matrix.ld for matrix in self.case().matrices) >= 2**31

    def case(
        self,
        m: int | None = None,
        n: int | None = None,
        k: int | None = None,
        lda: int | None = None,
        ldb: int | None = None,
        ldc: int | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> Case:
        """One launch of this problem. Sizes fixed here may be left out; run-time ones may not.

        A run-time leading dimension that is left out is the shortest one that `ld_align` allows.
        """
        given = {"M": m, "N": n, "K": k, "lda": lda, "ldb": ldb, "ldc": ldc}
        values = dict(self.sizes)
        for name, value in given.items():
            fixed = values[name]
            require(
                fixed is None or value is None or fixed == value,
                f"{name} = {value}, but this kernel is built for {name} = {fixed}",
            )
            values[name] = value if fixed is None else fixed
        for name in ("M", "N", "K"):
            require(values[name] is not None, f"{name} is a run-time size of this kernel: give it a value")
        size = {name: values[name] or 0 for name in ("M", "N", "K")}
        ld = {name: self._leading_dimension(name, values[name], size[line]) for name, line in self.line_sizes.items()}
        return Case(self, size["M"], size["N"], size["K"], ld["lda"], ld["ldb"], ld["ldc"], alpha, beta)

    def _leading_dimension(self, name: str, given: Size, line: int) -> int:
        """`given`, or where it is left out the shortest one that holds `line` elements and `ld_align` divides."""
        if given is None:
            return max(1, -(-line // self.ld_align)) * self.ld_align
        if self.sizes[name] is None:
            require(given % self.ld_align == 0, f"{name} = {given} is no multiple of ld_align = {self.ld_align}")
        return given

    def __str__(self) -> str:
        return f"{self.shape} {self.dtype.label} {self.layout}"


@dataclass(frozen=True)
class Case:
    """One launch: a Problem with a number for every size, and the scalars."""

    problem: Problem
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    alpha: float = 1.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        require(self.m >= 1 and self.n >= 1, f"M = {self.m}, N = {self.n}: a launch needs at least one element of C")
        require(self.k >= 0, f"K = {self.k} is negative")
        for name, ld, matrix in zip(("lda", "ldb", "ldc"), (self.lda, self.ldb, self.ldc), self.matrices, strict=True):
            require(ld >= matrix.line_length, f"{name} = {ld} is shorter than a line of {matrix.line_length} elements")

    @property
    def a(self) -> Matrix:
        return Matrix(self.m, self.k, self.lda, self.problem.layout.a)

    @property
    def b(self) -> Matrix:
        return Matrix(self.k, self.n, self.ldb, self.problem.layout.b)

    @property
    def c(self) -> Matrix:
        return Matrix(self.m, self.n, self.ldc, "r")

    @property
    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        return self.a, self.b, self.c

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def bytes_moved(self) -> int:
        """The least traffic with device memory: A and B read once, C written once (read with beta)."""
        c_passes = 1 if self.beta == 0 else 2
        elements = self.m * self.k + self.k * self.n + c_passes * self.m * self.n
        return elements * self.problem.dtype.size

    @property
    def values(self) -> dict[str, int | float]:
        """Every scalar that a kernel may take as a parameter, by name."""
        sizes = {"M": self.m, "N": self.n, "K": self.k, "lda": self.lda, "ldb": self.ldb, "ldc": self.ldc}
        return {**sizes, "alpha": self.alpha, "beta": self.beta}

    def __str__(self) -> str:
        return (
            f"{self.m}x{self.n}x{self.k} {self.problem.layout} lda={self.lda} ldb={self.ldb} ldc={self.ldc} "
            f"alpha={self.alpha:g} beta={self.beta:g}"
        )


def _either(values: Sequence[int]) -> str:
    """ "4, 8 or 16"."""
    *first, last = map(str, values)
    return f"{', '.join(first)} or {last}"


def parse_shape(text: str) -> tuple[Size, Size, Size]:
    """`MxNxK` with a number or `?` for each size; raises InvalidInput otherwise."""
    parts = re.fullmatch(r"(-?\d+|\?)x(-?\d+|\?)x(-?\d+|\?)", text)
    require(parts is not None, f"{text!r} is no shape: write MxNxK, for example 512x512x512 or ?x4096x4096")
    assert parts is not None
    m, n, k = (None if part == RUNTIME else int(part) for part in parts.groups())
    return m, n, k
