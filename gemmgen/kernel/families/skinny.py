"""`skinny`: products in which M or N is small, so that reading the other operand once bounds the time.

The operand with few lines is the small one (A where M is small, B where N is); the other one holds the weights. Each
weight goes from global memory straight to a register and is used S times there; the small operand passes through
shared memory, BK of its depths at a time, or with BK = 0 goes straight to registers as well, by way of L1.

    weights with lines along k     a lane has VEC of the depths of each of its warp's T lines; shuffles add the lanes up
    weights with lines across C    a lane has T weights of a line that LANES lanes share; other lanes and warps of the
                                   block have other depths, and shuffles add the lanes up

Elements that are narrower than the sums stay packed in the registers of their loads until they are used. With ASYNC
weights under way are copies to shared memory, where each thread has a ring of its own, so that they cost no registers
and the compiler waits for none before its time; bytes that lie four of neighbouring k in a register are multiplied and
summed at once.

Either way SPLIT blocks can share a tile of C, so that the grid fills the card where the long side alone does not. Fewer
LANES do the same by narrower tiles, with nothing to add up between blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, gcd
from types import MappingProxyType
from typing import cast

from gemmgen.kernel.analysis import traffic
from gemmgen.kernel.config import Config, Derived
from gemmgen.kernel.families.base import (
    Family,
    Side,
    constants,
    elements_of,
    launch_of,
    sizes_of,
    tile_grid,
)
from gemmgen.kernel.families.skinny_axes import CONSTRAINTS, MOST_SMALL, PRUNING, SkinnyConfig
from gemmgen.kernel.families.skinny_operands import dots, roles, small_width, unpacking, weight_width
from gemmgen.kernel.notes import block, memory_bound, shared_tiles
from gemmgen.kernel.plan import Plan, Tile, Work
from gemmgen.problem.device import WARP
from gemmgen.problem.dtype import WORD, DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import Size

SHARED = "Shared memory"
READ_WIDTH = Derived("RX", "VW * (VW < 4) + 4 * (VW >= 4)", "numbers of an access to shared memory", group=SHARED)
STAGE_UNROLL = 8  # loads of a thread under way at once while it stages a chunk
BANK_BYTES = 128  # that shared memory reads or writes a cycle
SUBWORDS = ((2, "unsigned short"), (1, "unsigned char"))  # vectors that fill no register: bytes, and what holds them


@dataclass(frozen=True)
class SkinnyView:
    """What the templates of `skinny` need beside the constants.

    x, w           the small operand, and the weights
    along_k        lines of the weights run along k
    grouped        a warp's lanes form groups, each at a depth of its own
    stores         vectors are stored to shared memory
    stream, small  templates: how threads share the weights, and how the small operand comes to them
    direct         the small operand goes straight to registers
    stage_unroll   loads of a thread under way at once while it stages a chunk
    x_edge, w_edge  a tile may cross an edge of C along the lines of x, or of the weights
    partial, partial_x  the end of a line of the weights, or of x, can cut an access

    of kernels that convert:
    packed       types whose elements are taken out of registers
    subwords     (bytes, type) of vectors that fill no register
    sum_vectors  vectors of sums pass through shared memory
    whole_steps  K ends where a lane's neighbouring k do
    ring         weights pass through shared memory
    dots         four products of bytes are summed at once
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
    partial_x: bool
    packed: tuple[DType, ...]
    subwords: tuple[tuple[int, str], ...]
    sum_vectors: bool
    whole_steps: bool
    dots: bool
    ring: bool


