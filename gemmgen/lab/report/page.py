"""The page: collects and renders every kernel of some folders."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from gemmgen.exports.certificate import certificate_name
from gemmgen.exports.json_records import verdicts_of
from gemmgen.exports.kernelfile import KernelFile, kernels_in, reading
from gemmgen.exports.recheck import read_certificate
from gemmgen.exports.writing import text_path
from gemmgen.judge.bench import is_winner
from gemmgen.judge.explain import Explanation, explain
from gemmgen.judge.explanation_text import (
    LOOP_COLUMNS,
    Facts,
    facts_of,
    instruction_columns,
    instruction_rows,
    loop_rows,
    tile_rows,
)
from gemmgen.kernel.model import representative
from gemmgen.kernel.source import KernelSource
from gemmgen.lab.report.anchor import anchor
from gemmgen.lab.report.checks import Certified, certified, checks_of
from gemmgen.lab.report.ladders import Ladder, ladders_in
from gemmgen.lab.report.measured_on import MeasuringCard, measuring_cards
from gemmgen.lab.report.ratios import RatioPlot, ratio_plot
from gemmgen.lab.report.roofline import RooflinePlot, roofline_plot
from gemmgen.lab.report.tiles import Drawing, drawings
from gemmgen.lab.scores import Score, Summary, summaries
from gemmgen.lab.shapes import group_of
from gemmgen.run.compile import compile_many
from gemmgen.search.trial import Progress
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.support.files import Store, write_atomic
from gemmgen.support.html import render_html
from gemmgen.support.stamp import gemmgen_version

Rows = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]


@dataclass(frozen=True)
class KernelCard:
    """A kernel's part of the page.

    files  its text and its JSON: (name, link from the page)
    """

    score: Score
    explanation: Explanation
    files: tuple[tuple[str, str], ...]
    checks: Facts
    certified: Certified | None

    @property
    def name(self) -> str:
        return self.explanation.kernel.source.name

    @property
    def anchor(self) -> str:
        return anchor(self.explanation.kernel)

    @property
    def card(self) -> str:
        """The name of the card that its time belongs to."""
        return self.explanation.kernel.device

    @property
    def problem(self) -> str:
        return str(self.explanation.kernel.source.problem)

    @property
    def group(self) -> str:
        return group_of(self.explanation.kernel.source.problem).title

    @cached_property
    def time(self) -> tuple[float, float, str]:
        """(us, TFLOPS, "measured" or "predicted")."""
        it, measured = self.explanation, self.explanation.kernel.measured_time
        if measured is not None:
            return float(measured["us"]), float(measured["tflops"]), "measured"
        return it.prediction.time_us, it.prediction.tflops(it.case), "predicted"

    @property
    def passed(self) -> str:
        """Whether its JSON says that it passed verification: "yes", "no", "-"."""
        record = self.explanation.kernel.record or {}
        verdicts = verdicts_of(record)
        return "-" if not verdicts else "yes" if all(verdict["passed"] for verdict in verdicts) else "no"

    @cached_property
    def facts(self) -> dict[str, Facts]:
        return facts_of(self.explanation)

    @cached_property
    def drawings(self) -> tuple[Drawing, ...]:
        return drawings(self.explanation)

    @cached_property
    def instructions(self) -> Rows | None:
        """(columns, rows) of the main loop; None if it was not disassembled."""
        mix = self.explanation.main_loop
        return None if mix is None else (instruction_columns(mix), tuple(instruction_rows(mix)))

    @cached_property
    def loop(self) -> Rows | None:
        """(columns, rows) of an iteration's costs; None if not known."""
        mix, use, units = self.explanation.main_loop, self.explanation.loop_use, self.explanation.plan.units
        return None if mix is None or use is None else (LOOP_COLUMNS, tuple(loop_rows(use, mix.fma, units)))

    @cached_property
    def levels(self) -> tuple[tuple[str, str, str, str], ...]:
        return tuple(tile_rows(self.explanation))


@dataclass(frozen=True)
class CardResults:
    """The results of kernels compared with cuBLASLt on one card."""

    card: str
    ratios: RatioPlot
    summaries: tuple[Summary, ...]


