"""Kernels' times as functions of the sizes, for a dispatcher to compare if several sizes of a product vary.

A kernel's estimate is a sum of costs for its launch, each wave of blocks, each block on the busiest SM and the elements
that it moves. The sum is multiplied by a factor that is interpolated between a few sizes. Both are fitted to times at a
few hundred sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.exports.library.sizes import SizeRange
from gemmgen.exports.library.table import Sizes

Numbers = npt.NDArray[np.float64]

NODES = {3: 4, 2: 6, 1: 4}  # of each axis that varies, by how many do: a few points of the grid to each
SMOOTH = 0.1  # in points: how much a factor without a time near keeps to 1
RIVALS = 4.0  # a kernel's time counts e^-4 where it takes twice as long as the best one: nobody chooses it there
LEAST_WEIGHT = 0.01
STEPS = 1000  # of a fit
NEGLIGIBLE = 1e-4  # share of a time that is no cost anywhere
DIGITS, FACTOR_DIGITS = 6, 4  # of costs and of factors, as the dispatcher's text holds them


@dataclass(frozen=True)
class Tiling:
    """The way in which a kernel divides C, and how many blocks run at once.

    rows, columns  size of the tile of C that the grid counts
    blocks         blocks per tile: more than one with split-K
    at_once        blocks that the card runs at once
    """

    rows: int
    columns: int
    blocks: int
    at_once: int


@dataclass(frozen=True)
class Axis:
    """The sizes along one axis at which factors are given: `nodes` places from the octave `first`, `per_octave` per
    octave."""

    first: float
    per_octave: float
    nodes: int

    @classmethod
    def of(cls, sizes: SizeRange, nodes: int) -> Axis:
        first, last = octave(sizes.smallest), octave(sizes.largest)
        return cls(first, _short((nodes - 1) / (last - first)), nodes) if last > first else cls(first, 0.0, 1)

    def place(self, size: int) -> tuple[int, float]:
        """(the node before `size`, the share of the way to the next node); sizes beyond the ends have the end's
        factor."""
        along = min(max((octave(size) - self.first) * self.per_octave, 0.0), float(self.nodes - 1))
        node = min(int(along), max(0, self.nodes - 2))
        return node, along - node

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes of the nodes."""
        return tuple(_size_at(self.first + (node / self.per_octave if node else 0.0)) for node in range(self.nodes))


@dataclass(frozen=True)
class Estimate:
    """The estimate of one kernel: microseconds for each of TERMS, and the factors at the nodes, with K varying
    fastest."""

    tiling: Tiling
    costs: tuple[float, ...]
    factors: tuple[float, ...]


# The terms of a product's time: its launch, each wave of blocks and each k of it, each turn (a block on the busiest SM)
# and each k of it, each element of C, each element of A and B.
TERMS = ("start", "wave", "wave_k", "turn", "turn_k", "c", "ab")


@dataclass(frozen=True)
class Estimates:
    """Estimates for several kernels on a card of `sms` SMs; `axes` are those of M, N and K."""

    sms: int
    axes: tuple[Axis, Axis, Axis]
    kernels: tuple[Estimate, ...]

    def times_us(self, sizes: Sizes, batch: int = 1) -> list[float]:
        """Microseconds of each kernel for a product of these sizes, as the dispatcher computes them."""
        near = corners(self.axes, sizes)
        return [
            sum(cost * count for cost, count in zip(one.costs, terms(one.tiling, self.sms, sizes, batch), strict=True))
            * sum(weight * one.factors[node] for node, weight in near)
            for one in self.kernels
        ]

    def best(self, sizes: Sizes, batch: int = 1) -> int:
        """The place of the kernel with the least estimate."""
        times = self.times_us(sizes, batch)
        return times.index(min(times))

    def of(self, places: Sequence[int]) -> Estimates:
        """The estimates of only the kernels at `places`."""
        return replace(self, kernels=tuple(self.kernels[place] for place in places))

    @property
    def nodes(self) -> list[tuple[float, ...]]:
        """The sizes (M, N, K) at which factors are given."""
        return list(combinations(*(axis.sizes for axis in self.axes)))


def corners(axes: Sequence[Axis], sizes: Sizes) -> list[tuple[int, float]]:
    """The numbers of the nodes around `sizes`, and the weight of each."""
    around = [(0, 1.0)]
    for axis, size in zip(axes, sizes, strict=True):
        node, share = axis.place(size)
        ways = [(node, 1 - share), (node + 1, share)] if axis.nodes > 1 else [(0, 1.0)]
        around = [(number * axis.nodes + one, weight * more) for number, weight in around for one, more in ways]
    return around


def octave(size: int) -> float:
    """log2 of a size, linear between powers of two, as a dispatcher computes it without a logarithm."""
    fraction, exponent = math.frexp(max(1, size))
    return exponent - 2 + 2 * fraction


