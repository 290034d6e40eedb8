"""The choice among a product's kernels as a record: its rules, the times from which they were made, and times of other
calls, which show how good it is.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import Literal, NamedTuple, Protocol

from gemmgen.exports.library.estimates import Estimates
from gemmgen.exports.library.members import Contestant, Member, Needs
from gemmgen.exports.library.spec import OTHER_BATCHES, Product
from gemmgen.exports.library.steps import Steps
from gemmgen.exports.library.table import Box, Regret, Sizes, regret_of
from gemmgen.problem.device import DeviceSpec
from gemmgen.search.kernel_set import KernelSet
from gemmgen.support.short_repr import brief


class Timed(NamedTuple):
    """Times of one call in microseconds.

    us          time of each kernel; infinite for one that fails, NaN for one that was not timed because the model rules
                it out
    library_us  time of cuBLASLt's first heuristic in the same run; None if there is none
    """

    us: Sequence[float]
    library_us: float | None = None

    @property
    def best_us(self) -> float:
        """The least time; infinite if all kernels fail."""
        return min(filter(math.isfinite, self.us), default=math.inf)


class Clock(Protocol):
    """A source of times.

    kind  "measured" or "predicted"
    spec  the card that measured, or whose figures the model uses
    most  most points of a grid to time
    """

    @property
    def kind(self) -> Literal["measured", "predicted"]: ...

    @property
    def spec(self) -> DeviceSpec: ...

    @property
    def most(self) -> int: ...

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        """Return the times at each of the points, for calls of these sizes that meet what is `given`."""


@dataclass(frozen=True)
class Rule:
    """A rule: calls that meet its `needs` and whose sizes are in the box go to one of `kernels`, given by number.

    examples   for each kernel the sizes of a call that goes to it and matches no earlier rule
    batches    batches of these calls, if the number of products varies
    estimates  estimates of the kernels' times, the least of which decides, if several sizes are ranges
    steps      steps along the size that is a range, if only one is
    """

    needs: Needs
    box: Box
    kernels: tuple[int, ...]
    examples: tuple[Sizes, ...]
    estimates: Estimates | None = None
    steps: Steps | None = None
    batches: tuple[int, ...] = ()

    def kernel(self, sizes: Sizes, batch: int = 1) -> int:
        """The number of the kernel that serves a call of these sizes."""
        if self.steps is not None:
            return self.kernels[self.steps.kernel(sizes)]
        return self.kernels[0 if self.estimates is None else self.estimates.best(sizes, batch)]


@dataclass(frozen=True)
class Point:
    """The times at a point of a grid, of the members that serve it, by their numbers.

    best_us     least time of all candidates, including those that are not in the library
    library_us  time of cuBLASLt's first heuristic; None if it was not timed
    batch       the number of products
    """

    given: Needs
    sizes: Sizes
    times_us: dict[int, float]
    best_us: float
    library_us: float | None = None
    batch: int = 1


@dataclass(frozen=True)
class Drawn:
    """A call from which no rule was made: the time of the kernel that the rules choose, and other times.

    best_us     time of the fastest of all candidates, including those that are not in the library
    library_us  time of cuBLASLt's first heuristic; None if it was not timed
    batch       the number of products
    """

    given: Needs
    sizes: Sizes
    us: float
    best_us: float
    library_us: float | None = None
    batch: int = 1


@brief
@dataclass(frozen=True)
class Choice:
    """The kernels of a product on one architecture, and the rules that choose among them; the first match counts.

    times   the times from which the rules were made
    sets    for each part of the table with a choice, the kernel sets and their slowdowns, from one kernel to all
    rivals  candidates that were timed with the members but are not in the library
    drawn   timed calls of sizes that are not in `times`
    load_ms milliseconds to load the machine code of all kernels on the device; None if nothing is measured
    """

    product: Product
    arch: str
    members: tuple[Contestant, ...]
    rules: tuple[Rule, ...]
    kind: Literal["measured", "predicted"]
    device: str
    times: tuple[Point, ...]
    sets: tuple[tuple[KernelSet, ...], ...] = ()
    rivals: tuple[Member, ...] = ()
    drawn: tuple[Drawn, ...] = ()
    load_ms: float | None = None

    @property
    def object_bytes(self) -> int:
        """The bytes of machine code of all kernels."""
        return sum(len(one.compiled.cubin) for one in self.kernels if one.compiled is not None)

    @cached_property
    def regret(self) -> Regret:
        """How much longer the chosen kernels take than the fastest candidate, over the sizes drawn."""
        return regret_of([one.us / one.best_us for one in self.drawn])

    @cached_property
    def beside_library(self) -> tuple[float, float] | None:
        """(geometric mean, least) of cuBLASLt's time over the choice's; None if it was not timed."""
        return beside_library(self.drawn)

    @property
    def kernels(self) -> tuple[Member, ...]:
        """The members without cuBLASLt."""
        return tuple(one for one in self.members if isinstance(one, Member))

    def chosen(self, sizes: Sizes, given: Needs, batch: int | None = None) -> int:
        """The number of the kernel to which a call goes; `batch` replaces the number of products of `product`."""
        rule = next(rule for rule in self.rules if rule.needs in given and rule.box.holds(sizes))
        return rule.kernel(sizes, batch or self.product.batch or 1)


def beside_library(drawn: Sequence[Drawn]) -> tuple[float, float] | None:
    """(geometric mean, least) of cuBLASLt's time over the choice's; None if it was not timed."""
    ratios = [one.library_us / one.us for one in drawn if one.library_us is not None]
    return (math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios)) if ratios else None


DRAWN, ATTEMPTS = 64, 10  # sizes for the regret, and for each as many draws where it was seen


def times_of(
    products: Sequence[Product], members: Sequence[Contestant], points: Sequence[Sizes], given: Needs, clock: Clock
) -> list[Timed]:
    """Times at each of the points, each as a call of the product beside it; these products differ in their batch."""
    found: dict[int, Timed] = {}
    for one in dict.fromkeys(products):
        places = [place for place, other in enumerate(products) if other == one]
        own = members if one == members[0].product else [replace(member, product=one) for member in members]
        found |= zip(places, clock.times(own, [points[place] for place in places], given), strict=True)
    return [found[place] for place in range(len(points))]


def draw(choice: Choice, clock: Clock, seed: str, count: int = DRAWN) -> Iterator[Drawn]:
    """Up to `count` timed calls.

    Their sizes are not in the grid, unless all sizes of the product are listed or a short range has no others. Half of
    the calls are aligned and dense, as far as any kernel needs it. The other half are neither, if several kernels serve
    such calls; else all calls are of the first kind.
    """
    seen = {point.sizes for point in choice.times}
    random_ = random.Random(f"{seed} {choice.product.name} {choice.arch}")
    most = reduce(or_, (member.needs for member in choice.members))
    some = sum(not member.needs for member in choice.members) > 1
    listed = all(one.listed for one in choice.product.ranges)  # there are no others
    draws = [_drawn(choice.product, random_) for _ in range(ATTEMPTS * count)]
    others = [one for one in draws if listed or one not in seen]
    sizes = (others or draws)[:count]  # a short range may have no others
    halves = [(most, sizes[::2]), (Needs.NONE, sizes[1::2])] if some else [(most, sizes)]
    for given, points in halves:
        yield from _timed(choice, clock, points, given)


def _drawn(product: Product, random_: random.Random) -> Sizes:
    m, n, k = (one.draw(random_) for one in product.ranges)
    return m, n, k


def _timed(choice: Choice, clock: Clock, points: Sequence[Sizes], given: Needs) -> Iterator[Drawn]:
    """The times at `points` of the chosen kernels, and of the best candidates that serve such calls."""
    candidates = (*choice.members, *choice.rivals)
    served: dict[tuple[int, ...], list[Sizes]] = {}
    for sizes in points:
        able = (number for number, member in enumerate(candidates) if member.serves(sizes, given))
        served.setdefault(tuple(able), []).append(sizes)
    for numbers, some in served.items():
        products = [choice.product.at(place, sizes, OTHER_BATCHES) for place, sizes in enumerate(some)]
        rows = times_of(products, [candidates[one] for one in numbers], some, given, clock)
        for sizes, one, row in zip(some, products, rows, strict=True):
            taken = row.us[numbers.index(choice.chosen(sizes, given, one.batch))]
            if math.isfinite(taken):  # else it could not be timed
                yield Drawn(given, sizes, taken, row.best_us, row.library_us, one.batch or 1)
