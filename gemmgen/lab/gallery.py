"""generated/: kernels kept in the repository, one folder per card; README.md and a plot are made from their JSON.

The texts must be what the templates render today: `check` reports differences, and `rerender` removes them. A
measurement stays only while the machine code stays the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from gemmgen.exports.cards import arch_of, belongs, card_folders, card_of
from gemmgen.exports.json_records import VERDICTS, kernel_document
from gemmgen.exports.kernelfile import (
    KernelFile,
    is_record,
    kernel_paths,
    kernels_in,
    read_kernel,
    read_record,
    reading,
)
from gemmgen.exports.writing import remove_kernel, write_kernel
from gemmgen.judge.bench import is_winner
from gemmgen.kernel.model import representative
from gemmgen.kernel.source import KernelSource
from gemmgen.lab import runtime_page
from gemmgen.lab.markdown import markdown_line
from gemmgen.lab.predicted import is_predicted, predicted_page
from gemmgen.lab.report.ratios import ratio_plot
from gemmgen.lab.scores import FAILED, Score, link, number, page, read_failure, scores_in, times
from gemmgen.problem.device import short_name
from gemmgen.render.rerender import rendered_again
from gemmgen.run.compile import compile_kernel
from gemmgen.run.sass import same_machine_code
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.support.files import Store, write_atomic
from gemmgen.support.html import render_html
from gemmgen.support.words import with_article

# Entries that become null, or are dropped, in the record of a kernel whose machine code has changed.
DROPPED: dict[str, Any] = {"resources": None, "verification": None, "time": None}
GONE = ("bench", "emulator", "sanitizers", "suite")
RATIOS = "ratios.svg"


@dataclass(frozen=True)
class Disagreement:
    """A file of the gallery that is not as it should be, and the reason."""

    path: Path
    reason: str


def folders(root: Path) -> list[Path]:
    """The folders of `root` that hold kernels, sorted by architecture and card.

    Raises InvalidInput if there is no `root`, and GemmgenError if it has no such folder.
    """
    if not root.is_dir():
        raise InvalidInput(f"{root} is no folder")
    found = card_folders(root)
    if not found:
        raise GemmgenError(f"{root} holds no folder of an architecture, such as sm_90")
    return found


def check(root: Path) -> list[Disagreement]:
    """The disagreements between templates and gallery; empty if there are none."""
    return [found for folder in folders(root) for found in _check_folder(folder)]


def unreadable(root: Path) -> list[Disagreement]:
    """The JSON files that README.md leaves out because they, or the kernels beside them, cannot be read."""
    damaged = (_damage(path) for folder in folders(root) for path in sorted(folder.glob("*.json")))
    return [found for some in (*damaged, *map(_damaged_libraries, folders(root))) for found in some]


def write_readmes(root: Path) -> list[Path]:
    """Make README.md of each folder, and its plot, from its JSON files; returns their paths. Raises GemmgenError."""
    return [path for folder in folders(root) for path in write_readme(folder)]


def write_readme(folder: Path) -> list[Path]:
    """Make README.md of one folder, and its plot; returns their paths, in this order. Raises GemmgenError."""
    made = _pages(folder)
    for path, text in made.items():
        write_atomic(path, text)
    return [*made]


def shown_in(folder: Path) -> list[KernelFile]:
    """The kernels of `folder` by name; those that cannot be read or shown are skipped, and `unreadable` lists them."""
    shown = []
    for kernel in kernels_in(folder):
        with suppress(InvalidInput):
            _require_shown(kernel, folder)
            shown.append(kernel)
    return shown


def _require_shown(kernel: KernelFile, folder: Path) -> None:
    """Raise InvalidInput if the record of this kernel is not enough to make its part of README.md."""
    assert kernel.path is not None
    with reading(kernel.path.with_suffix(".json")):
        scores = [Score(kernel.source.problem, kernel)] if is_winner(kernel) else []
        _readme(folder, [kernel], scores)
        ratio_plot(scores)


def _pages(folder: Path) -> dict[Path, str]:
    """The text of README.md, and the plot that it shows if something was measured against a baseline."""
    kernels = shown_in(folder)
    scores = scores_in(folder, kernels)
    made, plot = {folder / "README.md": _readme(folder, kernels, scores)}, ratio_plot(scores)
    if plot is not None:
        made[folder / RATIOS] = render_html("ratios.svg", plot=plot)
    return {**made, **runtime_page.pages(folder)}


def rerender(root: Path, store: Store) -> list[Path]:
    """Bring each kernel's text and record up to date with the templates and its family; returns those that changed.

    If the machine code is the same, measurements and verdicts stay; otherwise they are dropped. Raises CandidateFailed
    if a kernel does not compile.
    """
    changed = []
    for folder in folders(root):
        renamed = {}
        for kernel in shown_in(folder):
            assert kernel.path is not None
            with reading(kernel.path.with_suffix(".json")):
                fresh = rendered_again(kernel.source, kernel.arch)
            if fresh != kernel.source:
                write_kernel(fresh, _updated_record(kernel, fresh, store), folder)
                _remove(kernel, fresh)
                renamed[kernel.source.name] = fresh.name
                changed.append(folder / f"{fresh.name}.cu")
        changed += _rename_in_studies(folder, renamed)
    return changed


def _rename_in_studies(folder: Path, names: Mapping[str, str]) -> Iterator[Path]:
    """Rename kernels in the pages and records of studies; yield the files that changed."""
    for path in sorted((*folder.glob("study_*.md"), *folder.glob("study_*.json"))):
        text = path.read_text()
        today = re.sub(r"\bgemm_\w+", lambda found: names.get(found[0], found[0]), text)
        if today != text:
            write_atomic(path, today)
            yield path


def _remove(kernel: KernelFile, fresh: KernelSource) -> None:
    """Remove the files of a kernel that now has another name."""
    assert kernel.path is not None
    if kernel.path.stem != fresh.name:
        remove_kernel(kernel.path)


def readme(folder: Path) -> str:
    """The text of README.md: kernels benched against cuBLASLt, links to the studies, each ladder rung by rung."""
    kernels = shown_in(folder)
    return _readme(folder, kernels, scores_in(folder, kernels))


def _readme(folder: Path, kernels: Iterable[KernelFile], scores: Sequence[Score]) -> str:
    kernels = sorted(kernels, key=lambda kernel: representative(kernel.source.problem).flops)
    ladders: dict[str, list[KernelFile]] = defaultdict(list)
    for kernel in kernels:
        if "rung" in _record(kernel):
            ladders[str(kernel.source.problem)].append(kernel)
    lines = [f"# {_title(folder, kernels)}", "", "Made from the JSON files beside it by `gemmgen gallery`.", ""]
    if compared := [score for score in scores if not is_predicted(score)]:
        if ratio_plot(compared) is not None:
            lines += [f"![cuBLASLt's time over ours, by group of problems and types]({RATIOS})", ""]
        lines += page(compared)
    if predicted := [score for score in scores if is_predicted(score)]:
        lines += predicted_page(predicted)
    lines += runtime_page.link_from(folder)
    studies = sorted(folder.glob("study_*.md"))
    if studies:
        lines += ["## Studies", "", *map(_study, studies), ""]
    for problem, rungs in ladders.items():
        lines += [f"## {problem}, one idea at a time", "", *_ladder(rungs), ""]
    return "\n".join(lines)


def _title(folder: Path, kernels: Sequence[KernelFile]) -> str:
    """ "Kernels for sm_90, measured on an H100"."""
    arch, card = arch_of(folder), card_of(folder)
    devices = _devices(kernels) or {score.card for score in runtime_page.scores_in(folder)}
    if devices:
        names = [card.name] if card is not None else sorted({short_name(device) for device in devices})
        return f"Kernels for {arch}, measured on {' and '.join(map(with_article, names))}"
    if card is None or folder.name == arch:
        return f"Kernels for {folder.name}"
    return f"Kernels for {arch}, as predicted for {with_article(card.name)}"


def _devices(kernels: Iterable[KernelFile]) -> set[str]:
    """The cards that measured some of `kernels`, by the names in the records."""
    return {str(_record(kernel)["device"]) for kernel in kernels if kernel.measured_time is not None}


def _study(path: Path) -> str:
    """A link to a page that `gemmgen study --out` wrote, by its heading."""
    heading = path.read_text().partition("\n")[0].removeprefix("# ")
    return f"- [{heading}]({path.name})"


def _ladder(kernels: Sequence[KernelFile]) -> Iterator[str]:
    yield "| | rung | us | TFLOPS | against the first | registers | what it adds | kernel |"
    yield "|---:|---|---:|---:|---:|---:|---|---|"
    ordered = sorted(kernels, key=lambda kernel: int(_record(kernel)["rung"]["number"]))
    for kernel in ordered:
        record = _record(kernel)
        rung = record["rung"]
        yield markdown_line(
            str(rung["number"]),
            rung["title"],
            *times(rung["time"]),
            number(_rung_us(ordered[0]) / _rung_us(kernel), "{:.1f}x"),
            number((record.get("resources") or {}).get("registers"), "{}"),
            rung["lesson"],
            link(kernel),
        )
    record = _record(ordered[0])
    yield ""
    yield (
        f"- {record['executor']['description']}, {str(record['date'])[:10]}, {record['compiler']}, timed side by side: "
        f"`{record['command']}`"
    )


def _check_folder(folder: Path) -> Iterator[Disagreement]:
    for path in kernel_paths(folder):
        reason = _check_kernel(path)
        if reason is not None:
            yield Disagreement(path, reason)
    for path in sorted(folder.glob("*.json")):
        if not is_record(path):
            yield from _damage(path)
    yield from _damaged_libraries(folder)
    yield from _dead_links(folder)
    yield from _strangers(folder)
    for path, text in _pages(folder).items():
        if not path.is_file() or path.read_text() != text:
            yield Disagreement(path, "is not what the JSON files make: run `gemmgen gallery`")


def _dead_links(folder: Path) -> Iterator[Disagreement]:
    """Kernels that pages of studies link to, and that are not there."""
    for path in sorted(folder.glob("study_*.md")):
        for name in re.findall(r"\]\(([\w./]+\.cu)\)", path.read_text()):
            if not (folder / name).is_file():
                yield Disagreement(path, f"links to {name}, which is not there")


def _strangers(folder: Path) -> Iterator[Disagreement]:
    """Kernels and libraries measured by a card with another folder, as times of different cards do not compare."""
    for kernel in kernels_in(folder):
        for device in _devices([kernel]):
            if kernel.path is not None and not belongs(device, folder):
                yield Disagreement(kernel.path, f"was measured on {device}, whose records have another folder")
    for score in runtime_page.scores_in(folder):
        if not belongs(score.card, folder):
            path = runtime_page.result_path(folder, score.name)
            yield Disagreement(path, f"was measured on {score.card}, whose records have another folder")


def _damaged_libraries(folder: Path) -> Iterator[Disagreement]:
    """Records of libraries that cannot be read, with reasons."""
    for path in runtime_page.results_in(folder):
        error = runtime_page.damage(path)
        if error is not None:
            yield Disagreement(path, f"cannot be read: {error}")


def _damage(path: Path) -> Iterator[Disagreement]:
    """Why a JSON file cannot be read as what its name says that it is."""
    try:
        if is_record(path):
            _require_shown(read_kernel(path.with_suffix(".cu")), path.parent)
        elif path.name.startswith(FAILED):
            read_failure(path)
        else:
            read_record(path)
    except InvalidInput as error:
        yield Disagreement(path, f"cannot be read: {error}")


def _check_kernel(path: Path) -> str | None:
    try:
        kernel = read_kernel(path)
        fresh = rendered_again(kernel.source, kernel.arch)
        if kernel.record is None:
            return "has no JSON beside it"
        _require_shown(kernel, path.parent)
    except InvalidInput as error:
        return f"cannot be read: {error}"
    if kernel.source.text != fresh.text:
        return "is not what the templates render: run `gemmgen gallery --render`"
    if kernel.source != fresh or kernel.edited:
        return "has a JSON that disagrees with its name or text"
    return None


def _updated_record(kernel: KernelFile, fresh: KernelSource, store: Store) -> dict[str, Any]:
    record = {**_record(kernel), **kernel_document(fresh)}
    if fresh.text == kernel.source.text:  # an axis that the family has had since
        return record
    if _same_machine_code(kernel.source.renamed(fresh.name), fresh, str(record["arch"]), store):
        verdicts = {name: moved(record[name], kernel.source.text, fresh.text) for name in VERDICTS if record.get(name)}
        return {**record, **verdicts}
    kept = {name: value for name, value in {**record, **DROPPED}.items() if name not in GONE}
    return {**kept, "rung": {**record["rung"], "time": None}} if "rung" in record else kept


def _same_machine_code(before: KernelSource, now: KernelSource, arch: str, store: Store) -> bool:
    if _code(before.text) == _code(now.text):
        return True
    old, new = (compile_kernel(source, arch, store) for source in (before, now))
    return same_machine_code(old.cubin, new.cubin) and old.registers == new.registers


def _code(text: str) -> list[str]:
    """The lines that matter to the compiler, without comments and blank lines."""
    return list(filter(None, (re.sub(r"(^|  )//.*", "", each).rstrip() for each in text.splitlines())))


def _record(kernel: KernelFile) -> dict[str, Any]:
    return dict(kernel.record or {})


def _rung_us(kernel: KernelFile) -> float:
    return float((_record(kernel)["rung"].get("time") or {}).get("us") or "inf")


CONDITIONS = ("untaken", "unreachable")  # of a Coverage: each has a line


def moved(verdict: Mapping[str, Any], before: str, now: str) -> dict[str, Any]:
    """The JSON `verdict` on the text `before`, with its coverage transferred to `now`, or dropped if a line is missing
    there."""
    there = _lines(before, now)
    try:
        return {name: _moved(value, there) if name == "coverage" else value for name, value in verdict.items()}
    except KeyError:
        return {name: value for name, value in verdict.items() if name != "coverage"}


def _lines(before: str, now: str) -> dict[int, int]:
    """The line in `now` of each line of `before` that is in both; numbers are from 1."""
    old, new = before.splitlines(), now.splitlines()
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return {at.a + offset + 1: at.b + offset + 1 for at in blocks for offset in range(at.size)}


def _moved(known: Mapping[str, Any] | None, there: Mapping[int, int]) -> dict[str, Any] | None:
    if known is None:
        return None
    conditions = {name: [{**one, "line": there[one["line"]]} for one in known.get(name, ())] for name in CONDITIONS}
    return {**known, **conditions, "lines": [[there[first], there[last]] for first, last in known["lines"]]}
