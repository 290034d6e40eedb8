"""A config is lowered once: its plan answers what others ask of a kernel, and they agree with what is rendered."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from gemmgen.families import FAMILIES, SIMT, SKINNY, Family, plan_of
from gemmgen.kernel.model import representative
from gemmgen.kernel.plan import Plan
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.render.kernel_text import render, render_plan


def plans() -> list[Plan]:
    found = []
    for family in FAMILIES.values():
        for layout in ("rr", "rc", "cr", "cc"):
            problem = Problem(
                16,
                32,
                64,
                layout=Layout.parse(layout),
                batch=8 if family.small_batches else 1,
                types=next(iter(family.types), "f32"),
            )
            config = family.default(problem)
            found.append(family.plan(problem, config.with_values(**family.small)))
            found.append(family.plan(problem, config))
    sliced = {
        "BM": 32,
        "BN": 64,
        "BK": 32,
        "TM": 4,
        "TN": 4,
        "WM": 16,
        "WN": 32,
        "ASYNC": 1,
        "K_UNROLL": 4,
        "SLICES": 4,
    }
    square = Problem(512, 512, 512)
    found += [
        SIMT.plan(square, SIMT.default(square).with_values(**sliced)),
        SIMT.plan(square, SIMT.default(square).with_values(SPLIT=4)),
        SIMT.plan(square, SIMT.default(square).with_values(STREAM=132)),
        SIMT.plan(square, SIMT.default(square).with_values(OUTER=0, WM=0, WN=0)),
        SKINNY.plan(Problem(8, 4096, 512), SKINNY.default(square).with_values(SPLIT=2)),
    ]
    return found


PLANS = plans()


def names(plan: Plan) -> str:
    return f"{plan.family} {plan.problem} {plan.config}"


def passes(plan: Plan) -> int:
    """Times that a block goes along K, each time for other products of a batch."""
    return plan.config.values.get("BATCH_TILES", 1)


@pytest.mark.parametrize("plan", PLANS, ids=names)
def test_levels_of_tiling_nest_down_to_the_threads_of_a_block(plan: Plan) -> None:
    levels = plan.tiles
    assert levels[-1].unit == "thread"
    assert math.prod(level.count for level in levels) == plan.consumers * passes(plan)
    for above, level in pairwise(levels):
        assert above.rows % level.rows == 0 and above.cols % level.cols == 0


@pytest.mark.parametrize("plan", PLANS, ids=names)
def test_a_thread_does_its_part_of_the_blocks_products(plan: Plan) -> None:
    rows, cols = plan.tile
    together = plan.results // (rows * cols)  # products of a batch that a block computes at once
    assert plan.results == rows * cols * together
    fmas = plan.work.fmas * plan.consumers * plan.work.products
    assert fmas == plan.results, "for each k, one of each element"


@pytest.mark.parametrize("plan", PLANS, ids=names)
def test_the_launch_covers_c(plan: Plan) -> None:
    case = representative(plan.problem)
    rows, cols = plan.tile
    products = plan.results // (rows * cols) * passes(plan)
    assert plan.launch.tiles(case) == -(-case.m // rows) * -(-case.n // cols) * -(-case.batch // products)


@pytest.mark.parametrize("plan", PLANS, ids=names)
def test_what_is_rendered_is_what_the_plan_says(plan: Plan) -> None:
    source = render_plan(plan)
    assert (source.family, source.contract) == (plan.family, plan.contract)
    assert plan_of(source) == plan
    declared = [f"constexpr int {line.name} = {line.expression};" for line in plan.declares]
    text = " ".join(source.text.split())  # long lines are broken
    assert all(line in text for line in declared)
    assert all(f"// {line}" in source.text for line in plan.prose)
    assert all(f"static_assert({rule.expression}" in text for rule in plan.asserts)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_family_names_axes_of_its_own(family: Family) -> None:
    axes = {axis.name for axis in family.config_type.axes()}
    assert family.secondary | {*family.details} | family.small.keys() <= axes
    assert not family.secondary & {*family.details}


def test_the_plan_of_another_problem_is_another_plan() -> None:
    one, other = (SIMT.plan(problem, SIMT.default(problem)) for problem in (Problem(64, 64, 64), Problem(64, 64, 65)))
    assert one != other and one == SIMT.plan(one.problem, one.config)
    assert render(one.problem, SIMT, one.config) == render_plan(one)
