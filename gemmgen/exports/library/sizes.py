"""The sizes for which a library is made: listed, in a range, or any."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from typing import Any

from gemmgen.problem.sizes import RUNTIME, SIZE_LIMIT
from gemmgen.support.errors import InvalidInput, require, whole

ANY_MOST = 8192  # "?" is tuned as 1..ANY_MOST; larger sizes use the choice for ANY_MOST, or extrapolated estimates
LARGE = 4096  # a kernel for all sizes is tuned for this one, or for the size of the range that is closest to it
FEW, EIGHT = 64, 8  # up to FEW rows kernels are tuned for each multiple of EIGHT: tiles grow in such steps
# Up to each size: the ratio of those for which kernels are tuned. As long as C fills one wave or two, every few rows
# want tiles of another height, and a tile too low or too high costs as many percent as the sizes are apart.
APART = ((1216, 1.05), (2432, 1.07), (SIZE_LIMIT, 1.16))
EDGES_APART = 1.5  # the ratio of sizes at which waves end
TILES = tuple((rows, columns) for rows in (64, 128, 192, 256) for columns in (64, 128, 256))  # usual ones
GOLDEN = 1.2207440846057596  # the root of x^4 = x + 1: shares of its powers fill a cube evenly (Roberts, 2018)
BESIDE = 64  # added to a listed size that has kernels of its own: the sum stands for all other sizes


@dataclass(frozen=True)
class SizeRange:
    """The values of M, N or K: one of `listed` or, if none are listed, all from `least` to `most`.

    Raises InvalidInput for sizes outside 1 .. SIZE_LIMIT and for an empty range.
    """

    listed: tuple[int, ...] = ()
    least: int = 1
    most: int = ANY_MOST

    def __post_init__(self) -> None:
        require(self.least <= self.most, "a range that holds no size: write the least one first")
        wrong = [size for size in (*self.listed, self.least, self.most) if not 1 <= size <= SIZE_LIMIT]
        require(not wrong, f"sizes are 1 to {SIZE_LIMIT}")

    @classmethod
    def parse(cls, name: str, value: object) -> SizeRange:
        """Parse 4096, [4096, 8192], "1..8192" or "?". Raises InvalidInput that begins with `name`."""
        if isinstance(value, list):
            require(bool(value), f"{name} = []: list at least one size")
            return cls._named(f"{name} = {value}", tuple(sorted({whole(name, size) for size in value})))
        if not isinstance(value, str):
            return cls._named(f"{name} = {value}", (whole(name, value),))
        if value == RUNTIME:
            return cls()
        ends = re.fullmatch(r"([0-9]{1,10})\.\.([0-9]{1,10})", value)
        require(ends is not None, f'{name} = "{value}": write a size, a list of sizes, a range "1..8192" or "?"')
        assert ends is not None
        return cls._named(f'{name} = "{value}"', (), int(ends[1]), int(ends[2]))

    @classmethod
    def _named(cls, what: str, *fields: Any) -> SizeRange:
        """Make a range of `fields`. Raises InvalidInput that begins with `what`, the line of the file."""
        try:
            return cls(*fields)
        except InvalidInput as error:
            raise InvalidInput(f"{what}: {error}") from error

    @property
    def smallest(self) -> int:
        return self.listed[0] if self.listed else self.least

    @property
    def largest(self) -> int:
        return self.listed[-1] if self.listed else self.most

    def points(self, ratio: float) -> tuple[int, ...]:
        """The listed sizes; for a range both ends, and sizes between them with this `ratio`."""
        if self.listed:
            return self.listed
        steps = math.ceil(math.log(self.most / self.least) / math.log(ratio)) if self.most > self.least else 0
        inner = (round(self.least * ratio**step) for step in range(steps))
        return tuple(sorted({*inner, self.most}))

    def at(self, share: float) -> int:
        """The size at a share of the way from the least to the most, by ratio; one of the listed sizes if there are
        any."""
        if self.listed:
            return self.listed[min(int(share * len(self.listed)), len(self.listed) - 1)]
        return round(self.least * math.pow(self.most / self.least, share))

    def beside(self, taken: set[int]) -> SizeRange:
        """The range with slightly larger sizes in place of listed ones that are `taken`."""
        return replace(self, listed=tuple(size + BESIDE * (size in taken) for size in self.listed))

    def nearest(self, size: int) -> int:
        """The size in the range that is closest to `size`, by ratio."""
        if self.listed:
            return min(self.listed, key=lambda one: abs(math.log(one / size)))
        return min(max(size, self.least), self.most)

    def ladder(self) -> tuple[int, ...]:
        """The sizes for which kernels are tuned: the listed ones; for a range both ends, and multiples of EIGHT
        between.

        These multiples fill tiles of many heights: all of them up to FEW, above that some that are APART.
        """
        if self.listed:
            return self.listed
        found = {self.least, self.most, *range(EIGHT, FEW + 1, EIGHT)}
        size = FEW
        while size < self.most:
            ratio = next(ratio for most, ratio in APART if size < most)
            size = max(size + EIGHT, round(size * ratio / EIGHT) * EIGHT)
            found.add(size)
        return self._among(found)

    def tuned(self, across: int, sms: int) -> tuple[int, ...]:
        """The ladder, with sizes just below and just above those at which common tiles need another wave.

        A wave has `sms` blocks, and C has `across` elements along its other dimension, including the batch. These sizes
        are EDGES_APART.
        """
        if self.listed:
            return self.listed
        found = set(self.ladder())
        edges = list(range(FEW, self.most, FEW))  # where the least of TILES is full
        while edges:
            near = [edge for edge in edges if edge < edges[0] * EDGES_APART]
            edge = max(near, key=lambda one: (_waves_end(one, across, sms), -one))
            found |= {edge, edge + 1}
            edges = [one for one in edges if one >= edge * EDGES_APART]
        return self._among(found)

    def _among(self, sizes: set[int]) -> tuple[int, ...]:
        """The `sizes` in the range, ascending."""
        return tuple(sorted(size for size in sizes if self.least <= size <= self.most))

    def draw(self, random_: random.Random) -> int:
        """A random size: in a range small and large ones are equally likely, by ratio."""
        return self.at(random_.random())

    def __str__(self) -> str:
        """The documented form: "4096", "4096, 8192" or "1..8192"."""
        return ", ".join(map(str, self.listed)) or f"{self.least}..{self.most}"


def _waves_end(size: int, across: int, sms: int) -> int:
    """The number of TILES that fill waves of `sms` blocks with `size` rows, and need one more wave with another row."""

    def waves(rows: int, columns: int, size: int) -> int:
        return -(-(-(-size // rows) * -(-across // columns)) // sms)

    return sum(waves(*tile, size + 1) > waves(*tile, size) for tile in TILES)


def spread(ranges: Sequence[SizeRange], most: int) -> list[tuple[int, int, int]]:
    """At most `most` sizes (M, N, K), but at least all corners: the combinations of the ranges' ends.

    The other sizes are a low-discrepancy sequence in log space. A lattice would show few thresholds: 256 points have
    only 6 distinct values of each of M, N and K.
    """
    corners = [one.listed or tuple(one.at(share) for share in (0.0, 1.0)) for one in ranges]
    found = dict.fromkeys((m, n, k) for m, n, k in combinations(*corners))
    for number in range(1, most):
        if len(found) >= most:
            break
        m, n, k = (one.at(number / GOLDEN ** (place + 1) % 1.0) for place, one in enumerate(ranges))
        found[m, n, k] = None
    return list(found)
