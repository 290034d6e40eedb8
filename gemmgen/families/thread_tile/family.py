"""`threadtile`: each thread computes TM x TN elements of C by outer products of operands read from global memory.

The rung between `naive` and `simt`: registers reuse what a thread has read, and nothing is shared between threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from gemmgen.families.base import CUDA_CORES, GRID_FITS, ONE_PRODUCT, Family, constants, launch_of, tile_grid
from gemmgen.kernel.analysis import traffic
from gemmgen.kernel.config import Config, Constraint, Derived, axis
from gemmgen.kernel.cost import registers
from gemmgen.kernel.notes import block
from gemmgen.kernel.plan import Never, Plan, Tile, Work
from gemmgen.problem.gemm import Problem


@dataclass(frozen=True)
class ThreadTileConfig(Config):
    """The axes of `threadtile`."""

    PATTERN = "{BM}x{BN}_{TM}x{TN}[_u{UNROLL}]"

    BM: int = axis(64, (16, 32, 64, 128), "rows of C that a block computes")
    BN: int = axis(64, (16, 32, 64, 128), "columns of C that a block computes")
    TM: int = axis(4, (1, 2, 4, 8), "rows of C that a thread computes")
    TN: int = axis(4, (1, 2, 4, 8), "columns of C that a thread computes")
    UNROLL: int = axis(1, (1, 2, 4), "k of an iteration, whose reads wait for none of its FMAs")


class ThreadTile(Family):
    """The family record: see `gemmgen.families.base.Family`."""

    name = "threadtile"
    config_type = ThreadTileConfig
    constraints = (
        Constraint("BM >= 1 and BN >= 1 and TM >= 1 and TN >= 1 and UNROLL >= 1", "a tile holds at least one element"),
        Constraint("BM % TM == 0", "threads split a block's rows evenly"),
        Constraint("BN % TN == 0", "threads split a block's columns evenly"),
        Constraint("SUMMED == 0", "it sums neither rows of A nor columns of B", False),
        ONE_PRODUCT,
        GRID_FITS,
        CUDA_CORES,
        Constraint("THREADS <= MAX_THREADS", "the architecture bounds the threads of a block"),
    )

    def default(self, problem: Problem) -> Config:
        return ThreadTileConfig()

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        return (
            Derived("STEP_M", "BM / TM", "rows between two of a thread"),
            Derived("STEP_N", "BN / TN", "columns between two of a thread"),
            Derived("THREADS", "STEP_M * STEP_N", "threads per block"),
            Derived("SHARED_BYTES", "0", "bytes of shared memory per block"),
        )

    def plan(self, problem: Problem, config: Config) -> Plan:
        value, types = constants(self, problem, config), problem.types
        axes = cast(ThreadTileConfig, config)
        fragments = types.accumulator.words * (axes.TM + axes.TN)
        work = Work(
            outputs=axes.TM * axes.TN,
            depth=1,
            shared_reads=0,
            read_bytes=0,
            wavefronts=0,
            copies=axes.TM + axes.TN,
            copy_wavefronts=0,
            global_bytes=value["THREADS"] * (axes.TM * types.a.size + axes.TN * types.b.size),
            prefetch=0,
            registers=registers(types.accumulator, axes.TM * axes.TN, fragments=fragments),
        )
        launch = launch_of(value, tile_grid(problem, value))
        return Plan(problem, config, self, value, (axes.BM, axes.BN), 0, work, launch)

    def template(self, config: Config) -> str:
        return "thread_tile/thread_tile.cu"

    def unused(self, plan: Plan) -> frozenset[str]:
        return frozenset({"SHARED_BYTES"})

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        axes = cast(ThreadTileConfig, plan.config)
        return (Tile("thread", axes.TM, axes.TN, plan.launch.threads),)

    def prose(self, plan: Plan) -> tuple[str, ...]:
        axes = cast(ThreadTileConfig, plan.config)
        return (
            block(plan),
            f"Thread  {axes.TM} x {axes.TN} of C: {axes.TM + axes.TN} reads for {axes.TM * axes.TN} FMAs",
            f"Bound   {traffic(plan).bound}: threads that read the same elements meet in the caches alone",
        )

    def never(self, plan: Plan) -> Iterator[Never]:
        for size, tile in (("M", "BM"), ("N", "BN")):
            if size not in plan.edges:
                yield Never(f"{size.lower()} >= s.{size}", True, f"{tile} divides {size}")


THREAD_TILE = ThreadTile()
