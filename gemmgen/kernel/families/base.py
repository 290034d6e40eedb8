"""What a kernel family is: its parameters, the constants derived from them, its constraints.

A family module defines a frozen `Config` whose fields are axes, and a `Family` that ties it to a
template. Search, naming, error messages, `static_assert`s and the tables all read these records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol

from gemmgen.kernel.expression import evaluate, first_false, names_in, show_values
from gemmgen.problem.device import Limits
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import InvalidInput, require


@dataclass(frozen=True)
class Axis:
    """One tunable parameter: a field of a Config and, where the kernel uses it, a constexpr.

    values   what the search tries, in order; any other value is judged by the constraints
    meaning  the comment beside it, in kernels and tables
    per_sm   the search tries multiples of the card's SMs: so many each
    """

    name: str
    default: int
    values: tuple[int, ...]
    meaning: str
    per_sm: bool = False

    def tried(self, sms: int) -> tuple[int, ...]:
        """What the search tries on a card of `sms` SMs."""
        return tuple(value * sms for value in self.values) if self.per_sm else self.values


def axis(default: int, values: tuple[int, ...], meaning: str, per_sm: bool = False) -> Any:
    """Declare a Config field as an axis."""
    return field(default=default, metadata={"values": values, "meaning": meaning, "per_sm": per_sm})


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
        """What the part of PATTERN in brackets adds to the name."""
        names = re.findall(r"\{(\w+)\}", part[1])
        return part[1] if any(getattr(self, name) != getattr(type(self), name) for name in names) else ""

    @classmethod
    def parse(cls, text: str) -> Config | None:
        """The config that `str` wrote as `text`, or None where it is none."""
        groups = re.sub(r"\{(\w+)\}", r"(?P<\1>\\d+)", re.sub(r"\[(.+?)\]", r"(?:\1)?", cls.PATTERN))
        match = re.fullmatch(groups, text)
        if match is None:
            return None
        config = cls(**{name: int(value) for name, value in match.groupdict().items() if value})
        return config if str(config) == text else None

    @classmethod
    @cache
    def axes(cls) -> tuple[Axis, ...]:
        """The axes in the order in which the class declares them."""
        return tuple(
            Axis(f.name, getattr(cls, f.name), f.metadata["values"], f.metadata["meaning"], f.metadata["per_sm"])
            for f in fields(cls)
        )

    @property
    def values(self) -> dict[str, int]:
        return dict(vars(self))

    def with_values(self, **changes: int) -> Config:
        """A copy with some axes changed; raises InvalidInput for a name that is no axis."""
        known = [f.name for f in fields(self)]
        for name in changes:
            require(name in known, f"{name!r} is no parameter: known are {', '.join(known)}")
        return replace(self, **changes)


RETIRED = {"ATOMIC": 0}  # axes that records of old have, each with the value of the kernels that are still made


def without_retired(values: Mapping[str, int]) -> dict[str, int]:
    """The axes in `values` that a record may still have. Raises InvalidInput for a kernel that is no longer made."""
    for name, value in RETIRED.items():
        require(values.get(name, value) == value, f"{name} = {values.get(name)}: kernels have {name} = {value} by now")
    return {name: value for name, value in values.items() if name not in RETIRED}


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


TILES = "(M + BM - 1) / BM * ((N + BN - 1) / BN)"  # of one matrix C


def grid_fits(blocks: str) -> Constraint:
    """A grid of so many blocks."""
    return Constraint(f"{blocks} <= MAX_BLOCKS", "CUDA bounds the blocks of a grid", in_kernel=False)


GRID_FITS = grid_fits(f"{TILES} * BATCH")


def split_axis() -> Any:
    """The axis SPLIT, for families whose kernels can share a tile of C: templates/device/split.cu does it."""
    return axis(1, (1, 2, 3, 4, 6, 8, 16, 32), "blocks that share a tile of C, each with a part of K")


SPLIT_CONSTRAINTS = (
    Constraint("SPLIT >= 1", "counts start at one", in_kernel=False),
    grid_fits(f"{TILES} * BATCH * SPLIT"),
)


@dataclass(frozen=True)
class Side:
    """A or B, by the names of a rendered kernel.

    x        "a" or "b"
    mn       its dimension beside k, "m" or "n"
    along_k  its lines (the contiguous direction) run along k
    """

    x: str
    mn: str
    along_k: bool

    @property
    def X(self) -> str:
        return self.x.upper()

    @property
    def MN(self) -> str:
        return self.mn.upper()

    @property
    def ld(self) -> Literal["lda", "ldb"]:
        return "lda" if self.x == "a" else "ldb"


def sides(problem: Problem) -> tuple[Side, Side]:
    """A and B of `problem`."""
    return Side("a", "m", problem.layout.a == "r"), Side("b", "n", problem.layout.b == "c")


def sizes_of(problem: Problem) -> dict[str, int]:
    """Facts that every family has: M, N, K and BATCH (0 at run time), and ELEMENT_BYTES."""
    sizes = {"M": problem.m or 0, "N": problem.n or 0, "K": problem.k or 0, "BATCH": problem.batch or 0}
    return {**sizes, "ELEMENT_BYTES": problem.dtype.size}


def tile_grid(problem: Problem, value: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The grid of a family whose blocks compute BM x BN of one matrix: see `Launch.grid`."""
    tiles = (("M", value["BM"]), ("N", value["BN"]))
    return (*tiles, ("batch", 1)) if problem.batched else tiles


