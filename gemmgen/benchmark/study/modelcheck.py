"""How well the model orders configs: measured times of many, kept as a file, against what it predicts today.

The file holds what a prediction needs (problem, config, registers as compiled), so the check runs with no GPU and no
compiler, and shows what a change of the model does. On a GPU the times are measured anew.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from gemmgen.artifacts.kernelfile import read_text
from gemmgen.artifacts.records import Document, problem_document
from gemmgen.benchmark.shapes import GROUPS
from gemmgen.kernel.config import axes_of_record
from gemmgen.kernel.families import FAMILIES, Config, Family
from gemmgen.kernel.families.base import first_rejection
from gemmgen.kernel.model import MODEL_ERROR, predict
from gemmgen.problem.device import DEVICES, DeviceSpec, device_named
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import parse_shape
from gemmgen.problem.types import Types
from gemmgen.run.compile import compiler_processes
from gemmgen.run.gpu.timing import QUICK
from gemmgen.run.nvrtc import compiler_version
from gemmgen.run.target import Target
from gemmgen.search.order import Ranked, Search
from gemmgen.search.space import explore
from gemmgen.search.trial import Progress, Silent, Trial
from gemmgen.search.tuner import Tuner
from gemmgen.support.brief import brief
from gemmgen.support.child import crew
from gemmgen.support.clock import today
from gemmgen.support.errors import GemmgenError, InvalidInput, require
from gemmgen.support.files import Store, write_atomic
from gemmgen.support.version import gemmgen_version

DATA = Path(__file__).parent / "data"
TIMES = {path.stem.split("_")[1]: path for path in sorted(DATA.glob("h200_*_times.json"))}  # by family
TOP = 16  # where in the model's order the fastest should be
PER_PROBLEM = 48  # configs to measure
FROM_THE_TOP = 3  # one of so many is the model's own choice, the others are drawn
WITHIN = 2.0  # times the least predicted time: configs beyond it are not measured
OTHERS = ("batch", "pointers", "epilogue")  # of a problem, where they are not the usual ones
DETAILED = 3  # of the fastest: those are measured with all details, too


@dataclass(frozen=True)
class CheckRow:
    """A config's axes as they were, the registers of its kernel, and its median time in microseconds."""

    values: dict[str, int]
    registers: int
    us: float


@brief
@dataclass(frozen=True)
class Times:
    """Measured times of one family on one card.

    provenance  when, by what and how they were measured: strings
    """

    family: Family
    device: DeviceSpec
    provenance: dict[str, str]
    problems: tuple[tuple[Problem, tuple[CheckRow, ...]], ...]


@dataclass(frozen=True)
class Agreement:
    """The model's order of a problem's configs beside that of their times.

    measured_us, predicted_us  of the same configs, the fastest first
    skipped                    rows whose config this version does not know or accept
    """

    problem: Problem
    measured_us: tuple[float, ...]
    predicted_us: tuple[float, ...]
    skipped: int

    @property
    def rank_correlation(self) -> float:
        """Spearman's, -1 to 1; ties share their mean rank. 0 where there is no order to compare."""
        return rank_correlation(self.measured_us, self.predicted_us)

    @property
    def within(self) -> int:
        """How many times were predicted within MODEL_ERROR of the measured one."""
        pairs = zip(self.measured_us, self.predicted_us, strict=True)
        return sum(abs(predicted / measured - 1) <= MODEL_ERROR for measured, predicted in pairs)

    @property
    def place(self) -> int:
        """Where the model puts the fastest, from 1 on; behind those that it cannot tell from it."""
        return sum(predicted <= self.predicted_us[0] for predicted in self.predicted_us)

    @property
    def lost(self) -> float:
        """How much slower than the fastest the best of the model's first TOP is: 0 where it is among them."""
        order = sorted(range(len(self.predicted_us)), key=lambda index: self.predicted_us[index])
        return min(self.measured_us[index] for index in order[:TOP]) / self.measured_us[0] - 1


@brief
@dataclass(frozen=True)
class ModelCheck:
    """The model against `times`: an Agreement for each problem of which configs are left."""

    times: Times
    agreements: tuple[Agreement, ...]

    @property
    def configs(self) -> int:
        return sum(len(one.measured_us) for one in self.agreements)

    @property
    def skipped(self) -> int:
        return sum(len(rows) for _, rows in self.times.problems) - self.configs

    @property
    def rank_correlation(self) -> float:
        """Mean over the problems."""
        return fmean(one.rank_correlation for one in self.agreements)

    @property
    def within(self) -> int:
        return sum(one.within for one in self.agreements)

    @property
    def in_top(self) -> int:
        """Of how many problems the fastest is among the model's first TOP."""
        return sum(one.place <= TOP for one in self.agreements)


