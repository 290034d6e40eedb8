"""The roofline of a card, with every kernel on it: rate over intensity, both logarithmic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gemmgen.judge.explain import Explanation, peak
from gemmgen.kernel.plan import Plan
from gemmgen.lab.report.anchor import anchor
from gemmgen.lab.report.scale import LogScale, Tick
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.types import Compute
from gemmgen.support.words import figure

# In units of the picture.
WIDTH, HEIGHT = 1000.0, 560.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 825.0, 30.0, 500.0
ROOM = 1.5  # of the axes beyond the outermost point
SAME = 1.02  # ceilings closer to each other than that are one
LINE, CHARACTER = 12.0, 6.2  # of text


@dataclass(frozen=True)
class Point:
    """A kernel; hollow if its time is predicted. `kind` numbers its types among those in the plot."""

    x: float
    y: float
    kernel: str
    text: str
    kind: int
    measured: bool


@dataclass(frozen=True)
class Ceiling:
    """A rate that no kernel exceeds, as a line from where memory allows it to the plot's right end, and the place of
    its text."""

    x: float
    y: float
    text_y: float
    text: str


@dataclass(frozen=True)
class RooflinePlot:
    """The plot for one card. `slope` is the line of the memory's bandwidth, from (x, y) to (x, y); `kinds` is the
    legend."""

    device: str
    bandwidth: float
    points: tuple[Point, ...]
    kinds: tuple[Tick, ...]
    ceilings: tuple[Ceiling, ...]
    slope: tuple[float, float, float, float]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = RIGHT
    top: float = TOP
    bottom: float = BOTTOM


def roofline_plot(device: DeviceSpec, kernels: Sequence[Explanation]) -> RooflinePlot | None:
    """A plot of `kernels` on `device`; None if none has a rate."""
    kernels = [it for it in kernels if _rate(it)[0] > 0]
    if not kernels:
        return None
    rates = [_rate(it) for it in kernels]
    peaks = _peaks(device, kernels)
    intensities = [it.roofline.intensity for it in kernels]
    x = LogScale(min(intensities) / ROOM, max(*intensities, peaks[-1][0] * 1000 / device.bandwidth) * ROOM, LEFT, RIGHT)
    lowest = min(*(rate for rate, _ in rates), x.low * device.bandwidth / 1000)
    y = LogScale(lowest / ROOM, max(peaks[-1][0], *(rate for rate, _ in rates)) * ROOM, BOTTOM, TOP)
    kinds = tuple(sorted({str(it.kernel.source.problem.types) for it in kernels}))
    top = peaks[-1][0]
    return RooflinePlot(
        device=device.name,
        bandwidth=device.bandwidth,
        points=tuple(_point(it, rate, x, y, kinds) for it, rate in zip(kernels, rates, strict=True)),
        kinds=tuple(_legend(kinds)),
        ceilings=tuple(_ceilings(peaks, device, x, y)),
        slope=(x.at(x.low), y.at(x.low * device.bandwidth / 1000), x.at(top * 1000 / device.bandwidth), y.at(top)),
        x_ticks=x.ticks((1,)),
        y_ticks=y.ticks((1,)),
    )


def _legend(kinds: Sequence[str]) -> Iterator[Tick]:
    at = LEFT + 8
    for kind in kinds:
        yield Tick(at, kind)
        at += CHARACTER * len(kind) + 30


def _ceilings(peaks: Sequence[tuple[float, str]], device: DeviceSpec, x: LogScale, y: LogScale) -> Iterator[Ceiling]:
    """The ceilings from the lowest up, with texts that do not overlap."""
    text_y = BOTTOM
    for rate, text in peaks:
        text_y = min(y.at(rate), text_y - LINE)
        yield Ceiling(x.at(rate * 1000 / device.bandwidth), y.at(rate), text_y, text)


def _rate(it: Explanation) -> tuple[float, bool]:
    """(TFLOPS, whether it was measured)."""
    measured = it.kernel.measured_time
    return (float(measured["tflops"]), True) if measured else (it.prediction.tflops(it.case), False)


def _point(it: Explanation, rate: tuple[float, bool], x: LogScale, y: LogScale, kinds: Sequence[str]) -> Point:
    tflops, measured = rate
    problem, how = it.kernel.source.problem, "" if measured else " predicted"
    return Point(
        x.at(it.roofline.intensity),
        y.at(tflops),
        anchor(it.kernel),
        f"{problem}: {figure(tflops)} TFLOPS{how} at {figure(it.roofline.intensity)} FLOP/B",
        kinds.index(str(problem.types)),
        measured,
    )


def _peaks(device: DeviceSpec, kernels: Sequence[Explanation]) -> list[tuple[float, str]]:
    """(TFLOPS, instructions) of the multiplying instructions in `kernels`, slowest first; those with one rate are
    joined.

    An instruction with several rates is named with the types that it multiplies.
    """
    plans = [it.plan for it in kernels]
    found = sorted({(peak(plan, device), plan.instruction, _multiplied(plan)) for plan in plans})
    merged: list[tuple[float, dict[str, list[str]]]] = []
    for rate, name, what in found:
        if not (merged and rate < merged[-1][0] * SAME):
            merged.append((rate, {}))
        merged[-1][1].setdefault(name, []).append(what)
    rates = Counter(name for _, names in merged for name in names)
    return [
        (rate, f"{', '.join(_told(name, what, rates[name]) for name, what in names.items())} {figure(rate)}")
        for rate, names in merged
    ]


def _multiplied(plan: Plan) -> str:
    """The types that are multiplied: "bf16", "f32 tf32"."""
    types = plan.problem.types
    return types.a.label if types.compute is Compute.FMA else f"{types.a.label} {types.compute.label}"


def _told(name: str, what: Sequence[str], rates: int) -> str:
    return name if rates == 1 else f"{name} {', '.join(dict.fromkeys(what))}"
