"""The path of A, B and C through a kernel of `wgmma`: what is copied first, TMA boxes, and the instruction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

from gemmgen.families.base import Side, shared_by, sides
from gemmgen.families.wgmma.axes import WgmmaConfig
from gemmgen.kernel.prepare import PACKED_COLUMNS, PACKED_LINE, SUMMED, LineSums, Pack, Prepare, Step
from gemmgen.kernel.tensor_map import PATTERN_LINES, UNIT, TensorMap, im2col_walk
from gemmgen.problem.device import L2_LINE
from gemmgen.problem.dtype import WORD, DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Order
from gemmgen.problem.sizes import MatrixSizes, Size
from gemmgen.problem.types import Compute, Types
from gemmgen.problem.wgmma import FACTORS, M, Wgmma

TRANSPOSED_BYTES = 2  # of an element whose lines may run across K
OTHER: dict[Order, Order] = {"r": "c", "c": "r"}
LINE_BYTES = 128  # of shared memory that one pattern of a swizzle permutes, at most
ROW_BYTES = 256  # of a row of C that a warp stages, at most
PIECE_ROWS = 32  # of C that leave at once where products are those of C transposed, from registers
# If A and B change places, C is stored in pieces with this least and most number of rows, or as a whole: few pieces, as
# each waits until TMA has read the one before.
PARTS = 24, 64
PACKED_WORDS = PACKED_LINE // DType.S32.size  # of a line of packed codes
PROMOTION_BYTES = 128  # that L2 fetches at once for TMA
# Cached, because these records check themselves, and thousands of configs of a space have few different ones.
map_of, instruction_of = lru_cache(maxsize=1024)(TensorMap), lru_cache(maxsize=1024)(Wgmma)


@dataclass(frozen=True)
class Operand(Side):
    """The layout of A or B in shared memory; names are those of the rendered kernel.

    line     elements per line of a box, which is swizzled
    boxes    boxes per k tile of the operand
    lines    lines per box
    limited  whether boxes have fewer lines than the tile, because the matrix has no more and TMA takes time for zeros,
             too
    ragged   whether a run-time size may cut its last tile, which then comes by a second map
    shared   whether each block of a cluster loads a part of these lines for all of its blocks
    beside   number of matrices side by side; a k tile has the boxes of one matrix after those of the other
    grouped  whether each group of rows has a matrix of its own
    packed   whether it is made of packed codes: a box has the chunks of the tile's columns that lie side by side
    images   whether it holds images: a line of a box is some channels of a pixel
    chunks   whether such a line is one chunk of 16 bytes: there is no swizzle, and the next chunk is in another box
    gathered whether an index names its lines, which threads copy to where boxes would lie
    """

    line: int
    boxes: int
    lines: int
    limited: bool
    ragged: bool
    shared: bool
    beside: int = 1
    grouped: bool = False
    packed: bool = False
    images: bool = False
    chunks: bool = False
    gathered: bool = False

    @property
    def pitch(self) -> str:
        """The constant that is the distance of two rows of A, or columns of B, in a stage, in elements."""
        return f"LINE_{self.X}" if self.along_k else "BK"


@lru_cache(maxsize=64)
def staged(problem: Problem) -> bool:
    """Whether whole pieces of C are staged, as TMA stores them, or threads that scatter rows: C's lines begin, and are
    known to end, at multiples of 16 bytes, as chunks are stored whole."""
    size = problem.types.c.size
    if problem.pointers and problem.m is None:  # pieces that lie wholly outside are none that TMA can be asked for
        return False
    return problem.n is not None and problem.n * size % UNIT == 0 and problem.vector_limit("ldc") * size % UNIT == 0


def c_by_tma(problem: Problem) -> bool:
    """Whether TMA stores C. It does not store rows that an index names."""
    return staged(problem) and not problem.inputs.scattered


@lru_cache(maxsize=64)  # the space asks for each config
def can_feed(problem: Problem) -> tuple[bool, bool]:
    """Whether wgmma can take the fragments of A, and of B, from registers, and gains by it. They must be tf32, one per
    register, in lines that TMA takes as they are and that run across K. TMA must store C from shared memory, to which a
    warp's sums may go in any order."""
    tf32 = problem.types.compute is Compute.TF32 and not problem.pointers and problem.products == 1 and staged(problem)
    feeds_a, feeds_b = (tf32 and not side.along_k and not _unaligned(problem, side) for side in sides(problem))
    return feeds_a, feeds_b