def check_model(times: Times) -> ModelCheck:
    """Predict every row of `times` from its recorded registers. Raises GemmgenError where no row can be."""
    agreements = tuple(one for problem, rows in times.problems if (one := _agreement(problem, rows, times)).measured_us)
    if not agreements:
        raise GemmgenError("this version accepts none of the configs whose times were measured: measure them anew")
    return ModelCheck(times, agreements)


def _agreement(problem: Problem, rows: Sequence[CheckRow], times: Times) -> Agreement:
    pairs = sorted(
        (row.us, predict(times.family.plan(problem, config), times.device, row.registers).time_us)
        for row in rows
        if (config := _config(row, problem, times)) is not None
    )
    measured, predicted = tuple(us for us, _ in pairs), tuple(us for _, us in pairs)
    return Agreement(problem, measured, predicted, len(rows) - len(pairs))


def _config(row: CheckRow, problem: Problem, times: Times) -> Config | None:
    """The row's config, axes that came since at their defaults; None where this version has none such."""
    known = {item.name for item in times.family.config_type.axes()}
    if not row.values.keys() <= known:
        return None
    config = times.family.config_type(**row.values)
    return None if first_rejection(times.family, problem, config, times.device.arch.limits) else config


def rank_correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Spearman's rank correlation; 0 where one of the two is constant."""
    first, second = _ranks(ours), _ranks(theirs)
    if len(set(first)) < 2 or len(set(second)) < 2:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1 on; equal values share the mean of theirs."""
    order = sorted(values)
    return [(2 * order.index(value) + order.count(value) + 1) / 2 for value in values]


def check_document(check: ModelCheck) -> Document:
    """The check as JSON-ready data: totals, and each problem with its pairs of times."""
    return {
        "study": "model",
        "family": check.times.family.name,
        "device": check.times.device.name,
        "provenance": check.times.provenance,
        "configs": check.configs,
        "skipped": check.skipped,
        "rank_correlation": check.rank_correlation,
        "within": {"error": MODEL_ERROR, "configs": check.within},
        "in_top": {"top": TOP, "problems": check.in_top, "of": len(check.agreements)},
        "problems": [
            {
                "problem": problem_document(one.problem),
                "rank_correlation": one.rank_correlation,
                "within": one.within,
                "place_of_the_fastest": one.place,
                "lost_in_top": one.lost,
                **{name: value for name, value in asdict(one).items() if name != "problem"},
            }
            for one in check.agreements
        ],
    }


# The file


def load_times(path: Path) -> Times:
    """Read what `save_times` wrote. Raises InvalidInput where `path` is no such file."""
    text = read_text(path)
    try:
        document = json.loads(text)
        columns = document["columns"]
        require(columns[-2:] == ["registers", "us"], f"the last columns are {columns[-2:]}, not registers, us")
        problems = tuple(
            (_problem(group), tuple(_row(columns, values) for values in group["rows"]))
            for group in document["problems"]
        )
        return Times(
            FAMILIES[document["family"]], device_named(document["device"]), dict(document["provenance"]), problems
        )
    except InvalidInput as error:
        raise InvalidInput(f"{path} holds no measured times: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InvalidInput(f"{path} holds no measured times: {type(error).__name__} {error}") from error


def _problem(group: dict[str, Any]) -> Problem:
    others = {name: group[name] for name in OTHERS if name in group}
    types, layout = Types.from_token(group["dtype"]), Layout.parse(group["layout"])
    return Problem(*parse_shape(group["shape"]), types=types, layout=layout, **others)


def _row(columns: Sequence[str], values: Sequence[float]) -> CheckRow:
    *axes, registers, us = values
    require(math.isfinite(us) and us > 0, f"a time of {us} us")
    require(registers >= 1, f"a kernel of {registers} registers")
    config = axes_of_record({name: int(value) for name, value in zip(columns[:-2], axes, strict=True)})
    return CheckRow(config, int(registers), float(us))


def save_times(times: Times, path: Path) -> None:
    """Write `times`, a line a row. Raises GemmgenError."""
    axes = list(dict.fromkeys(name for _, rows in times.problems for row in rows for name in row.values))
    head = {"family": times.family.name, "device": times.device.name, "provenance": times.provenance}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    columns = json.dumps([*axes, "registers", "us"])
    groups = ",\n".join(_group(problem, rows, axes) for problem, rows in times.problems)
    write_atomic(path, "\n".join(["{", *lines, f'"columns": {columns},', f'"problems": [\n{groups}\n]', "}\n"]))


def _group(problem: Problem, rows: Sequence[CheckRow], axes: Sequence[str]) -> str:
    usual = Problem(1, 1, 1)
    others = {name: getattr(problem, name) for name in OTHERS if getattr(problem, name) != getattr(usual, name)}
    named = {"shape": problem.shape, "dtype": problem.types.token, "layout": str(problem.layout), **others}
    values = (json.dumps([*(row.values[name] for name in axes), row.registers, round(row.us, 3)]) for row in rows)
    return json.dumps(named, default=str)[:-1] + ', "rows": [\n' + ",\n".join(values) + "\n]}"


# Measuring anew


def unmeasured(family: Family, groups: Sequence[str], device: DeviceSpec) -> Times:
    """The problems of the suite's `groups`, of which no time is known."""
    problems = dict.fromkeys(problem for name in groups for problem in GROUPS[name].problems)
    return Times(family, device, {}, tuple((problem, ()) for problem in problems))


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
    """Time `budget` configs of each problem of `known` on `target`'s GPU: some the model's first, the others drawn.

    And the fastest of them with other details. A problem's times all come from one run. What does not compile, spills
    or fails to run is left out, and so is a problem without times. A measurement that was interrupted resumes: kernels
    and first timings are kept by content. Raises InvalidInput for a card that gemmgen.problem.device does not list, as
    the check needs its figures, and GemmgenError where nothing could be timed.
    """
    assert target.gpu is not None, "times are measured on a GPU"
    card = next((spec for spec in DEVICES.values() if spec.is_card(target.spec.name)), None)
    require(card is not None, f"{target.spec.name} is none of the known cards: {', '.join(DEVICES)}")
    assert card is not None
    problems = []
    with crew(compiler_processes()) as compilers:
        for problem, _ in known.problems:
            tuner = Tuner(problem, target, store, (known.family,), seed, progress or Silent(), compilers)
            search, rng = _search(tuner), random.Random(seed)
            tried = candidates(search, budget or PER_PROBLEM, rng)
            trials = tuner.measure(tuner.compile(tuner.render(tried)))
            trials += tuner.compile(tuner.render(detailed(search, trials)))
            rng.shuffle(trials)  # among kernels that take as much power as it does, one is slower
            trials = tuner.measurements.together(trials)
            rows = sorted(filter(None, map(_timed, trials)), key=lambda row: row.us)
            if rows:
                problems.append((problem, tuple(rows)))
    if not problems:
        raise GemmgenError("none of the configs could be timed")
    return Times(known.family, card, _provenance(target, command), tuple(problems))


