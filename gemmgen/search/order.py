"""The order in which configs are tried: the model's best of each kind first, then neighbours of the fastest, and at
last the same kernels with other details, which no model predicts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice

from gemmgen.families.base import Family, first_rejection
from gemmgen.kernel.config import Config
from gemmgen.kernel.model import Prediction, least_us, predict
from gemmgen.kernel.plan import Plan
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.search.space import MOST_CONFIGS, Space, of_any_size

BEST_KEPT = 4  # configs whose neighbours a round tries
SHAPE_HANDICAP, KIND_HANDICAP = 0.05, 0.03  # of the logarithm, for each config of that tile shape, or kind, before
HOPELESS = 2.0  # times the least predicted time; the model errs by a fifth
ONE_BY_ONE = 96  # configs, from which on details change one after the other, each round with the gain of the last
REACH = 3  # axes in which a neighbour may differ: a deeper step goes with other slices and stages


@dataclass(frozen=True)
class Ranked:
    """An accepted config of a family, lowered, with its prediction from estimated registers."""

    family: Family
    plan: Plan
    prediction: Prediction

    @classmethod
    def of(cls, problem: Problem, family: Family, config: Config, device: DeviceSpec) -> Ranked:
        plan = replace(_plan(family, of_any_size(problem), config), problem=problem)
        return cls(family, plan, predict(plan, device))

    @property
    def config(self) -> Config:
        return self.plan.config


@lru_cache(maxsize=MOST_CONFIGS)
def _plan(family: Family, problem: Problem, config: Config) -> Plan:
    """The plan of a config, shared by problems that differ only in their typical sizes, as their kernels have one
    text."""
    return family.plan(problem, config)


@dataclass
class Search:
    """Proposes configs of one or more spaces to try, batch by batch, and learns from times in between.

    summation  the class of summation that configs must have: see `Plan.summation`; None: any
    """

    spaces: Sequence[Space]
    device: DeviceSpec
    summation: str | None = None
    ranked: list[Ranked] = field(init=False)
    _known: dict[Config, Ranked] = field(init=False)
    _untried: dict[Config, Ranked] = field(init=False)

    def __post_init__(self) -> None:
        self.ranked, self._known, self._untried = [], {}, {}
        for space in self.spaces:
            self._rank(space)

    def add(self, space: Space) -> None:
        """Add the configs of one more family, unless none is of the class of summation."""
        known = len(self.ranked)
        self._rank(space)
        if len(self.ranked) > known:
            self.spaces = (*self.spaces, space)

    def _rank(self, space: Space) -> None:
        entries = (Ranked.of(space.problem, space.family, config, self.device) for config in space.accepted)
        self.ranked += filter(self._allows, entries)
        self.ranked.sort(key=lambda entry: entry.prediction.time_us)
        self._known = {entry.config: entry for entry in self.ranked}
        self._untried = dict(self._known)

    def _allows(self, entry: Ranked) -> bool:
        return self.summation is None or entry.plan.summation(self.device.arch) == self.summation

    def hopeless(self, family: Family, problem: Problem) -> bool:
        """Whether the products alone would take HOPELESS times as long as the best known config, whatever the
        config.

        It assumes the rate of the default config; if true, the family's space need not be explored.
        """
        config = family.default(problem)
        if not self.ranked or first_rejection(family, problem, config, self.device.arch.limits) is not None:
            return False
        return least_us(family.plan(problem, config), self.device) > HOPELESS * self.ranked[0].prediction.time_us

    def first(self, count: int) -> list[Ranked]:
        """The `count` configs with the best predictions, over several tile shapes and families: see `_varied`.

        Drop a family if its best candidate is HOPELESS times slower than another family's.
        """
        entries = [self._untried_of(space.family) for space in self.spaces]
        least = min((family[0].prediction.time_us for family in entries if family), default=0.0)
        hopeful = [family for family in entries if family and family[0].prediction.time_us < HOPELESS * least]
        return self._note(_varied(chain.from_iterable(hopeful), count))

    def details(self, timed: Sequence[tuple[Config, float]]) -> tuple[str, ...]:
        """The axes that the model hardly prices, for the families of the fastest of `timed`."""
        families = [self._known[config].family for config in _fastest(timed)]
        return tuple(dict.fromkeys(axis for family in families for axis in family.details))

    def _untried_of(self, family: Family) -> list[Ranked]:
        return [entry for entry in self._untried.values() if entry.family is family]

    def next(self, count: int, timed: Sequence[tuple[Config, float]]) -> list[Ranked]:
        """Up to `count` untried neighbours of the fastest of `timed` (config, time), the nearest first."""
        return self._note(list(_interleave([self._neighbours(config) for config in _fastest(timed)]))[:count])

    def moved(self, axis: str, count: int | None, timed: Sequence[tuple[Config, float]]) -> list[Ranked]:
        """Up to `count` untried configs (None: all) that differ from the fastest of `timed` only in `axis`, one of
        `details`, or also in a stage, which makes room for it."""
        fastest = [self._known[config] for config in _fastest(timed)]
        others = ((entry.family, config) for entry in fastest for config in _others(entry.config, axis))
        return self._note(islice(self._sound(self._roomy(others)), count))

    def around(self, count: int, most: int, axes: Sequence[str], timed: Sequence[tuple[Config, float]]) -> list[Ranked]:
        """`count` untried configs: up to `most` by `moved` along `axes`, then neighbours of the fastest of `timed`, and
        where there are no more of these the best predicted."""
        moved: list[Ranked] = []
        for left, axis in zip(range(len(axes), 0, -1), axes, strict=True):
            moved += self.moved(axis, math.ceil((most - len(moved)) / left), timed)
        near = moved + self.next(count - len(moved), timed)
        return near + self.first(count - len(near))

    def given(self, configs: Sequence[tuple[Family, Config]]) -> list[Ranked]:
        """The entries of `configs` that are valid here, whether or not the search would reach them."""
        return self._note(self._sound(configs))

    def known(self, timed: Sequence[tuple[Config, float]]) -> list[tuple[Config, float]]:
        """The entries of `timed` whose configs are valid here."""
        return [(config, us) for config, us in timed if config in self._known]

    def _roomy(self, configs: Iterable[tuple[Family, Config]]) -> Iterator[tuple[Family, Config]]:
        """Yield the configs, with one stage fewer if shared memory would overflow."""
        problem, limits = self.spaces[0].problem, self.device.arch.limits
        for family, config in configs:
            rejection = first_rejection(family, problem, config, limits)
            full = rejection is not None and "SHARED_BYTES" in rejection.constraint.expression
            stages = config.values.get("STAGES", 1) - full
            yield family, config.with_values(STAGES=stages) if full and stages else config

    def _sound(self, configs: Iterable[tuple[Family, Config]]) -> Iterator[Ranked]:
        """The configs that are valid and untried, even if the space leaves them out."""
        problem, limits = self.spaces[0].problem, self.device.arch.limits
        for family, config in configs:
            tried = config in self._known and config not in self._untried
            if not tried and first_rejection(family, problem, config, limits) is None:
                entry = Ranked.of(problem, family, config, self.device)
                if self._allows(entry):
                    yield entry

    def _note(self, entries: Iterable[Ranked]) -> list[Ranked]:
        """Mark `entries` as tried."""
        taken = list(entries)
        for entry in taken:
            self._known[entry.config] = entry
            self._untried.pop(entry.config, None)
        return taken

    def _neighbours(self, config: Config) -> list[Ranked]:
        """Untried configs that differ in up to REACH axes (a tile seldom changes alone), the nearest first."""
        same_family = (entry for entry in self._untried.values() if type(entry.config) is type(config))
        near = [(_distance(config, entry.config), entry) for entry in same_family]
        close = [(distance, entry) for distance, entry in near if distance <= REACH]
        return [entry for _, entry in sorted(close, key=lambda pair: (pair[0], pair[1].prediction.time_us))]


def rounds(
    search: Search,
    budget: int,
    given: Sequence[Ranked],
    tried: Callable[[], Sequence[tuple[Config, float | None]]],
) -> Iterator[list[Ranked]]:
    """The configs of a search that tries `budget` of them: `given` and up to half of the budget spread over the space;
    then neighbours of the fastest, and the fastest with other details.

    Neighbours and details are one round, because each round costs a compilation; with a large budget they are separate
    rounds. `tried` gives the configs so far with their times, None for those without a time.
    """
    yield [*given, *search.first(max(0, budget - budget // 2 - len(given)))]
    details = search.details(_timed(tried()))
    steps = [(), *((axis,) for axis in details)] if budget >= ONE_BY_ONE else [details]
    for number, axes in enumerate(steps):
        timed = _timed(tried())
        count = max(0, math.ceil((budget - len(tried())) / (len(steps) - number)))
        most = count if len(steps) > 1 else math.ceil(count / 2)  # of other details
        yield search.around(count, most, axes, timed)


def _timed(tried: Sequence[tuple[Config, float | None]]) -> list[tuple[Config, float]]:
    return [(config, us) for config, us in tried if us is not None]


def _fastest(timed: Sequence[tuple[Config, float]]) -> list[Config]:
    """The BEST_KEPT fastest configs."""
    return [config for config, _ in sorted(timed, key=lambda pair: pair[1])[:BEST_KEPT]]


def _varied(entries: Iterable[Ranked], count: int) -> list[Ranked]:
    """`count` of the best predicted, each with a penalty for those of its tile shape and of its kind before it.

    The model may err alike for all kernels of one shape, or of one kind.
    """
    alike: dict[tuple[object, object], list[Ranked]] = defaultdict(list)
    for entry in sorted(entries, key=lambda one: one.prediction.time_us, reverse=True):
        kind = (entry.family.name, *(entry.config.values[name] for name in entry.family.kinds))
        alike[(entry.family.name, _shape(entry)), kind].append(entry)
    chosen: list[Ranked] = []
    before: Counter[object] = Counter()

    def handicapped(pair: tuple[object, object]) -> float:
        shape, kind = pair
        handicap = SHAPE_HANDICAP * before[shape] + KIND_HANDICAP * before[kind]
        return math.log(alike[pair][-1].prediction.time_us) + handicap

    while alike and len(chosen) < count:
        best = min(alike, key=handicapped)
        chosen.append(alike[best].pop())
        before.update(best)
        if not alike[best]:
            del alike[best]
    return chosen


def _shape(entry: Ranked) -> tuple[tuple[str, int], ...]:
    """The axes that are neither secondary nor details."""
    others = {*entry.family.secondary, *entry.family.details}
    return tuple((name, value) for name, value in entry.config.values.items() if name not in others)


def _others(config: Config, name: str) -> Iterator[Config]:
    """`config` with the other values of one axis; none if its family has no such axis."""
    for axis in config.axes():
        if axis.name == name:
            yield from (config.with_values(**{name: value}) for value in axis.values if value != config.values[name])


def _distance(one: Config, other: Config) -> int:
    """The number of axes in which the two differ."""
    ours, theirs = one.values, other.values
    return sum(ours[name] != theirs[name] for name in ours)


def _interleave(lists: list[list[Ranked]]) -> Iterator[Ranked]:
    """First of each list, then second of each, ... without repeats."""
    seen: set[int] = set()
    for depth in range(max(map(len, lists), default=0)):
        for entries in lists:
            if depth < len(entries) and id(entries[depth]) not in seen:
                seen.add(id(entries[depth]))
                yield entries[depth]
