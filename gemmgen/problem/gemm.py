"""The GEMM to solve: what a kernel is built for, and what one launch of it computes.

    C = alpha * A * B + beta * C        A: M x K, B: K x N, C: M x N (row-major)

or what another epilogue makes of A * B (see `epilogue`), or of up to four products: then B is K x 2N, 3N or 4N,
matrices side by side, and M x N x K are the sizes of each product. beta = 0 never reads C. K = 0 makes A * B zero.

A batch is many such products, each on its own A, B and C, which lie a stride apart or, in a batch of pointers,
anywhere. A size, leading dimension or stride of a Problem that is `None` (written `?`) stays a parameter of the kernel;
a Case gives it a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import LINEAR, Epilogue, parse_epilogue, require_integers
from gemmgen.problem.fields import Fields
from gemmgen.problem.given import distance_given, record_given, size_given, types_given, typical_given
from gemmgen.problem.inputs import PLAIN, Companion, Inputs
from gemmgen.problem.matrix import ROW_MAJOR, Layout, Matrix
from gemmgen.problem.operands import OPERANDS, Operand, is_written
from gemmgen.problem.sizes import (
    POINTER_BYTES,
    RUNTIME,
    SIZE_LIMIT,
    Distance,
    MatrixSizes,
    Size,
    agreed,
    require_align,
    require_typical,
)
from gemmgen.problem.types import F32_TYPES, Compute, Types
from gemmgen.support.errors import require, whole

POINTER_ALIGN, LD_ALIGN = 16, 1  # what a problem promises where nothing is said
DTypeGiven = Any  # a DType, its label, or an element type of numpy, ml_dtypes, jax or torch
NO_STRIDE = "matrices behind pointers have no stride"


@dataclass(frozen=True, init=False)
class Problem(Fields):
    """What a kernel is built for.

    m, n, k         sizes in elements; None (`?`) leaves the size to run time
    layout          storage orders of A and B
    lda, ldb, ldc   elements between the lines of A, B, C; "dense" takes the line's length,
                    None (`?`) leaves it to run time. A dense leading dimension of a run-time
                    size is itself a run-time parameter.
    pointer_align   bytes that divide the addresses of A, B and C, as the size of their elements does anyway: a promise
                    of the caller
    ld_align        elements that divide every run-time leading dimension and stride: likewise
    batch           products; 1 is a plain GEMM, None (`?`) leaves their number to run time
    stride_a, ...   elements from one matrix of the batch to the next: "dense" is lines times leading dimension, 0 (of A
                    or B) shares one matrix, None leaves it to run time, as "dense" does where a size is left to it.
                    Lines of several matrices may interleave, and those of A or B overlap
    pointers        the kernel takes arrays of `batch` pointers, to each matrix A, B and C: a batch without strides.
                    Those to A and B may repeat and overlap; each is divisible by `pointer_align`
    types           element types of A, B and C, and what computes with them
    epilogue        what becomes of A * B. Vectors that it reads serve all products of a batch; groups have a row each
                    of those along N, and an element each of scale_b and zero_b. Of one with acc2, as "swiglu", B is
                    K x 2N: two matrices side by side; with acc3 K x 3N, with acc4 K x 4N
    ld_residual, stride_residual   of each matrix that it reads, as those of C
    inputs          how A and B are given: "scales=128+zeros" gives B's columns scales by groups of 128 along K,
                    "groups=8" gives each of 8 groups of rows a matrix B of its own, `stride_b` apart;
                    "groups=8+masked" and "groups=8+along_k" are batches of 8, which is what `batch` then says;
                    "gathered" takes rows of A by a vector of their numbers, "im2col=56x56x64_3x3" of images;
                    "scattered" stores rows of C by a vector of their numbers;
                    "im2col=56x56x64_3x3+wgrad" is the gradient of a convolution's filters, whose images B holds.
                    "blocks" gives A a scale of f32 for each 1 x 128 elements along K and B one for each 128 x 128;
                    "blocks+lines" gives B one for each 128 along K of a column
    typical         for what numbers the sizes left to run time, and their batch, are tuned and timed: (("M", 16),). The
                    kernel serves every other as well
    """

    def __init__(
        self,
        m: Size | str,
        n: Size | str,
        k: Size | str,
        dtype: DTypeGiven | None = None,
        layout: Layout | str = ROW_MAJOR,
        lda: Distance = "dense",
        ldb: Distance = "dense",
        ldc: Distance = "dense",
        pointer_align: int = POINTER_ALIGN,
        ld_align: int = LD_ALIGN,
        batch: Size = 1,
        stride_a: Distance = "dense",
        stride_b: Distance = "dense",
        stride_c: Distance = "dense",
        pointers: bool = False,
        types: Types | str | Sequence[DTypeGiven] = F32_TYPES,
        epilogue: Epilogue | str = LINEAR,
        ld_residual: Distance = "dense",
        stride_residual: Distance = "dense",
        typical: Mapping[str, int] | tuple[tuple[str, int], ...] = (),
        inputs: Inputs | str = PLAIN,
        compute: Compute | str | None = None,
    ) -> None:
        """Fields as above. Names do for what they name: layout "rc", types "s8,s8,s32", epilogue "bias+gelu"; typical
        takes {"M": 16}, sizes numpy's integers, and "?" for None. `dtype` is one element type for A, B and C: it goes
        before `types`. `compute` says how they are multiplied, as --compute does: "tf32" goes before what types say.
        Element types may be those of numpy, ml_dtypes, jax or torch: np.float32, (np.int8, np.int8, np.int32).

        Raises InvalidInput for what means nothing, for sizes outside 1 .. SIZE_LIMIT, for a leading dimension shorter
        than its line and for a stride at which matrices of C overlap.
        """
        require(pointers in (True, False), f"pointers = {pointers!r}: known are True and False")
        distances = {"lda": lda, "ldb": ldb, "ldc": ldc, "stride_a": stride_a, "stride_b": stride_b}
        distances |= {"stride_c": stride_c, "ld_residual": ld_residual, "stride_residual": stride_residual}
        fields = {
            "m": size_given("M", m),
            "n": size_given("N", n),
            "k": size_given("K", k),
            "batch": size_given("batch", batch),
            "types": types_given(types if dtype is None else Types.of(DType.of(dtype)), compute),
            "layout": record_given(Layout, layout),
            "pointer_align": whole("pointer_align", pointer_align),
            "ld_align": whole("ld_align", ld_align),
            "pointers": bool(pointers),
            "epilogue": epilogue if isinstance(epilogue, Epilogue) else parse_epilogue(str(epilogue)),
            "typical": typical_given(typical),
            "inputs": record_given(Inputs, inputs),
            **{name: distance_given(name, given) for name, given in distances.items()},
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if self.types.coded != self.inputs.coded:
            object.__setattr__(self, "types", replace(self.types, coded=self.inputs.coded))
        if self.inputs.own_c and self.batch == 1:
            object.__setattr__(self, "batch", self.inputs.groups)
        self._require_sizes()
        smallest = min(self.types.operands, key=lambda dtype: dtype.size)
        require_align("pointer_align", self.pointer_align, f"addresses of {smallest.label}", "bytes", smallest.size)
        require_align("ld_align", self.ld_align, "leading dimensions", "elements")
        self._require_operands()
        self._require_inputs()
        self._require_apart()
        require_typical(dict(self.typical), self.sizes)

    def _require_sizes(self) -> None:
        """Sizes are in range, leading dimensions hold their lines, and addresses do not overflow."""
        for name, size in (("M", self.m), ("N", self.n), ("K", self.k), ("batch", self.batch)):
            require(size is None or 1 <= size <= SIZE_LIMIT, f"{name} = {size}: a size is 1 to {SIZE_LIMIT}, or ?")
        for matrix in self.matrices:
            matrix.require_line(getattr(self, matrix.ld), self.sizes)
        for matrix in self.matrices:
            matrix.require_addressable(self.sizes)

    def _require_operands(self) -> None:
        """Of the epilogue: what is said of them exists, and kernels take it."""
        matrices = [operand.name for operand in self.epilogue.operands if operand.is_matrix]
        read = any(operand.is_matrix and not operand.written for operand in self.epilogue.operands)
        if self.types.scalar.is_integer:
            require_integers(self.epilogue)
        require(not (self.pointers and matrices), f"a batch of pointers has none to {', '.join(matrices)}")
        for name in ("ld_residual", "stride_residual"):
            given = getattr(self, name)
            require(
                given == "dense" or read,
                f"{name} = {given}, and the epilogue {self.epilogue} has no residual",
            )

    def _require_inputs(self) -> None:
        """The rest of the problem allows `inputs`."""
        self.inputs.require_types(self.types)
        if self.inputs.is_plain:
            return
        count, text = self.inputs.groups if self.inputs.own_c else 1, RUNTIME if self.batch is None else self.batch
        products = "one product" if count == 1 else f"{count} products"
        require(self.batch == count, f"inputs = {self.inputs} go with {products}, and batch = {text}")
        require(not self.pointers, f"inputs = {self.inputs} have no pointers to matrices")
        require(
            self.products == 1 or (self.inputs.row_groups > 0 and not (self.coded or self.inputs.blocks)),
            f"inputs = {self.inputs} go with one product, and {self.epilogue} takes {self.products}",
        )
        conv = self.inputs.conv
        by_rows, orders = self.inputs.by_rows, {"A": self.layout.a, "B": self.layout.b}
        require(
            orders.get(by_rows, "r") == "r",
            f"inputs = {self.inputs}: rows are those of a row-major {by_rows}, and layout = {self.layout}",
        )
        if conv is not None:
            name, size = ("N", self.n) if self.inputs.wgrad else ("K", self.k)
            require(size == conv.depth, f"{name} = {size}, and inputs = {self.inputs} have filters of {conv.depth}")
        summed = " and ".join((*self.epilogue.sums, *(one.name for one in self.epilogue.outputs)))
        require(not summed, f"inputs = {self.inputs}, and the epilogue {self.epilogue} takes {summed}")
        depth = self.inputs.along_k and self.epilogue.reads_depth
        require(
            not depth, f"inputs = {self.inputs} have a K for each group, and the epilogue {self.epilogue} takes one"
        )

    def _require_apart(self) -> None:
        """Strides serve batches, and no matrix of C shares an element with another."""
        require(self.batched or not self.pointers, "arrays of pointers serve a batch, and batch = 1")
        for matrix in self.matrices:
            given, groups = getattr(self, matrix.stride), self.inputs.groups
            what = RUNTIME if given is None else given
            known = matrix in self.strides or self.pointers or given == "dense"
            has = f"inputs = {self.inputs} have one {matrix.name}" if self.inputs.along_k else "batch = 1"
            require(known, f"{matrix.stride} = {what} serves a batch, and {has}")
            require(not self.pointers or given == "dense", f"{matrix.stride} = {what}: {NO_STRIDE}")
            matrix.require_apart(given, self.sizes, groups or self.batch)

    def __hash__(self) -> int:
        """Of the sizes alone, those it is tuned for included: a search hashes its problems often."""
        return hash((self.m, self.n, self.k, self.batch, self.typical))

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
        rows_a: int = 0,
        spare_c: int = 0,
    ) -> Case:
        """One launch of this problem. Sizes fixed here may be left out; run-time ones may not.

        A run-time leading dimension or stride that is left out is the shortest one that `ld_align` allows. In a batch
        of pointers products share `different_a` matrices A, in turn, likewise B; 0 gives each its own. An A whose rows
        are gathered has `rows_a` rows; 0 is as many as C. A C whose rows are scattered has `spare_c` rows more than M.
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
        values = {name: agreed(name, fixed, sizes[name]) for name, fixed in self.sizes.items()}
        for name in ("M", "N", "K", "batch") if self.batched else ("M", "N", "K"):
            require(values[name] is not None, f"{name} is a run-time size of this kernel: give it a value")
        size = {name: values[name] or 0 for name in ("M", "N", "K")}
        ld = {
            one.ld: self._pitch(one.ld, values[one.ld], max(1, one.extent(one.line, size) or 0))
            for one in self.matrices
        }
        steps = {
            one.stride: self._pitch(one.stride, values.get(one.stride), one.dense_stride({**size, **ld}) or 0)
            for one in (self.matrices if self.pointers else self.strides)
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
            rows_a=rows_a,
            spare_c=spare_c,
        )

    def _pitch(self, name: str, given: Size, least: int) -> int:
        """A leading dimension or stride: `given`, else the shortest one from `least` on that `ld_align` divides."""
        if given is None:
            return -(-least // self.ld_align) * self.ld_align
        if self.sizes[name] is None:
            require(given % self.ld_align == 0, f"{name} = {given} is no multiple of ld_align = {self.ld_align}")
        return given

    def __str__(self) -> str:
        batch = f" x {RUNTIME if self.batch is None else self.batch}" if self.batched and not self.inputs.own_c else ""
        batch += " by pointers" if self.pointers else ""
        epilogue = "" if self.epilogue.is_linear else f" {self.epilogue}"
        compute = "" if self.types.compute is Compute.FMA else f" {self.types.compute.label}"
        inputs = "" if self.inputs.is_plain else f" {self.inputs}"
        return f"{self.shape}{batch} {self.types}{compute} {self.layout}{inputs}{epilogue}"


@dataclass(frozen=True)
class Case:
    """One launch: a Problem with a number for every size, and the scalars.

    batch and strides are 1 and 0 where the problem has no batch. In a batch of pointers strides are those of Operands,
    and `different_a` counts the matrices A that its pointers name: 0 is one for each product. Likewise B. `rows_a` are
    the rows of an A whose rows are gathered: 0 is as many as C has. A C whose rows are scattered has M + `spare_c`.
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
    rows_a: int = 0
    spare_c: int = 0

    def __post_init__(self) -> None:
        require(self.batch >= 1, f"batch = {self.batch}: a launch needs at least one product")
        for name, different in (("different_a", self.different_a), ("different_b", self.different_b)):
            most = self.batch if self.problem.pointers else 0
            require(0 <= different <= most, f"{name} = {different}: of {self.batch} products at most {most} can differ")
        most = SIZE_LIMIT if self.problem.inputs.gathered else 0
        require(0 <= self.rows_a <= most, f"rows_a = {self.rows_a}: at most {most}")
        most = SIZE_LIMIT - self.m if self.problem.inputs.scattered else 0
        require(0 <= self.spare_c <= most, f"spare_c = {self.spare_c}: at most {most}")
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
        rows = {"A": self.rows_a or self.m, "C": self.m + self.spare_c}.get(sizes.name, self.m)
        count = {"M": rows, "N": self.n, "K": self.k}
        conv = self.problem.inputs.conv
        if conv is not None and sizes.channels:
            lines = conv.images(count[self.problem.inputs.places]) * conv.pixels
            return Matrix(lines, conv.size[2], getattr(self, sizes.ld), sizes.order, dtype=sizes.dtype)
        different = {"A": self.different_a, "B": self.different_b}.get(sizes.name) or None
        ld, stride = getattr(self, sizes.ld), getattr(self, sizes.stride)
        cols = sizes.beside * count[sizes.cols]
        batch, inputs = self._batch, self.problem.inputs
        if inputs.along_k and sizes not in self.problem.strides:
            batch = None
        elif inputs.groups and sizes.name == "B":
            batch = inputs.groups
        return Matrix(count[sizes.rows], cols, ld, sizes.order, batch, stride, different, sizes.dtype)

    @property
    def _batch(self) -> int | None:
        return self.batch if self.problem.batched else None

    @property
    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        return self.a, self.b, self.c

    @cached_property
    def extra(self) -> Mapping[str, Matrix]:
        """The companions of A and B, then the epilogue's operands, by name.

        A vector that is read serves all products; with groups each group may have one of its own.
        """
        beside = {one.name: self._companion(one) for one in self.problem.companions}
        matrices = {sizes.name: self._matrix(sizes) for sizes in self.problem.matrices[3:]}
        operands = self.problem.epilogue.operands
        return beside | {one.name: matrices[one.name] if one.is_matrix else self._vector(one) for one in operands}

    def _companion(self, one: Companion) -> Matrix:
        sizes = {"M": self.m, "N": self.n, "K": self.k}
        rows, pitch, batch = one.rows.count(sizes), one.pitch(sizes), one.matrices or None
        return Matrix(rows, one.cols.count(sizes), pitch, "r", batch, rows * pitch if batch else 0, dtype=one.dtype)

    def _vector(self, operand: Operand) -> Matrix:
        rows, cols = self.m if operand.along == "m" else 1, self.n if operand.along == "n" else 1
        groups = self.problem.groups_of(operand)
        apart = rows * cols if groups or (operand.is_amax and self.problem.batched) else 0
        return Matrix(rows, cols, cols, "r", groups or self._batch, apart, dtype=self.problem.dtype_of(operand.name))

    @property
    def read(self) -> dict[str, Matrix]:
        """Of these what the epilogue reads."""
        return {name: matrix for name, matrix in self.extra.items() if name in OPERANDS and not is_written(name)}

    @cached_property  # a situation asks dozens of times
    def tensors(self) -> Mapping[str, Matrix]:
        """A, B, C and the epilogue's operands, by name."""
        return {"A": self.a, "B": self.b, "C": self.c, **self.extra}

    @property
    def flops(self) -> int:
        products = 1 if self.problem.inputs.along_k else self.batch  # groups along K share it
        return 2 * self.m * self.n * self.k * products * self.problem.products

    @cached_property  # a prediction asks
    def bytes_moved(self) -> int:
        """The least traffic with device memory: operands read once, C written once (read with beta), pointers read."""
        c_passes = 2 if self.beta != 0 and self.problem.epilogue.reads_c else 1
        a, b, c = (matrix.stored.least_bytes for matrix in self.matrices)
        if self.m < self.problem.inputs.row_groups:  # so many of them have a row at most
            b = b * self.m // self.problem.inputs.row_groups
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
