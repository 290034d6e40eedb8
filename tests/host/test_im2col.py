"""Tensor maps in im2col mode as data, and what wgmma refuses of convolutions."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gemmgen.exports.record_reading import launch_from
from gemmgen.families import WGMMA
from gemmgen.families.base import first_rejection
from gemmgen.kernel.tensor_map import MAP_BYTES, TensorMap, im2col_walk
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.run.gpu import bindings
from gemmgen.support.errors import InvalidInput

LIMITS = parse_arch("sm_90a").limits
CONV = Convolution.parse("8x9x64_3x2_p1x4x2x0_s2x1_d1x3")
PROBLEM = Problem(None, 64, CONV.depth, "bf16", "rc", lda=72, inputs=f"im2col={CONV}")
few, many = st.integers(0, 3), st.integers(1, 6)


@given(st.tuples(many, many), st.tuples(many, many), st.tuples(few, few, few, few), st.tuples(many, many), many)
def test_a_walk_within_the_corners_has_all_places(size, taps, pad, stride, dilation) -> None:
    try:
        conv = Convolution((*size, 8), taps, pad, stride, (dilation, 1))
    except InvalidInput:  # the filter is larger than the padded image
        assume(False)
    for first, last, pixels, step, places in zip(*conv.corners, size, stride, conv.places, strict=True):
        assert len(range(first, pixels + last, step)) == places


@pytest.mark.parametrize(
    ("conv", "gradient"),
    [
        ("5x7x3_3x3_p1x1", "5x7x6_3x3_p1x1"),
        ("5x7x3_3x3", "3x5x6_3x3_p2x2"),
        ("8x9x64_3x2_p1x4x2x0_d1x5", "9x8x6_3x2_p1x1x0x5_d1x5"),
        ("5x7x3_1x1", "5x7x6_1x1"),
    ],
)
def test_the_gradient_of_images_is_a_convolution(conv: str, gradient: str) -> None:
    one = Convolution.parse(conv)
    assert str(one.gradient(6)) == gradient
    assert one.gradient(6).places == one.size[:2] and one.gradient(6).gradient(one.size[2]) == one


@pytest.mark.parametrize(
    ("conv", "reason"),
    [
        ("5x7x3_3x3_s1x2", "for stride 1x1, and this has 1x2"),
        ("5x7x3_3x2_p0x1x3x1", "shorter than the filter, which spans 3x2, and this has 0x1x3x1"),
        ("5x7x3_3x2_p0x4_d1x3", "spans 3x4, and this has 0x4x0x4"),
    ],
)
def test_other_gradients_are_refused(conv: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=f"im2col={conv}: .* {reason}"):
        Convolution.parse(conv).gradient(6)


def test_a_map_of_images_has_channels_columns_rows_and_images() -> None:
    launch = WGMMA.plan(PROBLEM, WGMMA.default(PROBLEM)).launch
    tensor = launch.maps[0].of(PROBLEM.case(m=50))  # an image has 5 x 10 places
    assert tensor.sizes == (64, 9, 8, 1) and tensor.strides == (144, 9 * 144, 72 * 144)
    assert launch.maps[0].of(PROBLEM.case(m=51)).sizes[3] == 2
    assert (tensor.corners, tensor.steps) == ((-4, -1, -3, 0), (1, 2)) == im2col_walk(CONV)
    assert tensor.box == (64, 128, 1, 1) and len(tensor.pack(256)) == MAP_BYTES
    corners = "corners {-4, -1} from an image's first pixel and {-3, 0} from its last, as {W, H}, in steps of {1, 2}"
    assert f"{corners}; boxes of 64 channels x 128" in launch.maps[0].words


def test_records_hold_the_walk() -> None:
    launch = WGMMA.plan(PROBLEM, WGMMA.default(PROBLEM)).launch
    document = json.loads(json.dumps(launch.document))
    assert launch_from(document) == launch
    assert document["maps"][0]["steps"] == [1, 2] and "steps" not in document["maps"][1]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"corners": (-129, 0, 0, 0), "steps": (1, 1)}, "four numbers from -128 to 127"),
        ({"corners": (0, 0), "steps": (1, 1)}, "four numbers from -128 to 127"),
        ({"corners": (0, 0, 0, 0), "steps": (1, 9)}, "two numbers from 1 to 8"),
        ({"corners": (0, 0, 0, 0)}, "two numbers from 1 to 8"),
        ({"corners": (0, 0, 0, 0), "steps": (1, 1), "tail": True}, "a box is channels and pixels"),
    ],
    ids=str,
)
def test_a_map_that_the_driver_refuses_is_none(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        TensorMap("A", (64, 64), 128, **fields)


def test_images_alone_are_walked() -> None:
    walk = {"corners": (0, 0, 0, 0), "steps": (1, 1)}
    with pytest.raises(InvalidInput, match="A holds no images"):
        TensorMap("A", (64, 64), 128, **walk).of(Problem(64, 64, 64, "bf16").case())
    with pytest.raises(InvalidInput, match="B holds no images"):
        TensorMap("B", (64, 64), 128, **walk).of(PROBLEM.case(m=50))


@pytest.mark.parametrize(
    ("inputs", "changed", "reason"),
    [
        ("8x9x4_3x3", {"lda": 8}, "a multiple of 16 bytes"),
        ("90x90x64_3x3_s9x1", {}, "at most 8 pixels"),
        ("90x90x64_3x3_p129x0", {}, "TMA counts in 8 bits"),
        ("190x190x64_3x3_d1x65", {}, "TMA counts in 8 bits"),
        ("300x8x64_257x1_p127x0x256x0", {}, "a tap is at most 255 pixels"),
        ("8x9x64_3x3", {"lda": 65}, "images are not copied or split"),
        ("8x9x64_3x3", {"types": "f32_bf16x6"}, "images are not copied or split"),
    ],
    ids=str,
)
def test_what_is_refused_says_why(inputs: str, changed: dict[str, Any], reason: str) -> None:
    fields: dict[str, Any] = {"types": "bf16", **changed}
    problem = Problem(None, 64, Convolution.parse(inputs).depth, layout="rc", inputs=f"im2col={inputs}", **fields)
    rejection = first_rejection(WGMMA, problem, WGMMA.default(problem), LIMITS)
    assert rejection is not None and reason in rejection.constraint.because


@pytest.mark.parametrize(
    ("inputs", "types", "reason"),
    [
        ("8x9x8_3x3", "bf16", "TMA swizzles 32 bytes at least"),
        ("8x9x32_3x3", "s8,s8,s32", "images are not copied"),
        ("8x9x32_3x3", "f32_tf32", "images are not copied"),
        ("90x90x64_3x3_s9x1", "bf16", "at most 8 pixels"),
    ],
)
def test_gradients_of_filters_that_are_refused_say_why(inputs: str, types: str, reason: str) -> None:
    n = Convolution.parse(inputs).depth
    problem = Problem(64, n, None, types=types, layout="cr", inputs=f"im2col={inputs}+wgrad")
    rejection = first_rejection(WGMMA, problem, WGMMA.default(problem), LIMITS)
    assert rejection is not None and reason in rejection.constraint.because


def test_b_holds_the_images_of_a_gradient_of_filters() -> None:
    problem = Problem(64, CONV.depth, None, "bf16", "cr", ldb=72, inputs=f"im2col={CONV}+wgrad")
    launch = WGMMA.plan(problem, WGMMA.default(problem)).launch
    tensor = launch.maps[1].of(problem.case(k=51))  # an image has 5 x 10 places
    assert tensor.sizes == (64, 9, 8, 2) and tensor.strides == (144, 9 * 144, 72 * 144)
    assert (tensor.corners, tensor.steps) == im2col_walk(CONV) and tensor.box == (64, 64, 1, 1)
    with pytest.raises(InvalidInput, match="rows are those of a row-major B, and layout = cc"):
        Problem(64, CONV.depth, None, "bf16", "cc", inputs=f"im2col={CONV}+wgrad")


def test_the_driver_is_given_the_walk_columns_first(monkeypatch) -> None:
    calls: dict[str, tuple[Any, ...]] = {}

    def entry(name: str) -> Any:
        return lambda *arguments: calls.update({name: arguments}) or 0

    monkeypatch.setattr(bindings, "entry", entry)
    tensor = WGMMA.plan(PROBLEM, WGMMA.default(PROBLEM)).launch.maps[0].of(PROBLEM.case(m=60))
    bindings.MapEncoder(tensor)(4096)
    (_, _, rank, address, sizes, strides, lower, upper, channels, pixels, steps, *_) = calls["cuTensorMapEncodeIm2col"]
    assert (rank.value, address.value, channels.value, pixels.value) == (4, 4096, 64, 128)
    assert (list(sizes), list(strides)) == ([64, 9, 8, 2], [144, 9 * 144, 72 * 144])
    assert (list(lower), list(upper), list(steps)) == ([-4, -1], [-3, 0], [1, 1, 2, 1])
    assert isinstance(lower[0], int) and ctypes.sizeof(lower) == 8
