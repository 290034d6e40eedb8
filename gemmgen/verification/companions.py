"""Test data of the companions of A and B (see `gemmgen.problem.inputs`), and the numbers that A and B stand for.

Each group along K, block and group of rows has its own numbers, so that a kernel that uses another one's is wrong.
Groups of rows may be empty, have as many rows as a tile or one more, or have all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.convolution import Convolution
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.inputs import BLOCK
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.types import Types
from gemmgen.run.executor import Floats, Operands
from gemmgen.verification.situation import EXACT_KINDS, DataKind, Side
from gemmgen.verification.window import Window

Doubles = npt.NDArray[np.float64]
Index = tuple[slice, ...]
Places = npt.NDArray[np.int64]

EXACT_SCALES = (1.0, 2.0, 4.0, -1.0)  # times a difference of two codes they are numbers of all types of A
SPREAD = 4  # scales of sparse data span 2^-4 to 2^4
SPECIALS = (np.inf, -np.inf, np.nan, 0.0)
MOST_SPECIALS = 64  # at most one scale in 64 is special, and fewer where a column has many, so that some stay finite
GROUP_ROWS = (0, 0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 64, 129)  # of a group
GROUP_DEPTHS = (0, 0, 1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 67)  # of a group along K
CODES = 1_048_573  # different ones: a prime number below 2^20, so that no line has the codes of another
CODE_MULTIPLIER = 0x9E3779B1 % 2**20  # odd, so that no two of 2^20 numbers have the same product modulo 2^20
COLUMNS = 4  # about one column in 4 has such a scale


@dataclass(frozen=True)
class Wanted:
    """Properties of the numbers that B stands for, and of scales.

    selects   B is one-hot, or sparse: all but `chosen` elements of a column are 0
    chosen    number of nonzero elements of a sparse column
    one_sign  no number is negative
    exact     the largest difference between a code and its zero point that keeps sums exact
    size      magnitude of the largest random numbers
    """

    data: DataKind
    selects: bool
    chosen: int
    one_sign: bool
    exact: int
    size: float


def draw_companions(case: Case, wanted: Wanted, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """Values of the companions by name, and the codes of B where it has scales."""
    inputs = case.problem.inputs
    found: dict[str, npt.NDArray[Any]] = {}
    if inputs.masked:
        return {"group_rows": _rows(case, rng)[None]}
    if inputs.along_k:
        return {"offs": _ends(case.k, inputs.groups, GROUP_DEPTHS, rng)[None]}
    if inputs.blocks:
        found = {name: _block_scales(case.extra[name], wanted, rng) for name in ("scales_a", "scales_b")}
    rows = case.m
    if inputs.groups:
        found["offs"] = _ends(case.m, inputs.groups, GROUP_ROWS, rng)[None]
        rows = int(found["offs"][0, -1])
    if inputs.gathered:
        found["index_a"] = _index(case, rows, rng)[None]
    if inputs.scattered:
        found["index_c"] = _places(case, rows, rng)[None]
    return found | (_draw_scaled(case, wanted, rng) if case.problem.coded else {})


def _block_scales(matrix: Matrix, wanted: Wanted, rng: np.random.Generator) -> Doubles:
    shape = _shape(matrix)
    if wanted.data in EXACT_KINDS:
        return rng.choice(EXACT_SCALES, shape)
    exponents = rng.integers(-SPREAD, SPREAD + 1, shape)
    values = wanted.size * np.ldexp(1 - rng.random(shape) / 2, exponents)
    if not wanted.one_sign:
        values *= rng.choice((-1, 1), shape)
    if wanted.data == "special":
        count = values.size // max(MOST_SPECIALS, COLUMNS * min(shape[-2:]))
        values[tuple(rng.integers(0, shape, (count, len(shape))).T)] = rng.choice(SPECIALS, count)
    return values


def _shape(matrix: Matrix) -> tuple[int, ...]:
    """That of its view: with groups of rows theirs come first."""
    return (*([matrix.batch] if matrix.batch else []), matrix.rows, matrix.cols)


def scales_of_sums(
    case: Case, operands: Operands, rows: slice | Places, columns: Places, group: int | None = None
) -> Iterator[tuple[Doubles, slice]]:
    """(scale of each element of these rows and columns, range of K) for each of the sums along K that have a scale.

    The rows are of one `group`; None where all rows use one B.
    """
    depth = case.problem.scaled_depth
    parts = [slice(first, min(first + depth, case.k)) for first in range(0, case.k, depth)]
    if not case.problem.inputs.blocks:
        of_b = case.extra["scales_b"].dtype.decode(case.extra["scales_b"].view(operands.extra["scales_b"]))
        of_b, groups = of_b if group is None else of_b[group], group_of(case)
        yield from ((of_b[groups[part.start], columns][None, :], part) for part in parts)
        return
    of_a, of_b = (DType.F32.decode(case.extra[name].view(operands.extra[name])) for name in ("scales_a", "scales_b"))
    of_b = of_b if group is None else of_b[group]
    if case.problem.inputs.lines:
        of_b = of_b.T
    blocks = columns // (1 if case.problem.inputs.lines else BLOCK)
    for block, part in enumerate(parts):
        with np.errstate(invalid="ignore", over="ignore"):
            scale = DType.F32.nearest(of_a[block, rows][:, None] * of_b[blocks, block])
        yield scale, part


def _index(case: Case, rows: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Rows of A in any order, the last one among them; -1 for rows of C that are not computed."""
    index = rng.integers(0, case.a.rows, case.m)
    if rows:
        index[rng.integers(rows)] = case.a.rows - 1
    index[rows:] = -1
    return index


