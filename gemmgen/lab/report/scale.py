"""Axes of a plot: coordinates of values, and the places of ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmgen.support.errors import require
from gemmgen.support.words import short

LEADING = (1, 2, 5)  # of a tick on a logarithmic axis


@dataclass(frozen=True)
class Tick:
    """A place on an axis, in units of the picture, and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Frame:
    """The frame of a picture with rows one below the other, from `left` to `right`, in units of the picture."""

    width: float
    left: float
    right: float
    top: float
    row: float  # a row's height
    bottom: float

    def y(self, row: float) -> float:
        """The y coordinate at which a row begins; 0.5 more is its middle."""
        return self.top + self.row * row

    def height(self, rows: int) -> float:
        return self.y(rows) + self.bottom


@dataclass(frozen=True)
class LogScale:
    """A logarithmic axis: `low` lies at `start`, `high` at `end`, in units of the picture."""

    low: float
    high: float
    start: float
    end: float

    def __post_init__(self) -> None:
        require(0 < self.low < self.high, f"a logarithmic axis from {self.low} to {self.high}: 0 < low < high")

    def at(self, value: float) -> float:
        """The coordinate of `value`."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, leading: tuple[int, ...] = LEADING) -> tuple[Tick, ...]:
        """A tick at each value that has a digit of `leading` followed by zeros."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = (digit * 10.0**decade for decade in decades for digit in leading)
        within = (value for value in values if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9))
        return tuple(Tick(self.at(value), f"{value:,.0f}" if value >= 1000 else short(value)) for value in within)
