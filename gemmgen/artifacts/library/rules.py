"""Which kernel computes which call: rules made of times, a table for each product and architecture."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from typing import Literal, Protocol

from gemmgen.artifacts.library.members import Member, Needs
from gemmgen.artifacts.library.sizes import SizeRange
from gemmgen.artifacts.library.spec import Product
from gemmgen.artifacts.library.table import AXES, Box, Regret, Sizes, regions, regret_of
from gemmgen.support.brief import brief
from gemmgen.support.errors import require

FINEST = 1.15  # of the ratios from a size of the grid to the next
BOUNDARIES = 512  # rows or columns up to which the grid has those that fill tiles, and one more
RAGGED = 37  # a size that no tile divides
DRAWN = 200  # sizes for the regret


class Clock(Protocol):
    """Where times come from.

    kind    "measured" or "predicted"
    device  the card that measured, or whose figures the model uses
    most    points of a grid that it is asked for
    """

    @property
    def kind(self) -> Literal["measured", "predicted"]: ...

    @property
    def device(self) -> str: ...

    @property
    def most(self) -> int: ...

    def times(self, members: Sequence[Member], sizes: Sizes, given: Needs) -> list[float]:
        """Microseconds of each for a call of these sizes that keeps what is `given`; infinite of one that fails."""
        ...


@dataclass(frozen=True)
class Rule:
    """Calls that keep what it `needs` and whose sizes are in the box go to a kernel, by its number.

    example  sizes of such a call, which no earlier rule takes
    """

    needs: Needs
    box: Box
    kernel: int
    example: Sizes


@dataclass(frozen=True)
class Point:
    """Times at a point of a grid, of the members that serve it, by their numbers."""

    given: Needs
    sizes: Sizes
    times_us: dict[int, float]


@brief
@dataclass(frozen=True)
class Choice:
    """The kernels of a product on one architecture, and the rules that choose among them; the first that fits counts.

    times   what the rules were made of
    regret  of sizes that are not among these
    """

    product: Product
    arch: str
    members: tuple[Member, ...]
    rules: tuple[Rule, ...]
    kind: Literal["measured", "predicted"]
    device: str
    times: tuple[Point, ...]
    regret: Regret

    def chosen(self, sizes: Sizes, given: Needs) -> int:
        """The number of the kernel that a call goes to."""
        return next(rule.kernel for rule in self.rules if rule.needs in given and rule.box.holds(sizes))


def choose(product: Product, arch: str, members: Sequence[Member], clock: Clock, *, seed: int = 0) -> Choice:
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
        own = any(_section_of(members[rule.kernel]) == section for rule in made)
        if own:
            points += timed
            rules += made
    kept = sorted({rule.kernel for rule in rules})
    numbers = {old: new for new, old in enumerate(kept)}
    final = tuple(members[number] for number in kept)
    renamed = tuple(replace(rule, kernel=numbers[rule.kernel]) for rule in rules)
    drawn = Choice(product, arch, final, renamed, clock.kind, clock.device, (), Regret(0, 0.0, 0.0, 0.0))
    shown = tuple(_renumbered(point, numbers) for point in points)
    return Choice(product, arch, final, renamed, clock.kind, clock.device, shown, _regret(drawn, clock, seed, shown))


@dataclass(frozen=True)
class _Section:
    """Calls that rules tell apart before sizes: what they keep, and sizes that kernels are built for."""

    needs: Needs
    fixed: tuple[tuple[str, int], ...]

    def takes(self, member: Member) -> bool:
        return member.needs in self.needs and set(member.fixed.items()) <= set(self.fixed)


def _section_of(member: Member) -> _Section:
    return _Section(member.needs, tuple(sorted(member.fixed.items())))


def _sections(members: Sequence[Member]) -> list[_Section]:
    """Those of the members, the narrowest first."""
    found = {_section_of(member) for member in members}
    return sorted(found, key=lambda one: (-len(one.fixed), -int(one.needs), one.fixed))


def _section_rules(
    section: _Section, product: Product, members: Sequence[Member], clock: Clock
) -> tuple[list[Point], list[Rule]]:
    numbers = [number for number, member in enumerate(members) if section.takes(member)]
    taken = [members[number] for number in numbers]
    fixed = dict(section.fixed)
    box = Box().within(fixed)
    grid = grid_of(product, taken, fixed, clock.most)
    if len(taken) == 1:
        return [], [Rule(section.needs, box, numbers[0], _ragged(fixed))]
    times = [clock.times(taken, sizes, section.needs) for sizes in grid]
    rules = [Rule(section.needs, one.box, numbers[one.kernel], one.example) for one in regions(grid, times, box)]
    points = [
        Point(section.needs, sizes, dict(zip(numbers, row, strict=True)))
        for sizes, row in zip(grid, times, strict=True)
    ]
    return points, rules


def _ragged(fixed: Mapping[str, int]) -> Sizes:
    """Sizes that no tile divides, but those that are fixed."""
    m, n, k = (fixed.get(axis, RAGGED) for axis in AXES)
    return m, n, k


def grid_of(product: Product, members: Sequence[Member], fixed: dict[str, int], most: int) -> list[Sizes]:
    """At most so many sizes: each `ratio` times the one before, and those at which tiles of `members` begin to fit."""
    ranges = [
        SizeRange((fixed[axis],)) if axis in fixed else one for axis, one in zip(AXES, product.ranges, strict=True)
    ]
    ratio = FINEST
    while math.prod(len(one.points(ratio)) for one in ranges) > most:
        ratio *= FINEST
    axes = [set(one.points(ratio)) for one in ranges]
    for place, axis in enumerate(AXES):
        wanted = axes[place] | set(_boundaries(axis, ranges[place], members))
        others = math.prod(len(one) for other, one in enumerate(axes) if other != place)
        if len(wanted) * others <= most:
            axes[place] = wanted
    return [(m, n, k) for m, n, k in combinations(*(sorted(one) for one in axes))]


def _boundaries(axis: str, sizes: SizeRange, members: Sequence[Member]) -> Iterator[int]:
    """Sizes that fill a tile of a member, and one more."""
    if sizes.listed:
        return
    for tile in {dict(member.source.launch.grid).get(axis, 1) for member in members}:
        yield from (size for size in (tile, tile + 1) if sizes.least <= size <= sizes.most and tile <= BOUNDARIES)


def _renumbered(point: Point, numbers: dict[int, int]) -> Point:
    kept = {numbers[old]: time for old, time in point.times_us.items() if old in numbers}
    return Point(point.given, point.sizes, kept)


def _regret(choice: Choice, clock: Clock, seed: int, known: Sequence[Point]) -> Regret:
    """Of DRAWN sizes: in turn calls that keep all that a kernel may need, and calls that keep nothing."""
    seen = {point.sizes for point in known}
    random_ = random.Random(f"{seed} {choice.product.name} {choice.arch}")
    most = Needs(max((int(member.needs) for member in choice.members), default=0))
    some = sum(not member.needs for member in choice.members) > 1
    ratios = []
    for number in range(DRAWN):
        m, n, k = (one.draw(random_) for one in choice.product.ranges)
        given = Needs.NONE if some and number % 2 else most
        if (m, n, k) in seen and len(seen) < DRAWN and not all(one.listed for one in choice.product.ranges):
            continue
        ratios.append(_ratio(choice, clock, (m, n, k), given))
    return regret_of(ratios)


def _ratio(choice: Choice, clock: Clock, sizes: Sizes, given: Needs) -> float:
    """The chosen kernel's time over that of the best one that serves the call."""
    able = [number for number, member in enumerate(choice.members) if member.serves(sizes, given)]
    if len(able) == 1:
        return 1.0
    times = dict(zip(able, clock.times([choice.members[one] for one in able], sizes, given), strict=True))
    return times[choice.chosen(sizes, given)] / min(times.values())
