"""`naive`: one thread an element of C, operands straight from global memory. The ladder's first rung."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemmgen.kernel.families.base import GRID_FITS, Config, Constraint, Derived, Work, axis, sizes_of, tile_grid
from gemmgen.problem.gemm import Problem


@dataclass(frozen=True)
class NaiveConfig(Config):
    """The axes of `naive`."""

    PATTERN = "{BM}x{BN}"

    BM: int = axis(16, (4, 8, 16, 32), "rows of C that a block computes")
    BN: int = axis(16, (8, 16, 32, 64), "columns of C that a block computes")


class Naive:
    """The family record: see `gemmgen.kernel.families.base.Family`."""

    name = "naive"
    config_type: type[Config] = NaiveConfig
    constraints: tuple[Constraint, ...] = (
        Constraint("BM >= 1 and BN >= 1", "a tile holds at least one element"),
        GRID_FITS,
        Constraint("THREADS <= MAX_THREADS", "the architecture bounds the threads of a block"),
    )

    pruning: tuple[Constraint, ...] = ()

    def default(self, problem: Problem) -> Config:
        return NaiveConfig()

    def facts(self, problem: Problem) -> dict[str, int]:
        return sizes_of(problem)

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        return (
            Derived("THREADS", "BM * BN", "threads a block"),
            Derived("SHARED_BYTES", "0", "shared memory a block, in bytes"),
        )

    def grid(self, problem: Problem, config: Config) -> tuple[tuple[str, int], ...]:
        return tile_grid(problem, config.values)

    def unused(self, problem: Problem, config: Config) -> frozenset[str]:
        return frozenset({"SHARED_BYTES"})

    def work(self, problem: Problem, config: Config) -> Work:
        threads = config.values["BM"] * config.values["BN"]
        return Work(
            threads=threads,
            outputs=1,
            depth=1,
            shared_reads=0,
            shared_words=0,
            wavefronts=0,
            copies=2,
            copy_wavefronts=0,
            global_words=2 * threads * problem.dtype.words,
            prefetch=0,
        )

    def template(self, config: Config) -> str:
        return "kernel/naive.cu"

    def view(self, problem: Problem, config: Config) -> Mapping[str, Any]:
        return {}


NAIVE = Naive()
