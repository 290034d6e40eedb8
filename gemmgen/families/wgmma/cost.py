"""What a kernel of `wgmma` does in a step, and the terms of its predicted time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from gemmgen.families.base import run_bytes
from gemmgen.families.wgmma.axes import WgmmaConfig
from gemmgen.families.wgmma.constants import donates, mmas, start_registers
from gemmgen.families.wgmma.operands import Operand, operands, swaps
from gemmgen.kernel.cost import (
    L2_BYTES_PER_CYCLE,
    SCHEDULERS,
    instructions,
    memory_us,
    reduction_us,
    registers,
    sharp_maximum,
    steps_of,
    tiled,
    unit_cycles,
    warps_of,
)
from gemmgen.kernel.launch import DEPENDENT_LAUNCH
from gemmgen.kernel.plan import Cost, Plan, Share, Work
from gemmgen.problem.device import BANK_BYTES, WARP
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute
from gemmgen.problem.wgmma import K_BYTES, WARPGROUP, M

OTHER_REGISTERS = 40  # of a thread, for addresses and counters
FRAGMENT = 4  # registers of a thread for its rows of an instruction, for a step of k
SPARED_SHARE = 0.5  # of the bytes that L2 need not read again for a cluster, as far as times show it (H200)
TMA_L2_BYTES = 50  # per SM and cycle
# Likewise where blocks start in the grid's order, so that L2 reads once what neighbours ask for at once: 450x3072x8192
# by 96x128 took 54 thousand cycles, 68 bytes each (H100, 2026-11-26).
IN_ORDER_L2_BYTES = 65
# Of a line of TMA's boxes, which has 128 bytes or fewer: B of rr in tiles of 176 columns came by lines of 32 bytes, and
# 4096^3 took 395 us, where rc took 191 (H100, 2026-11-27).
BOX_LINE_CYCLES = 2.2
PROMOTION_SHOWS = 0.25  # share of its time: the other consumer's products hide some, and the clock rises meanwhile
TMA_LATENCY = 1550  # cycles, from the start of a stage's copies to the products of its k tile
# Of a block by TMA that follows another one on its SM, before its first copies: it starts once the other one has ended,
# sets up barriers and fetches tensor maps. A persistent block does so once. (With TMA_LATENCY 3,300 to 4,900 cycles.)
BLOCK_START = 2000
# From the end of a step's products to the start of the next step's, where one warpgroup multiplies and keeps none in
# flight: it waits for them, for its barrier, and for the first instruction's operands. (170 to 210: e4m3, s8 and tf32.)
WGMMA_DRAIN = 180


def work_of(problem: Problem, config: WgmmaConfig, value: Mapping[str, int]) -> Work:
    """The work of `config`, whose constants are `value`."""
    size_a, of_b = (dtype.size for dtype in problem.types.factors)
    size_b = problem.code_bits / 8 if problem.coded else of_b
    rows, columns = across(config)
    columns *= problem.products
    threads = WARPGROUP * config.CONSUMERS  # that compute
    moved = (config.BM * size_a + problem.products * config.BN * size_b) * config.BK
    tile = cluster_tile(config)
    spared = moved - config.BM * config.BN * (size_a / tile["BN"] + problem.products * size_b / tile["BM"]) * config.BK
    read = rows * (size_b if problem.coded else size_a) + rows // M * columns * size_a  # bytes of a tile, for each k
    outputs = rows * columns // threads
    loaded = value[mmas(config)] * FRAGMENT if config.FROM_REGISTERS else 0  # registers of a step of k
    fragments = 2 * loaded  # and of the next one
    held = start_registers(config.CONSUMERS) if donates(config) else 0
    other = max(OTHER_REGISTERS, held - outputs) - (fragments if donates(config) else 0)
    return Work(
        outputs=outputs,
        depth=config.BK,
        shared_reads=loaded / 2 / (K_BYTES // size_a),
        read_bytes=read / threads,
        wavefronts=read / BANK_BYTES / (threads // WARP),
        copies=1,
        copy_wavefronts=moved / BANK_BYTES,
        global_bytes=moved - spared * SPARED_SHARE,
        prefetch=config.STAGES - 1,
        registers=registers(problem.types.accumulator, outputs, fragments=max(1, fragments), other=other),
        products=M * columns * (K_BYTES // size_a) // WARPGROUP,
        producers=WARPGROUP,
        turns=config.CONSUMERS if config.PINGPONG else 1,
    )


def cost_of(plan: Plan, share: Share) -> Cost:
    """The terms of its time: a ring of TMA's stages has neither barriers of the block nor turns of copying and
    computing."""
    config = cast(WgmmaConfig, plan.config)
    arriving = _arriving_cycles(plan, config, share)
    drain, latency = _drain(plan, config, share), TMA_LATENCY + arriving
    units = unit_cycles(plan, share, instructions(plan, share), drain=drain, arriving=arriving, latency=latency)
    step = sharp_maximum(units.values())
    if plan.problem.types.compute is Compute.PROMOTED and not config.IN_FLIGHT:  # no products are under way meanwhile
        step += PROMOTION_SHOWS * plan.work.outputs * plan.consumers / WARP / SCHEDULERS
    steps = steps_of(plan, share.case) * plan.problem.types.compute.pairs
    under_way = math.inf if config.PERSISTENT else steps  # the next tiles fill the ring, too
    slower = tiled(run_bytes(plan.problem, config.BM, config.BN, config.BK))
    return Cost(
        units=units,
        step=step,
        steps=steps,
        between=_between_cycles(plan, share, steps * step),
        memory_us=memory_us(plan, share, under_way, slower=slower),
        reduction_us=reduction_us(plan, share),
    )


def _arriving_cycles(plan: Plan, config: WgmmaConfig, share: Share) -> float:
    """Cycles in which L2 delivers a step's bytes, or TMA the lines of its boxes."""
    in_order = plan.launch.cluster == 1 and DEPENDENT_LAUNCH not in plan.launch.attributes
    rate = IN_ORDER_L2_BYTES if in_order else TMA_L2_BYTES
    lines = sum(box_lines(x, config) for x in operands(plan.problem, config))
    return max(plan.work.global_bytes * share.resident / rate, BOX_LINE_CYCLES * lines * share.resident)