def _search(tuner: Tuner) -> Search:
    tuner.progress.stage("explore", 1)
    spec = tuner.target.spec
    search = Search([explore(family, tuner.problem, spec) for family in tuner.families], spec)
    tuner.progress.step("explore", None)
    return search


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
    """The model's first, and others at random, of those up to WITHIN times the least predicted time: with a large
    budget all of them."""
    least = min((entry.prediction.time_us for entry in search.ranked), default=math.inf)
    likely = [entry for entry in search.ranked if entry.prediction.time_us <= WITHIN * least]
    configs = {entry.config for entry in likely}
    first = [entry for entry in search.first(-(-budget // FROM_THE_TOP)) if entry.config in configs]
    taken = {entry.config for entry in first}
    others = [entry for entry in likely if entry.config not in taken]
    return first + rng.sample(others, min(budget - len(first), len(others)))


def detailed(search: Search, trials: Sequence[Trial]) -> list[Ranked]:
    """The DETAILED fastest of `trials` with all other values of their families' details."""
    timed = sorted((trial for trial in trials if trial.timing is not None), key=lambda trial: trial.time_us)
    found = (
        (FAMILIES[trial.plan.family], config)
        for trial in timed[:DETAILED]
        for config in _with_details(FAMILIES[trial.plan.family], trial.config)
    )
    return search.given(list(found))


def _with_details(family: Family, config: Config) -> Iterator[Config]:
    """`config` with each combination of its family's details."""
    axes = [axis for axis in config.axes() if axis.name in family.details]
    for values in product(*(axis.values for axis in axes)):
        yield config.with_values(**dict(zip((axis.name for axis in axes), values, strict=True)))
