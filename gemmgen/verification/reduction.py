"""Reduces a failing situation to the smallest one that still fails, one coordinate at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from gemmgen.verification.checks import Wrong
from gemmgen.verification.situation import (
    EXACT_KINDS,
    EXACT_SCALARS,
    RUNTIME_SIZES,
    DataKind,
    Situation,
    data_kinds,
    distances_of,
    free_sizes,
    least_size,
    resized,
)

SCANNED = RUNTIME_SIZES[-1]  # values of a coordinate that are tried one by one, plainest first
OTHER_SEEDS = 4  # tried besides the current seed: the data of one seed may hide a failure
MOST_OF_HUGE = max(map(abs, EXACT_SCALARS))  # largest scalar with huge data, which it would make overflow
ALPHAS, BETAS = (1.0, 2.0, -1.0, 0.0), (0.0, 1.0, 2.0, -1.0)  # plainest first


def smallest(found: Wrong, run: Callable[[Situation], Wrong | None], seconds: float) -> Wrong:
    """The same kind of failure as `found` in the smallest situation that is found within `seconds`.

    `run` returns the failure of a situation, or None if it passes. In the result no single coordinate can be made
    smaller or plainer: a size, the padding of a leading dimension or stride, alpha, beta, the kind of data, the seed.
    Values beyond the SCANNED smallest are only bisected: if such values pass and fail in turn, a smaller one may be
    missed.

    A hang is not reduced, because each run of it takes the whole time limit.
    """
    if found.failure.kind == "timeout":
        return found
    return _Reduction(found, run, time.monotonic() + seconds).found


class _Reduction:
    """The reduction runs in the constructor; `found` is then the smallest failure."""

    def __init__(self, found: Wrong, run: Callable[[Situation], Wrong | None], deadline: float) -> None:
        self.found = found
        self._run, self._deadline = run, deadline
        self._tried = {_key(found.situation)}
        before: Wrong | None = None
        while before is not self.found:
            before = self.found
            for name in plainer(before.situation):
                self._bisect(name)
            for name in plainer(before.situation) if self.found is before else ():
                self._scan(name)

    def _bisect(self, name: str) -> None:
        start = self.found.situation
        values = plainer(start)[name]
        passes, fails = -1, len(values)
        while fails - passes > 1:
            middle = (passes + fails) // 2 if passes >= 0 else 0
            if self._fails(changed(start, name, values[middle])):
                fails = middle
            else:
                passes = middle

    def _scan(self, name: str) -> None:
        start = self.found.situation
        values = plainer(start)[name]
        near = {len(values) - 2**i for i in range(len(values).bit_length())}
        seeds = () if name == "seed" else range(OTHER_SEEDS)
        for place in sorted({*range(min(len(values), SCANNED)), *near}):
            candidate = changed(start, name, values[place])
            others = (replace(candidate, seed=seed) for seed in seeds) if place in near else ()
            if any(map(self._fails, (candidate, *others))):
                return

    def _fails(self, situation: Situation) -> bool:
        """Whether `situation` fails in the same way. False if it was tried before, or if the time is up."""
        key = _key(situation)
        if key in self._tried or time.monotonic() > self._deadline:
            return False
        self._tried.add(key)
        failed = self._run(situation)
        if failed is None or failed.failure.kind != self.found.failure.kind:
            return False
        self.found = failed
        return True


def _key(situation: Situation) -> tuple[str, Situation]:
    """A key that is equal for equal situations, except that 0 and -0 differ."""
    return f"{situation.case.alpha} {situation.case.beta}", situation


def plainer(situation: Situation) -> dict[str, Sequence[Any]]:
    """The values of each coordinate that are plainer than the one in `situation`, plainest first."""
    case, ld_align = situation.case, situation.case.problem.ld_align
    alphas = _before(case.alpha, ALPHAS)
    return {
        "alpha": tuple(alpha for alpha in alphas if alpha != 0) if situation.data == "onehot" else alphas,
        "beta": _before(case.beta, BETAS),
        "data": tuple(_kinds(situation)),
        **{name: _distances(name, distance, ld_align) for name, distance in distances_of(case).items()},
        **{name: range(least_size(name), size) for name, size in free_sizes(case).items()},
        "seed": range(min(situation.seed, OTHER_SEEDS)),
    }


def _before(scalar: float, plainest: tuple[float, ...]) -> tuple[float, ...]:
    """The scalars before `scalar` in `plainest`; all of them if it is not there, like -0."""
    known = [str(one) for one in plainest]
    return plainest[: known.index(str(scalar))] if str(scalar) in known else plainest


def _kinds(situation: Situation) -> Iterator[DataKind]:
    """Plainer kinds of data that suit the scalars: results stay exact, do not overflow and are not all 0."""
    scalars = situation.case.alpha, situation.case.beta
    for kind in takewhile(lambda kind: kind != situation.data, data_kinds(situation.case.problem.types)):
        if kind in EXACT_KINDS and not {*scalars} <= {*EXACT_SCALARS}:
            continue
        if kind == "onehot" and scalars[0] == 0:
            continue
        if kind == "huge" and not all(abs(scalar) <= MOST_OF_HUGE for scalar in scalars):
            continue
        yield kind


def _distances(name: str, distance: int, ld_align: int) -> Sequence[int]:
    """Smaller paddings. A stride of 0 can only become dense; counts of different matrices have no alignment."""
    if distance < 0:
        return (0,)
    return range(0, distance, 1 if name.startswith(("different_", "rows_")) else ld_align)


def changed(situation: Situation, name: str, value: Any) -> Situation:
    """`situation` with another value of the coordinate `name`. If a size changes, paddings stay."""
    case = situation.case
    if name in ("data", "seed"):
        return replace(situation, **{name: value})
    if name in ("alpha", "beta"):
        return replace(situation, case=replace(case, **{name: value}))
    sizes, distances = free_sizes(case), distances_of(case)
    (sizes if name in sizes else distances)[name] = value
    return replace(situation, case=resized(case, sizes, distances))
