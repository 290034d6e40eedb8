"""The driver's side of probes: memory in which a kernel's processes note what ran."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.plan import Never
from gemmgen.run.coverage import Coverage, Lines, Near, Unreachable, Untaken, lines_of
from gemmgen.run.emulator.probes import MOST_SITES, Block, Condition, Site

Outcomes = npt.NDArray[np.bool_]  # of each site, false and true

# As probes.hpp lays it out.
SITE = np.dtype(
    [
        ("ran", np.bool_, 2),
        ("possible", np.uint8, 2),
        ("locked", np.uint8),
        ("near", np.bool_),
        ("unused", np.uint8, 2),
        ("distance", np.float64),
        ("operands", np.float64, 2),
    ]
)


class Counters:
    """Of the probes at `sites` of `text`, in a file without a name, `file`; `never` are outcomes that no launch has."""

    def __init__(self, sites: Sequence[Site], text: str, never: Sequence[Never]) -> None:
        self.file = os.memfd_create("gemmgen-probes")
        os.ftruncate(self.file, MOST_SITES * SITE.itemsize)
        self._sites = sites
        self._never = _impossible(sites, text, never)
        self._conditions = np.array([isinstance(site, Condition) for site in sites], np.bool_)
        self._counted: npt.NDArray[Any] = np.frombuffer(mmap.mmap(self.file, 0), SITE)[: len(sites)]
        self._ran, self._told = np.zeros((2, len(sites), 2), np.bool_)  # by all launches, and by those that tell

    def close(self) -> None:
        """What was counted stays readable."""
        self._counted = self._counted.copy()
        os.close(self.file)

    def launched(self, told: bool) -> None:
        """A launch has come to its end; `told` says that it would have shown what is wrong."""
        self._ran |= self._counted["ran"]
        if told:
            self._told |= self._counted["ran"]
        else:
            self._counted["ran"] = self._told
            self._counted["near"] = False

    def coverage(self) -> Coverage | None:
        """None where the text has no probes."""
        if not self._sites:
            return None
        missing = self._missing().tolist()
        untaken = [
            Untaken(site.line, site.text, None if all(lacks) else lacks[1])
            for site, lacks in zip(self._sites, missing, strict=True)
            if isinstance(site, Condition) and any(lacks)
        ]
        blocks = [
            (site.line, site.last)
            for site, lacks in zip(self._sites, missing, strict=True)
            if isinstance(site, Block) and lacks[1]
        ]
        branches = int(self._possible()[self._conditions].sum())
        return Coverage(
            branches, tuple(untaken), _outermost(blocks), tuple(sorted(self._unreachable(), key=lambda one: one.line))
        )

    def _unreachable(self) -> Iterator[Unreachable]:
        """The outcomes that would be missing but for `never`."""
        missing = self._compiled() & ~self._ran
        for (number, outcome), because in self._never.items():
            site = self._sites[number]
            if missing[number, outcome] and isinstance(site, Condition):
                yield Unreachable(site.line, site.text, bool(outcome), because)

    def lacking(self) -> dict[int, Near | None]:
        """See `LoadedKernel.lacking`."""
        lacks = self._possible() & ~self._told
        found = {number: self._near(number) for number in np.flatnonzero(lacks.any(axis=1) & self._conditions).tolist()}
        self._counted["near"] = False
        return found

    def _near(self, number: int) -> Near | None:
        counted, site = self._counted[number], self._sites[number]
        if not counted["near"] or not isinstance(site, Condition):
            return None
        left, right = counted["operands"].tolist()
        return Near(site.text, left, right, bool(self._ran[number].all()))

    def _compiled(self) -> Outcomes:
        """Which outcomes, false and true, sites have: not those that one of the executables that started lacks.

        A condition with one outcome is no branch, and has none.
        """
        possible = self._counted["possible"]
        return self._branches(self._ran | (possible == np.bitwise_or.reduce(possible, axis=None)))

    def _possible(self) -> Outcomes:
        """Of these, without those that never come."""
        found = self._compiled()
        for number, outcome in self._never:
            found[number, outcome] &= self._ran[number, outcome]
        return self._branches(found)

    def _branches(self, found: Outcomes) -> Outcomes:
        found[self._conditions] &= found[self._conditions].all(axis=1, keepdims=True)
        return found

    def _missing(self) -> Outcomes:
        missing: Outcomes = self._possible() & ~self._ran
        return missing


def _impossible(sites: Sequence[Site], text: str, never: Sequence[Never]) -> dict[tuple[int, int], str]:
    """By site and outcome the reason; a block that a condition opens in its own line has the outcome true alone."""
    found = {}
    for stated in never:
        within = lines_of(text, stated.function)
        same = (site for site in sites if isinstance(site, Condition) and site.text == stated.text)
        lines = {site.line for site in same if site.line in within}
        for number, site in enumerate(sites):
            if site.line in lines and (stated.outcome if isinstance(site, Block) else site.text == stated.text):
                found[number, int(stated.outcome)] = stated.because
    return found


def _outermost(blocks: list[Lines]) -> tuple[Lines, ...]:
    """Those that are in no other."""
    found: list[Lines] = []
    for first, last in sorted(blocks, key=lambda lines: (lines[0], -lines[1])):
        if not found or first > found[-1][1]:
            found.append((first, last))
    return tuple(found)
