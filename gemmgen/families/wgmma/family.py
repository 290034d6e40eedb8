"""`wgmma`: GEMM on Hopper's tensor cores, fed by TMA.

    grid -> block BM x BN -> warpgroup BM / CONSUMERS x BN -> instruction 64 x BN x K_STEP, in k tiles of BK

One warpgroup, the producer, lets TMA bring k tiles of A and B to a ring of STAGES stages in shared memory; the others,
the consumers, multiply them by wgmma, which reads shared memory itself. Two mbarriers per stage hand it over: `full`
when its bytes have arrived, `empty` when the consumers have read it. With PINGPONG each consumer computes block tiles
of its own, in turns: one stores C while another multiplies.

With SWAP A and B change places, C^T = B^T A^T: the 64 rows of an instruction are columns of C, and its columns, any
multiple of 8, are rows of C. So a tile can fit few rows, or fill waves of blocks that multiples of 64 rows cannot.

If C has too few tiles for the card, SPLIT blocks of a cluster compute a tile together, each over a range of K. They
exchange their sums in shared memory, where the ring was, and each block adds up and stores its part of the tile.

An operand whose alignment or order TMA or wgmma cannot take is copied into the workspace first. Elements of tf32 need
no copy for their order alone if threads load them: wgmma can take its first operand, with 64 rows, from registers. For
B that is the product of the transposes, as with SWAP.

Where A or B holds images, TMA gathers its tiles from them, tap by tap of a filter (im2col mode): only the producer
knows. Where an index names the rows of A, all threads of the producer copy them by cp.async, to where TMA would have
left them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from textwrap import wrap
from types import MappingProxyType
from typing import cast

from gemmgen.families.base import Family, constants, launch_of, sizes_of, tile_grid, unread_of_images
from gemmgen.families.wgmma.axes import CONSTRAINTS, PRUNING, WgmmaConfig
from gemmgen.families.wgmma.constants import derived, direct, donates, mmas, range_step, single
from gemmgen.families.wgmma.cost import across, cluster_tile, cost_of, work_of
from gemmgen.families.wgmma.operands import (
    LINE_BYTES,
    as_product,
    can_feed,
    cuts_lines,
    cuts_taps,
    feeds,
    instruction,
    maps_of,
    needed_copies,
    operands,
    prepares,
    staged,
    sums_type,
    swaps,
    taken,
)
from gemmgen.families.wgmma.view import WgmmaView
from gemmgen.kernel.config import Config, Derived
from gemmgen.kernel.notes import block, promoted_sums, shared_tiles
from gemmgen.kernel.plan import Cost, Never, Plan, Share, SumOrder, Tile
from gemmgen.kernel.prepare import Pack
from gemmgen.kernel.tensor_map import UNIT
from gemmgen.problem.device import L2_LINE
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.pieces import Pieces
from gemmgen.problem.types import PROMOTION, Compute
from gemmgen.problem.wgmma import WARPGROUP, M, Wgmma
from gemmgen.support.words import plural

CODES_ROWS = 16  # of a tile where B has codes, which few rows of A are multiplied by
PROMOTED_COLUMNS = 128  # whose sums, twice, fit a consumer's registers; half of them, with a scale each
NOTE_WIDTH = 110  # characters of a line of a kernel's header


class WgmmaFamily(Family):
    """The family record: see `gemmgen.families.base.Family`."""

    name = "wgmma"
    config_type = WgmmaConfig
    constraints = CONSTRAINTS
    pruning = PRUNING
    secondary = frozenset({"CLUSTER", "ACROSS", "STAGES", "SPLIT"})
    kinds = ("SWAP", "PINGPONG", "SPLIT")
    details = ("BROADCAST", "PDL", "C_BOXES", "GROUP", "IN_FLIGHT", "PERSISTENT", "WHOLE", "ROWS_UNROLL")
    small = MappingProxyType({"BM": 64, "BN": 16, "CONSUMERS": 1})
    types = (
        *("bf16", "f16", "bf16,bf16,f32", "s8,s8,s32", "u8,s8,bf16"),
        *("f32_tf32", "f32_bf16x6", "f16_f16acc", "e4m3,e4m3,bf16_promoted", "e5m2,e4m3,f16_fast"),
    )
    scaled_inputs = True
    grouped_inputs = True
    image_inputs = True
    arch_specific = True

    def default(self, problem: Problem) -> Config:
        compute, size = problem.types.compute, problem.types.factors[0].size
        wide = PROMOTED_COLUMNS // (1 + problem.inputs.lines) if compute.promotes else WgmmaConfig.BN
        rows, columns = WgmmaConfig.BM, wide // problem.products // 16 * 16
        if problem.coded:
            return WgmmaConfig(BM=CODES_ROWS, BN=128, BK=128 * (1 + compute.promotes), SWAP=1, STAGES=4)
        feeds_a, feeds_b = can_feed(problem)
        turned, line = feeds_b and not feeds_a, LINE_BYTES // size
        if problem.pointers:  # no box of a tile may lie outside as a whole
            a, b = taken(problem)
            rows, columns = rows if a.along_k else line, columns if b.along_k else line
        return WgmmaConfig(
            BM=columns if turned else rows,
            BN=rows if turned else columns,
            BK=line,
            CONSUMERS=max(1, min(WgmmaConfig.CONSUMERS, rows // M)),
            FROM_REGISTERS=2 if turned else int(feeds_a),
            IN_FLIGHT=int(compute.pieces is None),
            COPY_ALIGN=L2_LINE if cuts_lines(problem) else UNIT,
        )

    def suited(self, problem: Problem, config: Config) -> Config:
        """Exchange the rows and columns of a tile if B's fragments come from registers and a tile has too few
        columns."""
        one = cast(WgmmaConfig, config)
        return replace(one, BM=one.BN, BN=one.BM) if swaps(one) and one.BN % M and one.BM % M == 0 else one

    def facts(self, problem: Problem) -> dict[str, int]:
        (a, b), (feeds_a, feeds_b) = taken(problem), can_feed(problem)
        types, (factor_a, factor_b) = problem.types, problem.types.factors
        return {
            **sizes_of(problem),
            **_typical(problem),
            "A_BYTES": factor_a.size,
            "B_BYTES": factor_b.size,
            "C_BYTES": types.c.size,
            "A_ALONG_K": int(a.along_k),
            "B_ALONG_K": int(b.along_k),
            "A_FEEDS": int(feeds_a),
            "B_FEEDS": int(feeds_b),
            "PROMOTED": int(types.compute.promotes),
            "PIECES": types.compute.pieces.count if types.compute.pieces else 0,
            "HALVES": int(types.compute is Compute.F16),
            "INTEGER": int(types.accumulator is DType.S32),
            "HAS_WGMMA": int(sums_type(types) is not None),
            "POINTERS": int(problem.pointers),
            "POINTER_ALIGN": problem.pointer_align,
            "C_BY_TMA": int(staged(problem)),
            "AS_IT_LIES": int(all(isinstance(one, Pack) for one in needed_copies(problem))),
            "CUT_LINES": int(cuts_lines(problem)),
            "OUTPUTS": len(problem.epilogue.outputs),
            "SCALED_LINES": int(problem.inputs.lines),
            "CODE_BITS": problem.code_bits,
            **_of_images(problem),
            "GATHERED_COPIES": int(any(one.operand == "A" for one in needed_copies(problem))),
            "TF32": int(types.compute is Compute.TF32),
            "CODES_K": Pack("B").depth(problem) if problem.coded else 1,
        }

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        return derived(problem, cast(WgmmaConfig, config))

    def plan(self, problem: Problem, config: Config) -> Plan:
        one = cast(WgmmaConfig, config)
        value = constants(self, problem, config)
        before = prepares(problem, one)
        launch = launch_of(
            value,
            tile_grid(problem, cluster_tile(one)),
            dynamic=True,
            splits=one.SPLIT,
            cluster=max(one.CLUSTER, one.SPLIT),
            maps=maps_of(problem, one),
            persistent=bool(one.PERSISTENT),
            prepares=before,
            overlapped=bool(before),
            groups=problem.inputs.ragged_groups,
        )
        work, tile, mma = work_of(problem, one, value), (one.BM, one.BN), instruction(problem, one)
        pieces = problem.types.compute.pieces
        promotion = PROMOTION if pieces else problem.scaled_depth or one.BK * value["PROMOTED"]
        step = range_step(problem, one)
        of_c = as_product(mma) if one.SWAP else mma
        sums = SumOrder(of_c, step, one.SPLIT, promotion=promotion, tf32="even", pieces=pieces)  # tf32 by TMA
        return Plan(problem, config, self, value, tile, value["SHARED_BYTES"], work, launch, mma, sums)

    def cost(self, plan: Plan, share: Share) -> Cost:
        return cost_of(plan, share)

    def template(self, config: Config) -> str:
        return "wgmma/wgmma.cu"

    def declares(self, plan: Plan) -> tuple[Derived, ...]:
        lines, one = super().declares(plan), cast(WgmmaConfig, plan.config)
        if one.PINGPONG:
            meaning = "warpgroups that multiply in turns, each a block tile of its own"
        elif swaps(one):
            meaning = "warpgroups that multiply, each its columns of the block tile"
        else:
            return lines
        return tuple(replace(line, meaning=meaning) if line.name == "CONSUMERS" else line for line in lines)

    def unused(self, plan: Plan) -> frozenset[str]:
        names = {"ACROSS", "COPY_ALIGN", "FROM_REGISTERS", "IN_FLIGHT", "PDL", "PERSISTENT", "PINGPONG", "SWAP"}
        names |= {"WHOLE", "ROWS_UNROLL", "BROADCAST", "SUM_REGISTERS", "BESIDE_SUMS", "SHARED_BYTES"}
        one = cast(WgmmaConfig, plan.config)
        if not donates(one):
            names |= {"PRODUCER_REGISTERS", "CONSUMER_REGISTERS"}
        if not plan.problem.batched:
            names |= {"PIECES"}
        if one.SPLIT == 1:
            names |= {"SPLIT"}
        if single(plan.problem, one):
            names |= {mmas(one)}
        if one.CLUSTER == 1:
            names |= {"CLUSTER", "CLUSTER_M", "PART_B"}
        if one.C_BOXES == 1:
            names |= {"C_BOXES"}
        if direct(plan.problem, one):
            names |= {"TM", "TN", "FM", "FN", "STEP_M", "STEP_N", "VC"}
        rows = () if cuts_taps(plan.problem, one) else ("R",)
        names |= unread_of_images(plan.problem, "H", "W", *rows)  # TMA finds the pixels
        names |= {f"LINES_{x.X}" for x in operands(plan.problem, one) if not x.limited}
        return frozenset(names | ({"PITCH_C"} if staged(plan.problem) else {"C_STAGES"}))

    def view(self, plan: Plan) -> WgmmaView:
        return WgmmaView(plan)

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        one = cast(WgmmaConfig, plan.config)
        sharers = 1 if one.PINGPONG else one.CONSUMERS
        rows, columns = across(one)
        tiles = ((rows // sharers, columns), (2 * plan.constants[mmas(one)], columns // 4))
        warpgroup, thread = (tile[::-1] if swaps(one) else tile for tile in tiles)
        return Tile("warpgroup", *warpgroup, sharers), Tile("thread", *thread, WARPGROUP)

    def never(self, plan: Plan) -> Iterator[Never]:
        if plan.k_tiles[0] >= 1:
            yield Never("previous >= 0", False, "K has a k tile, whose products are under way behind the loop")
        one, problem, stages = cast(WgmmaConfig, plan.config), plan.problem, plan.constants["STAGES"]
        if None in (problem.m, problem.n, problem.k, problem.batch) or problem.types.compute.pieces is not None:
            return
        case = problem.case()
        tiles = -(-case.m // one.BM) * -(-case.n // one.BN) * case.batch if one.PERSISTENT else 1  # of a block, at most
        tiles = plan.launch.tiles(case) if plan.launch.groups else tiles
        most = int(tiles * plan.k_tiles[1])
        if problem.inputs.gathered and most <= plan.constants["COPIES_AHEAD"]:
            because = (
                f"a block goes through {plural(most, 'k tile')} at most, whose copies need no wait before the last"
            )
            yield Never("pending == COPIES_AHEAD", True, because)
        if most < stages:
            because = f"a block goes through {plural(most, 'k tile')} at most, and the ring has {stages} stages"
            yield Never("stage + 1 < STAGES", False, because)
            yield Never("stage == 0", True, because)

    def prose(self, plan: Plan) -> tuple[str, ...]:
        one, mma = cast(WgmmaConfig, plan.config), plan.mma
        assert isinstance(mma, Wgmma)
        tile, count = self.tiles(plan)[0], plan.constants[mmas(one)]
        steps = one.BK // mma.k * count
        each = " each" if one.CONSUMERS > 1 else ""
        lines = [
            f"{block(plan)}, in k tiles of {one.BK}{_persistence(one)}",
            "Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of "
            f"{plural(one.STAGES, 'stage')};",
            f"        {plural(one.CONSUMERS, 'consumer warpgroup')}: {tile.rows} x {tile.cols} of C{each} by "
            f"{plural(steps, 'wgmma')} of 64 x {mma.n} x {mma.k} a k tile",
        ]
        if one.PINGPONG:
            lines.append("        in turns: while one stores its tile of C, another multiplies the block's next one")
        if plan.problem.products > 1:
            lines.append(f"Sums    {one.BN} columns of each product: those of B2 follow those of B1 in shared memory")
        if plan.problem.types.compute is Compute.PROMOTED and not plan.problem.coded:
            lines.append(promoted_sums(one.BK))
        if plan.problem.inputs.blocks:
            lines.append("Scales  a k tile is a block of K: its sums are multiplied by both scales as they are added")
        compute = plan.problem.types.compute
        if compute.pieces is not None:
            lines += _pieces_prose(compute, compute.pieces)
        return (*lines, *_copies_prose(plan.problem, one), *_start_prose(one), *shared_tiles(plan.launch))


def _typical(problem: Problem) -> dict[str, int]:
    """The sizes that tiles are to fit, 0 where they are unknown. Groups of rows count as a batch of even ones."""
    typical, sizes = dict(problem.typical), (("M", problem.m), ("N", problem.n), ("batch", problem.batch))
    rows, columns, batch = (size or typical.get(name, 0) for name, size in sizes)
    groups = min(problem.inputs.row_groups, rows)
    if groups:
        rows, batch = -(-rows // groups), groups
    return {"TYPICAL_M": rows, "TYPICAL_N": columns, "TYPICAL_BATCH": batch}


def _of_images(problem: Problem) -> dict[str, int]:
    """Facts of a convolution that limits of TMA's im2col mode are about, all 0 without a convolution.

    They are the bytes of a pixel, pixels from a place of the filter to the next, how far corners lie before an image's
    pixels and behind them, pixels from a place to its last tap, whether images would be copied, and whether they are B.
    """
    conv = problem.inputs.conv
    if conv is None:
        names = "PIXEL_BYTES", "PLACE_STEP", "CORNERS_BEFORE", "CORNERS_BEHIND", "TAPS_SPAN", "COPIED_IMAGES", "WGRAD"
        return dict.fromkeys(names, 0)
    corners = [one for corner in conv.corners for one in corner]
    return {
        "PIXEL_BYTES": conv.size[2] * problem.dtype_of(problem.inputs.images).size,
        "PLACE_STEP": max(conv.stride),
        "CORNERS_BEFORE": max(0, -min(corners)),
        "CORNERS_BEHIND": max(0, *corners),
        "TAPS_SPAN": max(conv.extent) - 1,
        "COPIED_IMAGES": int(any(one.operand == problem.inputs.images for one in needed_copies(problem))),
        "WGRAD": int(problem.inputs.wgrad),
    }


def _copies_prose(problem: Problem, one: WgmmaConfig) -> Iterator[str]:
    """Header lines on how A, B and C reach the tensor cores and leave them."""
    if one.CLUSTER > 1:
        yield (
            f"Cluster {one.CLUSTER} blocks, tiles {'beside' if one.ACROSS else 'below'} each other: "
            f"each lets TMA send its part of {'A' if one.ACROSS else 'B'} to all of them"
        )
    yield from _inputs_prose(problem, one)
    if one.SWAP:
        yield "Swap    C^T = B^T A^T: the 64 rows of an instruction are columns of C, its columns are rows of C"
    if one.FROM_REGISTERS:
        yield from _fed_prose(feeds(one).upper())
    yield from _stores_prose(problem, one)


def _inputs_prose(problem: Problem, one: WgmmaConfig) -> Iterator[str]:
    """Header lines on A and B that are more than two plain matrices."""
    if problem.inputs.conv:
        rows = f"rows of {problem.inputs.images}"
        yield f"Images  implicit GEMM: TMA gathers {rows} from images, tap by tap (im2col mode); padding is zeros"
    if problem.inputs.gathered:
        yield "Gather  threads of the producer copy the rows of A that index_a names by cp.async, swizzled as TMA would"
    if problem.inputs.masked:
        yield "Groups  have only tiles with rows: each warp finds its block's tiles from group_rows"
    if problem.inputs.row_groups:
        yield from _groups_prose(problem, one.BM)
    if problem.inputs.along_k:
        yield "Groups  begin and end at any k: TMA fills k tiles with zeros behind a group's last k (see BOUND)"
    if problem.pointers:
        yield "Maps    of all memory from address 0 on: two coordinates carry that of a product's matrix"
    if problem.coded:
        yield "Codes   of B are packed in the order of fragments, once for many launches: see prepared_b. Consumers"
        yield "        dequantise them in registers, from which wgmma takes its first operand"


def _groups_prose(problem: Problem, height: int) -> Iterator[str]:
    """Header lines on groups of rows of one C, in tiles of `height` rows."""
    most = f"at most min(M, {problem.inputs.groups}), one per group with rows, and one more per {height} further rows"
    yield "Groups  no tile has rows of two groups: each warp finds its block's tiles from the ends in offs"
    yield f"        rows of tiles: {most}"
    if not problem.inputs.gathered:
        yield "        boxes of A at a group's end bring rows behind it, too: these are multiplied, and not stored"


def _stores_prose(problem: Problem, one: WgmmaConfig) -> Iterator[str]:
    if not staged(problem):
        yield "Stores  C leaves through shared memory, by warps, row by row: TMA cannot store its lines"
        return
    if problem.inputs.scattered:
        yield "Stores  C leaves through shared memory, by threads, 16 bytes at a time, to rows that index_c names"
        return
    yield "Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered"
    if problem.inputs.ragged_groups:
        yield "        a piece in which a group ends is stored by threads, without the rows behind the group"
    elif one.WHOLE:
        yield "        pieces of it are staged whole: TMA drops what lies beyond C"


def _start_prose(one: WgmmaConfig) -> tuple[str, ...]:
    if one.PDL:
        return ()
    return (
        "Start   once the kernel before has ended (no programmatic dependent launch): "
        "SMs get blocks in the grid's order,",
        "        not as they become free, so that neighbours in the raster ask for lines together, which L2 reads once",
    )


def _persistence(one: WgmmaConfig) -> str:
    """The clause that says which tiles a block computes; empty if it computes one."""
    if not one.PERSISTENT:
        return ""
    if one.CLUSTER > 1:
        return "; persistent: cluster c of n computes tiles c, c + n, ..."
    return "; persistent: block b computes tiles b, b + gridDim.x, ..."


def _fed_prose(X: str) -> tuple[str, ...]:
    line = f"Feeds   lines of {X} run across K: wgmma takes tf32 of such lines only from registers; threads load it"
    turned = "        C^T = B^T A^T: the rows of instructions are columns of C"
    return (line, turned) if X == "B" else (line,)


def _pieces_prose(compute: Compute, pieces: Pieces) -> tuple[str, ...]:
    return (
        f"Pieces  A and B are each split into {pieces.count} of {pieces.dtype.label}: for {PROMOTION} of K at a time",
        f"        {len(pieces.pairs)} pairs of them are multiplied, small products first; sums are added in f32",
        *wrap(f"Error   {compute.note}", NOTE_WIDTH, subsequent_indent=" " * 8),
    )


WGMMA = WgmmaFamily()
