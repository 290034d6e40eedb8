"""gemmgen.Conv: the problem of images and filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gemmgen import Conv, InvalidInput, Problem
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.types import Types


def test_sizes_and_inputs_follow_from_images_and_filters() -> None:
    wanted = Problem(100352, 64, 576, "bf16", "rc", inputs="im2col=56x56x64_3x3_p1x1")
    assert Conv(images=32, size=(56, 56, 64), filters=64, taps=(3, 3), pad=1) == wanted
    assert Conv(32, (56, 56, 64), 64, 3, (1, 1), 1, 1) == Conv(32, [56, 56, 64], 64, 3, (1, 1, 1, 1)) == wanted


def test_a_problem_has_what_is_given_beside() -> None:
    conv = Convolution.parse("9x8x16_3x2_p1x0x2x1_s2x1_d2x2")
    found = Conv("?", filters=None, **vars(conv), types="f16,f16,f32", layout="rr", lda=24, epilogue="relu")
    more: dict[str, Any] = {"types": "f16,f16,f32", "lda": 24, "epilogue": "relu", "inputs": f"im2col={conv}"}
    assert found == Problem(None, None, 96, layout="rr", **more)


@pytest.mark.parametrize("given", [{"dtype": "f32", "compute": "tf32"}, {"types": "f32_tf32"}, {"compute": "tf32"}])
def test_other_types_are_taken(given: dict[str, Any]) -> None:
    assert Conv(1, (9, 9, 8), 64, 3, **given).types == Types.parse("f32_tf32")


def test_images_are_a_typical_size() -> None:
    found = Conv(None, (9, 9, 8), "?", 3, pad=1, stride=2, typical={"images": 4, "N": 64})
    assert dict(found.typical) == {"M": 100, "N": 64}
    with pytest.raises(InvalidInput, match="typical M = 25, but M is fixed at 50"):
        Conv(2, (9, 9, 8), 64, 3, pad=1, stride=2, typical={"images": 1})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": 8}, "groups = 8 of 8 channels: kernels take groups = 1, where each filter reads all channels"),
        ({"groups": 0}, "groups = 0: at least 1 is needed"),
        ({"size": (9, 9)}, r"size = \(9, 9\): 2 numbers, and 3 are needed"),
        ({"taps": (1, 2, 3)}, r"taps = \(1, 2, 3\): 3 numbers, and 1 or 2 are needed"),
        ({"stride": "2"}, "stride = '2' is no whole number"),
        ({"stride": 0}, "sizes are 1 to 32768"),
        ({"taps": 11, "pad": (0, 0, 1, 2)}, "the filter spans 11 rows, and the padded image has 10"),
        ({"inputs": "gathered"}, "inputs = gathered, and those of a convolution are im2col=9x9x8_3x3: leave them"),
        ({"typical": 32}, "typical = 32: write sizes by name"),
        ({"layout": "cr"}, "rows are those of a row-major A"),
    ],
)
def test_what_is_refused_says_why(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Conv(**{"images": 2, "size": (9, 9, 8), "filters": 64, "taps": 3, **given})


@pytest.mark.parametrize(("conv", "filters"), [("56x56x64_3x3", 64), ("7x7x512_3x3", 512), ("56x56x64_1x1", 256)])
def test_documents_say_the_bytes_that_each_way_moves(conv: str, filters: int) -> None:
    size, taps = conv.split("_")
    problem = Conv(32, [int(one) for one in size.split("x")], filters, int(taps[0]), pad=int(taps[0]) // 2)
    assert problem.m and problem.k
    images, matrix, weight, result = (
        problem.case().a.bytes,
        2 * problem.m * problem.k,
        2 * filters * problem.k,
        2 * problem.m * filters,
    )
    implicit = images + weight + result
    numbers = [f"{one / 1e6:.1f}" for one in (images, matrix, weight, result, implicit + 2 * matrix, implicit)]
    row = f"| {size}, {taps}, {filters} filters | {numbers[0]} MB | {' | '.join(numbers[1:])} |"
    assert row in (Path(__file__).parents[2] / "docs" / "kernels.md").read_text()
