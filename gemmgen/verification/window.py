"""A rectangle of C that is examined by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmgen.problem.gemm import Case


@dataclass(frozen=True)
class Window:
    """A rectangle of C: rows and columns from (inclusive) and to (exclusive); in a batch also matrices first to
    last."""

    top: int
    left: int
    bottom: int
    right: int
    first: int = 0
    last: int | None = None

    @classmethod
    def whole(cls, case: Case) -> Window:
        return cls(0, 0, case.m, case.n, 0, case.c.batch)

    @property
    def matrices(self) -> tuple[slice, ...]:
        """The index of its matrices; empty without a batch."""
        return () if self.last is None else (slice(self.first, self.last),)

    @property
    def index(self) -> tuple[slice, ...]:
        """The index in C's view; `a_index` and `b_index` are those of its factors in A and B."""
        return (*self.matrices, self.rows, self.cols)

    @property
    def a_index(self) -> tuple[slice, ...]:
        return (*self.matrices, self.rows, slice(None))

    @property
    def b_index(self) -> tuple[slice, ...]:
        return (*self.matrices, slice(None), self.cols)

    def part_in(self, other: Window) -> Window | None:
        """What both have in common; None if that is nothing. Both are of a batch, or neither is."""
        last = None if self.last is None or other.last is None else min(self.last, other.last)
        found = Window(
            max(self.top, other.top),
            max(self.left, other.left),
            min(self.bottom, other.bottom),
            min(self.right, other.right),
            max(self.first, other.first),
            last,
        )
        some = found.top < found.bottom and found.left < found.right and (last is None or found.first < last)
        return found if some else None

    @property
    def elements(self) -> int:
        matrices = 1 if self.last is None else self.last - self.first
        return (self.bottom - self.top) * (self.right - self.left) * matrices

    def parts(self, most: int) -> list[Window]:
        """Divide this window, in order, into windows of whole rows or matrices with at most `most` elements."""
        width = self.right - self.left
        area = max(1, (self.bottom - self.top) * width)
        if self.last is not None and self.first + 1 < self.last:
            step = max(1, most // area)
            starts = range(self.first, self.last, step)
            few = [replace(self, first=start, last=min(start + step, self.last)) for start in starts]
            return few if step > 1 else [part for one in few for part in one.parts(most)]
        step = max(1, most // max(1, width))
        return [
            replace(self, top=top, bottom=min(top + step, self.bottom)) for top in range(self.top, self.bottom, step)
        ]

    def within(self, outer: Window) -> tuple[slice, ...]:
        """Its index in an array that covers `outer`."""
        first = outer.first
        matrices = () if self.last is None else (slice(self.first - first, self.last - first),)
        rows = slice(self.top - outer.top, self.bottom - outer.top)
        return (*matrices, rows, slice(self.left - outer.left, self.right - outer.left))

    @property
    def rows(self) -> slice:
        return slice(self.top, self.bottom)

    @property
    def cols(self) -> slice:
        return slice(self.left, self.right)
