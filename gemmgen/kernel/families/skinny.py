"""`skinny`: f32 products in which M or N is small, so that reading the other operand once bounds the time.

The operand with few lines is the small one (A where M is small, B where N is); the other one holds the weights. Each
weight goes from global memory straight to a register and is used S times there; the small operand passes through
shared memory, BK of its depths at a time, or with BK = 0 goes straight to registers as well, by way of L1.

    weights with lines along k     a lane has VEC of the depths of each of its warp's T lines; shuffles add the lanes up
    weights with lines across C    a lane has T weights of a line that LANES lanes share; other lanes and warps of the
                                   block have other depths, and shuffles add the lanes up

Either way SPLIT blocks can share a tile of C, so that the grid fills the card where the long side alone does not. Fewer
LANES do the same by narrower tiles, with nothing to add up between blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, gcd
from types import MappingProxyType
from typing import cast

from gemmgen.kernel.analysis import traffic
from gemmgen.kernel.config import Config, Constraint, Derived, axis
from gemmgen.kernel.families.base import (
    SPLIT_CONSTRAINTS,
    Family,
    Side,
    constants,
    launch_of,
    sides,
    sizes_of,
    split_axis,
    tile_grid,
)
from gemmgen.kernel.notes import block, memory_bound, shared_tiles
from gemmgen.kernel.plan import Plan, Tile, Work
from gemmgen.problem.device import WARP
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import TILE_REACH, Problem

MOST_SMALL = 64  # lines of the small operand up to which streaming its partner is the plan


@dataclass(frozen=True)
class SkinnyConfig(Config):
    """The axes of `skinny`."""

    PATTERN = "s{S}_t{T}[_l{LANES}]_w{WARPS}_k{BK}_u{UNROLL}_v{VEC}_split{SPLIT}"

    S: int = axis(8, (1, 2, 4, 8, 16, 32), "lines of the small operand that a block multiplies: uses of a weight")
    T: int = axis(4, (1, 2, 4, 8), "elements along C's long side that a thread sums")
    LANES: int = axis(32, (32, 16, 8, 4, 2), "lanes of a warp along C's long side, the others at other depths")
    WARPS: int = axis(4, (2, 4, 8, 16), "warps of a block")
    BK: int = axis(256, (0, 128, 256, 512, 1024), "depths of the small operand that shared memory holds at once")
    UNROLL: int = axis(2, (2, 4, 8, 16), "steps along K whose weights are under way at once")
    VEC: int = axis(4, (4, 1), "words of 4 bytes of the widest access: 1, 2 or 4")
    SPLIT: int = split_axis()


CONSTRAINTS = (
    Constraint("ELEMENT_BYTES == 4", "its shuffles move sums of 4 bytes: f32 or s32", False),
    Constraint("BATCH == 1", "it serves no batches", False),
    Constraint("SUMMED == 0", "its threads share rows and columns, which simt sums for an epilogue", False),
    Constraint("S >= 1 and T >= 1 and LANES >= 1 and WARPS >= 1 and UNROLL >= 1", "counts start at one", False),
    Constraint("VEC == 1 or VEC == 2 or VEC == 4", "an access is 4, 8 or 16 bytes wide", False),
    Constraint("THREADS <= MAX_THREADS", "the architecture bounds the threads of a block"),
    Constraint("S * T <= 256", "a thread has no registers for more sums"),
    Constraint("BK % (UNROLL * STEP) == 0", "a chunk is a whole number of turns of the ring of registers"),
    Constraint(f"2 * UNROLL * STEP <= {TILE_REACH}", "loads that run ahead stay near the edge of K"),
    Constraint("BK <= 8192 and SPLIT * STEP <= 32768", "depths past the edge of K stay below 2^31", False),
    Constraint("PARTIALS > 1 or 32 % (S * T) == 0 or S * T % 32 == 0", "lanes halve the sums until each has its own"),
    Constraint("32 % LANES == 0", "a warp is a whole number of groups of lanes"),
    Constraint("LANES == 32 or ALONG_K == 0", "where weights run along k, a warp's lanes lie along k as well", False),
    Constraint("GROUPS % (S * T) == 0 or S * T % GROUPS == 0", "groups halve the sums until each has its own"),
    *SPLIT_CONSTRAINTS,
    Constraint("SHARED_BYTES <= MAX_SHARED_BYTES", "the architecture bounds the shared memory of a block"),
)

PRUNING = (
    Constraint("SMALL >= 1", "neither M nor N is known to be small: simt"),
    Constraint(f"SMALL <= {MOST_SMALL}", "with M and N so large tiles of both operands are reused: simt"),
    Constraint("S < 2 * SMALL", "most of the sums would be of lines that do not exist"),
    Constraint("4 * S >= SMALL", "more blocks than four read the same weights"),
    Constraint("T * LANES * W_BYTES >= 32", "blocks read less of a line than a sector of 32 bytes"),
    Constraint("LANES == 32 or SPLIT <= 2", "narrow tiles fill the card in place of a split"),
    Constraint("VEC == 4", "narrower accesses only add instructions (lines that are not aligned narrow their own)"),
    Constraint(
        "T * UNROLL * LANE_WORDS * W_BYTES >= 32", "less than 32 bytes of a lane under way do not hide the latency"
    ),
    Constraint(
        "S * T + UNROLL * LANE_WORDS * (T * W_BYTES + S * X_BYTES * (BK == 0)) / 4 <= 192",
        "sums, weights and small operand under way exceed the registers",
    ),
    Constraint("BK > 0 or S <= 8", "every thread would read most of the small operand itself"),
    Constraint("S * T * UNROLL * LANE_WORDS <= 2048", "a turn of the ring exceeds the instruction cache"),
    Constraint("S * BK <= 16384", "a chunk of more than 64 KB leaves an SM short of blocks"),
    Constraint("K == 0 or SPLIT == 1 or K / SPLIT >= UNROLL * STEP", "parts too short for one turn of the ring"),
)


def roles(problem: Problem) -> tuple[Side, Side]:
    """(the small operand, the weights): B is the small one where N is known to be less than M."""
    a, b = sides(problem)
    n_is_less = problem.n is not None and (problem.m is None or problem.n < problem.m)
    m_is_small = problem.m is None and problem.n is not None and problem.n > MOST_SMALL
    return (b, a) if n_is_less and not m_is_small else (a, b)


@dataclass(frozen=True)
class SkinnyView:
    """What the templates of `skinny` need beside the constants.

    x, w           the small operand, and the weights
    along_k        lines of the weights run along k
    grouped        a warp's lanes form groups, each at a depth of its own
    stores         vectors are stored to shared memory
    stream, small  templates: how threads share the weights, and how the small operand comes to them
    direct         the small operand passes by shared memory
    stage_unroll   loads of a thread under way at once while it stages a chunk
    x_edge, w_edge  a tile may cross an edge of C along the lines of x, or of the weights
    partial        the end of a line of the weights can cut an access
    """

    x: Side
    w: Side
    along_k: bool
    grouped: bool
    stores: bool
    stream: str
    small: str
    direct: bool
    stage_unroll: int
    x_edge: bool
    w_edge: bool
    partial: bool


class Skinny(Family):
    """The family record: see `gemmgen.kernel.families.base.Family`."""

    name = "skinny"
    config_type = SkinnyConfig
    constraints = CONSTRAINTS
    pruning = PRUNING
    secondary = frozenset({"WARPS", "BK"})
    small = MappingProxyType({"S": 4, "T": 4, "WARPS": 2, "BK": 32, "UNROLL": 2})

    def default(self, problem: Problem) -> Config:
        _, w = roles(problem)
        step = WARP * weight_width(problem, SkinnyConfig()) if w.along_k else 1  # depths of a block's
        return SkinnyConfig(BK=max(SkinnyConfig.BK, SkinnyConfig.UNROLL * step))

    def facts(self, problem: Problem) -> dict[str, int]:
        small = min(size for size in (problem.m, problem.n, MOST_SMALL + 1) if size is not None)
        known = problem.m is not None or problem.n is not None
        x, w = roles(problem)
        sizes = {"X_BYTES": problem.dtype_of(x.X).size, "W_BYTES": problem.dtype_of(w.X).size}
        return {**sizes_of(problem), **sizes, "SMALL": small if known else 0, "ALONG_K": int(w.along_k)}

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        skinny = cast(SkinnyConfig, config)
        x, w = roles(problem)
        width, elements = weight_width(problem, skinny), "floats" if problem.types.uniform else "elements"
        step = "32 * VW" if w.along_k else "WARPS * GROUPS"
        long_side = "WARPS * T" if w.along_k else "LANES * T"
        tile = {f"B{x.MN}": "S", f"B{w.MN}": long_side}
        # Where the chunk's lines are single depths, a staging warp whose operand's are not writes down a column, and a
        # warp of several groups reads down one: without padding these words would meet in few banks.
        column = x.along_k or skinny.LANES < WARP
        padding = " + 4 * (S % 8 == 0)" if column and not w.along_k else ""
        direct = skinny.BK == 0
        pitch = "BK" if w.along_k else f"S{padding}"
        lines = "S" if w.along_k else "BK"
        # No barrier parts the loads from their use: unless told that one block an SM will do, the compiler delays some
        # to save registers (1 x 1024 x 1024 with nvcc 13.0: 32 in place of 51).
        bound = (Derived("MINB", "1", "blocks that must fit an SM at once: more would cost loads under way"),)
        return (
            Derived("THREADS", "32 * WARPS", "threads a block"),
            *(bound if direct else ()),
            Derived("BM", tile["BM"], "rows of C that a block computes"),
            Derived("BN", tile["BN"], "columns of C that a block computes"),
            Derived("OUTPUTS", "(BM * BN + THREADS - 1) / THREADS", "elements of C that a thread stores at most"),
            Derived("VW", str(width), f"{elements} of an access to the weights", group="Weights"),
            Derived("LOADS", "T" if w.along_k else "T / VW", "accesses of a thread a step", group="Weights"),
            Derived("GROUPS", "32 / LANES", "groups of a warp's lanes, each with a depth of its own", group="Weights"),
            Derived("STEP", step, "depths that a block takes at a step", group="Weights"),
            Derived(
                "LANE_WORDS",
                "VW" if w.along_k else "1",
                "depths that each lane takes at a step",
                group="Weights",
            ),
            Derived(
                "XW",
                str(small_width(problem, skinny)),
                f"{elements} of an access to the small operand",
                group="Weights",
            ),
            *(() if problem.types.uniform else (READ_WIDTH,)),
            Derived("FX", str(gcd(4, skinny.S)), "floats of a read of the small operand", group=SHARED),
            Derived("PITCH", pitch, "floats from one line of a chunk to the next", group=SHARED),
            Derived("SUMS_PITCH", f"B{w.MN} + 4", "floats from one line of sums to the next", group=SHARED),
            Derived(
                "PARTIALS",
                "1" if w.along_k else "WARPS",
                "sums of each element of C that meet in shared memory",
                group=SHARED,
            ),
            Derived("CHUNK_FLOATS", f"{lines} * PITCH", "floats of a chunk of the small operand", group=SHARED),
            Derived(
                "SUMS_FLOATS",
                "PARTIALS * S * SUMS_PITCH",
                "floats of the sums at the end" if direct else "floats of the sums that replace it at the end",
                group=SHARED,
            ),
            Derived(
                "SHARED_FLOATS",
                "SUMS_FLOATS"
                if direct
                else "CHUNK_FLOATS * (CHUNK_FLOATS >= SUMS_FLOATS) + SUMS_FLOATS * (SUMS_FLOATS > CHUNK_FLOATS)",
                "floats of shared memory" if direct else "floats of shared memory, for one and then the other",
                group=f"{SHARED}, in all",
            ),
            Derived("SHARED_BYTES", "4 * SHARED_FLOATS + 16 * (SPLIT > 1)", "shared memory a block, in bytes"),
        )

    def plan(self, problem: Problem, config: Config) -> Plan:
        skinny, value = cast(SkinnyConfig, config), constants(self, problem, config)
        x, w = roles(problem)
        turn = skinny.UNROLL * value["STEP"]  # depths
        direct = skinny.BK == 0
        staged = 0 if direct else skinny.S * turn  # elements
        conflicts = 1 if w.along_k == x.along_k else 4
        # A thread's accesses to the small operand a step, each of so many words.
        words = value["XW"] if direct else value["VW"] if w.along_k else value["FX"]
        accesses = skinny.S * value["LANE_WORDS"] // words
        # Through L1 or shared memory, 32 words a cycle: for each lane, in a line of each lane's own, or for each group.
        apart = direct and w.along_k and not x.along_k
        cycles = WARP if apart else words if w.along_k else max(1, words * value["GROUPS"] / WARP)
        reads = 0 if direct else accesses / value["STEP"]
        rounds = ceil(skinny.S * skinny.BK / (value["THREADS"] * STAGE_UNROLL))  # of loads that stage a chunk
        work = Work(
            outputs=skinny.S * skinny.T,
            depth=turn,
            shared_reads=reads,
            read_bytes=WORD * reads * words,
            wavefronts=accesses / value["STEP"] * cycles,
            copies=skinny.UNROLL * (value["LOADS"] + accesses * direct) + 2 * staged / value["THREADS"],
            copy_wavefronts=staged / WARP * conflicts,
            global_bytes=(value["W_BYTES"] * value[f"B{w.MN}"] + value["X_BYTES"] * skinny.S) * turn,
            repeated_bytes=value["X_BYTES"] * skinny.S * turn * direct,
            prefetch=1,
            waits=0 if direct else rounds * turn / skinny.BK,
            staged=skinny.UNROLL
            * value["LANE_WORDS"]
            * (value["W_BYTES"] * skinny.T + value["X_BYTES"] * skinny.S * direct)
            / WORD,
            shares=WARP if w.along_k else value["STEP"],
            chunk=skinny.BK,
            others=20,
        )
        tile, launch = (value["BM"], value["BN"]), launch_of(value, tile_grid(problem, value), splits=skinny.SPLIT)
        return Plan(problem, config, self, value, tile, value["SHARED_BYTES"], work, launch)

    def template(self, config: Config) -> str:
        return "kernel/skinny.cu"

    def unused(self, plan: Plan) -> frozenset[str]:
        skinny = cast(SkinnyConfig, plan.config)
        _, w = roles(plan.problem)
        names = {"VEC", "SHARED_BYTES"}
        if skinny.BK == 0 if w.along_k else skinny.LANES < WARP:
            names |= {"RX"}
        names |= {"BK", "PITCH", "CHUNK_FLOATS"} if skinny.BK == 0 else {"LANE_WORDS", "XW"}
        if w.along_k:
            names |= {"FX", "LANES", "GROUPS"}
        if skinny.SPLIT == 1:
            names.add("SPLIT")
        if plan.launch.shared_bytes:
            names |= {"SHARED_FLOATS", "CHUNK_FLOATS", "SUMS_FLOATS"}
        return frozenset(names)

    def view(self, plan: Plan) -> SkinnyView:
        skinny = cast(SkinnyConfig, plan.config)
        x, w = roles(plan.problem)
        line = plan.problem.sizes["K" if w.along_k else w.MN]
        return SkinnyView(
            x=x,
            w=w,
            along_k=w.along_k,
            grouped=skinny.LANES < WARP,
            stores=not w.along_k and skinny.LANES == WARP,
            stream="stream/along_k.cu" if w.along_k else "stream/across.cu",
            small="small/staged.cu" if skinny.BK else "small/direct.cu",
            direct=skinny.BK == 0,
            stage_unroll=STAGE_UNROLL,
            x_edge=x.MN in plan.edges,
            w_edge=w.MN in plan.edges,
            partial=plan.constants["VW"] > 1 and (line is None or line % plan.constants["VW"] != 0),
        )

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        """Several threads sum the same elements, at other depths."""
        skinny = cast(SkinnyConfig, plan.config)
        rows, cols = (skinny.S, skinny.T) if roles(plan.problem)[0].mn == "m" else (skinny.T, skinny.S)
        return (Tile("thread", rows, cols, plan.launch.threads),)

    def prose(self, plan: Plan) -> tuple[str, ...]:
        return (
            f"{block(plan)}, {plan.shared_bytes} bytes of shared memory",
            *_streaming(plan),
            *shared_tiles(plan.launch),
        )


def _streaming(plan: Plan) -> Iterator[str]:
    """How the weights travel, and what bounds the kernel."""
    work, intensity = plan.work, traffic(plan).intensity
    small, weights = (role.X for role in roles(plan.problem))
    yield (
        f"Thread  {work.outputs} sums, each of one k in {work.shares}: {work.shares} threads share an element of C and "
        "add up at the end"
    )
    yield (
        f"Weights are the elements of {weights}: each meets (is multiplied by) those of {small}, the small operand, "
        "at its k"
    )
    yield (
        f"Reads   each weight once, to a register, {work.global_bytes:g} bytes of a block under way at once; "
        f"{intensity:.3g} FLOP for a byte of global memory"
    )
    if work.repeated_bytes:
        yield "Cached  what the weights meet, which every warp reads again: L1 serves most of it"
    if memory_bound(intensity, plan.problem.types.accumulator):
        yield "Bound   global memory: too few FLOP for a byte, on any known card"
    else:
        yield "Bound   global memory on a card that can compute more than that for each byte, else FFMA issue"


SHARED = "Shared memory"
READ_WIDTH = Derived("RX", "VW * (VW < 4) + 4 * (VW >= 4)", "numbers of an access to shared memory", group=SHARED)
STAGE_UNROLL = 8  # loads of a thread under way at once while it stages a chunk


def weight_width(problem: Problem, config: SkinnyConfig) -> int:
    """Elements of an access to the weights: the alignment of their lines caps VEC, and so does T across lines."""
    _, w = roles(problem)
    width = gcd(config.VEC * WORD // problem.dtype_of(w.X).size, problem.vector_limit(w.ld))
    return width if w.along_k else gcd(width, config.T)


def small_width(problem: Problem, config: SkinnyConfig) -> int:
    """Elements of a thread's access to the small operand in global memory: along its lines, as far as the step goes."""
    x, w = roles(problem)
    limit = problem.vector_limit(x.ld)
    if not x.along_k:
        return gcd(config.VEC * WORD // problem.dtype_of(x.X).size, config.S, limit)
    return gcd(weight_width(problem, config), limit) if w.along_k else 1


SKINNY = Skinny()
