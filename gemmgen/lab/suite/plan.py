"""The plan of a suite run: what to run, where its results lie, and the outcome of each problem."""

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
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.support.files import PACKAGE, TEMPLATES, code_digest, content_key
from gemmgen.support.stamp import now

Step = Literal["measure", "predict", "sanitize", "emulate"]
State = Literal["done", "on file", "failed"]
BUDGET = 192  # candidates of a search: what goes on file is worth more of them than `tune` tries
PREDICTED_BUDGET = 16  # where the model alone orders them: compiling changes little of its order
ROW_FAILS = (GemmgenError, OSError, MemoryError)  # what costs one row and not the run
OF_TEXT = ("emulator", "sanitizers")  # entries of a record that a search does not make, true of the text alone
NOT_KERNELS = ("plain", "export")  # folders of templates that no rendered kernel includes


@dataclass(frozen=True)
class ShapeOutcome:
    """The outcome of one problem in one step.

    state    "done", "on file" (it was already), or "failed" for `reason`
    ratio    cuBLASLt's time over the winner's, if both are measured
    """

    step: Step
    problem: Problem
    state: State
    seconds: float
    kernel: str | None = None
    ratio: float | None = None
    reason: str | None = None

    def document(self) -> Document:
        """The outcome as JSON-ready data."""
        return {**asdict(self), "problem": problem_document(self.problem)}


@dataclass(frozen=True)
class SuitePlan:
    """What to run, and the place of the results.

    folder    the folder of kernels and records, for one card
    budget    candidates per search; 0: no search, the kernels on file are benched
    again     whether to redo results on file
    deadline  a value of time.monotonic() after which nothing starts; None: no limit
    processes most kernels in the emulator at a time; None: one per core
    arch      the target of "predict": "sm_80", or a known card's name
    energy    whether "measure" reads the energy of winners, and of cuBLASLt's best, from the card
    products  the products whose libraries "measure" makes and times
    command   the command that the records name
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
        """The kernels of `on_file` that stand for their problems."""
        return [kernel for kernel in self.on_file() if is_winner(kernel)]

    def borrowed(self, problem: Problem) -> list[KernelFile]:
        """The winners for `problem` of other cards of the architecture; their times and verdicts do not hold here."""
        return self._beside.get(problem, [])

    @cached_property
    def _beside(self) -> dict[Problem, list[KernelFile]]:
        """The winners on file of other cards of the architecture, by problem. They are read once, as this run does not
        change them."""
        found: dict[Problem, list[KernelFile]] = defaultdict(list)
        for folder in card_folders(self.folder.parent, arch_of(self.folder)):
            for kernel in kernels_in(folder) if folder != self.folder else ():
                if is_winner(kernel) and not kernel.edited:
                    found[kernel.source.problem].append(kernel)
        return dict(found)

    def twins(self, kernel: KernelFile) -> Iterator[Document]:
        """The records that other cards of the architecture have of the same text; names end in the text's digest."""
        for folder in card_folders(self.folder.parent, arch_of(self.folder)):
            path = folder / f"{kernel.source.name}.cu"
            if folder != self.folder and text_path(path).is_file():
                with suppress(InvalidInput):
                    twin = read_kernel(path)
                    if twin.source.text == kernel.source.text and not twin.edited:
                        yield dict(twin.record or {})

    def on_file(self) -> list[KernelFile]:
        """The unedited kernels for its problems, in order, including rungs of ladders."""
        place = {problem: index for index, problem in enumerate(self.problems)}
        found = [kernel for kernel in _kernels_now(self.folder) if not kernel.edited]
        known = [kernel for kernel in found if kernel.source.problem in place]
        return sorted(known, key=lambda kernel: place[kernel.source.problem])

    def judged_by(self, step: Step) -> list[KernelFile]:
        """The kernels for `step`, which is not a measurement; the emulator also counts coverage of rungs."""
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
    """The outcome of a kernel's problem; `started` is a value of time.monotonic()."""
    ratio = ((kernel.record or {}).get("bench") or {}).get("speedup")
    name, seconds = kernel.source.name, time.monotonic() - started
    return ShapeOutcome(step, kernel.source.problem, state, seconds, name, ratio, reason)


def failed(
    step: Step, problem: Problem, error: BaseException, plan: SuitePlan, card: str, started: float
) -> ShapeOutcome:
    """Record that no kernel was found for `problem` on `card`, and why."""
    reason = str(error) or type(error).__name__
    document = {"problem": problem_document(problem), "reason": reason, "card": card}
    write_failure(problem, {**document, "command": plan.command, "date": now()}, plan.folder)
    return ShapeOutcome(step, problem, "failed", time.monotonic() - started, reason=reason)


def found(step: Step, kernel: KernelFile, plan: SuitePlan, started: float) -> ShapeOutcome:
    """The outcome of a kernel that was found; the record of an earlier failure is removed."""
    failure_path(kernel.source.problem, plan.folder).unlink(missing_ok=True)
    return outcome_of(step, kernel, "done", started)


def searched_with(kernel: KernelFile) -> int:
    """The largest budget of the searches by this code that led to the kernel; -1 if there was none."""
    known = (kernel.record or {}).get("suite") or {}
    return int(known["budget"]) if known.get("code") == search_digest() else -1


@cache
def search_digest() -> str:
    """One key for all code that decides which kernels a search tries: templates, code that makes kernels, and
    search.

    Cards' figures and earlier winners are not part of it, as they only change the order.
    """
    modules = (path for room in ("kernel", "families", "render") for path in sorted((PACKAGE / room).rglob("*.py")))
    templates = (path.relative_to(TEMPLATES) for path in sorted(TEMPLATES.rglob("*.cu")))
    rendered = [TEMPLATES / path for path in templates if not {*path.parts} & {*NOT_KERNELS}]
    texts = [path.read_text() for path in (*modules, *rendered)]
    return content_key(
        *texts, code_digest(*(f"search/{module}.py" for module in ("order", "result", "space", "tuner")))
    )


def keep(kernel: KernelFile, record: Mapping[str, Any], plan: SuitePlan) -> KernelFile:
    """Write kernel and record. A rung of a ladder stays one, and verdicts on the same text stay."""
    path = plan.folder / f"{kernel.source.name}.cu"
    before = dict(read_kernel(path).record or {}) if text_path(path).exists() else {}
    kept = ["rung", *(OF_TEXT if before.get("sha256") == kernel.source.digest else ())]
    write_kernel(kernel.source, {**record, **{name: before[name] for name in kept if name in before}}, plan.folder)
    return read_kernel(path)


def retire(kernel: KernelFile) -> None:
    """Delete a kernel that is no longer a winner; a rung of a ladder stays, but only as a rung."""
    assert kernel.path is not None
    record = kernel.record or {}
    if "rung" in record:
        kept = {name: value for name, value in record.items() if name not in ("bench", "suite")}
        write_record(kernel.path.with_suffix(".json"), kept)
        return
    remove_kernel(kernel.path)
