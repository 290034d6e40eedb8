"""Operands whose elements lie further apart than 32 bits can count: leading dimensions and strides beyond any
memory.

A kernel sees lines gigabytes apart. Only the lines that a launch touches have memory, each in pages of its own. So an
offset that was truncated to 32 bits ends outside of memory, or in another line.
"""

from __future__ import annotations

import mmap

from gemmgen.families import k_tile_of
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import MOST_STRIDE
from gemmgen.problem.dtype import WIDEST_ACCESS
from gemmgen.problem.gemm import Case
from gemmgen.problem.sizes import MatrixSizes
from gemmgen.verification.situation import Situation, open_case

# Whole pages. What is added, ld_align, is the least that distances have to be a multiple of: floats of 24 bits lose it.
FAR_LD = 2**31 - 2**17  # the third line is beyond 2^32 elements
FAR_STRIDE = 2**32 + 2**17  # its lower half is short
MOST_BYTES = 2**44  # that an operand spans: some of them fit the addresses of a process
MOST_FLOPS, MOST_ELEMENTS = 5e8, 2**25  # of such a situation, where fixed sizes are large: a second
MOST_LINES = 4096  # of an operand: each is a mapping of its own
LEAST_K_TILE, BEYOND = 32, 3  # K is two k tiles, of that many at least, and sizes are so much longer than tiles
DEEPEST = 1100  # K at most
SMALL = {"m": 5, "n": 7, "k": 9}  # of matrices that lie apart
BETA = 1.0  # C is read, too

Apart = tuple[Situation, Case]  # what operands hold, and how far apart the kernel sees it


def apart_situations(source: KernelSource) -> list[Apart]:
    """Situations with leading dimensions, and with strides, beyond any memory, if they are left to run time."""
    problem = source.problem
    found = [_lines_apart(source), _matrices_apart(source) if problem.strided else None]
    return [one for one in found if one is not None and _is_affordable(one[0].case)]


def _is_affordable(case: Case) -> bool:
    return case.flops <= MOST_FLOPS and sum(matrix.elements for matrix in case.tensors.values()) <= MOST_ELEMENTS


def reach(case: Case) -> dict[str, int]:
    """The offset in elements of the last element of each matrix."""
    return {sizes.name: case.tensors[sizes.name].elements - 1 for sizes in case.problem.matrices}


def _lines_apart(source: KernelSource) -> Apart | None:
    problem, tile = source.problem, dict(source.launch.grid)
    depth = min(2 * max(k_tile_of(source), LEAST_K_TILE) + BEYOND, DEEPEST)
    sizes = {"m": tile.get("M", 1) + BEYOND, "n": tile.get("N", 1) + BEYOND, "k": depth, "batch": 1}
    dense = open_case(problem, sizes)
    # In a batch whose matrices lie side by side, each spans the distance to the next, and TMA takes no longer
    # distances.
    most = MOST_STRIDE if source.launch.maps and problem.batched else MOST_BYTES
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
