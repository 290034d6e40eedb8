"""The record that the templates of `wgmma` read about a kernel, beside its constants."""

from __future__ import annotations

from dataclasses import dataclass
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
    register_columns,
    single,
    stored,
)
from gemmgen.families.wgmma.operands import Operand, mapped, operands, piece_box, row_access, staged, swaps
from gemmgen.kernel.plan import Plan
from gemmgen.kernel.tensor_map import PATTERN_LINES, UNIT
from gemmgen.problem.pieces import Pieces
from gemmgen.problem.types import PROMOTION
from gemmgen.problem.wgmma import M, Wgmma


@dataclass(frozen=True)
class WgmmaView:
    """The record that the templates of `wgmma` need beside the constants.

    a, b         operands
    feeds        products take the fragments of one of them from registers
    swapped      rows of an instruction are columns of C: products are those of its transpose
    wgmma        the instruction
    halves       whether a register holds two sums of f16
    promoted     whether sums are added up in f32 after each k tile, or after some of each pair of pieces
    pieces       how operands are split; None: they are not
    staged       whether TMA stores C from shared memory; else warps do
    loads_c      whether TMA also loads the old C
    direct       whether C is alpha * acc + beta * C and no thread checks C's edges: sums go to shared memory as they
                 are
    at_once      whether a thread computes its whole share of a piece before it stores the first element
    whole        whether threads stage whole pieces of C, and TMA drops what lies beyond an edge
    edges        the sizes, of M and N, whose edges threads check nevertheless, as the epilogue reads along them
    reaches      whether threads compute addresses of matrix elements in global memory, as TMA does not move all of them
    chunk        elements of C per 16 bytes
    chunks       chunks of 16 bytes per line in shared memory
    piece_rows   rows of C that are stored at once
    c_boxes      boxes of TMA, side by side, in a piece of C
    piece        rows of these where products are those of C's transpose, else columns, as the kernel calls them
    row_access   elements of C that a lane of these stores at once
    rows_unroll  the loop over eight of these rows is unrolled
    uniform      the compiler is told that a warp's lanes are of one consumer
    uniform_stage    and of a consumer alone, that they multiply the same stage
    cluster      blocks of a cluster, which share A or B
    along        in which direction their tiles lie: "m" or "n"; "" of a block alone
    may_be_empty a block's range of K can have no k tile
    whole_intervals  K is some of the intervals over which pairs of pieces are summed
    split        the blocks of a cluster compute a tile, each over a range of K
    even         which are known to have the same length
    stored       how the kernel calls the columns of the tile that a block stores, or rows where C is transposed
    persistent   whether a block computes several tiles, one after the other
    pingpong     whether its consumers take turns at tiles, instead of sharing each
    donates      whether the producer gives registers to the consumers
    in_flight    whether a k tile's products may be in flight while the next k tile is awaited
    alternates   whether k tiles alternate between two sets of sums: products of one are in flight while the other is
                 promoted
    odd          whether the number of k tiles may be odd
    mmas         instructions of a consumer across its tile, as the kernel calls their number; "" for one
    register_columns of an instruction, or rows where C is transposed, whose sums take a register of each thread
    batched      tensor maps have a third dimension
    batch        how many matrices that counts: a number, or the parameter's name
    pointers     and a fourth: of all memory, for matrices that lie where pointers say
    linear       whether C is alpha * acc + beta * C
    unread       sizes that the kernel has from tensor maps, or as numbers
    """

    a: Operand
    b: Operand
    feeds: bool
    swapped: bool
    wgmma: Wgmma
    halves: bool
    promoted: bool
    pieces: Pieces | None
    staged: bool
    loads_c: bool
    direct: bool
    at_once: bool
    whole: bool
    edges: tuple[str, ...]
    reaches: bool
    chunk: int
    chunks: int
    piece_rows: int
    c_boxes: int
    piece: str
    row_access: int
    rows_unroll: bool
    uniform: bool
    uniform_stage: bool
    cluster: int
    along: str
    may_be_empty: bool
    whole_intervals: bool
    split: bool
    even: bool
    stored: str
    persistent: bool
    pingpong: bool
    donates: bool
    in_flight: bool
    alternates: bool
    odd: bool
    mmas: str
    register_columns: int
    batched: bool
    batch: int | str
    pointers: bool
    linear: bool
    unread: tuple[str, ...]

    @property
    def vectors(self) -> bool:
        """Whether code other than copies of operands moves vectors of elements."""
        return not self.direct or bool(self.limited)

    @property
    def c_rank(self) -> int:
        """Dimensions of C's tensor map."""
        return 4 if self.pointers else 3 if self.batched else 2

    @property
    def matrices_at_once(self) -> int:
        """The number of 8 x 8 matrices that a warp stores at once if C is transposed: two side by side, of 8 or 16
        rows."""
        return 2 if self.piece_rows % 16 else 4

    @property
    def full_lines(self) -> bool:
        """Whether a line of C in shared memory fills TMA's swizzle pattern, so that the line's number gives the
        permutation."""
        return self.chunks == PATTERN_LINES

    @property
    def box_lines(self) -> str:
        """Lines of a box of C, as the kernel calls their number."""
        return "CM" if self.swapped else str(M)

    @property
    def boxes_columns(self) -> str:
        """Columns of a piece of several boxes, as the kernel calls their number."""
        return str(M) if self.swapped else self.piece

    @property
    def box_rank(self) -> int:
        """Dimensions of the tensor maps of A and B."""
        return 3 if self.pieces else self.c_rank

    @property
    def guarded(self) -> bool:
        """Whether a range of K may be empty: a branch holds its loop and the wait for the last products."""
        return self.may_be_empty and self.in_flight and not self.pieces and not self.persistent

    @property
    def gated(self) -> bool:
        """Whether B is two matrices, of each of which a tile has the same number of columns."""
        return self.b.beside > 1

    @property
    def summed(self) -> str:
        """The name of the registers that hold a consumer's sums of a tile of C."""
        return "totals" if self.promoted else "acc"

    @property
    def kept(self) -> str:
        """The name of the registers that hold the sums of a tile of C that a consumer stores."""
        return "part" if self.split else self.summed

    @property
    def limited(self) -> tuple[Operand, ...]:
        """The operands whose tiles have lines that no copy loads."""
        return tuple(x for x in (self.a, self.b) if x.limited)

    @property
    def first(self) -> Operand:
        """The operand whose lines are the 64 rows of an instruction."""
        return self.b if self.swapped else self.a

    @property
    def second(self) -> Operand:
        """The other one, whose lines are its columns."""
        return self.a if self.swapped else self.b

    # Which templates of templates/wgmma the kernel is made of, and macros of others.

    @property
    def tiles(self) -> str:
        """Which tiles of C a block computes."""
        return _template("tiles", "turns" if self.pingpong else "persistent" if self.persistent else "one")

    @property
    def blocks(self) -> str:
        """What it shares with other blocks."""
        return _template("blocks", "split" if self.split else "multicast" if self.cluster > 1 else "alone")

    @property
    def raster(self) -> str:
        """Where its tile lies."""
        return {"": "raster", "m": "raster_below", "n": "raster_beside"}[self.along]

    @property
    def mainloop(self) -> str:
        """How k tiles are multiplied."""
        if self.feeds or self.pieces:
            return _template("mainloop", "fragments" if self.feeds else "pieces")
        if self.promoted:
            return _template("mainloop", "pairs" if self.alternates else "promoted")
        return _template("mainloop", "in_flight" if self.in_flight else "awaited")

    @property
    def ends(self) -> str:
        """How the last products under way are awaited."""
        return _template("ends", "guarded" if self.guarded else "asked" if self.may_be_empty else "certain")

    @property
    def each(self) -> str:
        """How many instructions have the lines of a consumer's tile."""
        return _template("mmas", "several" if self.mmas else "one")

    @property
    def product(self) -> str:
        """Whether these are products of C or of its transpose."""
        return _template("product", "transposed" if self.swapped else "c")

    @property
    def matrices(self) -> str:
        """How many matrices B is."""
        return _template("matrices", "two" if self.gated else "one")

    @property
    def roles(self) -> str:
        """How a thread knows its role."""
        return _template("roles", "uniform" if self.uniform else "plain")

    @property
    def store(self) -> str:
        """How sums get to C,"""
        if self.direct:
            return _template("store", "transposed" if self.swapped else "direct")
        return _template("store", "staged" if self.staged else "rows")

    @property
    def boxes(self) -> str:
        """in how many boxes at once,"""
        return _template("boxes", "several" if self.c_boxes > 1 else "one")

    @property
    def epilogue(self) -> str:
        """and by which epilogue."""
        return f"epilogue/{'linear' if self.linear else 'at_once' if self.at_once else 'tree'}.cu"

    @property
    def loaded_ranks(self) -> tuple[int, ...]:
        """Dimensions of the boxes that TMA loads,"""
        return tuple(dict.fromkeys((self.box_rank, self.c_rank))) if self.loads_c else (self.box_rank,)

    @property
    def stored_ranks(self) -> tuple[int, ...]:
        """and of those that it stores."""
        return (self.c_rank,) if self.staged else ()

    @property
    def batches(self) -> str:
        """How matrices of a batch are found."""
        return "pointers" if self.pointers else "strided" if self.batched else "none"

    @property
    def matrix(self) -> str:
        """How the kernel calls the number of a matrix of the batch; "" where there is none."""
        return "matrix" if self.batched else ""


