"""Results of earlier runs: a library that is built again repeats only what changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from gemmgen.exports.json_records import problem_document
from gemmgen.exports.kernelfile import KernelFile, source_from_record
from gemmgen.exports.library.choice import Timed
from gemmgen.exports.library.clocks import Measured
from gemmgen.exports.library.members import Contestant, Member, Needs, case_of
from gemmgen.exports.library.table import Sizes
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.run.target import Target
from gemmgen.search.trial import Progress
from gemmgen.support.files import Store, code_digest, content_key, generator_digest


def known_or(store: Store, kind: str, key: str, make: Callable[[], Any]) -> Any:
    """Return the JSON-ready value that the store has for `key`, or else the result of `make`, which it keeps."""
    payload = store.get(kind, key)
    if payload is not None:
        return json.loads(payload)
    made = make()
    store.put(kind, key, json.dumps(made).encode())
    return made


def found_before(
    problems: Sequence[Problem],
    target: Target,
    store: Store,
    asked: Sequence[object],
    search: Callable[[], Sequence[KernelFile]],
) -> list[KernelFile]:
    """Return the result of `search` for `problems`, or of an earlier run that `asked` the same of the same gemmgen and
    machine."""

    def documents() -> list[dict[str, Any]]:
        return [{"record": found.record, "text": found.source.text} for found in search()]

    wanted = json.dumps([problem_document(problem) for problem in problems])
    key = content_key(wanted, target.arch, target.executor.environment, generator_digest(), *map(str, asked))
    return [
        KernelFile(
            replace(source_from_record(known["record"], Path("the record of a winner")), text=known["text"]),
            known["record"],
        )
        for known in known_or(store, "winner", key, documents)
    ]


def certificate_key(member: Member, target: Target, asked: Sequence[object]) -> str:
    """The key of a kernel's certificate, given what was `asked` of this gemmgen and machine."""
    return content_key(
        member.source.digest, member.arch, target.executor.environment, generator_digest(), *map(str, asked)
    )


@dataclass(frozen=True)
class Remembered:
    """A GPU's times, each measured once: a choice.Clock.

    spec  the GPU's card
    most  most points of a grid that are timed
    """

    clock: Measured
    spec: DeviceSpec
    store: Store
    progress: Progress
    kind: Literal["measured", "predicted"] = "measured"
    most: int = 112

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        self.progress.stage("measure", len(points))
        return [self._at(members, sizes, given) for sizes in points]

    def _at(self, members: Sequence[Contestant], sizes: Sizes, given: Needs) -> Timed:
        case = case_of(members[0].product, sizes, given)
        key = content_key(
            self.clock.description,
            f"{case.problem} {case}",
            code_digest("exports/library/clocks.py", "run/gpu/timing.py", "run/gpu/sampling.py"),
            *(f"{one.arch} {one.source.digest}" if isinstance(one, Member) else one.name for one in members),
        )

        def measured() -> list[float | None]:
            found = self.clock.times(members, sizes, given)
            return [found.library_us, *found.us]

        library_us, *times = known_or(self.store, "timing", key, measured)
        self.progress.step("measure", None)
        return Timed(times, library_us)
