"""The driver's side of probes: memory in which a kernel's processes note what ran."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.run.coverage import Coverage, Lines, Near, Untaken
from gemmgen.run.emulator.probes import MOST_SITES, Block, Condition, Site

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
    """Of the probes at `sites`, in a file without a name, `file`."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.file = os.memfd_create("gemmgen-probes")
        os.ftruncate(self.file, MOST_SITES * SITE.itemsize)
        self._sites = sites
        self._counted: npt.NDArray[Any] = np.frombuffer(mmap.mmap(self.file, 0), SITE)[: len(sites)]

    def close(self) -> None:
        """What was counted stays readable."""
        self._counted = self._counted.copy()
        os.close(self.file)

    def coverage(self) -> Coverage | None:
        """None where the text has no probes."""
        if not self._sites:
            return None
        untaken = (self._untaken(number, one) for number, one in self._of(Condition))
        return Coverage(
            branches=sum(int(self._possible(number).sum()) for number, _ in self._of(Condition)),
            untaken=tuple(one for one in untaken if one is not None),
            lines=_outermost([(one.line, one.last) for number, one in self._of(Block) if self._missing(number)[1]]),
        )

    def take_near(self) -> list[Near]:
        """The operands that came closest to the outcome of a comparison that has not run, since the last call."""
        found = [
            Near(number, not bool(self._counted["ran"][number][1]), *map(float, self._counted["operands"][number]))
            for number in np.flatnonzero(self._counted["near"]).tolist()
            if self._missing(number).any()
        ]
        self._counted["near"] = False
        return found

    def _of(self, kind: type[Site]) -> Iterator[tuple[int, Any]]:
        return ((number, site) for number, site in enumerate(self._sites) if isinstance(site, kind))

    def _possible(self, number: int) -> npt.NDArray[np.bool_]:
        """Which of its outcomes, false and true: not so where one of the executables that ran has none.

        A condition with one outcome is no branch.
        """
        started = int(np.bitwise_or.reduce(self._counted["possible"], axis=None))
        possible: npt.NDArray[np.bool_] = self._counted["possible"][number] == started
        possible = possible | self._counted["ran"][number]
        return possible & possible.all() if isinstance(self._sites[number], Condition) else possible

    def _missing(self, number: int) -> npt.NDArray[np.bool_]:
        missing: npt.NDArray[np.bool_] = self._possible(number) & ~self._counted["ran"][number]
        return missing

    def _untaken(self, number: int, condition: Condition) -> Untaken | None:
        never_false, never_true = self._missing(number).tolist()
        if never_false or never_true:
            outcome = None if never_false and never_true else bool(never_true)
            return Untaken(condition.line, condition.text, outcome)
        return None


def _outermost(blocks: list[Lines]) -> tuple[Lines, ...]:
    """Those that are in no other."""
    found: list[Lines] = []
    for first, last in sorted(blocks, key=lambda lines: (lines[0], -lines[1])):
        if not found or first > found[-1][1]:
            found.append((first, last))
    return tuple(found)
