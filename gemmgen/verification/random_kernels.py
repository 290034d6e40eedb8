"""Random kernels: hypothesis' strategy for family, config and problem, and steps towards simpler ones.

A walk through the space starts from a family's default config, changes a few axes at a time and keeps configs that the
constraints accept. That reaches every accepted point, and a family needs to provide nothing more for it.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import combinations
from typing import Any

from hypothesis import assume, reject
from hypothesis import strategies as st
from hypothesis.errors import HypothesisDeprecationWarning, Unsatisfiable

from gemmgen.families.base import ONE_PRODUCT, Family, broken_count, first_rejection, runs_on
from gemmgen.kernel.config import Axis, Config
from gemmgen.problem.device import Limits
from gemmgen.problem.epilogue import LINEAR, Epilogue, parse_epilogue
from gemmgen.problem.forms import CHOICES, GATED
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import PLAIN, Inputs
from gemmgen.problem.matrix import ORDERS, Layout
from gemmgen.problem.sizes import ALIGNS
from gemmgen.problem.types import Types
from gemmgen.render.naming import full_name
from gemmgen.support.errors import InvalidInput, require
from gemmgen.verification.strategies import for_each

LAYOUTS = tuple(f"{a}{b}" for a in ORDERS for b in ORDERS)
FIXED_SIZES = (1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 61, 64, 65, 67, 97, 128, 129, 160)
UNUSUAL = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)  # values that constraints may accept beside an axis' own
LINE_PADDINGS = (1, 3, 4, 7, 8)
SMALL_SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 40, 64)
BATCHES = (2, 3, 8, 17)
# Properties that are made plainer, in this order: a stride needs a batch, as pointers do, and a leading dimension its
# size.
SIMPLER = (
    *("ld_residual", "stride_residual", "epilogue", "pointer_align", "ld_align", "types", "layout", "pointers"),
    *("stride_c", "stride_b", "stride_a", "batch", "ldc", "ldb", "lda", "m", "n", "k"),
)
AREAS = (1024, 1024, 4096, 4096, 16384)  # elements of C a block, where it can be chosen: small blocks run fast
SHARED_BYTES = (8192, 8192, 16384, 65536)  # of a block, likewise: blocks that stage much run slowly
SCALED = 0.5  # share of a walk's changes that double or halve two axes
STEPS, REPAIRS = 200, 400  # of a walk, once it has met the schedule that it looks for, and at most until then
DRAWS_A_BATCH = 4  # of one schedule, some of them met before


@dataclass(frozen=True)
class RandomKernel:
    """A kernel that can be rendered."""

    problem: Problem
    family: Family
    config: Config

    @property
    def name(self) -> str:
        return full_name(self.problem, self.family, self.config)

    @property
    def schedule(self) -> str:
        return self.family.schedule(self.config)


@lru_cache(maxsize=16)
def schedules(family: Family) -> tuple[str, ...]:
    """The schedules that a family's axes can choose if one or two axes change at a time."""
    base = family.config_type()
    found = {family.schedule(base): None}
    for first, second in combinations(base.axes(), 2):
        for one in first.values:
            for other in second.values:
                changed = base.with_values(**{first.name: one, second.name: other})
                found.setdefault(family.schedule(changed))
    return tuple(found)


