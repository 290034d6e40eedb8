"""All configs of a family for one problem: which are accepted, which are rejected and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gemmgen.device import Limits
from gemmgen.expression import evaluate, names_in
from gemmgen.families.base import Config, Constraint, Family
from gemmgen.problem import Problem


@dataclass(frozen=True)
class Space:
    """The axes' product, split by the constraints.

    total     configs of the product
    accepted  those that hold every constraint and pruning rule, in the axes' order
    rejected  (constraint, how many configs it is the first to break), most first
    """

    family: Family
    problem: Problem
    total: int
    accepted: tuple[Config, ...]
    rejected: tuple[tuple[Constraint, int], ...]


def explore(family: Family, problem: Problem, limits: Limits) -> Space:
    """Walk the axes' product. A rule is checked as soon as the names it reads are known, which cuts whole branches."""
    axes = family.config_type.axes()
    rules = (*family.constraints, *family.pruning)
    given = {**limits.names, **family.facts(problem)}
    known = set(given)
    ready: list[list[Constraint]] = []  # by axis: the rules that this axis completes
    for item in axes:
        known.add(item.name)
        ready.append([rule for rule in rules if rule not in _flat(ready) and names_in(rule.expression) <= known])
    late = [rule for rule in rules if rule not in _flat(ready)]  # they read derived constants
    below = [math.prod(len(item.values) for item in axes[depth + 1 :]) for depth in range(len(axes))]
    rejected: Counter[Constraint] = Counter()

    def walk(depth: int, names: dict[str, int]) -> Iterator[Config]:
        if depth == len(axes):
            config = family.config_type(**{item.name: names[item.name] for item in axes})
            broken = _first_broken(late, _with_derived(family, problem, config, names))
            if broken is None:
                yield config
            else:
                rejected[broken] += 1
            return
        for value in axes[depth].values:
            names[axes[depth].name] = value
            broken = _first_broken(ready[depth], names)
            if broken is None:
                yield from walk(depth + 1, names)
            else:
                rejected[broken] += below[depth]

    accepted = tuple(walk(0, dict(given)))
    total = math.prod(len(item.values) for item in axes)
    return Space(family, problem, total, accepted, tuple(rejected.most_common()))


def _flat(ready: list[list[Constraint]]) -> list[Constraint]:
    return [rule for rules in ready for rule in rules]


def _first_broken(rules: list[Constraint], names: dict[str, int]) -> Constraint | None:
    return next((rule for rule in rules if not evaluate(rule.expression, names)), None)


def _with_derived(family: Family, problem: Problem, config: Config, names: dict[str, int]) -> dict[str, int]:
    full = dict(names)
    for derived in family.derive(problem, config):
        full[derived.name] = evaluate(derived.expression, full)
    return full
