"""Is the verifier right? It must reject every seeded bug, with the right diagnosis, and pass every correct kernel."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gemmgen.bugs import BUGS, SUBJECTS, Bug, Subject
from gemmgen.device import Limits
from gemmgen.emulator import EmulatorExecutor
from gemmgen.errors import CandidateFailed, require
from gemmgen.executor import Executor, load_in_parallel
from gemmgen.families import NAIVE, SIMT
from gemmgen.families.base import Config, Family, check, first_rejection
from gemmgen.families.naive import NaiveConfig
from gemmgen.families.simt import SimtConfig
from gemmgen.files import Store
from gemmgen.gpu.sanitizer import Tool
from gemmgen.lanes import Job, verify_many
from gemmgen.problem import Layout, Problem
from gemmgen.render import render
from gemmgen.source import KernelSource
from gemmgen.target import Target
from gemmgen.verifier import Verdict, verify

BUG_EXAMPLES = 200  # situations that a bug gets at most
KERNEL_EXAMPLES = 10  # situations that a correct kernel gets
CORRECT_KERNELS = 500

SIZES = (None, None, None, 1, 64, 67, 128)  # run-time sizes serve many shapes with one compilation
LD_PADDINGS = (0, 0, 3, 4)
# Tiles beside those that the search tries: small ones, which few threads share.
SMALL = {"BM": (16, 32, 64), "BN": (16, 32, 64), "TM": (1, 2, 4, 8), "TN": (1, 2, 4, 8), "PAD": (0, 1, 4)}
NAIVE_SHARE = 0.05


Alarms = tuple[tuple[KernelSource, Verdict], ...]  # correct kernels that are rejected


@dataclass(frozen=True)
class Outcome:
    """What became of a planted bug.

    emulated  what the emulator says of a bug that survives on a GPU; None elsewhere, and where there is no emulator
    """

    bug: Bug
    source: KernelSource
    verdict: Verdict
    emulated: Verdict | None = None

    @property
    def found(self) -> bool:
        """Some situation failed, or a sanitizer found something. A kernel that does not compile says nothing."""
        return self.verdict.found_after is not None or bool(self.sanitizers)

    @property
    def sanitizers(self) -> tuple[str, ...]:
        """The tools of compute-sanitizer that found it."""
        return tuple(result.tool for result in self.verdict.sanitizers if result.failure is not None)

    @property
    def only_emulated(self) -> bool:
        """It survives on the GPU, and the emulator finds it."""
        return not self.found and self.emulated is not None and self.emulated.found_after is not None

    @property
    def diagnosed(self) -> bool:
        """It failed as it should: one of the diagnoses that the catalogue expects, which are the emulator's."""
        failure = self.verdict.failure
        return failure is not None and any(
            failure.kind == expected.kind and re.search(expected.words, failure.reason)
            for expected in self.bug.diagnoses
        )

    @property
    def trouble(self) -> str | None:
        """Why the catalogue does not hold here; None where the bug is found, and the emulator diagnoses it."""
        if self.found:
            expected = " or ".join(f"{one.kind} ({one.words})" for one in self.bug.diagnoses)
            well = self.diagnosed or self.verdict.executor == "gpu"
            return None if well else f"not the diagnosis expected: {expected}"
        if self.emulated is not None:
            return Outcome(self.bug, self.source, self.emulated).trouble
        if self.verdict.failure is not None:
            return f"did not run: {self.verdict.failure.reason}"
        return f"survived {self.verdict.examples} situations on the {self.verdict.executor}"


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
    false_alarms: Alarms
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
    return replace(source, text=source.text.replace(bug.old, bug.new))


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


def try_bugs_on_gpu(
    bugs: Sequence[Bug],
    target: Target,
    store: Store,
    *,
    examples: int = BUG_EXAMPLES,
    seed: int = 0,
    tools: tuple[Tool, ...] = (),
    on_bug: Callable[[], None] = lambda: None,
) -> tuple[Outcome, ...]:
    """The outcome of every bug on the GPU; those that survive there are tried in the emulator, where there is one."""
    limits = target.spec.arch.limits
    sources = [plant(bug, limits) for bug in bugs]
    jobs = [Job(source, examples, seed, tools) for source in sources]
    verdicts = verify_many(jobs, target.arch, store, on_bug)
    outcomes = [Outcome(*parts) for parts in zip(bugs, sources, verdicts, strict=True)]
    missed = [outcome for outcome in outcomes if not outcome.found]
    try:
        emulator = EmulatorExecutor(store)
    except CandidateFailed:
        return tuple(outcomes)
    with emulator:
        load_in_parallel(emulator, [outcome.source for outcome in missed])
        emulated = {outcome.bug: verify(emulator, outcome.source, examples=examples, seed=seed) for outcome in missed}
    return tuple(replace(outcome, emulated=emulated.get(outcome.bug)) for outcome in outcomes)


def check_kernels(
    executor: Executor, count: int, limits: Limits, *, seed: int = 0, on_kernel: Callable[[], None] = lambda: None
) -> Alarms:
    """Those of `count` correct kernels that the verifier rejects, which must be none."""
    alarms = []
    for source in correct_kernels(count, seed, limits):
        verdict = verify(executor, source, examples=KERNEL_EXAMPLES, seed=seed)
        if not verdict.passed:
            alarms.append((source, verdict))
        on_kernel()
    return tuple(alarms)


def check_kernels_on_gpu(
    count: int, target: Target, store: Store, *, seed: int = 0, on_kernel: Callable[[], None] = lambda: None
) -> Alarms:
    """Those of `count` correct kernels that are rejected on the GPU."""
    sources = list(correct_kernels(count, seed, target.spec.arch.limits))
    verdicts = verify_many([Job(source, KERNEL_EXAMPLES, seed) for source in sources], target.arch, store, on_kernel)
    return tuple((source, verdict) for source, verdict in zip(sources, verdicts, strict=True) if not verdict.passed)


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
        pointer_align=rng.choice((4, 8, 16)),
        ld_align=rng.choice((1, 2, 4)),
    )
    lda, ldb, ldc = (
        None if size is None else size + rng.choice(LD_PADDINGS)
        for size in (dense.sizes["lda"], dense.sizes["ldb"], dense.sizes["ldc"])
    )
    return replace(dense, lda=lda, ldb=ldb, ldc=ldc)


def _config(rng: random.Random, problem: Problem) -> tuple[Family, Config]:
    if rng.random() < NAIVE_SHARE:
        return NAIVE, NaiveConfig(**{axis.name: rng.choice(axis.values) for axis in NaiveConfig.axes()})
    small = rng.random() < 0.5
    values = {
        axis.name: rng.choice(SMALL.get(axis.name, axis.values) if small else axis.values) for axis in SimtConfig.axes()
    }
    return SIMT, SimtConfig(**values)
