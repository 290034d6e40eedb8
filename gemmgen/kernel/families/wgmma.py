"""`wgmma`: GEMM on Hopper's tensor cores, fed by TMA.

    grid -> block BM x BN -> warpgroup BM / CONSUMERS x BN -> instruction 64 x BN x K_STEP, in k tiles of BK

One warpgroup, the producer, lets TMA bring k tiles of A and B to a ring of STAGES stages in shared memory; the others,
the consumers, multiply them by wgmma, which reads shared memory itself. Two mbarriers a stage pass it to and fro:
`full` when its bytes have arrived, `empty` when the consumers have done with it.

An operand that TMA or wgmma cannot take as it lies, for its alignment or its order, is copied into the workspace first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import gcd
from types import MappingProxyType
from typing import cast

from gemmgen.kernel.config import Config, Derived
from gemmgen.kernel.families.base import Family, Side, constants, elements_of, launch_of, sides, sizes_of, tile_grid
from gemmgen.kernel.families.wgmma_axes import CONSTRAINTS, PRUNING, WgmmaConfig
from gemmgen.kernel.notes import block
from gemmgen.kernel.plan import Plan, SumOrder, Tile, Work
from gemmgen.kernel.prepare import Prepare
from gemmgen.kernel.tensor_map import UNIT, TensorMap
from gemmgen.problem.device import MAX_REGISTERS, REGISTERS_PER_SM, WARP
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Order
from gemmgen.problem.sizes import MatrixSizes
from gemmgen.problem.types import Compute, Types
from gemmgen.problem.wgmma import FACTORS, K_BYTES, WARPGROUP, M, Wgmma
from gemmgen.support.words import plural

TRANSPOSED_BYTES = 2  # of an element whose lines may run across K
OTHER: dict[Order, Order] = {"r": "c", "c": "r"}
LINE_BYTES = 128  # of shared memory that one pattern of a swizzle permutes, at most
BANK_BYTES = 128  # that shared memory reads or writes a cycle
PROMOTION_BYTES = 128  # that L2 fetches at once for TMA
PRODUCER_REGISTERS = 40  # of a thread, which only starts copies
OTHER_REGISTERS = 40  # of a thread, for addresses and counters


@dataclass(frozen=True)
class Operand(Side):
    """How A or B lies in shared memory; names are those of the rendered kernel.

    line   elements of a line of a box, which is swizzled
    boxes  that make up a k tile of the operand
    """

    line: int
    boxes: int

    @property
    def swizzle(self) -> str:
        return f"LINE_{self.X} * sizeof({'TA' if self.x == 'a' else 'TB'})"


@dataclass(frozen=True)
class WgmmaView:
    """What the template of `wgmma` needs beside the constants.

    a, b         operands
    wgmma        the instruction
    halves       a register holds two sums of f16
    promoted     sums are added up in f32 after each k tile
    staged       C leaves through shared memory by TMA, else from registers
    persistent   a block computes one tile after the other
    donates      registers move from the producer to the consumers
    batched      tensor maps have a third dimension
    group        see raster.cu
    unread       sizes that the kernel has from tensor maps, or as numbers
    """

    a: Operand
    b: Operand
    wgmma: Wgmma
    halves: bool
    promoted: bool
    staged: bool
    persistent: bool
    donates: bool
    in_flight: int
    batched: bool
    group: int
    unread: tuple[str, ...]


class WgmmaFamily(Family):
    """The family record: see `gemmgen.kernel.families.base.Family`."""

    name = "wgmma"
    config_type = WgmmaConfig
    constraints = CONSTRAINTS
    pruning = PRUNING
    secondary = frozenset({"STAGES", "IN_FLIGHT", "GROUP", "PERSISTENT"})
    small = MappingProxyType({"BM": 64, "BN": 16, "CONSUMERS": 1})
    types = (
        *("bf16", "f16", "bf16,bf16,f32", "s8,s8,s32", "u8,s8,bf16"),
        *("f32_tf32", "f16_f16acc", "e4m3,e4m3,bf16_promoted", "e5m2,e4m3,f16_fast"),
    )
    arch_specific = True

    def default(self, problem: Problem) -> Config:
        wide = PROMOTED_COLUMNS if problem.types.compute is Compute.PROMOTED else WgmmaConfig.BN
        flying = int(problem.types.compute is not Compute.PROMOTED)
        return WgmmaConfig(
            BN=wide, BK=LINE_BYTES // problem.types.a.size, IN_FLIGHT=flying, STAGES=STAGES_OF[problem.types.c.size]
        )

    def facts(self, problem: Problem) -> dict[str, int]:
        a, b = _taken(problem)
        types = problem.types
        return {
            **sizes_of(problem),
            "A_BYTES": types.a.size,
            "B_BYTES": types.b.size,
            "C_BYTES": types.c.size,
            "A_ALONG_K": int(a.along_k),
            "B_ALONG_K": int(b.along_k),
            "PROMOTED": int(types.compute is Compute.PROMOTED),
            "INTEGER": int(types.accumulator is DType.S32),
            "HAS_WGMMA": int(_sums(types) is not None),
            "POINTERS": int(problem.pointers),
        }

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        one = cast(WgmmaConfig, config)
        a, b = _operands(problem, one)
        return (
            *_tiling(K_BYTES // problem.types.a.size),
            *_registers(one.CONSUMERS, problem.types.compute is Compute.F16),
            *_lines(a, elements_of(problem)),
            *_lines(b, elements_of(problem)),
            *_results(_piece(problem, one), staged(problem), gcd(2, problem.vector_limit("ldc"))),
        )

    def plan(self, problem: Problem, config: Config) -> Plan:
        one = cast(WgmmaConfig, config)
        value = constants(self, problem, config)
        maps = tuple(_maps(problem, one))
        launch = launch_of(value, tile_grid(problem, value), dynamic=True)
        launch = replace(launch, maps=maps, persistent=bool(one.PERSISTENT), prepares=_prepares(problem))
        work, tile, mma = _work(problem, one, value), (one.BM, one.BN), _instruction(problem, one)
        sums = SumOrder(mma, one.BK, promotion=one.BK * value["PROMOTED"], tf32="even")  # by TMA
        return Plan(problem, config, self, value, tile, value["SHARED_BYTES"], work, launch, mma, sums)

    def template(self, config: Config) -> str:
        return "kernel/wgmma.cu"

    def unused(self, plan: Plan) -> frozenset[str]:
        names = {"PERSISTENT", "SUM_REGISTERS", "IN_FLIGHT", "SHARED_BYTES"}
        if not donates(cast(WgmmaConfig, plan.config)):
            names |= {"PRODUCER_REGISTERS", "CONSUMER_REGISTERS"}
        return frozenset(names if staged(plan.problem) else names | {"C_STAGES"})

    def view(self, plan: Plan) -> WgmmaView:
        one, problem = cast(WgmmaConfig, plan.config), plan.problem
        a, b = _operands(problem, one)
        assert isinstance(plan.mma, Wgmma), "constraints ask for one"
        return WgmmaView(
            a=a,
            b=b,
            wgmma=plan.mma,
            halves=plan.mma.c_shared == 2,
            promoted=problem.types.compute is Compute.PROMOTED,
            staged=staged(problem),
            persistent=bool(one.PERSISTENT),
            donates=donates(one),
            in_flight=one.IN_FLIGHT,
            batched=problem.batched,
            group=one.GROUP,
            unread=("batch", *(name for one in _mapped(problem) for name in (one.ld, one.stride))),
        )

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        one = cast(WgmmaConfig, plan.config)
        return (
            Tile("warpgroup", one.BM // one.CONSUMERS, one.BN, one.CONSUMERS),
            Tile("thread", 2 * plan.constants["MMAS_M"], one.BN // 4, WARPGROUP),
        )

    def prose(self, plan: Plan) -> tuple[str, ...]:
        one, mma = cast(WgmmaConfig, plan.config), plan.mma
        assert isinstance(mma, Wgmma)
        steps = one.BK // mma.k * (one.BM // one.CONSUMERS // M)
        rows = one.BM // one.CONSUMERS
        lines = [
            f"{block(plan)}, in k tiles of {one.BK}, {plan.shared_bytes} bytes of shared memory",
            f"Warps   a warpgroup of 4 warps, the producer, lets TMA fill a ring of {plural(one.STAGES, 'stage')};",
            f"        consumers, {one.CONSUMERS} others: {rows} x {one.BN} each by {plural(steps, 'wgmma')} of "
            f"64 x {mma.n} x {mma.k} a k tile",
        ]
        if plan.problem.types.compute is Compute.PROMOTED:
            lines.append(
                f"Sums    those of {one.BK} products by tensor cores, which keep 13 bits of them; these in f32"
            )
        if staged(plan.problem):
            lines.append("Stores  C leaves through shared memory, by TMA")
        return tuple(lines)


PROMOTED_COLUMNS = 128  # whose sums, twice, fit a consumer's registers
STAGES_OF = {1: 4, 2: 4, 4: 4}  # by bytes of an element of C


def donates(config: WgmmaConfig) -> bool:
    """Whether the producer leaves registers to the consumers: a single one has all that a thread can address."""
    return config.CONSUMERS > 1


def staged(problem: Problem) -> bool:
    """Whether TMA can store C: its lines begin, and for sure end, at multiples of 16 bytes, of which it writes all."""
    size = problem.types.c.size
    return problem.n is not None and problem.n * size % UNIT == 0 and problem.vector_limit("ldc") * size % UNIT == 0


def _prepares(problem: Problem) -> tuple[Prepare, ...]:
    """The copies of operands whose lines TMA cannot take, or whose order wgmma cannot: it transposes 16-bit elements
    alone."""
    needed = []
    for side in sides(problem) if not problem.pointers else ():
        size = problem.dtype_of(side.X).size
        turns = size != TRANSPOSED_BYTES and not side.along_k
        if turns or problem.vector_limit(side.ld) * size % UNIT:
            order = problem.layout.a if side.x == "a" else problem.layout.b
            needed.append(Prepare(side.X, OTHER[order] if turns else order))
    return tuple(needed)


def _taken(problem: Problem) -> tuple[Side, Side]:
    """A and B as TMA takes them: themselves, or their copies."""
    copied = {one.operand for one in _prepares(problem)}
    a, b = (
        replace(side, along_k=side.along_k or (side.X in copied and problem.dtype_of(side.X).size != TRANSPOSED_BYTES))
        for side in sides(problem)
    )
    return a, b


def _sums(types: Types) -> DType | None:
    """The type in which wgmma sums a product of `types` as exactly as their compute promises, or None."""
    sums = DType.F16 if types.compute is Compute.F16 else types.accumulator
    if sums not in FACTORS.get((types.a, types.b), ()):
        return None
    tf32, fp8 = types.a is DType.F32, types.a in (DType.E4M3, DType.E5M2)
    cut = (Compute.PROMOTED, Compute.FAST)
    return sums if tf32 == (types.compute is Compute.TF32) and fp8 == (types.compute in cut) else None


def _instruction(problem: Problem, config: WgmmaConfig) -> Wgmma:
    types, (a, b) = problem.types, _taken(problem)
    sums = _sums(types)
    assert sums is not None, "constraints ask for one"
    return Wgmma(config.BN, types.a, types.b, sums, trans_a=not a.along_k, trans_b=not b.along_k)


def _operands(problem: Problem, config: WgmmaConfig) -> tuple[Operand, Operand]:
    a, b = (
        Operand(side.x, side.mn, side.along_k, *_boxes(config, side, problem.dtype_of(side.X).size))
        for side in _taken(problem)
    )
    return a, b


def _boxes(config: WgmmaConfig, side: Side, size: int) -> tuple[int, int]:
    """(elements of a box's line, boxes of a k tile): TMA swizzles lines of 128 bytes at most."""
    across = config.BK if side.along_k else config.BM if side.x == "a" else config.BN
    line = gcd(LINE_BYTES // size, across)
    return line, across // line


def _mapped(problem: Problem) -> tuple[MatrixSizes, ...]:
    """The matrices that TMA moves, apart from those which an epilogue reaches as it does C."""
    reached = not staged(problem) or problem.epilogue.written_matrices
    return tuple(one for one in problem.matrices if one.name in ("A", "B") or (one.name == "C" and not reached))


def _piece(problem: Problem, config: WgmmaConfig) -> int:
    """Columns of C that leave at once."""
    return gcd(LINE_BYTES // problem.types.c.size, config.BN)


def _maps(problem: Problem, config: WgmmaConfig) -> list[TensorMap]:
    matrix = (1,) if problem.batched else ()
    maps = []
    for x in _operands(problem, config):
        lines = (config.BM if x.x == "a" else config.BN) if x.along_k else config.BK
        span, rounds = x.line * problem.dtype_of(x.X).size, problem.types.compute is Compute.TF32
        maps.append(TensorMap(x.X, (x.line, lines, *matrix), span, PROMOTION_BYTES, rounds))
    if staged(problem):
        piece = _piece(problem, config)
        span = piece * problem.types.c.size
        maps.append(TensorMap("C", (piece, M, *matrix), span if span >= 2 * UNIT else 0))
    return maps


def _start_registers(consumers: int) -> int:
    """Of a thread, with which a block of one producer and so many consumers starts where it has the SM for itself."""
    return _granted(REGISTERS_PER_SM // (WARPGROUP * (consumers + 1)))


def consumer_registers(consumers: int) -> int:
    """Of a consumer's thread, once the producer has given up all but PRODUCER_REGISTERS."""
    return _granted(_start_registers(consumers) + (_start_registers(consumers) - PRODUCER_REGISTERS) // consumers)


def _granted(registers: int) -> int:
    """setmaxnreg counts in units of 8; no thread addresses more than 255."""
    return min(registers, MAX_REGISTERS) // 8 * 8


def _work(problem: Problem, config: WgmmaConfig, value: Mapping[str, int]) -> Work:
    size_a, size_b = problem.types.a.size, problem.types.b.size
    threads, rows = WARPGROUP * config.CONSUMERS, config.BM // config.CONSUMERS  # that compute; of each warpgroup
    moved = (config.BM * size_a + config.BN * size_b) * config.BK
    read = config.CONSUMERS * (rows * size_a + rows // M * config.BN * size_b)  # bytes of the block, for each k
    outputs = config.BM * config.BN // threads
    held = _start_registers(config.CONSUMERS) if donates(config) else 0
    return Work(
        outputs=outputs,
        depth=config.BK,
        shared_reads=0,
        read_bytes=read / threads,
        wavefronts=read / BANK_BYTES / (threads // WARP),
        copies=1,
        copy_wavefronts=moved / BANK_BYTES,
        global_bytes=moved,
        prefetch=config.STAGES - 1,
        products=M * config.BN * (K_BYTES // size_a) // WARPGROUP,
        other_registers=max(OTHER_REGISTERS, held - outputs),
        fragment_registers=1,
        producers=WARPGROUP,
    )


@cache
def _tiling(step: int) -> tuple[Derived, ...]:
    return (
        Derived("THREADS", f"{WARPGROUP} * (CONSUMERS + 1)", "threads a block: the last warpgroup is the producer"),
        Derived("MINB", "1", "blocks of an SM, at least: setmaxnreg needs it said"),
        Derived("K_STEP", str(step), "k of an instruction"),
        Derived("MMAS_M", f"BM / ({M} * CONSUMERS)", "instructions down a consumer's tile"),
    )


@cache
def _registers(consumers: int, halves: bool) -> tuple[Derived, ...]:
    lines = (
        ("PRODUCER_REGISTERS", str(PRODUCER_REGISTERS), "that a thread of the producer keeps"),
        ("CONSUMER_REGISTERS", str(consumer_registers(consumers)), "that a consumer's thread has then"),
        ("SUM_REGISTERS", f"MMAS_M * BN / {4 if halves else 2} * (1 + PROMOTED)", "of a consumer's thread, for sums"),
    )
    return tuple(Derived(*line, group="Registers") for line in lines)


@cache
def _lines(x: Operand, elements: str) -> tuple[Derived, ...]:
    return (Derived(f"LINE_{x.X}", str(x.line), f"{elements} of a line of {x.X} in shared memory", "Boxes of TMA"),)


@cache
def _results(piece: int, buffers: bool, store: int) -> tuple[Derived, ...]:
    """The thread tile of a piece: that of wgmma's accumulators, see templates/device/wgmma.cu."""
    staged = "C_STAGES * CONSUMERS * 64 * CN * C_BYTES" if buffers else "0"
    lines = (
        ("CN", str(piece), "columns of C that leave at once, of a consumer's 64 rows"),
        (
            "C_STAGES",
            "1 + (MMAS_M * BN / CN % 2 == 0)",
            "pieces of C that a consumer has in shared memory: 2 where a tile has an even number of them",
        ),
        ("TM", "2", "rows of C that a thread has sums of, of each instruction"),
        ("TN", "CN / 4", "columns of C that a thread has sums of, of a piece"),
        ("FM", "1", "neighbouring rows among them"),
        ("FN", "2", "neighbouring columns among them"),
        ("STEP_M", "8", "rows from one to the next"),
        ("STEP_N", "8", "columns from one pair to the next"),
        ("VC", str(store), "elements of an access to C"),
    )
    b = "STAGES * BK * BN * B_BYTES"
    b = f"({b} + 1023) / 1024 * 1024" if buffers else b  # C's pieces begin at a pattern of a swizzle
    total = f"STAGES * BK * BM * A_BYTES + {b} + {staged} + 16 * STAGES + 8 * CONSUMERS"
    return (
        *(Derived(*line, group="How C leaves registers") for line in lines),
        Derived("SHARED_BYTES", f"({total} + 1023) / 1024 * 1024", "bytes of shared memory a block"),
    )


WGMMA = WgmmaFamily()
