"""The results of the libraries in the group "run-time M", from the JSON files of a card, and the page that shows
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from gemmgen.exports.kernelfile import read_record, reading
from gemmgen.exports.library.table import Regret, regret_of
from gemmgen.exports.record_reading import problem_from
from gemmgen.lab.markdown import markdown_line
from gemmgen.lab.runtime_m import BANDS, FIFTH, LEAST, MOST_REGRET, PRODUCTS, REACHES, VALUES, band_of, reach_of
from gemmgen.lab.scores import FAILED, NONE, against, cell, number
from gemmgen.problem.device import short_name
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import InvalidInput, require
from gemmgen.support.words import listed, with_article

FOLDER = "runtime_m"  # in a card's folder
COLUMNS = ("M", "us", "kernel", "best us", "best", "cuBLASLt us", "algorithm", "ratio")
RATIO = "{:.3f}x"
MEANING = (
    "A library of one product serves every M from 1 to 8192, with N and K fixed. It was made without knowing the",
    "values of M below. At each of them one run times in turns: the kernel that the library's rules choose, the",
    "fastest of all kernels and candidates that the model expects to take little longer than the fastest, and the best",
    "of all algorithms that cuBLASLt offers. Earlier runs found the fastest ones. Operands are aligned and dense.",
    "Ratios are cuBLASLt's time over ours; their means are geometric. Scales are applied by a kernel behind cuBLASLt's",
    "product: the scaling of fp8 by rows and columns that newer versions of cuBLASLt have is not used. Regret is our",
    "time over that of the fastest of all candidates that were timed, less 1; below 0 where the earlier run was",
    "mistaken. All kernels of a library are verified on the card; candidates that it does not hold are only timed.",
    "Making a library is search, timing and verification, with an empty cache.",
)


@dataclass(frozen=True)
class Row:
    """One value of M: times in microseconds, all from one run, and the kernels that took them.

    best        the fastest of all candidates in an earlier run, including those that are not in the library
    library_us  time of cuBLASLt's best algorithm; None if it has none
    ratio       cuBLASLt's time over ours
    """

    m: int
    us: float
    kernel: str
    best_us: float
    best: str
    library_us: float | None
    algorithm: str | None
    ratio: float | None


@dataclass(frozen=True)
class LibraryScore:
    """A product's library on one card, from its JSON."""

    problem: Problem
    record: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        return str(self.record["product"])

    @property
    def card(self) -> str:
        """The card's name, as the driver gives it."""
        return str(self.record["card"])

    @cached_property
    def regret(self) -> Regret:
        return regret_of([row.us / row.best_us for row in self.rows])

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels in the library."""
        return [one["name"] for one in self.record["choice"]["kernels"]]

    @property
    def geomean(self) -> float | None:
        return _mean(self.rows)


def result_path(folder: Path, product: str) -> Path:
    """The path of a product's result in a card's folder."""
    return folder / FOLDER / f"{product}.json"


def failure_path(folder: Path, product: str) -> Path:
    """The path of the record that a product failed, and why."""
    return folder / FOLDER / f"{FAILED}{product}.json"


def read_score(path: Path) -> LibraryScore:
    """Read the suite's result for a product. Raises InvalidInput if the file is something else."""
    record = read_record(path)
    with reading(path, "the record of a library of run-time M"):
        rows = tuple(Row(*values) for values in record["rows"])
        others = [row.m for row in rows if row.m not in VALUES]
        require(bool(rows), "no rows")
        unknown = f"times at M = {', '.join(map(str, others))}, which are not among the suite's {len(VALUES)} values"
        require(not others, unknown)
        score = LibraryScore(problem_from(record["problem"]), record, rows)
        require(score.name == path.stem, f"it is of product {score.name}, and its file is named for {path.stem}")
        _page([score], {})
    return score


def read_failure(path: Path) -> str:
    """Read why a product has no result. Raises InvalidInput if the file does not say."""
    record = read_record(path)
    with reading(path, "the record of a failure"):
        return str(record["reason"])


def results_in(folder: Path) -> list[Path]:
    """The JSON files of a card's folder, readable or not."""
    return sorted((folder / FOLDER).glob("*.json"))


def damage(path: Path) -> InvalidInput | None:
    """The reason why a file cannot be read; None if it can."""
    try:
        (read_failure if path.name.startswith(FAILED) else read_score)(path)
    except InvalidInput as error:
        return error
    return None


def scores_in(folder: Path) -> list[LibraryScore]:
    """The readable results in a card's folder."""
    found = []
    for path in results_in(folder):
        if not path.name.startswith(FAILED):
            with suppress(InvalidInput):
                found.append(read_score(path))
    return found


def link_from(folder: Path) -> list[str]:
    """Lines of the card's own page that link to this one; none if there is no result."""
    text = f"- [Libraries of one product beside cuBLASLt, M by M]({FOLDER}/README.md)"
    return ["## M at run time", "", text, ""] if results_in(folder) else []


def pages(folder: Path) -> dict[Path, str]:
    """The page of a card's folder; none if there is no result. Unreadable files are skipped."""
    failures = {}
    for path in (folder / FOLDER).glob(f"{FAILED}*.json"):
        with suppress(InvalidInput):
            failures[path.stem.removeprefix(FAILED)] = read_failure(path)
    if not results_in(folder):
        return {}
    return {folder / FOLDER / "README.md": "\n".join(_page(scores_in(folder), failures))}