class Skinny(Family):
    """The family record: see `gemmgen.kernel.families.base.Family`."""

    name = "skinny"
    config_type = SkinnyConfig
    constraints = CONSTRAINTS
    pruning = PRUNING
    secondary = frozenset({"WARPS", "BK", "UNROLL", "DEPTH", "SPLIT"})
    small = MappingProxyType({"S": 4, "T": 4, "WARPS": 2, "BK": 32, "UNROLL": 2})

    def default(self, problem: Problem) -> Config:
        _, w = roles(problem)
        if not problem.types.uniform:
            return _converting(problem, self.facts(problem)["SMALL"])
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
        uniform = problem.types.uniform
        width, elements = weight_width(problem, skinny), elements_of(problem)
        sums = f"{problem.types.accumulator.ctype}s"  # the type of the shared array
        deep = "" if uniform else "DEPTH * "  # uniform kernels take one k at a time
        step = "32 * VW" if w.along_k else f"{deep}WARPS * GROUPS"
        ring = " + RING_FLOATS" if skinny.ASYNC else ""
        # As compiled: of a ring in shared memory the steps that the compiler takes early, and of elements that are
        # converted both those under way and those that are taken out.
        converts = not (uniform or dots(problem, skinny))
        held = "3 * (UNROLL >= 3) + 2 * (UNROLL == 2)" if skinny.ASYNC else "UNROLL + 1" if converts else "UNROLL"
        loads = "T" if w.along_k else f"{deep}T / VW"
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
            Derived("LOADS", loads, "accesses of a thread a step", group="Weights"),
            Derived("GROUPS", "32 / LANES", "groups of a warp's lanes, each at a k of its own", group="Weights"),
            Derived("STEP", step, "k that a block takes in a step", group="Weights"),
            Derived(
                "LANE_WORDS",
                "VW" if w.along_k else "1" if uniform else "DEPTH",
                "of these a lane's",
                group="Weights",
            ),
            Derived(
                "XW",
                str(small_width(problem, skinny)),
                f"{elements} of an access to the small operand",
                group="Weights",
            ),
            Derived("HELD", held, "steps whose weights registers hold at once", group="Weights"),
            *(() if uniform else (READ_WIDTH,)),
            *(ring_of(problem.dtype_of(w.X), sums) if skinny.ASYNC else ()),
            Derived("FX", str(gcd(4, skinny.S)), f"{sums} of a read of the small operand", group=SHARED),
            Derived(
                "PITCH",
                pitch,
                f"{'elements' if dots(problem, skinny) else sums} from one line of a chunk to the next",
                group=SHARED,
            ),
            Derived("SUMS_PITCH", f"B{w.MN} + 4", f"{sums} from one line of sums to the next", group=SHARED),
            Derived(
                "PARTIALS",
                "1" if w.along_k else "WARPS",
                "sums of each element of C that meet in shared memory",
                group=SHARED,
            ),
            Derived(
                "CHUNK_FLOATS",
                f"{lines} * PITCH{' / 4' if dots(problem, skinny) else ''}",
                f"{sums} of a chunk of the small operand",
                group=SHARED,
            ),
            Derived(
                "SUMS_FLOATS",
                "PARTIALS * S * SUMS_PITCH",
                f"{sums} of the sums at the end" if direct else f"{sums} of the sums that replace it at the end",
                group=SHARED,
            ),
            Derived(
                "SHARED_FLOATS",
                "SUMS_FLOATS" + ring
                if direct
                else "CHUNK_FLOATS * (CHUNK_FLOATS >= SUMS_FLOATS) + SUMS_FLOATS * (SUMS_FLOATS > CHUNK_FLOATS)" + ring,
                f"{sums} of shared memory" if direct else f"{sums} of shared memory, for one and then the other",
                group=f"{SHARED}, in all",
            ),
            Derived("SHARED_BYTES", "4 * SHARED_FLOATS + 16 * (SPLIT > 1)", "shared memory a block, in bytes"),
        )

    def plan(self, problem: Problem, config: Config) -> Plan:
        skinny, value = cast(SkinnyConfig, config), constants(self, problem, config)
        x, w = roles(problem)
        unrolled = skinny.UNROLL * value["STEP"]  # k of an iteration of the main loop
        direct = skinny.BK == 0
        staged = 0 if direct else skinny.S * unrolled  # elements
        conflicts = 1 if w.along_k == x.along_k else 4
        dot = dots(problem, skinny)
        # A thread's accesses to the small operand a step, each of so many elements, and of so many words.
        along_k = value["VW"] if problem.types.uniform or dot else value["RX"] if w.along_k else 1
        elements = value["XW"] if direct else along_k if w.along_k else value["FX"]
        words = ceil(elements * (value["X_BYTES"] if direct or dot else WORD) / WORD)
        accesses = skinny.S * value["LANE_WORDS"] // elements
        # Through L1 or shared memory, 32 words a cycle: for each lane, in a line of each lane's own, or for each group.
        apart = direct and w.along_k and not x.along_k
        cycles = WARP if apart else words if w.along_k else max(1, words * value["GROUPS"] / WARP)
        reads = 0 if direct else accesses / value["STEP"]
        staging = 1 if problem.types.uniform else value["XW"]  # elements of a load that stages a chunk
        rounds = ceil(skinny.S * skinny.BK / (value["THREADS"] * STAGE_UNROLL * staging))
        weights = value["W_BYTES"] * value[f"B{w.MN}"] * unrolled  # bytes
        ring = weights if skinny.ASYNC else 0
        taken = 0 if dot else skinny.T * unpacking(problem, w) + skinny.S * unpacking(problem, x) * direct
        work = Work(
            outputs=skinny.S * skinny.T,
            depth=unrolled,
            shared_reads=reads,
            read_bytes=WORD * reads * words,
            wavefronts=accesses / value["STEP"] * cycles,
            copies=skinny.UNROLL * (value["LOADS"] * (1 + skinny.ASYNC) + accesses * direct)
            + (1 + 1 / staging) * staged / value["THREADS"],
            copy_wavefronts=staged / WARP * conflicts + 2 * ring / BANK_BYTES,
            global_bytes=weights + value["X_BYTES"] * skinny.S * unrolled,
            repeated_bytes=value["X_BYTES"] * skinny.S * unrolled * direct,
            prefetch=1,
            waits=0 if direct else rounds * unrolled / skinny.BK,
            staged_registers=value["HELD"]
            * value["LANE_WORDS"]
            * (value["W_BYTES"] * skinny.T + value["X_BYTES"] * skinny.S * direct)
            / WORD,
            k_slices=WARP if w.along_k else value["STEP"] // value["LANE_WORDS"],
            products=4 if dot else 1,
            line_bytes=value["W_BYTES"] * (WARP * value["VW"] if w.along_k else value[f"B{w.MN}"]),
            conversions=taken * value["LANE_WORDS"] / value["STEP"],
            k_tile=skinny.BK,
            other_registers=20,
        )
        tile, launch = (value["BM"], value["BN"]), launch_of(value, tile_grid(problem, value), splits=skinny.SPLIT)
        return Plan(problem, config, self, value, tile, value["SHARED_BYTES"], work, launch)

    def template(self, config: Config) -> str:
        return "kernel/skinny.cu"

    def unused(self, plan: Plan) -> frozenset[str]:
        skinny = cast(SkinnyConfig, plan.config)
        _, w = roles(plan.problem)
        names = {"VEC", "SHARED_BYTES", "ASYNC", "HELD"}
        uniform, direct = plan.problem.types.uniform, skinny.BK == 0
        if direct or dots(plan.problem, skinny) if w.along_k else skinny.LANES < WARP:
            names |= {"RX"}
        names |= {"BK", "PITCH", "CHUNK_FLOATS"} if direct else {"LANE_WORDS"}
        if uniform and not direct:
            names |= {"XW"}
        if w.along_k:
            names |= {"FX", "LANES", "GROUPS"}
        if w.along_k or uniform:
            names |= {"DEPTH"}
        elif direct:
            names |= {"FX"}
        if skinny.SPLIT == 1:
            names.add("SPLIT")
        if plan.launch.shared_bytes:
            names |= {"SHARED_FLOATS", "CHUNK_FLOATS", "SUMS_FLOATS"}
        return frozenset(names)

    def view(self, plan: Plan) -> SkinnyView:
        skinny = cast(SkinnyConfig, plan.config)
        x, w = roles(plan.problem)
        value, types = plan.constants, plan.problem.types
        dot = dots(plan.problem, skinny)
        scattered = dot and skinny.BK > 0 and not x.along_k  # elements of x, in a chunk
        taken = [x, *([] if dot else [w])] if not dot or scattered else []
        widths = {value["VW"] * value["W_BYTES"], value["XW"] * value["X_BYTES"]}
        return SkinnyView(
            x=x,
            w=w,
            along_k=w.along_k,
            grouped=skinny.LANES < WARP,
            stores=not w.along_k and skinny.LANES == WARP,
            stream="stream/along_k.cu" if w.along_k else "stream/across.cu",
            small="small/staged.cu" if skinny.BK else "small/direct.cu",
            direct=skinny.BK == 0,
            stage_unroll=STAGE_UNROLL if types.uniform else STAGE_UNROLL // 2,
            x_edge=x.MN in plan.edges,
            w_edge=w.MN in plan.edges,
            partial=_cut(plan, w, value["VW"]),
            partial_x=_cut(plan, x, value["XW"]),
            packed=tuple(dict.fromkeys(plan.problem.dtype_of(role.X) for role in taken)),
            subwords=tuple((size, ctype) for size, ctype in SUBWORDS if size in widths),
            sum_vectors=(skinny.BK > 0 and not dot) or (not w.along_k and skinny.LANES == WARP),
            whole_steps=not _cut_at(plan.problem.k, value["LANE_WORDS"]),
            dots=dot,
            ring=skinny.ASYNC == 1,
        )

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        """Several threads sum the same elements, each over k of its own."""
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
    slices = work.k_slices
    yield (
        f"Thread  {work.outputs} elements of C, summed over one k in {slices}: {slices} threads share each element and "
        "add up at the end"
    )
    yield (f"Weights the elements of {weights}, each multiplied by those of {small}, the small operand, at the same k")
    way = "through its thread's ring in shared memory" if plan.constants["ASYNC"] else "to a register"
    yield (
        f"Reads   each weight once, {way}, with {work.global_bytes:g} bytes of a block in flight; "
        f"{intensity:.3g} FLOP for a byte of global memory"
    )
    if work.repeated_bytes:
        yield f"Cached  {small}, which every warp reads again: L1 serves most of it"
    if memory_bound(intensity, plan.problem.types.accumulator):
        yield "Bound   global memory: too few FLOP for a byte, on any known card"
    else:
        yield "Bound   global memory on a card that can compute more than that for each byte, else FFMA issue"


