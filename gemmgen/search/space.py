"""All configs of a family for one problem: which are accepted, which are rejected and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gemmgen.kernel.config import Axis, Config, Constraint
from gemmgen.kernel.expression import first_false, names_in
from gemmgen.kernel.families.base import Family, constants
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.support.brief import brief


@brief
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


class _Sieve:
    """Rules that are checked together, and how many configs each was the first to reject."""

    def __init__(self, rules: Sequence[Constraint]) -> None:
        self._rules = rules
        self._first_false = first_false([rule.expression for rule in rules])
        self._counts = [0] * len(rules)

    def passes(self, names: Mapping[str, int], configs: int) -> bool:
        """Whether every rule holds; if not, all `configs` with these `names` are out."""
        if not self._rules:
            return True
        place = self._first_false(names)
        if place < len(self._rules):
            self._counts[place] += configs
            return False
        return True

    @property
    def rejected(self) -> Iterator[tuple[Constraint, int]]:
        return (pair for pair in zip(self._rules, self._counts, strict=True) if pair[1])


def explore(family: Family, problem: Problem, device: DeviceSpec) -> Space:
    """Walk the axes' product. A rule is checked as soon as the names it reads are known, which cuts whole branches.

    Pruning rules may read SMS, the card's.
    """
    axes = family.config_type.axes()
    names = {**device.arch.limits.names, "SMS": device.sms, **family.facts(problem)}
    sieves, late = _earliest((*family.constraints, *family.pruning), axes, names)
    values = [item.tried(device.sms) for item in axes]
    below = [math.prod(map(len, values[depth + 1 :])) for depth in range(len(axes))]
    accepted: list[Config] = []

    def walk(depth: int) -> None:
        if depth == len(axes):
            config = family.config_type(**{item.name: names[item.name] for item in axes})
            if late.passes({**names, **constants(family, problem, config)}, 1):
                accepted.append(config)
            return
        name, sieve, configs = axes[depth].name, sieves[depth], below[depth]
        for value in values[depth]:
            names[name] = value
            if sieve.passes(names, configs):
                walk(depth + 1)

    walk(0)
    rejected = sorted((pair for sieve in (*sieves, late) for pair in sieve.rejected), key=lambda pair: -pair[1])
    return Space(family, problem, math.prod(map(len, values)), tuple(accepted), tuple(rejected))


def _earliest(rules: Sequence[Constraint], axes: Sequence[Axis], given: Iterable[str]) -> tuple[list[_Sieve], _Sieve]:
    """(for each axis the rules that can be checked from there on, the rules that read derived constants)."""
    known, pending = set(given), list(rules)
    sieves: list[_Sieve] = []
    for item in axes:
        known.add(item.name)
        now = [rule for rule in pending if names_in(rule.expression) <= known]
        pending = [rule for rule in pending if rule not in now]
        sieves.append(_Sieve(now))
    return sieves, _Sieve(pending)
