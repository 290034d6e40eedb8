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


def test_a_map_of_images_has_channels_columns_rows_and_images() -> None:
    launch = WGMMA.plan(PROBLEM, WGMMA.default(PROBLEM)).launch
    tensor = launch.maps[0].of(PROBLEM.case(m=50))  # an image has 5 x 10 places
    assert tensor.sizes == (64, 9, 8, 1) and tensor.strides == (144, 9 * 144, 72 * 144)
    assert launch.maps[0].of(PROBLEM.case(m=51)).sizes[3] == 2
    assert (tensor.corners, tensor.steps) == ((-4, -1, -3, 0), (1, 2)) == im2col_walk(CONV)
    assert tensor.box == (64, 128, 1, 1) and len(tensor.pack(256)) == MAP_BYTES
    assert (
        "corners {-4, -1} and {-3, 0} of {W, H} in steps of {1, 2}; boxes of 64 channels x 128" in launch.maps[0].words
    )


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