def _unaligned(problem: Problem, side: Side) -> bool:
    """Whether lines begin where TMA cannot read them."""
    return problem.vector_limit(side.ld) * problem.dtype_of(side.X).size % UNIT != 0


def _second_unaligned(problem: Problem, side: Side) -> bool:
    """Whether lines of two matrices B, side by side, run across K, and those of the second begin where no TMA box
    can.

    Seen on an H200 (2026-11-24, driver 580.159.04): TMA of a box that begins inside a 16-byte chunk fails with "an
    illegal instruction was encountered", whatever its swizzle; boxes that begin at multiples of 16 bytes work.
    """
    beside = side.x == "b" and problem.products > 1
    return beside and not side.along_k and (problem.n is None or problem.n * _size(problem, side) % UNIT != 0)


def _size(problem: Problem, side: Side) -> int:
    """Bytes of an element that TMA moves: an element of a piece if the operand is split."""
    return problem.types.factors[side.x == "b"].size


@lru_cache(maxsize=64)
def copies(problem: Problem, feeds: str = "") -> tuple[Prepare, ...]:
    """The copies of operands that TMA or wgmma cannot take as they are: unaligned lines, or an order that needs a
    transposition, which wgmma does only for 16-bit elements. The operand that `feeds` it from registers may have any
    order. An operand that is split is copied as its pieces."""
    return () if problem.pointers else needed_copies(problem, feeds)


def needed_copies(problem: Problem, feeds: str = "") -> tuple[Prepare, ...]:
    """The copies that would be needed, even of matrices behind pointers, which no launch copies."""
    needed: list[Prepare] = []
    for side in sides(problem):
        if side.x == "b" and problem.coded:
            needed.append(Pack("B"))
            continue
        order = problem.layout.a if side.x == "a" else problem.layout.b
        across = not side.along_k and side.x != feeds
        turns = across and (_size(problem, side) != TRANSPOSED_BYTES or _second_unaligned(problem, side))
        if turns or _unaligned(problem, side) or problem.types.compute.pieces:
            needed.append(Prepare(side.X, OTHER[order] if turns else order))
    return tuple(needed)


def cuts_lines(problem: Problem) -> bool:
    """Whether lines of a copy, which lie multiples of 16 bytes apart, may begin inside of L2 lines."""
    return any(_cuts_lines(problem, one.lies(problem)) for one in copies(problem) if not isinstance(one, Pack))