def _converting(problem: Problem, small: int) -> SkinnyConfig:
    """What converts well, by the model: `small` lines of the small operand (0: not known) straight to registers, while
    these have room, and as many blocks as an H200 has SMs, about."""
    _, w = roles(problem)
    lines = min((count for count in (1, 2, 4, 8) if count >= small > 0), default=8)
    if w.along_k:
        step = WARP * weight_width(problem, SkinnyConfig())
        config = SkinnyConfig(S=lines, BK=0 if lines <= 4 else 2 * step)
    elif lines <= 4:
        config = SkinnyConfig(S=lines, T=8, WARPS=8, BK=0, DEPTH=4)
    else:
        config = SkinnyConfig(S=lines, T=8, WARPS=8, BK=512, UNROLL=8)
    length, tile = problem.sizes[w.MN] or 0, config.T * (config.WARPS if w.along_k else WARP)
    most = min(128 * tile // max(1, length), (problem.k or 0) // 512)  # of blocks in a card, and parts of some depth
    return replace(config, SPLIT=max(split for split in (1, 2, 4, 8) if split <= max(1, most)))


def ring_of(dtype: DType, sums: str) -> tuple[Derived, ...]:
    """Constants of a ring of weights in shared memory, an array of `sums`."""
    return (
        Derived("W_BYTES", str(dtype.size), "bytes of an element of the weights", group=SHARED),
        Derived("RING_FLOATS", "UNROLL * LOADS * THREADS * VW * W_BYTES / 4", f"{sums} of the ring", group=SHARED),
    )


def _cut(plan: Plan, side: Side, width: int) -> bool:
    """Whether the end of a line of `side` can cut an access to so many elements."""
    return _cut_at(plan.problem.sizes["K" if side.along_k else side.MN], width)


def _cut_at(size: Size, width: int) -> bool:
    """Whether `size` may be no whole number of `width`."""
    return width > 1 and (size is None or size % width != 0)


SKINNY = Skinny()
