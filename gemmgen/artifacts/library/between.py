"""Times at sizes between those that were measured: the model's, corrected by what it is off nearby.

A grid of a few hundred sizes of three ranges is too coarse to show where tiles and waves end; the model knows that, and
the measured times how fast the kernel is there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gemmgen.artifacts.library.fallback import Contestant
from gemmgen.artifacts.library.members import Member
from gemmgen.artifacts.library.table import Sizes
from gemmgen.problem.device import DeviceSpec

NEAR = 0.3  # of a squared distance between sizes, in powers of 2: points closer than this count alike

Numbers = npt.NDArray[np.float64]


def times_between(
    members: Sequence[Contestant],
    points: Sequence[Sizes],
    times: Sequence[Sequence[float]],
    sizes: Sequence[Sizes],
    spec: DeviceSpec,
) -> list[list[float]]:
    """Microseconds of each member at `sizes`, by sizes, from its `times` at `points`.

    Infinite where they are infinite at the nearest point.
    """
    measured = np.array(times, np.float64)
    there, here = (_predicted(members, some, spec) for some in (points, sizes))
    apart = _squared_distances(sizes, points)
    off = [_nearby(column, apart) for column in np.log(measured / there).T]
    rows: list[list[float]] = (here * np.exp(np.stack(off, axis=1))).tolist()
    return rows


def _predicted(members: Sequence[Contestant], sizes: Sequence[Sizes], spec: DeviceSpec) -> Numbers:
    """The model's times; of cuBLASLt, which it does not know, those of the best kernel."""
    kernels = {number: one for number, one in enumerate(members) if isinstance(one, Member)}
    known = {number: [one.predicted_us(some, spec) for some in sizes] for number, one in kernels.items()}
    best = [min(column) for column in zip(*known.values(), strict=True)]
    columns = [known.get(number, best) for number in range(len(members))]
    return np.array(list(zip(*columns, strict=True)), np.float64)


def _squared_distances(sizes: Sequence[Sizes], points: Sequence[Sizes]) -> Numbers:
    """Of each of `sizes` from each point, where a size twice as large is 1 away."""
    here, there = (np.log2(np.array(some, np.float64)) for some in (sizes, points))
    steps: Numbers = here[:, None, :] - there[None, :, :]
    apart: Numbers = np.square(steps).sum(axis=2)
    return apart


def _nearby(logs: Numbers, apart: Numbers) -> Numbers:
    """Means of the points' finite values, the nearer the heavier; infinite where the nearest one is."""
    finite = np.isfinite(logs)
    weights = np.where(finite, (apart + NEAR) ** -2, 0.0)
    total = np.maximum(weights.sum(axis=1), np.finfo(np.float64).tiny)
    means = (weights * np.where(finite, logs, 0.0)).sum(axis=1) / total
    found: Numbers = np.where(finite[apart.argmin(axis=1)], means, math.inf)
    return found
