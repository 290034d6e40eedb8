"""Images of few channels, for kernels that read 16 bytes of channels at once: pixels of a square become channels.

A filter with stride 2 x 2 begins at every second pixel of every second row. With the pixels of a 2 x 2 square side by
side as channels, images have half as many rows and columns, and filters half as many taps and a stride of 1. So the
7 x 7 taps, stride 2, of a network's first layer with 3 channels become 4 x 4 taps of 16 channels: K is 256, for 147
elements that count, where channels padded to 8 would make it 392. Images are copied for that, channels in excess are 0,
and so are taps around the filter: Inf or NaN beside the filter gives NaN, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from gemmgen.problem.convolution import Convolution

UNIT = 16  # bytes that a pixel's channels are a multiple of


@dataclass(frozen=True)
class Squares:
    """A convolution of squares of pixels in place of one of pixels.

    conv   the convolution, whose channels are the pixels of a square, each with its channels, and zeros
    side   rows and columns of a square
    first  rows and columns of zeros above and left of a filter, so that it begins where a square does
    """

    conv: Convolution
    side: tuple[int, int]
    first: tuple[int, int]

    def images(self, x: Any) -> Any:
        """Copy images, in any order in memory: the result is in torch.channels_last."""
        (height, width, channels), (down, across) = self.conv.size, self.side
        if x.shape[2:] != (height * down, width * across):  # pixels that no filter meets are left out
            x = torch.nn.functional.pad(x, (0, width * across - x.shape[3], 0, height * down - x.shape[2]))
        found = x.new_zeros((x.shape[0], height, width, channels))
        pixels = found[..., : down * across * x.shape[1]].unflatten(3, (down, across, x.shape[1]))
        pixels.copy_(_squares(x, self.side))
        return found.permute(0, 3, 1, 2)

    def filters(self, weight: Any) -> Any:
        """Copy filters, likewise."""
        (rows, columns), (down, across), (above, left) = self.conv.taps, self.side, self.first
        below, right = rows * down - above - weight.shape[2], columns * across - left - weight.shape[3]
        taps = _squares(torch.nn.functional.pad(weight, (left, right, above, below)), self.side).flatten(3)
        whole = torch.nn.functional.pad(taps, (0, self.conv.size[2] - taps.shape[3]))
        return whole.contiguous().permute(0, 3, 1, 2)


def _squares(x: Any, side: tuple[int, int]) -> Any:
    """N x C x H x W as N x (rows of squares) x (columns of squares) x (rows of one) x (columns of one) x C."""
    down, across = side
    return x.unflatten(3, (-1, across)).unflatten(2, (-1, down)).permute(0, 2, 4, 3, 5, 1)


def squares_of(conv: Convolution, size: int) -> Squares | None:
    """The squares that give a pixel channels of a multiple of UNIT, if an element has `size` bytes; None if it has
    them as it is. With dilation a square is one pixel."""
    if conv.size[2] * size % UNIT == 0:
        return None
    dense = conv.dilation == (1, 1)
    side = conv.stride if dense else (1, 1)
    several = UNIT // size
    channels = -(-conv.size[2] * math.prod(side) // several) * several
    if not dense:
        return Squares(replace(conv, size=(*conv.size[:2], channels)), side, (0, 0))
    rows, columns = (
        _along(*one) for one in zip(conv.size[:2], conv.taps, conv.pad[:2], side, conv.places, strict=True)
    )
    (height, width), taps, before, behind, first = zip(rows, columns, strict=True)
    return Squares(Convolution((height, width, channels), taps, (*before, *behind)), side, first)


def _along(size: int, taps: int, before: int, side: int, places: int) -> tuple[int, int, int, int, int]:
    """Along one dimension, in squares: an image's size, taps, padding before it and behind; then the number of zeros in
    front of a filter."""
    padding = -(-before // side)
    first = padding * side - before
    wide = -(-(first + taps) // side)
    met = places + wide - 1 - padding  # squares from the image's first to the last that a filter meets
    squares = min(-(-size // side), met)
    return squares, wide, padding, met - squares, first
