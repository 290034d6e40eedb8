"""A convolution of images, NHWC, with filters, KRSC, as a product: A's rows are what a filter meets at one place.

    y[image, p, q, n] = sum over r, s, c of x[image, p*sh - top + r*dh, q*sw - left + s*dw, c] * w[n, r, s, c]

Row m of C is (image, p, q), K is (r, s, c), and B is w, K-major: layout "rc". Outside of the image x is 0.

The gradient of w is a product, too, of layout "cr": A is dy, the gradient of y, and B holds the images. Row m of C is a
filter, its column is (r, s, c), and K is (image, p, q).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gemmgen.support.errors import InvalidInput, require, whole
from gemmgen.support.words import listed

Pair = int | Sequence[int]  # along rows and along columns; one number is both
_PAIR = r"\d+x\d+"
TEXT = rf"{_PAIR}x\d+_{_PAIR}(?:_p{_PAIR}(?:x{_PAIR})?)?(?:_s{_PAIR})?(?:_d{_PAIR})?"
MOST = 2**15  # pixels along a side, taps, padding, stride and dilation
_EXAMPLE = "56x56x64_3x3_p1x1_s2x2_d1x1"


@dataclass(frozen=True)
class Convolution:
    """Sizes of a convolution, its images apart, whose number follows from M.

    size      height and width of an image, and its channels
    taps      height and width of a filter: R and S
    pad       rows of zeros above, columns left of it, rows below, columns right of it
    stride    rows and columns from one place of the filter to the next
    dilation  rows and columns from one tap to the next
    """

    size: tuple[int, int, int]
    taps: tuple[int, int]
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        numbers = (*self.size, *self.taps, *self.stride, *self.dilation)
        require(all(1 <= one <= MOST for one in numbers), f"im2col={self}: sizes are 1 to {MOST}")
        require(all(0 <= one <= MOST for one in self.pad), f"im2col={self}: padding is 0 to {MOST}")
        padded = self.size[0] + self.pad[0] + self.pad[2], self.size[1] + self.pad[1] + self.pad[3]
        for what, spans, has in zip(("rows", "columns"), self.extent, padded, strict=True):
            require(spans <= has, f"im2col={self}: the filter spans {spans} {what}, and the padded image has {has}")

    @classmethod
    def of(cls, size: Sequence[int], taps: Pair, pad: Pair = 0, stride: Pair = 1, dilation: Pair = 1) -> Convolution:
        """Fields as above, with one number for both directions where they are equal. Raises InvalidInput."""
        height, width, channels = _numbers("size", size, (3,))
        rows, columns = _numbers("taps", taps)
        around = _numbers("pad", pad, (1, 2, 4))
        top, left, bottom, right = around if len(around) == 4 else (*around, *around)
        (sh, sw), (dh, dw) = _numbers("stride", stride), _numbers("dilation", dilation)
        return cls((height, width, channels), (rows, columns), (top, left, bottom, right), (sh, sw), (dh, dw))

    @classmethod
    def parse(cls, text: str) -> Convolution:
        """What `str` wrote: "56x56x64_3x3_p1x1_s2x2_d1x1". Raises InvalidInput."""
        if re.fullmatch(TEXT, text) is None:
            raise InvalidInput(f"im2col={text!r}: write HxWxC_RxS, as {_EXAMPLE} with padding, stride and dilation")
        size, taps, *more = text.split("_")
        given = {part[0]: tuple(map(int, part[1:].split("x"))) for part in more}
        of_image, of_filter = (tuple(map(int, part.split("x"))) for part in (size, taps))
        return cls.of(of_image, of_filter, given.get("p", 0), given.get("s", 1), given.get("d", 1))

    def __str__(self) -> str:
        told = (f"_{name[0]}{'x'.join(map(str, numbers))}" for name, numbers in self.walk.items())
        return f"{'x'.join(map(str, self.size))}_{'x'.join(map(str, self.taps))}{''.join(told)}"

    @property
    def walk(self) -> dict[str, tuple[int, ...]]:
        """Padding, stride and dilation by these names, without those that are the default: rows, then columns; padding
        that differs between opposite sides is top, left, bottom, right."""
        pad = self.pad[:2] if self.pad[:2] == self.pad[2:] else self.pad
        given = {"padding": (pad, 0), "stride": (self.stride, 1), "dilation": (self.dilation, 1)}
        return {name: of for name, (of, default) in given.items() if any(one != default for one in of)}

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns that a filter spans."""
        rows, columns = ((taps - 1) * apart + 1 for taps, apart in zip(self.taps, self.dilation, strict=True))
        return rows, columns

    @property
    def places(self) -> tuple[int, int]:
        """P and Q: rows and columns of places that a filter has in an image."""
        top, left, bottom, right = self.pad
        (height, width, _), (rows, columns), (down, across) = self.size, self.extent, self.stride
        return (height + top + bottom - rows) // down + 1, (width + left + right - columns) // across + 1

    @property
    def corners(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where filters begin: rows and columns of the first place, counted from the image's first pixel, and of the
        last place that padding allows, whatever the stride, counted from the image's last pixel."""
        top, left, bottom, right = self.pad
        return (-top, -left), (bottom - self.extent[0] + 1, right - self.extent[1] + 1)

    @property
    def crosses(self) -> tuple[bool, bool]:
        """Whether some taps lie around the image: above or below it, left or right of it."""
        (above, left, *_), (height, width, _) = self.pad, self.size
        (down, across), (p, q), (rows, columns) = self.stride, self.places, self.extent
        below, right = (p - 1) * down - above + rows > height, (q - 1) * across - left + columns > width
        return above > 0 or below, left > 0 or right

    @property
    def named(self) -> tuple[tuple[str, int, str], ...]:
        """(name, number, meaning) of its sizes, by their usual letters."""
        (height, width, channels), (p, q), (r, s) = self.size, self.places, self.taps
        return (
            ("H", height, "rows of an image"),
            ("W", width, "columns of an image"),
            ("CHANNELS", channels, "channels of a pixel"),
            ("P", p, "rows of output pixels per image"),
            ("Q", q, "columns of output pixels per image"),
            ("R", r, "rows of taps of a filter"),
            ("S", s, "columns of taps of a filter"),
            ("PAD_H", self.pad[0], "rows of padding above an image"),
            ("PAD_W", self.pad[1], "columns of padding left of an image"),
            ("STRIDE_H", self.stride[0], "rows that the filter moves from one row of output pixels to the next"),
            ("STRIDE_W", self.stride[1], "columns that it moves from one output pixel to the next"),
            ("DILATION_H", self.dilation[0], "rows of pixels from one row of taps to the next"),
            ("DILATION_W", self.dilation[1], "columns of pixels from one column of taps to the next"),
        )

    @property
    def depth(self) -> int:
        """K: elements of a filter."""
        return self.taps[0] * self.taps[1] * self.size[2]

    @property
    def pixels(self) -> int:
        """Of an image: lines of A."""
        return self.size[0] * self.size[1]

    @property
    def no_gradient(self) -> str | None:
        """Why the gradient of images is no convolution; None if it is one."""
        told = f"im2col={self}: the gradient of images is a convolution"
        (rows, columns), (top, left, bottom, right) = self.extent, self.pad
        if self.stride != (1, 1):
            return f"{told} for stride 1x1, and this has {'x'.join(map(str, self.stride))}"
        if max(top, bottom) >= rows or max(left, right) >= columns:
            pad = "x".join(map(str, self.pad))
            return f"{told} for padding shorter than the filter, which spans {rows}x{columns}, and this has {pad}"
        return None

    def gradient(self, filters: int) -> Convolution:
        """The convolution of dy, the gradient of C, whose result is the gradient of the images.

        Images of dy have P x Q pixels and `filters` channels, one for each filter of this convolution. Its own filters
        are C x R x S x K: taps are in reverse order down and across, and channels and filters have changed places.
        Raises InvalidInput with the reason for other strides than 1, and for padding as long as the filter.
        """
        require(self.no_gradient is None, str(self.no_gradient))
        (rows, columns), (top, left, bottom, right) = self.extent, self.pad
        pad = rows - 1 - top, columns - 1 - left, rows - 1 - bottom, columns - 1 - right
        return Convolution((*self.places, filters), self.taps, pad, dilation=self.dilation)

    @property
    def per_image(self) -> int:
        """Places of a filter in an image: rows of C."""
        return self.places[0] * self.places[1]

    def images(self, places: int) -> int:
        """As many as have so many places of the filter; the last one may have more of them."""
        return -(-places // self.per_image)


def _numbers(name: str, given: Pair, counts: tuple[int, ...] = (1, 2)) -> tuple[int, ...]:
    """As many whole numbers as are given, one of them as two. Raises InvalidInput unless they are one of `counts`."""
    every = given if isinstance(given, Sequence) else (given,)
    numbers = tuple(whole(name, one) for one in every)
    wanted = listed(map(str, counts), "or")
    require(len(numbers) in counts, f"{name} = {given}: {len(numbers)} numbers, and {wanted} are needed")
    return numbers * 2 if len(numbers) == 1 else numbers