def _template(folder: str, name: str) -> str:
    return f"wgmma/{folder}/{name}.cu"


def view_of(plan: Plan) -> WgmmaView:
    """The view of a plan of this family."""
    one, problem = cast(WgmmaConfig, plan.config), plan.problem
    a, b = operands(problem, one)
    assert isinstance(plan.mma, Wgmma) and plan.sums is not None, "constraints ask for one"
    columns, rows = piece_box(problem, one)
    return WgmmaView(
        a=a,
        b=b,
        feeds=bool(one.FROM_REGISTERS),
        swapped=swaps(one),
        wgmma=plan.mma,
        halves=plan.mma.c_shared == 2,
        promoted=problem.types.compute.promotes,
        pieces=problem.types.compute.pieces,
        staged=staged(problem),
        loads_c=staged(problem) and problem.epilogue.reads_c,
        direct=direct(problem, one),
        at_once=at_once(problem, one),
        whole=bool(one.WHOLE),
        edges=_edges(plan, one),
        reaches=not staged(problem) or any(one.is_matrix for one in problem.epilogue.operands),
        chunk=UNIT // problem.types.c.size,
        chunks=plan.constants["CN"] * problem.types.c.size // UNIT,
        piece_rows=rows,
        c_boxes=M // columns if swaps(one) else one.C_BOXES,
        piece="CM" if swaps(one) else piece_columns(one),
        row_access=row_access(problem),
        rows_unroll=bool(one.ROWS_UNROLL),
        uniform=bool(one.BROADCAST),
        uniform_stage=bool(one.BROADCAST) and one.CONSUMERS == 1,
        cluster=one.CLUSTER,
        along="n" if one.ACROSS else "m" if one.CLUSTER > 1 else "",
        may_be_empty=not even(problem, one) if one.SPLIT > 1 else not problem.k,
        whole_intervals=problem.k is not None and problem.k % PROMOTION == 0,
        split=one.SPLIT > 1,
        even=even(problem, one),
        stored=stored(one),
        persistent=bool(one.PERSISTENT),
        pingpong=bool(one.PINGPONG),
        donates=donates(one),
        in_flight=bool(one.IN_FLIGHT),
        alternates=alternates(problem, one),
        odd=problem.k is None or any(-(-(end - k) // one.BK) % 2 for k, end in plan.sums.ranges(problem.k)),
        mmas="" if single(problem, one) else mmas(one),
        register_columns=register_columns(problem, one),
        batched=problem.batched,
        batch=problem.batch or "batch",
        pointers=problem.pointers,
        linear=problem.epilogue.is_linear,
        unread=("batch", *(name for one in mapped(problem) for name in (one.ld, one.stride))),
    )


def _edges(plan: Plan, config: WgmmaConfig) -> tuple[str, ...]:
    """The sizes, of M and N, at whose edges a thread that stages a piece of C must check."""
    epilogue = plan.problem.epilogue
    read = (epilogue.reads_rows, epilogue.reads_columns) if config.WHOLE else (True, True)
    if epilogue.is_linear and not staged(plan.problem):  # eight rows are staged whole
        return ()
    return tuple(name for name, cares in zip("MN", read, strict=True) if cares and name in plan.edges)
