"""`simt`: f32 and f64 GEMM on CUDA cores (FFMA, DFMA), from one element a thread to warp-tiled 16x16 register tiles.

    grid -> block BM x BN -> SLICES of each step's depth -> warp WM x WN -> thread TM x TN, in steps of BK along K

Two loop orders over the same tiles: the outer product reads TM + TN values for TM * TN FMAs, the
inner product two for each. Tiles of A and B pass through shared memory in one, two or more stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from gemmgen.kernel.families.base import Config, Constraint, Derived, Work, constants, sizes_of, tile_grid
from gemmgen.kernel.families.simt_axes import CONSTRAINTS, PRUNING, TILE_THREADS, SimtConfig
from gemmgen.kernel.families.simt_operands import (
    copy_wavefronts,
    fragment_width,
    last_first,
    operand_constants,
    operands,
    read_width,
    runs_along_n,
    store_width,
)
from gemmgen.problem.gemm import Problem

SLICES_GROUP = "How slices add up"


class Simt:
    """The family record: see `gemmgen.kernel.families.base.Family`."""

    name = "simt"
    config_type: type[Config] = SimtConfig
    constraints: tuple[Constraint, ...] = CONSTRAINTS
    pruning: tuple[Constraint, ...] = PRUNING

    def default(self, problem: Problem) -> Config:
        a, b = operands(problem, SimtConfig())
        return SimtConfig(
            VEC=problem.dtype.widest, TA=int(a.along_k), TB=int(b.along_k), PAD=4 if a.along_k or b.along_k else 0
        )

    def facts(self, problem: Problem) -> dict[str, int]:
        a, b = operands(problem, SimtConfig())
        along = {"A_ALONG_K": int(a.along_k), "B_ALONG_K": int(b.along_k)}
        return {**sizes_of(problem), **along}

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        simt = cast(SimtConfig, config)
        a, b = operands(problem, simt)
        widths = fragment_width(simt, a), fragment_width(simt, b), store_width(problem, simt, b)
        return (
            *_threads(simt.SLICES > 1),
            *_fragments(simt.WM > 0, a.by_turn, b.by_turn, *widths, f"{problem.dtype.ctype}s"),
            *operand_constants(problem, simt, a),
            *operand_constants(problem, simt, b),
            *_sums_of_slices(),
            SHARED_BYTES,
        )

    def grid(self, problem: Problem, config: Config) -> tuple[tuple[str, int], ...]:
        return tile_grid(problem, config.values)

    def unused(self, problem: Problem, config: Config) -> frozenset[str]:
        simt = cast(SimtConfig, config)
        choices = {"OUTER", "VEC", "TA", "TB", "ASYNC", "ORDER", "TEAM", "SHARED_BYTES"}
        idle = {"AHEAD": 0, "SLICES": 1, "SPLIT": 1, "STREAM": 0, "LEAD": 0}
        choices |= {name for name, value in idle.items() if simt.values[name] == value}
        if simt.SLICES == 1:
            choices |= {"ROUNDS", "ROWS"}
        if simt.WM == 0:
            choices |= {"WM", "WN"}
        if not any(operand.along_k for operand in operands(problem, simt)):
            choices.add("PAD")
        return frozenset(choices)

    def work(self, problem: Problem, config: Config) -> Work:
        simt = cast(SimtConfig, config)
        value = constants(self, problem, config)
        outputs, words = simt.TM * simt.TN, problem.dtype.words
        values: float = simt.TM + simt.TN if simt.OUTER else 2 * outputs
        a, b = operands(problem, simt)
        wide_a, wide_b = (read_width(simt, operand) for operand in (a, b))
        reads: float = simt.TM / wide_a + simt.TN / wide_b if simt.OUTER else 2 * outputs
        # A warp's read of 4-byte words takes one cycle, of 16-byte vectors four; zigzag lanes halve the latter.
        halved = 2 if simt.WM > 0 and problem.dtype.widest == simt.VEC else 1
        wavefronts = simt.TM / min(halved, wide_a) + simt.TN / min(halved, wide_b) if simt.OUTER else values
        stores = sum(value[f"{x}_SHARE"] * value[f"V{x}"] / value[f"STORE_{x}"] for x in "AB")
        loads = value["A_SHARE"] + value["B_SHARE"]
        moved = words * (simt.BM + simt.BN) * simt.BK
        return Work(
            threads=value["THREADS"],
            outputs=outputs,
            depth=simt.BK,
            shared_reads=reads / simt.SLICES,
            shared_words=words * values / simt.SLICES,
            wavefronts=words * wavefronts / simt.SLICES,
            copies=loads if simt.ASYNC else loads + stores,
            copy_wavefronts=words * (copy_wavefronts(value, a) + copy_wavefronts(value, b)),
            global_words=moved,
            prefetch=simt.STAGES - 1,
            staged=0 if simt.ASYNC or simt.STAGES == 1 else moved / value["THREADS"],
            shares=simt.SLICES,
            splits=simt.SPLIT,
            stream=simt.STREAM,
            run=(simt.TN if runs_along_n(simt, a, b) else simt.TM) if simt.OUTER else 1,
            written=simt.AHEAD * simt.SLICES,
            by_turn=a.by_turn or b.by_turn,
            lead=simt.LEAD,
        )

    def template(self, config: Config) -> str:
        simt = cast(SimtConfig, config)
        if simt.AHEAD:
            return "kernel/read_ahead.cu"
        if simt.ASYNC:
            return "kernel/cp_async_stages.cu"
        return "kernel/double_buffer.cu" if simt.STAGES == 2 else "kernel/single_buffer.cu"

    def view(self, problem: Problem, config: Config) -> Mapping[str, Any]:
        simt = cast(SimtConfig, config)
        a, b = operands(problem, simt)
        along_n = runs_along_n(simt, a, b)
        return {
            "a": a,
            "b": b,
            "outer": simt.OUTER == 1,
            "lead": simt.LEAD,
            "compute": "compute/outer.cu" if simt.OUTER else "compute/inner.cu",
            "warped": simt.WM > 0,
            "slices": simt.SLICES,
            "depth": "BK" if simt.SLICES == 1 else "DEPTH",
            "first": "0" if simt.SLICES == 1 else "place.k",
            "K": "s.K" if simt.SPLIT == 1 and simt.STREAM == 0 else "part",
            "runs_along_n": along_n,
            "lines": "TM" if along_n else "TN",
            "by_turn": next((operand for operand in (a, b) if operand.by_turn), None),
            "from_far_end": simt.ORDER & 1 > 0,
            "last_first": last_first(simt),
            "b_first": simt.ORDER & 4 > 0,
        }


# What a space's configs have in common is made once: Derived by Derived it takes longer than all else of a search.


@cache
def _threads(sliced: bool) -> tuple[Derived, ...]:
    if not sliced:
        return (Derived("THREADS", TILE_THREADS, "threads a block"),)
    return (
        Derived("DEPTH", "BK / SLICES", "depth of a slice's part of a step"),
        Derived("SLICE_THREADS", TILE_THREADS, "threads a slice, which cover the block's tile"),
        Derived("THREADS", "SLICE_THREADS * SLICES", "threads a block"),
    )


@cache
def _fragments(
    warped: bool, a_by_turn: bool, b_by_turn: bool, rows: int, columns: int, store: int, elements: str
) -> tuple[Derived, ...]:
    """How a thread's elements lie in the tile: `rows` and `columns` of a shared read, `store` of an access to C."""
    lanes_m, lanes_n = ("WM / TM", "WN / TN") if warped else ("BM / TM", "BN / TN")
    tile = "warp" if warped else "block"
    return (
        Derived("LANES_M", lanes_m, f"threads down a {tile}'s tile"),
        Derived("LANES_N", lanes_n, f"threads across a {tile}'s tile"),
        Derived("FM", str(rows), f"{'rows' if a_by_turn else elements} of a thread's shared read of A"),
        Derived("FN", str(columns), f"{'columns' if b_by_turn else elements} of a thread's shared read of B"),
        Derived("STEP_M", "FM * LANES_M", "rows from one shared read of a thread to its next"),
        Derived("STEP_N", "FN * LANES_N", "columns from one shared read of a thread to its next"),
        Derived("VC", str(store), f"{elements} of an access to C"),
    )


@cache
def _sums_of_slices() -> tuple[Derived, ...]:
    room = "STAGES * (SHARED_A + SHARED_B)"  # that the tiles leave
    rounds = f"1 + (SLICES * BM * BN > {room}) + 2 * (SLICES * BM * BN > 2 * {room})"
    return (
        Derived(
            "ROUNDS",
            rounds,
            "rounds in which slices add up: 1, 2 or 4, so that the sums of one fit where the tiles were",
            group=SLICES_GROUP,
        ),
        Derived("ROWS", "TM / SLICES", "rows of a thread's tile that each slice gets, and stores", group=SLICES_GROUP),
    )


SHARED_BYTES = Derived(
    "SHARED_BYTES",
    "ELEMENT_BYTES * STAGES * (SHARED_A + SHARED_B) + 16 * (SPLIT > 1 or STREAM > 0)",
    "bytes of shared memory a block",
)

SIMT = Simt()
