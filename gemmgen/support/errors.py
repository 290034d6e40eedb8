"""Errors: exceptions for callers, and typed failures for records.

A candidate that fails does not raise through the search. It becomes a `Failure` that stays in the record, with what
failed (`kind`), why (`reason`) and who found it (`source`).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal

# Sources of a Failure:
TEXT = "text"  # found in the text, without compiling it
MEMORY = "memory"  # the machine lacks memory
FailureKind = Literal[
    "rejected",
    "compile",
    "launch",
    "timeout",
    "crash",
    "race",
    "wrong",
    "nondeterministic",
    "uncovered",
    "unjudged",
    "unavailable",
]


class GemmgenError(Exception):
    """The work failed. The command line prints the message and exits with 1."""


class InvalidInput(GemmgenError):
    """The request is wrong: a shape, type, parameter or file. The command line exits with 2."""


@dataclass(frozen=True)
class Failure:
    """The reason why a candidate is out.

    kind    rejected (a constraint), compile, launch, timeout, crash, race, wrong or nondeterministic (the
            verifier), uncovered (part of its text never ran, where all had to), unjudged (the emulator
            lacks what the kernel uses, which may be right), or unavailable (an executor that this machine
            lacks).
    reason  one sentence for a person.
    source  who found it: a constraint's expression, "nvrtc", "gpu", "emulator", "verifier", ...
    """

    kind: FailureKind
    reason: str
    source: str


class CandidateFailed(GemmgenError):
    """Carries a `Failure` out of a stage (compile, load, run) to the code that keeps the record."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind} ({failure.source}): {failure.reason}")
        self.failure = failure


def interrupt_of(error: BaseException) -> KeyboardInterrupt | None:
    """The interrupt that `error` is, or during whose handling it was raised: what an interrupt cuts off may fail in its
    own cleanup. None if there was no interrupt."""
    one: BaseException | None = error
    while one is not None and not isinstance(one, KeyboardInterrupt):
        one = one.__cause__ or one.__context__
    return one


def require_no_nul(text: str) -> None:
    """Raise CandidateFailed, unjudged, for a kernel's text with a NUL byte, at which compilers stop reading."""
    before, nul, _ = text.partition("\0")
    if nul:
        where = f"line {before.count(chr(10)) + 1} has a NUL byte"
        raise CandidateFailed(Failure("unjudged", f"{where}, at which compilers may end the text: take it out", TEXT))


class NoBaseline(CandidateFailed):
    """A library has no kernel for a problem, so there is no baseline."""

    def __init__(self, reason: str, library: str) -> None:
        super().__init__(Failure("unavailable", f"no baseline: {reason}", library))


def require(condition: bool, message: str) -> None:
    """Raise `InvalidInput(message)` unless `condition`. The message shows both values."""
    if not condition:
        raise InvalidInput(message)


def whole(name: str, value: object, least: int | None = None) -> int:
    """Return `value` as an int if it is an int or a numpy integer of at least `least`. Raises InvalidInput
    otherwise."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise InvalidInput(f"{name} = {value!r} is no whole number")
    require(least is None or number >= least, f"{name} = {number}: at least {least} is needed")
    return number