def _size_at(place: float) -> float:
    whole = math.floor(place)
    return float(2**whole * (1 + place - whole))


def terms(tiling: Tiling, sms: int, sizes: Sizes, batch: int) -> tuple[float, ...]:
    """How often each of TERMS occurs in a product of these sizes."""
    m, n, k = sizes
    blocks = -(-m // tiling.rows) * -(-n // tiling.columns) * tiling.blocks * batch
    waves, turns = -(-blocks // tiling.at_once), -(-blocks // sms)
    return 1.0, waves, waves * k, turns, turns * k, m * n * batch, (m + n) * k * batch


def estimated(
    ranges: Sequence[SizeRange],
    tilings: Sequence[Tiling],
    points: Sequence[Sizes],
    times: Sequence[Sequence[float]] | Numbers,
    sms: int,
    batches: Sequence[int],
) -> Estimates:
    """Estimates of kernels, fitted to their `times` at `points` with these `batches`: finite times, in microseconds."""
    nodes = NODES[max(1, sum(not one.listed for one in ranges))]
    m, n, k = (Axis.of(one, nodes) for one in ranges)
    axes = m, n, k
    measured = np.array(times, np.float64)
    weights = np.exp(-RIVALS * (measured / measured.min(axis=1, keepdims=True) - 1)) + LEAST_WEIGHT
    near = _nearness(axes, points)
    columns, calls = zip(tilings, measured.T, weights.T, strict=True), list(zip(points, batches, strict=True))
    kernels = (
        _fitted(tiling, np.array([terms(tiling, sms, *call) for call in calls], np.float64), near, *column)
        for tiling, *column in columns
    )
    return Estimates(sms, axes, tuple(kernels))


def _fitted(tiling: Tiling, counts: Numbers, near: Numbers, times: Numbers, weights: Numbers) -> Estimate:
    """Fit one kernel's estimate: first costs with a small error everywhere, then factors for the rest."""
    costs = [_short(cost) for cost in least_squares(counts / times[:, None], weights)]
    left = times / (counts @ np.array(costs))
    weighted = near * weights[:, None]
    wanted = near.T @ weighted + SMOOTH * np.eye(near.shape[1])
    factors = 1 + np.linalg.solve(wanted, weighted.T @ (left - 1))
    return Estimate(tiling, tuple(costs), tuple(_short(max(factor, 0.1), FACTOR_DIGITS) for factor in factors))


def least_squares(parts: Numbers, weights: Numbers) -> Numbers:
    """Solve parts @ x near 1 for x >= 0 by multiplicative updates, which keep positive numbers positive (Lee and Seung,
    2001)."""
    scale = parts.max(axis=0)
    known = parts / scale
    square, target = known.T @ (known * weights[:, None]), known.T @ weights
    found = np.full(len(scale), 1 / len(scale))
    for _ in range(STEPS):
        found *= target / (square @ found)
    costs: Numbers = np.where(found > NEGLIGIBLE, found / scale, 0.0)
    return costs


def _nearness(axes: Sequence[Axis], points: Sequence[Sizes]) -> Numbers:
    """The weight of each node for each point."""
    near = np.zeros((len(points), math.prod(axis.nodes for axis in axes)))
    for row, point in zip(near, points, strict=True):
        for node, weight in corners(axes, point):
            row[node] += weight
    return near


def _short(value: float, digits: int = DIGITS) -> float:
    """`value` rounded as the dispatcher's text holds it."""
    return float(f"{value:.{digits}g}")


def estimates_from(document: Mapping[str, Any]) -> Estimates:
    """Read Estimates from the document of `dataclasses.asdict`."""
    m, n, k = (Axis(**axis) for axis in document["axes"])
    kernels = (
        Estimate(Tiling(**one["tiling"]), tuple(one["costs"]), tuple(one["factors"])) for one in document["kernels"]
    )
    return Estimates(document["sms"], (m, n, k), tuple(kernels))


@dataclass(frozen=True)
class EstimateText:
    """A kernel among others: how it divides C, and its costs."""

    kernel: str
    tiling: Tiling
    costs: tuple[str, ...]


@dataclass(frozen=True)
class EstimatesText:
    """The estimates as the dispatcher's text holds them. nodes: sizes, and the factor of each kernel there."""

    name: str
    estimates: Estimates
    kernels: tuple[EstimateText, ...]

    @property
    def nodes(self) -> list[tuple[str, tuple[str, ...]]]:
        rows = zip(
            self.estimates.nodes, zip(*(one.factors for one in self.estimates.kernels), strict=True), strict=True
        )
        return [
            (" x ".join(f"{size:.0f}" for size in sizes), tuple(f"{factor:>6.4g}" for factor in factors))
            for sizes, factors in rows
        ]
