"""Sizes that a library is made for: listed, in a range, or any."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, replace

from gemmgen.problem.sizes import RUNTIME, SIZE_LIMIT
from gemmgen.support.errors import require, whole

ANY_MOST = 8192  # the largest of "?" for which choices are made; larger ones are served as it is
SMALL, LARGE = 512, 4096  # for which kernels are tuned, or the nearest ones of a range
ROWS = (1, 16, 64, 256)  # likewise of M, besides its largest up to LARGE: tiles of `wgmma` fit few rows
BESIDE = 64  # from a size that has kernels of its own to one that stands for all others


@dataclass(frozen=True)
class SizeRange:
    """What M, N or K may be: one of `listed`, or without these all from `least` to `most`.

    Raises InvalidInput for sizes outside 1 .. SIZE_LIMIT and for an empty range.
    """

    listed: tuple[int, ...] = ()
    least: int = 1
    most: int = ANY_MOST

    def __post_init__(self) -> None:
        require(self.least <= self.most, f"{self.least}..{self.most} holds no size: write the least one first")
        for size in (*self.listed, self.least, self.most):
            require(1 <= size <= SIZE_LIMIT, f"a size of {size}: sizes are 1 to {SIZE_LIMIT}")

    @classmethod
    def parse(cls, name: str, value: object) -> SizeRange:
        """4096, [4096, 8192], "1..8192" or "?". Raises InvalidInput that begins with `name`."""
        if isinstance(value, list):
            require(bool(value), f"{name} = []: list at least one size")
            return cls(tuple(sorted({whole(name, size) for size in value})))
        if not isinstance(value, str):
            return cls((whole(name, value),))
        if value == RUNTIME:
            return cls()
        ends = re.fullmatch(r"([0-9]{1,10})\.\.([0-9]{1,10})", value)
        require(ends is not None, f'{name} = "{value}": write a size, a list of sizes, a range "1..8192" or "?"')
        assert ends is not None
        return cls((), int(ends[1]), int(ends[2]))

    @property
    def smallest(self) -> int:
        return self.listed[0] if self.listed else self.least

    @property
    def largest(self) -> int:
        return self.listed[-1] if self.listed else self.most

    def points(self, ratio: float) -> tuple[int, ...]:
        """The listed sizes; of a range both ends, and between them each `ratio` times the one before."""
        if self.listed:
            return self.listed
        steps = math.ceil(math.log(self.most / self.least) / math.log(ratio)) if self.most > self.least else 0
        inner = (round(self.least * ratio**step) for step in range(steps))
        return tuple(sorted({*inner, self.most}))

    def at(self, share: float) -> int:
        """The size at a share of the way from the least to the most, by ratio; one of those that are listed."""
        if self.listed:
            return self.listed[min(int(share * len(self.listed)), len(self.listed) - 1)]
        return round(self.least * math.pow(self.most / self.least, share))

    def beside(self, taken: set[int]) -> SizeRange:
        """With sizes a little larger in the place of listed ones that are taken."""
        return replace(self, listed=tuple(size + BESIDE * (size in taken) for size in self.listed))

    def nearest(self, size: int) -> int:
        """The one of them that is closest to `size`, by ratio."""
        if self.listed:
            return min(self.listed, key=lambda one: abs(math.log(one / size)))
        return min(max(size, self.least), self.most)

    def typical(self) -> tuple[int, ...]:
        """Those for which kernels are tuned, where this counts rows: few ones behave unlike many."""
        return self.listed or tuple(sorted({self.nearest(size) for size in (*ROWS, min(LARGE, self.most))}))

    def draw(self, random_: random.Random) -> int:
        """One of them: of a range as many small as large ones, by ratio."""
        return self.at(random_.random())

    def __str__(self) -> str:
        """As it is documented: "4096", "4096, 8192" or "1..8192"."""
        return ", ".join(map(str, self.listed)) or f"{self.least}..{self.most}"