@dataclass(frozen=True)
class Page:
    """The contents of the page.

    left_out  the reasons why kernels are left out, as their JSON cannot be read or shown, each with the file's path
    """

    folders: tuple[str, ...]
    kernels: tuple[KernelCard, ...]
    results: tuple[CardResults, ...]
    rooflines: tuple[RooflinePlot, ...]
    ladders: tuple[Ladder, ...] = ()
    cards: tuple[MeasuringCard, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return gemmgen_version()

    @property
    def groups(self) -> dict[str, list[KernelCard]]:
        """The kernels by the title of their group, in the suite's order."""
        found: dict[str, list[KernelCard]] = defaultdict(list)
        for card in self.kernels:
            found[card.group].append(card)
        return dict(found)


def write_report(roots: Sequence[Path], to: Path, store: Store | None = None, progress: Progress | None = None) -> Page:
    """Write the page of the kernels in `roots`, and in folders directly below, to the file `to`; returns what it shows.

    store  the store of compiled kernels: each kernel is compiled and disassembled, to show its main loop; None: none is

    Raises InvalidInput if a root is not a folder, and GemmgenError if none has a kernel, or if the file cannot be
    written.
    """
    page = collect(roots, to.parent, store, progress or Progress())
    write_atomic(to, render_html("page.html", page=page))
    return page


def collect(roots: Sequence[Path], base: Path, store: Store | None, progress: Progress) -> Page:
    """Collect the page's contents, with links relative to the folder `base`. Raises as `write_report` does."""
    left_out: list[str] = []
    kernels = list(found_in(roots, lambda error: left_out.append(str(error))))
    if not kernels:
        why = "".join(f"\n{reason}" for reason in left_out)
        raise GemmgenError(f"no kernel with its JSON in {', '.join(map(str, roots))}: gemmgen tune writes some{why}")
    kernels.sort(key=lambda one: representative(one.source.problem).flops)
    if store is not None:
        _compile(kernels, store, progress)
    progress.stage("explain", len(kernels))
    cards = []
    for kernel in kernels:
        try:
            cards.append(_card(kernel, base, store))
        except InvalidInput as error:
            left_out.append(str(error))
        progress.step("explain", None)
    shown = [card.explanation.kernel for card in cards]
    return replace(_page(roots, cards), ladders=tuple(ladders_in([*_folders(roots)], shown)), left_out=tuple(left_out))


def _page(roots: Sequence[Path], cards: Sequence[KernelCard]) -> Page:
    """The page without the studies."""
    return Page(
        folders=tuple(map(str, roots)),
        kernels=tuple(cards),
        results=tuple(_results(cards)),
        rooflines=tuple(_rooflines([card.explanation for card in cards])),
        cards=tuple(measuring_cards(card.explanation.kernel for card in cards)),
    )


def found_in(roots: Sequence[Path], refused: Callable[[InvalidInput], object] = lambda _: None) -> Iterator[KernelFile]:
    """The kernels of `roots` and of the folders in them, including exported ones; the first of several with one name
    and card.

    refused  as for `kernels_in`
    """
    seen: set[tuple[str, str]] = set()
    for folder in _folders(roots):
        for kernel in chain(kernels_in(folder, refused), _exported(folder)):
            key = kernel.source.name, kernel.device
            if key not in seen:
                seen.add(key)
                yield kernel


def _exported(folder: Path) -> Iterator[KernelFile]:
    """The kernels of `folder` by their certificates, which hold the entries of NAME.json; others are skipped."""
    for path in sorted(folder.glob(f"*{certificate_name('')}")):
        with suppress(InvalidInput):
            certificate = read_certificate(path)
            yield KernelFile(certificate.source, certificate.record, folder / f"{certificate.source.name}.cu")


def _folders(roots: Sequence[Path]) -> Iterator[Path]:
    for root in roots:
        if not root.is_dir():
            raise InvalidInput(f"{root} is no folder")
        yield from (root, *sorted(path for path in root.iterdir() if path.is_dir()))


def _compile(kernels: Sequence[KernelFile], store: Store, progress: Progress) -> None:
    """Compile the kernels into `store` by several processes; errors show when a kernel is explained."""
    progress.stage("compile", len(kernels))
    by_arch: dict[str, list[KernelSource]] = defaultdict(list)
    for kernel in kernels:
        by_arch[kernel.arch].append(kernel.source)
    for arch, sources in by_arch.items():
        compile_many(sources, arch, store, lambda *_: progress.step("compile", None))


def _card(kernel: KernelFile, base: Path, store: Store | None) -> KernelCard:
    """The kernel's part of the page. Raises InvalidInput if its record is not enough for it."""
    assert kernel.path is not None
    with reading(next(path for path in _files(kernel.path)[1:] if path.is_file())):
        card = KernelCard(
            score=Score(kernel.source.problem, kernel),
            explanation=explain(kernel, kernel.arch, kernel.card, store),
            files=tuple((path.name, _link(path, base)) for path in _files(kernel.path) if path.is_file()),
            checks=checks_of(kernel),
            certified=certified(kernel),
        )
        render_html("page.html", page=_page((), [card]))
        return card


def _files(kernel: Path) -> tuple[Path, ...]:
    """A kernel's text, and what may stand beside it."""
    return text_path(kernel), kernel.with_suffix(".json"), kernel.with_name(certificate_name(kernel.stem))


def _link(path: Path, base: Path) -> str:
    return Path(os.path.relpath(path, base)).as_posix()


def _results(kernels: Sequence[KernelCard]) -> Iterator[CardResults]:
    """Yield results for each card that measured some kernels against cuBLASLt."""
    by_card: dict[str, list[Score]] = defaultdict(list)
    for one in kernels:
        if is_winner(one.explanation.kernel):
            by_card[one.card].append(one.score)
    for card, scores in by_card.items():
        if plot := ratio_plot(scores):
            yield CardResults(card, plot, tuple(one for one in summaries(scores) if one.rows))


def _rooflines(kernels: Sequence[Explanation]) -> Iterator[RooflinePlot]:
    """Yield a roofline for each card."""
    by_card: dict[str, list[Explanation]] = defaultdict(list)
    for it in kernels:
        by_card[it.device.name].append(it)
    for found in by_card.values():
        if plot := roofline_plot(found[0].device, found):
            yield plot
