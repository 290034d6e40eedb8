"""The suite's libraries: products with run-time M, the values of M at which each is timed, and their goals.

The values were drawn once, by the draw that tests/host/test_runtime_m.py repeats, and have been fixed since. A library
is made without knowing them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmgen.exports.library.sizes import SizeRange
from gemmgen.exports.library.spec import Product
from gemmgen.lab.tensor_shapes import BF16, F16, FAST, SCALED_S8
from gemmgen.problem.epilogue import LINEAR, parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.support.errors import require

RUNTIME_M = "run-time M"  # the group's name
MOST = 8192


@dataclass(frozen=True)
class Band:
    """Values of M that were drawn in one way, which `title` names."""

    name: str
    title: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Reach:
    """Values of M up to `most`, and the goal for the geometric mean of cuBLASLt's time over ours."""

    name: str
    most: int
    goal: float


BANDS = (
    Band(
        "log-uniform",
        "log-uniform in 1..8192",
        (1, 2, 3, 8, 10, 49, 55, 57, 87, 131, 355, 666, 962, 975, 1221, 1865, 2072, 3370, 4734, 5003),
    ),
    Band(
        "64j + 1..8",
        "64j + 1 to 64j + 8, which leave the last tile nearly empty, with j log-uniform",
        (71, 136, 194, 196, 199, 326, 386, 450, 513, 519, 579, 706, 902, 966, 1089, 1096, 1667, 1992, 3845, 4097),
    ),
    Band(
        "uniform",
        "uniform in 512..8192",
        (
            *(739, 846, 1820, 3390, 3532, 3535, 3883, 4273, 4369, 4417),
            *(4513, 4656, 5068, 5692, 5914, 6430, 6491, 7119, 8055, 8063),
        ),
    ),
)
VALUES = tuple(sorted(value for band in BANDS for value in band.values))
REACHES = (Reach("M <= 64", 64, 1.2), Reach("65..512", 512, 1.05), Reach("M > 512", MOST, 1.0))
LEAST, FIFTH = 0.93, 0.97  # cuBLASLt's time over ours: at every M, and at the 5th percentile
MOST_REGRET = 0.03  # at the 95th percentile: time over that of the fastest candidate, less 1


def _product(name: str, types: Types, layout: str, n: int, k: int, epilogue: str = str(LINEAR)) -> Product:
    sizes = SizeRange(least=1, most=MOST), SizeRange((n,)), SizeRange((k,))
    return Product(name, types, Layout.parse(layout), *sizes, epilogue=parse_epilogue(epilogue))


BF16_WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (2112, 7168), (151936, 2560))
SCALED = "scale_m+scale_n"
PRODUCTS = (
    *(_product(f"bf16_rc_{n}x{k}", BF16, "rc", n, k) for n, k in BF16_WEIGHTS),
    _product("f16_rr_4096x4096", F16, "rr", 4096, 4096),
    # Fast, not promoted: this is what PyTorch's `_scaled_mm` computes with `use_fast_accum`, and the baseline sums
    # likewise (FAST_ACCUM).
    _product("e4m3_fast_rc_4096x4096_scaled", FAST, "rc", 4096, 4096, SCALED),
    _product("s8_rc_4096x4096_scaled", SCALED_S8, "rc", 4096, 4096, SCALED),
)


def band_of(m: int) -> Band:
    return next(band for band in BANDS if m in band.values)


def reach_of(m: int) -> Reach:
    return next(reach for reach in REACHES if m <= reach.most)


def problem_of(product: Product) -> Problem:
    """The problem that stands for a product in tables: "?x4096x4096 bf16 rc"."""
    n, k = product.n.listed[0], product.k.listed[0]
    return Problem(None, n, k, types=product.types, layout=product.layout, epilogue=product.epilogue)


def chosen(only: Sequence[str], part: tuple[int, int] = (1, 1)) -> tuple[Product, ...]:
    """The products with one of `only` in their name or problem, and of these part I of N. Without `only` it is all.

    Raises InvalidInput for an invalid part.
    """
    index, parts = part
    require(1 <= index <= parts, f"part {index} of {parts}: write I/N with I from 1 to N")
    texts = ((one, f"{one.name} {problem_of(one)}") for one in PRODUCTS)
    return tuple(one for one, text in texts if not only or any(word in text for word in only))[index - 1 :: parts]
