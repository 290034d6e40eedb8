"""Offsets beyond 32 bits: lines, matrices and last rows of launches far beyond any memory.

Apart: leading dimensions or strides are gigabytes, and only the lines that a launch touches have memory, each in pages
of its own. An offset that was truncated to 32 bits ends outside of memory, or in another line.

Tails: the last rows, or products, of a launch so large that their offsets exceed 32 bits with fixed distances.

There are also tails of batches whose product numbers exceed 15 and 16 bits.

Operands have memory only for the tail: the kernel gets pointers far below the first element that exists. A launch of a
few tiles shows beforehand that the last blocks of a grid write the end of C and nothing else.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from gemmgen.families import k_tile_of
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.prepare import SUM_LINES
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import MOST_STRIDE
from gemmgen.problem.dtype import WIDEST_ACCESS
from gemmgen.problem.gemm import Case
from gemmgen.problem.sizes import MatrixSizes
from gemmgen.run.executor import LoadedKernel
from gemmgen.support.errors import CandidateFailed
from gemmgen.verification.checks import compare_tail, elements_written
from gemmgen.verification.data import make_operands
from gemmgen.verification.domain import DomainTally
from gemmgen.verification.situation import Situation, open_case
from gemmgen.verification.window import Window

# Whole pages. What is added, ld_align, is the least that distances have to be a multiple of: floats of 24 bits lose it.
FAR_LD = 2**31 - 2**17  # the third line is beyond 2^32 elements
FAR_STRIDE = 2**32 + 2**17  # its lower half is short
APART_BYTES = 2**44  # that an operand spans: some of them fit the addresses of a process
MOST_FLOPS, MOST_ELEMENTS = 5e8, 2**25  # of such a situation, where fixed sizes are large: a second
MOST_LINES = 4096  # of an operand: each is a mapping of its own
LEAST_K_TILE, BEYOND = 32, 3  # K is two k tiles, of that many at least, and sizes are so much longer than tiles
DEEPEST = 1100  # K at most
SMALL = {"m": 5, "n": 7, "k": 9}  # of matrices that lie apart

FAR = 2**32 + 2**28  # elements of each matrix before the tail, unless a matrix then exceeds MOST_BYTES
MOST_BYTES = 2**43
FAR_TILES = 2**24 + 2**20  # tiles of C before the tail, at least: more than f32 counts exactly
MOST_BLOCKS = MOST_SIZE = 2**30  # limit of a grid, and of its rows or products: kernels count both in an int
TILES = 2  # whole tiles of the small launch, before its last one
STEP = 2**10  # tails start at a multiple of so many tiles: whole raster groups, and aligned operands
ROWS = 3  # rows of the last tile
COUNTS = 2**15, 2**16  # product numbers that do not fit a short, or an unsigned short
ALIGNMENT = 128  # of each pointer, in bytes
MOST_APART = 2**7  # tiles that a tail may be longer for the sake of ALIGNMENT
BETA = 1.0  # C is read, too

Apart = tuple[Situation, Case]  # what operands hold, and how far apart the kernel sees it
Size = Literal["M", "batch"]


def apart_situations(source: KernelSource) -> list[Apart]:
    """Situations with leading dimensions, and with strides, beyond any memory, if they are left to run time."""
    problem = source.problem
    found = [_lines_apart(source), _matrices_apart(source) if problem.strided else None]
    apart = [one for one in found if one is not None]
    return [one for one in apart if one[0].case.flops <= MOST_FLOPS and _elements(one[0].case) <= MOST_ELEMENTS]


def _lines_apart(source: KernelSource) -> Apart | None:
    problem, tile = source.problem, dict(source.launch.grid)
    depth = min(2 * max(k_tile_of(source), LEAST_K_TILE) + BEYOND, DEEPEST)
    sizes = {"m": tile.get("M", 1) + BEYOND, "n": tile.get("N", 1) + BEYOND, "k": depth, "batch": 1}
    dense = open_case(problem, sizes)
    # In a batch whose matrices lie side by side, each spans the distance to the next, and TMA takes no longer
    # distances.
    most = MOST_STRIDE if source.launch.maps and problem.batched else APART_BYTES
    # Elements that share bytes lie in one line of these, and matrices of groups among each other.
    among = problem.strides if problem.inputs.groups else ()
    whole = [one for one in problem.matrices if one.dtype.storage_bits >= 8 and one not in among]
    far = [one for one in whole if problem.sizes[one.ld] is None and _far_ld(one, dense, most) > 0]
    if not any((dense.tensors[one.name].lines - 1) * _far_ld(one, dense, most) >= 2**31 for one in far):
        return None
    case = open_case(problem, sizes, **{one.ld: _paged(dense, one, "line_length") for one in far}, beta=BETA)
    apart = open_case(problem, sizes, **{one.ld: _far_ld(one, dense, most) for one in far}, beta=BETA)
    return Situation(case, "exact", seed=0), apart


def _far_ld(one: MatrixSizes, case: Case, most: int) -> int:
    """The leading dimension of a matrix of at most `most` bytes whose lines lie apart; 0 if it has too many lines."""
    matrix = case.tensors[one.name]
    if not 0 < matrix.lines <= MOST_LINES:
        return 0
    page = mmap.PAGESIZE
    return min(FAR_LD, (most // (matrix.lines * one.dtype.size) - 1) // page * page) + case.problem.ld_align


def _matrices_apart(source: KernelSource) -> Apart | None:
    problem = source.problem
    products = 2 * dict(source.launch.grid).get("batch", 1) + 1
    sizes = {**SMALL, "batch": products}
    dense = open_case(problem, sizes)
    far = [one for one in problem.strides if problem.sizes[one.stride] is None]
    if not far or dense.batch == 1:
        return None
    case = open_case(problem, sizes, **{one.stride: _paged(dense, one, "span") for one in far}, beta=BETA)
    apart = open_case(problem, sizes, **{one.stride: FAR_STRIDE + problem.ld_align for one in far}, beta=BETA)
    return Situation(case, "exact", seed=0), apart


def _paged(case: Case, one: MatrixSizes, what: str) -> int:
    """A distance, in elements, that puts `what` of each matrix into pages of its own, as far into a page as
    FAR_LD's.

    C and the other outputs of an epilogue share their distances, but may have different types.
    """
    smallest = min(other.dtype.size for other in case.problem.matrices if other.ld == one.ld)
    elements: int = getattr(case.tensors[one.name], what)
    page = mmap.PAGESIZE // smallest
    return (-(-(elements + WIDEST_ACCESS // smallest) // page) + 1) * page + case.problem.ld_align


@dataclass(frozen=True)
class Tail:
    """The end of a launch along one size.

    near       a small launch of few tiles along that size
    situation  the last rows, or products, alone
    far        the large launch that ends with them, as the kernel sees it
    """

    size: Size
    near: Case
    situation: Situation
    far: Case


def tails(contract: Contract, dense: bool = False) -> Iterator[Tail]:
    """The tails along run-time sizes whose distances between rows or matrices are fixed, or may be `dense`."""
    problem = contract.problem
    if problem.pointers or contract.launch.stream is not None or problem.inputs.depends_on_rows:
        return
    fixed = {"M": ("lda", "ldc"), "batch": ("stride_a", "stride_b", "stride_c")}
    for size, distances in fixed.items():
        if problem.sizes.get(size, 0) is None and any(
            problem.sizes.get(name) or (dense and name in problem.sizes) for name in distances
        ):
            found = [_tail(contract, "M" if size == "M" else "batch")]
            if size == "batch":
                found += [_products_around(contract, count) for count in COUNTS]
            yield from (one for one in found if one is not None)


def _products_around(contract: Contract, count: int) -> Tail | None:
    """Product `count` and the one before it, as the end of a batch; None if that takes too long."""
    tile = dict(contract.launch.grid).get("batch", 1)
    far = _case(contract, "batch", count + 1)
    first = (count - 1) // tile * tile
    for before in range(first, max(0, first - MOST_APART * tile), -tile):
        last = _case(contract, "batch", count + 1 - before)
        aligned = all((far.tensors[name].bytes - one.bytes) % ALIGNMENT == 0 for name, one in last.tensors.items())
        summed = [one.elements(far) - one.elements(last) for one in contract.launch.sums]
        if aligned and all(lines % SUM_LINES == 0 for lines in summed):
            near = _case(contract, "batch", TILES * tile + last.batch)
            affordable = near.flops <= MOST_FLOPS and _elements(near) <= MOST_ELEMENTS
            return Tail("batch", near, Situation(last, "exact", seed=0), far) if affordable else None
    return None


def _case(contract: Contract, size: Size, count: int) -> Case:
    """A case of `count` rows or products, and of one tile along other run-time sizes."""
    problem, tile = contract.problem, dict(contract.launch.grid).get(size, 1)
    sizes = {"m": tile, "n": tile, "k": 2 * tile, "batch": 1, size.lower(): count}
    return open_case(problem, sizes, beta=BETA)


def _elements(case: Case) -> int:
    return sum(one.elements for one in case.tensors.values())


def _tail(contract: Contract, size: Size) -> Tail | None:
    problem, tile = contract.problem, dict(contract.launch.grid).get(size, 1)
    few = min(tile, ROWS) if size == "M" else 1
    case = partial(_case, contract, size)
    last, near = case(few), case(TILES * tile + few)
    if _elements(near) > MOST_ELEMENTS:
        return None
    before = _rows_before(contract, last, near) // (STEP * tile) * (STEP * tile)
    if before <= 0:
        return None
    far = case(before + few)
    if max(far.tensors[one.name].elements for one in problem.matrices) < 2**31:
        return None
    pairs = ((one, far.tensors[name]) for name, one in last.tensors.items())
    same = all((one.ld, one.stride) == (other.ld, other.stride) for one, other in pairs)
    return Tail(size, near, Situation(last, "exact", seed=0), far) if same else None


def _rows_before(contract: Contract, last: Case, near: Case) -> int:
    """The rows or products before the tail: enough for offsets of FAR, within the limits above; 0 if there are none."""
    more = {name: near.tensors[name].elements - one.elements for name, one in last.tensors.items()}
    matrices = [more[one.name] for one in contract.problem.matrices if more[one.name] > 0]
    longer = near.m - last.m + near.batch - last.batch  # one of them is
    launch = contract.launch
    tiles, blocks = launch.tiles(near) - launch.tiles(last), launch.blocks(near) - launch.blocks(last)
    if not matrices or tiles <= 0:  # a launch that leaves rows or products out has no blocks at their end
        return 0
    parts = [launch.workspace(one).lengths for one in (near, last)]
    wider = [parts[0][name] - length for name, length in parts[1].items()]
    widest = max(*wider, *(last.tensors[name].dtype.bytes(elements) for name, elements in more.items()))
    blocks = max([blocks, *(one.blocks_of_end(last, near).start for one in launch.prepares)])
    far = max(-(-FAR * longer // min(matrices)), FAR_TILES * longer // tiles)
    return min(far, MOST_BYTES * longer // widest, MOST_BLOCKS * longer // blocks, MOST_SIZE)


def check_tail(kernel: LoadedKernel, tail: Tail, tally: DomainTally) -> float:
    """Run the last blocks of `tail`; see `checks.check`. If they cannot be judged, `tally` says why."""
    if not all(one.is_end(tail.situation.case, tail.far) for one in kernel.source.launch.prepares):
        tally.no_extent = f"the last blocks that copy several matrices do not copy their ends along {tail.size}"
        return 0.0
    window = _window(kernel, tail) if tally.numbered else None
    if window is None:
        tally.no_extent = f"the last blocks of a grid do not compute the end of C along {tail.size}"
        return 0.0
    blocks = _last_blocks(kernel, tail, tail.far)
    worst = compare_tail(kernel, tail.situation, tail.far, blocks, window, tally)
    tally.ran_apart(tail.far)
    return worst


def _last_blocks(kernel: LoadedKernel, tail: Tail, case: Case) -> list[int]:
    """The blocks of the last tile; along the batch, of all tiles of the last products."""
    launch = kernel.source.launch
    tiles = launch.tiles(case)
    count = launch.tiles(tail.situation.case) if tail.size == "batch" else 1
    numbers: list[int] = launch.blocks_of(case, range(tiles - count, tiles)).tolist()
    return numbers


def _window(kernel: LoadedKernel, tail: Tail) -> Window | None:
    """The part of C's last rows or products that the last blocks of `tail.near` write; None if they write other
    parts."""
    near = Situation(tail.near, "exact", seed=0)
    try:
        written = elements_written(kernel, near, make_operands(near), _last_blocks(kernel, tail, tail.near))
    except CandidateFailed:
        return None
    found = np.argwhere(written)
    if not len(found):
        return None
    first, end = found.min(axis=0).tolist(), (found.max(axis=0) + 1).tolist()
    before = (tail.near.m - tail.situation.case.m) if tail.size == "M" else 0
    products = tail.near.batch - tail.situation.case.batch
    if (
        not written[tuple(map(slice, first, end))].all()
        or first[-2] < before
        or (len(first) == 3 and first[0] < products)
    ):
        return None
    ends = (first[-2] - before, first[-1], end[-2] - before, end[-1])
    return Window(*ends) if len(first) == 2 else Window(*ends, first[0] - products, end[0] - products)
