"""Calls from which no rules were made, drawn and timed, to see how good the choices are there."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from gemmgen.exports.library.choice import Choice, Clock, Drawn, Timed
from gemmgen.exports.library.fallback import Contestant
from gemmgen.exports.library.members import Needs
from gemmgen.exports.library.spec import OTHER_BATCHES, Product
from gemmgen.exports.library.table import Sizes

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
