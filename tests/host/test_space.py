"""The space accounts for every config of the axes' product, and accepts exactly those that hold every rule."""

from __future__ import annotations

import itertools
import random
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.families import MMA, NAIVE, SEARCHED, SIMT, SKINNY, WGMMA, Config, Family
from gemmgen.families.base import constants, first_rejection
from gemmgen.families.simt import family as simt
from gemmgen.families.simt import operands as simt_operands
from gemmgen.families.skinny import constants as skinny_constants
from gemmgen.families.wgmma import axes as wgmma_axes
from gemmgen.families.wgmma import operands as wgmma_operands
from gemmgen.kernel.config import Constraint
from gemmgen.kernel.expression import evaluate
from gemmgen.problem.device import ARCHS, device_for
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.search.order import Ranked
from gemmgen.search.space import Space, explore

LAYOUTS = ("rr", "rc", "cr", "cc")


def problem(layout: str) -> Problem:
    return Problem(512, 256, 128, layout=Layout.parse(layout))


@cache
def space(layout: str, arch: str) -> Space:
    return explore(SIMT, problem(layout), device_for(ARCHS[arch]))


@cache
def accepted(layout: str, arch: str) -> frozenset[Config]:
    return frozenset(space(layout, arch).accepted)


def holds(family: Family, layout: str, arch: str, config: Config) -> bool:
    """Whether `config` holds every rule, by the plain way."""
    limits = ARCHS[arch].limits
    if first_rejection(family, problem(layout), config, limits) is not None:
        return False
    names = {**limits.names, **constants(family, problem(layout), config)}
    return all(evaluate(rule.expression, names) for rule in family.pruning)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts_add_up(layout: str, arch: str) -> None:
    found = space(layout, arch)
    counts = [count for _, count in found.rejected]
    assert len(found.accepted) + sum(counts) == found.total
    assert counts == sorted(counts, reverse=True)
    assert len(accepted(layout, arch)) == len(found.accepted) > 500
    assert {rule for rule, _ in found.rejected} <= {*SIMT.constraints, *SIMT.pruning}


@pytest.mark.parametrize(("layout", "arch"), [("rr", "sm_75"), ("rc", "sm_90")])
def test_what_is_accepted_holds_every_rule(layout: str, arch: str) -> None:
    assert [config for config in space(layout, arch).accepted[::7] if not holds(SIMT, layout, arch, config)] == []


@given(st.sampled_from(LAYOUTS), st.data())
def test_what_holds_every_rule_is_accepted(layout: str, data: st.DataObject) -> None:
    drawn = {axis.name: data.draw(st.sampled_from(axis.values), axis.name) for axis in SIMT.config_type.axes()}
    config = SIMT.config_type(**drawn)
    assert (config in accepted(layout, "sm_90")) == holds(SIMT, layout, "sm_90", config)


def test_a_small_space_by_brute_force() -> None:
    axes = NAIVE.config_type.axes()
    product = [NAIVE.config_type(*values) for values in itertools.product(*(axis.values for axis in axes))]
    found = explore(NAIVE, problem("rr"), device_for(ARCHS["sm_90"]))
    assert found.total == len(product) == 16
    assert list(found.accepted) == [config for config in product if holds(NAIVE, "rr", "sm_90", config)]
    assert [(rule.expression, count) for rule, count in found.rejected] == [("THREADS <= MAX_THREADS", 1)]


@pytest.mark.parametrize(
    ("family", "says", "made"),
    [
        (SKINNY, {"m": 8, "n": 4096, "k": 4096}, skinny_constants.derived),
        (SKINNY, {"m": None, "n": 5, "k": 515, "types": "bf16", "layout": "cc"}, skinny_constants.derived),
        (SKINNY, {"m": 4, "n": 4096, "k": 4096, "types": "s8,s8,s32", "layout": "rc"}, skinny_constants.derived),
        (SIMT, {"m": 500, "n": 4096, "k": 4096}, simt_operands.operands),
        (SIMT, {"m": 500, "n": 4096, "k": 4096}, simt.derived),
        (SIMT, {"m": None, "n": 72, "k": None, "types": "f64", "layout": "rc", "ld_align": 2}, simt_operands.operands),
        (SIMT, {"m": None, "n": 72, "k": None, "types": "f64", "layout": "rc", "ld_align": 2}, simt.derived),
        (WGMMA, {"m": 100, "n": 4096, "k": 4096, "types": "bf16", "layout": "rc"}, wgmma_operands.operands),
        (WGMMA, {"m": None, "n": 72, "k": None, "types": "f32_tf32", "layout": "rr"}, wgmma_operands.operands),
    ],
)
def test_what_configs_share_is_what_each_would_make(family: Family, says: dict[str, Any], made: Any) -> None:
    """Whatever the axes are: those that it says it asks about, and no others, tell."""
    one, axes, draw, sound = Problem(**says), family.config_type.axes(), random.Random(1), 0
    for _ in range(600):
        config = family.config_type(**{axis.name: draw.choice(axis.values) for axis in axes})
        with suppress(ZeroDivisionError):  # a block of less than one thread
            anew = made.__wrapped__(one, config)
            sound += 1
            assert made(one, config) == anew, config
    assert sound > 300


