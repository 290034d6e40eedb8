"""Is the verifier right? It must reject every seeded bug, with the right diagnosis, and pass every correct kernel."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gemmgen.bugs import BUGS, SUBJECTS, Bug, Subject
from gemmgen.device import Limits
from gemmgen.errors import require
from gemmgen.executor import Executor
from gemmgen.families import BATCHED, NAIVE, SIMT, SKINNY
from gemmgen.families.base import Config, Family, check, first_rejection
from gemmgen.families.batched import BatchedConfig
from gemmgen.families.naive import NaiveConfig
from gemmgen.families.simt import SimtConfig
from gemmgen.families.skinny import SkinnyConfig
from gemmgen.problem import DType, Layout, Problem
from gemmgen.render import render
from gemmgen.source import KernelSource
from gemmgen.verifier import Verdict, verify

BUG_EXAMPLES = 200  # situations that a bug gets at most
KERNEL_EXAMPLES = 10  # situations that a correct kernel gets
CORRECT_KERNELS = 500

SIZES = (None, None, None, 1, 64, 67, 128)  # run-time sizes serve many shapes with one compilation
LD_PADDINGS = (0, 0, 3, 4)
# Tiles beside those that the search tries: small ones, which few threads share.
SMALL = {"BM": (16, 32, 64), "BN": (16, 32, 64), "TM": (1, 2, 4, 8), "TN": (1, 2, 4, 8), "PAD": (0, 1, 4)}
SMALL_SKINNY = {
    "S": (1, 3, 4, 8),
    "T": (1, 4),
    "WARPS": (1, 2, 3),
    "BK": (128, 192, 256),
    "UNROLL": (1, 2, 3),
    "SPLIT": (1, 2, 5),
}
NAIVE_SHARE, SKINNY_SHARE, BATCHED_SHARE = 0.05, 0.2, 0.25
BATCHES = (None, None, 2, 9)


@dataclass(frozen=True)
class Outcome:
    """What became of a planted bug."""

    bug: Bug
    source: KernelSource
    verdict: Verdict

    @property
    def found(self) -> bool:
        """Some situation failed. A planted kernel that does not compile says nothing of the verifier."""
        return self.verdict.situation is not None

    @property
    def diagnosed(self) -> bool:
        """It failed as it should: one of the diagnoses that the catalogue expects."""
        failure = self.verdict.failure
        return failure is not None and any(
            failure.kind == expected.kind and re.search(expected.words, failure.reason)
            for expected in self.bug.diagnoses
        )

    @property
    def trouble(self) -> str | None:
        """Why the catalogue does not hold here; None where the bug is found and diagnosed."""
        if self.found:
            expected = " or ".join(f"{one.kind} ({one.words})" for one in self.bug.diagnoses)
            return None if self.diagnosed else f"not the diagnosis expected: {expected}"
        if self.verdict.failure is not None:
            return f"did not run: {self.verdict.failure.reason}"
        return f"survived {self.verdict.examples} situations"


@dataclass(frozen=True)
class SelfCheck:
    """The whole result: every bug's outcome, and the correct kernels that were rejected.

    kernels      correct kernels that were tried, each with KERNEL_EXAMPLES situations at most
    false_alarms those of them that the verifier rejects
    """

    executor: str
    seed: int
    outcomes: tuple[Outcome, ...]
    kernels: int
    false_alarms: tuple[tuple[KernelSource, Verdict], ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.false_alarms and all(outcome.trouble is None for outcome in self.outcomes)


def chosen(only: str) -> tuple[Bug, ...]:
    """The bugs that have `only` in their name, category, kernel or skeleton. Raises InvalidInput where none has."""
    wanted = only.lower()
    bugs = tuple(bug for bug in BUGS if any(wanted in text.lower() for text in _texts(bug)))
    require(bool(bugs), f"no bug of the catalogue has {only!r} in its name, category or kernel")
    return bugs


def _texts(bug: Bug) -> tuple[str, ...]:
    return bug.name, bug.breaks, bug.subject.name, bug.subject.skeleton


def rendered(subject: Subject, limits: Limits) -> KernelSource:
    """The correct kernel of `subject`."""
    check(subject.family, subject.problem, subject.config, limits)
    return render(subject.problem, subject.family, subject.config)


def plant(bug: Bug, limits: Limits) -> KernelSource:
    """The kernel with its bug. Raises InvalidInput where the text to replace is not there, or not `count` times."""
    source = rendered(bug.subject, limits)
    if bug.launch is not None:
        return replace(source, launch=bug.launch)
    times = source.text.count(bug.old)
    require(
        times == bug.count,
        f"the catalogue is out of date: {bug.old!r} stands {times} times, not {bug.count}, in the kernel of "
        f"{bug.name!r} ({bug.subject.name})",
    )
    text = source.text.replace(bug.old, bug.new)
    if bug.also is not None:
        old, new = bug.also
        require(text.count(old) == 1, f"the catalogue is out of date: {old!r} stands {text.count(old)} times, not once")
        text = text.replace(old, new)
    return replace(source, text=text)


def try_bug(executor: Executor, bug: Bug, limits: Limits, *, examples: int = BUG_EXAMPLES, seed: int = 0) -> Outcome:
    """Plant `bug` and verify."""
    source = plant(bug, limits)
    return Outcome(bug, source, verify(executor, source, examples=examples, seed=seed))


def try_bugs(
    executor: Executor,
    bugs: Sequence[Bug],
    limits: Limits,
    *,
    examples: int = BUG_EXAMPLES,
    seed: int = 0,
    on_bug: Callable[[], None] = lambda: None,
) -> tuple[Outcome, ...]:
    """The outcome of every bug, in their order."""
    outcomes = []
    for bug in bugs:
        outcomes.append(try_bug(executor, bug, limits, examples=examples, seed=seed))
        on_bug()
    return tuple(outcomes)


def check_kernels(
    executor: Executor, count: int, limits: Limits, *, seed: int = 0, on_kernel: Callable[[], None] = lambda: None
) -> tuple[tuple[KernelSource, Verdict], ...]:
    """Those of `count` correct kernels that the verifier rejects, which must be none."""
    alarms = []
    for source in correct_kernels(count, seed, limits):
        verdict = verify(executor, source, examples=KERNEL_EXAMPLES, seed=seed)
        if not verdict.passed:
            alarms.append((source, verdict))
        on_kernel()
    return tuple(alarms)


def correct_kernels(count: int, seed: int, limits: Limits) -> Iterator[KernelSource]:
    """`count` kernels that are right: those that bugs are planted in, then random points of the space."""
    for subject in SUBJECTS[:count]:
        yield rendered(subject, limits)
    rng = random.Random(seed)
    names: set[str] = set()
    while len(names) < count - len(SUBJECTS):
        problem = _problem(rng)
        family, config = _config(rng, problem)
        if first_rejection(family, problem, config, limits) is not None:
            continue
        source = render(problem, family, config)
        if source.name not in names:
            names.add(source.name)
            yield source


def _problem(rng: random.Random) -> Problem:
    """Sizes at run time or fixed, every layout, promises of alignment, padded lines where their length is fixed."""
    m, n, k = (rng.choice(SIZES) for _ in "MNK")
    dense = Problem(
        m,
        n,
        k,
        layout=Layout.parse(rng.choice(("rr", "rc", "cr", "cc"))),
        dtype=(dtype := rng.choice((DType.F32, DType.F32, DType.F64))),
        pointer_align=rng.choice([align for align in (4, 8, 16) if align >= dtype.size]),
        ld_align=rng.choice((1, 2, 4)),
    )
    lda, ldb, ldc = (
        None if size is None else size + rng.choice(LD_PADDINGS)
        for size in (dense.sizes["lda"], dense.sizes["ldb"], dense.sizes["ldc"])
    )
    padded = replace(dense, lda=lda, ldb=ldb, ldc=ldc)
    if rng.random() < BATCHED_SHARE:
        padded = replace(padded, batch=rng.choice(BATCHES))
        strides = {name: rng.choice(("dense", None, 0 if name != "stride_c" else None)) for name in padded.stride_sizes}
        padded = replace(padded, **strides)  # type: ignore[arg-type]
    return padded


def _config(rng: random.Random, problem: Problem) -> tuple[Family, Config]:
    if problem.batched and rng.random() < 0.5:
        return BATCHED, BatchedConfig(**{axis.name: rng.choice(axis.values) for axis in BatchedConfig.axes()})
    share = rng.random()
    if share < NAIVE_SHARE:
        return NAIVE, NaiveConfig(**{axis.name: rng.choice(axis.values) for axis in NaiveConfig.axes()})
    if share < NAIVE_SHARE + SKINNY_SHARE:
        drawn = {axis.name: SMALL_SKINNY.get(axis.name, axis.values) for axis in SkinnyConfig.axes()}
        return SKINNY, SkinnyConfig(**{name: rng.choice(values) for name, values in drawn.items()})
    small = rng.random() < 0.5
    values = {
        axis.name: rng.choice(SMALL.get(axis.name, axis.values) if small else axis.values) for axis in SimtConfig.axes()
    }
    return SIMT, SimtConfig(**values)
