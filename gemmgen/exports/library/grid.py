"""The sizes at which a library's kernels are timed, and the division by kernels of an axis along which sizes vary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product as combinations

import numpy as np

from gemmgen.exports.library.members import Contestant
from gemmgen.exports.library.sizes import EIGHT, FEW, LARGE, SizeRange, spread
from gemmgen.exports.library.steps import Division
from gemmgen.exports.library.table import AXES, Sizes
from gemmgen.problem.device import DeviceSpec

FINEST = 1.2  # the least ratio of sizes that grow by a ratio
EVENLY = 4  # a quarter of the grid's sizes are evenly spaced; others grow by a ratio, or fill tiles or waves
CLOSER = 1.005  # edges closer than a ratio are merged; the ratio grows by this factor until the grid fits


def grid_of(
    ranges: Sequence[SizeRange], members: Sequence[Contestant], device: DeviceSpec, most: int, batch: int = 1
) -> list[Sizes]:
    """The grid of sizes at which `members` are timed on `device`.

    If several of M, N and K are ranges, about `most` points spread over them; else about `most` points in all, and at
    least two per combination of listed sizes. If all are listed, their combinations.

    Along a single range sizes grow by a ratio, and some are evenly spaced. As long as there is room, sizes are added
    that fill the first tiles or a wave of a member, and the next size of each, which needs one more.
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
    """The way in which `member` divides an axis on `device`; tiles do not divide K."""
    tiling, (m, n, _) = member.tiling(device), (one.nearest(LARGE) for one in ranges)
    rows, columns = -(-m // tiling.rows), -(-n // tiling.columns)
    tile, across = {"M": (tiling.rows, columns), "N": (tiling.columns, rows), "K": (1, 0)}[axis]
    blocks = tiling.blocks * batch
    return Division(tile, max(1, across * blocks), tiling.at_once, device.sms)
