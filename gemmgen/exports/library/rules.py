"""Rules made from times over a grid of sizes, which say which kernel computes which call: one table per product and
architecture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product as combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gemmgen.exports.library.choice import Choice, Clock, Point, Rule, Timed, draw, times_of
from gemmgen.exports.library.estimates import Numbers, estimated
from gemmgen.exports.library.members import Contestant, CublasLt, Member, Needs
from gemmgen.exports.library.sizes import EIGHT, FEW, LARGE, SizeRange, spread
from gemmgen.exports.library.spec import Product
from gemmgen.exports.library.steps import Division, Steps, behind, compared, steps_of
from gemmgen.exports.library.table import AXES, Box, Sizes, paying, regions, without_idle
from gemmgen.problem.device import DeviceSpec
from gemmgen.search.kernel_set import FAR, KernelSet, smallest_set, weights_of
from gemmgen.search.order import HOPELESS
from gemmgen.support.errors import require
from gemmgen.support.words import plural

# Least gain of a kernel, in mean log(time): a kernel that gains less is dropped. Predictions err by a fifth.
PAYS = {"measured": 0.003, "predicted": 0.02}
NO_SLOWER = {"measured": FAR, "predicted": math.inf}  # see `smallest_set`
FIRST, CLOSER = 0.6, 3  # share of a grid's points that come first; rounds that say where the others lie
A_FEW, FOR_EACH = 32, 8  # sizes along a range that are timed where few kernels compete, and more for each of them
COMPARED = 8  # kernels whose estimates a rule compares, at most: it decides in less than 100 ns


def choose(product: Product, arch: str, members: Sequence[Contestant], clock: Clock, *, seed: int = 0) -> Choice:
    """Time `members` over a grid, make rules, and keep the members that have a rule.

    Raises InvalidInput if none of them serves every call.
    """
    any_call = [member for member in members if not member.needs and not member.fixed]
    names = ", ".join(member.name for member in members)
    require(bool(any_call), f"no kernel of {product.name} for {arch} serves every call: there are {names}")
    found = [one for one in (_part(section, product, members, clock) for section in _sections(members)) if one]
    rules = [rule for one in found for rule in one.rules]
    kept = sorted({one for rule in rules for one in rule.kernels})
    numbers = {old: new for new, old in enumerate(kept)}
    final = tuple(members[number] for number in kept)
    rivals = tuple(one for one in members if isinstance(one, Member) and one not in final)
    renamed = tuple(replace(rule, kernels=tuple(numbers[one] for one in rule.kernels)) for rule in rules)
    shown = tuple(_renumbered(point, numbers) for one in found for point in one.points)
    sets = tuple(one.sets for one in found if one.sets)
    chosen = Choice(product, arch, final, renamed, clock.kind, clock.spec.name, shown, sets, rivals)
    return replace(chosen, drawn=tuple(draw(chosen, clock, str(seed))))


@dataclass(frozen=True)
class _Part:
    """The rules for one section's calls, and the times from which they were made."""

    rules: tuple[Rule, ...]
    points: tuple[Point, ...] = ()
    sets: tuple[KernelSet, ...] = ()


@dataclass(frozen=True)
class _Section:
    """Calls that rules tell apart before their sizes: by conditions, and by sizes for which kernels are built."""

    needs: Needs
    fixed: tuple[tuple[str, int], ...]

    def takes(self, member: Contestant) -> bool:
        return member.needs in self.needs and set(member.fixed.items()) <= set(self.fixed)


def _section_of(member: Contestant) -> _Section:
    return _Section(member.needs, tuple(sorted(member.fixed.items())))


def _sections(members: Sequence[Contestant]) -> list[_Section]:
    """The sections of the members, the narrowest first."""
    found = {_section_of(member) for member in members}
    return sorted(found, key=lambda one: (-len(one.fixed), -int(one.needs), one.fixed))


