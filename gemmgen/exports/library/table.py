"""From times to rules, as a pure function: which kernel computes which sizes, in a few readable boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.support.errors import require

AXES = ("M", "N", "K")
FEATURES = (*AXES, "M * N")  # that rules bound: the last tells how many blocks there are
# The least reduction of log(time / best) for a rule: in the mean over all points, and in the sum, as times are noisy.
WORTH, LEAST_SAVED = 0.0005, 0.05
MOST_RULES = 48  # of one table
TELLS = 0.5  # of log(time / best): a kernel that is slower still tells no more of where to split
NEVER = 1e3  # log of a time, of a kernel that cannot serve a point

Sizes = tuple[int, int, int]
Bounds = tuple[int, ...]  # of FEATURES
Costs = npt.NDArray[np.float64]


def features(sizes: Sizes) -> Bounds:
    """M, N, K and M * N."""
    m, n, k = sizes
    return m, n, k, m * n


@dataclass(frozen=True)
class Box:
    """Sizes whose FEATURES are from `least` to `most`, both included."""

    least: Bounds = (0, 0, 0, 0)
    most: Bounds = (SIZE_LIMIT, SIZE_LIMIT, SIZE_LIMIT, SIZE_LIMIT**2)

    def holds(self, sizes: Sizes) -> bool:
        return all(low <= size <= high for low, size, high in zip(self.least, features(sizes), self.most, strict=True))

    def within(self, fixed: Mapping[str, int]) -> Box:
        """The part of the box that has the `fixed` sizes, by name."""
        least, most = (
            tuple(fixed.get(axis, bound) for axis, bound in zip(FEATURES, bounds, strict=True))
            for bounds in (self.least, self.most)
        )
        return Box(least, most)

    def split(self, axis: int, most: int) -> tuple[Box, Box]:
        """Split the box along an axis: (up to `most`, beyond it)."""
        below = tuple(most if place == axis else bound for place, bound in enumerate(self.most))
        above = tuple(most + 1 if place == axis else bound for place, bound in enumerate(self.least))
        return replace(self, most=below), replace(self, least=above)


@dataclass(frozen=True)
class Region:
    """A box, the number of the kernel that computes it, and the smallest product in it that has a time."""

    box: Box
    kernel: int
    example: Sizes


def regions(points: Sequence[Sizes], times: Sequence[Sequence[float]], box: Box | None = None) -> tuple[Region, ...]:
    """Divide `box` into boxes, each with the kernel with the least times there.

    times  for each point the times of all kernels; infinite if a kernel cannot serve it

    Boxes are split where that saves most, or where kernels' times separate best, and merged again where it saved less
    than a rule is worth. The second criterion is needed if a kernel is the fastest only in the middle, as then no first
    split saves anything. Raises InvalidInput for a point that no kernel serves: one kernel must serve all of `box`.
    """
    whole = _Leaf(box or Box(), np.array([features(point) for point in points], np.int64), _costs(times))
    worth = max(LEAST_SAVED, WORTH * len(points))
    leaves = _best_tree(whole, worth)
    while len(leaves) > MOST_RULES:
        worth *= 2
        leaves = _best_tree(whole, worth)
    return tuple(_merged([Region(leaf.box, leaf.kernel, leaf.example) for leaf in leaves]))


def _best_tree(whole: _Leaf, worth: float) -> list[_Leaf]:
    """The tree that loses least, rules included, of those that each way to split leads to."""
    trees = [_worthwhile(whole, worth, way) for way in (_saved, _parted)]
    return min(trees, key=lambda tree: sum(leaf.lost for leaf in tree) + worth * len(tree))


def _worthwhile(leaf: _Leaf, worth: float, way: Way) -> list[_Leaf]:
    """The boxes that `leaf` splits into, each saving at least `worth`; `leaf` itself if no split does."""
    split = leaf.best_split(way) if leaf.lost > worth else None
    if split is None:
        return [leaf]
    parts = [part for half in leaf.halves(split) for part in _worthwhile(half, worth, way)]
    saved = leaf.lost - sum(part.lost for part in parts)
    return parts if saved > worth * (len(parts) - 1) else [leaf]


def paying(
    points: Sequence[Sizes], times: Sequence[Sequence[float]], box: Box | None = None, *, least: float
) -> tuple[int, ...]:
    """The kernels, by their columns of `times`, without which rules would lose; at least one.

    least  least increase of the mean of log(time) for which a kernel is kept
    """
    values = np.array(times, np.float64)
    return without_idle(values.shape[1], lambda kept: _taken(points, values, kept, box), least)


def without_idle(count: int, taken: Callable[[tuple[int, ...]], float], least: float) -> tuple[int, ...]:
    """Of `count` kernels, those whose removal increases the mean of log(time), given by `taken`, by at least
    `least`."""
    kept = tuple(range(count))
    lost = taken(kept)
    while len(kept) > 1:
        without = [tuple(one for one in kept if one != left) for left in kept]
        losses = [taken(some) for some in without]
        place = min(range(len(kept)), key=lambda one: (losses[one], -one))  # of equals the first one stays
        if losses[place] - lost >= least:
            break
        kept = without[place]
    return kept


def _taken(points: Sequence[Sizes], times: Costs, kernels: tuple[int, ...], box: Box | None) -> float:
    """The mean of log(time) of choices among these kernels; infinite if a point is not served."""
    some = times[:, kernels]
    if not np.isfinite(some.min(axis=1)).all():
        return math.inf
    found = regions(points, some.tolist(), box)
    taken = [row[chosen(found, point) or 0] for point, row in zip(points, some, strict=True)]
    return float(np.log(taken).mean())


def chosen(found: Sequence[Region], sizes: Sizes) -> int | None:
    """The kernel of the first region that contains `sizes`."""
    return next((region.kernel for region in found if region.box.holds(sizes)), None)


@dataclass(frozen=True)
class Regret:
    """How much longer the chosen kernels take than the fastest candidate: 0.01 is 1%.

    mean  geometric mean; p95: the 95th percentile
    """

    points: int
    arithmetic: float
    mean: float
    p95: float
    worst: float


def regret_of(ratios: Sequence[float]) -> Regret:
    """The regret for these ratios of chosen to fastest times. Raises InvalidInput if there are none."""
    require(len(ratios) > 0, "regret of no sizes")
    values = np.array(ratios, np.float64)
    mean = math.exp(float(np.log(values).mean()))
    arithmetic = float(values.mean()) - 1
    return Regret(len(ratios), arithmetic, mean - 1, float(np.quantile(values, 0.95)) - 1, float(values.max()) - 1)


# How good it is to split behind each of the `steps` of points in a row, whose `costs` these are.
Way = Callable[[Costs, npt.NDArray[np.intp]], Costs]


def _saved(costs: Costs, steps: npt.NDArray[np.intp]) -> Costs:
    """The reduction in cost by two kernels, one per side."""
    below = np.cumsum(costs, axis=0)[steps]
    saved: Costs = -below.min(axis=1) - (costs.sum(axis=0) - below).min(axis=1)
    return saved


def _parted(costs: Costs, steps: npt.NDArray[np.intp]) -> Costs:
    """How well a split explains the costs, by their means on both sides: a step of a regression tree."""
    seen = np.minimum(costs, TELLS)
    below, count = np.cumsum(seen, axis=0)[steps], (steps + 1)[:, None]
    above = seen.sum(axis=0) - below
    parted: Costs = (below**2 / count + above**2 / (len(seen) - count)).sum(axis=1)
    return parted


@dataclass(frozen=True)
class _Split:
    """A split along `axis` behind the size `most`, and its benefit."""

    good: float
    axis: int
    most: int


@dataclass(frozen=True, eq=False)
class _Leaf:
    box: Box
    points: npt.NDArray[np.int64]
    costs: Costs

    @cached_property
    def _total(self) -> Costs:
        total: Costs = self.costs.sum(axis=0)
        return total

    @property
    def kernel(self) -> int:
        return int(np.argmin(self._total))

    @property
    def lost(self) -> float:
        """The cost of one kernel for the whole box."""
        return float(self._total.min())

    @property
    def example(self) -> Sizes:
        """The smallest product in the box."""
        m, n, k, _ = min(self.points.tolist(), key=lambda point: point[2] * point[3])
        return m, n, k

    def best_split(self, way: Way) -> _Split | None:
        """The best split; None if all points are equal."""
        found = [split for axis in range(len(FEATURES)) if (split := self._along(axis, way)) is not None]
        return max(found, key=lambda split: split.good, default=None)

    def _along(self, axis: int, way: Way) -> _Split | None:
        """The best threshold along an axis."""
        order = np.argsort(self.points[:, axis], kind="stable")
        sizes = self.points[order, axis]
        steps = np.flatnonzero(sizes[1:] > sizes[:-1])  # the last place of each size but the largest
        if not len(steps):
            return None
        good = way(self.costs[order], steps)
        best = int(np.argmax(good))
        return _Split(float(good[best]), axis, between(int(sizes[steps[best]]), int(sizes[steps[best] + 1])))

    def halves(self, split: _Split) -> tuple[_Leaf, _Leaf]:
        below = self.points[:, split.axis] <= split.most
        boxes = self.box.split(split.axis, split.most)
        return (
            _Leaf(boxes[0], self.points[below], self.costs[below]),
            _Leaf(boxes[1], self.points[~below], self.costs[~below]),
        )


def between(low: int, high: int) -> int:
    """The last size that belongs to `low` rather than to `high`, by ratio."""
    return max(low, min(high - 1, math.isqrt(low * high)))


def _costs(times: Sequence[Sequence[float]]) -> Costs:
    """log(time / best) for each point and kernel."""
    values = np.array(times, np.float64)
    require(values.ndim == 2 and values.size > 0, "no times to choose by")
    best = values.min(axis=1, keepdims=True)
    require(bool(np.isfinite(best).all()), "a point has no kernel that serves it")
    costs: Costs = np.minimum(np.log(values / best), NEVER)
    return costs


def _merged(found: list[Region]) -> list[Region]:
    """Merge neighbours with the same kernel that together form a box."""
    for first, second in combinations(range(len(found)), 2):
        box = _union(found[first].box, found[second].box)
        if box is not None and found[first].kernel == found[second].kernel:
            joined = replace(found[first], box=box)
            return _merged([*found[:first], joined, *found[first + 1 : second], *found[second + 1 :]])
    return found


def _union(one: Box, other: Box) -> Box | None:
    """The two as one box; None if they do not form one."""
    places = range(len(FEATURES))
    apart = [place for place in places if _side(one, place) != _side(other, place)]
    if len(apart) != 1:
        return None
    low, high = sorted((_side(one, apart[0]), _side(other, apart[0])))
    if low[1] + 1 != high[0]:
        return None
    least = tuple(low[0] if place == apart[0] else one.least[place] for place in places)
    most = tuple(high[1] if place == apart[0] else one.most[place] for place in places)
    return Box(least, most)


def _side(box: Box, axis: int) -> tuple[int, int]:
    return box.least[axis], box.most[axis]
