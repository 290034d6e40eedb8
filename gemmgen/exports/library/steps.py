"""Steps along one range of sizes, each served by one kernel; a dispatcher finds the step by bisection.

Kernels are timed at some sizes. Between them a kernel's time is interpolated by a fitted cost model (launch, waves,
tiles, unused rows of the last tile), times a residual that changes slowly with the logarithm of the size.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby, pairwise
from typing import Any

import numpy as np

from gemmgen.exports.library.estimates import Numbers, least_squares
from gemmgen.exports.library.table import AXES, Sizes, between
from gemmgen.search.kernel_set import weights_of

FIRST_TILES = 4  # of an axis: at their ends a kernel's time steps by a fifth or more
FINE = 1.01  # ratio of the sizes at which interpolated times are compared
# The least reduction of log(time / best), as a mean over all calls, for a change of kernels: half a percent for one
# call in 100.
WORTH = 0.00005
MOST_STEPS = 96  # so that a person reads them
BEHIND = 0.02  # of log(time / best): from here on a set of kernels is behind


@dataclass(frozen=True)
class Division:
    """The division of one axis by a kernel on a card.

    tile     its extent along the axis
    blocks   thread blocks per tile of the axis: tiles across, times products of the batch, times splits of K
    at_once  blocks that the card runs at once
    sms      SMs of the card
    """

    tile: int
    blocks: int
    at_once: int
    sms: int

    def edges(self, most: int) -> Iterator[int]:
        """Sizes up to `most` that fill the first tiles, or a wave of blocks: the next size takes one more."""
        yield from range(self.tile, min(most, FIRST_TILES * self.tile) + 1, self.tile)
        for wave in count(1):
            edge = wave * self.at_once // self.blocks * self.tile
            if edge > most:
                return
            yield edge

    def terms(self, size: int) -> tuple[float, ...]:
        """The numbers of launches, waves, blocks on the busiest SM, blocks per SM, rows and edges of a product of this
        size.

        Last come the unused rows of the last tile, in tiles, and their product with the blocks on the busiest SM.
        """
        tiles = -(-size // self.tile)
        blocks, beyond = tiles * self.blocks, tiles - size / self.tile
        waves, turns = -(-blocks // self.at_once), -(-blocks // self.sms)
        return 1.0, waves, turns, blocks / self.sms, size, float(beyond > 0), beyond, beyond * turns


@dataclass(frozen=True)
class Steps:
    """The kernels along one axis: each serves sizes up to its bound, and the last one all beyond.

    axis       "M", "N" or "K"
    bounds     ascending: one less than there are kernels
    kernels    places among the kernels of a rule
    divisions  the division of the axis by each kernel of the rule
    """

    axis: str
    bounds: tuple[int, ...]
    kernels: tuple[int, ...]
    divisions: tuple[Division, ...]

    def of(self, places: Sequence[int]) -> Steps:
        """The steps among the kernels at these `places`, renumbered: sizes of a missing kernel go to the next one.

        If there is no next one, they go to the one before.
        """
        pairs = zip((*self.bounds, 0), self.kernels, strict=True)
        kept = [(bound, places.index(one)) for bound, one in pairs if one in places]
        bounds = tuple(bound for bound, _ in kept[:-1])
        return Steps(self.axis, bounds, tuple(one for _, one in kept), tuple(self.divisions[one] for one in places))

    def middles(self, known: Sequence[int], count: int) -> list[int]:
        """Sizes to time next, at most `count`, in the middle of gaps between those `known`.

        Steps without a known size come first, as their kernel was chosen only by interpolation. Then come the longest
        gap of each step, and other long gaps. A gap counts half by its ratio and half by its length, as calls do.
        """
        least, most = known[0], known[-1]
        firsts, lasts = (least, *(bound + 1 for bound in self.bounds)), (*self.bounds, most)
        gaps = []
        for first, last in zip(firsts, lasts, strict=True):
            ends = sorted({first - 1, *(size for size in known if first <= size <= last), last + 1})
            spans = [(low, high) for low, high in pairwise(ends) if high - low > 1 and low >= least]
            longest = sorted(((self._worth(*span, least, most), *span) for span in spans), reverse=True)
            gaps += [(len(ends) == 2, number == 0, *one) for number, one in enumerate(longest)]
        chosen = sorted(gaps, reverse=True)[:count]
        return sorted(max(low + 1, math.isqrt(low * high)) for *_, low, high in chosen)

    @staticmethod
    def _worth(low: int, high: int, least: int, most: int) -> float:
        return math.log(high / low) / math.log(most / least) + (high - low) / (most - least)

    def used(self) -> tuple[tuple[int, ...], Steps]:
        """(the kernels that serve a size, the steps among only these)."""
        places = tuple(sorted(set(self.kernels)))
        return places, self.of(places)

    def kernel(self, sizes: Sizes) -> int:
        """The place of the kernel for these sizes."""
        return self.kernels[bisect_left(self.bounds, sizes[AXES.index(self.axis)])]


def steps_of(axis: str, sizes: Sequence[int], times: Numbers, divisions: Sequence[Division]) -> Steps:
    """The steps that lose least by interpolated `times`, with few changes.

    sizes  along the axis, ascending: each has a row of `times`, with a column per kernel. An infinite time: the kernel
           failed. NaN: not timed. A kernel serves no such size, and none between two adjacent such sizes
    """
    fine, weights, costs = compared(sizes, times, divisions)
    costs, worth = costs * weights[:, None], WORTH
    while True:
        chosen = _path(costs, worth)
        changes = [place for place in range(1, len(fine)) if chosen[place] != chosen[place - 1]]
        if len(changes) < MOST_STEPS:
            break
        worth *= 1.5
    bounds = tuple(_bound(fine[place - 1], fine[place], divisions[chosen[place - 1]].tile) for place in changes)
    return Steps(axis, bounds, tuple(chosen[place] for place in (0, *changes)), tuple(divisions))


def behind(sizes: Sequence[int], times: Numbers, divisions: Sequence[Division], kernels: Sequence[int]) -> list[int]:
    """Sizes between these at which a set of `kernels` is behind other candidates, by interpolated times.

    Sizes with the most to gain come first. Of neighbouring sizes with the same best candidate only the one with the
    largest loss is listed. `times` are as for `steps_of`, with a column per candidate.
    """
    fine, weights, costs = compared(sizes, times, divisions)
    loss = costs[:, list(kernels)].min(axis=1)
    stretches: list[tuple[float, int]] = []
    for _, some in groupby(range(len(fine)), lambda place: (loss[place] > BEHIND, costs[place].argmin())):
        places = [*some]
        furthest = max(places, key=loss.__getitem__)
        if loss[furthest] > BEHIND and fine[furthest] not in sizes:
            stretches.append((float((loss * weights)[places].sum()), fine[furthest]))
    return [size for _, size in sorted(stretches, reverse=True)]


def compared(sizes: Sequence[int], times: Numbers, divisions: Sequence[Division]) -> tuple[list[int], Numbers, Numbers]:
    """(the sizes at which kernels are compared, their shares of all calls, each kernel's log(time / best) there).

    The arguments are as for `steps_of`.
    """
    fine = _fine(sizes, divisions)
    columns = zip(times.T, divisions, strict=True)
    found = np.column_stack([interpolated(sizes, column, fine, one) for column, one in columns])
    weights = weights_of(fine)
    return fine, weights / weights.sum(), np.log(found / found.min(axis=1, keepdims=True))


def interpolated(sizes: Sequence[int], times: Numbers, at: Sequence[int], division: Division) -> Numbers:
    """A kernel's times `at` some sizes, in microseconds, interpolated from those at others; infinite where these are
    not finite."""
    known = np.isfinite(times)
    result = np.full(len(at), math.inf)
    if not known.any():
        return result
    counts = np.array([division.terms(size) for size in sizes], np.float64)[known]
    costs, occur = np.zeros(counts.shape[1]), counts.any(axis=0)
    costs[occur] = least_squares((counts / times[known][:, None])[:, occur], np.ones(len(counts)))
    left = np.log(times[known] / (counts @ costs))
    logs = np.log(np.array(sizes, np.float64)[known])
    fitted = np.array([division.terms(size) for size in at], np.float64) @ costs
    above = np.minimum(np.searchsorted(sizes, at), len(sizes) - 1)
    exact = np.array(sizes)[above] == np.array(at)
    below = np.where(exact, above, np.maximum(above - 1, 0))
    serves = known[above] | known[below]
    result[serves] = (fitted * np.exp(np.interp(np.log(at), logs, left)))[serves]
    return result


def _fine(sizes: Sequence[int], divisions: Sequence[Division]) -> list[int]:
    """Sizes at which kernels are compared: those with times, the ends of tiles and waves, and others between."""
    least, most = sizes[0], sizes[-1]
    edges = {edge for one in divisions for edge in one.edges(most)}
    ladder = (round(least * FINE**step) for step in range(math.ceil(math.log(most / least) / math.log(FINE)) + 1))
    found = {*sizes, *edges, *(edge + 1 for edge in edges), *ladder}
    return sorted(size for size in found if least <= size <= most)


def _path(costs: Numbers, worth: float) -> list[int]:
    """The kernel for each point with the least total cost, where each change costs `worth` (Viterbi's algorithm)."""
    total, came = costs[0], []
    for row in costs[1:]:
        best = int(total.argmin())
        changes = total > total[best] + worth
        came.append(np.where(changes, best, np.arange(len(total))))
        total = np.where(changes, total[best] + worth, total) + row
    path = [int(total.argmin())]
    for before in reversed(came):
        path.append(int(before[path[-1]]))
    return path[::-1]


def _bound(low: int, high: int, tile: int) -> int:
    """The last size for the kernel chosen at `low` if another is chosen at `high`: a size that fills its tiles."""
    full = max(-(-low // tile), between(low, high) // tile) * tile
    return min(full, high - 1)


def steps_from(document: Mapping[str, Any]) -> Steps:
    """Read Steps from the document of `dataclasses.asdict`."""
    divisions = tuple(Division(**one) for one in document["divisions"])
    return Steps(document["axis"], tuple(document["bounds"]), tuple(document["kernels"]), divisions)
