"""A convolution as a Problem: M, N, K and inputs follow from its images and filters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gemmgen.problem.convolution import Convolution, Pair
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.given import record_given, size_given, typical_given
from gemmgen.problem.inputs import PLAIN, Inputs
from gemmgen.problem.sizes import RUNTIME, Size
from gemmgen.problem.types import Compute, Types
from gemmgen.support.errors import require, whole

DTYPE = DType.BF16  # of a convolution if nothing is said of types, and if `compute` multiplies it
IMAGES = "images"  # what `typical` may name in place of M
_SIZE, _OPEN = r"\d{1,20}", r"(?:\d{1,20}|\?)"  # the latter may be left to run time


def Conv(
    images: Size | str,
    size: Sequence[int],
    filters: Size | str,
    taps: Pair,
    pad: Pair = 0,
    stride: Pair = 1,
    dilation: Pair = 1,
    groups: int = 1,
    typical: Mapping[str, int] | tuple[tuple[str, int], ...] = (),
    **others: Any,
) -> Problem:
    """Return the Problem of a convolution: images N x H x W x C with filters K x R x S.

    images    number of images; None or "?" leaves it, and with it M, to run time
    size      height and width of an image, and its channels
    filters   number of filters, the Problem's N; None or "?" leaves it to run time
    taps      height and width of a filter; one number, here and below, is both
    pad       rows of zeros above and below and columns left and right; or four numbers: above, left, below and right
    stride    rows and columns from one place of the filter to the next
    dilation  rows and columns from one tap to the next
    groups    1: each filter reads all channels. Others are refused
    typical   as of a Problem; {"images": 32} gives M by the number of images
    others    what a Problem takes as well: epilogue, lda, ... Unless they say else, types are bf16, or the first that
              `compute` multiplies, and the layout is "rc"

    Raises InvalidInput for what means nothing, and for what a Problem refuses.
    """
    conv = Convolution.of(size, taps, pad, stride, dilation)
    require_together(groups, conv.size[2])
    count = size_given(IMAGES, images)
    given = record_given(Inputs, others.pop("inputs", PLAIN))
    require(given.is_plain, f"inputs = {given}, and those of a convolution are im2col={conv}: leave them out")
    if others.get("types") is None and others.get("dtype") is None:
        known = record_given(Compute, others.get("compute") or Compute.FMA).operands
        others["types"] = Types.of(DTYPE if DTYPE in known else known[0])
    return Problem(
        None if count is None else count * conv.per_image,
        filters,
        conv.depth,
        **{"layout": "rc", **others},
        typical=dict(_typical(name, number, conv.per_image) for name, number in typical_given(typical)),
        inputs=Inputs(conv=conv),
    )


def _typical(name: str, number: int, places: int) -> tuple[str, int]:
    return ("M", number * places) if name == IMAGES else (name, number)


def require_together(groups: int, channels: int) -> None:
    """Raise InvalidInput unless each filter reads all channels."""
    count = whole("groups", groups, 1)
    require(
        count == 1,
        f"groups = {count} of {channels} channels: kernels take groups = 1, where each filter reads all channels. "
        "Grouped channels are many products, too small for the tiles of tensor cores, and a depthwise convolution is "
        "no product of matrices: memory limits it",
    )


@dataclass(frozen=True)
class ConvShape:
    """A convolution as a command line writes it: "32x56x56x64", "64x3x3" and what surrounds them.

    Fields are the arguments of `Conv`.
    """

    images: Size
    size: tuple[int, int, int]
    filters: Size
    taps: tuple[int, int]
    groups: int = 1
    pad: Pair = 0
    stride: Pair = 1
    dilation: Pair = 1

    @classmethod
    def parse(cls, images: str, filters: str, **distances: Pair) -> ConvShape:
        """Read NxHxWxC and KxRxS, or KxRxSxC, with `?` for a number of images or filters that is left to run time.

        Raises InvalidInput.
        """
        of_images = re.fullmatch(f"{_OPEN}x{_SIZE}x{_SIZE}x{_SIZE}", images.lower(), re.ASCII)
        require(of_images is not None, f"{images[:60]!r} are no images: write NxHxWxC, for example 32x56x56x64")
        of_filters = re.fullmatch(f"{_OPEN}x{_SIZE}x{_SIZE}(?:x{_SIZE})?", filters.lower(), re.ASCII)
        require(of_filters is not None, f"{filters[:60]!r} are no filters: write KxRxS, for example 64x3x3")
        count, *size = images.lower().split("x")
        many, *taps = filters.lower().split("x")
        height, width, channels = map(int, size)
        rows, columns, depth = (*map(int, taps), channels)[:3]
        require(
            0 < depth <= channels and channels % depth == 0,
            f"filters {filters} have {depth} channels, and images {images} have {channels}",
        )
        return cls(
            _open(count), (height, width, channels), _open(many), (rows, columns), channels // depth, **distances
        )

    def problem(self, **given: Any) -> Problem:
        """Its Problem, with what else is `given`. Raises InvalidInput."""
        return Conv(**vars(self), **given)


def _open(text: str) -> Size:
    return None if text == RUNTIME else int(text)
