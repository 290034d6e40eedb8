"""The record that the templates of `wgmma` read about a kernel, beside its constants."""

from __future__ import annotations

from typing import cast

from gemmgen.families.wgmma.axes import WgmmaConfig
from gemmgen.families.wgmma.constants import (
    alternates,
    at_once,
    direct,
    donates,
    even,
    mmas,
    piece_columns,
    register_ratio,
    single,
    stored,
)
from gemmgen.families.wgmma.operands import c_by_tma, cuts_taps, mapped, operands, piece_box, row_access, staged, swaps
from gemmgen.kernel.plan import Plan
from gemmgen.kernel.prepare import Codes
from gemmgen.kernel.tensor_map import BOUND, MOST_DIMENSIONS, PATTERN_LINES, UNIT
from gemmgen.problem.inputs import BLOCK
from gemmgen.problem.types import PROMOTION
from gemmgen.problem.wgmma import WARPGROUP, M, Wgmma


class WgmmaView:
    """The values that the templates of `wgmma` read of a plan, in addition to its constants."""

    def __init__(self, plan: Plan) -> None:
        one, problem = cast(WgmmaConfig, plan.config), plan.problem
        assert isinstance(plan.mma, Wgmma) and plan.sums is not None, "constraints ask for one"
        self.a, self.b = operands(problem, one)
        self.cut_k = bool((problem.k or 0) % one.BK)  # the last k tile ends beyond K
        self.cut_n = problem.n is None or bool(problem.n % one.BN)  # a tile may end beyond N
        self.inputs = problem.inputs
        self.block = problem.inputs.block
        self.blocks_scaled = problem.inputs.blocks  # sums of a k tile have a scale of A's block and one of B's,
        self.lines_scaled = problem.inputs.lines  # where each column has its own
        self.padded = problem.inputs.padded  # rows of scales begin at multiples of 16 bytes
        self.straddles = problem.inputs.squares and BLOCK % one.BN != 0  # a tile's columns may lie in two blocks of B
        self.codes = Codes.of(problem)  # B's, which become numbers in registers; None: it has none
        depth = self.codes.depth if self.codes else one.BK
        self.absent_chunks = bool(
            -(-(problem.k or 0) // depth) % (one.BK // depth)
        )  # the last k tile has some beyond K
        self.feeds = bool(one.FROM_REGISTERS)  # products take the fragments of one of them from registers
        self.swapped = swaps(one)  # rows of an instruction are columns of C: products are those of its transpose
        self.first, self.second = (self.b, self.a) if self.swapped else (self.a, self.b)  # by the instruction's lines
        self.limited = tuple(x for x in (self.a, self.b) if x.limited)  # whose tiles have lines that no copy loads
        self.products = problem.products  # of A with a matrix of B each; a tile has the same number of columns of all
        self.gated = problem.products > 1
        self.wgmma = plan.mma  # the instruction
        self.halves = plan.mma.c_shared == 2  # a register holds two sums of f16
        self.promoted = problem.types.compute.promotes  # sums are added up in f32 after a k tile, or a pair of pieces
        self.pieces = problem.types.compute.pieces  # how operands are split; None: they are not
        self.linear = problem.epilogue.is_linear  # C is alpha * acc + beta * C
        self.batched = problem.batched  # tensor maps have a third dimension
        self.batch = problem.batch or "batch"  # how many matrices that counts: a number, or the parameter's name
        self.conv = problem.inputs.conv  # of images, which A or B holds; None: both hold matrices
        self.cut_taps = cuts_taps(problem, one)  # a box of channels may begin behind the last tap
        self.gathered = problem.inputs.gathered  # threads copy rows of A that an index names
        self.cut_rows_of_a = not problem.k or self.cut_k  # of which some may end inside of a k tile
        self.images = next((x for x in (self.a, self.b) if x.images), None)  # which of them
        self.groups = problem.inputs.ragged_groups  # of rows, each with its B; 0: none
        self.masked = problem.inputs.masked  # with its A and C, too
        self.counted = self.batched and not self.groups  # tiles of a matrix, and so that of a tile, by its number
        self.along_k = problem.inputs.along_k  # groups are ranges of K, each with its C
        self.bound_bits = BOUND.bit_length() - 1  # of where lines of bounded maps end
        self.pointers = problem.pointers  # and a fourth: of all memory, for matrices that lie where pointers say
        self.c_rank = 4 if self.pointers else 3 if self.batched else 2  # dimensions of C's tensor map
        # And of those of A and B, with one more for B of groups.
        self.box_rank = MOST_DIMENSIONS if self.along_k else 3 if self.pieces else self.c_rank
        self.matrix = "matrix" if self.batched else ""  # how the kernel calls the number of a matrix of the batch
        # Sizes that the kernel has from tensor maps, as numbers, or as those of a group alone.
        of_groups = ("M",) * self.masked + ("K",) * self.along_k
        distances = (name for matrix in mapped(problem) for name in (matrix.ld, matrix.stride))
        self.unread = ("batch", *of_groups, *distances)
        # More lines are copied at once than a tile has left, and a row that is to be gathered may be none of C's.
        self.rows_beside_tile = self.gathered and one.BM * plan.constants["CHUNKS_A"] % WARPGROUP != 0
        self.rows_end = self.groups > 0 or "M" in plan.edges or self.rows_beside_tile
        self._work_of_blocks(plan, one)
        self._main_loop(plan, one)
        self._way_of_c(plan, one)
        self._templates()

    def _work_of_blocks(self, plan: Plan, one: WgmmaConfig) -> None:
        self.uniform = bool(one.BROADCAST)  # the compiler is told that a warp's lanes are of one consumer
        self.uniform_stage = self.uniform and one.CONSUMERS == 1  # and that they multiply the same stage
        self.cluster = one.CLUSTER  # blocks of a cluster, which share A or B
        self.along = "n" if one.ACROSS else "m" if one.CLUSTER > 1 else ""  # how their tiles lie; "" of a block alone
        self.split = one.SPLIT > 1  # the blocks of a cluster compute a tile, each over a range of K
        self.even = even(plan.problem, one)  # which are known to have the same length
        # A range of K can have no k tile.
        self.may_be_empty = not self.even if self.split else not plan.problem.k or self.along_k
        self.persistent = bool(one.PERSISTENT)  # a block computes several tiles, one after the other
        self.pingpong = bool(one.PINGPONG)  # its consumers take turns at tiles, instead of sharing each
        self.donates = donates(one)  # the producer gives registers to the consumers
        # A consumer lets a tile pass whose group has none of its rows.
        self.skips = self.groups > 0 and self.donates and not self.pingpong and not self.swapped

    def _main_loop(self, plan: Plan, one: WgmmaConfig) -> None:
        assert plan.sums is not None
        k = plan.problem.k
        self.whole_intervals = k is not None and k % PROMOTION == 0  # K is some of those between sums of pieces
        self.in_flight = bool(one.IN_FLIGHT)  # a k tile's products may be in flight while the next one is awaited
        # K tiles alternate between two sets of sums: products of one are in flight while the other is promoted.
        self.alternates = alternates(plan.problem, one)
        # The number of k tiles may be odd.
        self.odd = k is None or any(-(-(end - start) // one.BK) % 2 for start, end in plan.sums.ranges(k))
        # A branch holds the loop and the wait for the last products, as a range of K may be empty.
        self.guarded = self.may_be_empty and self.in_flight and not self.pieces and not self.persistent
        # How the kernel calls the number of a consumer's instructions across its tile; "" for one.
        self.mmas = "" if single(plan.problem, one) else mmas(one)
        # Of an instruction, or rows where C is transposed, whose sums take a register of each thread.
        self.register_ratio = register_ratio(plan.problem).as_integer_ratio()  # of columns, or rows if C is transposed
        self.summed = "totals" if self.promoted else "acc"  # the registers that hold a consumer's sums of a tile,
        self.kept = "part" if self.split else self.summed  # and those that hold the sums that it stores

    def _way_of_c(self, plan: Plan, one: WgmmaConfig) -> None:
        problem, (columns, rows) = plan.problem, piece_box(plan.problem, one)
        self.staged = staged(problem)  # whole pieces of C; else warps stage rows, eight at a time
        self.scattered = problem.inputs.scattered  # an index names the rows of C, which threads store
        self.c_by_tma = c_by_tma(problem)  # TMA stores C
        self.reads_c = self.staged and problem.epilogue.reads_c  # a piece has the old C before,
        self.loads_c = self.c_by_tma and self.reads_c  # which TMA loads, too
        # C is alpha * acc + beta * C and no thread checks C's edges: sums go to shared memory as they are.
        self.direct = direct(problem, one)
        self.at_once = at_once(problem, one)  # a thread computes its whole share of a piece, then stores
        self.whole = bool(one.WHOLE)  # threads stage whole pieces of C, and TMA drops what lies beyond an edge
        self.edges = _edges(plan, one)  # of M and N those whose edges threads check nevertheless
        # Threads compute addresses of matrix elements in global memory, as TMA does not move all of them.
        matrices = any(operand.is_matrix for operand in problem.epilogue.operands)
        self.reaches = not self.staged or matrices or bool(self.groups) or self.gathered or self.scattered
        self.vectors = not self.direct or bool(self.limited)  # code beside copies of operands moves vectors
        self.chunk = UNIT // problem.types.c.size  # elements of C per 16 bytes
        self.chunks = plan.constants["CN"] * problem.types.c.size // UNIT  # of 16 bytes per line in shared memory
        self.full_lines = self.chunks == PATTERN_LINES  # a line fills a swizzle pattern: its number is the permutation
        self.piece_rows = rows  # rows of C that are stored at once
        # A consumer's threads move pieces of groups in steps, a chunk each; the last step moves fewer.
        self.part_step = bool(rows * (M if self.swapped else columns * one.C_BOXES) // self.chunk % WARPGROUP)
        # 8 x 8 matrices that a warp stores at once if C is transposed: two side by side, of 8 or 16 rows.
        self.matrices_at_once = 2 if rows % 16 else 4
        self.c_boxes = M // columns if self.swapped else one.C_BOXES  # boxes of TMA, side by side, in a piece of C
        # How the kernel calls a piece's rows where products are those of C's transpose, else its columns,
        self.piece = "CM" if self.swapped else piece_columns(one)
        self.box_lines, self.boxes_columns = ("CM", str(M)) if self.swapped else (str(M), self.piece)  # and of boxes,
        self.stored = stored(one)  # and the columns of the tile that a block stores, or rows where C is transposed
        self.row_access = row_access(problem)  # elements of C that a lane of warps that store rows stores at once
        self.rows_unroll = bool(one.ROWS_UNROLL)  # the loop over eight of these rows is unrolled
        # Dimensions of the boxes that TMA loads,
        alone = [x for x in (self.a, self.b) if not x.gathered and (not self.conv or not (x.images or x.shared))]
        of_c = (self.c_rank,) if self.loads_c else ()
        self.loaded_ranks = tuple(dict.fromkeys((*(self.box_rank + x.grouped for x in alone), *of_c)))
        self.stored_ranks = (self.c_rank,) if self.c_by_tma else ()  # and of those that it stores

    def _templates(self) -> None:
        """Choose the templates of templates/wgmma that the kernel is made of, and macros of others."""
        self.tiles = _path("tiles", "turns" if self.pingpong else "persistent" if self.persistent else "one")
        self.schedule = _path("schedule", "groups" if self.groups else "depths" if self.along_k else "grid")
        self.blocks = _path("blocks", "split" if self.split else "multicast" if self.cluster > 1 else "alone")
        self.raster = {"": "raster", "m": "raster_below", "n": "raster_beside"}[self.along]
        self.mainloop = _path("mainloop", self._loop())
        self.ends = _path("ends", "guarded" if self.guarded else "asked" if self.may_be_empty else "certain")
        self.each = _path("mmas", "several" if self.mmas else "one")
        self.product = _path("product", "transposed" if self.swapped else "c")
        self.matrices = _path("matrices", "several" if self.gated else "one")
        self.roles = _path("roles", "uniform" if self.uniform else "plain")
        sums = "transposed" if self.swapped else "direct"
        self.store = _path("store", sums if self.direct else "staged" if self.staged else "rows")
        self.moves = _path("moves", "scattered" if self.scattered else "masked" if self.groups else "whole")
        self.boxes = _path("boxes", "several" if self.c_boxes > 1 else "one")
        self.epilogue = f"epilogue/{'linear' if self.linear else 'at_once' if self.at_once else 'tree'}.cu"
        self.batches = "pointers" if self.pointers else "strided" if self.batched else "none"

    def _loop(self) -> str:
        if self.codes:
            return "codes"
        if self.feeds or self.pieces:
            return "fragments" if self.feeds else "pieces"
        if self.promoted:
            return "pairs" if self.alternates else "promoted"
        return "in_flight" if self.in_flight else "awaited"


def _path(folder: str, name: str) -> str:
    return f"wgmma/{folder}/{name}.cu"


def _edges(plan: Plan, config: WgmmaConfig) -> tuple[str, ...]:
    """The sizes, of M and N, at whose edges a thread that stages a piece of C must check."""
    epilogue = plan.problem.epilogue
    read = (epilogue.reads_rows, epilogue.reads_columns) if config.WHOLE else (True, True)
    if epilogue.is_linear and not staged(plan.problem):  # eight rows are staged whole
        return ()
    return tuple(name for name, cares in zip("MN", read, strict=True) if cares and name in plan.edges)
