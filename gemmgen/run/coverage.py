"""Coverage of a kernel's text: which lines and branch outcomes ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Lines = tuple[int, int]  # the first and the last, from 1


@dataclass(frozen=True)
class Untaken:
    """A condition `text` in `line` that never had this `outcome`; None: it was never evaluated."""

    line: int
    text: str
    outcome: bool | None

    def __str__(self) -> str:
        was = "evaluated" if self.outcome is None else str(self.outcome).lower()
        return f"line {self.line}: `{self.text}` was never {was}"

    @property
    def outcomes(self) -> int:
        return 2 if self.outcome is None else 1


@dataclass(frozen=True)
class Unreachable:
    """A condition `text` in `line` that cannot have this `outcome`, as the kernel's plan knows, and never had it."""

    line: int
    text: str
    outcome: bool
    because: str

    def __str__(self) -> str:
        return f"line {self.line}: `{self.text}` is never {str(self.outcome).lower()}, as {self.because}"


@dataclass(frozen=True)
class Coverage:
    """The parts of a kernel's text that ran, over all launches.

    branches     the number of outcomes, true and false, of its conditions. Each operand of && and || is a condition,
                 and so is each comparison. Loops over constants do not count, nor do conditions with an outcome that is
                 impossible by NVRTC or by the kernel's plan
    untaken      the outcomes that never ran
    lines        the blocks that never ran
    unreachable  the outcomes that are impossible by the plan
    """

    branches: int
    untaken: tuple[Untaken, ...]
    lines: tuple[Lines, ...]
    unreachable: tuple[Unreachable, ...] = ()

    @property
    def taken(self) -> int:
        return self.branches - sum(one.outcomes for one in self.untaken)

    @property
    def complete(self) -> bool:
        return not self.untaken and not self.lines

    def never(self) -> Iterator[str]:
        """Sentences about what never ran, by line; conditions inside of lines that never ran are left out."""
        places = [(lines[0], _words(lines)) for lines in self.lines]
        inside = {line for first, last in self.lines for line in range(first + 1, last + 1)}
        places += [(one.line, str(one)) for one in self.untaken if one.line not in inside]
        return (words for _, words in sorted(places))


def _words(lines: Lines) -> str:
    first, last = lines
    return f"line {first}" if first == last else f"lines {first} to {last}"


@dataclass(frozen=True)
class Near:
    """Operands of the comparison `text` ("": unknown) that came close to its other outcome, which has not run.

    empty  whether the outcome has run, but only in launches that show no errors: see executor.tells
    """

    text: str
    left: float
    right: float
    empty: bool = False

    @property
    def distance(self) -> float:
        return abs(self.left - self.right)


def coverage_from(fields: Mapping[str, Any]) -> Coverage:
    """Read a Coverage from its JSON. Raises TypeError or KeyError for anything else."""
    return Coverage(
        branches=fields["branches"],
        untaken=tuple(Untaken(**one) for one in fields["untaken"]),
        lines=tuple((first, last) for first, last in fields["lines"]),
        unreachable=tuple(Unreachable(**one) for one in fields.get("unreachable", ())),
    )


def lines_of(text: str, function: str) -> range:
    """The lines, from 1, of the function whose name ends so, up to the brace that stands alone; none if it is not
    there."""
    if not function:
        return range(1, text.count("\n") + 2)
    start = text.find(f"{function}(")
    if start < 0:
        return range(0)
    first = text.count("\n", 0, start) + 1
    return range(first, first + text.count("\n", start, text.index("\n}\n", start)) + 1)
