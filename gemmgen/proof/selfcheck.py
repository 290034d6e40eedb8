"""Tests of the verifier: it must reject every seeded bug, with the right diagnosis, and pass every correct kernel.

Mutants test the same without expected diagnoses: they are random small mistakes, and only harmless ones may pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice

from gemmgen.families import FAMILIES
from gemmgen.families.base import check
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DEFAULT_ARCH, Limits, parse_arch
from gemmgen.proof.bugs import BUGS, SUBJECTS, Bug, Subject
from gemmgen.proof.edits import EDITS, Edit
from gemmgen.proof.equivalents import why_equivalent
from gemmgen.proof.mutants import LAUNCH, Mutant, draw
from gemmgen.proof.tokens import exchanged
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import compile_kernel, compile_many
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.sass import same_machine_code
from gemmgen.support.errors import CandidateFailed, require
from gemmgen.support.files import Store
from gemmgen.support.threads import cores, thread_pool
from gemmgen.verification.parallel import Lanes, VerifyJob, emulate_many
from gemmgen.verification.random_kernels import draw_points
from gemmgen.verification.sanitizers.tool import Tool
from gemmgen.verification.verifier import Verdict

BUG_EXAMPLES = 200  # situations that a bug gets at most
KERNEL_EXAMPLES = 10  # situations that a correct kernel gets
CORRECT_KERNELS = 500
EDIT_EXAMPLES = 100  # situations that a right edit gets
EVIDENCE_ARCH = DEFAULT_ARCH  # whose machine code tells that a mutant is its original
SAME_CODE = "the same machine code"
EDIT = "right edit"  # in the place of a category

Alarms = tuple[tuple[KernelSource, Verdict], ...]  # correct kernels that are rejected


def _failed(verdict: Verdict) -> bool:
    """Whether some situation failed; an instruction that the emulator lacks does not count."""
    failure = verdict.failure
    return failure is not None and failure.kind != "unjudged" and verdict.situation is not None


@dataclass(frozen=True)
class BugOutcome:
    """The outcome of a planted bug.

    emulated  the emulator's verdict on a bug that survives on a GPU; None otherwise, and without an emulator
    """

    bug: Bug
    source: KernelSource
    verdict: Verdict
    emulated: Verdict | None = None

    @property
    def found(self) -> bool:
        """Whether some situation failed, or a sanitizer found something. A kernel that does not compile does not
        count."""
        return _failed(self.verdict) or bool(self.sanitizers)

    @property
    def sanitizers(self) -> tuple[str, ...]:
        """The tools of compute-sanitizer that found it."""
        return tuple(result.tool for result in self.verdict.sanitizers if result.failure is not None)

    @property
    def only_emulated(self) -> bool:
        """Whether it survives on the GPU, and the emulator finds it."""
        return not self.found and self.emulated is not None and self.emulated.found_after is not None

    @property
    def diagnosed(self) -> bool:
        """Whether it failed with one of the diagnoses that the catalogue expects, which are those of the emulator."""
        failure = self.verdict.failure
        return failure is not None and any(
            failure.kind == expected.kind and re.search(expected.words, failure.reason)
            for expected in self.bug.diagnoses
        )

    @property
    def misread(self) -> bool:
        """Whether it failed, but with a wrong diagnosis."""
        return self.found and self.trouble is not None

    @property
    def trouble(self) -> str | None:
        """The reason why the catalogue does not hold here; None if the bug is found and, in the emulator, diagnosed as
        expected."""
        if self.found:
            expected = " or ".join(f"{one.kind} ({one.words})" for one in self.bug.diagnoses)
            well = self.diagnosed or self.verdict.executor == "gpu"
            return None if well else f"not the diagnosis expected: {expected}"
        if self.emulated is not None:
            return BugOutcome(self.bug, self.source, self.emulated).trouble
        if self.verdict.failure is not None:
            return f"did not run: {self.verdict.failure.reason}"
        return f"survived {self.verdict.examples} situations on the {self.verdict.executor}"


@dataclass(frozen=True)
class EditOutcome:
    """The outcome of a right edit."""

    edit: Edit
    source: KernelSource
    verdict: Verdict

    @property
    def judged(self) -> bool:
        """Whether the executor could run it."""
        return self.verdict.failure is None or self.verdict.failure.kind != "unjudged"

    @property
    def trouble(self) -> str | None:
        """The reason why this is a false alarm, or why the catalogue is wrong; None if all is well."""
        if self.verdict.failure is None:
            stale = not self.edit.judged and self.verdict.executor == "emulator"
            return "the catalogue is out of date: the emulator judges it" if stale else None
        if not self.judged and not self.edit.judged:
            return None
        return f"{self.verdict.situation}: {self.verdict.failure}"


@dataclass(frozen=True)
class MutantOutcome:
    """The outcome of a mutant.

    harmless  why a mutant that was not killed is not a mistake; None if it may be one
    refused   whether no compiler accepts it: neither the executor's nor NVRTC
    """

    mutant: Mutant
    verdict: Verdict
    harmless: str | None
    refused: bool = False

    @property
    def judged(self) -> bool:
        """Whether it ran, or need not run."""
        return self.verdict.passed or self.killed or self.harmless is not None

    @property
    def counts(self) -> bool:
        """Whether a compiler accepts it, so that somebody could have written it."""
        return self.judged or not self.refused

    @property
    def killed(self) -> bool:
        return _failed(self.verdict)

    @property
    def survived(self) -> bool:
        """Whether the verifier passes what may be a mistake, so that a person must look at it."""
        return self.verdict.passed and self.harmless is None


@dataclass(frozen=True)
class SelfCheck:
    """The whole result: every bug's outcome, and the correct kernels that were rejected.

    edits        right edits of correct kernels, each with at most EDIT_EXAMPLES situations
    kernels      number of correct kernels that were tried, each with at most KERNEL_EXAMPLES situations
    false_alarms the correct kernels that the verifier rejects
    """

    executor: str
    seed: int
    outcomes: tuple[BugOutcome, ...]
    edits: tuple[EditOutcome, ...]
    kernels: int
    false_alarms: Alarms
    mutants: tuple[MutantOutcome, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        alarms = bool(self.false_alarms) or any(mutant.survived for mutant in self.mutants)
        troubles = *(outcome.trouble for outcome in self.outcomes), *(outcome.trouble for outcome in self.edits)
        return not alarms and not any(troubles)


def chosen(only: str) -> tuple[tuple[Bug, ...], tuple[Edit, ...]]:
    """The bugs and the right edits that have `only` in their name, category, kernel or skeleton.

    Raises InvalidInput if there are none.
    """
    bugs = tuple(bug for bug in BUGS if _mentions(only, bug.name, bug.breaks, bug.subject))
    edits = tuple(edit for edit in EDITS if _mentions(only, edit.name, EDIT, edit.subject))
    require(bool(bugs or edits), f"no bug or edit of the catalogue has {only!r} in its name, category or kernel")
    return bugs, edits


def _mentions(only: str, name: str, category: str, subject: Subject) -> bool:
    return any(only.lower() in text.lower() for text in (name, category, subject.name, subject.skeleton))


@cache
def rendered(subject: Subject, limits: Limits) -> KernelSource:
    """The correct kernel of `subject`."""
    limits = limits if subject.arch == DEFAULT_ARCH else parse_arch(subject.arch).limits
    check(subject.family, subject.problem, subject.config, limits)
    return render(subject.problem, subject.family, subject.config, subject.arch)


def plant(bug: Bug, limits: Limits) -> KernelSource:
    """Return the kernel with its bug. Raises InvalidInput if the tokens to replace are not found exactly `count`
    times."""
    source = rendered(bug.subject, limits)
    if bug.launch is not None:
        return source.promising(launch=bug.launch)
    text = _exchanged(source.text, bug.old, bug.new, bug, bug.count)
    if bug.also is not None:
        text = _exchanged(text, *bug.also, bug)
    return replace(source, text=text)


def edited(edit: Edit, limits: Limits) -> KernelSource:
    """Return the kernel with a right edit. Raises InvalidInput if the tokens to replace are not found exactly once."""
    source = rendered(edit.subject, limits)
    text = source.text
    for old, new in edit.changes:
        text = _exchanged(text, old, new, edit)
    shared = source.launch.shared_bytes if edit.dynamic_shared is None else edit.dynamic_shared
    return replace(source, text=text).promising(launch=replace(source.launch, shared_bytes=shared))


def _exchanged(text: str, old: str, new: str, entry: Bug | Edit, count: int = 1) -> str:
    """`text` with `new` in the place of the tokens of `old`, as `entry` of a catalogue requires."""
    edited_text, times = exchanged(text, old, new)
    require(
        times == count,
        f"the catalogue is out of date: {old!r} stands {times} times, not {count}, in the kernel of "
        f"{entry.name!r} ({entry.subject.name})",
    )
    return edited_text


def try_bugs(
    lanes: Lanes,
    bugs: Sequence[Bug],
    *,
    examples: int = BUG_EXAMPLES,
    seed: int = 0,
    tools: tuple[Tool, ...] = (),
    on_bug: Callable[[], None] = lambda: None,
) -> tuple[BugOutcome, ...]:
    """The outcome of every bug, in order; bugs that survive on a GPU are tried in the emulator, if there is one.

    The first failure counts if it is diagnosed as expected; otherwise the smallest one.
    """
    sources = [plant(bug, _limits(lanes)) for bug in bugs]
    jobs = [
        VerifyJob(source, examples, seed, tools, shrink=False, bits=bug.bits)
        for bug, source in zip(bugs, sources, strict=True)
    ]
    outcomes = [BugOutcome(*parts) for parts in zip(bugs, sources, lanes.verdicts(jobs, on_bug), strict=True)]
    misread = [replace(job, shrink=True) for job, one in zip(jobs, outcomes, strict=True) if one.misread]
    smallest = iter(lanes.verdicts(misread))
    outcomes = [replace(one, verdict=next(smallest)) if one.misread else one for one in outcomes]
    missed = [outcome for outcome in outcomes if not outcome.found and outcome.verdict.executor == "gpu"]
    if not missed:
        return tuple(outcomes)
    try:
        emulator = EmulatorExecutor(lanes.store)
    except CandidateFailed:
        return tuple(outcomes)
    with emulator:
        jobs = [VerifyJob(outcome.source, examples, seed, bits=outcome.bug.bits) for outcome in missed]
        again = emulate_many(emulator, jobs)
    emulated = {outcome.bug: verdict for outcome, verdict in zip(missed, again, strict=True)}
    return tuple(replace(outcome, emulated=emulated.get(outcome.bug)) for outcome in outcomes)


def try_edits(
    lanes: Lanes, edits: Sequence[Edit], *, seed: int = 0, on_edit: Callable[[], None] = lambda: None
) -> tuple[EditOutcome, ...]:
    """The outcome of every right edit, in order."""
    sources = [edited(edit, _limits(lanes)) for edit in edits]
    jobs = [VerifyJob(source, EDIT_EXAMPLES, seed) for edit, source in zip(edits, sources, strict=True)]
    verdicts = lanes.verdicts(jobs, on_edit)
    return tuple(EditOutcome(*parts) for parts in zip(edits, sources, verdicts, strict=True))


def check_kernels(
    lanes: Lanes, sources: Sequence[KernelSource], *, seed: int = 0, on_kernel: Callable[[], None] = lambda: None
) -> Alarms:
    """The `sources`, all correct kernels, that the verifier rejects: there must be none."""
    jobs = [VerifyJob(source, KERNEL_EXAMPLES, seed) for source in sources]
    verdicts = lanes.verdicts(jobs, on_kernel)
    return tuple((source, verdict) for source, verdict in zip(sources, verdicts, strict=True) if not verdict.passed)


def try_mutants(
    lanes: Lanes,
    mutants: Sequence[Mutant],
    *,
    examples: int = BUG_EXAMPLES,
    seed: int = 0,
    on_mutant: Callable[[], None] = lambda: None,
) -> tuple[MutantOutcome, ...]:
    """The outcome of every mutant, in order."""
    jobs = [VerifyJob(one.source, examples, seed, shrink=False) for one in mutants]
    verdicts = lanes.verdicts(jobs, on_mutant)
    left = [mutant for mutant, verdict in zip(mutants, verdicts, strict=True) if not _failed(verdict)]
    reasons = iter(reasons_of(left, lanes.store))
    outcomes = []
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        harmless = next(reasons) if not _failed(verdict) else None
        ran = verdict.passed or _failed(verdict)
        outcomes.append(MutantOutcome(mutant, verdict, harmless, not ran and refuses(mutant, lanes.store)))
    return tuple(outcomes)


def _limits(lanes: Lanes) -> Limits:
    return lanes.target.spec.arch.limits


def draw_mutants(count: int, seed: int, limits: Limits) -> list[Mutant]:
    """The first `count` mutants of the kernels that bugs are planted in."""
    return list(islice(draw([partial(rendered, subject, limits) for subject in SUBJECTS], seed), count))


def reasons_of(mutants: Sequence[Mutant], store: Store) -> list[str | None]:
    """`why_harmless` of each mutant, in parallel."""
    texts = [mutant for mutant in mutants if mutant.operator != LAUNCH]
    sources = {source.text: source for mutant in texts for source in (mutant.original, mutant.source)}
    compile_many(list(sources.values()), EVIDENCE_ARCH, store)  # for those who ask the store next
    with thread_pool(cores()) as pool:
        return list(pool.map(partial(why_harmless, store=store), mutants))


def why_harmless(mutant: Mutant, store: Store) -> str | None:
    """The reason why a mutant is not a mistake: a compiler makes the same machine code, or a person has explained
    it.

    None if it may be one.
    """
    if mutant.operator == LAUNCH:
        return why_equivalent(mutant)
    try:
        same = _same_machine_code(mutant.source, mutant.original, store)
    except CandidateFailed:  # no compiler for GPUs here, or one that refuses what the host's takes
        same = False
    return SAME_CODE if same else why_equivalent(mutant)


def refuses(mutant: Mutant, store: Store) -> bool:
    """Whether NVRTC refuses the text; false without NVRTC."""
    try:
        compile_kernel(mutant.source, EVIDENCE_ARCH, store)
    except CandidateFailed as error:
        return error.failure.kind == "compile"
    return False


def _same_machine_code(a: KernelSource, b: KernelSource, store: Store) -> bool:
    """Whether a GPU would run the same code with the same amount of static shared memory."""
    one, other = (compile_kernel(source, EVIDENCE_ARCH, store) for source in (a, b))
    return one.shared_bytes == other.shared_bytes and same_machine_code(one.cubin, other.cubin)


def correct_kernels(count: int, seed: int, limits: Limits) -> Iterator[KernelSource]:
    """Yield `count` correct kernels: those that bugs are planted in, then random points of the space."""
    for subject in SUBJECTS[:count]:
        yield rendered(subject, limits)
    for point in islice(draw_points(list(FAMILIES.values()), limits, seed), max(0, count - len(SUBJECTS))):
        yield render(point.problem, point.family, point.config)
