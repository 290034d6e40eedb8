"""The quality of a library's choices: measured on a GPU or, without one, by the times in its record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from gemmgen.exports.library.choice import Choice, Drawn, Point, Rule, Timed
from gemmgen.exports.library.choices_json import choices_from
from gemmgen.exports.library.clocks import Measured
from gemmgen.exports.library.draws import DRAWN, draw
from gemmgen.exports.library.estimates import fitted
from gemmgen.exports.library.fallback import Contestant
from gemmgen.exports.library.members import Needs
from gemmgen.exports.library.rules import without_gaps
from gemmgen.exports.library.spec import Spec
from gemmgen.exports.library.steps import steps_of
from gemmgen.exports.library.table import AXES, Regret, Sizes, chosen, regions, regret_of
from gemmgen.problem.device import DeviceSpec
from gemmgen.run.target import DeviceChoice, Target, open_target
from gemmgen.search.trial import Progress
from gemmgen.support.errors import require
from gemmgen.support.files import Store
from gemmgen.support.short_repr import brief

Section = tuple[Needs, frozenset[tuple[str, int]]]
SIZES = 200  # that are drawn, where nobody says how many
FOLDS = 8  # parts of the recorded times, each of which is left out in turn


@brief
@dataclass(frozen=True)
class ProductRegret:
    """How much longer a product's choices on one architecture take than the fastest of all candidates.

    The candidates include kernels that are not in the library.

    kind    "measured": the kernels were timed here, for sizes drawn at random that are not of the grid
            "cross-validated": by measured times of the record, for sizes that were left out when rules were made again
            "predicted": by the model's times
    device  the device on which they were measured, or for which they were predicted
    drawn   the sizes, with the time of the chosen kernel and of the fastest candidate
    """

    product: str
    arch: str
    kind: Literal["measured", "cross-validated", "predicted"]
    device: str
    drawn: tuple[Drawn, ...]

    @property
    def regret(self) -> Regret:
        return regret_of([one.us / one.best_us for one in self.drawn])

    @property
    def worst(self) -> Drawn:
        return max(self.drawn, key=lambda one: one.us / one.best_us)


def measured_regret(
    spec: Spec, folder: Path, device: DeviceChoice, count: int | None, seed: int, progress: Progress
) -> tuple[ProductRegret, ...]:
    """Of the library in `folder` that was made of `spec`: see gemmgen.regret."""
    choices = choices_from(spec, folder)
    found: list[ProductRegret] = []
    for arch in spec.architectures:
        target = open_target(device, arch, Store())
        with target.executor:
            own = [choice for choice in choices if choice.arch == arch]
            found += [_of(choice, target, count or SIZES, seed, progress) for choice in own]
    draws = count is None or any(one.kind == "measured" for one in found)
    names, on_record = ", ".join(spec.architectures), max((len(one.drawn) for one in found), default=0)
    require(
        draws,
        f"{count} sizes to draw, and no GPU of {names} here to time kernels for them: where that is left out, those on "
        f"record are compared, {on_record} of a product",
    )
    return tuple(found)


def _of(choice: Choice, target: Target, count: int, seed: int, progress: Progress) -> ProductRegret:
    name, arch = choice.product.name, choice.arch
    if target.gpu is not None:
        progress.about(f"{name}: {count} sizes")
        clock = Fresh(Measured(target.gpu, target.spec), target.spec, progress)
        drawn = tuple(draw(choice, clock, f"regret {seed}", count))
        return ProductRegret(name, arch, "measured", target.spec.name, drawn)
    if choice.kind == "measured" and choice.times:
        return ProductRegret(name, arch, "cross-validated", choice.device, tuple(cross_validated(choice)))
    return ProductRegret(name, arch, "predicted", choice.device, choice.drawn)


@dataclass(frozen=True)
class Fresh:
    """A GPU's times, measured now: a choice.Clock."""

    clock: Measured
    spec: DeviceSpec
    progress: Progress
    kind: Literal["measured", "predicted"] = "measured"
    most: int = DRAWN

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        self.progress.stage("measure", len(points))
        rows = []
        for sizes in points:
            rows.append(self.clock.times(members, sizes, given))
            self.progress.step("measure", None)
        return rows


def cross_validated(choice: Choice) -> Iterator[Drawn]:
    """Yield each recorded size, decided by rules that were made without it and every FOLDSth size from it on."""
    sections: dict[Section, list[Rule]] = {}
    for rule in choice.rules:
        sections.setdefault(_section(choice, rule), []).append(rule)
    held: dict[Section, list[Point]] = {}
    for point in choice.times:
        rule = next(one for one in choice.rules if one.needs == point.given and one.box.holds(point.sizes))
        held.setdefault(_section(choice, rule), []).append(point)
    for section, points in held.items():
        rules = sections[section]
        for fold in range(FOLDS):
            left_out = points[fold::FOLDS]
            others = [point for number, point in enumerate(points) if number % FOLDS != fold]
            yield from _decided(rules, others, left_out)


def _section(choice: Choice, rule: Rule) -> Section:
    """The section of a rule: the conditions of its calls, and the sizes for which kernels are built."""
    built = {item for member in choice.members for item in member.fixed.items()}
    bounds = zip(AXES, rule.box.least, rule.box.most, strict=False)
    return rule.needs, frozenset((axis, low) for axis, low, high in bounds if low == high and (axis, low) in built)


def _decided(rules: Sequence[Rule], known: Sequence[Point], asked: Sequence[Point]) -> Iterator[Drawn]:
    """Decide `asked` points by rules like `rules` that are made from the times at `known` points."""
    kernels = sorted({one for rule in rules for one in rule.kernels})
    sizes = [point.sizes for point in known]
    times = without_gaps(np.array([[point.times_us[one] for one in kernels] for point in known], np.float64))
    stepped = next((rule for rule in rules if rule.steps is not None), None)
    compared = next((rule for rule in rules if rule.estimates is not None), None)
    if compared is not None and compared.estimates is not None:
        tilings = [one.tiling for one in compared.estimates.kernels]
        ours = [[point.times_us[one] for one in compared.kernels] for point in known]
        batches, sms = [point.batch for point in known], compared.estimates.sms
        made = fitted(compared.estimates.axes, tilings, sizes, without_gaps(np.array(ours)), sms, batches)
        picked = [compared.kernels[made.best(point.sizes, point.batch)] for point in asked]
    elif stepped is not None and stepped.steps is not None:
        axis = stepped.steps.axis
        ours = [[point.times_us[one] for one in stepped.kernels] for point in known]
        along = [one[AXES.index(axis)] for one in sizes]
        steps = steps_of(axis, along, np.array(ours, np.float64), stepped.steps.divisions)
        picked = [stepped.kernels[steps.kernel(point.sizes)] for point in asked]
    else:
        found = regions(sizes, times.tolist())
        picked = [kernels[chosen(found, point.sizes) or 0] for point in asked]
    for point, kernel in zip(asked, picked, strict=True):
        yield Drawn(point.given, point.sizes, point.times_us[kernel], point.best_us, point.library_us, point.batch)
