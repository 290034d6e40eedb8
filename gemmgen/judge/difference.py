"""The difference of two kernels: problem and config, the compiler's and the model's figures, and their texts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gemmgen.exports.json_records import problem_document
from gemmgen.judge.explain import Explanation
from gemmgen.kernel.source import KernelSource
from gemmgen.run.sass import same_machine_code
from gemmgen.support.words import NONE, figure, percent

NAME = "kernel"  # stands for both kernels' names in their texts
CONTEXT = 3  # lines about a change


@dataclass(frozen=True)
class Change:
    """A property that differs between A and B."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class Difference:
    """The differences of B from A.

    chosen        the differences in problem, family and config
    figures       figures of both by the compiler, the model and measurements, equal or not
    opcodes       instructions of the main loop: (opcode, in A, in B)
    text          a unified diff of the texts, without headers and names
    same_code     whether the machine code is the same; None if one did not compile
    """

    a: Explanation
    b: Explanation
    chosen: tuple[Change, ...]
    figures: tuple[Change, ...]
    opcodes: tuple[tuple[str, int, int], ...]
    text: tuple[str, ...]
    same_code: bool | None


def difference(a: Explanation, b: Explanation, context: int = CONTEXT) -> Difference:
    """Return the differences of `b` from `a`, with `context` lines around each change of the text."""
    return Difference(
        a=a,
        b=b,
        chosen=tuple(_changes(_chosen(a.kernel.source), _chosen(b.kernel.source))),
        figures=tuple(Change(name, *both) for name, both in _paired(_figures(a), _figures(b)) if both != (NONE, NONE)),
        opcodes=tuple(_opcodes(a, b)),
        text=tuple(_text_diff(a.kernel.source, b.kernel.source, context)),
        same_code=_same_code(a, b),
    )


def body(source: KernelSource) -> list[str]:
    """The lines of a kernel's text behind its header comment, with NAME for its name."""
    lines = source.text.replace(source.name, NAME).splitlines()
    first = next((i for i, line in enumerate(lines) if line and not line.startswith("//")), len(lines))
    return lines[first:]


def _text_diff(a: KernelSource, b: KernelSource, context: int) -> Iterator[str]:
    return difflib.unified_diff(body(a), body(b), a.name, b.name, n=context, lineterm="")


def _chosen(source: KernelSource) -> Mapping[str, str]:
    problem = {name: _written(value) for name, value in problem_document(source.problem).items()}
    return {**problem, "family": source.family, **{name: str(value) for name, value in source.config.items()}}


def _written(value: Any) -> str:
    return ",".join(map(str, value.values())) if isinstance(value, Mapping) else str(value)


def _figures(it: Explanation) -> Mapping[str, str]:
    loop, fit, measured = it.main_loop, it.prediction.occupancy, it.kernel.measured_time
    compiled = it.compiled
    return {
        "measured us": figure(measured["us"]) if measured else NONE,
        "measured on": it.kernel.device if measured else NONE,
        "predicted us": figure(it.prediction.time_us),
        "bound by": it.prediction.bound,
        "threads a block": str(it.kernel.source.launch.threads),
        "registers a thread": str(compiled.registers) if compiled else NONE,
        "bytes spilled": str(compiled.spill_bytes) if compiled else NONE,
        "shared memory a block": f"{it.prediction.shared_bytes:,}",
        "occupancy": f"{fit.share:.0%} {fit.limiter}",
        "waves": figure(it.prediction.waves),
        "FLOP for each byte of a block": figure(it.traffic.intensity),
        "main loop, instructions": str(loop.total) if loop else NONE,
        "main loop, of them the work": f"{percent(loop.share(loop.fma))} {loop.fma}" if loop else NONE,
    }


def _paired(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    return ((name, (a.get(name, NONE), b.get(name, NONE))) for name in dict.fromkeys((*a, *b)))


def _changes(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Change]:
    return (Change(name, *both) for name, both in _paired(a, b) if both[0] != both[1])


def _opcodes(a: Explanation, b: Explanation) -> Iterator[tuple[str, int, int]]:
    """(opcode, count in A, count in B), the most frequent first."""
    if a.main_loop is None or b.main_loop is None:
        return
    ours, theirs = a.main_loop.counts, b.main_loop.counts
    for opcode in sorted({*ours, *theirs}, key=lambda one: (-max(ours.get(one, 0), theirs.get(one, 0)), one)):
        yield opcode, ours.get(opcode, 0), theirs.get(opcode, 0)


def _same_code(a: Explanation, b: Explanation) -> bool | None:
    if a.compiled is None or b.compiled is None:
        return None
    return same_machine_code(a.compiled.cubin, b.compiled.cubin)
