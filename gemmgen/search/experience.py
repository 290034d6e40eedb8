"""Winners of earlier searches on this card: configs with which to start the next search for a similar problem.

The store keeps one list per card, set of types and layout. A config that won a similar problem often wins again,
including its stages and raster, which the model hardly tells apart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gemmgen.families import FAMILIES, Family
from gemmgen.kernel.config import Config
from gemmgen.kernel.model import representative
from gemmgen.problem.gemm import Problem
from gemmgen.render.naming import problem_name
from gemmgen.support.files import Store, content_key

KIND = "winners"  # in the Store
KEPT = 256  # winners of a list, the newest
NEAREST = 4  # of them that a search starts with
FAR = 6.0  # octaves in all, of M, N, K and batch together, beyond which a winner says nothing


@dataclass(frozen=True)
class Winner:
    """A config that was the fastest for a problem, given by its name and by M, N, K and batch."""

    problem: str
    sizes: tuple[int, int, int, int]
    family: str
    config: dict[str, int]


def nearest(store: Store, card: str, problem: Problem, families: Sequence[Family]) -> list[tuple[Family, Config]]:
    """The configs of `families` that won the problems nearest to `problem` on `card`, the nearest first.

    The winner of `problem` itself is left out: the same search finds it again from cached results.
    """
    sizes = _sizes(problem)
    others = [one for one in reversed(_read(store, _key(card, problem))) if not _is_of(one, problem)]
    near = [(_octaves(sizes, one.sizes), one) for one in others]
    close = sorted((pair for pair in near if pair[0] <= FAR), key=lambda pair: pair[0])
    found = [_config(one) for _, one in close]
    return list(dict.fromkeys(one for one in found if one is not None and one[0] in families))[:NEAREST]


def was_searched(store: Store, card: str, problem: Problem) -> bool:
    """Whether a search for `problem` on `card` is on record, so that the store has most of what another one needs."""
    return any(_is_of(one, problem) for one in _read(store, _key(card, problem)))


def remember(store: Store, card: str, problem: Problem, family: str, config: Config) -> None:
    """Record that `config` won the search for `problem` on `card`."""
    winner, key = Winner(problem_name(problem), _sizes(problem), family, config.values), _key(card, problem)
    with store.alone(KIND, key):
        others = [one for one in _read(store, key) if not _is_of(one, problem)]
        kept = [*others, winner][-KEPT:]
        store.put(KIND, key, json.dumps([asdict(one) for one in kept]).encode())


def _read(store: Store, key: str) -> list[Winner]:
    payload = store.get(KIND, key)
    try:
        entries = [] if payload is None else json.loads(payload)
        return [Winner(**{**entry, "sizes": tuple(entry["sizes"])}) for entry in entries]
    except (TypeError, ValueError, KeyError):  # written by another version
        return []


def _key(card: str, problem: Problem) -> str:
    return content_key(card, problem.types.token, str(problem.layout), str(problem.pointers))


def _is_of(winner: Winner, problem: Problem) -> bool:
    return (winner.problem, winner.sizes) == (problem_name(problem), _sizes(problem))


def _sizes(problem: Problem) -> tuple[int, int, int, int]:
    case = representative(problem)
    return case.m, case.n, case.k, case.batch


def _octaves(one: Sequence[int], other: Sequence[int]) -> float:
    return sum(abs(math.log2(max(a, 1) / max(b, 1))) for a, b in zip(one, other, strict=True))


def _config(winner: Winner) -> tuple[Family, Config] | None:
    """The family and config of a winner; None if this version has no such family or axes."""
    family = FAMILIES.get(winner.family)
    if family is None or {item.name for item in family.config_type.axes()} != winner.config.keys():
        return None
    return family, family.config_type(**winner.config)
