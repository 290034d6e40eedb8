"""Builds a library from SPEC.toml: tune or read kernels, time them over a grid, make rules, verify, write."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from gemmgen.exports.certificate import (
    Shown,
    certificate_name,
    certified_record,
    examples_to_certify,
    executor_document,
)
from gemmgen.exports.exporting import compiled_where_possible
from gemmgen.exports.folder import certified_files, exportable, kernel_texts, require_exportable, require_replaceable
from gemmgen.exports.json_records import Document, Origin, provenance
from gemmgen.exports.kernelfile import KernelFile, read_kernel
from gemmgen.exports.library.choice import Choice, Clock
from gemmgen.exports.library.choices_json import RECORD, choice_document
from gemmgen.exports.library.clocks import Measured, Predicted, Remembered, found_before, known_or
from gemmgen.exports.library.invariance import calls_by_rules
from gemmgen.exports.library.members import Contestant, CublasLt, Member, why_no_fallback
from gemmgen.exports.library.rules import choose
from gemmgen.exports.library.spec import Product, Search, Spec, own_name
from gemmgen.exports.library.texts import LibraryText
from gemmgen.exports.writing import require_writable, write_together
from gemmgen.families import SEARCHED
from gemmgen.kernel.model import representative
from gemmgen.problem.device import arch_number
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import F32_TYPES
from gemmgen.render.kernel_text import environment
from gemmgen.run.compile import arch_for, compile_many
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import load_in_parallel
from gemmgen.run.target import DeviceChoice, Target, open_target
from gemmgen.search.explorer import search_of
from gemmgen.search.many_sizes import tune_many
from gemmgen.search.trial import Progress
from gemmgen.search.tuner import tune
from gemmgen.support.errors import GemmgenError, require
from gemmgen.support.files import Store, content_key, generator_digest, sha256
from gemmgen.support.jsontext import json_text
from gemmgen.support.short_repr import brief
from gemmgen.support.stamp import gemmgen_version, now
from gemmgen.support.words import plural
from gemmgen.verification.determinism import RUNS
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.invariance import SIZES, check_invariance
from gemmgen.verification.parallel import VerifyJob, emulate_many, verify_many
from gemmgen.verification.verifier import Verdict

# Candidates per search without a GPU, where no time changes their order: a second one if the first one fails.
PREDICTED_BUDGETS = (1, 2)
GENERAL_BUDGET = 24  # candidates for a kernel that serves calls which no other does
# In the emulator, one in EMULATED_SHARE situations, which take it seconds, and fewer runs of one launch.
EMULATED_SHARE, EMULATED_RUNS = 6, 3
RUN_SECONDS = 30.0  # for one run on a GPU, which several processes share
PREDICTED_SIZES, PREDICTED_KERNELS = 8, 6  # most per search without a GPU: the model resolves no finer differences


@dataclass(frozen=True)
class Options:
    """How a library is made: see gemmgen.library."""

    device: DeviceChoice = "auto"
    budget: int | None = None
    examples: int | None = None
    seed: int = 0
    points: int | None = None
    fallback: bool = False
    command: str = "gemmgen.library(...)"


@brief
@dataclass(frozen=True)
class Library:
    """The result of building SPEC.toml.

    files    files that were written
    removed  files of an earlier run that were removed, as they are no longer needed
    left     files of an earlier run that are no longer needed but stay, as they were changed since
    """

    spec: Spec
    choices: tuple[Choice, ...]
    files: tuple[Path, ...]
    removed: tuple[Path, ...] = ()
    left: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Made:
    """The choices for products on one architecture, and what was shown of them.

    certificates  the certificates of their kernels, by name
    invariance    of each product that is to be invariant, by name: what was found, for some N and K
    """

    choices: tuple[Choice, ...]
    certificates: dict[str, Document]
    invariance: dict[str, list[Document]] = field(default_factory=dict)


def made_here(spec: Spec, options: Options, progress: Progress) -> list[Made]:
    """Make all products, one architecture after the other."""
    store = Store()
    return [made(arch, spec.products, options, store, progress) for arch in spec.architectures]


def made(arch: str, products: Sequence[Product], options: Options, store: Store, progress: Progress) -> Made:
    """Search, choose and verify the kernels of `products` on `arch`. Raises as gemmgen.library does."""
    target = open_target(options.device, arch, store)
    with target.executor:
        maker = _Maker(target, store, options, progress)
        if isinstance(target.executor, EmulatorExecutor) and options.examples != 0:
            target.executor.prepare()
        maker.compile_taken(products)
        choices = tuple(maker.choice(product) for product in products)
        certificates = maker.certificates({one.name: one for choice in choices for one in choice.kernels})
        shown = [choice for choice in choices if choice.product.invariant and options.examples != 0]
        return Made(choices, certificates, {choice.product.name: maker.invariance(choice) for choice in shown})


def build_library(
    spec: Spec,
    to: Path,
    options: Options,
    progress: Progress,
    make: Callable[[Spec, Options, Progress], Sequence[Made]] = made_here,
) -> Library:
    """Make the library that `spec` describes in the folder `to`. Raises as gemmgen.library does."""
    require_writable(to)
    found = make(spec, options, progress)
    choices = [choice for one in found for choice in one.choices]
    certificates = {name: document for one in found for name, document in one.certificates.items()}
    invariance: Document = {}  # by architecture
    for one in found:
        if one.invariance:
            invariance.setdefault(one.choices[0].arch, {}).update(one.invariance)
    library = LibraryText(spec, tuple(choices))
    return _write(library, [certificates[name] for name in sorted(certificates)], invariance, to, options)


def _write(
    library: LibraryText, certificates: Sequence[Document], invariance: Document, to: Path, options: Options
) -> Library:
    """Write the folder's files, together or not at all; then remove files of an earlier run that are no longer
    needed."""
    name = library.name
    texts = {
        **library_texts(library),
        f"{name}{RECORD}": f"{json_text(record_document(library, options))}\n",
    }
    files = {file: text.encode() for file, text in texts.items()}
    earlier = certified_files(to / certificate_name(name))
    require_replaceable(files, earlier.items(), to)
    certificate = {
        "library": name,
        "command": options.command,
        "date": now(),
        "kernels": list(certificates),
        **({"invariance": invariance} if invariance else {}),
        "files": {name: sha256(data) for name, data in files.items()},
    }
    written = write_together({**files, certificate_name(name): f"{json_text(certificate)}\n".encode()}, to)
    gone = [to / file for file in sorted(earlier) if file not in files and Path(file).name == file]
    present = [path for path in gone if path.is_file()]
    ours = [path for path in present if sha256(path.read_bytes()) == earlier[path.name]]
    for path in ours:
        path.unlink()
    left = tuple(path for path in present if path not in ours)
    return Library(library.spec, library.choices, tuple(written), tuple(ours), left)


@dataclass(frozen=True)
class _Maker:
    """Makes choices, and verifies kernels, on one target."""

    target: Target
    store: Store
    options: Options
    progress: Progress

    def choice(self, product: Product) -> Choice:
        members: list[Contestant] = [*(self._taken(product) if product.kernels else self._tuned(product))]
        if product.invariant:
            require_one_class([one for one in members if isinstance(one, Member)])
        if self.options.fallback:
            why = why_no_fallback(product) or ("times are predicted" if self.target.gpu is None else None)
            if why is None:
                members.append(CublasLt(product))
            else:
                warnings.warn(f"cuBLASLt serves no call of {product.name}: {why}", stacklevel=2)
        self.progress.about(f"{product.name}: rules for {plural(len(members), 'kernel')}")
        choice = choose(product, self.target.arch, members, self._clock, seed=self.options.seed)
        if not isinstance(self._clock, Remembered):
            return choice
        return replace(choice, load_ms=round(self._clock.clock.load_ms(choice.kernels), 3))

    @cached_property
    def _clock(self) -> Clock:
        gpu, spec, most = self.target.gpu, self.target.spec, self.options.points
        if gpu is None:
            return Predicted(spec) if most is None else Predicted(spec, most=most)
        clock = Remembered(Measured(gpu, spec), spec, self.store, self.progress)
        return clock if most is None else replace(clock, most=most)

    def compile_taken(self, products: Sequence[Product]) -> None:
        """Compile the kernels that products name, in parallel, so that the store has them."""
        sources = [kernel.source for product in products for kernel in self._named(product)]
        if sources:
            self.progress.about("kernels on file")
            self.progress.stage("compile", len(sources))
            compile_many(sources, self.target.arch, self.store, lambda *_: self.progress.step("compile", None))

    def _taken(self, product: Product) -> list[Member]:
        """The kernels on file that the product names."""
        named = self._named(product)
        made = ", ".join(sorted({read_kernel(path).source.arch for path in product.kernels}))
        require(
            bool(named),
            f"no kernel of product {product.name} runs on {self.target.arch}: its files have kernels for {made}",
        )
        return [self._member(product, kernel) for kernel in named]

    def _named(self, product: Product) -> list[KernelFile]:
        """The kernels among these files that the target can run."""
        return [kernel.alone for kernel in map(read_kernel, product.kernels) if self._runs(kernel)]

    def _runs(self, kernel: KernelFile) -> bool:
        """Whether a kernel was rendered for this architecture, or for an older one whose kernels it can run."""
        made = kernel.source.arch
        number, wanted = map(arch_number, (made, self.target.arch))
        return number == wanted or (number < wanted and not made.endswith("a"))

    def _tuned(self, product: Product) -> list[Member]:
        """Search for kernels for the product's sizes, and return each kernel once."""
        summation = self._summation(product) if product.invariant else None
        asked = self.options.budget, self.options.seed, product.most, summation
        members: dict[str, Member] = {}
        searches = list(product.searches(self.target.spec.sms))
        for number, wanted in enumerate(searches, 1):
            problems = wanted.problems
            case = representative(problems[0])  # run-time sizes have numbers there
            at = f"at {case.m}x{case.n}x{case.k}" if len(problems) == 1 else f"at {len(problems)} sizes"
            self.progress.about(f"{product.name}: search {number} of {len(searches)}, {problems[0].shape} {at}")
            one = partial(self._search, wanted)
            search = partial(self._search_many, product, problems) if problems[1:] else one
            search = partial(search, summation)
            for found in found_before(problems, self.target, self.store, asked, search):
                members.setdefault(found.source.body, self._member(product, found))
        return list(members.values())

    def _summation(self, product: Product) -> str:
        """The class of summation of all kernels of `product`: of those that serve every call, the class of the config
        that the model expects to be the fastest at the largest size.

        Raises GemmgenError if no kernel that serves every call has one.
        """
        spec, searches = self.target.spec, [*product.searches(self.target.spec.sms)]
        largest = max(
            (one for wanted in searches[1:] or searches for one in wanted.problems),
            key=lambda one: representative(one).flops,
        )
        general, fastest = (
            [entry.plan.summation(spec.arch) for entry in search_of(problem, SEARCHED, spec)[0].ranked]
            for problem in (searches[0].problems[0], largest)
        )
        found = next((one for one in fastest if one is not None and one in general), None)
        if found is None:
            raise GemmgenError(
                f"{product.name} cannot be invariant: no kernel for all calls states an order of summation that the "
                f"kernels for {representative(largest)} have"
            )
        return found

    def _search_many(self, product: Product, problems: Sequence[Problem], summation: str | None) -> list[KernelFile]:
        """The kernels of one search for many sizes for which a launcher can be written."""
        measures = self.target.gpu is not None
        few = problems if measures else problems[:: -(-len(problems) // PREDICTED_SIZES)]
        found = tune_many(
            few,
            self.target,
            self.store,
            most=product.most if measures else min(product.most, PREDICTED_KERNELS),
            each=self.options.budget,
            suits=lambda trial: exportable(trial.source),
            summation=summation,
            progress=self.progress,
        )
        return [KernelFile(one.source, provenance(one, self._origin)) for one in found.trials]

    @property
    def _origin(self) -> Origin:
        return Origin.of(self.target, self.options.command)

    def _search(self, wanted: Search, summation: str | None = None) -> list[KernelFile]:
        """The fastest kernel of a search for which a launcher can be written; kernels that rules choose are verified
        later."""
        (problem,) = wanted.problems
        usual = PREDICTED_BUDGETS if self.target.gpu is None else (None if wanted.counts else GENERAL_BUDGET,)
        few = usual if self.options.budget is None else (self.options.budget,)
        for budget in few[:-1]:
            with suppress(GemmgenError):  # its kernel spills registers, or has no launcher
                return [self._searched(problem, budget, summation)]
        return [self._searched(problem, few[-1], summation)]

    def _searched(self, problem: Problem, budget: int | None, summation: str | None) -> KernelFile:
        """The winner among `budget` candidates. Raises GemmgenError if none of them will do."""
        result = tune(
            problem,
            self.target,
            self.store,
            budget=budget,
            seed=self.options.seed,
            progress=self.progress,
            verifies=False,
            summation=summation,
        )
        best = next((trial for trial in result.trials if trial.failure is None and exportable(trial.source)), None)
        require(
            best is not None,
            f"export can write a launcher for none of the kernels found for {problem}; the fastest is "
            f"{result.winner.source.name}",
        )
        assert best is not None
        return KernelFile(best.source, provenance(best, self._origin))

    def _member(self, product: Product, kernel: KernelFile) -> Member:
        require_exportable(kernel.source)
        arch = arch_for(kernel.source, self.target.arch)
        compiled = compiled_where_possible(kernel.source, arch, self.store)
        return Member(product, kernel.source, arch, compiled, kernel.record)

    def certificates(self, members: Mapping[str, Member]) -> dict[str, Document]:
        """The certificates of kernels, by name. Raises GemmgenError if one is wrong."""
        unknown = [one for one in members.values() if self.store.get(*self._certificate_key(one)) is None]
        shown = {one.name: what for one, what in zip(unknown, self._show(unknown), strict=True)}
        return {
            name: dict(known_or(self.store, *self._certificate_key(one), partial(self._certified, one, shown)))
            for name, one in members.items()
        }

    def invariance(self, choice: Choice) -> list[Document]:
        """Compare equal rows of `choice` for some N and K; return the findings. Raises GemmgenError if bits differ."""
        self.progress.about(f"{choice.product.name}: equal rows at {len(SIZES)} sizes of M")
        timed = [(n, k) for _, n, k in (point.sizes for point in choice.times)]
        groups = [*calls_by_rules(choice.rules, [one.source for one in choice.kernels], timed)]
        self.progress.stage("verify", sum(map(len, groups)))
        executor, seed, step = self.target.executor, self.options.seed, lambda: self.progress.step("verify", None)
        found = [check_invariance(executor, calls, seed=seed, on_call=step) for calls in groups]
        failure = next((one.failure for one in found if one.failure is not None), None)
        if failure is not None:
            raise GemmgenError(f"{choice.product.name} is not invariant, and no library is written: {failure.reason}")
        return [asdict(one) for one in found]

    def _certificate_key(self, member: Member) -> tuple[str, str]:
        """(kind, key) of the certificate in the store: what was asked of this gemmgen and machine."""
        machine, asked = self.target.executor.environment, (*self._effort(member), self.options.seed)
        return "certificate", content_key(
            member.source.digest, member.arch, machine, generator_digest(), *map(str, asked)
        )

    def _effort(self, member: Member) -> tuple[int, int]:
        """(situations to verify it in, runs of one launch)."""
        if self.options.examples is not None:
            return self.options.examples, RUNS
        usual = examples_to_certify(member.problem)
        return (usual, RUNS) if self.target.gpu is not None else (usual // EMULATED_SHARE, EMULATED_RUNS)

    def _show(self, members: Sequence[Member]) -> list[Shown]:
        """Verify kernels in parallel, in emulators or on the GPU."""
        if self.options.examples == 0 or not members:
            return [Shown(one.compiled) for one in members]
        for one in members:
            require_memory(one.problem)
        executor, target = self.target.executor, self.target
        self.progress.about(f"{plural(len(members), 'kernel')} to verify")
        if isinstance(executor, EmulatorExecutor):
            load_in_parallel(executor, [one.source for one in members])
        self.progress.stage("verify", len(members))
        jobs = [self._job(one) for one in members]

        def done(job: VerifyJob, verdict: Verdict) -> None:
            self.progress.step("verify", None)

        if isinstance(executor, EmulatorExecutor):
            verdicts = emulate_many(executor, jobs, done)
        else:
            verdicts = verify_many(jobs, target.arch, self.store, done, RUN_SECONDS)
        document = executor_document(executor)
        return [Shown(one.compiled, verdict, document) for one, verdict in zip(members, verdicts, strict=True)]

    def _job(self, member: Member) -> VerifyJob:
        examples, runs = self._effort(member)
        return VerifyJob(member.source, examples, self.options.seed, runs=runs)

    def _certified(self, member: Member, shown: Mapping[str, Shown]) -> Document:
        """The certificate of `member`, from what was `shown` of kernels, by name."""
        what = shown[member.name]
        failure = None if what.verdict is None else what.verdict.failure
        if failure is not None:
            raise GemmgenError(f"{member.name} is wrong, and no library is written: {failure.reason}")
        kernel, spec, options = KernelFile(member.source, member.record), self.target.spec, self.options
        examples, _ = self._effort(member)
        command, seed = options.command, options.seed
        return certified_record(kernel, member.arch, spec, what, command=command, examples=examples, seed=seed)


def require_one_class(members: Sequence[Member]) -> None:
    """Raise InvalidInput unless all `members` are of one class of summation: see `Plan.summation`."""
    first = members[0]
    for one in members:
        require(
            one.summation is not None,
            f"{one.name} cannot be of an invariant product: the order in which it sums along K is not known",
        )
        require(
            one.summation == first.summation,
            f"{one.name} and {first.name} cannot be of one invariant product, as their bits differ: {one.summation}, "
            f"and {first.summation}",
        )


def library_texts(library: LibraryText) -> dict[str, str]:
    """The texts of all files by name, without record and certificate."""
    name = library.name
    own = {
        f"{name}.h": _render("library.h", lib=library),
        f"{name}.cu": _render("library.cu", lib=library),
        f"{name}_selftest.cu": _render("selftest.cu", lib=library),
        "CMakeLists.txt": _render("CMakeLists.txt", lib=library),
        "README.md": _render("README.md", lib=library),
    }
    for member in library.members:
        own |= kernel_texts(member.source, member.arch, own_name(name, member.name))
    return own


def _render(template: str, **values: object) -> str:
    return environment(F32_TYPES).get_template(f"export/library/{template}").render(**values)


def record_document(library: LibraryText, options: Options) -> Document:
    """The contents of NAME.record.json: every choice with its times, and their origin."""
    return {
        "library": library.name,
        "architectures": list(library.spec.architectures),
        "command": options.command,
        "date": now(),
        "generator": {"version": gemmgen_version(), "digest": generator_digest()},
        "choices": [choice_document(choice) for choice in library.choices],
    }


def make_choice(
    product: Product, target: Target, store: Store, options: Options, progress: Progress
) -> tuple[Choice, dict[str, Document]]:
    """Return the kernels and rules for one product on a target, and the certificate of each kernel by name.

    Raises GemmgenError if a kernel is wrong.
    """
    maker = _Maker(target, store, options, progress)
    choice = maker.choice(product)
    return choice, certify(choice.kernels, target, store, options, progress)


def certify(
    members: Sequence[Member], target: Target, store: Store, options: Options, progress: Progress
) -> dict[str, Document]:
    """Return the certificates of compiled `members`, by name. Raises GemmgenError if a member is wrong."""
    return _Maker(target, store, options, progress).certificates({one.name: one for one in members})
