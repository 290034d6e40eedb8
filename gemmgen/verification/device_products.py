"""Products that an executor computes faster than numpy, which checks a sample of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.run.executor import Operands
from gemmgen.support.threads import in_threads
from gemmgen.verification.companions import factor
from gemmgen.verification.data import make_operands
from gemmgen.verification.products import SLICE_RESIDUE, Products, of_factors, scaled_products_at
from gemmgen.verification.situation import EXACT_KINDS, Situation
from gemmgen.verification.tensor_bound import needs_largest

Doubles = npt.NDArray[np.float64]
Elements = npt.NDArray[Any]

SAMPLED = 256  # elements that numpy computes besides,
SAMPLED_PRODUCTS = 2**22  # and so many products in all: a second
PART = 2**17  # elements that a thread looks at


class Multiply(Protocol):
    """The signature of `multiply` of gemmgen.run.executor.LoadedKernel."""

    def __call__(
        self, case: Case, operands: Operands, *, seed: int, sizes: bool, largest: bool
    ) -> tuple[Doubles, Doubles, Doubles] | None: ...


def on_host(case: Case, operands: Operands, *, seed: int, sizes: bool, largest: bool) -> None:
    """Leave all products to numpy, by returning None."""


def products_by(multiply: Multiply, situation: Situation) -> Products | None:
    """The `products` of A and all columns of B, computed by `multiply`; None if that leaves them to numpy.

    numpy computes some elements as well, and all of them if one of these differs by more than both errors allow. The
    other elements are compared with a kernel that shares no code with `multiply`, so an error in them makes a right
    kernel fail but lets no wrong one pass.
    """
    case, operands = situation.case, make_operands(situation)
    types, parts = case.problem.types, case.problem.scaled_depth > 0
    if not case.problem.one_product or (parts and situation.data == "special"):  # numpy knows which sums are in doubt
        return None
    sizes, wanted = situation.data not in EXACT_KINDS and not types.accumulator.is_integer, needs_largest(types)
    made = multiply(case, operands, seed=situation.seed, sizes=sizes, largest=wanted and parts)
    if made is None:
        return None
    product, size, of_parts = made
    if types.accumulator.is_integer:
        product = size = _wrapped(types.accumulator, product)
    if differs(situation, product):
        warnings.warn(f"{situation}: the executor's product is not numpy's, which counts", stacklevel=2)
        return None
    largest = np.zeros((1, 1)) if not wanted else of_parts if parts else _largest_products(case, operands)
    return product, np.abs(size) if types.accumulator.is_integer else size, largest


def differs(situation: Situation, product: Doubles) -> bool:
    """Whether a sample of the elements of `product` differs from numpy's by more than both errors allow."""
    count = samples(situation.case)
    at = tuple(np.random.default_rng(situation.seed).integers(0, size, count) for size in product.shape)
    wanted, size, largest = products_at(situation, at)
    got, sums = product[at], situation.case.problem.types.accumulator
    with np.errstate(invalid="ignore"):
        near = np.abs(got - wanted) <= allowed(sums, situation.case.k, size, largest)
    return not bool((near | (got == wanted) | np.isnan(got) & np.isnan(wanted)).all())


def samples(case: Case) -> int:
    """The number of elements that numpy computes as well."""
    return max(1, min(SAMPLED, SAMPLED_PRODUCTS // max(case.k, 1)))


def products_at(situation: Situation, at: tuple[npt.NDArray[np.int64], ...]) -> Products:
    """Return the `products` of some elements, by numpy; the last index of `at` is a column of B."""
    case, operands = situation.case, make_operands(situation)
    if not case.problem.inputs.is_plain:
        return scaled_products_at(case, operands, at, situation.data)
    of_a, of_b = (*at[:-2], at[-2]), (*at[:-2], at[-1])
    a = case.a.dtype.decode(case.a.view(operands.a)[of_a])[:, None, :]
    b = case.b.dtype.decode(np.swapaxes(case.b.view(operands.b), -1, -2)[of_b])[:, :, None]
    product, size, largest = of_factors(a, b, case.problem.types, situation.data)
    return product.ravel(), size.ravel(), largest.ravel()


def allowed(sums: DType, k: int, size: Doubles, largest: Doubles) -> Doubles | float:
    """The largest difference between two right products, both summed in float64 or, for f64, in twice as many bits."""
    if sums.is_integer:
        return 0.0
    unit = DType.F64.unit_roundoff
    if sums is not DType.F64:
        return 2 * k * unit * size
    return 8 * unit * size + k * (SLICE_RESIDUE * largest + DType.F64.smallest)


def _wrapped(dtype: DType, product: Doubles) -> Doubles:
    wrapped = np.empty_like(product)

    def wrap(part: slice) -> None:
        wrapped[part] = dtype.wrap(product[part].astype(np.int64))

    in_threads(wrap, _parts(product))
    return wrapped


def _largest_products(case: Case, operands: Operands) -> Doubles:
    """For each element of C, the largest finite |A| of its row times the largest finite |B| of its column."""
    a, b = case.a.view(operands.a), np.swapaxes(case.b.view(operands.b), -1, -2)
    of_a = _largest_of_lines(a, lambda part: case.a.dtype.decode(a[part]))
    if case.problem.inputs.is_plain:
        of_b = _largest_of_lines(b, lambda part: case.b.dtype.decode(b[part]))
    else:
        of_b = _largest_of_lines(b, lambda part: factor(case, operands, "B", (slice(None), part)).T)
    return np.asarray(of_a * np.swapaxes(of_b, -1, -2))


def _largest_of_lines(lines: Elements, decode: Callable[[slice], Doubles]) -> Doubles:
    """The largest finite magnitude of each of the `lines`, which `decode` decodes part by part."""
    largest = np.zeros((*lines.shape[:-1], 1))

    def find(part: slice) -> None:
        magnitudes = np.abs(decode(part))
        magnitudes[~np.isfinite(magnitudes)] = 0.0
        largest[part] = magnitudes.max(axis=-1, keepdims=True, initial=0.0)

    in_threads(find, _parts(lines))
    return largest


def _parts(values: Elements) -> list[slice]:
    """Slices that divide `values` along the first axis into parts."""
    step = max(1, PART * len(values) // max(1, values.size))
    return [slice(first, first + step) for first in range(0, len(values), step)]
