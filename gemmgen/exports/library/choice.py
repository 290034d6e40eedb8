"""The choice among a product's kernels as a record: its rules, and the times that they were made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

from gemmgen.exports.library.estimates import Estimates
from gemmgen.exports.library.fallback import Contestant
from gemmgen.exports.library.members import Member, Needs
from gemmgen.exports.library.spec import Product
from gemmgen.exports.library.steps import Steps
from gemmgen.exports.library.table import Box, Regret, Sizes, regret_of
from gemmgen.problem.device import DeviceSpec
from gemmgen.search.kernel_set import KernelSet
from gemmgen.support.short_repr import brief


class Timed(NamedTuple):
    """Times of one call in microseconds.

    us          of each kernel; infinite of one that fails, NaN of one that was not timed, as it has no hope
    library_us  of cuBLASLt's first heuristic, timed in the same run; None where there is none
    """

    us: Sequence[float]
    library_us: float | None = None

    @property
    def best_us(self) -> float:
        """The least; infinite where all fail."""
        return min(filter(math.isfinite, self.us), default=math.inf)


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

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        """Times at each of the points, for calls of these sizes that keep what is `given`."""
        ...


@dataclass(frozen=True)
class Rule:
    """Calls that keep what it `needs` and whose sizes are in the box go to one of `kernels`, by their numbers.

    examples   for each kernel the sizes of a call that goes to it, which no earlier rule takes
    batches    of these calls, where the number of products varies
    estimates  of each kernel's time, of which the least decides, where several sizes are ranges
    steps      along the size that is a range, where only one is
    """

    needs: Needs
    box: Box
    kernels: tuple[int, ...]
    examples: tuple[Sizes, ...]
    estimates: Estimates | None = None
    steps: Steps | None = None
    batches: tuple[int, ...] = ()

    def kernel(self, sizes: Sizes, batch: int = 1) -> int:
        """The number of the one that serves a call of these sizes."""
        if self.steps is not None:
            return self.kernels[self.steps.kernel(sizes)]
        return self.kernels[0 if self.estimates is None else self.estimates.best(sizes, batch)]


@dataclass(frozen=True)
class Point:
    """Times at a point of a grid, of the members that serve it, by their numbers.

    best_us     of all candidates, those that the library does not hold included
    library_us  of cuBLASLt's first heuristic; None where it was not timed
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
    """A call that rules were not made of: the time of the kernel that they choose, and others'.

    best_us     of the fastest of all candidates, those that the library does not hold included
    library_us  of cuBLASLt's first heuristic; None where it was not timed
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
    """The kernels of a product on one architecture, and the rules that choose among them; the first that fits counts.

    times   what the rules were made of
    sets    for each part of the table with a choice: what it loses with fewer kernels than it has, and with all
    rivals  candidates that were timed beside the members, and that the library does not hold
    drawn   sizes that are not among the times'
    load_ms milliseconds to load the machine code of all kernels on the device; None where nothing is measured
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
        """The machine code of all kernels."""
        return sum(len(one.compiled.cubin) for one in self.kernels if one.compiled is not None)

    @cached_property
    def regret(self) -> Regret:
        """How much longer choices take than the fastest candidate, over the sizes drawn."""
        return regret_of([one.us / one.best_us for one in self.drawn])

    @cached_property
    def beside_library(self) -> tuple[float, float] | None:
        """(geometric mean, least) of cuBLASLt's time over the choice's; None where it was not timed."""
        return beside_library(self.drawn)

    @property
    def kernels(self) -> tuple[Member, ...]:
        """Without cuBLASLt."""
        return tuple(one for one in self.members if isinstance(one, Member))

    def chosen(self, sizes: Sizes, given: Needs, batch: int | None = None) -> int:
        """The number of the kernel that a call goes to; of so many products, where not those of `product`."""
        rule = next(rule for rule in self.rules if rule.needs in given and rule.box.holds(sizes))
        return rule.kernel(sizes, batch or self.product.batch or 1)


def beside_library(drawn: Sequence[Drawn]) -> tuple[float, float] | None:
    """(geometric mean, least) of cuBLASLt's time over the choice's; None where it was not timed."""
    ratios = [one.library_us / one.us for one in drawn if one.library_us is not None]
    return (math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios)) if ratios else None
