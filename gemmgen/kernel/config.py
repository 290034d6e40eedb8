"""The parameters of a kernel family as data: axes, the configs that they span, constants that follow, constraints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar

from gemmgen.kernel.expression import count_false, first_false
from gemmgen.support.errors import InvalidInput, require

AXIS_END = 2**31  # values are less: CUDA's int holds no more


@dataclass(frozen=True)
class Axis:
    """One tunable parameter: a field of a Config and, where the kernel uses it, a constexpr.

    values   what the search tries, in order; any other value is judged by the constraints
    meaning  the comment beside it, in kernels and tables
    at_zero  what 0 means where that differs; only tables show it, as kernels with 0 do not declare the axis
    per_sm   the search tries multiples of the card's SMs: each value times the number of SMs
    """

    name: str
    default: int
    values: tuple[int, ...]
    meaning: str
    at_zero: str = ""
    per_sm: bool = False

    @property
    def described(self) -> str:
        """The axis's meaning, with that of the value 0."""
        return f"{self.meaning} (0: {self.at_zero})" if self.at_zero else self.meaning

    def tried(self, sms: int) -> tuple[int, ...]:
        """The values that the search tries on a card of `sms` SMs."""
        return tuple(value * sms for value in self.values) if self.per_sm else self.values


def axis(default: int, values: tuple[int, ...], meaning: str, at_zero: str = "", per_sm: bool = False) -> Any:
    """Declare a Config field as an axis."""
    told = {"values": values, "meaning": meaning, "at_zero": at_zero, "per_sm": per_sm}
    return field(default=default, metadata=told)


@dataclass(frozen=True)
class Config:
    """Base of every family's parameter record: integers by axis name.

    PATTERN names every axis once; it writes a config into a kernel's name and reads it back. A part in brackets is left
    out where its axes have their defaults.
    """

    PATTERN: ClassVar[str]

    def __str__(self) -> str:
        return re.sub(r"\[(.+?)\]", self._optional, self.PATTERN).format_map(self.values)

    def _optional(self, part: re.Match[str]) -> str:
        """The text of a bracketed part of PATTERN: empty if all its axes have their defaults."""
        names = re.findall(r"\{(\w+)\}", part[1])
        return part[1] if any(getattr(self, name) != getattr(type(self), name) for name in names) else ""

    @classmethod
    def parse(cls, text: str) -> Config | None:
        """Return the config that `str` wrote as `text`, or None if `text` is not one."""
        groups = re.sub(r"\{(\w+)\}", r"(?P<\1>\\d+)", re.sub(r"\[(.+?)\]", r"(?:\1)?", cls.PATTERN))
        match = re.fullmatch(groups, text)
        if match is None:
            return None
        config = cls(**{name: int(value) for name, value in match.groupdict().items() if value})
        return config if str(config) == text and max(config.values.values()) < AXIS_END else None

    @classmethod
    @cache
    def axes(cls) -> tuple[Axis, ...]:
        """The axes in the order in which the class declares them."""
        return tuple(Axis(f.name, getattr(cls, f.name), **f.metadata) for f in fields(cls))

    @classmethod
    @cache
    def unnamed(cls) -> dict[str, int]:
        """The axes that names leave out at their defaults, with these."""
        parts = re.findall(r"\[(.+?)\]", cls.PATTERN)
        return {name: getattr(cls, name) for part in parts for name in re.findall(r"\{(\w+)\}", part)}

    @classmethod
    @cache
    def amounts(cls) -> tuple[Axis, ...]:
        """The axes that are not switches."""
        return tuple(axis for axis in cls.axes() if max(axis.values) > 1)

    @property
    def values(self) -> dict[str, int]:
        return dict(vars(self))

    def with_values(self, **changes: int) -> Config:
        """Return a copy with some axes changed; raise InvalidInput for a name that is not an axis."""
        known = vars(self)
        for name in changes.keys() - known.keys():
            raise InvalidInput(f"{name!r} is no parameter: known are {', '.join(known)}")
        return type(self)(**{**known, **changes})


RENAMED = {  # axes, as records of old call them
    "AHEAD": "K_UNROLL",
    "LEAD": "HOIST",
    "ORDER": "FMA_ORDER",
    "TEAM": "COPY_THREADS",
    "WALK": "BATCH_TILES",
}
_WORDS = {"ahead": "unroll", "lead": "hoist", "order": "fma", "team": "copy", "walk": "tiles"}  # of names, likewise
RETIRED = {"ATOMIC": 0}  # axes that records of old have, each with the value of the kernels that are still made


def axes_of_record(values: Mapping[str, int]) -> dict[str, int]:
    """Return the axes in `values`, a record of any age, under their present names.

    Raises InvalidInput for a kernel that is no longer made.
    """
    for name, value in RETIRED.items():
        require(values.get(name, value) == value, f"{name} = {values.get(name)}: kernels have {name} = {value} by now")
    return {RENAMED.get(name, name): value for name, value in values.items() if name not in RETIRED}


def todays_words(name: str) -> str:
    """Return a full name of any age with the words that PATTERN uses today."""
    return re.sub(rf"(?<=_)({'|'.join(_WORDS)})(?=\d)", lambda word: _WORDS[word[1]], name)


@dataclass(frozen=True)
class Derived:
    """A constant computed from axes: rendered as a constexpr with the same expression.

    group  heading under which the kernel declares it
    """

    name: str
    expression: str
    meaning: str
    group: str = "Work split"


@dataclass(frozen=True)
class Constraint:
    """A condition on axes and derived constants, beside its reason.

    in_kernel  whether the rendered kernel asserts it too, for those who edit it by hand (only
               where all the names it reads are the kernel's own constants)
    """

    expression: str
    because: str
    in_kernel: bool = True


class Rules:
    """Constraints in their order, evaluated together."""

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        self._constraints = tuple(constraints)
        expressions = [rule.expression for rule in self._constraints]
        self._first_false = first_false(expressions)
        self._count_false = count_false(expressions)

    def first_broken(self, names: Mapping[str, int]) -> Constraint | None:
        """The first constraint that does not hold, or None. Raises NameError if one reads an unknown name."""
        place = self._first_false(names)
        return self._constraints[place] if place < len(self._constraints) else None

    def count_broken(self, names: Mapping[str, int]) -> int:
        """The number of constraints that do not hold. Raises NameError as `first_broken` does."""
        return self._count_false(names)
