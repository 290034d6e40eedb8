"""Lines and conditions of a kernel's text that have run, and operands that came close to outcomes that have not.

The interpreter counts them in memory that it shares with this process: the outcomes of each setp, the edges of each
branch, and what several setp together select (native/coverage.hpp). If a compiler made several copies of one
comparison, they are one condition here: an outcome has run if one copy had it. A branch that the compiler proved
impossible is not in the PTX and is not counted.
"""

from __future__ import annotations

import math
import mmap
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.plan import Never
from gemmgen.run.coverage import Coverage, Lines, Near, Unreachable, Untaken, lines_of
from gemmgen.run.emulator.statements import Asked, Statements, Words

LINE = re.compile(r"^\s*\.loc\b", re.MULTILINE)
Outcomes = npt.NDArray[np.bool_]  # of each site or condition, false and true

# The layouts of coverage.hpp.
HEADER = np.dtype([("sites", np.uint32), ("lines", np.uint32), ("unused", np.uint32, 2)])
SITE = np.dtype(
    [
        ("ran", np.bool_, 2),
        ("near", np.bool_),
        ("locked", np.uint8),
        ("kind", np.uint8),
        ("operation", np.uint8),
        ("flags", np.uint8),
        ("index", np.uint8),
        ("place", np.uint32, 2),
        ("user", np.uint32, 2),
        ("distance", np.float64),
        ("operands", np.float64, 2),
    ]
)
COMPARISON, BRANCH = 1, 2  # kinds of sites
OPERATIONS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
ALL_OF, ANY_OF = 254, 253  # of a branch that asks several
INVERTED, CONSTANT_LEFT, CONSTANT_RIGHT = 1, 2, 4  # flags
HAS_CODE, HAS_RUN = 1, 2  # of a line


@dataclass(frozen=True)
class Condition:
    """A condition: `text` in `line`, which is true or false whenever it is evaluated; `plain` is the text without the
    setp's name."""

    line: int
    text: str
    plain: str


class Sites:
    """The sites of the kernels that a process has loaded, and the condition in the text to which each belongs.

    counted     a SITE record per site: memory that the process writes
    lines       HAS_CODE and HAS_RUN flags per line
    conditions  the conditions of the text, then hidden ones: sites whose text is unknown, and sites that compare with
                different numbers where the text has one condition. Reports do not name hidden ones, but situations are
                drawn towards them
    named       the number of conditions in the text
    condition   per site the number of its condition; -1: it has none
    hidden      per site the number of its hidden condition; -1: it has none
    inverted    per site whether it is true where the condition is false
    """

    def __init__(self, memory: mmap.mmap, statements: Statements) -> None:
        sites, lines, _ = np.frombuffer(memory, HEADER, 1)[0].tolist()
        start = HEADER.itemsize
        self.counted: npt.NDArray[Any] = np.frombuffer(memory, SITE, sites, start)
        self.lines = np.frombuffer(memory, np.uint8, lines, start + sites * SITE.itemsize)
        self.conditions: list[Condition] = []
        self.condition = np.full(sites, -1)
        self.inverted = np.zeros(sites, np.bool_)
        numbers: dict[tuple[int, str], int] = {}
        for number, site in enumerate(self.counted):
            words = _words(site, statements)
            if words is None:
                continue
            if (words.line, words.text) not in numbers:
                numbers[words.line, words.text] = len(numbers)
                self.conditions.append(Condition(words.line, words.text, words.plain))
            self.condition[number], self.inverted[number] = numbers[words.line, words.text], words.inverted
        self.named = len(self.conditions)
        self.hidden = self._hidden()
        self.compares = (self.counted["kind"] == COMPARISON) & (self.condition >= 0)

    def _hidden(self) -> npt.NDArray[np.int64]:
        """The hidden condition of each site; it appends these to the conditions."""
        found = np.full(len(self.counted), -1)
        groups: dict[tuple[int, float | None], list[int]] = {}
        for number in np.flatnonzero(self.counted["kind"] == COMPARISON).tolist():
            condition = int(self.condition[number])
            key = condition, _number(self.counted[number]) if condition >= 0 else number
            groups.setdefault(key, []).append(number)
        several = {condition for condition, count in Counter(one for one, _ in groups).items() if count > 1}
        for (condition, _), members in groups.items():
            if condition < 0 or condition in several:
                found[members] = len(self.conditions)
                self.conditions.append(Condition(int(self.counted["place"][members[0]][0]), "", ""))
        return found

    def detach(self) -> None:
        """Copy the counts from the shared memory, so that they stay readable."""
        self.counted, self.lines = self.counted.copy(), self.lines.copy()

    def outcomes(self) -> Outcomes:
        """The outcomes that have run, per condition."""
        found = np.zeros((len(self.conditions), 2), np.bool_)
        ran = self.counted["ran"]
        turned = np.where(self.inverted[:, None], ran[:, ::-1], ran)
        for conditions, outcomes in ((self.condition, turned), (self.hidden, ran)):
            counts = conditions >= 0
            np.logical_or.at(found, conditions[counts], outcomes[counts])
        return found


