"""A config that cannot work is refused with the constraint, its numbers, its reason and the nearest way out."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gemmgen
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.exports.stated_contract import launch_is_wrong
from gemmgen.families import BATCHED, FAMILIES, MMA, NAIVE, SIMT, SKINNY, Config, Family, family_named, plan_of
from gemmgen.families.base import check, constants, first_rejection
from gemmgen.judge.explain import explain
from gemmgen.kernel.config import axes_of_record
from gemmgen.kernel.expression import names_in
from gemmgen.problem.device import ARCHS, Arch, device_named
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.render.kernel_text import render, render_plan
from gemmgen.render.rerender import edited_axes, is_rendered, never_of, rendered_or_none
from gemmgen.support.errors import InvalidInput

SQUARE = Problem(512, 512, 512)
LIMITS = ARCHS["sm_90"].limits
PROBLEMS = [Problem(512, 511, 510, layout=Layout.parse(text)) for text in ("rr", "rc", "cr", "cc")]


def message(family: Family, arch: str = "sm_90", **changes: int) -> str:
    with pytest.raises(InvalidInput) as caught:
        check(family, SQUARE, family.default(SQUARE).with_values(**changes), ARCHS[arch].limits)
    return str(caught.value)


def test_a_message_has_constraint_numbers_reason_and_both_neighbours() -> None:
    assert message(SIMT, BM=100) == (
        "BM % TM == 0 fails (BM % TM is 4; BM = 100, TM = 8): threads split a block's rows evenly. "
        "Nearest that would do: BM = 64 or 128"
    )


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"BK": 0}, ("BK = 0", "a tile holds at least one element")),
        ({"BM": -8}, ("BM >= 0 fails", "no parameter is negative")),
        ({"VEC": 3}, ("VEC = 3", "a power of two wide", "VEC = 2 or 4")),
        ({"WM": 0}, ("WM = 0, WN = 32", "WM = 64", "WN = 0")),
        ({"STAGES": 4}, ("ASYNC = 0, STAGES = 4", "STAGES = 2; ASYNC = 1")),
        ({"TB": 1}, ("B_ALONG_K = 0", "only a B with k contiguous can be transposed")),
        ({"ASYNC": 1, "STAGES": 4, "BM": 256, "BN": 256, "BK": 32}, ("SHARED_BYTES = 264192", "232448", "STAGES = 3")),
    ],
)
def test_messages(changes: dict[str, int], parts: tuple[str, ...]) -> None:
    text = message(SIMT, **changes)
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_family_is_the_same_object_in_every_process(family: Family) -> None:
    """And a plan, whose constants nobody can change, travels with it."""
    assert pickle.loads(pickle.dumps(family)) is family
    problem = Problem(64, 64, 64, types="bf16", layout="rc", batch=2 if family.small_batches else None)
    plan = family.plan(problem, family.default(problem))
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and again.author is family and again.constants == plan.constants


def test_limits_are_those_of_the_architecture() -> None:
    assert "cp.async needs sm_80 or newer. Nearest that would do: ASYNC = 0" in message(SIMT, "sm_75", ASYNC=1)
    check(SIMT, SQUARE, SIMT.default(SQUARE).with_values(ASYNC=1), LIMITS)
    assert "THREADS = 2048" in message(NAIVE, BM=32, BN=64)


@pytest.mark.parametrize(("types", "arch", "served"), [("bf16", "sm_80", True), ("s8,s8,s32", "sm_75", False)])
def test_tensor_cores_multiply_thin_operands_of_16_bits_alone(types: str, arch: str, served: bool) -> None:
    problem = Problem(16, 4096, 4096, types=types, layout="rc")
    config = SKINNY.default(problem).with_values(MMA=1, S=8, T=16, BK=0)
    rejection = first_rejection(SKINNY, problem, config, ARCHS[arch].limits)
    assert (rejection is None) == served


def test_tiles_of_b_stay_aligned_behind_those_of_a() -> None:
    problem = Problem(300, 300, 37)  # A's lines are odd: its tiles may be of any size
    odd = SIMT.default(problem).with_values(BM=33, TM=3, WM=0, WN=0, BK=40, TA=0, PAD=1, ASYNC=1, STAGES=3)
    rejection = first_rejection(SIMT, problem, odd, LIMITS)
    assert rejection is not None and "STAGES * SHARED_A % FN is 3" in str(rejection)
    assert first_rejection(SIMT, problem, odd.with_values(STAGES=4), LIMITS) is None


@pytest.mark.parametrize(
    ("k", "lda", "width"),
    [(None, None, 1), (64, 64, 4), (66, 68, 2), (67, 68, 1), (68, 70, 2)],
    ids=("any K", "whole vectors", "remainder of two", "remainder of one", "lines of two"),
)
def test_lines_along_k_stay_aligned_behind_its_remainder(k: int | None, lda: int | None, width: int) -> None:
    """All steps but the first start where K's remainder ends: a vector of lda's alignment alone would not do."""
    problem = Problem(64, 64, k, lda=lda, ld_align=4)
    config = SIMT.default(problem).with_values(BK=16, TA=0, ASYNC=1, K_UNROLL=4)
    assert constants(SIMT, problem, config)["VA"] == width


def test_a_team_copies_longer_pieces_of_what_is_transposed_alone() -> None:
    problem = Problem(512, 512, 512, layout=Layout.parse("rr"))
    config = SIMT.default(problem).with_values(BK=32, TA=1, PAD=4, ASYNC=1, STAGES=2)
    teams = [constants(SIMT, problem, config.with_values(COPY_THREADS=size)) for size in (0, 16, 32)]
    assert [value["A_LANES"] for value in teams] == [8, 16, 32] and len({value["B_LANES"] for value in teams}) == 1
    for changes in ({"TA": 0, "COPY_THREADS": 16}, {"ASYNC": 0, "COPY_THREADS": 16}, {"BK": 16, "COPY_THREADS": 32}):
        rejection = first_rejection(SIMT, problem, config.with_values(**changes), LIMITS)
        assert rejection is not None and "COPY_THREADS" in str(rejection)


def test_of_two_operands_along_k_one_at_most_has_vectors_along_k() -> None:
    problem = Problem(64, 64, 64, layout=Layout("r", "c"))
    ahead = SIMT.default(problem).with_values(BK=16, ASYNC=1, K_UNROLL=4)
    for transposed in ({"TA": 1, "TB": 1}, {"TA": 0, "TB": 1}, {"TA": 1, "TB": 0}):
        check(SIMT, problem, ahead.with_values(**transposed), LIMITS)
    with pytest.raises(InvalidInput, match="at an iteration's end, not both"):
        check(SIMT, problem, ahead.with_values(TA=0, TB=0), LIMITS)


def test_unknown_names_come_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'BX' is no parameter: known are OUTER, BM, BN"):
        SIMT.default(SQUARE).with_values(BX=1)
    with pytest.raises(InvalidInput, match="'umma': known are simt, skinny, batched, naive, threadtile"):
        family_named("umma")


@pytest.mark.parametrize("arch", ARCHS.values(), ids=lambda arch: arch.name)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("family", [SIMT, NAIVE], ids=lambda family: family.name)
@pytest.mark.parametrize("batch", [1, 7, None])
def test_defaults_are_sound_everywhere(family: Family, problem: Problem, arch: Arch, batch: int | None) -> None:
    batched = replace(problem, batch=batch)
    assert first_rejection(family, batched, family.default(batched), arch.limits) is None


@pytest.mark.parametrize("arch", ARCHS.values(), ids=lambda arch: arch.name)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 7, 9), (16, 16, 16), (17, 16, 31), (32, 32, 32), (64, 64, 48)], ids=str
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_defaults_of_batched_are_sound_for_what_it_serves(shape: tuple[int, ...], dtype: DType, arch: Arch) -> None:
    for layout in ("rr", "rc", "cr", "cc"):
        problem = Problem(*shape, dtype=dtype, layout=Layout.parse(layout), batch=None)
        assert first_rejection(BATCHED, problem, BATCHED.default(problem), arch.limits) is None


@pytest.mark.parametrize(
    ("problem", "because"),
    [
        (SQUARE, "it serves batches only"),
        (Problem(16, None, 16, batch=9), "sizes must be fixed"),
        (Problem(127, 127, 16, batch=9), "bounds the threads of a block"),
        (Problem(128, 128, 1024, batch=9), "bounds the shared memory of a block"),
    ],
    ids=str,
)
def test_batched_says_which_problems_it_does_not_serve(problem: Problem, because: str) -> None:
    rejection = first_rejection(BATCHED, problem, BATCHED.default(problem), LIMITS)
    assert rejection is not None and because in str(rejection)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_0_is_judged_beside_every_value_of_another_axis(family: Family) -> None:
    problem = Problem(512, 512, 512, types=family.types[0]) if family.types else Problem(512, 512, 512)
    config = family.default(problem) if family is not BATCHED else family.config_type()
    for axis, other in permutations(family.config_type.axes(), 2):
        for value in other.values:
            rejected = first_rejection(family, problem, config.with_values(**{axis.name: 0, other.name: value}), LIMITS)
            assert rejected is None or rejected.constraint.because in str(rejected)


@pytest.mark.parametrize(
    ("axis", "value", "words"),
    [
        ("TM", 0, "TM >= 1"),
        ("BM", 0, "BM >= 1"),
        ("WM", 10**7, "BM % WM == 0"),
        ("BN", 2**31 - 1, "4294967280 threads a block"),
    ],
)
def test_a_config_on_file_that_has_no_figures_is_refused_and_no_crash(axis: str, value: int, words: str) -> None:
    source = render(SQUARE, SIMT, SIMT.default(SQUARE))
    broken = replace(source, config={**source.config, axis: value})
    with pytest.raises(InvalidInput, match=words):
        explain(KernelFile(broken), "sm_90", device_named("H200"), None)


@pytest.mark.parametrize(("family", "axis"), [(MMA, "MMA_K"), (SIMT, "TM")])
def test_a_config_on_file_that_cannot_be_rendered_is_none_of_today(family: Family, axis: str) -> None:
    problem = Problem(512, 512, 512, types="bf16") if family is MMA else SQUARE
    source = render(problem, family, family.default(problem))
    broken = replace(source, config={**source.config, axis: 0})
    assert rendered_or_none(source) == source and rendered_or_none(broken) is None and never_of(broken) == ()


@given(st.sampled_from(PROBLEMS), st.data())
def test_whatever_is_asked_for_is_judged_and_not_a_crash(problem: Problem, data: st.DataObject) -> None:
    values = st.one_of(st.integers(-2, 9), st.sampled_from([16, 32, 64, 100, 128, 256, 2**31]))
    for family in FAMILIES.values():
        drawn = {axis.name: data.draw(values, axis.name) for axis in family.config_type.axes()}
        config = family.config_type(**drawn)
        rejection = first_rejection(family, problem, config, LIMITS)
        if rejection is None:
            value = constants(family, problem, config)
            assert 1 <= value["THREADS"] <= 1024
            assert value["SHARED_BYTES"] <= LIMITS.shared_bytes
        else:
            assert rejection.constraint.because in str(rejection)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_rules_read_only_names_that_exist(family: Family, problem: Problem) -> None:
    config = family.default(problem)
    known = constants(family, problem, config).keys() | LIMITS.names.keys() | {"SMS"}
    for rule in (*family.constraints, *family.pruning):
        assert names_in(rule.expression) <= known, rule.expression
    if first_rejection(family, problem, config, LIMITS) is None:
        assert family.unused(family.plan(problem, config)) <= known


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_every_axis_offers_its_default(family: Family) -> None:
    for axis in family.config_type.axes():
        assert axis.default in axis.values, axis.name
        assert len(set(axis.values)) == len(axis.values)
        assert axis.meaning


def test_a_config_reads_back_and_other_text_does_not() -> None:
    config = SIMT.default(SQUARE)
    assert SIMT.config_type.parse(str(config)) == config
    assert SIMT.config_type.parse(str(config) + "_x") is None
    assert NAIVE.config_type.parse("16x") is None
    assert NAIVE.config_type.parse(f"16x{2**31}") is None, "no int of CUDA's"
    assert isinstance(NAIVE.config_type.parse("16x8"), Config)


def test_records_of_old_are_read_by_todays_names() -> None:
    old = {"BM": 64, "AHEAD": 4, "LEAD": 2, "ORDER": 7, "TEAM": 16, "WALK": 8, "ATOMIC": 0}
    today = {"BM": 64, "K_UNROLL": 4, "HOIST": 2, "FMA_ORDER": 7, "COPY_THREADS": 16, "BATCH_TILES": 8}
    assert axes_of_record(old) == axes_of_record(today) == today
    with pytest.raises(InvalidInput, match="ATOMIC = 1: kernels have ATOMIC = 0 by now"):
        axes_of_record({"ATOMIC": 1})


def test_a_kernel_is_rendered_once_whoever_asks() -> None:
    """Not again where its coverage, its bits, its launch or a shorter K are looked at; an edited text neither."""
    source = gemmgen.generate(Problem(63, 95, 131), arch="sm_80")
    rendered = render_plan.cache_info().misses
    edited = replace(source, text=f"{source.text}// by hand\n")
    assert is_rendered(source) and not is_rendered(edited)
    assert never_of(source) == plan_of(source).never and never_of(edited) == ()
    assert not launch_is_wrong(source) and edited_axes(edited, ARCHS["sm_80"]) == {}
    assert render_plan.cache_info().misses == rendered
