"""`naive`: one thread per element of C, operands straight from global memory. The simplest family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmgen.families.base import (
    CUDA_CORES,
    GRID_FITS,
    Family,
    constants,
    image_constants,
    launch_of,
    tile_grid,
    unread_of_images,
)
from gemmgen.kernel.analysis import traffic
from gemmgen.kernel.config import Config, Constraint, Derived, axis
from gemmgen.kernel.cost import registers
from gemmgen.kernel.notes import block
from gemmgen.kernel.plan import Never, Plan, Tile, Work
from gemmgen.problem.gemm import Problem


@dataclass(frozen=True)
class NaiveConfig(Config):
    """The axes of `naive`."""

    PATTERN = "{BM}x{BN}"

    BM: int = axis(16, (4, 8, 16, 32), "rows of C that a block computes")
    BN: int = axis(16, (8, 16, 32, 64), "columns of C that a block computes")


class Naive(Family):
    """The family record: see `gemmgen.families.base.Family`."""

    name = "naive"
    any_inputs = True
    config_type = NaiveConfig
    constraints = (
        Constraint("BM >= 1 and BN >= 1", "a tile holds at least one element"),
        GRID_FITS,
        CUDA_CORES,
        Constraint("THREADS <= MAX_THREADS", "the architecture bounds the threads of a block"),
    )

    def default(self, problem: Problem) -> Config:
        return NaiveConfig()

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        return (
            Derived("THREADS", "BM * BN", "threads a block"),
            Derived("SHARED_BYTES", "0", "shared memory a block, in bytes"),
            *image_constants(problem.inputs.conv),
        )

    def plan(self, problem: Problem, config: Config) -> Plan:
        value = constants(self, problem, config)
        products, types = problem.products, problem.types
        work = Work(
            outputs=products,
            depth=1,
            shared_reads=0,
            read_bytes=0,
            wavefronts=0,
            copies=1 + products,
            copy_wavefronts=0,
            global_bytes=value["THREADS"] * (types.a.size + products * types.b.size),
            prefetch=0,
            registers=registers(types.accumulator, products, fragments=2 * types.accumulator.words),
        )
        tile = value["BM"], value["BN"]
        return Plan(problem, config, self, value, tile, 0, work, launch_of(value, tile_grid(problem, value)))

    def template(self, config: Config) -> str:
        return "naive/naive.cu"

    def unused(self, plan: Plan) -> frozenset[str]:
        return frozenset({"SHARED_BYTES"}) | unread_of_images(plan.problem, "R")

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        return (Tile("thread", 1, 1, plan.launch.threads),)

    def prose(self, plan: Plan) -> tuple[str, ...]:
        bound = traffic(plan).bound
        return block(plan), f"Bound   {bound}: every FMA takes two reads of it, most of which caches serve"

    def never(self, plan: Plan) -> Iterator[Never]:
        for size, tile in (("M", "BM"), ("N", "BN")):
            if size not in plan.edges and not (size == "M" and plan.problem.inputs.masked):
                yield Never(f"{size.lower()} >= s.{size}", True, f"{tile} divides {size}")


NAIVE = Naive()
