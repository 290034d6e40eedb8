"""A journal of verdicts: a file with one JSON line per verdict, from which an interrupted run continues."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.render.naming import full_name_of
from gemmgen.run.executor import Executor
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.support.errors import Failure, GemmgenError, InvalidInput
from gemmgen.support.files import content_key, generator_digest
from gemmgen.support.jsontext import json_value
from gemmgen.verification.corpus import situation_document, situation_from
from gemmgen.verification.determinism import RUNS
from gemmgen.verification.sanitizers.tool import Tool
from gemmgen.verification.verifier import SHRINK_SECONDS, Verdict, verify
from gemmgen.verification.with_sanitizers import sanitize

GPU_SHRINK_SECONDS = 5.0

Document = dict[str, Any]


@dataclass(frozen=True)
class VerifyJob:
    """A kernel to verify with at most `examples` situations, and tools of compute-sanitizer to watch it on a GPU.

    Without `shrink` the first failing situation is reported; for `bits` and `runs` see `verify`. `what` names the job
    in a journal.
    """

    source: KernelSource
    examples: int
    seed: int = 0
    tools: tuple[Tool, ...] = ()
    shrink: bool = True
    bits: bool = False
    what: str = "kernel"
    runs: int = RUNS

    def verdict(self, executor: Executor, shrink_seconds: float = SHRINK_SECONDS) -> Verdict:
        """The verdict of `executor`, without the tools."""
        return verify(
            executor,
            self.source,
            examples=self.examples,
            seed=self.seed,
            runs=self.runs,
            shrink=self.shrink,
            shrink_seconds=shrink_seconds,
            bits=self.bits,
        )

    def run(self, executor: Executor) -> Verdict:
        """Run the job in a lane: the verdict of `executor`, with the tools on a GPU."""
        if not isinstance(executor, GpuExecutor):
            return self.verdict(executor)
        verdict = self.verdict(executor, GPU_SHRINK_SECONDS)
        return sanitize(executor, self.source, verdict, self.tools) if self.tools else verdict


class Journal:
    """The verdicts of `executor` on jobs, in the file at `path`; with None it keeps nothing.

    A verdict counts only for exactly the same job, executor and version of gemmgen; other lines of the file stay.
    Recorded verdicts lack domain, errors and coverage; verdicts of jobs with tools are not recorded. Raises
    InvalidInput for a file that is not a journal, GemmgenError if it cannot be read or written.
    """

    def __init__(self, path: Path | None = None, executor: str = "emulator") -> None:
        self._path, self._executor = path, executor
        self._known: dict[str, Document] = {} if path is None else _read(path)

    def verdict(self, job: VerifyJob) -> Verdict | None:
        """The recorded verdict of `job`, or None."""
        if not self._known or job.tools:
            return None
        line = self._known.get(self._key(job))
        return None if line is None else _verdict_from(line["verdict"], job.source.problem)

    def note(self, job: VerifyJob, verdict: Verdict) -> None:
        """Write a line, complete before the next one begins."""
        if self._path is None or job.tools:
            return
        name, failure = full_name_of(job.source), verdict.failure
        result = "passes" if failure is None else f"{failure.kind}: {failure.reason}"
        line = {
            "what": job.what,
            "kernel": name,
            "result": result,
            "verdict": _document(verdict),
            "key": self._key(job),
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
        except OSError as error:
            raise GemmgenError(f"cannot write {self._path}: {error.strerror}") from error

    def _key(self, job: VerifyJob) -> str:
        asked = (job.examples, job.seed, job.shrink, job.bits, job.runs, job.source.launch, job.source.problem)
        return content_key(generator_digest(), self._executor, job.source.text, *map(str, asked))


def _read(path: Path) -> dict[str, Document]:
    """The lines by key; a last line that was cut off is removed from the file."""
    try:
        text = path.read_text() if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole)
        return {line["key"]: line for line in map(json_value, whole.splitlines())}
    except OSError as error:
        raise GemmgenError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path} is no journal of `gemmgen selfcheck --record` ({error}): name another file"
        ) from error


def _document(verdict: Verdict) -> Document:
    names = ("executor", "examples", "seed", "sampled", "found_after", "depends")
    return {
        **{name: getattr(verdict, name) for name in names},
        "worst": verdict.worst if math.isfinite(verdict.worst) else None,
        "failure": None if verdict.failure is None else asdict(verdict.failure),
        "situation": situation_document(verdict.situation),
    }


def _verdict_from(document: Mapping[str, Any], problem: Problem) -> Verdict:
    worst, failure, situation = (document[name] for name in ("worst", "failure", "situation"))
    found = {
        "worst": math.inf if worst is None else worst,
        "failure": None if failure is None else Failure(**failure),
        "situation": None if situation is None else situation_from(situation, problem),
    }
    return Verdict(**{**document, **found})
