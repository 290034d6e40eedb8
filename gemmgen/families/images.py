"""Constants of kernels that find output pixels and taps of a convolution themselves."""

from __future__ import annotations

from functools import cache

from gemmgen.kernel.config import Derived
from gemmgen.problem.convolution import Convolution

OF_TAPS = frozenset({"S", "CHANNELS", "DILATION_H", "DILATION_W"})  # what finds the tap and the channel of a k


@cache
def image_constants(conv: Convolution | None) -> tuple[Derived, ...]:
    """The sizes of a convolution by their usual letters; none of a product of matrices."""
    if conv is None:
        return ()
    (height, width, channels), (p, q), (r, s) = conv.size, conv.places, conv.taps
    lines = (
        ("H", height, "rows of an image"),
        ("W", width, "columns of an image"),
        ("CHANNELS", channels, "channels of a pixel"),
        ("P", p, "rows of output pixels per image"),
        ("Q", q, "columns of output pixels per image"),
        ("R", r, "rows of taps of a filter"),
        ("S", s, "columns of taps of a filter"),
        ("PAD_H", conv.pad[0], "rows of padding above an image"),
        ("PAD_W", conv.pad[1], "columns of padding left of an image"),
        ("STRIDE_H", conv.stride[0], "rows that the filter moves from one row of output pixels to the next"),
        ("STRIDE_W", conv.stride[1], "columns that it moves from one output pixel to the next"),
        ("DILATION_H", conv.dilation[0], "rows of pixels from one row of taps to the next"),
        ("DILATION_W", conv.dilation[1], "columns of pixels from one column of taps to the next"),
    )
    return tuple(Derived(name, str(number), meaning, "Convolution") for name, number, meaning in lines)


def unread(conv: Convolution | None, *names: str) -> frozenset[str]:
    """These of its constants, for a kernel that does not read them; none of a product of matrices."""
    return frozenset(names if conv is not None else ())