# The first one is what a failure shrinks to, and as often f32 or f64 as types that are converted.
CONVERTED = (
    *("bf16", "f16", "e4m3", "e5m2", "s8,s8,s32", "u8,s8,s32"),
    *("bf16,bf16,f32", "s8", "s8,u8,bf16", "bf16,s8,bf16", "e4m3,e5m2,f16", "f32,bf16,f32"),
)
ANY_TYPES = (*("f32", "f32", "f64") * (len(CONVERTED) // 3), *CONVERTED)
SOME_INPUTS = (
    *("scales=32", "scales=32+zeros", "scales=128+zeros", "scales=K+zeros"),
    *("groups=1", "groups=5", "gathered", "groups=3+gathered", "blocks", "blocks+lines"),
    *("scattered", "groups=5+scattered", "groups=3+gathered+scattered", "scales=32+zeros+scattered"),
    *("groups=1+masked", "groups=5+masked", "groups=1+along_k", "groups=5+along_k"),
    *("scales=32+zeros+groups=5", "groups=5+blocks"),
    *("im2col=5x6x3_3x2_p1x0x2x1_s2x1", "im2col=7x5x4_2x3_d2x2", "im2col=4x4x8_1x1_s2x2"),
    *("im2col=5x6x3_3x2_p1x0x2x1_s2x1+wgrad", "im2col=7x5x4_2x3_d2x2+wgrad"),
)
ANY_INPUTS = (*[PLAIN] * len(SOME_INPUTS), *map(Inputs.parse, SOME_INPUTS))
SCALED_TYPES = ("bf16,u4,f32", "f16,s4,f16", "f32,u4,f32", "bf16,u8,bf16", "f16,s8,e4m3")  # that B's scales go with,
# What is drawn for families that serve codes of B besides plain matrices;
CODES_INPUTS = (*[PLAIN] * 8, *map(Inputs.parse, ("scales=128+zeros", "scales=32", "scales=K+zeros")))
# for those that serve images, too (TMA takes all but the last, whose pixels have 4 channels);
IMAGES = (
    *map(Inputs.parse, ("im2col=5x6x16_3x2_p1x0x2x1_s2x1", "im2col=9x7x32_3x3_p1x1", "im2col=7x5x64_2x3_s1x3_d2x2")),
    *map(Inputs.parse, ("im2col=6x4x128_1x1_s2x2", "im2col=4x3x32_5x4_p2x3x4x1", "im2col=6x5x8_3x3_p1x1")),
)
IMAGE_INPUTS = (*CODES_INPUTS, *IMAGES, Inputs.parse("im2col=7x6x4_2x5_p1x2_s3x1_d1x2"))
# and for those that serve blocks, groups, and gathered and scattered rows as well.
GROUPED_INPUTS = (
    *CODES_INPUTS,
    *[PLAIN] * 4,
    *map(Inputs.parse, ("blocks", "blocks+lines+padded")),
    *map(Inputs.parse, ("groups=1", "groups=5", "groups=40", "scales=64+zeros+groups=5", "groups=5+blocks+padded")),
    *map(Inputs.parse, ("groups=4+masked", "groups=35+masked", "groups=1+along_k", "groups=6+along_k")),
    *map(Inputs.parse, ("gathered", "groups=5+gathered", "groups=40+gathered")),
    *map(Inputs.parse, ("scattered", "groups=5+scattered", "groups=5+gathered+scattered", "groups=5+blocks+scattered")),
    *IMAGES,
    *map(Inputs.parse, ("im2col=5x6x16_3x2_p1x0x2x1_s2x1+wgrad", "im2col=7x5x64_2x3_d2x2+wgrad")),
)
GROUPED_N = (8, 64, 72, 131, 200)
ACROSS_K_TYPES = ("bf16", "f16", "bf16,bf16,f32", "f16_f16acc")  # whose lines may run across K
CODES_TYPES = (
    "bf16,u4,bf16",
    "f16,s4,f16",
    "bf16,s4,f32",
    "bf16,u8,bf16",
    "f16,s8,f16",
    "bf16,u4,bf16_promoted",
    "f16,s4,f32_promoted",
)
CODES_N, CODES_K = (8, 64, 72, 128, 200), (16, 48, 128, 208, 256, 384)
PROMOTED_TYPES = ("e4m3,e4m3,bf16_promoted", "e4m3,e4m3,f32_promoted", "e5m2,e4m3,f16_promoted")
BLOCK_TYPES = ("e4m3,e4m3,bf16", "e4m3,e4m3,f32", "e4m3,e5m2,f16", "e4m3")  # and those of blocks
# Whose kernels' names read back; listed when one is drawn.
EPILOGUES = st.deferred(lambda: st.one_of(st.just(LINEAR), *(_epilogues(zeros) for zeros in (False, False, True))))
WITH_GATED = st.deferred(lambda: st.one_of(EPILOGUES, EPILOGUES, _gated()))  # for families that multiply several B


def _epilogues(zeros: bool) -> st.SearchStrategy[Epilogue]:
    """Random epilogues: at most one form of each kind; without `zeros` none sums an operand, which most families
    cannot."""
    kinds = [names for names in CHOICES if zeros or not names[0].startswith("zero")]
    chosen = st.tuples(*(st.sampled_from(("", *names)) for names in kinds))
    return chosen.map(lambda forms: "+".join(filter(None, forms))).filter(bool).map(parse_epilogue)


def _gated() -> st.SearchStrategy[Epilogue]:
    """Gated forms, and forms that may follow them; lstm writes aux itself. Then one of three products."""
    texts = [form + rest for form in GATED for rest in ("", "+residual", "+aux", "+row_amax")]
    texts = [*(text for text in texts if text != "lstm+aux"), "sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)"]
    return st.sampled_from(texts).map(parse_epilogue)


@st.composite
def problems(
    draw: st.DrawFn,
    small_batches: bool = False,
    of_types: Sequence[str] = ANY_TYPES,
    multiple: int = 1,
    epilogues: st.SearchStrategy[Epilogue] = EPILOGUES,
    inputs_of: Sequence[Inputs] = (PLAIN,),
) -> Problem:
    """Problems of every element type, layout and alignment; sizes and leading dimensions are fixed or left to run
    time.

    `small_batches`: small fixed sizes, multiples of `multiple`, and a batch.
    """
    layout = Layout.parse(draw(st.sampled_from(LAYOUTS)))
    small = [size for size in SMALL_SIZES if size % multiple == 0]
    sizes = st.sampled_from(small) if small_batches else st.one_of(st.none(), st.sampled_from(FIXED_SIZES))
    inputs = draw(st.sampled_from(inputs_of))
    turned = {"A": layout.a, "B": layout.b}.get(inputs.by_rows) == "c"
    inputs = PLAIN if turned and inputs_of is ANY_INPUTS else inputs
    m, n, k = (draw(sizes) for _ in range(3))
    if inputs.conv is not None:
        n, k = (inputs.conv.depth, k) if inputs.wgrad else (n, inputs.conv.depth)
    if inputs.coded and inputs_of is not ANY_INPUTS:
        n, k = draw(st.sampled_from(CODES_N)), draw(st.sampled_from(CODES_K))
    types = Types.parse(draw(st.sampled_from(_types_with(inputs, of_types, inputs_of is ANY_INPUTS))))
    least, ld_aligns = min(dtype.size for dtype in types.operands), list(ALIGNS)
    by_tma = inputs.ragged_groups + inputs.k_groups > 0 or inputs.gathered or inputs.conv is not None
    if (by_tma or inputs.coded) and inputs_of is not ANY_INPUTS:  # as wgmma and mma take them, by TMA or cp.async
        of_rows = "rc" if inputs.blocks else draw(st.sampled_from(("rc", "rc", "rr")))
        layout = Layout.parse("cr" if inputs.along_k or inputs.wgrad else of_rows)
        if not inputs.coded:
            n = n if inputs.wgrad else draw(st.sampled_from((None, *GROUPED_N)))
            k = k if inputs.conv else draw(st.sampled_from((None, *CODES_K)))
        least, ld_aligns = (max(ALIGNS), [max(ALIGNS)]) if by_tma else (4, ld_aligns)
    aligns = [align for align in reversed(ALIGNS) if align >= least]
    pointer_align, ld_align = draw(st.sampled_from(aligns)), draw(st.sampled_from(ld_aligns))
    problem = Problem(m, n, k, None, layout, pointer_align=pointer_align, ld_align=ld_align, types=types, inputs=inputs)
    if inputs.is_plain and (small_batches or draw(st.sampled_from((False, False, True)))):
        batch, pointers = draw(st.sampled_from((None, None, *BATCHES))), draw(st.sampled_from((False, False, True)))
        problem = replace(problem, batch=batch, pointers=pointers)
    fits = epilogues.filter(lambda one: not (problem.pointers and one.has_matrix))
    if not inputs.is_plain:
        scaled = inputs.coded or inputs.blocks
        fits = fits.filter(lambda one: one.products == 1 or (inputs.row_groups > 0 and not scaled))
        fits = fits.filter(lambda one: not one.sums and not one.outputs)
        fits = fits.filter(lambda one: not (inputs.along_k and one.reads_depth))
    problem = replace(problem, epilogue=draw(st.just(LINEAR) if types.scalar.is_integer else fits))
    lines: dict[str, Any] = {}
    for name in problem.line_sizes:
        length = problem.sizes[name]
        padded = [] if length is None else [length + padding for padding in LINE_PADDINGS]
        lines[name] = draw(st.sampled_from(("dense", "dense", None, *padded)))
    problem = replace(problem, **lines)
    return replace(problem, **draw(_strides(problem))) if problem.strides else problem


def _types_with(inputs: Inputs, of_types: Sequence[str], anywhere: bool) -> Sequence[str]:
    """The types that go with `inputs`, `anywhere` or in families that serve only a few of both."""
    if inputs.coded:
        return SCALED_TYPES if anywhere else CODES_TYPES
    if inputs.blocks:
        return BLOCK_TYPES if anywhere else PROMOTED_TYPES
    return ACROSS_K_TYPES if (inputs.along_k or inputs.wgrad) and not anywhere else of_types


@st.composite
def _strides(draw: st.DrawFn, problem: Problem) -> dict[str, Any]:
    """Strides that are dense, padded or left to run time; 0 for one matrix that all products share."""
    strides: dict[str, Any] = {}
    for name in (matrix.stride for matrix in problem.strides):
        dense = problem.sizes[name]
        padded = [] if dense is None else [dense + padding for padding in LINE_PADDINGS]
        shared = [] if name == "stride_c" else [0]
        strides[name] = draw(st.sampled_from(("dense", "dense", None, *shared, *padded)))
    return strides


@st.composite
def points(draw: st.DrawFn, family: Family, schedule: str, limits: Limits) -> RandomKernel:
    """Random kernels of `family` and `schedule` that `limits` accept."""
    epilogues = EPILOGUES if ONE_PRODUCT in family.constraints else WITH_GATED
    beside = IMAGE_INPUTS if family.image_inputs else CODES_INPUTS if family.scaled_inputs else (PLAIN,)
    inputs = ANY_INPUTS if family.any_inputs else GROUPED_INPUTS if family.grouped_inputs else beside
    drawn = problems(family.small_batches, family.types or ANY_TYPES, family.multiple, epilogues, inputs)
    problem = draw(drawn)
    assume(first_rejection(family, problem, family.default(problem), limits) is None)
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    start = _met(family, problem, limits, schedule, rng)
    if start is None:  # of types that are converted, say, and copies that convert nothing
        reject()
    return RandomKernel(problem, family, _walk(family, problem, limits, start, rng))


def draw_points(families: Sequence[Family], limits: Limits, seed: int) -> Iterator[RandomKernel]:
    """Yield points without end, never one twice, of all schedules in turn; the same seed gives the same points.

    A schedule of which `limits` accept no kernel is skipped. Raises InvalidInput if that holds for all of them.
    """
    met: set[str] = set()
    turns = [(family, schedule) for family in families for schedule in schedules(family)]
    seed *= 2**20
    while True:
        served = False
        for family, schedule in turns:
            drawn = _batch(points(family, schedule, limits), seed) if runs_on(family, limits) else []
            seed += 1
            served |= bool(drawn)
            for point in drawn:
                if point.name not in met:
                    met.add(point.name)
                    yield point
        require(served, f"no kernel of {', '.join(family.name for family in families)} is accepted on sm_{limits.arch}")


def simpler(point: RandomKernel, limits: Limits) -> Iterator[RandomKernel]:
    """Accepted points that are easier to read: plainer problems first, then smaller parameters."""
    for problem in _simpler_problems(point.problem):
        if first_rejection(point.family, problem, point.config, limits) is None:
            yield replace(point, problem=problem)
    for config in _simpler_configs(point.config):
        if first_rejection(point.family, point.problem, config, limits) is None:
            yield replace(point, config=config)


def _walk(family: Family, problem: Problem, limits: Limits, start: Config, rng: random.Random) -> Config:
    """A config with the schedule of `start`, some random steps away from it."""
    config, schedule = start, family.schedule(start)
    limit, sizes = (rng.choice(AREAS), rng.choice(SHARED_BYTES)), _sizes(family, problem, config)
    for _ in range(STEPS):
        proposal = _changed(config, rng)
        if family.schedule(proposal) != schedule or first_rejection(family, problem, proposal, limits):
            continue
        proposed = _sizes(family, problem, proposal)
        if all(new <= max(most, old) for new, old, most in zip(proposed, sizes, limit, strict=True)):
            config, sizes = proposal, proposed
    return config


def _met(family: Family, problem: Problem, limits: Limits, schedule: str, rng: random.Random) -> Config | None:
    """A valid config of `schedule`: walk from the default to that schedule, then to configs that break fewer
    constraints."""
    config = family.default(problem)
    broken = broken_count(family, problem, config, limits)
    for _ in range(REPAIRS):
        if broken == 0 and family.schedule(config) == schedule:
            return config
        proposal = _changed(config, rng)
        met, was_met = (family.schedule(one) == schedule for one in (proposal, config))
        breaks = broken_count(family, problem, proposal, limits)
        if met > was_met or (met == was_met and breaks <= broken):
            config, broken = proposal, breaks
    return None


def _changed(config: Config, rng: random.Random) -> Config:
    """`config` with other values of one to three axes; or two axes doubled or halved, as one may compensate the
    other."""
    if rng.random() < SCALED:
        scaled = rng.sample(config.amounts(), 2)
        values = {axis.name: _scaled(axis, getattr(config, axis.name), rng) for axis in scaled}
        return config.with_values(**values)
    axes = config.axes()
    chosen = rng.sample(axes, min(len(axes), rng.choice((1, 1, 2, 2, 3))))
    return config.with_values(**{axis.name: rng.choice(_values(axis)) for axis in chosen})


def _scaled(axis: Axis, value: int, rng: random.Random) -> int:
    """Twice or half of `value`, within the axis's range (kernels with too short steps run slowly); 0 stays."""
    if value == 0:
        return 0
    least, most = _range(axis)
    return max(least, min(most, rng.choice((value // 2, 2 * value))))


@cache
def _range(axis: Axis) -> tuple[int, int]:
    """The smallest nonzero value of an axis, and the largest."""
    return min(own for own in axis.values if own > 0), max(axis.values)


def _sizes(family: Family, problem: Problem, config: Config) -> tuple[int, int]:
    """(elements of C, bytes of shared memory) per block."""
    plan = family.plan(problem, config)
    return plan.tile[0] * plan.tile[1], plan.shared_bytes


@cache
def _values(axis: Axis) -> tuple[int, ...]:
    """An axis's own values and, unless it is a switch, further ones in their range: constraints decide."""
    if max(axis.values) <= 1:
        return axis.values
    return (*axis.values, *(value for value in UNUSUAL if value <= max(axis.values)))


def _batch(strategy: st.SearchStrategy[RandomKernel], seed: int) -> list[RandomKernel]:
    """A batch of drawn kernels; empty if hypothesis finds none."""
    drawn: list[RandomKernel] = []
    with suppress(Unsatisfiable), warnings.catch_warnings():
        # Other threads, as dask's, draw from Python's global random numbers. Hypothesis blames the strategy for that.
        warnings.simplefilter("ignore", HypothesisDeprecationWarning)
        for_each(strategy, drawn.append, examples=DRAWS_A_BATCH, seed=seed)
    return drawn


def _simpler_problems(problem: Problem) -> Iterator[Problem]:
    plain = Problem(None, None, None)
    if problem != plain:
        yield plain
    together = [("inputs", "types", "batch", "stride_a", "stride_b", "lda")] if problem.inputs != PLAIN else []
    alone = [name for name in SIMPLER if name != "batch" or not problem.inputs.own_c]  # which say it
    for names in (*together, *((name,) for name in alone)):
        if any(getattr(problem, name) != getattr(plain, name) for name in names):
            try:
                yield replace(problem, **{name: getattr(plain, name) for name in names})
            except InvalidInput:
                continue  # a leading dimension that is fixed needs its size fixed too


def _simpler_configs(config: Config) -> Iterator[Config]:
    axes = config.axes()
    for axis in axes:
        current = config.values[axis.name]
        for value in sorted({*_values(axis), 0}):
            if value < current:
                yield config.with_values(**{axis.name: value})
    for count in (2, 3):
        for chosen in combinations([axis.name for axis in axes if config.values[axis.name] > 1], count):
            yield config.with_values(**{name: config.values[name] // 2 for name in chosen})