def test_old_cards_have_no_cp_async() -> None:
    assert not any(config.values["ASYNC"] for config in space("rr", "sm_75").accepted)
    assert any(config.values["ASYNC"] for config in space("rr", "sm_90").accepted)
    rule = Constraint("ASYNC <= HAS_CP_ASYNC", "cp.async needs sm_80 or newer")
    assert dict(space("rr", "sm_75").rejected)[rule] > 0
    assert rule not in dict(space("rr", "sm_90").rejected)


def test_the_rule_that_leaves_no_config_is_told_and_not_the_one_that_rejects_most() -> None:
    problem = Problem(512, 512, 512, types=Types.parse("e4m3,e4m3,bf16_promoted"), layout=Layout.parse("rc"))
    space = explore(MMA, problem, device_for(ARCHS["sm_80"]))
    assert not space.accepted and space.decisive is not None
    assert space.decisive.expression == "MMA_SINCE <= ARCH" != space.rejected[0][0].expression


FROM_AMPERE = frozenset({"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"})


@pytest.mark.parametrize(
    ("types", "archs"),
    [
        ("f64", {"sm_80", "sm_90"}),  # elsewhere tensor cores are no faster at it than CUDA cores
        ("f32_tf32", FROM_AMPERE),
        ("f32_bf16x6", {"sm_90"}),
        ("f16", {"sm_75", *FROM_AMPERE}),
        ("e4m3,e4m3,bf16_promoted", {"sm_89", "sm_90", "sm_120"}),
        ("s8,s8,s32", {"sm_75", *FROM_AMPERE}),
        pytest.param("bf16", FROM_AMPERE, marks=pytest.mark.soak),
        pytest.param("e4m3,e4m3,bf16_fast", {"sm_89", "sm_90", "sm_120"}, marks=pytest.mark.soak),
        pytest.param("u8,u8,s32", {"sm_75", *FROM_AMPERE}, marks=pytest.mark.soak),
    ],
)
def test_tensor_cores_multiply_what_the_architecture_has_instructions_for(types: str, archs: set[str]) -> None:
    """In the layout that every one of them takes: rows of A, columns of B."""
    problem = Problem(512, 512, 512, types=Types.parse(types), layout=Layout.parse("rc"))
    found = {
        name
        for name, arch in ARCHS.items()
        if any(explore(family, problem, device_for(arch)).accepted for family in (MMA, WGMMA))
    }
    assert found == archs


@pytest.mark.parametrize("types", ["f32", "bf16", "s8,s8,s32", "e4m3,e4m3,bf16_promoted"])
def test_plans_of_one_text_are_the_same_for_all_typical_sizes(types: str) -> None:
    """So what was planned for one of them is taken for the others."""
    device, drawn = device_for(ARCHS["sm_90"]), random.Random(0)
    for family in SEARCHED:
        said: dict[str, Any] = {"types": Types.parse(types), "layout": Layout.parse("rc"), "ld_align": 8}
        sizes = {"M": drawn.choice([1, 40, 3000]), "batch": 64}
        problem = Problem(None, 256, 512, batch=None, **said, typical=sizes)
        accepted = explore(family, problem, device).accepted
        for config in drawn.sample(accepted, min(40, len(accepted))):
            assert Ranked.of(problem, family, config, device).plan == family.plan(problem, config)
            other = replace(problem, typical={"M": 700, "batch": 3})
            assert Ranked.of(other, family, config, device).plan == family.plan(other, config)


@pytest.mark.parametrize(
    ("k", "across", "layout", "right"),
    [
        (240, 0, "cr", True),
        (200, 0, "cr", False),
        (200, 0, "rc", True),
        (200, 1, "cr", False),
        (200, 1, "rr", True),
    ],
)
def test_no_block_of_a_cluster_brings_a_part_behind_k_where_pointers_say(
    k: int, across: int, layout: str, right: bool
) -> None:
    """Of lines across K the second block of two brings those from 224 on, where K ends at 200."""
    given = Problem(128, 128, k, batch=4, pointers=True, types=Types.parse("bf16"), layout=Layout.parse(layout))
    values = {**WGMMA.small, "BN": 64, "CLUSTER": 2, "ACROSS": across}
    config = WGMMA.default(given).with_values(**values)
    found = first_rejection(WGMMA, given, config, ARCHS["sm_90"].limits)
    assert (found is None) == right, found
    assert right or wgmma_axes.OUTSIDE in str(found)