def box_lines(x: Operand, config: WgmmaConfig) -> float:
    """Lines of the boxes that TMA brings in a step, less those that another block of the cluster asks for."""
    spared = SPARED_SHARE * (1 - 1 / config.CLUSTER) if x.shared else 0
    return 0.0 if x.gathered else x.beside * x.boxes * x.lines * (1 - spared)


def _drain(plan: Plan, config: WgmmaConfig, share: Share) -> int:
    """Cycles of a step in which no tensor core has work: other warpgroups of the SM fill them."""
    alone = warps_of(plan, share) // plan.work.turns <= WARPGROUP // WARP
    return WGMMA_DRAIN if alone and not config.IN_FLIGHT else 0


def _between_cycles(plan: Plan, share: Share, tile: float) -> float:
    """From the products of a tile, which take `tile` cycles, to those of the next one, whose stages TMA fills
    meanwhile."""
    rows, columns = plan.tile
    passes = 1 + plan.problem.epilogue.reads_c  # C leaves, and arrives before where it is read
    stores = rows * columns * plan.problem.types.c.size * passes / L2_BYTES_PER_CYCLE
    elements = plan.work.outputs / plan.problem.products * plan.consumers / WARP / SCHEDULERS
    stores += plan.problem.function_instructions * elements  # its functions, before C leaves
    start = 0.0 if plan.launch.persistent else (BLOCK_START + TMA_LATENCY) / share.resident
    return start + max(0.0, (tile + stores) / plan.work.turns - tile)


def across(config: WgmmaConfig) -> tuple[int, int]:
    """Of a block's tile what the 64 rows of instructions go along, and their columns."""
    return (config.BN, config.BM) if swaps(config) else (config.BM, config.BN)


def cluster_tile(config: WgmmaConfig) -> dict[str, int]:
    """Rows and columns of C that a cluster computes."""
    blocks = {"BM": 1, "BN": config.CLUSTER} if config.ACROSS else {"BM": config.CLUSTER, "BN": 1}
    return {"BM": config.BM * blocks["BM"], "BN": config.BN * blocks["BN"]}
