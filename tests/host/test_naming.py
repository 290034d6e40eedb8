"""Short names are valid everywhere, and no two kernels share one; full names read back without loss."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmgen.families import FAMILIES, NAIVE, SIMT, Config, Family
from gemmgen.families.naive.family import NaiveConfig
from gemmgen.kernel.source import CONFIG
from gemmgen.problem.device import ARCHS
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import LONGEST, full_name, parse_name, short_name
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.random_kernels import RandomKernel, points, schedules, simpler

LARGE = 10**9  # as many digits as SIZE_LIMIT, and a matrix of so many lines does not overflow
SIZES = st.one_of(st.none(), st.integers(1, 5000), st.just(LARGE))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    m, n, k = draw(SIZES), draw(SIZES), draw(SIZES)
    layout = Layout.parse(draw(st.sampled_from(["rr", "rc", "cr", "cc"])))
    dense = Problem(m, n, k, layout=layout).sizes

    def leading(name: str) -> int | str | None:
        line = dense[name]
        longer = [] if line is None else [line, min(line + 3, SIZE_LIMIT)]
        return draw(st.sampled_from(["dense", None, *longer]))

    known = map(Types.parse, ("f32", "f64", "bf16", "e4m3", "s8,s8,s32", "e4m3,e5m2,bf16", "u8"))
    computes = (Types.parse(one) for one in ("f32_tf32", "f32_bf16x6", "e4m3,e5m2,bf16_promoted"))
    types = draw(st.sampled_from([*known, *computes]))
    least = min(dtype.size for dtype in types.operands)
    problem = Problem(
        *(m, n, k),
        types=types,
        layout=layout,
        **{name: leading(name) for name in ("lda", "ldb", "ldc")},  # type: ignore[arg-type]
        pointer_align=draw(st.sampled_from([align for align in (1, 2, 4, 8, 16) if align >= least])),
        ld_align=draw(st.sampled_from([1, 2, 4, 8, 16])),
        batch=draw(st.sampled_from([1, 1, None, 2, 65536])) if LARGE not in (m, n, k) else 1,
    )
    if not problem.batched or draw(st.booleans()):
        return replace(problem, pointers=problem.batched)
    shared: dict[str, Any] = {
        "stride_a": ["dense", None, 0],
        "stride_b": ["dense", None, 0],
        "stride_c": ["dense", None],
    }
    longer = {name: [size + 5] for name in shared if (size := problem.sizes[name]) is not None}
    return replace(problem, **{name: draw(st.sampled_from([*shared[name], *longer.get(name, [])])) for name in shared})


@st.composite
def configs(draw: st.DrawFn) -> tuple[Family, Config]:
    """Any numbers: a name does not judge whether the kernel can be made."""
    family = draw(st.sampled_from(list(FAMILIES.values())))
    return family, family.config_type(**{axis.name: draw(st.integers(0, 10**6)) for axis in family.config_type.axes()})


@given(problems(), configs())
def test_round_trip(problem: Problem, choice: tuple[Family, Config]) -> None:
    family, config = choice
    name = full_name(problem, family, config)
    assert parse_name(name) == (problem, family, config)
    assert re.fullmatch(r"[a-z]\w*", name, re.ASCII)


@given(problems(), st.sampled_from(["sm_90", "sm_100a"]))
def test_short_names_are_identifiers_of_64_characters(problem: Problem, arch: str) -> None:
    name = short_name(problem, arch, "0123abcd")
    assert re.fullmatch(r"gemm_\w*_0123abcd", name, re.ASCII) and len(name) <= LONGEST
    assert arch.replace("_", "") in name


def test_short_names_say_what_is_computed_and_for_which_architecture() -> None:
    problem = Problem(4096, 4096, 4096)
    assert re.fullmatch(r"gemm_f32_rr_4096x4096x4096_sm90_[0-9a-f]{8}", render(problem, NAIVE, NaiveConfig()).name)
    batch = Problem(None, 8, 16, types=Types.parse("f64"), batch=None, pointers=True, layout=Layout("c", "r"))
    assert short_name(batch, "sm_90a", "01234567") == "gemm_f64_cr_pB_Mx8x16_sm90a_01234567"
    gelu = replace(problem, epilogue=parse_epilogue("bias+gelu"))
    assert short_name(gelu, "sm_90", "01234567") == "gemm_f32_rr_4096x4096x4096_bias_gelu_sm90_01234567"


def test_what_a_name_leaves_out_tells_in_its_digits() -> None:
    problem = Problem(64, 64, 64)
    kernels = [
        render(problem, NAIVE, NaiveConfig()),
        render(problem, NAIVE, NaiveConfig(BM=8)),
        render(replace(problem, lda=72), NAIVE, NaiveConfig()),
        render(problem, SIMT, SIMT.default(problem)),
        render(problem, SIMT, SIMT.default(problem), "sm_80"),
    ]
    assert len({kernel.name for kernel in kernels}) == len({kernel.name[-8:] for kernel in kernels}) == 5
    assert render(problem, NAIVE, NaiveConfig()) == kernels[0]


@settings(max_examples=12)
@given(
    st.sampled_from([(family, schedule) for family in FAMILIES.values() for schedule in schedules(family)]).flatmap(
        lambda kind: points(*kind, ARCHS["sm_90"].limits)
    )
)
def test_what_differs_has_another_name(kernel: RandomKernel) -> None:
    """Of every family, type and epilogue: another size, order, epilogue or axis is another kernel."""
    others = [kernel, *islice(simpler(kernel, ARCHS["sm_90"].limits), 3)]
    sources = [render(one.problem, one.family, one.config) for one in others]
    assert len({source.name for source in sources}) == len({one.name for one in others})
    for one, source in zip(others, sources, strict=True):
        assert re.fullmatch(r"[a-z]\w*", source.name, re.ASCII) and len(source.name) <= LONGEST
        assert source.name.startswith(f"gemm_{one.problem.types.token}_{one.problem.layout}_")
        assert f"\n{CONFIG}{one.name}\n" in source.text and f"\n{source.name}(" in source.text


@pytest.mark.parametrize(
    ("old", "axes"),
    [
        (
            "simt_outer1_128x128x32_8x16_w64x64_v4_ta1_tb0_pad4_s2_async1_ahead4_slices1_minb1_g8_split1"
            "_stream528_lead2_order5_team16",
            {"K_UNROLL": 4, "HOIST": 2, "FMA_ORDER": 5, "COPY_THREADS": 16, "STREAM": 528},
        ),
        ("batched_mb4_4x4_v4_pad4_s2_async1_walk4_minb1", {"BATCH_TILES": 4, "STAGES": 2}),
    ],
)
def test_full_names_of_old_still_read(old: str, axes: dict[str, int]) -> None:
    """Some axes had other words once."""
    problem, family, config = parse_name(f"gemm_f32_rc_b8_512x512x512_{old}")
    assert axes.items() <= config.values.items()
    today = full_name(problem, family, config)
    assert not re.search("ahead|lead|order|team|walk", today) and parse_name(today) == (problem, family, config)


def test_names_of_the_largest_kernels_are_file_names() -> None:
    problem = Problem(LARGE, LARGE, LARGE, lda=LARGE, ldb=LARGE, ldc=LARGE)
    for family in FAMILIES.values():
        largest = family.config_type(**{axis.name: max(axis.values) for axis in family.config_type.axes()})
        assert len(full_name(problem, family, largest) + ".certificate.json") <= 255


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is not the full name of a gemmgen kernel"),
        ("naive", "is not the full name of a gemmgen kernel"),
        ("gemm_f32_rx_1x1x1_naive_16x16", "is not the full name of a gemmgen kernel"),
        ("gemm_f99_rr_1x1x1_naive_16x16", "unknown types 'f99'"),
        ("gemm_f32_rr_1x1x1_wgmma_16x16", "no kernel family reads wgmma_16x16"),
        ("gemm_f32_rr_1x1x1_naive_16x16_extra", "no kernel family reads naive_16x16_extra"),
        ("gemm_f32_rr_1x1x1_skinny_s8_t4_w4_k256_u2_v4_split2_atomic0", "no kernel family reads skinny_s8"),
        ("gemm_f32_rr_1x1x1_naive_016x16", "no kernel family reads naive_016x16"),
        ("gemm_f32_rr_0x1x1_naive_16x16", "M = 0"),
        ("gemm_f32_rr_b0_1x1x1_naive_16x16", "is not the full name of a gemmgen kernel"),
        ("gemm_f32_rr_1x1x1_sa0_naive_16x16", "stride_a = 0 serves a batch"),
        ("gemm_f32_rr_p9_1x1x1_sa0_naive_16x16", "stride_a = 0: matrices behind pointers have no stride"),
        ("gemm_f32_rr_1x1x8_lda4_naive_16x16", "lda = 4 is shorter than a line of 8"),
    ],
)
def test_other_text_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        parse_name(name)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_pattern_names_every_axis_once(family: Family) -> None:
    named = re.findall(r"\{(\w+)\}", family.config_type.PATTERN)
    assert sorted(named) == sorted(axis.name for axis in family.config_type.axes())
