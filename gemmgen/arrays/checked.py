"""The result of checking a call, which holds for later calls whose operands have the same types, strides and sizes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gemmgen.arrays.binding import require_address, vector_shape
from gemmgen.arrays.libraries import Library, records_gradients
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.support.errors import require
from gemmgen.support.words import listed

MOST_FORMS = 1024  # of operands whose check is kept: sizes of a run with `?` may come once
C = 2  # its place among addresses


@dataclass(frozen=True)
class Checked:
    """A checked launch, for operands of the same types, strides and sizes, at any address and, if `by_rows`, with any
    M.

    case      the case of the first call: see `at`
    shape     shape of C in the first call, of images as a matrix; without an element there is nothing to launch, and
              the case has the least sizes
    lead      of images their number, P and Q: sizes of a new C before its columns; else ()
    names     names of the addresses: A, B and C ("prepared_b" for B's copy), operands in the call's order, sums of
              copies
    prepared  the operands that were prepared before
    sums      the prepared operands that have sums
    by_rows   whether kernels, strides and types allow any M from 2 on: `at` gives the launch
    ordinal   number of the device
    library   the library that makes new arrays
    tracked   names of the tensors that require a gradient
    forms     a cache of the backend and of products for such launches, by their own keys
    apart     distances between operands at which they are known to share no element
    """

    case: Case
    shape: tuple[int, ...]
    lead: tuple[int, ...]
    names: tuple[str, ...]
    prepared: tuple[str, ...]
    sums: tuple[str, ...]
    by_rows: bool
    ordinal: int
    library: Library
    tracked: tuple[str, ...] = ()
    forms: dict[Hashable, Any] = field(default_factory=dict)
    apart: set[tuple[int, int, int, int | None]] = field(default_factory=set)

    @cached_property
    def empty(self) -> bool:
        """Whether C has no element."""
        return 0 in self.shape

    @property
    def zeroed(self) -> tuple[tuple[str, int], ...]:
        """The vectors of largest magnitudes that are set to 0 if C is empty, with their bytes."""
        amaxes = [operand.name for operand in self.case.problem.epilogue.amaxes] if self.empty else []
        size = self.case.problem.types.scalar.size
        return tuple((name, size * math.prod(vector_shape(self.case.problem, name, self.shape))) for name in amaxes)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int, int, int, int, int], ...]:
        """Pairs of an output and another operand, each with its place and its extent in bytes.

        If M is open, the extent is split into the bytes without a row, and the bytes per row.
        """
        tensors, written = self.case.tensors, tuple(self.case.written)
        names = [name for name in self.names if name in tensors and tensors[name].elements]
        if self.empty:
            return ()

        def sized(name: str) -> tuple[int, int, int]:
            row = tensors[name].dtype.bytes(tensors[name].ld) if name in self._grown else 0
            return self.names.index(name), tensors[name].bytes - self.case.m * row, row

        return tuple(
            (*sized(out), *sized(name))
            for place, out in enumerate(written)
            for name in names
            if name not in written[: place + 1]
        )

    @property
    def _grown(self) -> set[str]:
        """The operands with a line for each row of C, if M is open."""
        if not self.by_rows:
            return set()
        problem = self.case.problem
        vectors = {operand.name for operand in problem.epilogue.operands if operand.along == "m"}
        return {one.name for one in problem.matrices if one.rows == "M"} | vectors

    @cached_property
    def masks(self) -> tuple[tuple[int, int], ...]:
        """The address bits that must be zero for each operand that is read or written in place."""
        tensors, problem = self.case.tensors, self.case.problem
        if self.empty:
            return ()
        places = ((place, name) for place, name in enumerate(self.names) if name in tensors and tensors[name].elements)
        return tuple((place, problem.align_of(name) - 1) for place, name in places)

    def at(self, rows: int | None) -> Case:
        """The launch with `rows` rows. Raises InvalidInput for an impossible number."""
        return self.case if rows in (None, self.case.m) else replace(self.case, m=rows)

    def require_addresses(self, addresses: Sequence[int], rows: int | None) -> None:
        """Raise InvalidInput for operands that a kernel cannot take at these addresses, or whose gradient would be
        lost."""
        if self.tracked:
            require_untracked(self.tracked)
        for place, mask in self.masks:
            if addresses[place] & mask:
                name = self.names[place]
                require_address(self.case.problem, name, addresses[place], self.case.tensors[name])
        count = rows or 0
        for out, size, row, other, extent, step in self.pairs:
            if -extent - count * step < addresses[other] - addresses[out] < size + count * row:
                self._require_apart(out, other, addresses, rows)

    def _require_apart(self, out: int, other: int, addresses: Sequence[int], rows: int | None) -> None:
        """Raise InvalidInput if the other operand shares an element with `out`, rather than lies between its lines."""
        first, second, tensors = addresses[out], addresses[other], self.at(rows).tensors
        known = out, other, second - first, rows
        if known in self.apart:
            return
        name, one, two = self.names[other], tensors[self.names[out]], tensors[self.names[other]]
        word = "out" if out == C else self.names[out]
        require(first != second, f"{word} is {name}'s array: what is written overlaps no other operand")
        require(
            not meet(one, two, second - first),
            f"{word} overlaps {name}: it has addresses from {first:#x} to {first + one.bytes - 1:#x}, and {name} from "
            f"{second:#x} to {second + two.bytes - 1:#x}",
        )
        if len(self.apart) >= MOST_FORMS:
            self.apart.clear()
        self.apart.add(known)

    @cached_property
    def _room(self) -> tuple[tuple[int, ...], int, int, DType]:
        """The layout of a new C: (sizes before its columns, elements per row in memory, columns, type)."""
        c = self.case.c
        if self.empty:
            return self.lead or self.shape[:-1], self.shape[-1], self.shape[-1], c.dtype
        require(c.batch is None or c.stride == c.rows * c.ld, f"stride_c = {c.stride} is not dense: give out=")
        return self.lead or ((c.rows,) if c.batch is None else (c.batch, c.rows)), c.ld, c.cols, c.dtype

    def new_c(self, rows: int | None, like: Any) -> Any:
        """Make an array for C. Raises InvalidInput if none can be made with that layout."""
        lead, ld, cols, dtype = self._room
        made = self.library.empty((*lead, ld) if rows is None else (rows, ld), dtype, like)
        return made if ld == cols else made[..., :cols]


class Arrays(NamedTuple):
    """The arrays of one launch.

    rows       M, if `checked` leaves it open
    addresses  addresses of operands and of their copies, in the order of `Checked.names`
    like       an array of the library that makes new ones
    kept       the arrays that must stay alive while they are read
    written    the arrays that are written and existed before
    """

    checked: Checked
    rows: int | None
    addresses: Sequence[int]
    out: Any
    like: Any
    kept: tuple[Any, ...]
    written: tuple[Any, ...]

    @property
    def case(self) -> Case:
        return self.checked.at(self.rows)

    @property
    def library(self) -> Library:
        return self.checked.library


def require_untracked(names: tuple[str, ...]) -> None:
    """Raise InvalidInput for tensors that require a gradient while torch's grad mode is on, as no launch records
    one."""
    require(
        not records_gradients(),
        f"{listed(names)} {'requires' if len(names) == 1 else 'require'} a gradient, and a launch records none: call "
        "gemmgen.torch.gemm, which does, or launch under torch.no_grad()",
    )


MOST_LINES = 1 << 24  # that are looked at


def meet(written: Matrix, other: Matrix, distance: int) -> bool:
    """Whether `other`, which begins `distance` bytes behind `written`, shares a byte with it.

    Lines of `written` must not overlap each other. Raises InvalidInput for operands with too many lines.
    """
    mine, length = _lines(written)
    theirs, other_length = _lines(other)
    theirs += distance
    mine.sort()
    before = np.searchsorted(mine, theirs + other_length) - 1  # the last of mine that begins before the end of each
    return bool((mine[before[before >= 0]] + length > theirs[before >= 0]).any())


def _lines(matrix: Matrix) -> tuple[npt.NDArray[np.int64], int]:
    """(the starts of lines in bytes from the first, their length). Lines without gaps count as one."""
    one = matrix.stored
    batch, lines, length = one.batch or 1, one.lines, one.line_length
    if lines == 1 or one.ld == length:
        lines, length = 1, one.span
    require(batch * lines <= MOST_LINES, f"operands lie in one buffer: {batch * lines} lines are too many to compare")
    starts = np.arange(batch)[:, None] * one.stride + np.arange(lines) * one.ld
    return starts.ravel() * one.dtype.size, length * one.dtype.size
