"""How a warpgroup finds a k tile in a stage of `wgmma`'s ring, as the kernel writes it."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.families.wgmma.axes import WgmmaConfig
from gemmgen.families.wgmma.operands import Operand
from gemmgen.problem.gemm import Problem
from gemmgen.problem.wgmma import M


@dataclass(frozen=True)
class Tile:
    """An operand's k tile in shared memory, as expressions of the rendered kernel.

    at       where the rows, or columns, of a warpgroup begin
    swizzle  bytes of a line, which are swizzled
    leading  bytes that a descriptor calls so: those between boxes, where lines run across k
    stride   and those between groups of eight lines
    step     what the descriptor gains by k, and
    row      by 64 rows or columns, in chunks of 16 bytes
    """

    at: str
    swizzle: str
    leading: str
    stride: str
    step: str
    row: str


def tile_of(problem: Problem, config: WgmmaConfig, x: Operand, first: str = "") -> Tile:
    """The k tile of an operand, of which a warpgroup multiplies the lines from `first` on; "": all of them."""
    line, block = f"LINE_{x.X}", _of_all(x, f"B{x.MN}")
    element = f"sizeof({problem.types.factors[x.x == 'b'].ctype})"
    along = "k" if x.boxes == 1 else f"(k / {line} * {line} * {block} + k % {line})"
    length = line if x.along_k else "BK"  # elements from one row to the next, or from one box of lines to the next
    return Tile(
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
