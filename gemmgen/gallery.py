"""generated/<arch>/: kernels kept in the repository, and the README.md made from their JSON.

The texts must be what the templates render today: `check` says where they are not, `rerender` mends it. A
measurement stays only while the machine code stays.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgen.compile import compile_kernel
from gemmgen.errors import InvalidInput
from gemmgen.files import Store, write_atomic
from gemmgen.kernelfile import KernelFile, kernels_in, problem_from, read_kernel, write_kernel
from gemmgen.naming import parse_name
from gemmgen.render import render
from gemmgen.source import KernelSource

NONE = "-"
WINNERS_MEANING = (
    "Each row is one run: ours and cuBLASLt's best of all algorithms that it offers take turns, medians of the rounds,",
    "inputs rotated over at least twice the L2. The roof is what the card's measured FFMA rate allows, or its measured",
    "read bandwidth where that is less.",
)
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
        for kernel in kernels_in(folder):  # `check` names what it passes over
            fresh = rendered(kernel)
            if fresh.text != kernel.source.text:
                write_kernel(fresh, _updated_record(kernel, fresh, store), folder)
                changed.append(folder / f"{fresh.name}.cu")
    return changed


def rendered(kernel: KernelFile) -> KernelSource:
    """What the templates make of the kernel's name today."""
    return render(*parse_name(kernel.source.name))


def readme(folder: Path) -> str:
    """The text of README.md: kernels benched beside cuBLASLt, links to the studies, each ladder rung by rung."""
    kernels = sorted(kernels_in(folder), key=_volume)
    ladders: dict[str, list[KernelFile]] = defaultdict(list)
    for kernel in kernels:
        if "rung" in _record(kernel):
            ladders[str(kernel.source.problem)].append(kernel)
    winners = [kernel for kernel in kernels if "rung" not in _record(kernel) or "bench" in _record(kernel)]
    lines = [f"# Kernels for {folder.name}", "", "Made from the JSON files beside it by `gemmgen gallery`.", ""]
    if winners:
        lines += ["## Winners against cuBLASLt", "", *WINNERS_MEANING, "", *_winners(winners), ""]
    studies = sorted(folder.glob("study_*.md"))
    if studies:
        lines += ["## Studies", "", *map(_study, studies), ""]
    for problem, rungs in ladders.items():
        lines += [f"## {problem}, one idea at a time", "", *_ladder(rungs), ""]
    return "\n".join(lines)


def _study(page: Path) -> str:
    """A link to a page that `gemmgen study --out` wrote, by its heading."""
    heading = page.read_text().partition("\n")[0].removeprefix("# ")
    return f"- [{heading}]({page.name})"


def _winners(kernels: Sequence[KernelFile]) -> Iterator[str]:
    yield "| problem | ours, us | TFLOPS | cuBLASLt, us | TFLOPS | against cuBLASLt | of the roof | kernel |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|"
    for kernel in kernels:
        bench = _record(kernel).get("bench") or {}
        theirs = bench.get("cublaslt", {})
        yield _line(
            str(kernel.source.problem),
            *_time(_record(kernel).get("time")),
            _number(theirs.get("us")),
            _number(theirs.get("tflops")),
            _number(bench.get("speedup"), "{:.3f}x"),
            _number(_of_roof(bench), "{:.0%}"),
            _link(kernel),
        )
    yield ""
    yield from (f"- {made}" for made in sorted({_measured_how(kernel) for kernel in kernels}))


def _measured_how(kernel: KernelFile) -> str:
    """Date, card, versions and command of what a record says."""
    record = _record(kernel)
    bench = record.get("bench")
    if not bench:
        return f"{record.get('device', NONE)}, {str(record.get('date', NONE))[:10]}: `{record.get('command', NONE)}`"
    limits = bench["limits"]
    return (
        f"{bench['card']}, {str(bench['date'])[:10]}, compiled by {record['compiler']}, "
        f"{bench['cublaslt']['version']}; roof: {limits['ffma_tflops']:.1f} TFLOPS FFMA and {limits['read_gbs']:.0f} "
        f"GB/s read, measured on the card: `gemmgen bench SHAPE`"
    )


def _ladder(kernels: Sequence[KernelFile]) -> Iterator[str]:
    yield "| | rung | us | TFLOPS | against the first | registers | what it adds | kernel |"
    yield "|---:|---|---:|---:|---:|---:|---|---|"
    ordered = sorted(kernels, key=lambda kernel: int(_record(kernel)["rung"]["number"]))
    for kernel in ordered:
        record = _record(kernel)
        rung = record["rung"]
        yield _line(
            str(rung["number"]),
            rung["title"],
            *_time(rung["time"]),
            _number(_rung_us(ordered[0]) / _rung_us(kernel), "{:.1f}x"),
            _number((record.get("resources") or {}).get("registers"), "{}"),
            rung["lesson"],
            _link(kernel),
        )
    record = _record(ordered[0])
    yield ""
    yield (
        f"- {record['executor']['description']}, {str(record['date'])[:10]}, {record['compiler']}, timed side by side: "
        f"`{record['command']}`"
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
    kept = {name: value for name, value in {**record, **DROPPED}.items() if name != "bench"}
    return {**kept, "rung": {**record["rung"], "time": None}} if "rung" in record else kept


def _record(kernel: KernelFile) -> dict[str, Any]:
    return dict(kernel.record or {})


def _volume(kernel: KernelFile) -> int:
    problem = problem_from(_record(kernel)["problem"])
    return (problem.m or 0) * (problem.n or 0) * (problem.k or 0)


def _time(time: Mapping[str, Any] | None) -> tuple[str, str]:
    """(us, TFLOPS), with the word where they are no measurement."""
    if not time:
        return NONE, NONE
    word = "" if time["kind"] == "measured" else f" {time['kind']}"
    return _number(time["us"]) + word, _number(time["tflops"]) + word


def _rung_us(kernel: KernelFile) -> float:
    return float((_record(kernel)["rung"].get("time") or {}).get("us") or "inf")


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
