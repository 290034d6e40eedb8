"""Drawings of tiles to scale: C with a block's tile, a block with its warps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from gemmgen.judge.explain import Explanation

# In units of the picture.
ACROSS, DOWN = 260.0, 200.0  # room of one drawing
LEAST = 4.0  # of a side: a row of a million columns is drawn that high
FINEST = 3.0  # between two lines, else they are left out

Rect = tuple[float, float, float, float]  # x, y, width, height


@dataclass(frozen=True)
class Drawing:
    """A tile and its parts; `marked` is the part that the next drawing shows.

    lines  lines between parts: (x, y, x, y)
    """

    title: str
    width: float
    height: float
    lines: tuple[Rect, ...]
    marked: tuple[Rect, ...]


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
    """Drawings from the grid down to a warp, as far as levels divide each other."""
    return tuple(_levels(it))


def _levels(it: Explanation) -> Iterator[Drawing]:
    tiles = [(it.case.m, it.case.n, "C"), *((tile.rows, tile.cols, tile.unit) for tile in it.tiles)]
    spread = [one for one in tiles if one[2] != "thread"]  # a thread's elements are not one tile
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
