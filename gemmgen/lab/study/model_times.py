"""Measures times of many configs on the GPU here for a check of the model: its first configs and random ones."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from gemmgen.families import Family
from gemmgen.lab.shapes import GROUPS
from gemmgen.lab.study.times import CheckRow, Measured, Times
from gemmgen.problem.device import DEVICES, DeviceSpec, known_card
from gemmgen.problem.gemm import Problem
from gemmgen.run.compile import compiler_processes
from gemmgen.run.gpu.timing import QUICK
from gemmgen.run.nvrtc import compiler_version
from gemmgen.run.target import Target
from gemmgen.search.order import Ranked, Search
from gemmgen.search.trial import Progress, Trial
from gemmgen.search.tuner import Tuner
from gemmgen.support.child import crew
from gemmgen.support.errors import GemmgenError, require
from gemmgen.support.files import Store
from gemmgen.support.stamp import gemmgen_version, today

PER_PROBLEM = 48  # configs to measure
FROM_THE_TOP = 3  # one of so many is the model's own choice, the others are drawn
WITHIN = 2.0  # times the least predicted time: configs beyond it are not measured


def unmeasured(
    families: Sequence[Family], groups: Sequence[str], device: DeviceSpec, shapes: int | None = None, seed: int = 0
) -> Times:
    """The problems of the suite's `groups`, without times; `shapes` problems drawn per group, or all."""
    problems: dict[Problem, None] = {}
    for name in groups:
        known = GROUPS[name].problems
        drawn = known if shapes is None else random.Random(seed).sample(known, min(shapes, len(known)))
        problems.update(dict.fromkeys(sorted(drawn, key=known.index)))
    return Times(device, {}, tuple(Measured(problem, family) for problem in problems for family in families))


def measure_times(
    known: Times,
    target: Target,
    store: Store,
    command: str,
    *,
    budget: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Times:
    """Time `budget` configs of each problem of `known` on `target`'s GPU: some are the model's first, the others
    random.

    The configs come from all families in `known` for the problem; the fastest are also timed with other details. A
    problem's times all come from one run. Kernels that do not compile, spill or fail to run are left out, and so is a
    problem without times. An interrupted measurement resumes: kernels and first timings are cached by content. Raises
    InvalidInput for a card that gemmgen.problem.device does not list, as the check needs its figures, and GemmgenError
    if nothing could be timed.
    """
    assert target.gpu is not None, "times are measured on a GPU"
    card = known_card(target.spec)
    require(card is not None, f"{target.spec.name} is none of the known cards: {', '.join(DEVICES)}")
    assert card is not None
    measured: list[Measured] = []
    with crew(compiler_processes()) as compilers:
        for problem, parts in known.problems.items():
            families = [part.family for part in parts]
            tuner = Tuner(problem, target, store, families, seed, progress or Progress(), compilers)
            try:
                search, rng = tuner.explore(), random.Random(seed)
            except GemmgenError:  # none of the families has a config for it
                continue
            tried = candidates(search, budget or PER_PROBLEM, rng)
            trials = tuner.measure(tuner.compile(tuner.render(tried)))
            trials += tuner.compile(tuner.render(detailed(search, trials)))
            rng.shuffle(trials)  # among kernels that take as much power as it does, one is slower
            trials = tuner.measurements.together(trials)
            measured += filter(lambda part: part.rows, (_measured(problem, family, trials) for family in families))
    if not measured:
        raise GemmgenError("none of the configs could be timed")
    return Times(card, _provenance(target, command), tuple(measured))


def _measured(problem: Problem, family: Family, trials: Sequence[Trial]) -> Measured:
    rows = filter(None, (_timed(trial) for trial in trials if trial.plan.family == family.name))
    return Measured(problem, family, tuple(sorted(rows, key=lambda row: row.us)))


def _timed(trial: Trial) -> CheckRow | None:
    if trial.failure is not None or trial.compiled is None or trial.timing is None:
        return None
    return CheckRow(trial.config.values, trial.compiled.registers, trial.timing.median_us)


def _provenance(target: Target, command: str) -> dict[str, str]:
    return {
        "date": today(),
        "gemmgen": gemmgen_version(),
        "card": target.executor.description,
        "compiler": compiler_version(),
        "protocol": f"{QUICK.name}: median of {QUICK.samples} rounds of a problem's configs, in one random order",
        "command": command,
    }


def candidates(search: Search, budget: int, rng: random.Random) -> list[Ranked]:
    """The model's first configs, and random ones among those with up to WITHIN times the least predicted time; with a
    large budget all of those."""
    least = min((entry.prediction.time_us for entry in search.ranked), default=math.inf)
    likely = [entry for entry in search.ranked if entry.prediction.time_us <= WITHIN * least]
    configs = {entry.config for entry in likely}
    first = [entry for entry in search.first(-(-budget // FROM_THE_TOP)) if entry.config in configs]
    taken = {entry.config for entry in first}
    others = [entry for entry in likely if entry.config not in taken]
    return first + rng.sample(others, min(budget - len(first), len(others)))


def detailed(search: Search, trials: Sequence[Trial]) -> list[Ranked]:
    """The fastest of `trials` with each other value of each detail of their families."""
    timed = [(trial.config, trial.time_us) for trial in trials if trial.timing is not None]
    return [entry for axis in search.details(timed) for entry in search.moved(axis, None, timed)]