def _page(scores: Sequence[LibraryScore], failures: Mapping[str, str]) -> list[str]:
    order = {product.name: place for place, product in enumerate(PRODUCTS)}
    scores = sorted(scores, key=lambda score: order.get(score.name, len(order)))
    cards = sorted({short_name(score.card) for score in scores})
    on = f" on {listed(map(with_article, cards))}" if cards else ""
    goals = ", ".join(f"{reach.goal} for {reach.name}" for reach in REACHES)
    missing = [name for name in order if name not in {*failures, *(score.name for score in scores)}]
    return [
        f"# Libraries of run-time M{on}",
        "",
        "Made from the JSON files beside it by `gemmgen gallery`.",
        "",
        *MEANING,
        "",
        *(f"- {band.name}: {len(band.values)} values of M, {band.title}" for band in BANDS),
        f"- goals: geometric means of at least {goals}; no ratio below {LEAST}, 5th percentile at "
        f"least {FIFTH}; 95th percentile of the regret at most {MOST_REGRET:.0%}",
        "",
        *(_summary(scores) if scores else ()),
        *(f"- {name} failed: {cell(reason)}" for name, reason in sorted(failures.items())),
        *([f"- not measured: {', '.join(missing)}"] if missing else ()),
        *(f"- {how}" for how in sorted({_made_how(score.record) for score in scores})),
        "",
        *(text for score in scores for text in _section(score)),
    ]


def _summary(scores: Iterable[LibraryScore]) -> Iterator[str]:
    scores = list(scores)
    reaches = " | ".join(f"{reach.name} | least" for reach in REACHES)
    bands = " | ".join(band.name for band in BANDS)
    ours = "regret, p95 | mean | kernels | object code, KB | making, s"
    yield f"| product | {reaches} | 5th percentile | {bands} | {ours} |"
    yield f"|---|{'---:|' * (2 * len(REACHES) + len(BANDS) + 6)}"
    for score in scores:
        yield markdown_line(
            f"{score.name}: {score.problem}",
            *_ratios(score.rows),
            *_regret(score.regret),
            str(len(score.kernels)),
            number(score.record["choice"]["object_bytes"] / 1e3, "{:.0f}"),
            number(score.record["making"]["seconds"], "{:.0f}"),
        )
    if len(scores) > 1:
        rows = [row for score in scores for row in score.rows]
        regret = regret_of([row.us / row.best_us for row in rows])
        yield markdown_line(f"all {len(scores)}", *_ratios(rows), *_regret(regret), NONE, NONE, NONE)
    yield ""


def _ratios(rows: Sequence[Row]) -> Iterator[str]:
    """cuBLASLt's time over ours: the mean and the least of each reach, the 5th percentile, the mean of each band."""
    for reach in REACHES:
        some = [row for row in rows if reach_of(row.m) is reach]
        yield from (against(_mean(some), reach.goal, RATIO), _least(some))
    known = sorted(row.ratio for row in rows if row.ratio is not None)
    yield against(known[len(known) // 20] if known else None, FIFTH, RATIO)
    yield from (number(_mean(row for row in rows if band_of(row.m) is band), RATIO) for band in BANDS)


def _regret(regret: Regret) -> tuple[str, str]:
    missed = f" (goal {MOST_REGRET:.1%})" * (regret.p95 > MOST_REGRET)
    return f"{regret.p95:.1%}{missed}", f"{regret.mean:.1%}"


def _section(score: LibraryScore) -> Iterator[str]:
    """A table of every M of a product, with kernels by number: first the library's, then others that were the fastest
    somewhere."""
    others = (row.best for row in score.rows if row.best not in score.kernels)
    numbers = {name: place for place, name in enumerate(dict.fromkeys([*score.kernels, *others]), 1)}
    yield from (f"## {score.name}", "")
    yield "| M | drawn | ours, us | kernel | best, us | kernel | regret | cuBLASLt, us | algorithm | ratio |"
    yield "|---:|---|---:|---:|---:|---:|---:|---:|---|---:|"
    for row in sorted(score.rows, key=lambda row: row.m):
        yield markdown_line(
            str(row.m),
            band_of(row.m).name,
            number(row.us, "{:.2f}"),
            str(numbers[row.kernel]),
            number(row.best_us, "{:.2f}"),
            str(numbers[row.best]),
            f"{row.us / row.best_us - 1:.1%}",
            number(row.library_us, "{:.2f}"),
            row.algorithm or NONE,
            against(row.ratio, LEAST, RATIO),
        )
    yield ""
    for name, place in numbers.items():
        yield f"{place}. {score.record['configs'][name]}" + ", not in the library" * (name not in score.kernels)
    yield ""


def _mean(rows: Iterable[Row]) -> float | None:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return geometric_mean(ratios) if ratios else None


def _least(rows: Iterable[Row]) -> str:
    """The least ratio and its M, "0.912x at 129", with the goal if it is missed."""
    ratio, m = min(((row.ratio, row.m) for row in rows if row.ratio is not None), default=(None, 0))
    return NONE if ratio is None else f"{against(ratio, LEAST, RATIO)} at {m}"


def _made_how(record: Mapping[str, Any]) -> str:
    return (
        f"{record['card']}, driver {record['driver']}, {str(record['date'])[:10]}, compiled by {record['compiler']}, "
        f"{record['cublaslt'] or 'no baseline'}: `{record['command']}`"
    )
