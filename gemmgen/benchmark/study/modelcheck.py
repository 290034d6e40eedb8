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


@dataclass(frozen=True)
class CheckRow:
    """A config's axes as they were, the registers of its kernel, and its median time in microseconds."""

    values: dict[str, int]
    registers: int
    us: float


@dataclass(frozen=True)
class Measured:
    """The configs of one family that were timed for a problem."""

    problem: Problem
    family: Family
    rows: tuple[CheckRow, ...] = ()


@brief
@dataclass(frozen=True)
class Times:
    """Measured times on one card; a problem's may be of several families.

    provenance  when, by what and how they were measured: strings
    """

    device: DeviceSpec
    provenance: dict[str, str]
    measured: tuple[Measured, ...]

    @property
    def families(self) -> tuple[Family, ...]:
        return tuple(dict.fromkeys(one.family for one in self.measured))

    @property
    def problems(self) -> dict[Problem, list[Measured]]:
        """What was measured of each."""
        found: dict[Problem, list[Measured]] = {}
        for one in self.measured:
            found.setdefault(one.problem, []).append(one)
        return found


@dataclass(frozen=True)
class Agreement:
    """The model's order of a problem's configs beside that of their times.

    measured_us, predicted_us  of the same configs, the fastest first
    kernel                     of each a number, which those share that differ in details alone: a search tries details
                               last, of the fastest, so that the order is that of kernels apart from them
    skipped                    rows whose config this version does not know or accept
    """

    problem: Problem
    measured_us: tuple[float, ...]
    predicted_us: tuple[float, ...]
    kernel: tuple[int, ...]
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
        predicted = [us for us, _ in self._kernels]
        return sum(us <= predicted[0] for us in predicted)

    @property
    def lost(self) -> float:
        """How much slower than the fastest the best of the model's first TOP is: 0 where it is among them."""
        return min(measured for _, measured in sorted(self._kernels)[:TOP]) / self.measured_us[0] - 1

    @property
    def _kernels(self) -> list[tuple[float, float]]:
        """(predicted, measured) us of each kernel, the least of its details: the fastest first, as rows are."""
        found: dict[int, tuple[float, float]] = {}
        for kernel, measured, predicted in zip(self.kernel, self.measured_us, self.predicted_us, strict=True):
            least, fastest = found.get(kernel, (predicted, measured))
            found[kernel] = (min(least, predicted), fastest)
        return list(found.values())


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
        return sum(len(one.rows) for one in self.times.measured) - self.configs

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
    found = (_agreement(problem, parts, times.device) for problem, parts in times.problems.items())
    agreements = tuple(one for one in found if one.measured_us)
    if not agreements:
        raise GemmgenError("this version accepts none of the configs whose times were measured: measure them anew")
    return ModelCheck(times, agreements)


def _agreement(problem: Problem, parts: Sequence[Measured], device: DeviceSpec) -> Agreement:
    rows: list[tuple[float, float, int]] = []
    kernels: dict[Config, int] = {}
    for part in parts:
        for row in part.rows:
            if (config := _config(row, part, device)) is not None:
                kernel = kernels.setdefault(_without_details(part.family, config), len(kernels))
                rows.append((row.us, predict(part.family.plan(problem, config), device, row.registers).time_us, kernel))
    rows.sort()
    skipped = sum(len(part.rows) for part in parts) - len(rows)
    return Agreement(
        problem, tuple(us for us, _, _ in rows), tuple(us for _, us, _ in rows), tuple(n for *_, n in rows), skipped
    )


def _config(row: CheckRow, part: Measured, device: DeviceSpec) -> Config | None:
    """The row's config, axes that came since at their defaults; None where this version has none such."""
    known = {item.name for item in part.family.config_type.axes()}
    if not row.values.keys() <= known:
        return None
    config = part.family.config_type(**row.values)
    return None if first_rejection(part.family, part.problem, config, device.arch.limits) else config


