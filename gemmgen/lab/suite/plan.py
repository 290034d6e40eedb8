"""What the suite is to run, where its results lie, and what became of each problem."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from gemmgen.exports.cards import arch_of, card_folders
from gemmgen.exports.json_records import Document, problem_document
from gemmgen.exports.kernelfile import KernelFile, kernel_paths, kernels_in, read_kernel
from gemmgen.exports.library.spec import Product
from gemmgen.exports.writing import remove_kernel, text_path, write_kernel, write_record
from gemmgen.judge.bench import is_winner
from gemmgen.lab.scores import failure_path, write_failure
from gemmgen.problem.gemm import Problem
from gemmgen.support.clock import now
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.support.files import code_digest, content_key
from gemmgen.support.paths import PACKAGE, TEMPLATES

Step = Literal["measure", "predict", "sanitize", "emulate"]
State = Literal["done", "on file", "failed"]
BUDGET = 192  # candidates of a search: what goes on file is worth more of them than `tune` tries
PREDICTED_BUDGET = 16  # where the model alone orders them: compiling changes little of its order
ROW_FAILS = (GemmgenError, OSError, MemoryError)  # what costs one row and not the run
OF_TEXT = ("emulator", "sanitizers")  # entries of a record that a search does not make, true of the text alone
NOT_KERNELS = ("plain", "export")  # folders of templates that no rendered kernel includes


@dataclass(frozen=True)
class ShapeOutcome:
    """What became of one problem in one step.

    state    "done", "on file" (it was already), or "failed" for `reason`
    ratio    cuBLASLt's time over the winner's, where both are measured
    """

    step: Step
    problem: Problem
    state: State
    seconds: float
    kernel: str | None = None
    ratio: float | None = None
    reason: str | None = None

    def document(self) -> Document:
        """As JSON-ready data."""
        return {**asdict(self), "problem": problem_document(self.problem)}


@dataclass(frozen=True)
class SuitePlan:
    """What to run, and where the results lie.

    folder    of kernels and records, those of one card
    budget    candidates of each search; 0 searches none, and benches what is on file
    again     redo what is on file
    deadline  of time.monotonic(): nothing starts later; None: no limit
    processes kernels in the emulator at a time, at most; None: one a core
    arch      that "predict" is for: "sm_80", or a known card's name
    energy    whether "measure" asks the card for the energy of winners, and of cuBLASLt's best
    products  whose libraries "measure" makes and times
    command   what the records say that they were made by
    """

    problems: tuple[Problem, ...]
    folder: Path
    command: str
    budget: int = BUDGET
    again: bool = False
    deadline: float | None = None
    processes: int | None = None
    arch: str = "auto"
    energy: bool = False
    products: tuple[Product, ...] = ()

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def winners(self) -> list[KernelFile]:
        """Those of `on_file` that stand for their problems."""
        return [kernel for kernel in self.on_file() if is_winner(kernel)]

    def borrowed(self, problem: Problem) -> list[KernelFile]:
        """The winners for `problem` of other cards of the architecture, whose times and verdicts are of those alone."""
        return self._beside.get(problem, [])

    @cached_property
    def _beside(self) -> dict[Problem, list[KernelFile]]:
        """Read once: this run changes none of them."""
        found: dict[Problem, list[KernelFile]] = defaultdict(list)
        for folder in card_folders(self.folder.parent, arch_of(self.folder)):
            for kernel in kernels_in(folder) if folder != self.folder else ():
                if is_winner(kernel) and not kernel.edited:
                    found[kernel.source.problem].append(kernel)
        return dict(found)

    def twins(self, kernel: KernelFile) -> Iterator[Document]:
        """The records that other cards of the architecture have of the same text: names end in its digest."""
        for folder in card_folders(self.folder.parent, arch_of(self.folder)):
            path = folder / f"{kernel.source.name}.cu"
            if folder != self.folder and text_path(path).is_file():
                with suppress(InvalidInput):
                    twin = read_kernel(path)
                    if twin.source.text == kernel.source.text and not twin.edited:
                        yield dict(twin.record or {})

    def on_file(self) -> list[KernelFile]:
        """The kernels for its problems, in their order, which nobody edited; rungs of ladders among them."""
        place = {problem: index for index, problem in enumerate(self.problems)}
        found = [kernel for kernel in _kernels_now(self.folder) if not kernel.edited]
        known = [kernel for kernel in found if kernel.source.problem in place]
        return sorted(known, key=lambda kernel: place[kernel.source.problem])

    def judged_by(self, step: Step) -> list[KernelFile]:
        """What `step`, which is no measurement, has to judge: the emulator counts coverage of rungs, too."""
        return self.on_file() if step == "emulate" else self.winners()


def _kernels_now(folder: Path) -> Iterator[KernelFile]:
    """`kernels_in`, for every problem anew: other processes write there, too. Only what they changed is read again."""
    for path in kernel_paths(folder):
        with suppress(OSError, InvalidInput):
            stats = (text_path(path).stat(), path.with_suffix(".json").stat())  # none without a record
            yield _read(path, tuple((it.st_ino, it.st_mtime_ns, it.st_size) for it in stats))


@cache
def _read(path: Path, _: tuple[tuple[int, int, int], ...]) -> KernelFile:
    return read_kernel(path)


def outcome_of(step: Step, kernel: KernelFile, state: State, started: float, reason: str | None = None) -> ShapeOutcome:
    """What became of a kernel's problem since `started`, of time.monotonic()."""
    ratio = ((kernel.record or {}).get("bench") or {}).get("speedup")
    name, seconds = kernel.source.name, time.monotonic() - started
    return ShapeOutcome(step, kernel.source.problem, state, seconds, name, ratio, reason)


