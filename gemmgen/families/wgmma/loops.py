"""Which tiles of C a block of `wgmma` computes, and over which k tiles: loops and indices as the kernel writes them."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.families.wgmma.axes import WgmmaConfig
from gemmgen.families.wgmma.constants import even, mmas, single
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import PROMOTION


@dataclass(frozen=True)
class Loops:
    """Expressions of the rendered kernel.

    first         number of the block's first tile of C, or of its cluster's
    step          from there to the next one of a persistent block
    number        of the tile that it computes
    tile          the same within a matrix of the batch
    matrix        number of that matrix; "" where there is no batch
    tiles         how many tiles a matrix has
    every         and all matrices together
    pieces        numbers of the pieces of A and B that a pair names, in the batch; () where operands are not split
    begin, end    of the block's range of K
    extent        of that range
    loop          over the k tiles that sums are accumulated over
    later         whether one of them is not the first
    any           whether there is a k tile; "" where there always is
    interval_end  where an interval of K ends, of operands that are split; "" where they are not
    arguments     of multiply_stage and multiply_step, between the stage and what is accumulated
    """

    first: str
    step: str
    number: str
    tile: str
    matrix: str
    tiles: str
    every: str
    pieces: tuple[str, ...]
    begin: str
    end: str
    extent: str
    loop: str
    later: str
    any: str
    interval_end: str
    arguments: str


def loops_of(problem: Problem, config: WgmmaConfig) -> Loops:
    """The loops of a block of `config`, for a problem and a config that hold the constraints."""
    blocks = " / CLUSTER" if config.CLUSTER > 1 else " / SPLIT" if config.SPLIT > 1 else ""  # that share a tile
    number = "number" if config.PERSISTENT else f"static_cast<int>(blockIdx.x{blocks})"
    begin, end, extent = ("begin", "end", "end - begin") if config.SPLIT > 1 else ("0", "s.K", "s.K")
    split_operands = problem.types.compute.pieces is not None
    before = f"{number} / tiles * PIECES + " if problem.batched else ""  # the matrix's first piece
    loop, later = _k_loop(problem, begin, end)
    rows = "" if config.PINGPONG else f"consumer * {'' if single(problem, config) else f'{mmas(config)} * '}64, "
    return Loops(
        first=f"blockIdx.x{blocks}",
        step=f"gridDim.x{blocks}",
        number=number,
        tile=f"{number} % tiles" if problem.batched else number,
        matrix=f"{number} / tiles" if problem.batched else "",
        tiles=_tiles(config),
        every=f"tiles * {problem.batch or 'batch'}" if problem.batched else "tiles",
        pieces=(f"{before}pair.a", f"{before}pair.b") if split_operands else (),
        begin=begin,
        end=end,
        extent=extent,
        loop=loop,
        later=later,
        any=_any(problem, config),
        interval_end=_interval_end(problem, end) if split_operands else "",
        arguments=f"{rows}{later}, " if split_operands else rows,
    )


def _any(problem: Problem, config: WgmmaConfig) -> str:
    if config.SPLIT > 1:
        return "" if even(problem, config) else "begin < end"
    return "" if problem.k else "s.K > 0"


def _tiles(config: WgmmaConfig) -> str:
    rows, columns = ("BM", "CLUSTER_N") if config.ACROSS else ("CLUSTER_M" if config.CLUSTER > 1 else "BM", "BN")
    return f"((s.M + {rows} - 1) / {rows}) * ((s.N + {columns} - 1) / {columns})"


def _whole_intervals(problem: Problem) -> bool:
    """Whether K is some of the intervals over which pairs of pieces are summed."""
    return problem.k is not None and problem.k % PROMOTION == 0


def _interval_end(problem: Problem, end: str) -> str:
    return "first + INTERVAL" if _whole_intervals(problem) else f"min(first + INTERVAL, {end})"


def _k_loop(problem: Problem, begin: str, end: str) -> tuple[str, str]:
    """(loop, later): over k tiles of A and B, or of all pairs of their pieces in an interval."""
    if problem.types.compute.pieces is None:
        return f"int k = {begin}; k < {end}; k += BK", f"k > {begin}"
    interval = "INTERVAL / BK" if _whole_intervals(problem) else f"((min(INTERVAL, {end} - first) + BK - 1) / BK)"
    return f"int i = 0; i < PAIRS * {interval}; ++i", "i > 0"