def _cuts_lines(problem: Problem, copy: MatrixSizes) -> bool:
    length = problem.sizes[copy.line]
    if length is None:
        return True
    line = length * copy.times(copy.line) * copy.dtype.size
    return -(-line // UNIT) * UNIT % L2_LINE != 0


def feeds(config: WgmmaConfig) -> str:
    """The operand, "a" or "b", whose fragments come from registers; "" if both come from shared memory."""
    return ("", "a", "b")[config.FROM_REGISTERS]


def swaps(config: WgmmaConfig) -> bool:
    """Whether the kernel computes C's transpose: columns of B are the 64 rows of an instruction."""
    return config.SWAP == 1 or feeds(config) == "b"


def prepares(problem: Problem, config: WgmmaConfig) -> tuple[Step, ...]:
    """The launches before the kernel: copies, and sums of lines that the epilogue takes, as wgmma leaves no element of
    A and B in registers."""
    made = tuple(replace(one, align=config.COPY_ALIGN) for one in copies(problem, feeds(config)))
    copied = {one.operand for one in made}
    summed = (part[-1].upper() for part, name in SUMMED.items() if name in problem.epilogue.sums)
    return (*made, *(LineSums(operand, operand in copied) for operand in summed))


@lru_cache(maxsize=64)
def taken(problem: Problem, feeds: str = "") -> tuple[Side, Side]:
    """A and B as TMA reads them: the operands or their copies."""
    orders: dict[str, Order] = {one.operand: one.order for one in copies(problem, feeds)}
    a, b = sides(problem)
    order_a, order_b = orders.get("A", problem.layout.a), orders.get("B", problem.layout.b)
    return replace(a, along_k=order_a == "r"), replace(b, along_k=order_b == "c" or problem.coded)


def sums_type(types: Types) -> DType | None:
    """The type in which wgmma sums a product of `types` as exactly as their compute promises, or None."""
    sums = DType.F16 if types.compute is Compute.F16 else types.accumulator
    if sums not in FACTORS.get(types.factors, ()):
        return None
    tf32, fp8 = types.factors[0] is DType.F32, types.a in (DType.E4M3, DType.E5M2)
    cut = (Compute.PROMOTED, Compute.FAST)
    shorter = types.compute in cut and not types.coded  # of codes sums are whole, if promoted
    return sums if tf32 == (types.compute is Compute.TF32) and fp8 == shorter else None


def instruction(problem: Problem, config: WgmmaConfig) -> Wgmma:
    """The wgmma instruction. The problem and the config must satisfy the constraints."""
    types, (a, b) = problem.types, taken(problem, feeds(config))
    sums = sums_type(problem.types)
    assert sums is not None, "constraints ask for one"
    if config.FROM_REGISTERS:
        return instruction_of(config.BM if swaps(config) else config.BN, *types.factors, sums, registers=True)
    if problem.coded:
        return instruction_of(config.BM, *types.factors, sums, trans_b=not a.along_k, registers=True)
    across = not a.along_k, not b.along_k
    if swaps(config):
        return instruction_of(config.BM, *types.factors[::-1], sums, *across[::-1])
    return instruction_of(config.BN * problem.products, *types.factors, sums, *across)


@lru_cache(maxsize=64)
def as_product(mma: Wgmma) -> Wgmma:
    """The instruction that sums the products of A * B as `mma` sums those of its transpose."""
    return replace(mma, a=mma.b, b=mma.a, trans_a=mma.trans_b, trans_b=mma.trans_a, registers=False)


@shared_by(WgmmaConfig, "BM", "BN", "BK", "SWAP", "FROM_REGISTERS", "CLUSTER", "ACROSS")
def operands(problem: Problem, config: WgmmaConfig) -> tuple[Operand, Operand]:
    """A and B, or their copies, as TMA boxes."""
    (a, b), (type_a, type_b) = taken(problem, feeds(config)), problem.types.factors
    pieces = problem.types.compute.pieces
    rows, columns = (None, None) if pieces else (problem.m, problem.n)  # a large product's tile is seldom too large
    gathered = problem.inputs.gathered  # whose lines have zeros where C has no row
    whole = pieces is not None or problem.pointers  # boxes, whatever of them lies outside
    groups = problem.inputs.ragged_groups > 0  # which begin, or end, at any row: no box is the last one of A
    rows = None if gathered else rows
    of_a = _operand(config, a, type_a.size, rows, not (whole or groups or gathered), problem)
    of_a = replace(of_a, gathered=True) if gathered else of_a
    if problem.coded:
        pack = Pack("B")
        lines = pack.chunk_lines(problem) * (config.BN // PACKED_COLUMNS)
        boxes = config.BK // pack.depth(problem)
        return of_a, Operand("b", "n", True, PACKED_WORDS, boxes, lines, False, False, False, packed=True)
    of_b = _operand(config, b, type_b.size, columns, not whole and problem.products == 1, problem)
    return of_a, replace(of_b, beside=problem.products, grouped=problem.inputs.row_groups > 0)


def _operand(config: WgmmaConfig, side: Side, size: int, extent: Size, ragged: bool, problem: Problem) -> Operand:
    """The boxes of `side`, which has `extent` rows of A or columns of B; its tiles may be `ragged` if that is not
    known.

    TMA swizzles lines of at most 128 bytes. Lines outside of the matrix take it longer than lines inside. So a box that
    a run-time size cuts is loaded by a second map, whose box ends with the matrix, rounded up to 8 lines. A box of 8
    lines has nothing to save. A line of images has some channels of one pixel, and no box of them is cut.
    """
    conv, images = problem.inputs.conv, problem.inputs.images == side.X
    channels = conv.size[2] if conv and images else 0
    block = config.BM if side.x == "a" else config.BN
    across, lines = (config.BK, block) if side.along_k else (block, config.BK)
    line = gcd(LINE_BYTES // size, across, channels)
    needed = lines if extent is None or not side.along_k else min(lines, -(-extent // PATTERN_LINES) * PATTERN_LINES)
    shared = config.CLUSTER > 1 and (side.x == "a") == bool(config.ACROSS)
    part = lines // config.CLUSTER if shared else lines
    spares = part > PATTERN_LINES and part % PATTERN_LINES == 0
    ragged = ragged and not images and extent is None and side.along_k and spares
    found = Operand(side.x, side.mn, side.along_k, line, across // line, needed, needed < lines, ragged, shared)
    return replace(found, images=True, chunks=line * size == UNIT) if images else found


def cuts_taps(problem: Problem, config: WgmmaConfig) -> bool:
    """Whether a box of images may begin behind a filter's last tap, where TMA is to fill it with zeros."""
    conv, across = problem.inputs.conv, config.BN if problem.inputs.wgrad else config.BK
    return conv is not None and conv.depth % across != 0


def mapped(problem: Problem) -> tuple[MatrixSizes, ...]:
    """The matrices that TMA moves, except those that an epilogue reaches as it does C, and C of groups of rows."""
    reached = not c_by_tma(problem) or problem.epilogue.written_matrices or problem.inputs.ragged_groups
    loaded = ("B",) if problem.inputs.gathered else ("A", "B")
    return tuple(one for one in problem.matrices if one.name in loaded or (one.name == "C" and not reached))


def piece_box(problem: Problem, config: WgmmaConfig) -> tuple[int, int]:
    """Columns and rows of C that are stored at once: swizzled lines by TMA, else rows, eight per warp."""
    size, columns = problem.types.c.size, config.BN // config.SPLIT
    if config.SWAP:
        return gcd(LINE_BYTES // size, M), _parts(config.BM // config.SPLIT)
    if swaps(config):
        return gcd(LINE_BYTES // size, M), gcd(PIECE_ROWS, config.BM // config.SPLIT)
    if staged(problem):
        return gcd(LINE_BYTES // size, columns), M
    return max(some for some in range(8, ROW_BYTES // size + 1, 8) if columns % some == 0), M


def _parts(rows: int) -> int:
    """The number of parts into which `rows` rows are divided."""
    least, most = PARTS
    parts = [part for part in range(8, rows + 1, 8) if rows % part == 0]
    within = [part for part in parts if least <= part <= most]
    return max(within) if within else next((part for part in parts if part > most), rows)


def row_access(problem: Problem) -> int:
    """Elements per access that stores C by rows: a 4-byte word if rows begin and end at words."""
    word = WORD // problem.types.c.size
    return gcd(word, problem.vector_limit("ldc"), problem.n or 1)


def maps_of(problem: Problem, config: WgmmaConfig) -> tuple[TensorMap, ...]:
    """The tensor maps of A, unless threads gather its rows, and B, each with the map of its tail if it has one, and of
    C if TMA stores it."""
    matrix = (1, 1) if problem.pointers else (1,) if problem.batched else ()
    piece = (1,) if problem.types.compute.pieces else (1, 1) if problem.inputs.along_k else matrix
    maps = []
    for x, dtype in zip(operands(problem, config), problem.types.factors, strict=True):
        if x.gathered:
            continue
        if x.packed:
            maps.append(map_of(x.X, (x.line, x.lines), 0, PROMOTION_BYTES))
            continue
        lines = x.lines // config.CLUSTER if x.shared else x.lines
        span, rounds = x.line * dtype.size, problem.types.compute is Compute.TF32
        if x.images:
            assert problem.inputs.conv is not None
            walk = im2col_walk(problem.inputs.conv)
            swizzle = 0 if x.chunks else span
            maps.append(map_of(x.X, (x.line, lines), swizzle, PROMOTION_BYTES, rounds, False, False, *walk))
            continue
        for tail in (False, True)[: 1 + x.ragged]:
            box = (x.line, lines, *((1,) if x.grouped else piece))
            bounded = problem.inputs.along_k
            maps.append(map_of(x.X, box, span, PROMOTION_BYTES, rounds, problem.pointers, tail, bounded=bounded))
    if c_by_tma(problem):
        columns, rows = piece_box(problem, config)
        span = columns * problem.types.c.size
        swizzle = span if span >= 2 * UNIT else 0
        maps.append(map_of("C", (columns, rows, *matrix), swizzle, anywhere=problem.pointers))
    return tuple(maps)
