"""All configs of a family for one problem: which are accepted, which are rejected and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gemmgen.kernel.config import Axis, Config, Constraint
from gemmgen.kernel.expression import names_in
from gemmgen.kernel.families.base import Family, Rules, constants
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem


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


def explore(family: Family, problem: Problem, device: DeviceSpec) -> Space:
    """Walk the axes' product. A rule is checked as soon as the names it reads are known, which cuts whole branches.

    Pruning rules may read SMS, the card's.
    """
    axes = family.config_type.axes()
    values = {item.name: item.tried(device.sms) for item in axes}
    given = {**device.arch.limits.names, "SMS": device.sms, **family.facts(problem)}
    ready, late = _earliest((*family.constraints, *family.pruning), axes, given)
    below = [math.prod(len(item.values) for item in axes[depth + 1 :]) for depth in range(len(axes))]
    rejected: Counter[Constraint] = Counter()

    def walk(depth: int, names: dict[str, int]) -> Iterator[Config]:
        if depth == len(axes):
            config = family.config_type(**{item.name: names[item.name] for item in axes})
            broken = late.first_broken({**names, **constants(family, problem, config)})
            if broken is None:
                yield config
            else:
                rejected[broken] += 1
            return
        for value in values[axes[depth].name]:
            names[axes[depth].name] = value
            broken = ready[depth].first_broken(names)
            if broken is None:
                yield from walk(depth + 1, names)
            else:
                rejected[broken] += below[depth]

    accepted = tuple(walk(0, dict(given)))
    total = math.prod(len(item.values) for item in axes)
    return Space(family, problem, total, accepted, tuple(rejected.most_common()))


def _earliest(rules: Sequence[Constraint], axes: Sequence[Axis], given: Iterable[str]) -> tuple[list[Rules], Rules]:
    """(for each axis the rules that can be checked from there on, the rules that read derived constants)."""
    known, pending = set(given), list(rules)
    ready: list[Rules] = []
    for item in axes:
        known.add(item.name)
        now = [rule for rule in pending if names_in(rule.expression) <= known]
        pending = [rule for rule in pending if rule not in now]
        ready.append(Rules(now))
    return ready, Rules(pending)
