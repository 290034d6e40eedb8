"""A stage of `wgmma`'s ring as the kernel writes it: how TMA fills it, and how a warpgroup finds what is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmgen.families.wgmma.axes import WgmmaConfig
from gemmgen.families.wgmma.loops import Loops
from gemmgen.families.wgmma.operands import Operand, operands
from gemmgen.kernel.tensor_map import PATTERN_LINES
from gemmgen.problem.gemm import Problem
from gemmgen.problem.wgmma import M


@dataclass(frozen=True)
class Copy:
    """A call of the rendered kernel that lets TMA bring a box of a k tile, or several, each `at` another place.

    function  that starts it
    map       of the operand, or of its tail
    to        where the box goes
    start     where it begins in the operand
    boxes     bound and step of `at`; () for one box
    inside    the condition under which it is not wholly outside of the matrix; "" if it never is
    blocks    those of the cluster that get it, as a mask; "" for this one alone
    """

    function: str
    map: str
    to: str
    start: str
    boxes: tuple[str, ...]
    inside: str
    blocks: str


@dataclass(frozen=True)
class Tail:
    """How a block finds what a run-time size leaves of an operand's tile, as expressions of the rendered kernel.

    what   the operand's lines are: "rows" or "columns"
    lines  of the tile within the matrix, rounded up to 8
    cut    whether the size cuts the box that the block brings
    """

    what: str
    lines: str
    cut: str


@dataclass(frozen=True)
class Tile:
    """An operand's k tile in shared memory, as expressions of the rendered kernel.

    bytes    that copies bring to a stage
    at       where the rows, or columns, of a warpgroup begin
    swizzle  bytes of a line, which are swizzled
    leading  bytes that a descriptor calls so: those between boxes, where lines run across k
    stride   and those between groups of eight lines
    step     what the descriptor gains by k, and
    row      by 64 rows or columns, in chunks of 16 bytes
    """

    bytes: str
    at: str
    swizzle: str
    leading: str
    stride: str
    step: str
    row: str


def copies_of(problem: Problem, config: WgmmaConfig, loops: Loops) -> tuple[Copy, ...]:
    """The copies that fill a stage."""
    clustered = config.CLUSTER > 1
    return tuple(copy for x in operands(problem, config) for copy in _copies(problem, x, loops, clustered))


def _copies(problem: Problem, x: Operand, loops: Loops, clustered: bool) -> Iterator[Copy]:
    block, line = f"B{x.MN}", f"LINE_{x.X}"
    lines = _of_all(x, block) if x.along_k else "BK"  # of a box
    at, part = " + at" if x.boxes > 1 else "", " + part" if x.shared else ""
    inside = f"part < lines_{x.x}" if x.shared else f"lines_{x.x} > 0" if clustered else ""
    within = f" + part * {line}" if x.shared else ""
    for second in range(x.beside):
        behind = f" + {block} * {line if x.along_k else 'BK'}" if second else ""
        to = f"shared.{x.x}[ring.stage]{behind}{f'{at} * {lines}' if at else ''}{within}"
        first = f"s.{x.MN} + tile.{x.mn}" if second else f"tile.{x.mn}"
        start = f"k{at}, {first}{part}" if x.along_k else f"{first}{at}, k{part}"
        matrix = _matrix(problem, x, loops)
        yield Copy(
            function=f"tma_load_{'multicast_' if x.shared else ''}{2 + len(matrix)}d",
            map=f"box_{x.x}" if x.ragged else f"&map_{x.x}",
            to=to,
            start=", ".join((start, *matrix)),
            boxes=("BK" if x.along_k else block, line) if x.boxes > 1 else (),
            inside=inside if x.ragged else "",
            blocks="(1 << CLUSTER) - 1" if x.shared else "",
        )


def tail_of(config: WgmmaConfig, x: Operand) -> Tail:
    """The tail of a ragged operand. A tile of a cluster may lie wholly outside of the matrix."""
    within = f"min(B{x.MN}, (s.{x.MN} - tile.{x.mn} + {PATTERN_LINES - 1}) / {PATTERN_LINES} * {PATTERN_LINES})"
    return Tail(
        what="rows" if x.x == "a" else "columns",
        lines=f"max(0, {within})" if config.CLUSTER > 1 else within,
        cut=f"lines_{x.x} - part < PART_{x.X}" if x.shared else f"lines_{x.x} < B{x.MN}",
    )


def _matrix(problem: Problem, x: Operand, loops: Loops) -> tuple[str, ...]:
    """The further coordinates of a box: which matrix it is of."""
    if loops.pieces:
        return (loops.pieces[x.x == "b"],)
    if problem.pointers:
        return f"origin_{x.x}.near", f"origin_{x.x}.far"
    return ("matrix",) if problem.batched else ()


def tile_of(problem: Problem, config: WgmmaConfig, x: Operand, first: str = "") -> Tile:
    """The k tile of an operand, of which a warpgroup multiplies the lines from `first` on; "": all of them."""
    line, block = f"LINE_{x.X}", _of_all(x, f"B{x.MN}")
    element = f"sizeof({problem.types.factors[x.x == 'b'].ctype})"
    along = "k" if x.boxes == 1 else f"(k / {line} * {line} * {block} + k % {line})"
    length = line if x.along_k else "BK"  # elements from one row to the next, or from one box of lines to the next
    count = f"lines_{x.x}" if x.ragged else _of_all(x, f"LINES_{x.X}")
    brought = f"{count} * BK * {element}" if x.limited or x.ragged else f"sizeof(shared.{x.x}[0])"
    return Tile(
        bytes=brought,
        at=f"shared.{x.x}[stage]{f' + {first} * {length}' if first else ''}",
        swizzle=f"{line} * {element}",
        leading="16" if x.along_k else f"BK * {line} * {element}",
        stride=f"8 * {line} * {element}",
        step=f"{along if x.along_k else f'k * {line}'} * {element} / 16",
        row=f"{M} * {length} * {element} / 16",
    )


def _of_all(x: Operand, lines: str) -> str:
    """Of so many columns of a matrix, those of all matrices side by side."""
    return f"{x.beside} * {lines}" if x.beside > 1 else lines
