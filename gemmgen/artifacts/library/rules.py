"""Which kernel computes which call: rules made of times, a table for each product and architecture."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import islice
from itertools import product as combinations
from operator import or_
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from gemmgen.artifacts.library.estimates import Estimates, Numbers, estimated
from gemmgen.artifacts.library.fallback import Contestant, CublasLt
from gemmgen.artifacts.library.members import Member, Needs
from gemmgen.artifacts.library.sizes import SizeRange
from gemmgen.artifacts.library.spec import Product
from gemmgen.artifacts.library.table import AXES, Box, Regret, Sizes, paying, regions, regret_of, without_idle
from gemmgen.problem.device import DeviceSpec
from gemmgen.support.brief import brief
from gemmgen.support.errors import require

GOLDEN = 1.2207440846057596  # the root of x^4 = x + 1: shares of its powers fill a cube evenly (Roberts, 2018)
FINEST = 1.15  # of the ratios from a size of the grid to the next
BOUNDARIES = 512  # rows or columns up to which the grid has those that fill tiles, and one more
# Of the mean of log(time): a kernel without which choices lose less is left out. Predictions err by a fifth.
PAYS = {"measured": 0.003, "predicted": 0.02}
DRAWN, ATTEMPTS = 200, 10  # sizes for the regret, and for each as many draws where it was seen


class Clock(Protocol):
    """Where times come from.

    kind  "measured" or "predicted"
    spec  of the card that measured, or whose figures the model uses
    most  points of a grid that it is asked for
    """

    @property
    def kind(self) -> Literal["measured", "predicted"]: ...

    @property
    def spec(self) -> DeviceSpec: ...

    @property
    def most(self) -> int: ...

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[list[float]]:
        """Microseconds of each member, by points, for calls of these sizes that keep what is `given`.

        Infinite of one that fails.
        """
        ...


@dataclass(frozen=True)
class Rule:
    """Calls that keep what it `needs` and whose sizes are in the box go to one of `kernels`, by their numbers.

    estimates  of the time of each, where there are several: the least decides
    examples   for each kernel the sizes of a call that goes to it, which no earlier rule takes
    """

    needs: Needs
    box: Box
    kernels: tuple[int, ...]
    examples: tuple[Sizes, ...]
    estimates: Estimates | None = None

    def kernel(self, sizes: Sizes, batch: int = 1) -> int:
        """The number of the one that serves a call of these sizes."""
        return self.kernels[0 if self.estimates is None else self.estimates.best(sizes, batch)]


@dataclass(frozen=True)
class Point:
    """Times at a point of a grid, of the members that serve it, by their numbers."""

    given: Needs
    sizes: Sizes
    times_us: dict[int, float]


@dataclass(frozen=True)
class Drawn:
    """A call that rules were not made of: the time of the kernel that they choose, and that of the best one."""

    given: Needs
    sizes: Sizes
    us: float
    best_us: float


@brief
@dataclass(frozen=True)
class Choice:
    """The kernels of a product on one architecture, and the rules that choose among them; the first that fits counts.

    times  what the rules were made of
    drawn  sizes that are not among these
    """

    product: Product
    arch: str
    members: tuple[Contestant, ...]
    rules: tuple[Rule, ...]
    kind: Literal["measured", "predicted"]
    device: str
    times: tuple[Point, ...]
    drawn: tuple[Drawn, ...] = ()

    @cached_property
    def regret(self) -> Regret:
        """How much longer choices take than the best kernel, over the sizes drawn."""
        return regret_of([one.us / one.best_us for one in self.drawn])

    @property
    def kernels(self) -> tuple[Member, ...]:
        """Without cuBLASLt."""
        return tuple(one for one in self.members if isinstance(one, Member))

    def chosen(self, sizes: Sizes, given: Needs) -> int:
        """The number of the kernel that a call goes to."""
        rule = next(rule for rule in self.rules if rule.needs in given and rule.box.holds(sizes))
        return rule.kernel(sizes, self.product.batch or 1)


def choose(product: Product, arch: str, members: Sequence[Contestant], clock: Clock, *, seed: int = 0) -> Choice:
    """Time `members` over a grid, make rules, and keep those that have one.

    Raises InvalidInput where none of them serves every call.
    """
    any_call = [member for member in members if not member.needs and not member.fixed]
    names = ", ".join(member.name for member in members)
    require(bool(any_call), f"no kernel of {product.name} for {arch} serves every call: there are {names}")
    points: list[Point] = []
    rules: list[Rule] = []
    for section in _sections(members):
        timed, made = _section_rules(section, product, members, clock)
        own = any(_section_of(members[one]) == section for rule in made for one in rule.kernels)
        if own:
            points += timed
            rules += made
    kept = sorted({one for rule in rules for one in rule.kernels})
    numbers = {old: new for new, old in enumerate(kept)}
    final = tuple(members[number] for number in kept)
    renamed = tuple(replace(rule, kernels=tuple(numbers[one] for one in rule.kernels)) for rule in rules)
    shown = tuple(_renumbered(point, numbers) for point in points)
    chosen = Choice(product, arch, final, renamed, clock.kind, clock.spec.name, shown)
    return replace(chosen, drawn=tuple(draw(chosen, clock, str(seed))))


@dataclass(frozen=True)
class _Section:
    """Calls that rules tell apart before sizes: what they keep, and sizes that kernels are built for."""

    needs: Needs
    fixed: tuple[tuple[str, int], ...]

    def takes(self, member: Contestant) -> bool:
        return member.needs in self.needs and set(member.fixed.items()) <= set(self.fixed)


def _section_of(member: Contestant) -> _Section:
    return _Section(member.needs, tuple(sorted(member.fixed.items())))


def _sections(members: Sequence[Contestant]) -> list[_Section]:
    """Those of the members, the narrowest first."""
    found = {_section_of(member) for member in members}
    return sorted(found, key=lambda one: (-len(one.fixed), -int(one.needs), one.fixed))


def _section_rules(
    section: _Section, product: Product, members: Sequence[Contestant], clock: Clock
) -> tuple[list[Point], list[Rule]]:
    numbers = [number for number, member in enumerate(members) if section.takes(member)]
    taken = [members[number] for number in numbers]
    fixed = dict(section.fixed)
    box = Box().within(fixed)
    ranges = _reached(section, product, members)
    grid = grid_of(ranges, taken, clock.most)
    if len(taken) == 1:
        return [], [Rule(section.needs, box, (numbers[0],), (grid[len(grid) // 2],))]
    times = clock.times(taken, grid, section.needs)
    if any(not one.listed for one in ranges):
        made = [_estimates_rule(product, ranges, taken, grid, times, clock)]
    else:
        made = _box_rules(taken, grid, times, box, clock)
    rules = [
        Rule(section.needs, one.box.within(fixed), tuple(numbers[n] for n in one.kernels), one.examples, one.estimates)
        for one in made
    ]
    points = [
        Point(section.needs, sizes, dict(zip(numbers, row, strict=True)))
        for sizes, row in zip(grid, times, strict=True)
    ]
    return points, rules


def _box_rules(
    members: Sequence[Contestant], grid: Sequence[Sizes], times: Sequence[Sequence[float]], box: Box, clock: Clock
) -> list[Rule]:
    """A rule for each part of `box` that a kernel is the best for."""
    worth = paying(grid, times, box, least=PAYS[clock.kind])
    served = [[row[one] for one in worth] for row in times]
    return [
        Rule(Needs.NONE, _some_depth(one.box, members[worth[one.kernel]]), (worth[one.kernel],), (one.example,))
        for one in regions(grid, served, box)
    ]


def _estimates_rule(
    product: Product,
    ranges: Sequence[SizeRange],
    members: Sequence[Contestant],
    grid: Sequence[Sizes],
    times: Sequence[Sequence[float]],
    clock: Clock,
) -> Rule:
    """One rule for all sizes: the kernel with the least estimate. Kernels that failed somewhere are left out."""
    sound = [place for place, column in enumerate(zip(*times, strict=True)) if all(map(math.isfinite, column))]
    require(bool(sound), f"no kernel of {product.name} could be timed at all {len(grid)} sizes")
    batch, measured = product.batch or 1, np.array(times, np.float64)[:, sound]
    tilings = [members[place].tiling(clock.spec) for place in sound]
    made = estimated(ranges, tilings, grid, measured, clock.spec.sms, batch)
    found = np.array([made.times_us(sizes, batch) for sizes in grid], np.float64)

    def taken(some: tuple[int, ...]) -> float:
        return float(np.log(np.take_along_axis(measured, _chosen(found, some)[:, None], axis=1)).mean())

    worth = without_idle(len(sound), taken, PAYS[clock.kind])
    chosen = _chosen(found, worth).tolist()
    used = [one for one in worth if one in chosen]
    examples = tuple(min((s for s, one in zip(grid, chosen, strict=True) if one == use), key=math.prod) for use in used)
    several = made.of(used) if len(used) > 1 else None
    kernels = tuple(sound[one] for one in used)
    library = next((members[one] for one in kernels if isinstance(members[one], CublasLt)), members[kernels[0]])
    return Rule(Needs.NONE, _some_depth(Box(), library), kernels, examples, several)


def _chosen(found: Numbers, some: tuple[int, ...]) -> npt.NDArray[np.intp]:
    """At each point, of `some` kernels the one with the least estimate."""
    places: npt.NDArray[np.intp] = np.array(some, np.intp)[found[:, list(some)].argmin(axis=1)]
    return places


def _some_depth(box: Box, member: Contestant) -> Box:
    """`box`; of cuBLASLt without K = 0, which it does not take."""
    m, n, k, elements = box.least
    return replace(box, least=(m, n, max(1, k), elements)) if isinstance(member, CublasLt) else box


def _reached(section: _Section, product: Product, members: Sequence[Contestant]) -> list[SizeRange]:
    """The sizes of calls that come to a section: those that are fixed, or next to those that an earlier one takes."""
    fixed = dict(section.fixed)
    earlier = (dict(one.fixed) for one in map(_section_of, members) if one.needs in section.needs)
    taken = {item for other in earlier if len(other) > len(fixed) for item in other.items()}
    return [
        SizeRange((fixed[axis],)) if axis in fixed else one.beside({size for name, size in taken if name == axis})
        for axis, one in zip(AXES, product.ranges, strict=True)
    ]


def grid_of(ranges: Sequence[SizeRange], members: Sequence[Contestant], most: int) -> list[Sizes]:
    """At most so many sizes, besides those that are listed: where two of M, N and K are ranges, spread over them.

    Else each size of a single range is a ratio times the one before; those come to it that fill a tile of `members`.
    """
    if are_spread(ranges):
        return _spread(ranges, most)
    ratio = FINEST
    while math.prod(len(one.points(ratio)) for one in ranges) > max(
        most, math.prod(len(one.listed) or 2 for one in ranges)
    ):
        ratio *= FINEST
    axes = [{*one.points(ratio), *_boundaries(axis, one, members)} for axis, one in zip(AXES, ranges, strict=True)]
    return [(m, n, k) for m, n, k in combinations(*(sorted(one) for one in axes))]


def are_spread(ranges: Sequence[SizeRange]) -> bool:
    return sum(not one.listed for one in ranges) > 1


def _spread(ranges: Sequence[SizeRange], most: int) -> list[Sizes]:
    """Both ends of each range with those of the others; then, by ratio, evenly and never in a row.

    On a lattice few thresholds could be told: of 256 sizes it has 6 of each of M, N and K.
    """
    corners = [one.listed or tuple(one.at(share) for share in (0.0, 1.0)) for one in ranges]
    found = dict.fromkeys((m, n, k) for m, n, k in combinations(*corners))
    for number in range(1, most):
        if len(found) >= most:
            break
        m, n, k = (one.at(number / GOLDEN ** (place + 1) % 1.0) for place, one in enumerate(ranges))
        found[m, n, k] = None
    return list(found)


def _boundaries(axis: str, sizes: SizeRange, members: Sequence[Contestant]) -> Iterator[int]:
    """Sizes that fill a tile of a member, and one more."""
    if sizes.listed:
        return
    kernels = (member for member in members if isinstance(member, Member))
    for tile in {dict(kernel.source.launch.grid).get(axis, 1) for kernel in kernels}:
        yield from (size for size in (tile, tile + 1) if sizes.least <= size <= sizes.most and tile <= BOUNDARIES)


def _renumbered(point: Point, numbers: dict[int, int]) -> Point:
    kept = {numbers[old]: time for old, time in point.times_us.items() if old in numbers}
    return Point(point.given, point.sizes, kept)


def draw(choice: Choice, clock: Clock, seed: str, count: int = DRAWN) -> Iterator[Drawn]:
    """So many calls of sizes that are not of the grid, timed.

    Half of them keep all that a kernel may need, and half nothing where that leaves a choice.
    """
    seen = {point.sizes for point in choice.times}
    random_ = random.Random(f"{seed} {choice.product.name} {choice.arch}")
    most = reduce(or_, (member.needs for member in choice.members))
    some = sum(not member.needs for member in choice.members) > 1
    listed = all(one.listed for one in choice.product.ranges)  # there are no others
    draws = (_drawn(choice.product, random_) for _ in range(ATTEMPTS * count))
    sizes = list(islice((one for one in draws if listed or one not in seen), count))
    halves = [(most, sizes[::2]), (Needs.NONE, sizes[1::2])] if some else [(most, sizes)]
    for given, points in halves:
        yield from _timed(choice, clock, points, given)


def _drawn(product: Product, random_: random.Random) -> Sizes:
    m, n, k = (one.draw(random_) for one in product.ranges)
    return m, n, k


def _timed(choice: Choice, clock: Clock, points: Sequence[Sizes], given: Needs) -> Iterator[Drawn]:
    """The chosen kernels' times, and those of the best ones that serve such calls."""
    served: dict[tuple[int, ...], list[Sizes]] = {}
    for sizes in points:
        able = (number for number, member in enumerate(choice.members) if member.serves(sizes, given))
        served.setdefault(tuple(able), []).append(sizes)
    for numbers, some in served.items():
        rows = clock.times([choice.members[one] for one in numbers], some, given)
        for sizes, row in zip(some, rows, strict=True):
            if not math.isfinite(min(row)):
                continue  # no kernel could be timed
            yield Drawn(given, sizes, row[numbers.index(choice.chosen(sizes, given))], min(row))
