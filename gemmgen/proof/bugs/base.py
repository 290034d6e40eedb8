"""The records of seeded bugs: an edit of a correct kernel, and the verifier's expected result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from gemmgen.families import SIMT
from gemmgen.families.base import Family
from gemmgen.kernel.config import Config
from gemmgen.kernel.launch import Launch
from gemmgen.problem.device import DEFAULT_ARCH
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.support.errors import FailureKind


@dataclass(frozen=True)
class Subject:
    """A correct kernel to plant bugs in; `settings` differ from the family's `small` axes, or its default.

    arch  the architecture on which its instructions are native: elsewhere it may not compile, or give other bits
    """

    name: str
    problem: Problem
    settings: tuple[tuple[str, int], ...] = ()
    family: Family = SIMT
    arch: str = DEFAULT_ARCH

    def __str__(self) -> str:
        return self.name

    @property
    def config(self) -> Config:
        return self.family.default(self.problem).with_values(**{**self.family.small, **dict(self.settings)})

    @property
    def skeleton(self) -> str:
        """The name of the schedule's template: "double_buffer"."""
        return PurePath(self.family.template(self.config)).stem


def runtime(layout: str, ld_align: int = 1, dtype: DType = DType.F32) -> Problem:
    """A problem whose sizes are left to run time."""
    return Problem(None, None, None, dtype=dtype, layout=Layout.parse(layout), ld_align=ld_align)


def typed(types: str, layout: str, inputs: str = "plain") -> Problem:
    """The same with element types, and with inputs of a form."""
    return replace(runtime(layout), types=Types.parse(types), inputs=Inputs.parse(inputs))


def changed(problem: Problem, **fields: Any) -> Problem:
    """`problem` with other fields, given as `Problem` takes them."""
    return replace(problem, **fields)


@dataclass(frozen=True)
class Diagnosis:
    """An expected result of the verifier: the failure's kind, and a regular expression for its reason."""

    kind: FailureKind
    words: str


@dataclass(frozen=True)
class Bug:
    """One edit of `subject`'s text: `old`, found exactly `count` times, becomes `new`. Both are tokens of C++.

    breaks     the category of the mistake in this catalogue
    also       a second replacement, if the mistake needs two
    diagnoses  the expected diagnoses: which of them comes first depends on the sizes drawn
    launch     a wrong launch by the caller; the text stays
    bits       whether it passes the error bound and shows only in bits that differ from the kernel's plan
    """

    name: str
    breaks: str
    subject: Subject
    old: str
    new: str
    diagnoses: tuple[Diagnosis, ...]
    count: int = 1
    launch: Launch | None = None
    also: tuple[str, str] | None = None
    bits: bool = False


VALUE = Diagnosis("wrong", r"off by [\d.i]")  # a wrong number
PLANNED = Diagnosis("wrong", "planned")  # other bits than the plan's
UNGIVEN = Diagnosis("crash", "a value that nobody has given")
BEHIND = Diagnosis("wrong", "a row of no group")
UNNAMED = Diagnosis("wrong", "a row that no index names")
POISON = Diagnosis("wrong", "is nan")  # nobody wrote it, or what nobody may read was read
READS = Diagnosis("crash", "reads")
WRITES = Diagnosis("crash", "writes")
OUTSIDE_C = Diagnosis("crash", "writes (outside C|.* of C)")
MISALIGNED = Diagnosis("crash", "misaligned")
WITHIN_CHUNK = Diagnosis("crash", r"begins -?\d+ bytes into a line, no multiple of 16")  # a box of TMA
OUT_OF_ARRAY = Diagnosis("crash", r"\d bytes (after the end|before the start) of")
DIVISION = Diagnosis("crash", "division by zero")
DIVERGENCE = Diagnosis("crash", "barrier divergence")
DEADLOCK = Diagnosis("crash", "deadlock")
RACE = Diagnosis("race", "data race on shared memory")
RACE_C = Diagnosis("race", "data race on C")
UNWRITTEN = Diagnosis("crash", "no thread has written")
PAST_POINTERS = Diagnosis("crash", "reads .* (after the end|before the start) of the pointers to")
TILES_WRITTEN = Diagnosis("wrong", "tiles of C")
RACE_PARTIALS = Diagnosis("race", "data race on partials")
RACE_SEMAPHORES = Diagnosis("race", "data race on semaphores")
TOO_SOON = Diagnosis("race", "before it has waited for the kernel ahead on the stream")
SEMAPHORE_LEFT = Diagnosis("crash", r"leaves semaphores\[")
BESIDE_PARTIALS = Diagnosis("crash", "of partials|beside partials")
BESIDE_SEMAPHORES = Diagnosis("crash", "of semaphores|beside semaphores")
BOUNDS = Diagnosis("launch", "__launch_bounds__")
ORDER = Diagnosis("nondeterministic", "of the same launch")
# Watched launches say what happened; in others only its result shows.
STALE = (POISON, VALUE, UNWRITTEN)
EARLY = (POISON, VALUE, RACE)
