"""The quality of the model's order of configs: today's predictions compared with measured times.

It needs neither a GPU nor a compiler, so it can show the effect of a change of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

import numpy as np

from gemmgen.exports.json_records import Document, problem_document
from gemmgen.families import Config, Family
from gemmgen.families.base import first_rejection
from gemmgen.kernel.model import MODEL_ERROR, predict
from gemmgen.lab.study.times import CheckRow, Measured, Times
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import GemmgenError
from gemmgen.support.short_repr import brief

TOP = 16  # where in the model's order the fastest should be


@dataclass(frozen=True)
class Agreement:
    """The model's order of a problem's configs compared with the order of their times.

    measured_us, predicted_us  times of the same configs, the fastest first
    kernel                     a number per config, shared by configs that differ only in details: a search tries
                               details last, so the order is one of kernels without them
    skipped                    number of rows whose config this version does not know or accept
    """

    problem: Problem
    measured_us: tuple[float, ...]
    predicted_us: tuple[float, ...]
    kernel: tuple[int, ...]
    skipped: int

    @property
    def rank_correlation(self) -> float:
        """Spearman's rank correlation, -1 to 1; ties share their mean rank. 0 if there is no order to compare."""
        return rank_correlation(self.measured_us, self.predicted_us)

    @property
    def within(self) -> int:
        """The number of times predicted within MODEL_ERROR of the measured time."""
        pairs = zip(self.measured_us, self.predicted_us, strict=True)
        return sum(abs(predicted / measured - 1) <= MODEL_ERROR for measured, predicted in pairs)

    @property
    def place(self) -> int:
        """The model's place for the fastest, from 1; behind all that the model cannot distinguish from it."""
        predicted = [us for us, _ in self._kernels]
        return sum(us <= predicted[0] for us in predicted)

    @property
    def lost(self) -> float:
        """How much slower than the fastest the best of the model's first TOP is; 0 if the fastest is among them."""
        return min(measured for _, measured in sorted(self._kernels)[:TOP]) / self.measured_us[0] - 1

    @property
    def _kernels(self) -> list[tuple[float, float]]:
        """(predicted, measured) microseconds of each kernel, over its details the least; the fastest first, like the
        rows."""
        found: dict[int, tuple[float, float]] = {}
        for kernel, measured, predicted in zip(self.kernel, self.measured_us, self.predicted_us, strict=True):
            least, fastest = found.get(kernel, (predicted, measured))
            found[kernel] = (min(least, predicted), fastest)
        return list(found.values())


@brief
@dataclass(frozen=True)
class ModelCheck:
    """The model against `times`: an Agreement for each problem with usable configs."""

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
        """The mean rank correlation over the problems."""
        return fmean(one.rank_correlation for one in self.agreements)

    @property
    def within(self) -> int:
        return sum(one.within for one in self.agreements)

    @property
    def in_top(self) -> int:
        """The number of problems whose fastest kernel is in the model's first TOP."""
        return sum(one.place <= TOP for one in self.agreements)


def check_model(times: Times) -> ModelCheck:
    """Predict every row of `times` from its recorded registers. Raises GemmgenError if no row can be predicted."""
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
    """The row's config, with newer axes at their defaults; None if this version has no such config."""
    known = {item.name for item in part.family.config_type.axes()}
    if not row.values.keys() <= known:
        return None
    config = part.family.config_type(**row.values)
    return None if first_rejection(part.family, part.problem, config, device.arch.limits) else config


def _without_details(family: Family, config: Config) -> Config:
    """`config` with its family's details at their defaults."""
    return config.with_values(**{axis.name: axis.default for axis in config.axes() if axis.name in family.details})


def rank_correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Spearman's rank correlation; 0 if one of the two is constant."""
    first, second = _ranks(ours), _ranks(theirs)
    if len(set(first)) < 2 or len(set(second)) < 2:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of their ranks."""
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
