"""`batchedmma`: batches of small products on tensor cores, a warp for each, fragments straight from global memory.

    grid -> block of WARPS products -> warp: a whole product, in k tiles of BK

The order of rows, columns and k within an instruction is free as long as A, B and C agree. Here those of a lane are
neighbours, so that it loads and stores up to 16 bytes at once, with no shared memory and no barrier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from types import MappingProxyType
from typing import cast

from gemmgen.families.base import (
    ONE_PRODUCT,
    PDL_CONSTRAINTS,
    PDL_LAST,
    Family,
    Side,
    constants,
    launch_of,
    pdl_axis,
    rules,
    sides,
    sizes_of,
)
from gemmgen.kernel.config import Config, Derived, axis
from gemmgen.kernel.cost import registers
from gemmgen.kernel.plan import Plan, Tile, Work
from gemmgen.problem.device import WARP
from gemmgen.problem.dtype import WIDEST_ACCESS
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import Mma, instruction
from gemmgen.support.words import plural

MMA_M, MMA_N, MMA_K = 16, 8, 16  # of the instruction
HALF = 2  # bytes of an element that it multiplies
LANES_M, LANES_N = 8, 4  # lanes down a product, and across


@dataclass(frozen=True)
class BatchedMmaConfig(Config):
    """The axes of `batchedmma`."""

    PATTERN = "warps{WARPS}_k{BK}[_pdl{PDL}]"

    WARPS: int = axis(4, (4, 8, 2, 1, 16), "warps of a block, each with a product of its own")
    BK: int = axis(32, (32, 16, 64), "k whose elements of A and B a warp loads at once")
    PDL: int = pdl_axis(0)


CHECKED = {
    "HALVES == 1": "this family multiplies two operands of f16, or of bf16",
    "MMA_SINCE <= ARCH": "the architecture has no such instruction of these types",
    "BATCH != 1": "it serves batches only",
    "SUMMED == 0": "the family sums neither rows of A nor columns of B",
    "WARPS >= 1 and BK >= 1": "counts start at one",
    "WARPS <= 32": "the architecture bounds the threads of a block",
    f"M >= 1 and M % {MMA_M} == 0": f"an instruction multiplies {MMA_M} rows",
    f"N >= 1 and N % {2 * MMA_N} == 0": "a lane's columns are an even number",
    "K >= 1 and K % BK == 0": "k tiles end where K does",
    "M * N <= 4096": "a warp keeps all sums in registers, at most 128 per thread",
    "(M + N) * BK <= 4096": "a warp keeps a k tile of A and B in registers, at most 64 per thread",
    "VA >= 2 and VB >= 2": "an access has at least two elements: align lda and ldb",
    "(BATCH + WARPS - 1) / WARPS <= MAX_BLOCKS": "CUDA bounds the blocks of a grid",
}

ASSERTED = {
    f"BK % {MMA_K} == 0": f"an instruction sums over {MMA_K} k",
}

SLOW = {
    "WARPS >= 2": "an SM holds few blocks of one warp",
}

CONSTRAINTS = rules(CHECKED, ASSERTED, ONE_PRODUCT, *PDL_CONSTRAINTS)
PRUNING = rules(SLOW, {}, PDL_LAST)


@dataclass(frozen=True)
class BatchedMmaView:
    """The record that the template needs beside the constants: A and B, and the instruction."""

    a: Side
    b: Side
    mma: Mma


class BatchedMma(Family):
    """The family record: see `gemmgen.families.base.Family`."""

    name = "batchedmma"
    config_type = BatchedMmaConfig
    constraints = CONSTRAINTS
    pruning = PRUNING
    secondary = frozenset({"BK"})
    details = ("PDL",)
    small = MappingProxyType({"WARPS": 2, "BK": 16})
    small_batches = True
    multiple = MMA_M
    types = ("bf16", "f16", "bf16,bf16,f32")

    def default(self, problem: Problem) -> Config:
        deep = problem.k is not None and problem.k % 32 == 0
        return BatchedMmaConfig(BK=32 if deep else MMA_K)

    def facts(self, problem: Problem) -> dict[str, int]:
        one = instruction(problem.types, MMA_K)
        halves = problem.types.a.size == HALF and one.mma is not None and one.mma.c_shared == 1
        return {**sizes_of(problem), "HALVES": int(halves), "MMA_SINCE": one.since}

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        a, b = sides(problem)
        columns = (problem.n or 0) // LANES_N
        return (
            Derived("THREADS", "32 * WARPS", "threads a block"),
            Derived("SHARED_BYTES", "0", "shared memory a block, in bytes"),
            Derived("BM", str(problem.m or 0), "rows of C: all of them"),
            Derived("BN", str(problem.n or 0), "columns of C: all of them"),
            Derived("MMAS_M", f"BM / {MMA_M}", "instructions down a product"),
            Derived("MMAS_N", f"BN / {MMA_N}", "instructions across a product"),
            Derived("K_STEPS", f"BK / {MMA_K}", "instructions along a k tile"),
            Derived("WORDS", "2 * K_STEPS", "pairs of neighbours along k that a lane has of a line's k tile"),
            Derived("VA", str(_access(problem, cast(BatchedMmaConfig, config), a)), "elements of an access to A"),
            Derived("VB", str(_access(problem, cast(BatchedMmaConfig, config), b)), "elements of an access to B"),
            Derived("TM", f"BM / {LANES_M}", "neighbouring rows of a lane", "How C leaves registers"),
            Derived("TN", f"BN / {LANES_N}", "neighbouring columns of a lane", "How C leaves registers"),
            Derived("FM", "TM", "of them side by side: all", "How C leaves registers"),
            Derived("FN", "TN", "of them side by side: all", "How C leaves registers"),
            Derived("STEP_M", "BM", "rows from these to a lane's next: it has no more", "How C leaves registers"),
            Derived("STEP_N", "BN", "columns, likewise", "How C leaves registers"),
            Derived("VC", str(gcd(columns, problem.vector_limit("ldc"))), "elements of an access to C",
                    "How C leaves registers"),
        )  # fmt: skip

    def plan(self, problem: Problem, config: Config) -> Plan:
        value, one = constants(self, problem, config), instruction(problem.types, MMA_K).mma
        axes = cast(BatchedMmaConfig, config)
        launch = launch_of(value, (("batch", axes.WARPS),))
        work, tile = _work(problem, axes, value), (value["BM"], value["BN"])
        # The order of k within an instruction is free here, which a SumOrder cannot express.
        return Plan(problem, config, self, value, tile, 0, work, launch, one)

    def template(self, config: Config) -> str:
        return "batched_mma/batched_mma.cu"

    def unused(self, plan: Plan) -> frozenset[str]:
        return frozenset({"PDL", "SHARED_BYTES"})

    def view(self, plan: Plan) -> BatchedMmaView:
        one = instruction(plan.problem.types, MMA_K).mma
        assert one is not None, "constraints ask for one"
        return BatchedMmaView(*sides(plan.problem), one)

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        (rows, cols), value = plan.tile, plan.constants
        return (
            Tile("product", rows, cols, plan.constants["WARPS"]),
            Tile("thread", value["TM"], value["TN"], WARP),
        )

    def prose(self, plan: Plan) -> tuple[str, ...]:
        value = plan.constants
        mmas = value["MMAS_M"] * value["MMAS_N"]
        return (
            f"Block   {plural(value['WARPS'], 'product')} by as many warps, which never wait for each other",
            f"Warp    a product, in k tiles of {value['BK']}: for each {MMA_K} k {plural(mmas, 'mma')} of "
            f"{MMA_M} x {MMA_N} x {MMA_K}",
        )


def _access(problem: Problem, config: BatchedMmaConfig, side: Side) -> int:
    """Elements per access: a lane's neighbours, as far as alignment and 16 bytes allow."""
    size = (problem.m if side.x == "a" else problem.n) or 0
    own = config.BK // LANES_N if side.along_k else size // LANES_M
    return gcd(own, WIDEST_ACCESS // HALF, problem.vector_limit(side.ld))


def _work(problem: Problem, axes: BatchedMmaConfig, value: Mapping[str, int]) -> Work:
    elements = {"A": value["BM"] * axes.BK // WARP, "B": value["BN"] * axes.BK // WARP}  # of a lane
    a, b = sides(problem)
    swaps = sum(elements[side.X] // 2 for side in (a, b) if not side.along_k)
    loads = elements["A"] / value["VA"] + elements["B"] / value["VB"]
    words, outputs = (elements["A"] + elements["B"]) / 2, value["TM"] * value["TN"]
    return Work(
        outputs=outputs,
        depth=axes.BK,
        shared_reads=0,
        read_bytes=0,
        wavefronts=0,
        copies=loads + swaps,
        copy_wavefronts=0,
        global_bytes=axes.WARPS * (value["BM"] + value["BN"]) * axes.BK * HALF,
        prefetch=0,
        products=MMA_M * MMA_N * MMA_K // WARP,
        registers=registers(problem.types.accumulator, outputs, fragments=int(words)),
    )


BATCHED_MMA = BatchedMma()
