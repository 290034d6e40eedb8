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
        for entry in self._untried.values():
            shape = _shape(entry.config)
            if shape not in seen:
                seen.add(shape)
                distinct.append(entry)
        chosen = distinct[:count]
        chosen += [entry for entry in self._untried.values() if entry not in chosen][: count - len(chosen)]
        return self._take(chosen)

    def next(self, count: int, timed: Sequence[tuple[Config, float]]) -> list[Ranked]:
        """Up to `count` untried neighbours of the fastest of `timed` (config, time), the nearest first."""
        fastest = [config for config, _ in sorted(timed, key=lambda pair: pair[1])[:BEST_KEPT]]
        return self._take(list(_interleave([self._neighbours(config) for config in fastest]))[:count])

    def _neighbours(self, config: Config) -> list[Ranked]:
        """Untried configs that differ in one choice (a tile and the warps that fill it count as one)."""
        near = [(_distance(config, entry.config), entry) for entry in self._untried.values()]
        close = [(distance, entry) for distance, entry in near if distance <= 2]
        return [entry for _, entry in sorted(close, key=lambda pair: (pair[0], pair[1].prediction.time_us))]

    def _take(self, entries: list[Ranked]) -> list[Ranked]:
        taken = list(dict.fromkeys(entries))
        for entry in taken:
            self._untried.pop(entry.config, None)
        return taken


def _shape(config: Config) -> tuple[tuple[str, int], ...]:
    return tuple((name, value) for name, value in config.values.items() if name not in SECONDARY)


def _distance(one: Config, other: Config) -> int:
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