@dataclass(frozen=True)
class Rejection:
    """A constraint that a config breaks, with the numbers that break it."""

    constraint: Constraint
    names: Mapping[str, int] = field(hash=False)

    @property
    def values(self) -> str:
        return show_values(self.constraint.expression, self.names)

    def __str__(self) -> str:
        return f"{self.constraint.expression} fails ({self.values}): {self.constraint.because}"


@dataclass(frozen=True)
class Work:
    """What one thread, or one block of `threads`, does for each step of `depth` along K.

    outputs        elements of C a thread computes, or sums that it keeps where several threads share an element
    shared_reads   shared-memory reads of a thread per unit of depth, in instructions
    shared_words   the same in 4-byte words
    wavefronts     shared-memory cycles per warp and unit of depth for these reads
    copies         instructions that bring a thread's share of the tiles to shared memory, a step
    copy_wavefronts  shared-memory cycles that writing the block's tiles takes, a step
    global_words   words that the block reads from global memory, a step
    repeated       of these, words that other blocks of the SM read as well, and L1 may have
    prefetch       steps that global loads run ahead of their use (0: the block waits for them)
    waits          global latencies, besides, for which the block waits a step
    staged         words of a thread's share of the next tile that wait in registers
    shares         threads of a block that share an element, each with its part of a step's depth
    splits         blocks that share a tile of C, each with its part of K
    stream         blocks that share the last tiles, each an equal run of their steps (0: none do)
    run            FMAs in a row that share an operand with the one before (1: not counted)
    written        depths of a step that a turn of its loop takes where it reads values ahead of their FMAs, else 0
    by_turn        the values of one operand are read for a whole turn at once
    lead           rows or columns of a product that come a depth early, before the branch to the next tile or turn
    others         registers of a thread for addresses and counters, as compiled on sm_90
    """

    threads: int
    outputs: int
    depth: int
    shared_reads: float
    shared_words: float
    wavefronts: float
    copies: float
    copy_wavefronts: float
    global_words: float
    prefetch: int
    repeated: float = 0
    waits: float = 0
    staged: float = 0
    shares: int = 1
    splits: int = 1
    stream: int = 0
    run: int = 1
    written: int = 0
    by_turn: bool = False
    lead: int = 0
    others: int = 44

    @property
    def fmas(self) -> float:
        """FMAs of a thread per unit of depth."""
        return self.outputs / self.shares

    @property
    def tile(self) -> int:
        """Elements of C that a block computes."""
        return self.outputs * self.threads // self.shares


