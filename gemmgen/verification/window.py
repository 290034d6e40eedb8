"""A part of C that is looked at by itself."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.problem.case import Case


@dataclass(frozen=True)
class Window:
    """A rectangle of C: rows and columns from (inclusive) and to (exclusive). In a batch of matrices first to last."""

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
        """The index of its matrices, which a GEMM without a batch has none of."""
        return () if self.last is None else (slice(self.first, self.last),)

    @property
    def index(self) -> tuple[slice, ...]:
        """Of C's view; `a_index` and `b_index` are those of what makes it."""
        return (*self.matrices, self.rows, self.cols)

    @property
    def a_index(self) -> tuple[slice, ...]:
        return (*self.matrices, self.rows, slice(None))

    @property
    def b_index(self) -> tuple[slice, ...]:
        return (*self.matrices, slice(None), self.cols)

    @property
    def elements(self) -> int:
        matrices = 1 if self.last is None else self.last - self.first
        return (self.bottom - self.top) * (self.right - self.left) * matrices

    @property
    def rows(self) -> slice:
        return slice(self.top, self.bottom)

    @property
    def cols(self) -> slice:
        return slice(self.left, self.right)