def failed(
    step: Step, problem: Problem, error: BaseException, plan: SuitePlan, card: str, started: float
) -> ShapeOutcome:
    """Keep that no kernel was found for `problem` on `card`, and why."""
    reason = str(error) or type(error).__name__
    document = {"problem": problem_document(problem), "reason": reason, "card": card}
    write_failure(problem, {**document, "command": plan.command, "date": now()}, plan.folder)
    return ShapeOutcome(step, problem, "failed", time.monotonic() - started, reason=reason)


def found(step: Step, kernel: KernelFile, plan: SuitePlan, started: float) -> ShapeOutcome:
    """That a kernel was found: what stood in its way before is forgotten."""
    failure_path(kernel.source.problem, plan.folder).unlink(missing_ok=True)
    return outcome_of(step, kernel, "done", started)


def searched_with(kernel: KernelFile) -> int:
    """The largest budget of the searches by this code that led to the kernel; -1 where none did."""
    known = (kernel.record or {}).get("suite") or {}
    return int(known["budget"]) if known.get("code") == search_digest() else -1


@cache
def search_digest() -> str:
    """One key for what decides which kernels a search tries: templates, what makes kernels, and search.

    Not of cards' figures, nor of what won before: these change its order.
    """
    modules = (path for room in ("kernel", "families", "render") for path in sorted((PACKAGE / room).rglob("*.py")))
    templates = (path.relative_to(TEMPLATES) for path in sorted(TEMPLATES.rglob("*.cu")))
    rendered = [TEMPLATES / path for path in templates if not {*path.parts} & {*NOT_KERNELS}]
    texts = [path.read_text() for path in (*modules, *rendered)]
    return content_key(*texts, code_digest(*(f"search/{module}.py" for module in ("order", "pick", "space", "tuner"))))


def keep(kernel: KernelFile, record: Mapping[str, Any], plan: SuitePlan) -> KernelFile:
    """Write kernel and record. A rung of a ladder stays one, and verdicts on the same text stand."""
    path = plan.folder / f"{kernel.source.name}.cu"
    before = dict(read_kernel(path).record or {}) if text_path(path).exists() else {}
    kept = ["rung", *(OF_TEXT if before.get("sha256") == kernel.source.digest else ())]
    write_kernel(kernel.source, {**record, **{name: before[name] for name in kept if name in before}}, plan.folder)
    return read_kernel(path)


def retire(kernel: KernelFile) -> None:
    """Delete a kernel that is no winner any more; a rung of a ladder stays, as that alone."""
    assert kernel.path is not None
    record = kernel.record or {}
    if "rung" in record:
        kept = {name: value for name, value in record.items() if name not in ("bench", "suite")}
        write_record(kernel.path.with_suffix(".json"), kept)
        return
    remove_kernel(kernel.path)
