"""The path of A and B through a kernel of `mma`: global memory -> swizzled shared memory -> fragments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import gcd

from gemmgen.families.base import Side, elements_of, sides
from gemmgen.families.mma.axes import MmaConfig
from gemmgen.kernel.config import Derived
from gemmgen.kernel.prepare import PACKED_COLUMNS, PACKED_LINE, Codes, Pack
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.device import BANK_BYTES
from gemmgen.problem.dtype import WIDEST_ACCESS, WORD, DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute

LDMATRIX, LDMATRIX_PAIRS, LDS, CODES = "mma/ldmatrix.cu", "mma/ldmatrix_pairs.cu", "mma/lds.cu", "mma/codes.cu"
IMAGES = "mma/images.cu"  # the template that copies a tile of pixels
LDMATRIX_BYTES = 4  # of the widest element that it brings
THREADS = "32 * (BM / WM) * (BN / WN)"


@dataclass(frozen=True)
class Operand(Side):
    """The path of A or B to shared memory; names are those of the rendered kernel.

    copy      the template that copies a tile to shared memory
    width     elements per global access
    mn_edge   whether a tile may cross an edge of C, so that copies are checked there
    k_edge    whether a step may cross the end of K, so that copies are checked there
    fragment  the template that loads fragments to registers
    rounds    whether elements are rounded to tf32: tensor cores would truncate them
    ragged    whether some threads have one access fewer than others
    swizzled  whether chunks of a shared line trade places
    words     whether copies through registers hold elements of 8 bits as words
    codes     what B has instead of elements, if it has packed codes
    conv      of the images that A holds, if it does: a row of its tile is an output pixel
    """

    copy: str
    width: int
    mn_edge: bool
    k_edge: bool
    fragment: str
    rounds: bool
    ragged: bool
    swizzled: bool
    words: bool
    codes: Codes | None
    conv: Convolution | None

    moves = False

    @property
    def by_ldmatrix(self) -> bool:
        return self.fragment in (LDMATRIX, LDMATRIX_PAIRS)

    @property
    def pairs(self) -> bool:
        """Whether ldmatrix loads elements of 8 bits in pairs of neighbours in m or n, which lanes take apart."""
        return self.fragment == LDMATRIX_PAIRS

    @property
    def one_tap(self) -> bool:
        """Whether filters have a single tap, which is inside the image for each output pixel."""
        return self.conv is not None and single_tap(self.conv)

    @property
    def at_edge(self) -> bool:
        return self.mn_edge or self.k_edge

    @property
    def k_rows(self) -> bool:
        """Whether shared lines run along m or n, one per k: ldmatrix transposes them."""
        return not self.along_k


def fragment_of(dtype: DType, along_k: bool) -> str:
    """The template that loads fragments of `dtype` to registers: ldmatrix moves 16 bytes along a shared line, and
    transposes only units of 2 bytes."""
    if along_k:
        return LDMATRIX if dtype.size <= LDMATRIX_BYTES else LDS
    return {1: LDMATRIX_PAIRS, 2: LDMATRIX}.get(dtype.size, LDS)


def single_tap(conv: Convolution) -> bool:
    """Whether each row of A is a pixel as it lies: no tap, no padding has to be looked for."""
    return conv.taps == (1, 1) and not any(conv.crosses)


def k_step(dtype: DType) -> int:
    """The k whose fragments registers hold at once, four of A and two of B, for one instruction or several."""
    return 32 // min(dtype.size, LDMATRIX_BYTES)


def access_width(problem: Problem, side: Side) -> int:
    """Elements per global access: as many as the alignment of the operand's lines allows, up to 16 bytes. An access to
    images is to channels of one pixel."""
    conv = conv_of(problem, side)
    channels = 0 if conv is None else conv.size[2]
    return gcd(WIDEST_ACCESS // problem.dtype_of(side.X).size, problem.vector_limit(side.ld), channels)


def conv_of(problem: Problem, side: Side) -> Convolution | None:
    """The convolution of the images that A or B holds; None if it is a matrix."""
    return problem.inputs.conv if problem.inputs.images == side.X else None


def operand_constants(problem: Problem, config: MmaConfig, side: Side) -> tuple[Derived, ...]:
    if side.x == "b" and problem.coded:
        return _packed_constants(problem)
    width, size = access_width(problem, side), problem.dtype_of(side.X).size
    block = config.BM if side.x == "a" else config.BN
    line = config.BK if side.along_k else block
    by_ldmatrix = fragment_of(problem.dtype_of(side.X), side.along_k) != LDS
    chunk = WIDEST_ACCESS if by_ldmatrix else 2 * WIDEST_ACCESS
    return _copy_constants(side, width, chunk // size, gcd(BANK_BYTES, line * size), chunk, elements_of(problem))


@cache  # the configs of a space have few that differ
def _copy_constants(
    side: Side, width: int, chunk: int, common: int, chunk_bytes: int, elements: str
) -> tuple[Derived, ...]:
    """Constants of the copy of one operand; `common` is the distance in bytes at which lines begin in the same
    banks."""
    X, block = side.X, f"B{side.MN}"
    line, count = ("BK", block) if side.along_k else (block, "BK")
    lines = (
        (f"V{X}", str(width), f"{elements} of an access to {X}"),
        (f"{X}_LANES", f"{line} / V{X}", f"threads along a line of {X}'s tile"),
        (f"{X}_ITERATIONS", f"({count} * {X}_LANES + THREADS - 1) / THREADS", "accesses of a thread, at most"),
        (f"CHUNK_{X}", str(chunk), f"{elements} of a chunk of {chunk_bytes} bytes, the unit of the swizzle"),
        (f"{X}_PHASE", str(BANK_BYTES // common), "consecutive lines that swizzle alike: they fill the banks together"),
        (f"{X}_SWIZZLED", str(max(1, common // chunk_bytes)), "chunks of a line that the swizzle permutes"),
    )
    return tuple(Derived(*line, group=f"How {X} gets to shared memory") for line in lines)


def _packed_constants(problem: Problem) -> tuple[Derived, ...]:
    """Constants of the copy of packed codes, and those of other copies that constraints ask for."""
    pack = Pack("B")
    words = pack.chunk_lines(problem) * PACKED_LINE // WORD
    lines = (
        ("CHUNK_K", str(pack.depth(problem)), "k of a chunk of packed codes"),
        ("CHUNK_WORDS", str(words), "words of a chunk: codes, scales and zero points"),
        ("ROW_WORDS", f"BN / {PACKED_COLUMNS} * CHUNK_WORDS", "words of the chunks of a tile's columns"),
        ("VB", str(WIDEST_ACCESS // WORD), "words of an access to them"),
        ("B_ITERATIONS", "(BK / CHUNK_K * ROW_WORDS / VB + THREADS - 1) / THREADS", "accesses of a thread, at most"),
        ("B_LANES", "1", "threads that lines of a tile divide: packed codes have none"),
    )
    return tuple(Derived(*line, group="How B gets to shared memory") for line in lines)


def _lines(config: MmaConfig, side: Side) -> int:
    """Lines of the operand's tile."""
    return (config.BM if side.x == "a" else config.BN) if side.along_k else config.BK


def rendered(
    problem: Problem, config: MmaConfig, value: Mapping[str, int], edges: frozenset[str]
) -> tuple[Operand, Operand]:
    """Return A and B with what their copies need to know of accesses and edges."""
    copy = "copy/cp_async_chunks.cu" if config.ASYNC else "copy/staged_chunks.cu"
    codes = Codes.of(problem, fused=True)
    a, b = (
        Operand(
            side.x,
            side.mn,
            side.along_k,
            copy if conv_of(problem, side) is None else IMAGES,
            width=access_width(problem, side),
            mn_edge=side.MN in edges,
            k_edge="K" in edges,
            fragment=fragment_of(problem.dtype_of(side.X), side.along_k),
            rounds=problem.types.compute is Compute.TF32,
            ragged=_lines(config, side) * value[f"{side.X}_LANES"] % value["THREADS"] != 0,
            swizzled=config.SWIZZLE == 1,
            words=problem.dtype_of(side.X).size == 1 and access_width(problem, side) >= WORD,
            codes=None,
            conv=conv_of(problem, side),
        )
        for side in sides(problem)
    )
    return a, b if codes is None else replace(b, copy=CODES, fragment=CODES, k_edge=False, codes=codes)
