"""generated/<arch>/: kernels kept in the repository, and the README.md made from their JSON.

The texts must be what the templates render today: `check` says where they are not, `rerender` mends it. A
measurement stays only while the machine code stays.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgen.compile import compile_kernel
from gemmgen.errors import InvalidInput
from gemmgen.files import Store, write_atomic
from gemmgen.kernelfile import KernelFile, problem_from, read_kernel, write_kernel
from gemmgen.naming import parse_name
from gemmgen.render import render
from gemmgen.source import KernelSource

NONE = "-"
DROPPED: dict[str, Any] = {"resources": None, "verification": None, "time": None}  # of a kernel that changed


@dataclass(frozen=True)
class Disagreement:
    """A file of the gallery that is not what it should be, and why."""

    path: Path
    reason: str


def folders(root: Path) -> list[Path]:
    """The folders of `root` that hold kernels, by architecture. Raises InvalidInput where there is no `root`."""
    if not root.is_dir():
        raise InvalidInput(f"{root} is no folder")
    archs = [folder for folder in root.iterdir() if re.fullmatch(r"sm_\d+[af]?", folder.name) and folder.is_dir()]
    return sorted(archs, key=lambda folder: int("".join(filter(str.isdecimal, folder.name))))


def check(root: Path) -> list[Disagreement]:
    """Where templates and gallery disagree: nothing where all is well."""
    return [found for folder in folders(root) for found in _check_folder(folder)]


def write_readmes(root: Path) -> list[Path]:
    """Make README.md of each folder from its JSON files; returns their paths. Raises GemmgenError."""
    made = []
    for folder in folders(root):
        path = folder / "README.md"
        write_atomic(path, readme(folder))
        made.append(path)
    return made


def rerender(root: Path, store: Store) -> list[Path]:
    """Bring each kernel's text up to date with the templates; returns those that changed.

    Where the machine code is the same, what was measured and verified stands; otherwise it is dropped.
    Raises CandidateFailed where a kernel does not compile.
    """
    changed = []
    for folder in folders(root):
        for kernel in _kernels(folder):
            fresh = rendered(kernel)
            if fresh.text != kernel.source.text:
                write_kernel(fresh, _updated_record(kernel, fresh, store), folder)
                changed.append(folder / f"{fresh.name}.cu")
    return changed


def rendered(kernel: KernelFile) -> KernelSource:
    """What the templates make of the kernel's name today."""
    return render(*parse_name(kernel.source.name))


def readme(folder: Path) -> str:
    """The text of README.md: a line a kernel; problems with several kernels as a ladder, slow to fast."""
    by_problem: dict[str, list[KernelFile]] = defaultdict(list)
    for kernel in _kernels(folder):
        by_problem[str(kernel.source.problem)].append(kernel)
    ordered = sorted(by_problem.items(), key=lambda item: (_volume(item[1][0]), item[0]))
    winners = [kernels[0] for _, kernels in ordered if len(kernels) == 1]
    lines = [f"# Kernels for {folder.name}", "", "Made from the JSON files beside it by `gemmgen gallery`.", ""]
    if winners:
        lines += ["## Winners", "", *_winners(winners), ""]
    for problem, kernels in ordered:
        if len(kernels) > 1:
            lines += [f"## {problem}, step by step", "", *_ladder(kernels), ""]
    return "\n".join(lines)


def _winners(kernels: Sequence[KernelFile]) -> Iterator[str]:
    yield "| problem | kernel | us | TFLOPS | | cuBLASLt TFLOPS | of cuBLASLt | of the roof | card | date |"
    yield "|---|---|---:|---:|---|---:|---:|---:|---|---|"
    for kernel in kernels:
        bench = _record(kernel).get("bench") or {}
        yield _line(
            str(kernel.source.problem),
            _link(kernel),
            *_time(kernel),
            _number(bench.get("cublaslt", {}).get("tflops")),
            _number(bench.get("speedup"), "{:.2f}x"),
            _number(_of_roof(bench), "{:.0%}"),
            _record(kernel).get("device", NONE),
            str(_record(kernel).get("date", NONE))[:10],
        )


def _ladder(kernels: Sequence[KernelFile]) -> Iterator[str]:
    yield "| kernel | us | TFLOPS | | against the first | registers | card | date |"
    yield "|---|---:|---:|---|---:|---:|---|---|"
    ordered = sorted(kernels, key=_us, reverse=True)
    for kernel in ordered:
        record = _record(kernel)
        yield _line(
            _link(kernel),
            *_time(kernel),
            _number(_us(ordered[0]) / _us(kernel), "{:.1f}x"),
            _number((record.get("resources") or {}).get("registers"), "{}"),
            record.get("device", NONE),
            str(record.get("date", NONE))[:10],
        )


def _check_folder(folder: Path) -> Iterator[Disagreement]:
    for path in sorted(folder.glob("*.cu")):
        reason = _check_kernel(path)
        if reason is not None:
            yield Disagreement(path, reason)
    table = folder / "README.md"
    if not table.is_file() or table.read_text() != readme(folder):
        yield Disagreement(table, "is not what the JSON files make: run `gemmgen gallery`")


def _check_kernel(path: Path) -> str | None:
    try:
        kernel = read_kernel(path)
        fresh = rendered(kernel)
    except InvalidInput as error:
        return str(error)
    if kernel.record is None:
        return "has no JSON beside it"
    if kernel.source.text != fresh.text:
        return "is not what the templates render: run `gemmgen gallery --render`"
    if kernel.source != fresh or kernel.edited:
        return "has a JSON that disagrees with its name or text"
    return None


def _updated_record(kernel: KernelFile, fresh: KernelSource, store: Store) -> dict[str, Any]:
    record = {**_record(kernel), "sha256": fresh.digest}
    arch = str(record["arch"])
    same = compile_kernel(kernel.source, arch, store).cubin == compile_kernel(fresh, arch, store).cubin
    if same:
        return record
    return {name: value for name, value in {**record, **DROPPED}.items() if name != "bench"}


def _kernels(folder: Path) -> Iterator[KernelFile]:
    for path in sorted(folder.glob("*.cu")):
        with suppress(InvalidInput):  # `check` names those that cannot be read
            kernel = read_kernel(path)
            if kernel.record is not None:
                yield kernel


def _record(kernel: KernelFile) -> dict[str, Any]:
    return dict(kernel.record or {})


def _volume(kernel: KernelFile) -> int:
    problem = problem_from(_record(kernel)["problem"])
    return (problem.m or 0) * (problem.n or 0) * (problem.k or 0)


def _time(kernel: KernelFile) -> tuple[str, str, str]:
    """(us, TFLOPS, the word that says what they are)."""
    time = _record(kernel).get("time") or {}
    return _number(time.get("us"), "{:.1f}"), _number(time.get("tflops")), time.get("kind", "not timed")


def _us(kernel: KernelFile) -> float:
    return float((_record(kernel).get("time") or {}).get("us") or "inf")


def _of_roof(bench: dict[str, Any]) -> float | None:
    return bench["ours"]["tflops"] / bench["roof_tflops"] if bench else None


def _number(value: float | None, pattern: str = "{:.1f}") -> str:
    return NONE if value is None or math.isnan(value) else pattern.format(value)


def _link(kernel: KernelFile) -> str:
    assert kernel.path is not None
    config = kernel.source.name.split(f"_{kernel.source.family}_", 1)[1]
    return f"[{kernel.source.family} {config}]({kernel.path.name})"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