def _part(section: _Section, product: Product, members: Sequence[Contestant], clock: Clock) -> _Part | None:
    """The rules of a section; None if none of its own kernels is chosen, as an outer section's rules suffice."""
    numbers = [number for number, member in enumerate(members) if section.takes(member)]
    taken = [members[number] for number in numbers]
    fixed = dict(section.fixed)
    box = Box().within(fixed)
    ranges = _reached(section, product, members)
    varying = [axis for axis, one in zip(AXES, ranges, strict=True) if not one.listed]
    stepped = len(varying) == 1 and not product.varies and all(len(one.listed) in (0, 1) for one in ranges)
    most = min(clock.most, A_FEW + FOR_EACH * len(taken)) if stepped else clock.most
    grid = grid_of(ranges, taken, clock.spec, int(FIRST * most) if stepped else most, product.matrices_c)
    if len(taken) == 1:
        return _Part((Rule(section.needs, box, (numbers[0],), (grid[len(grid) // 2],)),))
    rows = _rows(product, taken, grid, section.needs, clock)
    none = f"none of the {len(taken)} kernels of {product.name} could be timed at any of {plural(len(grid), 'size')}"
    require(bool(rows), none)
    if stepped:
        divisions = [division(one, varying[0], ranges, clock.spec, product.matrices_c) for one in taken]
        rows, sets, rule = _steps_rule(varying[0], product, taken, rows, divisions, section.needs, clock, most)
        made = [rule]
    else:
        times = _matrix(product, rows)
        grid, batches = [row.sizes for row in rows], [row.batch for row in rows]
        along = [sizes[AXES.index(varying[0])] for sizes in grid] if len(varying) == 1 else []
        weights = weights_of(along) if len(grid) == len(set(along)) else None
        sets = smallest_set(np.nan_to_num(times, nan=math.inf), product.most, weights, NO_SLOWER[clock.kind])
        if varying or product.varies:
            rule = _estimates_rule(ranges, taken, grid, batches, times, sets, clock)
            made = [rule if product.varies else replace(rule, batches=())]
        else:
            made = _box_rules(taken, grid, np.nan_to_num(times, nan=math.inf), sets[-1].kernels, box, clock)
    if not any(_section_of(taken[one]) == section for rule in made for one in rule.kernels):
        return None
    rules = tuple(
        replace(rule, needs=section.needs, box=rule.box.within(fixed), kernels=tuple(numbers[n] for n in rule.kernels))
        for rule in made
    )
    points = tuple(
        Point(section.needs, sizes, dict(zip(numbers, timed.us, strict=True)), timed.best_us, timed.library_us, batch)
        for sizes, batch, timed in rows
    )
    return _Part(rules, points, sets)


class _Row(NamedTuple):
    """Some sizes, the batch of the product with these sizes, and its times."""

    sizes: Sizes
    batch: int
    timed: Timed


def _rows(
    product: Product, members: Sequence[Contestant], grid: Sequence[Sizes], given: Needs, clock: Clock
) -> list[_Row]:
    """The sizes of the grid at which at least one kernel could be timed, with their times."""
    products = [product.at(place, sizes) for place, sizes in enumerate(grid)]
    timed = zip(grid, products, times_of(products, members, grid, given, clock), strict=True)
    return [_Row(sizes, one.batch or 1, row) for sizes, one, row in timed if any(map(math.isfinite, row.us))]


def _matrix(product: Product, rows: Sequence[_Row]) -> Numbers:
    """The times of the rows. A kernel that failed at one size is not used at any. Raises InvalidInput if none is
    left."""
    times = np.array([row.timed.us for row in rows], np.float64)
    failed = np.isinf(times).any(axis=0)
    times[:, failed] = math.inf
    require(not failed.all(), f"every kernel of {product.name} failed at one or more of {plural(len(rows), 'size')}")
    return times


def _steps_rule(
    axis: str,
    product: Product,
    members: Sequence[Contestant],
    rows: Sequence[_Row],
    divisions: Sequence[Division],
    given: Needs,
    clock: Clock,
    most: int,
) -> tuple[list[_Row], tuple[KernelSet, ...], Rule]:
    """One rule for all sizes, with steps along the axis that is a range; the sets that it was chosen from; and all
    times, at `most` sizes.

    Kernels are compared at all sizes by interpolated times: one that fills its tiles or a wave at few sizes is seldom
    the fastest at those that were timed. The times show where to look closer: kernels are timed where the set is slower
    than others, and in the middle of long steps; then set and steps are made again.
    """
    place = AXES.index(axis)
    found = list(rows)
    for turn in range(CLOSER + 1):
        along = [row.sizes[place] for row in found]
        times = _matrix(product, found)
        _, weights, costs = compared(along, times, divisions)
        sets = smallest_set(np.exp(costs), product.most, weights, NO_SLOWER[clock.kind])
        kernels = sets[-1].kernels
        steps = steps_of(axis, along, times[:, list(kernels)], [divisions[one] for one in kernels])
        if turn < CLOSER:
            room = max(0, most - len(found)) // (CLOSER - turn)
            more = behind(along, times, divisions, kernels)[: room // 2]
            more += steps.middles(sorted({*along, *more}), room - len(more))
            found += _rows(product, members, [_at(rows[0].sizes, axis, size) for size in more], given, clock)
            found.sort(key=lambda row: row.sizes[place])
    places, steps = steps.used()
    numbers = tuple(kernels[place] for place in places)
    examples = tuple(_example([row.sizes for row in found], steps, place) for place in range(len(places)))
    box = reduce(_some_depth, (members[one] for one in numbers), Box())
    return found, sets, Rule(Needs.NONE, box, numbers, examples, steps=steps if places[1:] else None)


def _example(grid: Sequence[Sizes], steps: Steps, place: int) -> Sizes:
    """Sizes that the kernel at this place serves: the first bound of its steps, or one more than the last bound."""
    step = steps.kernels.index(place)
    bound = steps.bounds[step] if step < len(steps.bounds) else (steps.bounds[-1] if steps.bounds else 0) + 1
    return _at(grid[0], steps.axis, bound)


def _at(sizes: Sizes, axis: str, size: int) -> Sizes:
    """`sizes` with another size along `axis`."""
    m, n, k = (size if name == axis else one for name, one in zip(AXES, sizes, strict=True))
    return m, n, k


def _box_rules(
    members: Sequence[Contestant],
    grid: Sequence[Sizes],
    times: Numbers,
    kernels: Sequence[int],
    box: Box,
    clock: Clock,
) -> list[Rule]:
    """A rule for each part of `box` in which one of `kernels` is the best."""
    some = times[:, list(kernels)]
    worth = [kernels[one] for one in paying(grid, some.tolist(), box, least=PAYS[clock.kind])]
    served = times[:, worth].tolist()
    return [
        Rule(Needs.NONE, _some_depth(one.box, members[worth[one.kernel]]), (worth[one.kernel],), (one.example,))
        for one in regions(grid, served, box)
    ]


def _estimates_rule(
    ranges: Sequence[SizeRange],
    members: Sequence[Contestant],
    grid: Sequence[Sizes],
    batches: Sequence[int],
    times: Numbers,
    sets: Sequence[KernelSet],
    clock: Clock,
) -> Rule:
    """One rule for all sizes: the kernel with the least estimate."""
    few = [one for one in sets if len(one.kernels) <= COMPARED][-1].kernels
    measured = without_gaps(times[:, list(few)])
    tilings = [members[place].tiling(clock.spec) for place in few]
    made = estimated(ranges, tilings, grid, measured, clock.spec.sms, batches)
    calls = list(zip(grid, batches, strict=True))
    found = np.array([made.times_us(sizes, batch) for sizes, batch in calls], np.float64)

    def taken(some: tuple[int, ...]) -> float:
        return float(np.log(np.take_along_axis(measured, _chosen(found, some)[:, None], axis=1)).mean())

    worth = without_idle(len(few), taken, PAYS[clock.kind])
    chosen = _chosen(found, worth).tolist()
    used = [one for one in worth if one in chosen]
    least = [min((c for c, one in zip(calls, chosen, strict=True) if one == use), key=_products) for use in used]
    examples, counts = zip(*least, strict=True)
    several = made.of(used) if len(used) > 1 else None
    kernels = tuple(few[one] for one in used)
    library = next((members[one] for one in kernels if isinstance(members[one], CublasLt)), members[kernels[0]])
    return Rule(Needs.NONE, _some_depth(Box(), library), kernels, examples, several, batches=counts)


def _products(call: tuple[Sizes, int]) -> int:
    sizes, batch = call
    return math.prod(sizes) * batch


def without_gaps(times: Numbers) -> Numbers:
    """`times` in which a kernel that was not timed is HOPELESS times as slow as the fastest, so that it has little
    weight in fits."""
    filled: Numbers = np.where(np.isfinite(times), times, HOPELESS * np.nanmin(times, axis=1, keepdims=True))
    return filled


def _chosen(found: Numbers, some: tuple[int, ...]) -> npt.NDArray[np.intp]:
    """At each point, the kernel of `some` with the least estimate."""
    places: npt.NDArray[np.intp] = np.array(some, np.intp)[found[:, list(some)].argmin(axis=1)]
    return places


def _some_depth(box: Box, member: Contestant) -> Box:
    """`box`, without K = 0 for cuBLASLt, which does not support it."""
    m, n, k, elements = box.least
    return replace(box, least=(m, n, max(1, k), elements)) if isinstance(member, CublasLt) else box


def _reached(section: _Section, product: Product, members: Sequence[Contestant]) -> list[SizeRange]:
    """The sizes at which a section is timed: its fixed sizes, and otherwise the product's.

    A listed size that an earlier section serves is replaced by one BESIDE larger.
    """
    fixed = dict(section.fixed)
    earlier = (dict(one.fixed) for one in map(_section_of, members) if one.needs in section.needs)
    taken = {item for other in earlier if len(other) > len(fixed) for item in other.items()}
    return [
        SizeRange((fixed[axis],)) if axis in fixed else one.beside({size for name, size in taken if name == axis})
        for axis, one in zip(AXES, product.ranges, strict=True)
    ]


def _renumbered(point: Point, numbers: dict[int, int]) -> Point:
    kept = {numbers[old]: time for old, time in point.times_us.items() if old in numbers}
    return replace(point, times_us=kept)


FINEST = 1.2  # the least ratio of sizes that grow by a ratio
EVENLY = 4  # a quarter of the grid's sizes are evenly spaced; others grow by a ratio, or fill tiles or waves
GAP_GROWTH = 1.005  # edges closer than a ratio are merged; the ratio grows by this factor until the grid fits


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
        gap = gap * GAP_GROWTH if kept[1:] else math.inf
        edges = edges if kept[1:] else []


def division(member: Contestant, axis: str, ranges: Sequence[SizeRange], device: DeviceSpec, batch: int) -> Division:
    """The way in which `member` divides an axis on `device`; tiles do not divide K."""
    tiling, (m, n, _) = member.tiling(device), (one.nearest(LARGE) for one in ranges)
    rows, columns = -(-m // tiling.rows), -(-n // tiling.columns)
    tile, across = {"M": (tiling.rows, columns), "N": (tiling.columns, rows), "K": (1, 0)}[axis]
    blocks = tiling.blocks * batch
    return Division(tile, max(1, across * blocks), tiling.at_once, device.sms)
