"""`skinny`: products in which M or N is small, so that reading the other operand once bounds the time.

The operand with few lines is the small one (A where M is small, B where N is); the other one holds the weights. Each
weight goes from global memory straight to a register and is used S times there; the small operand passes through
shared memory, BK of its depths at a time, or with BK = 0 goes straight to registers as well, by way of L1.

    weights with lines along k     a lane has VEC of the depths of each of its warp's T lines; shuffles add the lanes up
    weights with lines across C    a lane has T weights of a line that LANES lanes share; other lanes and warps of the
                                   block have other depths, and shuffles add the lanes up

Elements that are narrower than the sums stay packed in the registers of their loads until they are used. With ASYNC,
weights in flight are copies to shared memory, where each thread has a ring of its own: they cost no registers, and the
compiler waits for none too early. If a register holds bytes of four neighbouring k, one instruction multiplies and sums
them.

Packed codes lie as tensor cores take them: a lane dequantises what it loads, and the warps of a block divide
K.

Either way SPLIT blocks can share a tile of C, so that the grid fills the card where the long side alone does not. Fewer
LANES do the same by narrower tiles, with nothing to add up between blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import cast

from gemmgen.families.base import Family, Side, constants, launch_of, sizes_of, tile_grid
from gemmgen.families.skinny.axes import CONSTRAINTS, MOST_SMALL, PRUNING, SkinnyConfig
from gemmgen.families.skinny.constants import derived
from gemmgen.families.skinny.cost import STAGE_UNROLL, cost_of, repeated_bytes, work_of
from gemmgen.families.skinny.operands import dots, roles, tensor_core, weight_width
from gemmgen.kernel.analysis import traffic
from gemmgen.kernel.config import Config, Derived
from gemmgen.kernel.notes import block, memory_bound, shared_tiles
from gemmgen.kernel.plan import Cost, Plan, Share, Tile
from gemmgen.kernel.prepare import Codes, Pack
from gemmgen.problem.device import WARP
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import Mma
from gemmgen.problem.sizes import Size
from gemmgen.problem.types import Compute
from gemmgen.support.words import plural

SUBWORDS = ((2, "unsigned short"), (1, "unsigned char"))  # vectors that fill no register: bytes, and what holds them


class SkinnyView:
    """What the templates of `skinny` need of a plan beside its constants."""

    def __init__(self, plan: Plan) -> None:
        skinny, value, problem = cast(SkinnyConfig, plan.config), plan.constants, plan.problem
        self.x, self.w = x, w = roles(problem)  # the small operand, and the weights
        self.along_k = w.along_k  # lines of the weights run along k
        self.mma = plan.mma if isinstance(plan.mma, Mma) else None  # the tensor-core instruction; None: FMAs
        self.codes = Codes.of(problem, fused=True)  # of packed weights
        # All warps have the same number of rounds of UNROLL steps.
        self.whole_rounds = problem.k is not None and problem.k % (skinny.SPLIT * skinny.UNROLL * value["STEP"]) == 0
        self.direct = skinny.BK == 0  # the small operand goes straight to registers
        self.ring = skinny.ASYNC == 1  # weights pass through shared memory
        self.dots = dots(problem, skinny)  # four products of bytes are summed at once
        self.stores = not w.along_k and skinny.LANES == WARP  # vectors are stored to shared memory
        # Vectors of sums pass through shared memory.
        self.sum_vectors = (skinny.BK > 0 and not self.dots) or self.stores
        # Loads of a thread under way at once while it stages a chunk.
        self.stage_unroll = STAGE_UNROLL if problem.types.uniform else STAGE_UNROLL // 2
        self.chunk_steps = skinny.BK // (skinny.UNROLL * value["STEP"])  # times that the loop over a chunk's steps runs
        self.k_ends = ("K",) if _k_edge(plan, skinny) else ()  # K if it may end within what a block reads of x at once
        # Sizes at which reads of x, or of the weights' lines, may pass the end.
        self.x_ends = (*self.k_ends, *((x.MN,) if x.MN in plan.edges else ()))
        self.w_ends = (w.MN,) if w.MN in plan.edges else ()
        self.load_edge = not self.ring or bool(self.x_ends)  # an access to registers may lie outside, in part or whole
        self.partial = _cut(plan, w, value["VW"])  # the end of a line of the weights can cut an access
        self.x_cut = _x_cut(plan, x)  # the size whose end can cut an access to x, K or M or N; empty: none can
        # How the kernel calls the last k that a lane's access may reach: the step's, where K ends with steps.
        self.last_k = "depth" if _cut_at(problem.k, value["LANE_K"]) else "k"
        scattered = self.dots and skinny.BK > 0 and not x.along_k  # elements of x, in a chunk
        taken = [] if skinny.MMA or (self.dots and not scattered) else [x] if self.dots else [x, w]
        # Types whose elements are taken out of registers.
        self.packed = tuple(dict.fromkeys(problem.dtype_of(role.X) for role in taken))
        widths = {value["VW"] * value["W_BYTES"], value["XW"] * value["X_BYTES"]}
        # (bytes, type) of vectors that fill no register.
        self.subwords = tuple((size, ctype) for size, ctype in SUBWORDS if size in widths)
        # Templates: how threads share the weights, and store the sums of weights whose lines run across C;
        uniform, way = problem.types.uniform, "direct" if self.direct else "staged"
        lines = "codes" if self.codes else "along_k" if w.along_k else "across"
        self.stream = f"skinny/stream/{lines}{_products(skinny, self.dots, uniform)}.cu"
        self.sums = f"skinny/stream/{'groups' if skinny.LANES < WARP else 'warps'}.cu"
        # what the weights pass through; how the small operand comes to them, and where it ends;
        self.weights = f"skinny/weights/{'ring' if self.ring else 'registers'}.cu"
        small = "codes_fragment" if self.codes else _small(skinny, way, self.dots and not scattered, uniform)
        self.small = f"skinny/small/{small}.cu"
        self.guard = f"skinny/edge/{'checked' if self.x_ends else 'none'}.cu"
        # the loop, and how C is stored.
        self.mainloop = f"skinny/mainloop/{way}{'_codes' if self.codes else '_ring' if self.ring else ''}.cu"
        self.store = f"skinny/store/{'linear' if problem.epilogue.is_linear else 'tree'}.cu"


class Skinny(Family):
    """The family record: see `gemmgen.families.base.Family`."""

    name = "skinny"
    config_type = SkinnyConfig
    constraints = CONSTRAINTS
    pruning = PRUNING
    secondary = frozenset({"WARPS", "BK", "UNROLL", "DEPTH", "SPLIT"})
    details = ("PDL",)
    scaled_inputs = True
    small = MappingProxyType({"S": 4, "T": 4, "WARPS": 2, "BK": 32, "UNROLL": 2})

    def default(self, problem: Problem) -> Config:
        _, w = roles(problem)
        if problem.coded:
            return SkinnyConfig(S=8, T=16, WARPS=8, BK=0, UNROLL=4, MMA=1)
        if not problem.types.uniform:
            return _converting(problem, self.facts(problem)["SMALL"])
        step = WARP * weight_width(problem, SkinnyConfig()) if w.along_k else 1  # depths of a block's
        return SkinnyConfig(BK=max(SkinnyConfig.BK, SkinnyConfig.UNROLL * step))

    def facts(self, problem: Problem) -> dict[str, int]:
        small = min(size for size in (problem.m, problem.n, MOST_SMALL + 1) if size is not None)
        known = problem.m is not None or problem.n is not None
        x, w = roles(problem)
        sizes = {"X_BYTES": problem.dtype_of(x.X).size, "W_BYTES": problem.dtype_of(w.X).size}
        codes = Codes.of(problem)
        return {
            **sizes_of(problem),
            **sizes,
            "CODES_K": 1 if codes is None else codes.span,
            "CODES_CHUNK": 1 if codes is None else codes.depth,
            "PROMOTED": int(problem.types.compute is Compute.PROMOTED),
            "SMALL": small if known else 0,
            "ALONG_K": int(w.along_k),
            "X_ALONG_K": int(x.along_k),
            "MMA_SINCE": tensor_core(problem.types).since,
        }

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        return derived(problem, cast(SkinnyConfig, config))

    def plan(self, problem: Problem, config: Config) -> Plan:
        skinny, value = cast(SkinnyConfig, config), constants(self, problem, config)
        tile, before = (value["BM"], value["BN"]), (Pack("B"),) if problem.coded else ()
        launch = launch_of(value, tile_grid(problem, value), splits=skinny.SPLIT, prepares=before)
        mma = tensor_core(problem.types).mma if skinny.MMA else None
        work = work_of(problem, skinny, value, mma)
        return Plan(problem, config, self, value, tile, value["SHARED_BYTES"], work, launch, mma)

    def cost(self, plan: Plan, share: Share) -> Cost:
        return cost_of(plan, share)

    def template(self, config: Config) -> str:
        return "skinny/skinny.cu"

    def declares(self, plan: Plan) -> tuple[Derived, ...]:
        lines, skinny = super().declares(plan), cast(SkinnyConfig, plan.config)
        if not skinny.MMA or not roles(plan.problem)[1].along_k:
            return lines
        meaning = "elements along C's long side that a warp sums"
        return tuple(replace(line, meaning=meaning) if line.name == "T" else line for line in lines)

    def unused(self, plan: Plan) -> frozenset[str]:
        skinny = cast(SkinnyConfig, plan.config)
        _, w = roles(plan.problem)
        names = {"VEC", "SHARED_BYTES", "ASYNC", "HELD", "MMA", "LANE_LINES", "SUMS", "PDL"}
        uniform, direct = plan.problem.types.uniform, skinny.BK == 0
        if direct or dots(plan.problem, skinny) if w.along_k else skinny.LANES < WARP:
            names |= {"RX"}
        names |= {"BK", "PITCH", "CHUNK_WORDS"} if direct else {"LANE_K"}
        if uniform and not direct:
            names |= {"XW"}
        if w.along_k:
            names |= {"FX", "LANES", "GROUPS"}
        names |= {"FX", "RX"} if skinny.MMA else set()
        if w.along_k or uniform:
            names |= {"DEPTH"}
        elif direct:
            names |= {"FX"}
        if skinny.SPLIT == 1:
            names.add("SPLIT")
        if plan.launch.shared_bytes:
            names |= {"SHARED_WORDS", "CHUNK_WORDS", "SUMS_WORDS"}
        return frozenset(names)

    def view(self, plan: Plan) -> SkinnyView:
        return SkinnyView(plan)

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        """The level of tiling in which several threads, or warps, sum the same elements, each over its own k."""
        skinny = cast(SkinnyConfig, plan.config)
        if skinny.MMA:
            return (Tile("warp", *plan.tile, skinny.WARPS),)
        rows, cols = (skinny.S, skinny.T) if roles(plan.problem)[0].mn == "m" else (skinny.T, skinny.S)
        return (Tile("thread", rows, cols, plan.launch.threads),)

    def prose(self, plan: Plan) -> tuple[str, ...]:
        return (
            f"{block(plan)}, {plan.shared_bytes} bytes of shared memory",
            *_streaming(plan),
            *shared_tiles(plan.launch),
        )


def _streaming(plan: Plan) -> Iterator[str]:
    """Header lines on how the weights travel, and what bounds the kernel."""
    work, intensity = plan.work, traffic(plan).intensity
    small, weights = (role.X for role in roles(plan.problem))
    slices, mma = work.k_slices, plan.constants["MMA"] == 1
    unit = "warps" if mma else "threads"
    whole = "K" if plan.launch.splits == 1 else "the block's part of K"
    sharing = f"over 1/{slices} of {whole}: the sums of {slices} {unit} are added up at the end"
    if mma:
        yield f"Warp    {plan.tile[0]} x {plan.tile[1]} of C on tensor cores, {sharing}"
    else:
        yield f"Thread  {plural(work.outputs, 'element')} of C, {sharing}"
    yield (f"Weights the elements of {weights}, each multiplied by those of {small}, the small operand, at the same k")
    way = "through its thread's ring in shared memory" if plan.constants["ASYNC"] else "to a register"
    yield (
        f"Reads   each weight once, {way}, with {work.global_bytes:g} bytes of a block in flight; "
        f"{intensity:.3g} FLOP for a byte of global memory"
    )
    if repeated_bytes(plan):
        yield f"Cached  {small}, which every warp reads again: L1 serves most of it"
    if mma or memory_bound(intensity, plan.problem.types.accumulator):
        yield "Bound   global memory: too few FLOP for each byte, on every known card"
    else:
        issue = f"{plan.instruction} issue"
        yield f"Bound   global memory on a card that can compute more than that for each byte, else {issue}"


def _converting(problem: Problem, small: int) -> SkinnyConfig:
    """A config for elements that are converted, by the model. The `small` lines of the small operand (0: unknown) go
    straight to registers while these have room; there are about as many blocks as an H200 has SMs."""
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


def _products(config: SkinnyConfig, dots: bool, uniform: bool) -> str:
    """How the name of the template goes on that multiplies."""
    return "_mma" if config.MMA else "_dots" if dots else "" if uniform else "_packed"


def _small(config: SkinnyConfig, way: str, bytes_: bool, uniform: bool) -> str:
    """The name of the template that brings the small operand, `bytes_`: as bytes that stay as they are."""
    if config.MMA:
        return "fragment"
    return way if uniform else "staged_bytes" if bytes_ and config.BK else f"{way}_packed"


def _cut(plan: Plan, side: Side, width: int) -> bool:
    """Whether the end of a line of `side` can cut an access to `width` elements."""
    return _cut_at(plan.problem.sizes["K" if side.along_k else side.MN], width)


def _x_cut(plan: Plan, x: Side) -> str:
    """The size whose end can cut an access to x; any edge of C counts as able to."""
    if x.along_k:
        return "K" if _cut(plan, x, plan.constants["XW"]) else ""
    return x.MN if x.MN in plan.edges else ""


def _k_edge(plan: Plan, config: SkinnyConfig) -> bool:
    """Whether K, or a block's part of it, may end within what the block reads of the small operand at once: a chunk, or
    the steps between two of the loop's tests. Loads to registers may run past the end."""
    k, step = plan.problem.k, config.SPLIT * plan.constants["STEP"]
    at_once = config.BK or config.ASYNC * config.UNROLL * plan.constants["STEP"]
    if k is None or at_once == 0:
        return True
    part = -(-k // step) * plan.constants["STEP"] if config.SPLIT > 1 else k
    return k % at_once != 0 or part % at_once != 0


def _cut_at(size: Size, width: int) -> bool:
    """Whether `size` may not be a multiple of `width`."""
    return width > 1 and (size is None or size % width != 0)


SKINNY = Skinny()