def _places(case: Case, rows: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Different rows of C in any order, the last one among them; -1 for rows that are not computed."""
    index = rng.permutation(case.c.rows)[: case.m]
    if rows and case.c.rows - 1 not in index[:rows]:
        index[rng.integers(rows)] = case.c.rows - 1
    index[rows:] = -1
    return index


def _ends(most: int, count: int, sizes: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Ends of groups of rows, or along K. The last one may leave some that belong to no group."""
    kind = rng.integers(4)
    if kind == 0:  # anywhere
        return np.sort(rng.integers(0, most + 1, count))
    if kind == 1:  # one group has all, or none has any
        return np.where(np.arange(count) < rng.integers(0, count + 1), 0, most)
    ends = np.minimum(np.cumsum(rng.choice(sizes, count)), most)
    return np.where(np.arange(count) == count - 1, most, ends) if kind == 2 else ends


def _rows(case: Case, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """The number of rows of each masked group that count."""
    count, kind = case.problem.inputs.groups, rng.integers(4)
    if kind == 0:  # any
        return rng.integers(0, case.m + 1, count)
    if kind == 1:  # one group has all its rows, others none
        return np.where(np.arange(count) == rng.integers(count), case.m, 0)
    found = np.minimum(rng.choice(GROUP_ROWS, count), case.m)
    return np.where(rng.random(count) < 0.5, case.m, found) if kind == 2 else found


def without_effect(case: Case, companions: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.bool_]]:
    """By name of A and B, a mask of the elements in memory that nothing of C depends on: those of no group."""
    inputs = case.problem.inputs
    if not inputs.own_c:
        return {}
    used = {name: np.zeros(case.tensors[name].elements, np.bool_) for name in ("A", "B")}
    of_a, of_b = (case.tensors[name].view(of) for name, of in used.items())
    if inputs.masked:
        for of_group, rows in zip(of_a, companions["group_rows"].tolist(), strict=True):
            of_group[:rows] = True  # groups may share memory
        return {"A": ~used["A"]}
    end = int(companions["offs"][-1])
    of_a[:, :end], of_b[:end] = True, True
    return {name: ~mask for name, mask in used.items()}


def rows_of_groups(case: Case, operands: Operands, rows: slice) -> list[tuple[int, slice]]:
    """(group, its rows among `rows`) for each group that has any of them."""
    ends = [0, *operands.extra["offs"].tolist()]
    found = (
        (group, slice(max(begin, rows.start), min(end, rows.stop))) for group, (begin, end) in enumerate(pairwise(ends))
    )
    return [(group, of_group) for group, of_group in found if of_group.start < of_group.stop]


def groups_of_rows(operands: Operands, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The group of each of `rows`, none of which lies behind the last end."""
    return np.searchsorted(operands.extra["offs"], rows, side="right")


def computed(case: Case, operands: Operands) -> list[Window]:
    """The parts of C that are computed; other elements keep their values."""
    inputs, whole = case.problem.inputs, Window.whole(case)
    if not inputs.leaves_rows:
        return [whole]
    if not inputs.masked:
        rows = int(operands.extra["offs"][-1])
        return [replace(whole, bottom=rows)] if rows else []
    counts = enumerate(operands.extra["group_rows"].tolist())
    return [replace(whole, bottom=rows, first=group, last=group + 1) for group, rows in counts if rows]


def by_rows(case: Case, operands: Operands, of_c: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """C's view with the rows of the product in their order: scattered ones from where the index names them.

    There rows that are not computed hold anything.
    """
    return of_c[operands.extra["index_c"]] if case.problem.inputs.scattered else of_c


def index_in_c(case: Case, operands: Operands, window: Window) -> tuple[Any, ...]:
    """The index in C's view of the product's elements inside `window`, none of which belongs to no group."""
    if not case.problem.inputs.scattered:
        return window.index
    return operands.extra["index_c"][window.rows], window.cols


def depths(case: Case, operands: Operands, window: Window) -> list[slice]:
    """The range of K of each product inside `window`, a batch of groups along K."""
    ends = [0, *operands.extra["offs"].tolist()]
    return [slice(*of_group) for of_group in pairwise(ends)][window.matrices[0]]


def group_of(case: Case) -> npt.NDArray[np.int64]:
    """The group of each element along K."""
    return np.arange(case.k) // (case.problem.inputs.group or max(case.k, 1))


def code_span(types: Types) -> int:
    """The largest difference of two codes of B."""
    return int(types.b.largest - types.b.least)


def _draw_scaled(case: Case, wanted: Wanted, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """Codes of B, their scales and, where there are any, zero points."""
    dtype, scales = case.b.dtype, case.extra["scales_b"]
    groups = _shape(scales)
    shape = (*groups[:-2], case.k, case.n)
    least, largest = int(dtype.least), int(dtype.largest)
    zeros = np.zeros(groups, np.int16)
    if case.problem.inputs.zeros:
        zeros = rng.integers(least, largest, groups, np.int16)  # below the largest code: the one above is a code, too
    if case.b.overlaps and zeros.size:  # groups of rows that share codes share their zero point
        zeros[...] = zeros.flat[0]
    of_group = group_of(case)
    if wanted.selects:
        made = zeros[..., of_group, :] + (selection("B", shape, rng) if wanted.data == "onehot" and case.k else 0)
        if wanted.data == "sparse" and case.k:
            places = rng.integers(0, case.k, (*groups[:-2], min(wanted.chosen, case.k), case.n))
            np.put_along_axis(made, places, rng.integers(least, largest + 1, places.shape, np.int16), -2)
    elif wanted.data == "onehot":
        made = codes(0, math.prod(shape), dtype, 0).reshape(shape).astype(np.int16)
    else:
        made = rng.integers(least, largest + 1, shape, np.int16)
    if wanted.data == "exact":
        from_zero = zeros[..., of_group, :]
        made = np.clip(made, from_zero - wanted.exact, from_zero + wanted.exact)
    if wanted.one_sign:
        made = np.maximum(made, zeros[..., of_group, :])
    found = {"B": made, "scales_b": _scales(case, wanted, groups, rng)}
    return found | ({"zeros_b": zeros} if case.problem.inputs.zeros else {})


def _scales(case: Case, wanted: Wanted, shape: tuple[int, ...], rng: np.random.Generator) -> Doubles:
    types, data = case.problem.types, wanted.data
    if data in EXACT_KINDS:
        return np.ones(shape) if wanted.selects else rng.choice(EXACT_SCALES, shape)
    values = 2 * rng.random(shape) - 1
    if wanted.one_sign:
        values = np.abs(values)
    if data == "sparse":
        values = np.ldexp(np.copysign(1 - rng.random(shape) / 2, values), rng.integers(-SPREAD, SPREAD + 1, shape))
    values *= wanted.size / (code_span(types) + 1)
    if data == "special" and types.a.has_infinity:
        count = values.size // max(MOST_SPECIALS, COLUMNS * shape[-2])
        places = rng.integers(0, shape, (count, len(shape)))
        values[tuple(places.T)] = rng.choice(SPECIALS, count)
    return values


def factor(case: Case, operands: Operands, name: str, index: tuple[Any, ...]) -> Doubles:
    """The elements `index` of A or of B as they are multiplied, in float64."""
    matrix = case.tensors[name]
    stored = matrix.view(operands.by_name[name])
    if name == "A" and case.problem.inputs.gathered:
        stored, index = stored[operands.extra["index_a"][index[0]]], (slice(None), index[1])
    conv, inputs = case.problem.inputs.conv, case.problem.inputs
    if conv is not None and name == inputs.images:
        places = np.arange(int(case.values[inputs.places]))
        return matrix.dtype.decode(unrolled(conv, stored, places[index[0]], np.arange(conv.depth)[index[1]]))
    values = matrix.dtype.decode(stored[index])
    return _scaled(case, operands, values, index) if name == "B" and case.problem.coded else values


def unrolled(conv: Convolution, pixels: npt.NDArray[Any], rows: Places, columns: Places) -> npt.NDArray[Any]:
    """im2col: of the pixels under the filter at each of these places, tap by tap, the elements `columns`; zeros outside
    of the image."""
    (height, width, channels), (down, across) = conv.size, conv.places
    image, p, q = rows // (down * across), rows // across % down, rows % across
    found = np.zeros((len(rows), len(columns)), pixels.dtype)
    tap, channel = np.divmod(columns, channels)
    for number in np.unique(tap):
        r, s = divmod(int(number), conv.taps[1])
        y = p * conv.stride[0] - conv.pad[0] + r * conv.dilation[0]
        x = q * conv.stride[1] - conv.pad[1] + s * conv.dilation[1]
        inside, of_tap = (y >= 0) & (y < height) & (x >= 0) & (x < width), tap == number
        seen = (image * height + y)[inside] * width + x[inside]
        found[np.ix_(inside, of_tap)] = pixels[np.ix_(seen, channel[of_tap])]
    return found


def alone(conv: Convolution, lines: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """A mask of pixels so far apart that no place of the filter covers two of them."""
    (height, width, _), (rows, columns) = conv.size, conv.extent
    y, x = np.arange(lines) // width % height, np.arange(lines) % width
    return np.asarray((y % rows == rng.integers(rows)) & (x % columns == rng.integers(columns)))


def _scaled(case: Case, operands: Operands, codes_of_b: Doubles, index: Index) -> Doubles:
    """(code - zero point) * scale, rounded once to the type of A; without the scale, if sums have it."""
    *of_b, along_k, columns = index
    groups = group_of(case)[along_k]

    lines = (*of_b, slice(None), columns)

    def of_group(name: str) -> npt.NDArray[np.float32]:
        matrix: Any = case.extra[name]
        stored: Floats = matrix.view(operands.extra[name])
        with np.errstate(invalid="ignore"):  # a signalling NaN
            values: npt.NDArray[np.float32] = stored[lines].astype(np.float32)[..., groups, :]
        return values

    zeros = of_group("zeros_b") if case.problem.inputs.zeros else 0.0
    if case.problem.scaled_depth:
        return codes_of_b - zeros
    with np.errstate(invalid="ignore", over="ignore"):  # 0 times infinity
        # Exact in f32 for scales of 16 bits, and rounded as f32 for those of f32: either way there is one rounding.
        product = (codes_of_b - zeros).astype(np.float32) * of_group("scales_b")
        return case.problem.types.a.decode(product.astype(case.problem.types.a.numpy))


# One-hot data: one operand selects, and the other has a different number for each element.


def selection(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """A new array of this shape, filled by `select`."""
    selected = np.empty(shape, np.int8)
    select(name, selected, rng)
    return selected


def select(name: str, elements: npt.NDArray[Any], rng: np.random.Generator) -> None:
    """Make `elements` zeros with a 1 in each row of A, or column of B; every k is selected if there are enough rows."""
    if elements.ndim > 2:
        for matrix in elements:
            select(name, matrix, rng)
        return
    rows, cols = elements.shape
    elements[...] = 0
    if name == "A":
        elements[np.arange(rows), rng.permutation(cols)[np.arange(rows) % cols]] = 1
    else:
        elements[rng.permutation(rows)[np.arange(cols) % rows], np.arange(cols)] = 1


def codes(first: int, end: int, dtype: DType, digit: int) -> npt.NDArray[Any]:
    """A number for each element, by its own number in row order, from `first` up to `end`.

    f32 and f64 have odd numbers of 22 bits, so that no rounding keeps them; every other one has a further high bit,
    which only f64 can hold as well. The sum of two of them, each times two, is exact. Narrower types have all finite
    bit patterns in turn, including -0 and denormals: they are the lowest digit of the element's index, or the next one.
    """
    if dtype.storage_bits <= 16:
        finite = dtype.finite()
        times = len(finite) ** digit
        start = first // times
        some = np.resize(np.roll(finite, -start), -(-end // times) - start)
        return np.repeat(some, times)[first - start * times :][: end - first] if digit else some
    index = np.arange(first, end) % CODES
    odd = _odd(index, bits=22)
    return odd + index % 2 * 2 ** (dtype.precision - 3) if dtype == DType.F64 else odd


def _odd(index: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
    """An odd number of `bits` bits for each index below CODES."""
    leading = 1 << (bits - 1)
    return np.asarray(leading + (2 * index * CODE_MULTIPLIER % leading | 1))


def code_fully(name: str, view: Floats, side: Side) -> None:
    """Codes of f32 that need all of its bits, in every other row or column of results. C is 0 there."""
    lines = (..., slice(1, None, 2), slice(None)) if side == "B" else (..., slice(1, None, 2))
    index = np.arange(view.size).reshape(view.shape)[lines] % CODES
    view[lines] = 0 if name == "C" else _odd(index, DType.F32.precision)
