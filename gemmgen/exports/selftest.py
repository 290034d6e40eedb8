"""The data and bounds of the exported self-test, as in gemmgen's own verifier. Values only, no code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import sqrt

from gemmgen.exports.interface import Interface
from gemmgen.kernel.contract import Contract
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import Epilogue
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.types import Types
from gemmgen.render.epilogue_text import ReferenceText, reference_text
from gemmgen.verification.data import SUMS, ZEROS
from gemmgen.verification.magnitudes import LARGEST_INTEGER, exact_bits
from gemmgen.verification.situation import FACTORS
from gemmgen.verification.tensor_bound import LAMBDA, Allowance, allowance

BUDGET_BITS = 30  # multiply-adds of a check's reference, as a power of two: a second or two of the host
CONVERTED_BUDGET_BITS = 28  # likewise of 16-bit and 8-bit floats
SPARSE_TERMS = 8
SCALARS = ((1, 0), (3, -2))  # alpha, beta
EXACT_SCALES = 3  # in exact data: 1, 2 and 4
# The generators of these tensors.
DRAWN = {"offs": "ends", "group_rows": "counts", "index_a": "index", "index_c": "place"}


@dataclass(frozen=True)
class SelfTest:
    """The self-test of a kernel with the interface `out`, as its templates see it."""

    out: Interface
    scalars = SCALARS
    exact_scales = EXACT_SCALES
    bound_lambda = LAMBDA

    @property
    def types(self) -> Types:
        return self.out.types

    @property
    def epilogue(self) -> Epilogue:
        return self.out.epilogue

    @cached_property
    def shapes(self) -> tuple[Case, ...]:
        return tuple(dict.fromkeys(_shapes(self.out.source.contract)))

    @property
    def shape_fields(self) -> tuple[str, ...]:
        """Sizes and leading dimensions of a shape."""
        return ("M", "N", "K", *self.out.problem.line_sizes, *(("batch",) if self.out.problem.batched else ()))

    @property
    def shape_strides(self) -> tuple[str, ...]:
        """The strides of a shape."""
        problem = self.out.problem
        return tuple(problem.stride_sizes if problem.batched else (one.stride for one in problem.strides))

    @property
    def groups(self) -> int:
        """The number of groups of rows; 0: all rows use one B. Matrices B are drawn as one, in which they lie side by
        side."""
        return self.out.problem.inputs.row_groups

    @property
    def images(self) -> Convolution | None:
        """The convolution whose images A or B holds; None: both are matrices."""
        return self.out.problem.inputs.conv

    @property
    def rows_of_a(self) -> str:
        """The number of rows of A: other than of C where an index names them."""
        return "s.M / 2 + 3" if self.out.problem.inputs.gathered else "s.M"

    @property
    def rows_of_c(self) -> str:
        """The number of rows of C: more than of the product where an index names them."""
        return "s.M + 7" if self.out.problem.inputs.scattered else "s.M"

    @property
    def leaves_rows(self) -> bool:
        """Whether some rows of C may keep their values."""
        return self.out.problem.inputs.leaves_rows

    @property
    def own_ab(self) -> bool:
        """Whether products have an A and a B each; else one of each serves all of them."""
        return not self.out.problem.inputs.along_k

    @cached_property
    def chosen(self) -> dict[str, tuple[str, ...]]:
        """The further fields of a shape in C++, beside its sizes: the values by the field's name, in the order of
        shapes."""
        made: list[tuple[str, Callable[[Case], object], bool]] = [
            ("reach", self._reach, not self.scalar.is_integer),
            ("terms", self._terms, self.sparse),
            ("apart", self._apart, self.samples),
        ]
        return {name: tuple(str(of(case)) for case in self.shapes) for name, of, has in made if has}

    @property
    def numbers(self) -> tuple[str, ...]:
        """The launcher's arguments in a check that are not addresses."""
        return (*self.shape_fields, *self.shape_strides, "alpha", "beta")

    @property
    def stored(self) -> list[tuple[str, list[str]]]:
        """The tensors in order; neighbours of the same C++ class are grouped."""
        return [(one, [*names]) for one, names in groupby(self.out.tensors, key=self._held)]

    def _held(self, name: str) -> str:
        """The C++ class of a tensor's elements as they lie in memory."""
        halves = self.out.problem.dtype_of(name).storage_bits < 8
        return "Codes" if halves else f"Storage<{self.out.element[name]}>"

    @property
    def codes(self) -> bool:
        """Whether B has codes, which stand for numbers of A's type."""
        return self.out.coded

    @property
    def sums(self) -> DType:
        return self.types.accumulator

    @property
    def scalar(self) -> DType:
        return self.types.scalar

    @property
    def wide(self) -> str:
        """The C++ type of the reference; float64 holds sums of integers exactly before they wrap around."""
        return "long double" if self.sums == DType.F64 else "double"

    @property
    def value(self) -> str:
        """The C++ class of the epilogue's values."""
        return "Integer" if self.scalar.is_integer else "Bounded"

    @property
    def digits(self) -> int:
        """Decimal digits that distinguish any two results."""
        return {DType.F64: 17, DType.S32: 10}.get(self.scalar, 9)

    @cached_property
    def tensor(self) -> Allowance | None:
        """The further error bound of tensor cores' sums, for the numbers that the test draws: none is below 2^-110."""
        return None if self.types.compute.pieces else allowance(self.types)

    @property
    def budget_bits(self) -> int:
        return CONVERTED_BUDGET_BITS if self.out.cuda_elements else BUDGET_BITS

    @cached_property
    def reference(self) -> ReferenceText:
        short = self.out.problem.short_results
        return reference_text(self.epilogue, self.sums.is_integer, self.scalar.is_integer, short)

    @property
    def linear(self) -> bool:
        """Whether the epilogue is the linear one, on floats, which needs no arithmetic of its own."""
        return self.epilogue.is_linear and not self.sums.is_integer

    @property
    def filler(self) -> str:
        """The values of bytes of ones in the types of the tensors."""
        integers = [self.out.problem.dtype_of(name).is_integer for name in self.out.tensors]
        if all(integers):
            return "-1"
        return "NaN, in integers -1," if any(integers) else "NaN"

    @property
    def outputs(self) -> tuple[str, ...]:
        """C, and the other outputs of the epilogue."""
        return ("C", *(operand.name for operand in self.epilogue.outputs))

    @property
    def samples(self) -> bool:
        """Whether a shape is so large that the reference computes only some of its rows."""
        return any(self._is_large(case) for case in self.shapes)

    def _is_large(self, case: Case) -> bool:
        return bool(case.batch * case.m * case.n * max(1, case.k) > 2**self.budget_bits)

    @property
    def sums_all(self) -> bool:
        """Whether weighted sums of the rows without a reference show every wrong element: C holds the linear epilogue's
        value of acc, and there are no groups."""
        grouped = self.out.problem.inputs.groups > 0
        return self.samples and self.epilogue.is_linear and self.types.c == self.scalar and not grouped

    @property
    def sparse(self) -> bool:
        """Whether A of large exact shapes is sparse: that gives every element a reference if sums of rows do not
        apply."""
        return self.samples and not self.sums_all and not self.scalar.is_integer

    def _terms(self, case: Case) -> int:
        """Products per element of C in exact data."""
        return min(SPARSE_TERMS, case.k) if self.sparse and self._is_large(case) else case.k

    def _reach(self, case: Case) -> int:
        """The largest integer of A and B in exact checks: |alpha K reach^2| + |beta reach| stays below 2^exact_bits.

        A sum of random signs is near sqrt(K), far below that bound, so most results also stay in the range of C's
        elements.
        """
        terms = self._terms(case)
        products = [2**self.exact_bits / (alpha * max(1, terms) + abs(beta)) for alpha, beta in SCALARS]
        if self.types.c.largest < 2**self.exact_bits:
            products += [self._largest / (2 * alpha * sqrt(terms + 1)) for alpha, _ in SCALARS]
        scales = 4.0 ** (EXACT_SCALES - 1) if self.out.problem.inputs.blocks else 1.0  # of both operands
        reach = min(products) / self._largest_scaled if self.codes else sqrt(min(products) / scales)
        return int(min(max(reach, 1), self.largest_integer))

    @property
    def _largest_scaled(self) -> float:
        """The largest number that a code stands for in exact data."""
        return float(2 ** (EXACT_SCALES - 1) * (self.types.b.largest - self.types.b.least))

    def _apart(self, case: Case) -> str:
        """The distance between rows that are checked, for random data and, if these are sparse, for exact data.

        1 if the budget allows that, else an odd number, which finds each place in a tile.
        """
        rows = case.batch * case.m * case.n
        costs = [rows * max(1, terms) / 2**self.budget_bits for terms in (case.k, self._terms(case))]
        apart = [1 if cost <= 1 else int(cost) | 1 for cost in costs]
        return f"{{{apart[0]}, {apart[1]}}}" if self.sparse else str(apart[0])

    @property
    def exact_bits(self) -> int:
        """The exponent below which sums of integers are exact, even when they are scaled."""
        return min(exact_bits(self.types), self.scalar.precision)

    @property
    def largest_integer(self) -> int:
        """The largest integer of exact data that A and B can hold; codes are drawn otherwise."""
        return min(LARGEST_INTEGER, *(one.exact_integers for one in self.types.factors))

    @property
    def _largest(self) -> float:
        """The largest sum for an element of C: an epilogue may multiply all of its sums."""
        return float(self.types.c.largest ** (1 / self.out.problem.products))

    @property
    def into_range(self) -> tuple[float, float, float] | None:
        """The largest sum and A's and B's typical elements, if results saturate and can be scaled; else None."""
        if self.scalar.is_integer or not self.types.c.saturates or self.ranged is None:
            return None
        a, b = (dtype.largest / 2 if dtype.is_integer else 1.0 for dtype in (self.types.a, self.types.b))
        return self._largest, a, b

    @property
    def ranged(self) -> str | None:
        """The factor that brings results into C's range: the first scale, else alpha; None without either."""
        factors = (*(name for name in FACTORS if name in self.out.extra), *self.epilogue.scalars[:1])
        return next((name for name in factors if name != "beta"), None)

    @cached_property
    def draws(self) -> dict[str, str]:
        """The name of the template's generator for each tensor's elements."""
        return {name: self._draw(name, self.out.problem.dtype_of(name)) for name in self.out.tensors}

    def _draw(self, name: str, dtype: DType) -> str:
        if name in ZEROS or name in SUMS:
            return "zero_point" if name in ZEROS else "given_sum"
        if dtype.is_integer:
            return DRAWN.get(name, f"value_{dtype.label}")
        if name in self.out.companions:
            return "scale"
        if name in FACTORS:
            return "ranged_factor" if name == self.ranged and self.into_range else "factor"
        if name in self.outputs:
            return "before" if name == "C" else "unwritten"
        return "value"

    @property
    def drawn(self) -> frozenset[str]:
        return frozenset(self.draws.values())

    @property
    def draws_integers(self) -> bool:
        """Whether it draws integers around 0."""
        always, exact = {"zero_point", "given_sum"}, {"value", "before", "value_s8"}
        return bool(self.drawn & (always if self.scalar.is_integer else always | exact))

    @property
    def draws_uniform(self) -> bool:
        """Whether it draws from [-1, 1)."""
        return bool(self.drawn & {"value", "before", "factor", "ranged_factor", "scale"})


