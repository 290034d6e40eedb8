"""The quality of a library's choices: measured on a GPU or, without one, by the times in its record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gemmgen.exports.library.choice import Choice, Drawn, draw
from gemmgen.exports.library.choices_json import choices_from
from gemmgen.exports.library.clocks import Measured, Remembered
from gemmgen.exports.library.spec import Spec
from gemmgen.exports.library.table import Regret, regret_of
from gemmgen.run.target import DeviceChoice, Target, open_target
from gemmgen.search.trial import Progress
from gemmgen.support.errors import require
from gemmgen.support.files import Store
from gemmgen.support.short_repr import brief

SIZES = 200  # that are drawn, where nobody says how many


@brief
@dataclass(frozen=True)
class ProductRegret:
    """How much longer a product's choices on one architecture take than the fastest of all candidates.

    The candidates include kernels that are not in the library.

    kind    "measured": the kernels were timed here, for sizes drawn at random that are not of the grid
            "recorded": measured when the library was made, as its record says
            "predicted": by the model's times
    device  the device on which they were measured, or for which they were predicted
    drawn   the sizes, with the time of the chosen kernel and of the fastest candidate
    """

    product: str
    arch: str
    kind: Literal["measured", "recorded", "predicted"]
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
        clock = Remembered(Measured(target.gpu, target.spec), target.spec, None, progress)
        drawn = tuple(draw(choice, clock, f"regret {seed}", count))
        return ProductRegret(name, arch, "measured", target.spec.name, drawn)
    kind: Literal["recorded", "predicted"] = "recorded" if choice.kind == "measured" else "predicted"
    return ProductRegret(name, arch, kind, choice.device, choice.drawn)
