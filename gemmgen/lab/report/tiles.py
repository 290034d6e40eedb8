"""Drawings of tiles to scale: C with a block's tile, a block with its warps, a warp with the elements of its lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from gemmgen.judge.explain import Explanation
from gemmgen.kernel.plan import Plan

# In units of the picture.
ACROSS, DOWN = 260.0, 200.0  # room of one drawing
LEAST = 4.0  # of a side: a row of a million columns is drawn that high
FINEST = 3.0  # between two lines, else they are left out
SHOWN = 0  # the lane whose elements are marked

Rect = tuple[float, float, float, float]  # x, y, width, height


@dataclass(frozen=True)
class Drawing:
    """A tile and its parts; `marked` is the part, or the elements, that the next drawing shows.

    lines   lines between parts: (x, y, x, y)
    labels  numbers of lanes: (x, y, number)
    """

    title: str
    width: float
    height: float
    lines: tuple[Rect, ...]
    marked: tuple[Rect, ...]
    labels: tuple[tuple[float, float, int], ...] = ()
    label_size: float = 0.0


@dataclass(frozen=True)
class Frame:
    """A tile of rows x cols, drawn as large as there is room."""

    rows: int
    cols: int

    @property
    def scale(self) -> float:
        return min(ACROSS / self.cols, DOWN / self.rows)

    @property
    def width(self) -> float:
        return max(self.cols * self.scale, LEAST)

    @property
    def height(self) -> float:
        return max(self.rows * self.scale, LEAST)

    def rect(self, row: int, col: int, rows: int, cols: int) -> Rect:
        """The rectangle of rows x cols elements from (row, col); parts beyond the frame are cut off."""
        rows, cols = min(rows, self.rows - row), min(cols, self.cols - col)
        x, y = self.width / self.cols, self.height / self.rows
        return col * x, row * y, cols * x, rows * y


def drawings(it: Explanation) -> tuple[Drawing, ...]:
    """Drawings from the grid down to a thread, as far as levels divide each other and threads have their own
    elements."""
    plan = it.plan
    return (*_levels(it), *_lanes(plan))


def _levels(it: Explanation) -> Iterator[Drawing]:
    tiles = [(it.case.m, it.case.n, "C"), *((tile.rows, tile.cols, tile.unit) for tile in it.tiles)]
    spread = [one for one in tiles if one[2] != "thread"]  # a thread's elements are not one tile: see _lanes
    for (rows, cols, name), (below_rows, below_cols, below) in pairwise(spread):
        if (rows, cols) != (below_rows, below_cols):
            yield _divided(Frame(rows, cols), below_rows, below_cols, f"{name}, {rows} x {cols}: a {below} of it")


def _divided(frame: Frame, rows: int, cols: int, title: str) -> Drawing:
    x, y = frame.width / frame.cols * cols, frame.height / frame.rows * rows
    lines: list[Rect] = []
    if x >= FINEST:
        lines += [(i * x, 0, i * x, frame.height) for i in range(1, -(-frame.cols // cols))]
    if y >= FINEST:
        lines += [(0, i * y, frame.width, i * y) for i in range(1, -(-frame.rows // rows))]
    return Drawing(title, frame.width, frame.height, tuple(lines), (frame.rect(0, 0, rows, cols),))


def _lanes(plan: Plan) -> Iterator[Drawing]:
    """Drawings of the lanes' elements: the first of each lane, and all of one lane."""
    if len(plan.origins) < 2:
        return
    owned = [patches(plan, lane) for lane in range(len(plan.origins))]
    value = plan.constants
    rows, cols = value.get("FM", 1), value.get("FN", 1)
    first = Frame(*(max(origin[i] for origin in plan.origins) + (rows, cols)[i] for i in range(2)))
    number = min(first.scale * min(rows, cols) * 0.6, 12.0)
    places = [first.rect(row, col, rows, cols) for row, col in plan.origins]
    yield Drawing(
        f"lanes, by their first {rows} x {cols}",
        first.width,
        first.height,
        tuple(line for place in places for line in _outline(place)),
        (places[SHOWN],),
        tuple((x + w / 2, y + h / 2, lane) for lane, (x, y, w, h) in enumerate(places)),
        number,
    )
    whole = Frame(*(max(patch[i] + patch[i + 2] for lane in owned for patch in lane) for i in range(2)))
    if (whole.rows, whole.cols) != (first.rows, first.cols):
        marked = tuple(whole.rect(*patch) for patch in owned[SHOWN])
        title = f"{whole.rows} x {whole.cols} of a warp: all that lane {SHOWN} has"
        yield Drawing(title, whole.width, whole.height, (), marked)


def patches(plan: Plan, lane: int) -> list[tuple[int, int, int, int]]:
    """(row, column, rows, columns) of each group of neighbours that a lane has."""
    value, (row, col) = plan.constants, plan.origins[lane]
    rows, cols = value.get("FM", 1), value.get("FN", 1)
    down, across = value.get("TM", 1) // rows, plan.tiles[-1].cols // cols
    return [
        (row + i * value.get("STEP_M", 0), col + j * value.get("STEP_N", 0), rows, cols)
        for i in range(down)
        for j in range(across)
    ]


def _outline(place: Rect) -> tuple[Rect, Rect]:
    """The left and the upper edge; neighbours draw the others."""
    x, y, width, height = place
    return (x, y, x, y + height), (x, y, x + width, y)
