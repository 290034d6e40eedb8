"""The smallest set of kernels that serves many sizes well: a pure function of their times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]  # microseconds, a row per size, a column per kernel; infinite where one does not serve

CLOSE = 0.02  # a kernel that takes so much longer than the fastest candidate is as good as it
SHARE = 0.95  # of the sizes at which a set is to have such a kernel
FAR = 0.04  # the largest slowdown at any size; few repeated measurements differ by as much
HOPELESS_LOG = 20.0  # log of a time ratio where no kernel of a set serves a size


@dataclass(frozen=True)
class KernelSet:
    """Some kernels, and how much longer the best of them takes than the fastest candidate.

    kernels   their columns in the times, ascending
    slowdown  geometric mean over the sizes: 0.01 is 1%
    p95       slowdown at the 95th percentile
    close     share of the sizes at which the slowdown is at most CLOSE
    worst     slowdown at the worst size
    """

    kernels: tuple[int, ...]
    slowdown: float
    p95: float
    close: float
    worst: float

    @property
    def suffices(self) -> bool:
        return self.close >= SHARE


def smallest_set(
    times: Sequence[Sequence[float]] | Times,
    most: int,
    weights: Sequence[float] | Times | None = None,
    far: float = math.inf,
) -> tuple[KernelSet, ...]:
    """The best set found of one kernel, of two, and so on, until a set suffices or has `most` kernels.

    The last set is the result; the others show the cost of fewer kernels.

    weights  weights of the sizes; None: all sizes count alike
    far      a set suffices only if its slowdown is below this at every size

    Each set adds the kernel that gains most to the set before; then kernels are exchanged as long as that gains. Once a
    set suffices except for `far`, the kernels that gain most at its worst size join. A set that gains nothing over a
    smaller one is left out.
    """
    values = np.array(times, np.float64)
    served = np.isfinite(values.min(axis=1))  # a size that no kernel serves tells nothing
    shares = (np.ones(len(values)) if weights is None else np.array(weights, np.float64))[served]
    table = _Table(_costs(values[served]), shares / shares.sum())
    found = [table.measured(table.exchanged((table.best_addition(()),)))]
    while len(found[-1].kernels) < min(most, values.shape[1]):
        last = found[-1]
        if not last.suffices:
            larger = table.exchanged((*last.kernels, table.best_addition(last.kernels)))
        elif last.worst >= far:
            larger = tuple(sorted((*last.kernels, table.best_at_worst(last.kernels))))
        else:
            break
        if table.lost(larger) >= table.lost(last.kernels):
            break
        found.append(table.measured(larger))
    return tuple(found)


def weights_of(sizes: Sequence[int]) -> Times:
    """Weights of ascending sizes along a range: half for log-uniform sizes, half for uniform sizes."""
    if len(sizes) < 2:
        return np.ones(len(sizes))
    even, ratio = (np.gradient(values) for values in (np.array(sizes, np.float64), np.log(sizes)))
    weights: Times = even / even.sum() + ratio / ratio.sum()
    return weights


def near_best(times: Times, within: float, most: int) -> tuple[int, ...]:
    """The most useful kernels, at most `most`, of those that at some size take at most `within` longer than the
    fastest."""
    costs = _costs(times[np.isfinite(times.min(axis=1))])
    close = costs <= math.log1p(within)
    counts = (close / np.maximum(1, close.sum(axis=1, keepdims=True))).sum(axis=0)  # a size's rivals share it
    best = {int(one) for one in costs.argmin(axis=1)}
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda one: (one not in best, -counts[one]))
    return tuple(sorted(order[:most]))


def _costs(times: Times) -> Times:
    """log(time / fastest) for each size and kernel."""
    costs: Times = np.minimum(np.log(times / times.min(axis=1, keepdims=True)), HOPELESS_LOG)
    return costs


@dataclass(frozen=True, eq=False)
class _Table:
    """Costs for each size and kernel, and the share of calls that each size stands for."""

    costs: Times
    shares: Times

    def held(self, kernels: Sequence[int]) -> Times:
        """The cost of the best of `kernels` at each size."""
        if not kernels:
            return np.full(len(self.costs), math.inf)
        held: Times = self.costs[:, list(kernels)].min(axis=1)
        return held

    def lost(self, kernels: Sequence[int]) -> float:
        return float(self.held(kernels) @ self.shares)

    def best_addition(self, kernels: Sequence[int]) -> int:
        return int((self.shares @ np.minimum(self.costs, self.held(kernels)[:, None])).argmin())

    def best_at_worst(self, kernels: Sequence[int]) -> int:
        """The fastest kernel at the size where `kernels` cost most."""
        return int(self.costs[self.held(kernels).argmax()].argmin())

    def exchanged(self, kernels: tuple[int, ...]) -> tuple[int, ...]:
        """The set after one kernel at a time was exchanged for a better one, until no exchange gains."""
        while True:
            best = kernels
            for one in kernels:
                others = tuple(other for other in kernels if other != one)
                tried = (*others, self.best_addition(others))
                if self.lost(tried) < self.lost(best) - 1e-12:
                    best = tried
            if best == kernels:
                return tuple(sorted(kernels))
            kernels = best

    def measured(self, kernels: tuple[int, ...]) -> KernelSet:
        held = self.held(kernels)
        order = held.argsort()
        place = min(int(np.searchsorted(self.shares[order].cumsum(), 0.95)), len(held) - 1)
        slowdown, p95 = math.expm1(float(held @ self.shares)), math.expm1(float(held[order][place]))
        close = float(self.shares[held <= math.log1p(CLOSE)].sum())
        return KernelSet(kernels, slowdown, p95, close, math.expm1(float(held.max())))