class Counters:
    """Coverage of the kernels in `ptx`, compiled from `text`. `never` lists outcomes that no launch can reach."""

    def __init__(self, text: str, ptx: str, never: Sequence[Never]) -> None:
        self.file = os.memfd_create("gemmgen-coverage")
        most = ptx.count("setp") + ptx.count("bra") + ptx.count("selp")
        os.ftruncate(self.file, HEADER.itemsize + most * SITE.itemsize + text.count("\n") + 2)
        self._memory = mmap.mmap(self.file, 0)
        self._text, self._stated, self._statements = text, never, Statements(text)
        self._has_lines = LINE.search(ptx) is not None
        self._sites = Sites(self._memory, self._statements)  # none yet
        self._never: dict[tuple[int, int], str] = {}
        self._told_sites: Outcomes = np.zeros((0, 2), np.bool_)
        self._ran, self._told = self._told_sites, self._told_sites

    def close(self) -> None:
        """Close the shared file. `coverage` and `lacking` still answer."""
        self._sites.detach()
        self._memory.close()
        os.close(self.file)

    def loaded(self) -> None:
        """Note that the process has loaded the PTX, so that its sites are known."""
        if self._sites.conditions:
            return
        self._sites = Sites(self._memory, self._statements)
        self._never = dict(self._impossible())
        self._told_sites = np.zeros((len(self._sites.counted), 2), np.bool_)
        # Outcomes by condition, in all launches, and in those that would have shown an error.
        self._ran, self._told = np.zeros((2, len(self._sites.conditions), 2), np.bool_)

    def launched(self, told: bool) -> None:
        """Note that a launch has ended; `told` says whether it would have shown an error."""
        sites, ran = self._sites, self._sites.outcomes()
        self._ran |= ran
        if not told:
            sites.counted["ran"] = self._told_sites
            sites.counted["near"] = False
            return
        self._told |= ran
        # Where both outcomes of a condition are known, none of its copies has to be watched.
        complete = np.append(self._told.all(axis=1), False)
        known = np.where(sites.hidden >= 0, complete[sites.hidden], complete[sites.condition] & sites.compares)
        sites.counted["ran"][known] = True
        self._told_sites = sites.counted["ran"].copy()

    def coverage(self) -> Coverage | None:
        """The coverage; None if the process counts nothing, or if the PTX lacks line numbers."""
        if not (len(self._sites.counted) and self._has_lines):
            return None
        named = self._sites.named
        possible, ran = self._possible()[:named], self._ran[:named]
        untaken = [
            Untaken(one.line, one.text, None if all(lacks) else lacks[1])
            for one, lacks in zip(self._sites.conditions[:named], (possible & ~ran).tolist(), strict=True)
            if any(lacks)
        ]
        unreachable = tuple(sorted(self._unreachable(), key=lambda one: one.line))
        by_line = tuple(sorted(untaken, key=lambda one: one.line))
        return Coverage(int(possible.sum()), by_line, self._never_ran(unreachable), unreachable)

    def lacking(self) -> dict[int, Near | None]:
        """See `LoadedKernel.lacking`."""
        lacks, counted = (self._possible() & ~self._told).any(axis=1), self._sites.counted
        found: dict[int, Near | None] = dict.fromkeys(np.flatnonzero(lacks).tolist())
        for conditions in (self._sites.condition, self._sites.hidden):
            near = np.flatnonzero(counted["near"] & np.append(lacks, False)[conditions])
            for site in near[np.argsort(-counted["distance"][near], kind="stable")].tolist():  # the closest last
                number = int(conditions[site])
                left, right = counted["operands"][site].tolist()
                text = self._text_of(site, number) if number < self._sites.named else ""
                found[number] = Near(text, left, right, bool(self._ran[number].all()))
        counted["near"] = False
        return found

    def _text_of(self, site: int, number: int) -> str:
        """The condition to which a site's operands belong.

        If a branch asks several conditions, it is the one that alone would have changed the branch's outcome.
        """
        counted, sites = self._sites.counted[site], self._sites
        leaf = int(sites.condition[int(counted["user"][0]) - 1]) if counted["operation"] in (ALL_OF, ANY_OF) else number
        return sites.conditions[leaf if leaf >= 0 else number].plain

    def _possible(self) -> Outcomes:
        """The outcomes that count: a condition with only one possible outcome is not a branch, and has none."""
        found = np.ones((len(self._sites.conditions), 2), np.bool_)
        for number, outcome in self._never:
            found[number, outcome] = self._ran[number, outcome]
        found &= found.all(axis=1, keepdims=True)
        return found

    def _unreachable(self) -> Iterator[Unreachable]:
        """The outcomes that are missing, but that `never` declares impossible."""
        for (number, outcome), because in self._never.items():
            if not self._ran[number, outcome]:
                one = self._sites.conditions[number]
                yield Unreachable(one.line, one.text, bool(outcome), because)

    def _impossible(self) -> Iterator[tuple[tuple[int, int], str]]:
        """Yield ((condition, outcome), reason) of each impossible outcome; both outcomes if it is not sure which one is
        meant."""
        for stated in self._stated:
            within = lines_of(self._text, stated.function)
            for number, one in enumerate(self._sites.conditions):
                if one.line in within and one.plain == stated.text:
                    outcomes = (stated.outcome,) if one.text == one.plain else (False, True)
                    yield from (((number, int(outcome)), stated.because) for outcome in outcomes)

    def _never_ran(self, unreachable: Sequence[Unreachable]) -> tuple[Lines, ...]:
        """Ranges of lines with code that never ran, without those that unreachable outcomes guard."""
        guarded = {line for one in unreachable if one.outcome for line in self._statements.body(one.line)}
        return tuple(_ranges(self._sites.lines, guarded, self._text.split("\n")))


