"""An edit of a constant that is an axis changes what is predicted; one that makes no config does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmgen.families import SIMT, plan_of
from gemmgen.kernel.model import predict
from gemmgen.problem.device import ARCHS, DEVICES
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.render.rerender import edited_axes, with_axes

PROBLEM = Problem(512, 512, 512)
KERNEL = render(PROBLEM, SIMT, SIMT.default(PROBLEM))
ARCH = ARCHS["sm_90"]


@pytest.mark.parametrize(
    ("right", "edited", "axes"),
    [
        ("constexpr int BK = 8;", "constexpr int BK = 16;", {"BK": 16}),
        ("constexpr int BK = 8;", "constexpr int BK = 7;", {}),  # no config
        ("constexpr int FM = 4;", "constexpr int FM = 2;", {}),  # no axis
        ("namespace {", "namespace {  // mine", {}),
    ],
)
def test_constants_of_an_edited_text_are_axes(right: str, edited: str, axes: dict[str, int]) -> None:
    assert right in KERNEL.text
    assert edited_axes(replace(KERNEL, text=KERNEL.text.replace(right, edited)), ARCH) == axes


def test_an_edited_kernel_has_a_prediction_of_its_own() -> None:
    card = DEVICES["H200"]
    before, after = (predict(plan_of(with_axes(KERNEL, axes)), card).time_us for axes in ({}, {"BK": 16}))
    assert after != before


def test_a_config_of_another_version_has_no_axes() -> None:
    assert edited_axes(replace(KERNEL, family="of old"), ARCH) == {}
