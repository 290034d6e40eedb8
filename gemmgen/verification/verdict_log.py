"""Verdicts in a file that grows as they come, a line of JSON each: whoever is interrupted goes on from there."""

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
    """A kernel to verify with `examples` situations at most, and the tools of compute-sanitizer to watch it on a GPU.

    Without `shrink` the first situation that fails stands; for `bits` and `runs` see `verify`. `what` names it in a
    journal.
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
        """What `executor` finds, the tools apart."""
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
        """A lane's part: what `executor` finds, and on a GPU the tools."""
        if not isinstance(executor, GpuExecutor):
            return self.verdict(executor)
        verdict = self.verdict(executor, GPU_SHRINK_SECONDS)
        return sanitize(executor, self.source, verdict, self.tools) if self.tools else verdict


class Journal:
    """The verdicts of `executor` on jobs, in the file at `path`; None keeps nothing.

    A verdict counts for the same job, executor and version of gemmgen, to the byte; other lines of the file stay as
    they are. Verdicts come back without domain, errors and coverage, and those of jobs with tools do not.
    Raises InvalidInput for a file that is no journal, GemmgenError where it cannot be read or written.
    """

    def __init__(self, path: Path | None = None, executor: str = "emulator") -> None:
        self._path, self._executor = path, executor
        self._known: dict[str, Document] = {} if path is None else _read(path)

    def verdict(self, job: VerifyJob) -> Verdict | None:
        """What stands there of `job`."""
        if not self._known or job.tools:
            return None
        line = self._known.get(self._key(job))
        return None if line is None else _verdict_from(line["verdict"], job.source.problem)

    def note(self, job: VerifyJob, verdict: Verdict) -> None:
        """Write a line, whole before the next one begins."""
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
    """By key; an end that was cut off in the middle of a line is no line, and is removed."""
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
