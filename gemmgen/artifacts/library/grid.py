"""The sizes at which a library's kernels are timed, and how kernels divide an axis along which sizes vary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product as combinations

import numpy as np

from gemmgen.artifacts.library.fallback import Contestant
from gemmgen.artifacts.library.sizes import EIGHT, FEW, LARGE, SizeRange, spread
from gemmgen.artifacts.library.steps import Division
from gemmgen.artifacts.library.table import AXES, Sizes
from gemmgen.problem.device import DeviceSpec

FINEST = 1.2  # of the ratios from a size of the grid to the next
EVENLY = 4  # one of so many sizes of a grid lies evenly over the range; others by ratio, or where tiles or waves end
CLOSER = 1.005  # edges of tiles and waves that are closer to each other than such a ratio, or a power of it, are one


def grid_of(
    ranges: Sequence[SizeRange], members: Sequence[Contestant], device: DeviceSpec, most: int, batch: int = 1
) -> list[Sizes]:
    """At most so many sizes, besides those that are listed: where two of M, N and K are ranges, spread over them.

    Along a single range each size is a ratio times the one before; sizes are added at which `members` on `device` need
    another tile or another wave, and one more of each, as long as there is room.
    """
    varying = [axis for axis, one in zip(AXES, ranges, strict=True) if not one.listed]
    if len(varying) > 1:
        return spread(ranges, most)
    places = math.prod(len(one.listed) or 1 for one in ranges)  # of each size along the range
    axes = [
        _along(axis, ranges, members, device, max(2, most // places), batch) if axis in varying else one.listed
        for axis, one in zip(AXES, ranges, strict=True)
    ]
    return [(m, n, k) for m, n, k in combinations(*axes)]


def _along(
    axis: str, ranges: Sequence[SizeRange], members: Sequence[Contestant], device: DeviceSpec, most: int, batch: int
) -> list[int]:
    """Sizes along the range of `axis`: see `grid_of`."""
    sizes, ratio = ranges[AXES.index(axis)], FINEST
    large = replace(sizes, least=min(sizes.most, max(sizes.least, FEW)))
    while len(large.points(ratio)) > most / 2:
        ratio *= FINEST
    few = {size for size in range(EIGHT, FEW, EIGHT) if sizes.least <= size <= sizes.most}  # no tile is smaller
    even = np.linspace(sizes.least, sizes.most, most // EVENLY).round().astype(int)  # calls of large sizes differ, too
    plain, gap = {sizes.least, *few, *large.points(ratio), *even.tolist()}, 1.0
    divisions = (division(one, axis, ranges, device, batch) for one in members) if axis != "K" else ()
    edges = sorted({edge for one in divisions for edge in one.edges(sizes.most)})
    while True:
        kept: list[int] = []
        for edge in edges:
            if not kept or edge > kept[-1] * gap:
                kept.append(edge)
        found = plain | {size for edge in kept for size in (edge, edge + 1) if sizes.least <= size <= sizes.most}
        if len(found) <= most or not kept:
            return sorted(found)
        gap = gap * CLOSER if kept[1:] else math.inf
        edges = edges if kept[1:] else []


def division(member: Contestant, axis: str, ranges: Sequence[SizeRange], device: DeviceSpec, batch: int) -> Division:
    """How `member` divides an axis on `device`; tiles do not divide K."""
    tiling, (m, n, _) = member.tiling(device), (one.nearest(LARGE) for one in ranges)
    rows, columns = -(-m // tiling.rows), -(-n // tiling.columns)
    tile, across = {"M": (tiling.rows, columns), "N": (tiling.columns, rows), "K": (1, 0)}[axis]
    blocks = tiling.blocks * batch
    return Division(tile, max(1, across * blocks), tiling.at_once, device.sms)
