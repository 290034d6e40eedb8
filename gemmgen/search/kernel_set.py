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
HOPELESS_LOG = 20.0  # log of a time ratio where no kernel of a set serves a size


@dataclass(frozen=True)
class KernelSet:
    """Some kernels, and how much longer the best of them takes than the fastest of all candidates.

    kernels   their columns of the times, ascending
    slowdown  geometric mean over the sizes: 0.01 is 1%
    p95       at the 95th percentile
    close     share of the sizes at which it is at most CLOSE
    """

    kernels: tuple[int, ...]
    slowdown: float
    p95: float
    close: float

    @property
    def suffices(self) -> bool:
        return self.close >= SHARE


def smallest_set(times: Sequence[Sequence[float]] | Times, most: int) -> tuple[KernelSet, ...]:
    """The best set found of one kernel, of two, and so on, until one suffices or has `most` kernels; the last counts.

    Each set is the one before and the kernel that gains most; then kernels are exchanged as long as that gains. A set
    that gains nothing over a smaller one is left out. Sizes count alike: their choice is the caller's.
    """
    costs = _costs(np.array(times, np.float64))
    found = [_measured(costs, _exchanged(costs, (int(costs.mean(axis=0).argmin()),)))]
    while len(found[-1].kernels) < min(most, costs.shape[1]) and not found[-1].suffices:
        larger = _exchanged(costs, (*found[-1].kernels, _best_addition(costs, found[-1].kernels)))
        if _lost(costs, larger) >= _lost(costs, found[-1].kernels):
            break
        found.append(_measured(costs, larger))
    return tuple(found)


def near_best(times: Times, within: float, most: int) -> tuple[int, ...]:
    """Kernels that take at most `within` longer than the fastest at some size: at most `most`, those of most use."""
    costs = _costs(times)
    close = costs <= math.log1p(within)
    counts = (close / np.maximum(1, close.sum(axis=1, keepdims=True))).sum(axis=0)  # a size's rivals share it
    best = {int(one) for one in costs.argmin(axis=1)}
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda one: (one not in best, -counts[one]))
    return tuple(sorted(order[:most]))


def _costs(times: Times) -> Times:
    """log(time / fastest) of each size and kernel. Sizes that no kernel serves tell nothing and are left out."""
    fastest = times.min(axis=1, keepdims=True)
    served = np.isfinite(fastest[:, 0])
    costs: Times = np.minimum(np.log(times[served] / fastest[served]), HOPELESS_LOG)
    return costs


def _lost(costs: Times, kernels: Sequence[int]) -> float:
    """The mean of log(time of the best of `kernels` / time of the fastest)."""
    return float(costs[:, list(kernels)].min(axis=1).mean())


def _best_addition(costs: Times, kernels: Sequence[int]) -> int:
    held = costs[:, list(kernels)].min(axis=1, keepdims=True)
    return int(np.minimum(costs, held).mean(axis=0).argmin())


def _exchanged(costs: Times, kernels: tuple[int, ...]) -> tuple[int, ...]:
    """The set after one kernel at a time was exchanged for a better one, until no exchange gains."""
    while True:
        best = kernels
        for one in kernels:
            others = tuple(other for other in kernels if other != one)
            tried = (*others, _best_addition(costs, others)) if others else (int(costs.mean(axis=0).argmin()),)
            if _lost(costs, tried) < _lost(costs, best) - 1e-12:
                best = tried
        if best == kernels:
            return tuple(sorted(kernels))
        kernels = best


def _measured(costs: Times, kernels: tuple[int, ...]) -> KernelSet:
    held = costs[:, list(kernels)].min(axis=1)
    slowdown, p95 = (math.expm1(value) for value in (float(held.mean()), float(np.quantile(held, 0.95))))
    return KernelSet(kernels, slowdown, p95, float((held <= math.log1p(CLOSE)).mean()))
