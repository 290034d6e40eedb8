"""In which order to try configs: the model's best of each kind first, then the neighbours of what measured best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gemmgen.device import DeviceSpec
from gemmgen.families.base import Config
from gemmgen.model import Prediction, predict
from gemmgen.space import Space

# Axes that change how a tile travels or is split, not its size: the model tells their values apart
# poorly, so the first round tries one of each shape and later rounds vary these.
SECONDARY = frozenset({"WM", "WN", "STAGES", "ASYNC", "MINB", "GROUP", "PAD"})
BEST_KEPT = 4  # configs whose neighbours a round tries
REACH = 2  # axes in which a neighbour may differ


@dataclass(frozen=True)
class Ranked:
    """An accepted config with its prediction from estimated registers."""

    config: Config
    prediction: Prediction


@dataclass
class Search:
    """Hands out configs to try, batch by batch; learns from times in between."""

    space: Space
    device: DeviceSpec
    ranked: list[Ranked] = field(init=False)
    _untried: dict[Config, Ranked] = field(init=False)

    def __post_init__(self) -> None:
        predicted = [
            Ranked(config, predict(self.space.problem, self.space.family, config, self.device))
            for config in self.space.accepted
        ]
        self.ranked = sorted(predicted, key=lambda entry: entry.prediction.time_us)
        self._untried = {entry.config: entry for entry in self.ranked}

    def first(self, count: int) -> list[Ranked]:
        """The `count` best predicted configs, at most one of each tile shape while there are others."""
        seen: set[tuple[tuple[str, int], ...]] = set()
        distinct: list[Ranked] = []
        others: list[Ranked] = []
        for entry in self._untried.values():
            shape = _shape(entry.config)
            (others if shape in seen else distinct).append(entry)
            seen.add(shape)
        return self._take((distinct + others)[:count])

    def next(self, count: int, timed: Sequence[tuple[Config, float]]) -> list[Ranked]:
        """Up to `count` untried neighbours of the fastest of `timed` (config, time), the nearest first."""
        fastest = [config for config, _ in sorted(timed, key=lambda pair: pair[1])[:BEST_KEPT]]
        return self._take(list(_interleave([self._neighbours(config) for config in fastest]))[:count])

    def _neighbours(self, config: Config) -> list[Ranked]:
        """Untried configs that differ in up to REACH axes (a tile seldom changes alone), the nearest first."""
        near = [(_distance(config, entry.config), entry) for entry in self._untried.values()]
        close = [(distance, entry) for distance, entry in near if distance <= REACH]
        return [entry for _, entry in sorted(close, key=lambda pair: (pair[0], pair[1].prediction.time_us))]

    def _take(self, entries: list[Ranked]) -> list[Ranked]:
        for entry in entries:
            del self._untried[entry.config]
        return entries


def _shape(config: Config) -> tuple[tuple[str, int], ...]:
    """The axes that are not secondary."""
    return tuple((name, value) for name, value in config.values.items() if name not in SECONDARY)


def _distance(one: Config, other: Config) -> int:
    """Axes in which the two differ."""
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
