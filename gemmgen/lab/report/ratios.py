"""Ratios to the baseline as a picture: a strip per group of problems and their types, a dot per problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from textwrap import shorten

from gemmgen.lab.report.anchor import anchor
from gemmgen.lab.report.scale import Frame, LogScale, Tick
from gemmgen.lab.scores import Score
from gemmgen.lab.shapes import GROUPS, group_of

FRAME = Frame(width=1000.0, left=170.0, right=600.0, top=44.0, row=30.0, bottom=34.0)
LONGEST = 36  # characters of a problem
RADIUS = 4.0  # in units of the picture
LANES = (0.0, -1.0, 1.0, -2.0, 2.0)  # a dot keeps clear of its neighbours, as far as there is room
LANE = 4.5
ROOM = 1.08  # of the axis beyond its outermost dots


@dataclass(frozen=True)
class Dot:
    """A problem: its place, its ratio, its kernel's anchor, and its description."""

    x: float
    y: float
    ratio: float
    kernel: str
    text: str

    @property
    def slower(self) -> bool:
        """Whether the baseline is faster."""
        return self.ratio < 1


@dataclass(frozen=True)
class Strip:
    """A group's problems of some types, slowest first; their geometric mean, and the problem with the least ratio."""

    label: str
    y: float
    dots: tuple[Dot, ...]
    mean: float
    mean_x: float
    worst: str

    @property
    def least(self) -> float:
        return self.dots[0].ratio


@dataclass(frozen=True)
class RatioPlot:
    """All strips over one axis; `parity` is the place of ratio 1."""

    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    parity: float
    measured: str
    frame: Frame = FRAME

    @property
    def height(self) -> float:
        return self.frame.height(len(self.strips))

    @property
    def below(self) -> int:
        """Problems whose ratio is below 1."""
        return sum(dot.slower for strip in self.strips for dot in strip.dots)

    @property
    def problems(self) -> int:
        return sum(len(strip.dots) for strip in self.strips)


def ratio_plot(scores: Sequence[Score]) -> RatioPlot | None:
    """A plot of the rows that were measured against a baseline; None if there are none."""
    rows: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        if score.ratio is not None:
            rows[_label(score)].append(score)
    if not rows:
        return None
    ratios = [score.ratio or 1.0 for found in rows.values() for score in found]
    scale = LogScale(min(*ratios, 0.9) / ROOM, max(*ratios, 1.1) * ROOM, FRAME.left, FRAME.right)
    strips = tuple(
        _strip(label, sorted(rows[label], key=lambda score: score.ratio or 1.0), FRAME.y(i + 0.5), scale)
        for i, label in enumerate(sorted(rows, key=_order))
    )
    return RatioPlot(
        strips=strips,
        ticks=scale.ticks(),
        parity=scale.at(1.0),
        measured=_measured([score for score in scores if score.ratio is not None]),
    )


def _label(score: Score) -> str:
    """ "bf16 batched", "fused: f32": the group, and the types if the group's name does not give them."""
    group, types = group_of(score.problem).name, str(score.problem.types)
    return group if group.partition(" ")[0] == types else f"{group}: {types}"


def _order(label: str) -> int:
    return [*GROUPS].index(label.partition(":")[0])


def _strip(label: str, scores: Sequence[Score], y: float, scale: LogScale) -> Strip:
    ratios = [score.ratio or 1.0 for score in scores]
    places = _lanes([scale.at(ratio) for ratio in ratios])
    dots = tuple(
        Dot(x, y + offset, ratio, anchor(score.kernel) if score.kernel else "", f"{score.problem}: {ratio:.3f}x")
        for (x, offset), ratio, score in zip(places, ratios, scores, strict=True)
    )
    mean = geometric_mean(ratios)
    return Strip(label, y, dots, mean, scale.at(mean), shorten(str(scores[0].problem), LONGEST, placeholder=" ..."))


def _lanes(xs: Iterable[float]) -> list[tuple[float, float]]:
    """(x, offset) of each of `xs`, which ascend: dots that would touch go to other lanes, as long as there are any."""
    ends = [-RADIUS] * len(LANES)
    placed = []
    for x in xs:
        free = [i for i, end in enumerate(ends) if x - end >= 2 * RADIUS]
        lane = free[0] if free else min(range(len(ends)), key=ends.__getitem__)
        ends[lane] = x
        placed.append((x, LANES[lane] * LANE))
    return placed


def _measured(scores: Sequence[Score]) -> str:
    """ "NVIDIA H200 (sm_90, 132 SMs), driver 580.159.04; 2026-11-21 to 2026-11-22; NVRTC 13.0; cuBLASLt 13.1.0"."""
    dates = sorted(str(score.bench["date"])[:10] for score in scores)
    cards = sorted({str(score.bench["card"]) for score in scores})
    versions = sorted({str(score.record["compiler"]) for score in scores})
    libraries = sorted({str(score.bench["cublaslt"]["version"]) for score in scores})
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return "; ".join((*cards, span, *versions, *libraries))