def _words(site: Any, statements: Statements) -> Words | None:
    """The words of a site; None for a branch whose condition another statement compares, as it is not a condition of
    its own."""
    operation, flags = int(site["operation"]), int(site["flags"])
    (line, column), (user_line, user_column) = site["place"].tolist(), site["user"].tolist()
    place, user = (line, column), (user_line, user_column)
    if site["kind"] == BRANCH and operation in (ALL_OF, ANY_OF):
        words = statements.joined(operation == ALL_OF, place)
        return None if words is None else replace(words, inverted=words.inverted != bool(flags & INVERTED))
    if operation >= len(OPERATIONS):
        return None
    left, right = bool(flags & CONSTANT_LEFT), bool(flags & CONSTANT_RIGHT)
    asked = Asked(OPERATIONS[operation], left, right, _number(site))
    if site["kind"] == COMPARISON:
        return statements.words(asked, int(site["index"]), (place, user))
    words = statements.certain(asked, place) if site["kind"] == BRANCH and place != user else None
    return None if words is None else replace(words, inverted=words.inverted != bool(flags & INVERTED))


def _number(site: Any) -> float | None:
    """The number with which its operands are compared, as known before the first launch; None if there is none."""
    numbers = [one for one in site["operands"].tolist() if not math.isnan(one)]
    return numbers[0] if site["flags"] & (CONSTANT_LEFT | CONSTANT_RIGHT) and numbers else None


def _ranges(lines: npt.NDArray[np.uint8], guarded: set[int], text: Sequence[str]) -> Iterator[Lines]:
    """Ranges of neighbouring lines; lines without code may lie between them, and a function ends a range."""
    first = last = 0
    for line in np.flatnonzero(lines).tolist():
        if lines[line] & HAS_RUN or line in guarded:
            if first:
                yield first, last
            first = last = 0
            continue
        if first and any(between.startswith("}") for between in text[last : line - 1]):
            yield first, last
            first = 0
        first, last = first or line, line
    if first:
        yield first, last
