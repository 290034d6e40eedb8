"""The GEMM to solve: `Problem` (what the kernel is built for) and `Case` (what one launch computes).

    C = alpha * A * B + beta * C        A: M x K, B: K x N, C: M x N (row-major)

or what another epilogue makes of A * B (see `epilogue`). beta = 0 never reads C. K = 0 makes A * B zero.

A batch is many such products, each on its own A, B and C, which lie a stride apart or, in a batch of pointers,
anywhere. A size, leading dimension or stride of a Problem that is `None` (written `?`) stays a parameter of the kernel;
a Case gives it a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property
from math import gcd
from typing import Any, Literal, TypeVar

from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import LINEAR, OPERANDS, Epilogue, Operand, parse_epilogue, require_integers
from gemmgen.problem.matrix import ROW_MAJOR, Layout, Matrix
from gemmgen.problem.types import F32_TYPES, Types
from gemmgen.support.errors import require, whole

Size = int | None  # None: a parameter of the kernel at run time, written `?`

SIZE_LIMIT = 2**31 - 2**16  # sizes travel as 32-bit int, and rounding one up to a tile must not overflow
TILE_REACH = 2048  # lines past the edge to which a tile may compute (never access) an address
POINTER_BYTES = 8
RUNTIME = "?"
ALIGNS = (1, 2, 4, 8, 16)  # of addresses, in bytes, and of leading dimensions, in elements: to the widest access

Named = TypeVar("Named", DType, Types, Layout)

TYPICAL = ("M", "N", "K", "batch")  # sizes for which Problem.typical may give a number
BATCH_SIZES = ("batch", "stride_a", "stride_b", "stride_c", "stride_residual")  # of Problem.sizes, in a batch
POINTER_SIZES = ("batch", "different_a", "different_b")  # of a Case, in a batch of pointers
NO_STRIDE = "matrices behind pointers have no stride"


@dataclass(frozen=True)
class Problem:
    """What a kernel is built for.

    m, n, k         sizes in elements; None (`?`) leaves the size to run time
    dtype           shorthand for `types`: one element type for A, B and C
    layout          storage orders of A and B. Names do as well: "f64", "rc", and "s8,s8,s32" for types
    lda, ldb, ldc   elements between the lines of A, B, C; "dense" takes the line's length,
                    None (`?`) leaves it to run time. A dense leading dimension of a run-time
                    size is itself a run-time parameter.
    pointer_align   bytes that divide the addresses of A, B and C, as the size of their elements does anyway: a promise
                    of the caller
    ld_align        elements that divide every run-time leading dimension and stride: likewise
    batch           products; 1 is a plain GEMM, None (`?`) leaves their number to run time
    stride_a, ...   elements from one matrix of the batch to the next: "dense" is lines times leading dimension, 0 (of A
                    or B) shares one matrix, None leaves it to run time, as "dense" does where a size is left to it
    pointers        the kernel takes arrays of `batch` pointers, to each matrix A, B and C: a batch without strides.
                    Those to A and B may repeat and overlap; each is divisible by `pointer_align`
    types           element types of A, B and C, and what computes with them
    epilogue        what becomes of A * B. Its vectors serve all products of a batch
    ld_residual, stride_residual   of its matrix, where it has one, as those of C
    typical         for what numbers the sizes left to run time, and their batch, are tuned and timed: {"M": 16}. The
                    kernel serves every other as well

    Raises InvalidInput for sizes outside 1 .. SIZE_LIMIT, for a leading dimension shorter than its line and for a
    stride shorter than its matrix.
    """

    m: Size
    n: Size
    k: Size
    dtype: InitVar[DType | None] = None
    layout: Layout = ROW_MAJOR
    lda: Size | Literal["dense"] = "dense"
    ldb: Size | Literal["dense"] = "dense"
    ldc: Size | Literal["dense"] = "dense"
    pointer_align: int = 16
    ld_align: int = 1
    batch: Size = 1
    stride_a: Size | Literal["dense"] = "dense"
    stride_b: Size | Literal["dense"] = "dense"
    stride_c: Size | Literal["dense"] = "dense"
    pointers: bool = False
    types: Types = F32_TYPES
    epilogue: Epilogue = LINEAR
    ld_residual: Size | Literal["dense"] = "dense"
    stride_residual: Size | Literal["dense"] = "dense"
    typical: Mapping[str, int] | tuple[tuple[str, int], ...] = ()

    def __post_init__(self, dtype: DType | None) -> None:
        self._take_as_meant(dtype)
        for name, size in (("M", self.m), ("N", self.n), ("K", self.k), ("batch", self.batch)):
            require(size is None or 1 <= size <= SIZE_LIMIT, f"{name} = {size}: a size is 1 to {SIZE_LIMIT}, or ?")
        for name, given, line in self._leading_dimensions():
            if given == "dense" or given is None:
                continue
            require(given <= SIZE_LIMIT, f"{name} = {given} exceeds {SIZE_LIMIT}")
            require(line is not None, f"{name} = {given} is fixed while its line's length is a run-time size: write ?")
            require(line is None or given >= line, f"{name} = {given} is shorter than a line of {line} elements")
        smallest = min(self.types.operands, key=lambda dtype: dtype.size)
        aligns = [align for align in ALIGNS if align >= smallest.size]
        require(
            self.pointer_align in aligns,
            f"pointer_align = {self.pointer_align}: addresses of {smallest.label} align to {_either(aligns)}",
        )
        require(
            self.ld_align in ALIGNS,
            f"ld_align = {self.ld_align}: leading dimensions align to {_either(ALIGNS)} elements",
        )
        self._require_operands()
        self._require_addressable()
        self._require_apart()
        self._require_open()

    def _require_operands(self) -> None:
        """Of the epilogue: what is said of them exists, and kernels take it."""
        matrices = [operand.name for operand in self.epilogue.operands if operand.is_matrix]
        if self.types.scalar.is_integer:
            require_integers(self.epilogue)
        require(not (self.pointers and matrices), f"a batch of pointers has none to {', '.join(matrices)}")
        for name in ("ld_residual", "stride_residual"):
            given = getattr(self, name)
            require(
                given == "dense" or "residual" in matrices,
                f"{name} = {given}, and the epilogue {self.epilogue} has no residual",
            )

    def __hash__(self) -> int:
        """Of the sizes alone: a search hashes its problem often."""
        return hash((self.m, self.n, self.k, self.batch))

    def _take_as_meant(self, dtype: DType | None) -> None:
        """Names become what they name, and numpy's integers int. Raises InvalidInput for what means nothing."""
        require(self.pointers in (True, False), f"pointers = {self.pointers!r}: known are True and False")
        named = isinstance(self.typical, Mapping | tuple)
        require(named, f"typical = {self.typical!r}: write sizes by name, as {{'M': 16}}")
        meant: dict[str, Any] = {
            "types": _named(Types, self.types if dtype is None else Types.of(_named(DType, dtype))),
            "layout": _named(Layout, self.layout),
            "pointer_align": whole("pointer_align", self.pointer_align),
            "ld_align": whole("ld_align", self.ld_align),
            "pointers": bool(self.pointers),
            "epilogue": parse_epilogue(self.epilogue) if isinstance(self.epilogue, str) else self.epilogue,
            "typical": tuple((name, whole(f"typical {name}", size)) for name, size in dict(self.typical).items()),
        }
        for name in ("m", "n", "k", "batch"):
            size = getattr(self, name)
            meant[name] = None if size is None else whole(name if name == "batch" else name.upper(), size)
        lines = "lda", "ldb", "ldc", "ld_residual"
        for name in (*lines, "stride_a", "stride_b", "stride_c", "stride_residual"):
            given = getattr(self, name)
            if isinstance(given, str):
                require(given == "dense", f'{name} = {given!r}: known are "dense", None and a number of elements')
            meant[name] = given if given is None or isinstance(given, str) else whole(name, given)
        for name, value in meant.items():
            object.__setattr__(self, name, value)

    def _require_open(self) -> None:
        """What is typical is said of sizes that are left to run time."""
        for name, size in dict(self.typical).items():
            require(name in TYPICAL, f"typical {name} = {size}: known are {', '.join(TYPICAL)}")
            fixed = self.sizes.get(name, 1)
            require(fixed is None, f"typical {name} = {size}, but {name} is fixed at {fixed}: write ? for it")
            require(1 <= size <= SIZE_LIMIT, f"typical {name} = {size}: a size is 1 to {SIZE_LIMIT}")

    def _require_apart(self) -> None:
        """No matrix of the batch reaches into the next."""
        require(self.batched or not self.pointers, "arrays of pointers serve a batch, and batch = 1")
        for name, (lines, ld, line) in self.stride_sizes.items():
            given = getattr(self, name)
            require(self.batched or given == "dense", f"{name} = {given} serves a batch, and batch = 1")
            what = "?" if given is None else given
            require(not self.pointers or given == "dense", f"{name} = {what}: {NO_STRIDE}")
            if given == "dense" or given is None or (given == 0 and name != "stride_c"):
                continue
            count, pitch, length = self.sizes[lines], self.sizes[ld], self.sizes[line]
            known = count is not None and pitch is not None and length is not None
            require(known, f"{name} = {given} is fixed while its matrix has a run-time size: write ?")
            span = (count - 1) * pitch + length if known else 0  # type: ignore[operator]
            require(given >= span, f"{name} = {given} is shorter than a matrix of {span} elements")
            size = self.dtype_of(matrix_of(ld)).size
            require(given * (self.batch or 1) * size < 2**63, f"{name} = {given}: bytes overflow 63 bits")

    def _require_addressable(self) -> None:
        """Bytes from the start of a matrix, and what a tile computes past its end, must fit 63 bits."""
        for count, ld, _ in self.stride_sizes.values():
            lines, stride = self.sizes[count], self.sizes[ld]
            matrix = matrix_of(ld)
            size = self.dtype_of(matrix).size
            fits = lines is None or stride is None or (lines + TILE_REACH) * stride * size < 2**63
            require(fits, f"{matrix} has {lines} lines of {stride} elements, whose bytes overflow 63 bits")

    def _leading_dimensions(self) -> tuple[tuple[str, Size | Literal["dense"], Size], ...]:
        """(name, as given, length of the line that it must hold) of A, B and C."""
        length = {"M": self.m, "N": self.n, "K": self.k}
        return tuple((name, getattr(self, name), length[line]) for name, line in self.line_sizes.items())

    @property
    def line_sizes(self) -> dict[str, str]:
        """The size (M, N or K) along which lines run, by the name of the leading dimension: of A, B, C and others."""
        lines = {"lda": "K" if self.layout.a == "r" else "M", "ldb": "N" if self.layout.b == "r" else "K", "ldc": "N"}
        return {**lines, **{operand.ld: "N" for operand in self.epilogue.operands if operand.is_matrix}}

    @property
    def stride_sizes(self) -> dict[str, tuple[str, str, str]]:
        """(size that counts the lines, leading dimension, size along a line) of each matrix by the stride's name."""
        counts = {"lda": "M" if self.layout.a == "r" else "K", "ldb": "K" if self.layout.b == "r" else "N"}
        return {stride_of(ld): (counts.get(ld, "M"), ld, line) for ld, line in self.line_sizes.items()}

    @property
    def operand_words(self) -> str:
        """ "A, B and C", and the epilogue's operands among them."""
        *first, last = ("A", "B", "C", *(operand.name for operand in self.epilogue.operands))
        return f"{', '.join(first)} and {last}"

    @property
    def batched(self) -> bool:
        return self.batch != 1

    @property
    def strided(self) -> bool:
        """Whether strides say where the matrices of a batch lie."""
        return self.batched and not self.pointers

    @property
    def batch_sizes(self) -> tuple[str, ...]:
        """What a Case says of its batch, by name."""
        return POINTER_SIZES if self.pointers else ("batch", *self.stride_sizes) if self.batched else ()

    @property
    def shape(self) -> str:
        """MxNxK as `parse_shape` reads it: 512x512x512, ?x4096x4096."""
        return "x".join(RUNTIME if size is None else str(size) for size in (self.m, self.n, self.k))

    @cached_property  # a search asks for each of its configs
    def sizes(self) -> Mapping[str, Size]:
        """M, N, K, lda, ldb, ldc with "dense" resolved; None where the kernel takes a parameter.

        In a batch the batch, too, and where it has strides stride_a, stride_b and stride_c.
        """
        resolved = {name: line if given == "dense" else given for name, given, line in self._leading_dimensions()}
        sizes: dict[str, Size] = {"M": self.m, "N": self.n, "K": self.k, **resolved}
        if not self.batched:
            return sizes
        sizes["batch"] = self.batch
        for name, (lines, ld, _) in self.stride_sizes.items() if self.strided else ():
            given, count, pitch = getattr(self, name), sizes[lines], sizes[ld]
            dense = None if count is None or pitch is None else count * pitch
            sizes[name] = dense if given == "dense" else given
        return sizes

    @property
    def runtime_names(self) -> tuple[str, ...]:
        """The sizes that the kernel takes as parameters, in their order."""
        return tuple(name for name, size in self.sizes.items() if size is None)

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """Those of M, N, K and the batch that are left to run time."""
        return tuple(name for name in self.runtime_names if name in TYPICAL)

    def dtype_of(self, operand: str) -> DType:
        """The element type of an operand: of A, B or C, or one of the epilogue's."""
        if operand in OPERANDS:
            return self.types.accumulator if OPERANDS[operand].summed else self.types.scalar
        return dict(zip("ABC", self.types.operands, strict=True))[operand]

    def align_of(self, operand: str) -> int:
        """Bytes that divide the address of an operand."""
        return max(self.pointer_align, self.dtype_of(operand).size)

    def vector_limit(self, ld: Literal["lda", "ldb", "ldc"]) -> int:
        """Elements of the widest access that every line's start allows: a power of two, of 16 bytes at most."""
        return self._vector_limits[ld]

    @cached_property  # a search asks for each of its configs
    def _vector_limits(self) -> Mapping[str, int]:
        return {ld: self._vector_limit(ld) for ld in ("lda", "ldb", "ldc")}

    def _vector_limit(self, ld: str) -> int:
        steps = [self.sizes[ld]]
        if self.strided:
            steps.append(self.sizes[stride_of(ld)])
        aligns = (self.ld_align if step is None else step for step in steps)
        return gcd(self.align_of(matrix_of(ld)) // self.dtype_of(matrix_of(ld)).size, *aligns)

    @property
    def needs_64bit(self) -> bool:
        """True if an element offset into a matrix can reach 2^31. Strides between matrices are 64-bit anyway."""
        if any(name not in BATCH_SIZES for name in self.runtime_names):
            return True
        return (
            max(
                (matrix.lines + TILE_REACH) * matrix.ld
                for matrix in self.case(batch=1 if self.batch is None else None).tensors.values()
            )
            >= 2**31
        )

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
        batch: int | None = None,
        stride_a: int | None = None,
        stride_b: int | None = None,
        stride_c: int | None = None,
        different_a: int = 0,
        different_b: int = 0,
        ld_residual: int | None = None,
        stride_residual: int | None = None,
    ) -> Case:
        """One launch of this problem. Sizes fixed here may be left out; run-time ones may not.

        A run-time leading dimension or stride that is left out is the shortest one that `ld_align` allows. In a batch
        of pointers products share `different_a` matrices A, in turn, likewise B; 0 gives each its own.
        """
        strides = {
            "stride_a": stride_a,
            "stride_b": stride_b,
            "stride_c": stride_c,
            "stride_residual": stride_residual,
        }
        for name, stride in strides.items():
            require(not self.pointers or stride is None, f"{name} = {stride}: {NO_STRIDE}")
        require(self.batched or batch in (None, 1), f"batch = {batch}, but this kernel is built for one product")
        lines = {"lda": lda, "ldb": ldb, "ldc": ldc, "ld_residual": ld_residual}
        sizes = {"M": m, "N": n, "K": k, **lines, "batch": batch, **strides}
        values = {name: _agreed(name, fixed, sizes[name]) for name, fixed in self.sizes.items()}
        for name in ("M", "N", "K", "batch") if self.batched else ("M", "N", "K"):
            require(values[name] is not None, f"{name} is a run-time size of this kernel: give it a value")
        size = {name: values[name] or 0 for name in ("M", "N", "K")}
        ld = {name: self._pitch(name, values[name], max(1, size[line])) for name, line in self.line_sizes.items()}
        steps = {
            name: self._pitch(name, values.get(name), size[lines] * ld[pitch])
            for name, (lines, pitch, _) in self.stride_sizes.items()
            if self.batched
        }
        return Case(
            self,
            size["M"],
            size["N"],
            size["K"],
            **ld,
            alpha=alpha,
            beta=beta,
            batch=values.get("batch", 1) or 0,
            **steps,
            different_a=different_a,
            different_b=different_b,
        )

    def _pitch(self, name: str, given: Size, least: int) -> int:
        """A leading dimension or stride: `given`, else the shortest one from `least` on that `ld_align` divides."""
        if given is None:
            return -(-least // self.ld_align) * self.ld_align
        if self.sizes[name] is None:
            require(given % self.ld_align == 0, f"{name} = {given} is no multiple of ld_align = {self.ld_align}")
        return given

    def __str__(self) -> str:
        batch = f" x {RUNTIME if self.batch is None else self.batch}" if self.batched else ""
        batch += " by pointers" if self.pointers else ""
        epilogue = "" if self.epilogue.is_linear else f" {self.epilogue}"
        return f"{self.shape}{batch} {self.types} {self.layout}{epilogue}"


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
        for name, (_, ld, _) in self.problem.stride_sizes.items():
            matrix = self.tensors[matrix_of(ld)]
            shared = matrix.batch is None or (matrix.stride == 0 and name != "stride_c")
            require(
                shared or matrix.stride >= matrix.span,
                f"{name} = {matrix.stride} is shorter than a matrix of {matrix.span} elements",
            )
        require(self.m >= 1 and self.n >= 1, f"M = {self.m}, N = {self.n}: a launch needs at least one element of C")
        require(self.k >= 0, f"K = {self.k} is negative")
        for name, scalar in (("alpha", self.alpha), ("beta", self.beta)):
            whole = not self.problem.types.scalar.is_integer or float(scalar).is_integer()
            require(whole, f"{name} = {scalar}: with C of {self.problem.types.c.label} scalars are integers")
        for name in self.problem.line_sizes:
            matrix = self.tensors[matrix_of(name)]
            given, line = getattr(self, name), matrix.line_length
            require(given >= line, f"{name} = {given} is shorter than a line of {line} elements")

    @cached_property
    def a(self) -> Matrix:
        batch, different = self._batch, self.different_a or None
        order, dtype = self.problem.layout.a, self.problem.types.a
        return Matrix(self.m, self.k, self.lda, order, batch, self.stride_a, different, dtype)

    @cached_property
    def b(self) -> Matrix:
        batch, different = self._batch, self.different_b or None
        order, dtype = self.problem.layout.b, self.problem.types.b
        return Matrix(self.k, self.n, self.ldb, order, batch, self.stride_b, different, dtype)

    @cached_property
    def c(self) -> Matrix:
        return Matrix(self.m, self.n, self.ldc, "r", self._batch, self.stride_c, dtype=self.problem.types.c)

    @property
    def _batch(self) -> int | None:
        return self.batch if self.problem.batched else None

    @property
    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        return self.a, self.b, self.c

    @cached_property
    def extra(self) -> Mapping[str, Matrix]:
        """The epilogue's operands by name: vectors are one row or one column, which all products share."""
        return {operand.name: self._extra(operand) for operand in self.problem.epilogue.operands}

    @property
    def read(self) -> dict[str, Matrix]:
        """Of these what kernels read."""
        return {name: matrix for name, matrix in self.extra.items() if not OPERANDS[name].written}

    def _extra(self, operand: Operand) -> Matrix:
        dtype = self.problem.dtype_of(operand.name)
        if operand.is_matrix:
            ld, stride = getattr(self, operand.ld), getattr(self, operand.stride)
            return Matrix(self.m, self.n, ld, "r", self._batch, stride, dtype=dtype)
        rows, cols = self.m if operand.along == "m" else 1, self.n if operand.along == "n" else 1
        return Matrix(rows, cols, cols, "r", self._batch, 0, dtype=dtype)

    @cached_property  # a situation asks dozens of times
    def tensors(self) -> Mapping[str, Matrix]:
        """A, B, C and the epilogue's operands, by name."""
        return {"A": self.a, "B": self.b, "C": self.c, **self.extra}

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * self.batch

    @cached_property  # a prediction asks
    def bytes_moved(self) -> int:
        """The least traffic with device memory: operands read once, C written once (read with beta), pointers read."""
        c_passes = 2 if self.beta != 0 and self.problem.epilogue.reads_c else 1
        a, b, c = (matrix.stored.least_bytes for matrix in self.matrices)
        pointers = 3 * self.batch * POINTER_BYTES if self.problem.pointers else 0
        return a + b + c_passes * c + sum(one.stored.least_bytes for one in self.extra.values()) + pointers

    @cached_property  # a prediction asks
    def values(self) -> Mapping[str, int | float]:
        """Every number of the launch by name, those among them that a kernel may take as parameters."""
        lines = {name: getattr(self, name) for name in self.problem.line_sizes}
        sizes = {"M": self.m, "N": self.n, "K": self.k, **lines}
        batch = {name: getattr(self, name) for name in self.problem.batch_sizes}
        return {**sizes, **batch, "alpha": self.alpha, "beta": self.beta}

    def __str__(self) -> str:
        sizes = [
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.values.items()
            if name not in ("M", "N", "K")
        ]
        return f"{self.m}x{self.n}x{self.k} {self.problem.layout} {' '.join(sizes)}"


def stride_of(ld: str) -> str:
    """The name of the stride that goes with a leading dimension: lda and stride_a, ld_residual and stride_residual."""
    return f"stride_{ld.removeprefix('ld').removeprefix('_')}"


def ld_of(matrix: str) -> str:
    """The name of a matrix' leading dimension."""
    return f"ld{matrix.lower()}" if len(matrix) == 1 else f"ld_{matrix}"


def matrix_of(ld: str) -> str:
    """The matrix that a leading dimension belongs to."""
    return ld.removeprefix("ld_") if ld.startswith("ld_") else ld[-1].upper()


def _agreed(name: str, fixed: Size, given: Size) -> Size:
    """`fixed`, or `given` where it is left to run time; raises InvalidInput where both stand and differ."""
    agrees = fixed is None or given is None or fixed == given
    require(agrees, f"{name} = {given}, but this kernel is built for {name} = {fixed}")
    return given if fixed is None else fixed


def _named(kind: type[Named], value: object) -> Named:
    """`value` where it is a `kind`, else the one of that name. Raises InvalidInput with the known names."""
    return value if isinstance(value, kind) else kind.parse(str(value))


def _either(values: Sequence[int | str]) -> str:
    """ "4, 8 or 16"."""
    *first, last = map(str, values)
    return f"{', '.join(first)} or {last}"


def parse_shape(text: str) -> tuple[Size, Size, Size]:
    """`MxNxK` with a number or `?` for each size; raises InvalidInput otherwise."""
    parts = re.fullmatch(r"(-?\d+|\?)x(-?\d+|\?)x(-?\d+|\?)", text, re.ASCII)
    require(parts is not None, f"{text!r} is no shape: write MxNxK, for example 512x512x512 or ?x4096x4096")
    assert parts is not None
    m, n, k = (None if part == RUNTIME else int(part) for part in parts.groups())
    return m, n, k
