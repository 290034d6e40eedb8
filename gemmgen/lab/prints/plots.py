"""Plots of studies, with rates against the card's limit and, beside each bar, what explains it; and of the model's
check.

matplotlib is an optional extra, imported only when something is drawn: tables and records do without it.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from typing import Any

from gemmgen.kernel.model import MODEL_ERROR
from gemmgen.lab.study import StudyResult, StudyRow
from gemmgen.lab.study.modelcheck import ModelCheck
from gemmgen.lab.study.points import REPORTED_CARD, REPORTED_DTYPE
from gemmgen.lab.study.reasons import number
from gemmgen.lab.tuners import NEAR, Contest, tuners_of
from gemmgen.lab.tuners import OURS as OUR_SEARCH
from gemmgen.problem.device import MAX_REGISTERS, device_named
from gemmgen.support.words import figure, percent

HOW_TO_GET_ONE = "matplotlib is missing: pip install 'gemmgen[plot]'"

# Okabe and Ito's palette, which people with any colour vision tell apart; dark enough for white paper. The picture
# brings its own white ground, so that it reads on a dark page as on a light one.
OURS, SPILLED, LIBRARY = "#0072B2", "#D55E00", "#009E73"
INK, FAINT, GRID, GROUND = "#222222", "#6B6B6B", "#DDDDDD", "#FFFFFF"
FORMATS = ("svg", "png")
WIDTH, ROW_HEIGHT, FRAME_HEIGHT, DPI = 11.0, 0.36, 2.0, 160  # inches; dots an inch of the PNG
CONTEST_HEIGHT = 2.6  # inches of a row of panels
TICKED = (8, 16, 32, 64, 128, 256)  # budgets
MOST_LOST = 0.25  # relative, of the axis of what searches lose
# Ours, then others; of the same palette.
TUNERS = (OURS, "#6B6B6B", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A900", "#222222", "#999999")
CHECK_SIZE = 7.0  # inches, either way
ROOM = 1.16  # of the rate's axis, where 1 is the limit
FIGURE_ROOM = 0.22  # of the same, that a bar's figure takes
LONGEST_REASON = 78  # characters
SETTINGS = {
    "svg.hashsalt": "gemmgen",  # the same ids each time
    "svg.fonttype": "path",  # reads the same where the font is missing
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9.0,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": INK,
    "hatch.linewidth": 0.8,
}


def why_no_plot() -> str | None:
    """The reason why nothing can be drawn, and the remedy; None if it can."""
    return None if find_spec("matplotlib") else HOW_TO_GET_ONE


def draw(result: StudyResult) -> dict[str, bytes]:
    """The plot in each of FORMATS; the same result and matplotlib give the same bytes. Raises ImportError."""

    def fill(picture: Any) -> None:
        panels = picture.subplots(1, 4, sharey=True, width_ratios=(5.2, 1.5, 1.5, 1.5))
        _rates(panels[0], result)
        _registers(panels[1], result.rows)
        _shared_loads(panels[2], result.rows)
        _occupancy(panels[3], result.rows)
        for panel in panels:
            _frame(panel)

    return _drawn((WIDTH, FRAME_HEIGHT + ROW_HEIGHT * len(result.rows)), _title(result), fill)


def draw_check(check: ModelCheck, title: str) -> dict[str, bytes]:
    """A plot of predicted against measured times of every config, both logarithmic, in each of FORMATS. Raises
    ImportError."""
    return _drawn((CHECK_SIZE, CHECK_SIZE), title, lambda picture: _times(picture.subplots(), check))


def _times(panel: Any, check: ModelCheck) -> None:
    """Draw a dot per config, the fastest of each problem marked, the diagonal and the model's error around it."""
    ends = (
        min(min(*one.measured_us, *one.predicted_us) for one in check.agreements) / 1.2,
        max(max(*one.measured_us, *one.predicted_us) for one in check.agreements) * 1.2,
    )
    low, high = ([us * (1 + sign * MODEL_ERROR) for us in ends] for sign in (-1, 1))
    panel.fill_between(ends, low, high, color=GRID, alpha=0.6, linewidth=0, label=f"within {percent(MODEL_ERROR)}")
    panel.plot(ends, ends, color=INK, linewidth=1)
    for one in check.agreements:
        panel.scatter(one.measured_us, one.predicted_us, s=9, color=OURS, alpha=0.5, linewidth=0)
    fastest = [(one.measured_us[0], one.predicted_us[0]) for one in check.agreements]
    marks = {"marker": "D", "s": 26, "facecolor": GROUND, "edgecolor": SPILLED, "zorder": 5}
    panel.scatter(*zip(*fastest, strict=True), **marks, label="the fastest of each problem")
    panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    panel.set_xlabel("measured, us")
    panel.set_ylabel("predicted, us")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(loc="upper left", frameon=False)


