"""All configs of a family for one problem: the accepted ones, and why the others are rejected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from gemmgen.families.base import Family, constants
from gemmgen.kernel.config import Axis, Config, Constraint, Rules
from gemmgen.kernel.expression import Numbers, holds_in, names_in
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.support.short_repr import brief

MOST_CONFIGS = 1 << 14  # of which is kept what many problems share that differ in their typical sizes


@brief
@dataclass(frozen=True)
class Space:
    """The product of the axes, split by the constraints.

    total     number of configs in the product
    accepted  configs that satisfy every constraint and pruning rule, in the axes' order
    rejected  (constraint, how many configs it is the first to break), most first
    decisive  the last of these to be checked; if no config is accepted, it rejected the last ones left
    """

    family: Family
    problem: Problem
    total: int
    accepted: tuple[Config, ...]
    rejected: tuple[tuple[Constraint, int], ...]
    decisive: Constraint | None = None


def explore(family: Family, problem: Problem, device: DeviceSpec) -> Space:
    """Go through the axes' product. A rule is checked as soon as the names it reads are known, which cuts branches.

    Pruning rules may read SMS, the card's number of SMs.
    """
    axes = family.config_type.axes()
    names = {**device.arch.limits.names, "SMS": device.sms, **family.facts(problem)}
    early, late = _earliest((*family.rules, *family.pruning), axes, names)
    values = [item.tried(device.sms) for item in axes]
    total = math.prod(map(len, values))
    rejected = dict.fromkeys((*chain(*early), *late), 0)
    table: dict[str, Numbers] = {}  # a row for each start of a config that holds what was checked
    rows, below = 1, total
    for item, tried, rules in zip(axes, values, early, strict=True):
        below //= len(tried)
        table = {name: np.repeat(column, len(tried)) for name, column in table.items()}
        table[item.name] = np.tile(np.array(tried, np.float64), rows)
        kept = _sifted(rules, names, table, rejected, below)
        table = {name: column[kept] for name, column in table.items()}
        rows = int(kept.sum())
    accepted, left = [], Rules(late)
    for row in zip(*(column.astype(int).tolist() for column in table.values()), strict=True):
        config = family.config_type(*row)
        broken = left.first_broken({**names, **_constants(family, of_any_size(problem), config)})
        if broken is None:
            accepted.append(config)
        else:
            rejected[broken] += 1
    most_first = sorted(((rule, count) for rule, count in rejected.items() if count), key=lambda pair: -pair[1])
    decisive = next((rule for rule, count in reversed(rejected.items()) if count), None)
    return Space(family, problem, total, tuple(accepted), tuple(most_first), decisive)


@lru_cache(maxsize=64)
def of_any_size(problem: Problem) -> Problem:
    """The problem without its typical sizes; neither a kernel's constants nor its plan depend on them."""
    return replace(problem, typical=())


@lru_cache(maxsize=MOST_CONFIGS)
def _constants(family: Family, problem: Problem, config: Config) -> Mapping[str, int]:
    return constants(family, problem, config)


def _sifted(
    rules: Sequence[Constraint],
    names: Mapping[str, int],
    table: Mapping[str, Numbers],
    rejected: dict[Constraint, int],
    configs: int,
) -> npt.NDArray[np.bool_]:
    """A mask of the rows of `table` that satisfy all `rules`; each other row counts as `configs` for the first rule
    that it breaks."""
    columns = {**{name: np.float64(value) for name, value in names.items()}, **table}
    kept = np.ones(len(next(iter(table.values()))), np.bool_)
    for rule in rules:
        holds = holds_in(rule.expression)(columns)
        rejected[rule] += int((kept & ~holds).sum()) * configs
        kept &= holds
    return kept


def _earliest(
    rules: Sequence[Constraint], axes: Sequence[Axis], given: Iterable[str]
) -> tuple[list[list[Constraint]], list[Constraint]]:
    """Return (for each axis the rules that can be checked from there on, the rules that read derived constants)."""
    known, pending = set(given), list(rules)
    early: list[list[Constraint]] = []
    for item in axes:
        known.add(item.name)
        now = [rule for rule in pending if names_in(rule.expression) <= known]
        pending = [rule for rule in pending if rule not in now]
        early.append(now)
    return early, pending