BATCH = 5  # products, where their number is free
PADDING = 3  # in units of ld_align: odd, so that padded lines lose every alignment beyond the promised one


def _shapes(contract: Contract) -> Iterator[Case]:
    """Yield the shapes: the kernel's own and, for run-time sizes, those that often break kernels.

    Only sizes and leading dimensions differ; the self-test chooses data and scalars.
    """
    tile = dict(contract.launch.grid)
    tile_m, tile_n = tile.get("M", 1), tile.get("N", 1)
    another = [*_of_two_images(contract.problem, tile_m, tile_n)]
    for m, n, k in (
        (1, 1, 1),
        (2 * tile_m, 2 * tile_n, 64),  # whole tiles
        (tile_m + 1, 2 * tile_n - 1, 37),  # just past a tile, just short of one
        (3, tile_n + 5, 257),
        (9 * tile_m + 2, 3, 5),  # rows enough for a second raster group
        (tile_m, tile_n, 0),  # beta * C
        *another,
    ):
        dense = _case(contract.problem, m, n, k)
        yield dense
        yield _padded(dense)


def _of_two_images(problem: Problem, tile_m: int, tile_n: int) -> Iterator[tuple[int, int, int]]:
    """M, N and K of a shape with a tile, or a sum, of places of two images, of which the second one has more."""
    conv = problem.inputs.conv
    if conv is None:
        return
    gradient = problem.inputs.wgrad
    yield (tile_m, tile_n, conv.per_image + 5) if gradient else (conv.per_image + tile_m // 2 + 1, tile_n, 0)


def _case(problem: Problem, m: int, n: int, k: int) -> Case:
    """The case with m, n and k where the problem leaves them to run time."""
    case = problem.case(
        m=m if problem.m is None else None,
        n=n if problem.n is None else None,
        k=k if problem.k is None else None,
        batch=BATCH if problem.batch is None else None,
    )
    return _behind_pointers(case) if problem.pointers else case


def _padded(dense: Case) -> Case:
    """`dense` with longer lines, if their distance is a run-time parameter. Products share B."""
    problem = dense.problem
    extra = PADDING * problem.ld_align

    def longer(name: str, ld: int) -> int | None:
        return ld + extra if name in problem.runtime_names else None

    padded = problem.case(
        m=dense.m,
        n=dense.n,
        k=dense.k,
        lda=longer("lda", dense.lda),
        ldb=longer("ldb", dense.ldb),
        ldc=longer("ldc", dense.ldc),
        ld_residual=longer("ld_residual", dense.ld_residual),
        batch=dense.batch,
    )
    if problem.pointers:
        return replace(_behind_pointers(padded), stride_b=0)
    sizes = {name: getattr(padded, name) for name in ("m", "n", "k", *problem.line_sizes, "batch")}
    return problem.case(**sizes, **_strides(padded))


def _strides(case: Case) -> dict[str, int]:
    """Larger strides for matrices, if they are run-time parameters; all products share B, and those of groups lie side
    by side."""
    extra = PADDING * case.problem.ld_align
    strides = {name: getattr(case, name) + extra for name in case.problem.stride_sizes}
    strides["stride_b"] = case.b.lines * case.ldb if case.problem.inputs.row_groups else 0
    return {name: stride for name, stride in strides.items() if name in case.problem.runtime_names}


def _behind_pointers(case: Case) -> Case:
    """`case` with strides for matrices that pointers name: gaps between them, and each aligned as promised."""
    problem = case.problem
    units = (problem.align_of(name) // problem.dtype_of(name).size for name in "ABC")
    a, b, c = (-(-(matrix.span + PADDING) // unit) * unit for matrix, unit in zip(case.matrices, units, strict=True))
    return replace(case, stride_a=a, stride_b=b, stride_c=c)