def draw_contests(contests: Sequence[Contest], title: str) -> dict[str, bytes]:
    """A plot of the loss of searches by their budget, one panel per space, in each of FORMATS. Raises ImportError."""
    across = min(3, len(contests))
    down = -(-len(contests) // across)

    def fill(picture: Any) -> None:
        panels = list(picture.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat)
        for panel, contest in zip(panels, contests, strict=False):
            _losses(panel, contest)
        for panel in panels[::across]:
            panel.set_ylabel("slower than the fastest, %")
        for panel in panels[len(contests) :]:
            panel.set_axis_off()
        handles = panels[0].get_legend_handles_labels()
        picture.legend(*handles, loc="outside lower center", ncols=5, frameon=False)

    return _drawn((WIDTH, CONTEST_HEIGHT * down + FRAME_HEIGHT / 2), title, fill)


def _losses(panel: Any, contest: Contest) -> None:
    """Draw a line per tuner: the median of its searches."""
    panel.axhspan(0, 100 * NEAR, color=GRID, alpha=0.6, linewidth=0)
    for tuner, colour in zip(tuners_of([contest]), TUNERS, strict=False):
        outcomes = contest.of(tuner)
        lost = [100 * median(one.lost) for one in outcomes]
        ours = tuner == OUR_SEARCH
        style = {"linewidth": 2.4, "zorder": 5} if ours else {"linewidth": 1.1}
        panel.plot([one.budget for one in outcomes], lost, color=colour, label=tuner, **style)
    panel.set_xscale("log", base=2)
    panel.set_xticks(TICKED, [str(budget) for budget in TICKED])
    panel.tick_params(labelbottom=True)
    panel.minorticks_off()
    panel.set_ylim(0, 100 * MOST_LOST)
    panel.set_title(f"{contest.recorded.problem}, {contest.recorded.family.name}", fontsize=9)
    panel.set_xlabel("runs")
    panel.spines[["top", "right"]].set_visible(False)


def _drawn(size: tuple[float, float], title: str, fill: Callable[[Any], None]) -> dict[str, bytes]:
    """A picture of `size` inches that `fill` draws into, in each of FORMATS. Raises ImportError."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS}):
        picture = Figure(figsize=size, facecolor=GROUND, layout="constrained")
        fill(picture)
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        return {kind: _saved(picture, kind) for kind in FORMATS}


def _saved(picture: Any, kind: str) -> bytes:
    nobody = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}  # no date, no version
    buffer = io.BytesIO()
    picture.savefig(buffer, format=kind, dpi=DPI, metadata=nobody[kind], facecolor=GROUND)
    return buffer.getvalue()


def _title(result: StudyResult) -> str:
    how = "measured" if result.kind == "measured" else "predicted, not measured"
    return f"{result.study.title[0].upper()}{result.study.title[1:]}: {result.problem} on {result.device.name}, {how}"


def _rates(panel: Any, result: StudyResult) -> None:
    """Draw a bar per row, the limit as a line, and the document's figures at the share of their own card's limit."""
    rows, limit = result.rows, result.limit.tflops
    marks = _document(panel, result)
    for place, row in enumerate(rows):
        rate = row.tflops(result.case)
        if row.runs:
            _bar(panel, place, rate, _colour(row), solid=result.kind == "measured")
            panel.hlines(place, rate, max(rate, marks.get(place, 0.0)), color=FAINT, linestyle=":", linewidth=1)
            _figure(panel, place, rate, limit, marks.get(place, 0.0), _colour(row))
        else:
            panel.text(limit * 0.008, place, _cannot(row), va="center", style="italic", color=FAINT, fontsize=8)
    panel.axvline(limit, color=INK, linestyle="--", linewidth=1)
    panel.set_xlim(0, limit * ROOM)
    panel.set_yticks(range(len(rows)), [row.point.label for row in rows])
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.set_ylabel(result.study.axis)
    panel.set_xlabel(f"TFLOPS ({result.kind}); dashed: the limit, {figure(limit)} ({result.limit.source})")
    shares = panel.secondary_xaxis("top", functions=(lambda x: 100 * x / limit, lambda x: x * limit / 100))
    shares.set_xlabel("% of the limit", color=FAINT)
    _legend(panel, result)


def figure_starts(rate: float, limit: float, mark: float) -> float:
    """The start of a bar's figure: at the bar's end, or behind a mark that it would cover."""
    return mark if rate < mark < rate + FIGURE_ROOM * limit else rate


def _figure(panel: Any, place: int, rate: float, limit: float, mark: float, colour: str) -> None:
    clear = {"facecolor": GROUND, "edgecolor": "none", "pad": 0.6}  # of the line to the mark
    offset = {"xytext": (6, 0), "textcoords": "offset points"}
    text = f"{figure(rate)}  {percent(rate / limit)}"
    panel.annotate(
        text,
        (figure_starts(rate, limit, mark), place),
        **offset,
        va="center",
        color=colour,
        fontweight="bold",
        bbox=clear,
    )


def _bar(panel: Any, place: float, value: float, colour: str, *, solid: bool) -> None:
    panel.barh(place, value, height=0.62, linewidth=1, **_fill(colour, solid))


def _fill(colour: str, solid: bool) -> dict[str, Any]:
    """The style of a bar: filled if measured; hatched if predicted, so that it shows in grey as well."""
    return {"edgecolor": colour, **({"facecolor": colour} if solid else {"facecolor": colour + "33", "hatch": "////"})}


def _document(panel: Any, result: StudyResult) -> dict[int, float]:
    """Mark what the document reports, moved to this card's limit: the top axis holds for both. Returns place: rate."""
    card = device_named(REPORTED_CARD)
    scale = 1.0 if card.is_card(result.device.name) else result.limit.tflops / card.tflops(REPORTED_DTYPE)
    rows = result.rows if result.problem.types.accumulator == REPORTED_DTYPE else ()
    marks = {place: row.point.reported * scale for place, row in enumerate(rows) if row.point.reported}
    if marks:
        label = f"the document's {REPORTED_CARD}, at its share of that card's limit"
        panel.scatter(
            [*marks.values()], [*marks], marker="D", s=26, facecolor=GROUND, edgecolor=INK, zorder=5, label=label
        )
    return marks


def _legend(panel: Any, result: StudyResult) -> None:
    from matplotlib.patches import Patch

    names = {OURS: "our kernel", SPILLED: "spills registers", LIBRARY: "cuBLAS"}
    present = {_colour(row) for row in result.rows if row.runs}
    solid = result.kind == "measured"
    patches = [Patch(**_fill(colour, solid), label=name) for colour, name in names.items() if colour in present]
    known, _ = panel.get_legend_handles_labels()
    if len(patches) + len(known) > 1:
        panel.figure.legend(handles=[*patches, *known], loc="outside lower left", ncols=4, frameon=False, fontsize=8)


def _registers(panel: Any, rows: Sequence[StudyRow]) -> None:
    _stems(panel, rows, [it.compiled.registers if (it := row.explanation) and it.compiled else None for row in rows])
    panel.axvline(MAX_REGISTERS, color=INK, linestyle="--", linewidth=1)
    panel.set_xlim(0, 340)
    panel.set_xticks((0, 128, MAX_REGISTERS))
    panel.set_xlabel("registers a thread")
    for place, row in enumerate(rows):
        if (
            row.explanation is not None
            and row.explanation.compiled is not None
            and row.explanation.compiled.spill_bytes
        ):
            spilled = f"{row.explanation.compiled.spill_bytes:,} B spilled"
            panel.text(6, place - 0.3, spilled, va="center", color=SPILLED, fontsize=7)


def _shared_loads(panel: Any, rows: Sequence[StudyRow]) -> None:
    loads = [
        loop.per_fma("LDS") if (it := row.explanation) and (loop := it.main_loop) and loop.fmas else None
        for row in rows
    ]
    _stems(panel, rows, loads)
    panel.set_xlim(0, max([load for load in loads if load] or [1.0]) * 1.6)
    panel.set_xlabel("shared loads per FMA")


def _occupancy(panel: Any, rows: Sequence[StudyRow]) -> None:
    _stems(
        panel,
        rows,
        [100 * it.prediction.occupancy.share if (it := row.explanation) else None for row in rows],
        [f"{it.prediction.occupancy.share:.0%}" if (it := row.explanation) else "" for row in rows],
    )
    panel.set_xlim(0, 150)
    panel.set_xticks((0, 50, 100))
    panel.set_xlabel("occupancy, %")


def _stems(panel: Any, rows: Sequence[StudyRow], values: Sequence[float | None], texts: Sequence[str] = ()) -> None:
    """Draw a dot on a line per row, with its figure."""
    for place, (row, value) in enumerate(zip(rows, values, strict=True)):
        if value is not None:
            colour = _colour(row)
            panel.hlines(place, 0, value, color=colour, linewidth=1.4)
            panel.plot(value, place, marker="o", markersize=4.5, color=colour)
            text = texts[place] if texts else number(value)
            clear = {"facecolor": GROUND, "edgecolor": "none", "pad": 0.6}  # of the lines behind it
            offset = {"xytext": (5, 0), "textcoords": "offset points"}
            panel.annotate(text, (value, place), **offset, va="center", fontsize=8, bbox=clear)


def _frame(panel: Any) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="x", color=GRID, linewidth=0.6)
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0)


def _colour(row: StudyRow) -> str:
    if row.trial is None:
        return LIBRARY
    return SPILLED if row.trial.compiled is not None and row.trial.compiled.spill_bytes else OURS


def _cannot(row: StudyRow) -> str:
    reason = row.failure.reason if row.failure is not None else row.reason
    return textwrap.shorten(reason, LONGEST_REASON, placeholder=" ...")
