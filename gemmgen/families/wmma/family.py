"""`wmma`: tensor cores in the plainest way, by fragments of 16 x 16 that the instructions load, multiply and store.

    grid -> block BM x BN -> warp WM x WN -> fragment 16 x 16, in k tiles of BK

A block copies a k tile of A and of B to shared memory element by element, multiplies it, and only then copies the next.
It takes any sizes: elements beyond an edge are zero in shared memory. Sums are stored through shared memory, as it is
not documented which lane holds which. It is the simplest family on tensor cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from gemmgen.families.base import GRID_FITS, ONE_PRODUCT, Family, Side, constants, launch_of, sides, sizes_of, tile_grid
from gemmgen.kernel.config import Config, Constraint, Derived, axis
from gemmgen.kernel.cost import registers
from gemmgen.kernel.notes import block
from gemmgen.kernel.plan import Plan, SumOrder, Tile, Work
from gemmgen.problem.device import BANK_BYTES, STATIC_SHARED_BYTES, WARP
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import NEVER
from gemmgen.problem.wmma import SIDE, Wmma, wmma_for

PAD = 8  # elements behind a line of a shared tile, 16 bytes: neighbouring lines begin in other banks
SUMS_PAD = 4  # floats behind a line of stored sums, likewise
MMA_MACS = 16 * 8 * 16  # of the machine's instruction: two make a product


@dataclass(frozen=True)
class WmmaConfig(Config):
    """The axes of `wmma`."""

    PATTERN = "{BM}x{BN}x{BK}_w{WM}x{WN}"

    BM: int = axis(64, (16, 32, 64, 128), "rows of C that a block computes")
    BN: int = axis(64, (16, 32, 64, 128), "columns of C that a block computes")
    BK: int = axis(32, (16, 32, 64), "depth of a k tile")
    WM: int = axis(32, (16, 32, 64), "rows of C that a warp computes")
    WN: int = axis(32, (16, 32, 64), "columns of C that a warp computes")


@dataclass(frozen=True)
class WmmaView:
    """The record that the template needs beside the constants: A and B, and the instruction."""

    a: Side
    b: Side
    wmma: Wmma


class WmmaFamily(Family):
    """The family record: see `gemmgen.families.base.Family`."""

    name = "wmma"
    config_type = WmmaConfig
    constraints = (
        Constraint("WMMA_SINCE < NEVER", "WMMA multiplies two operands of f16, or of bf16", False),
        Constraint("WMMA_SINCE <= ARCH", "the architecture has no such instruction of these types", False),
        Constraint("SUMMED == 0", "the family sums neither rows of A nor columns of B", False),
        Constraint(
            "BM >= 1 and BN >= 1 and BK >= 1 and WM >= 1 and WN >= 1", "a tile holds at least one element", False
        ),
        Constraint("BM % WM == 0", "warps split a block's rows evenly"),
        Constraint("BN % WN == 0", "warps split a block's columns evenly"),
        Constraint(f"WM % {SIDE} == 0 and WN % {SIDE} == 0", f"a fragment has {SIDE} rows and columns"),
        Constraint(f"BK % {SIDE} == 0", f"an instruction sums over {SIDE} k"),
        ONE_PRODUCT,
        GRID_FITS,
        Constraint("THREADS <= MAX_THREADS", "the architecture bounds the threads of a block"),
        Constraint(f"SHARED_BYTES <= {STATIC_SHARED_BYTES}", "static arrays hold no more", False),
    )
    small = MappingProxyType({"BM": 16, "BN": 32, "WM": 16, "WN": 16})
    types = ("bf16", "f16", "bf16,bf16,f32")

    def default(self, problem: Problem) -> Config:
        return WmmaConfig()

    def facts(self, problem: Problem) -> dict[str, int]:
        one = _instruction(problem)
        return {**sizes_of(problem), "WMMA_SINCE": min(one.half.sums) if one else NEVER, "NEVER": NEVER}

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        return (
            Derived("THREADS", "32 * (BM / WM) * (BN / WN)", "threads a block"),
            Derived("WARPS", "THREADS / 32", "warps a block"),
            Derived("FRAGMENTS_M", f"WM / {SIDE}", "fragments down a warp's tile"),
            Derived("FRAGMENTS_N", f"WN / {SIDE}", "fragments across a warp's tile"),
            *_lines(problem),
            Derived("PITCH_SUMS", str(SIDE + SUMS_PAD), "floats from a line of a fragment's sums to the next"),
            Derived("SHARED_BYTES", _shared_bytes(problem), "bytes of shared memory a block"),
        )

    def plan(self, problem: Problem, config: Config) -> Plan:
        value, one = constants(self, problem, config), _instruction(problem)
        assert one is not None, "constraints ask for one"
        axes = cast(WmmaConfig, config)
        launch, tile = launch_of(value, tile_grid(problem, value)), (axes.BM, axes.BN)
        order = SumOrder(one.half, axes.BK)
        work = _work(problem, axes, value)
        return Plan(problem, config, self, value, tile, value["SHARED_BYTES"], work, launch, one.half, order)

    def template(self, config: Config) -> str:
        return "wmma/wmma.cu"

    def unused(self, plan: Plan) -> frozenset[str]:
        return frozenset({"SHARED_BYTES"})

    def view(self, plan: Plan) -> WmmaView:
        one = _instruction(plan.problem)
        assert one is not None
        return WmmaView(*sides(plan.problem), one)

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        axes = cast(WmmaConfig, plan.config)
        return (
            Tile("warp", axes.WM, axes.WN, plan.launch.threads // WARP),
            Tile("thread", axes.WM // 8, axes.WN // 4, WARP),
        )

    def prose(self, plan: Plan) -> tuple[str, ...]:
        axes = cast(WmmaConfig, plan.config)
        products = plan.constants["FRAGMENTS_M"] * plan.constants["FRAGMENTS_N"]
        return (
            f"{block(plan)}, in k tiles of {axes.BK}, {plan.shared_bytes} bytes of shared memory",
            f"Warp    {axes.WM} x {axes.WN} of C: for each {SIDE} k {products} products of {SIDE} x {SIDE} x {SIDE}",
            "Stages  one: nothing is multiplied while a k tile is copied",
        )


def _instruction(problem: Problem) -> Wmma | None:
    return wmma_for(problem.types, problem.layout)


def _lines(problem: Problem) -> tuple[Derived, ...]:
    """Constants of the lines of the shared tiles, which lie as their operands do."""
    return tuple(
        Derived(
            f"PITCH_{side.X}", f"{_contiguous(side)} + {PAD}", f"elements from a line of {side.X}'s tile to the next"
        )
        for side in sides(problem)
    )


def _shared_bytes(problem: Problem) -> str:
    tiles = (f"{'B' + side.MN if side.along_k else 'BK'} * PITCH_{side.X}" for side in sides(problem))
    return f"{problem.types.a.size} * ({' + '.join(tiles)}) + 4 * WARPS * {SIDE} * PITCH_SUMS"


def _contiguous(side: Side) -> str:
    return "BK" if side.along_k else f"B{side.MN}"


def _work(problem: Problem, axes: WmmaConfig, value: Mapping[str, int]) -> Work:
    size = problem.types.a.size
    read, moved = (axes.WM + axes.WN) * size, (axes.BM + axes.BN) * axes.BK  # bytes of a warp for each k; elements
    loads, outputs = moved / value["THREADS"], axes.WM * axes.WN // WARP
    fragments = 8 * (value["FRAGMENTS_M"] + value["FRAGMENTS_N"])
    return Work(
        outputs=outputs,
        depth=axes.BK,
        shared_reads=(value["FRAGMENTS_M"] + value["FRAGMENTS_N"]) / SIDE,
        read_bytes=read / WARP,
        wavefronts=read / BANK_BYTES,
        copies=2 * loads,
        copy_wavefronts=moved / WARP,
        global_bytes=moved * size,
        prefetch=0,
        registers=registers(problem.types.accumulator, outputs, fragments=fragments, staged=loads),
        products=MMA_MACS // WARP,
    )


WMMA = WmmaFamily()