class Family(Protocol):
    """A kernel family. `derive` may depend on the problem (layouts, alignment, fixed sizes).

    constraints  what every kernel must hold
    pruning      what the search leaves out besides, though it would work: each with its reason
    """

    name: str
    config_type: type[Config]
    constraints: tuple[Constraint, ...]
    pruning: tuple[Constraint, ...]

    def __hash__(self) -> int: ...

    def default(self, problem: Problem) -> Config:
        """A sound config for `problem`: where `gemmgen generate --set` starts from."""
        ...

    def facts(self, problem: Problem) -> dict[str, int]:
        """Names that constraints may read and that the problem alone decides; those of `sizes_of` among them."""
        ...

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        """Constants that follow from the config, each after those that it reads."""
        ...

    def grid(self, problem: Problem, config: Config) -> tuple[tuple[str, int], ...]:
        """((size name, tile), ...): see `gemmgen.kernel.source.Launch`."""
        ...

    def unused(self, problem: Problem, config: Config) -> frozenset[str]:
        """Names that this kernel's body never reads: they stay out of its text."""
        ...

    def work(self, problem: Problem, config: Config) -> Work:
        """What a block does per step along K, for the model and for explanations."""
        ...

    def template(self, config: Config) -> str:
        """Path of the kernel skeleton below templates/."""
        ...

    def view(self, problem: Problem, config: Config) -> Mapping[str, Any]:
        """What the template needs beyond the constants: named choices, no code."""
        ...


@lru_cache(maxsize=2**15)  # the space and the model ask for those of each config
def constants(family: Family, problem: Problem, config: Config) -> Mapping[str, int]:
    """Every fact, axis and derived constant by name."""
    names = {**family.facts(problem), **config.values}
    for derived in family.derive(problem, config):
        names[derived.name] = evaluate(derived.expression, names)
    return MappingProxyType(names)


def first_rejection(family: Family, problem: Problem, config: Config, limits: Limits) -> Rejection | None:
    """The first constraint that `config` breaks for `problem` under `limits`, or None."""
    for name, value in config.values.items():
        if value < 0:
            return Rejection(Constraint(f"{name} >= 0", "no parameter is negative"), {name: value})
    names = {**limits.names, **family.facts(problem), **config.values}
    broken = _rules(family, frozenset(names)).first_broken(names)
    if broken is None:  # derived constants may divide by what constraints on axes alone rule out
        names.update(constants(family, problem, config))
        broken = _rules(family).first_broken(names)
    return None if broken is None else Rejection(broken, names)


class Rules:
    """Constraints in their order, evaluated together."""

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        self._constraints = tuple(constraints)
        self._first_false = first_false([rule.expression for rule in self._constraints])

    def first_broken(self, names: Mapping[str, int]) -> Constraint | None:
        """The first that does not hold, or None. Raises NameError for one that reads another name."""
        place = self._first_false(names)
        return self._constraints[place] if place < len(self._constraints) else None


@lru_cache(maxsize=64)
def _rules(family: Family, known: frozenset[str] | None = None) -> Rules:
    """The family's constraints; of these, where `known` is given, those that read no other names."""
    return Rules(rule for rule in family.constraints if known is None or names_in(rule.expression) <= known)


def check(family: Family, problem: Problem, config: Config, limits: Limits) -> None:
    """Raise InvalidInput unless every constraint holds; the message proposes the nearest values."""
    rejection = first_rejection(family, problem, config, limits)
    if rejection is None:
        return
    nearest = "; ".join(nearest_values(family, problem, config, limits))
    raise InvalidInput(f"{rejection}" + (f". Nearest that would do: {nearest}" if nearest else ""))


def nearest_values(family: Family, problem: Problem, config: Config, limits: Limits) -> Iterator[str]:
    """For each axis that alone could mend the config: the closest values below and above."""
    for item in config.axes():
        current = getattr(config, item.name)

        def works(value: int, name: str = item.name) -> bool:
            return first_rejection(family, problem, config.with_values(**{name: value}), limits) is None

        candidates = [value for value in item.values if value != current and works(value)]
        below = max((value for value in candidates if value < current), default=None)
        above = min((value for value in candidates if value > current), default=None)
        found = [str(value) for value in (below, above) if value is not None]
        if found:
            yield f"{item.name} = {' or '.join(found)}"