def _without_details(family: Family, config: Config) -> Config:
    """`config` with its family's details at their defaults."""
    return config.with_values(**{axis.name: axis.default for axis in config.axes() if axis.name in family.details})


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
        "families": [family.name for family in check.times.families],
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
        measured = tuple(
            Measured(_problem(part), FAMILIES[part["family"]], tuple(_rows(columns[part["family"]], part["rows"])))
            for part in document["measured"]
        )
        return Times(device_named(document["device"]), dict(document["provenance"]), measured)
    except InvalidInput as error:
        raise InvalidInput(f"{path} holds no measured times: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InvalidInput(f"{path} holds no measured times: {type(error).__name__} {error}") from error


def _problem(part: dict[str, Any]) -> Problem:
    others = {name: part[name] for name in OTHERS if name in part}
    types, layout = Types.from_token(part["dtype"]), Layout.parse(part["layout"])
    return Problem(*parse_shape(part["shape"]), types=types, layout=layout, **others)


def _rows(columns: Sequence[str], lines: Sequence[Sequence[float]]) -> Iterator[CheckRow]:
    require(columns[-2:] == ["registers", "us"], f"the last columns are {columns[-2:]}, not registers, us")
    for *axes, registers, us in lines:
        require(math.isfinite(us) and us > 0, f"a time of {us} us")
        require(registers >= 1, f"a kernel of {registers} registers")
        config = axes_of_record({name: int(value) for name, value in zip(columns[:-2], axes, strict=True)})
        yield CheckRow(config, int(registers), float(us))


def save_times(times: Times, path: Path) -> None:
    """Write `times`, a line a row. Raises GemmgenError."""
    columns: dict[str, list[str]] = {}
    for part in times.measured:
        known = columns.setdefault(part.family.name, [])
        known += dict.fromkeys(name for row in part.rows for name in row.values if name not in known)
    head = {"device": times.device.name, "provenance": times.provenance}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    table = ",\n".join(f'"{name}": {json.dumps([*axes, "registers", "us"])}' for name, axes in columns.items())
    parts = ",\n".join(_part(part, columns[part.family.name]) for part in times.measured)
    write_atomic(path, "\n".join(["{", *lines, f'"columns": {{\n{table}\n}},', f'"measured": [\n{parts}\n]', "}\n"]))


def _part(part: Measured, axes: Sequence[str]) -> str:
    problem, usual = part.problem, Problem(1, 1, 1)
    others = {name: getattr(problem, name) for name in OTHERS if getattr(problem, name) != getattr(usual, name)}
    named = {"shape": problem.shape, "dtype": problem.types.token, "layout": str(problem.layout), **others}
    rows = (json.dumps([*(row.values[name] for name in axes), row.registers, round(row.us, 3)]) for row in part.rows)
    return (
        json.dumps({**named, "family": part.family.name}, default=str)[:-1]
        + ', "rows": [\n'
        + ",\n".join(rows)
        + "\n]}"
    )


# Measuring anew


def unmeasured(
    families: Sequence[Family], groups: Sequence[str], device: DeviceSpec, shapes: int | None = None, seed: int = 0
) -> Times:
    """The problems of the suite's `groups`, of which no time is known; `shapes` of each group, drawn, or all."""
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
    """Time `budget` configs of each problem of `known` on `target`'s GPU: some the model's first, the others drawn.

    Of the families that are known of it, those first that the model says. And the fastest of them with other details.
    A problem's times all come from one run. What does not compile, spills or fails to run is left out, and so is a
    problem without times. A measurement that was interrupted resumes: kernels
    and first timings are kept by content. Raises InvalidInput for a card that gemmgen.problem.device does not list, as
    the check needs its figures, and GemmgenError where nothing could be timed.
    """
    assert target.gpu is not None, "times are measured on a GPU"
    card = next((spec for spec in DEVICES.values() if spec.is_card(target.spec.name)), None)
    require(card is not None, f"{target.spec.name} is none of the known cards: {', '.join(DEVICES)}")
    assert card is not None
    measured: list[Measured] = []
    with crew(compiler_processes()) as compilers:
        for problem, parts in known.problems.items():
            families = [part.family for part in parts]
            tuner = Tuner(problem, target, store, families, seed, progress or Silent(), compilers)
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
    """The fastest of `trials` with each other value of each detail of their families."""
    timed = [(trial.config, trial.time_us) for trial in trials if trial.timing is not None]
    return [entry for axis in search.details(timed) for entry in search.moved(axis, None, timed)]
