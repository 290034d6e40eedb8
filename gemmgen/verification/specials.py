"""Puts NaN, Inf and zeros into operands, and tiny numbers where Inf meets them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gemmgen.problem.convolution import Convolution
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.run.executor import Floats
from gemmgen.verification.situation import SIDES, Side, data_kinds

SPECIALS = (np.inf, -np.inf, np.nan, 0.0, -0.0)
MOST_SPECIALS = 64  # at most one element in 64 is special; fewer with a long K, so that many sums stay finite:
SUMS_WITHOUT = 4  # about one sum in 4 meets a special element of A, or of B
OPPOSED_LINES = 4  # one row of A, or column of B, in 4 has an Inf that meets zeros,
OPPOSED_PRODUCTS = 2**22  # as long as these rows have no more elements of C than this
STRIPS = ("tiny", "0", "0")  # contents of strips of the other operand that meet some of these Inf
OPPOSED_SHARE = 0.25  # share of zeros among the elements that meet such an Inf; at least one
TINY_FLOPS = 1e7  # larger launches have no denormal numbers in their strips


def representable(values: tuple[float, ...], dtype: DType) -> Floats:
    """The `values` that `dtype` can represent."""
    return np.array([x for x in values if dtype.has_infinity or not math.isinf(x)])


def finish_images(conv: Convolution, pixels: Floats, places: int) -> None:
    """Make numbers of the pixels of an image in which the places end: zeros multiply them, too."""
    whole = places // (conv.places[0] * conv.places[1])
    rest = pixels[whole * conv.pixels :]
    rest[~np.isfinite(rest.astype(np.float32))] = 0


def strew_specials(name: str, values: Floats, case: Case, rng: np.random.Generator) -> None:
    """Put NaN, Inf and zeros into some places of `values`."""
    known = representable(SPECIALS, case.tensors[name].dtype)
    if name in SIDES:
        count = values.size // max(MOST_SPECIALS, SUMS_WITHOUT * case.k)
    else:
        count = 1 + values.size // MOST_SPECIALS
    places = rng.integers(0, values.shape, (count, values.ndim))
    values[tuple(places.T)] = rng.choice(known, count).astype(values.dtype)


def oppose(case: Case, storage: Mapping[str, Floats], side: Side, rng: np.random.Generator) -> None:
    """Put one or two Inf into some rows of A, or columns of B, and zeros that meet them into the other operand.

    So most tiles have a product of 0 and Inf, and a sum of Inf and -Inf. Whole strips of the other operand are also
    tiny or 0, and meet Inf: this finds kernels that skip fragments of zeros or flush tiny numbers.
    """
    a, b = (case.tensors[name].stored.view(storage[name]) for name in SIDES)
    lines, others = (a, b) if side == "A" else (b.swapaxes(-1, -2), a.swapaxes(-1, -2))
    if not case.tensors[side].dtype.has_infinity:
        return
    count, width = lines.shape[-2], others.shape[-1]
    chosen = rng.choice(count, min(count, 1 + count // OPPOSED_LINES, 1 + OPPOSED_PRODUCTS // width), replace=False)
    first, second = rng.integers(0, case.k, (2, len(chosen)))
    strips = [_strip(case.k, width, rng) for _ in STRIPS]
    for place, (start, stop, *_) in enumerate(strips):  # some Inf meet a strip for certain
        first[place :: len(strips) + 1] = rng.integers(start, stop, len(first[place :: len(strips) + 1]))
    lines[..., chosen, first] = np.inf
    lines[..., chosen[::2], second[::2]] = -np.inf
    for (start, stop, left, right), held in zip(strips, STRIPS, strict=True):
        strip = others[..., start:stop, left:right]
        strip[...] = _tiny(case, SIDES[side == "A"], strip.shape, rng) if held == "tiny" else 0
    meets = rng.random((len(chosen), width), np.float32) < OPPOSED_SHARE
    meets[np.arange(len(chosen)), rng.integers(0, width, len(chosen))] = True
    of_line, met = np.nonzero(meets)
    others[..., first[of_line], met] = 0


def _strip(depth: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """(first k, end, first column, end) of a strip that covers all of K or all columns."""
    return (0, depth, *_interval(width, rng)) if rng.integers(2) else (*_interval(depth, rng), 0, width)


def _interval(size: int, rng: np.random.Generator) -> tuple[int, int]:
    first, last = np.sort(rng.integers(0, size, 2))
    return int(first), int(last) + 1


def _tiny(case: Case, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Powers of two of either sign, from the smallest number of the type on that products do not flush.

    Launches beyond TINY_FLOPS get no denormal ones.
    """
    dtype, types = case.tensors[name].dtype, case.problem.types
    if dtype.is_integer:
        return np.ones(shape)
    denormal = case.flops <= TINY_FLOPS and "denormal" in data_kinds(types)
    least = dtype.smallest if denormal else 2.0**dtype.min_exponent
    tiny: Floats = np.ldexp(rng.choice((least, -least), shape), rng.integers(0, dtype.precision, shape))
    return tiny
