"""The results of a folder's winners against cuBLASLt and the card's limits, row by row and group by group."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from gemmgen.exports.json_records import verdicts_of
from gemmgen.exports.kernelfile import KernelFile, kernels_in, read_record, text_link
from gemmgen.exports.record_form import record_text
from gemmgen.exports.record_reading import problem_from
from gemmgen.families import config_of
from gemmgen.judge.bench import is_winner
from gemmgen.kernel.model import representative
from gemmgen.lab.markdown import markdown_line
from gemmgen.lab.shapes import GROUPS, Goal, Group, group_of
from gemmgen.problem.gemm import Problem
from gemmgen.render.naming import problem_name
from gemmgen.run.gpu.limits import MeasuredLimits, Roof
from gemmgen.run.gpu.lt_epilogue import baseline_epilogue
from gemmgen.run.gpu.timing import GEMM_BATCHED
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import write_atomic

NONE = "-"
FAILED = "failed_"  # begins the name of the JSON of a problem for which no kernel was found
REASON_LENGTH = 300  # characters of it in a table
ERRORS = " error | baseline's error |"
ENERGY = " TFLOPS/W | baseline's TFLOPS/W |"
ENERGY_MEANING = "TFLOPS/W: by the card's own count of energy, while each ran alone for two seconds."
ERRORS_MEANING = "error: the largest of an element over the sum of its products' magnitudes, in units of 2^-24."
MEANING = (
    "Each row is one run, in which our kernel and the best of all algorithms that cuBLASLt offers are timed in",
    "turns: medians of the rounds, with inputs rotated over at least twice the size of the L2. The ratio is",
    "cuBLASLt's time over ours. For a batch by pointers the baseline, in the same columns, is cuBLAS's",
    f"{GEMM_BATCHED}. The limit is the lower of two rates measured on the card: that of FMAs on CUDA cores, and the",
    "one that memory allows where each matrix is moved once, at the bandwidth of reading, or of copying where C",
    "is a quarter of the traffic or more. Short launches do not reach that bandwidth. So the same run times a",
    "kernel that reads A and B, writes C and computes nothing, and `of moving the bytes` is its time over ours. A",
    "goal is out of reach where our kernel would have to take less than 95% of that kernel's time. Verified:",
    "situations passed; in part: only some tiles of C ran, as the launch is large, and under the sanitizers only",
    "its first blocks. A number such as C7520 behind a kernel is an advisory of ptxas; its JSON has the words.",
    "Operands are uniform in [-1, 1], rounded to their type; normal: the ratio with normally distributed ones.",
)
CLEARLY = 0.95  # of the time that moving the bytes takes: a kernel has come out 3% faster than that


@dataclass(frozen=True)
class Score:
    """A row: the kernel for a problem and its record, or the reason why there is none."""

    problem: Problem
    kernel: KernelFile | None = None
    failure: str | None = None

    @property
    def record(self) -> Mapping[str, Any]:
        return (self.kernel.record if self.kernel else None) or {}

    @property
    def bench(self) -> Mapping[str, Any]:
        """The measurements of `gemmgen bench`; empty if there are none."""
        return self.record.get("bench") or {}

    @property
    def goal(self) -> Goal:
        return group_of(self.problem).goal(self.problem)

    @property
    def outdated(self) -> bool:
        """Whether it was timed against a baseline other than today's, such as a separate epilogue kernel where cuBLASLt
        has the epilogue."""
        theirs = self.bench.get("cublaslt")
        return theirs is not None and (theirs.get("epilogue") or "") != baseline_epilogue(self.problem)

    @property
    def ratio(self) -> float | None:
        """cuBLASLt's time over ours."""
        return None if self.outdated else self.bench.get("speedup")

    @property
    def normal(self) -> float | None:
        """The ratio on normally distributed operands; None if that was not timed."""
        found = self.bench.get("normal")
        return None if self.outdated or not found else float(found["speedup"])

    @property
    def complete(self) -> bool:
        """Whether it has all that a row shows: times against today's baseline, on both kinds of data."""
        return not self.outdated and bool(self.bench.get("normal"))

    @property
    def roof(self) -> Roof | None:
        """The card's limit for the problem, as measured at the same time."""
        return _limits(self.bench).roof(representative(self.problem)) if self.bench else None

    @property
    def share(self) -> float | None:
        """The share of that limit that the kernel reaches."""
        return float(self.bench["ours"]["tflops"]) / self.roof.tflops if self.roof else None

    @property
    def moving(self) -> float | None:
        """The time to move the operands' bytes alone over ours, if bytes bound the row and that was measured."""
        us = self.bench.get("moving_us")
        return float(us) / float(self.bench["ours"]["us"]) if us and self.roof and self.roof.memory_bound else None

    @property
    def reached(self) -> float:
        """The least share of a goal that the row reaches; 1 if it is not measured or has no goal."""
        goal = self.goal
        goals = ((self.ratio, goal.ratio), (self.share, goal.share), (self.moving, goal.moving))
        return min((value / goal for value, goal in goals if value is not None and goal is not None), default=1.0)

    @property
    def misses(self) -> bool:
        """Whether the row is measured and its goal is not reached."""
        return self.reached < 1

    @property
    def out_of_reach(self) -> bool:
        """Whether the missed goal requires clearly less time than moving the operands' bytes takes."""
        return self.misses and self.moving is not None and self.reached < CLEARLY * self.moving


@dataclass(frozen=True)
class Summary:
    """The results of a group.

    rows              number of rows that are measured, with a baseline or without one
    geomean, minimum  of the ratios to cuBLASLt; None if none is measured
    normal            the geometric mean of the ratios on normal data; None if none is measured
    normals           number of rows in `normal`
    lowest            the problem with the minimum
    below             number of rows whose ratio is below 1
    missed            number of rows that miss their own goal
    out_of_reach      number of these whose goal requires clearly less time than moving the bytes takes
    failed            number of rows without a kernel
    missing           problems of the suite that are neither measured nor failed
    """

    group: str
    rows: int
    geomean: float | None
    geomean_goal: float | None
    normal: float | None
    normals: int
    minimum: float | None
    lowest: str
    below: int
    missed: int
    out_of_reach: int
    failed: int
    missing: tuple[str, ...]

    @property
    def on_normal_data(self) -> str:
        """`normal` as tables show it, with the number of rows if it is not all."""
        return number(self.normal, "{:.3f}x") + f" of {self.normals}" * (0 < self.normals < self.rows)


def scores_in(folder: Path, kernels: Iterable[KernelFile] | None = None) -> list[Score]:
    """The rows of `folder`, the least work first: winners, and problems for which none was found.

    kernels  the folder's kernels that count; None: all that can be read
    """
    found = kernels_in(folder) if kernels is None else kernels
    winners = [Score(kernel.source.problem, kernel) for kernel in found if is_winner(kernel)]
    failures = []
    for path in sorted(folder.glob(f"{FAILED}*.json")):
        with suppress(InvalidInput):  # `gallery.unreadable` names what is passed over
            failures.append(read_failure(path))
    won = {score.problem for score in winners}  # a search that failed since takes no winner away
    failures = [score for score in failures if score.problem not in won]
    return sorted([*winners, *failures], key=lambda score: representative(score.problem).flops)


def summaries(scores: Sequence[Score]) -> list[Summary]:
    """A summary per group; none if nothing is measured."""
    if not any(score.bench for score in scores):
        return []
    return [_summary(group, _of(group, scores)) for group in GROUPS.values()]


def failure_path(problem: Problem, folder: Path) -> Path:
    """The path of the record that no kernel was found for `problem`."""
    return folder / f"{FAILED}{problem_name(problem)}.json"


def write_failure(problem: Problem, document: Mapping[str, Any], folder: Path) -> None:
    """Keep why there is no kernel: `document` has "problem" and "reason". Raises GemmgenError."""
    write_atomic(failure_path(problem, folder), record_text(document))


def read_failure(path: Path) -> Score:
    """Read what `write_failure` wrote. Raises InvalidInput if the file is something else."""
    document = read_record(path)
    try:
        return Score(problem_from(document["problem"]), failure=str(document["reason"]))
    except (ValueError, KeyError, TypeError, AttributeError, InvalidInput) as error:
        raise InvalidInput(f"{path} is not the record of a failure ({type(error).__name__}: {error})") from error


def page(scores: Sequence[Score]) -> Iterator[str]:
    """The lines of README.md: the groups' results, then every row of each group."""
    yield from ("## Winners against cuBLASLt", "", *MEANING, "")
    made = {summary.group: summary for summary in summaries(scores)}
    if made:
        yield from (*_summary_table(made.values()), "")
    for group in GROUPS.values():
        missing = made[group.name].missing if made else ()
        rows = _of(group, scores)
        if rows or missing:
            yield from (f"### {group.title}", "")
        if rows:
            yield from (*_rows(rows), "")
        if missing:
            yield from (f"Not measured: {', '.join(missing)}.", "")
    yield from (f"- {how}" for how in sorted({made_how(one.record) for one in scores if one.kernel}))
    yield ""


def _of(group: Group, scores: Sequence[Score]) -> list[Score]:
    return [score for score in scores if group_of(score.problem) is group]


def _summary(group: Group, scores: Sequence[Score]) -> Summary:
    measured = [(ratio, str(one.problem)) for one in scores if (ratio := one.ratio) is not None]
    ratios = [ratio for ratio, _ in measured]
    normal = [score.normal for score in scores if score.normal is not None]
    minimum, lowest = min(measured, default=(None, NONE))
    settled = {score.problem for score in scores if (score.bench and not score.outdated) or score.kernel is None}
    return Summary(
        group=group.name,
        rows=sum(bool(score.bench) and not score.outdated for score in scores),
        geomean=geometric_mean(ratios) if ratios else None,
        geomean_goal=group.geomean,
        normal=geometric_mean(normal) if normal else None,
        normals=len(normal),
        minimum=minimum,
        lowest=lowest,
        below=sum(ratio < 1 for ratio in ratios),
        missed=sum(score.misses for score in scores),
        out_of_reach=sum(score.out_of_reach for score in scores),
        failed=sum(score.kernel is None for score in scores),
        missing=tuple(str(problem) for problem in group.problems if problem not in settled),
    )


def _summary_table(made: Iterable[Summary]) -> Iterator[str]:
    yield (
        "| group | measured | geometric mean | normal | minimum | at | below 1.00x | miss their goal | out of reach "
        "| failed | unmeasured |"
    )
    yield "|---|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|"
    for one in made:
        yield markdown_line(
            one.group,
            str(one.rows),
            against(one.geomean, one.geomean_goal, "{:.3f}x"),
            one.on_normal_data,
            number(one.minimum, "{:.3f}x"),
            one.lowest,
            *(str(count) for count in (one.below, one.missed, one.out_of_reach, one.failed, len(one.missing))),
        )


def _rows(scores: Sequence[Score]) -> Iterator[str]:
    """The lines of a table of rows, with errors and energy if records have them."""
    errors, energy = (any(name in score.bench for score in scores) for name in ("error", "energy"))
    yield (
        "| problem | ours, us | TFLOPS | GB/s | baseline, us | TFLOPS | baseline | ratio | normal | of the limit "
        "| limit | of moving the bytes | verified | sanitizers | kernel |" + ERRORS * errors + ENERGY * energy
    )
    yield "|---|---:|---:|---:|---:|---:|---|---:|---:|---:|---|---:|---|---|---|" + "---:|---:|" * (errors + energy)
    for score in scores:
        theirs, roof = score.bench.get("cublaslt") or {}, score.roof
        yield markdown_line(
            str(score.problem),
            *times(score.record.get("time")),
            number(score.bench["ours"]["gbs"], "{:.0f}") if roof and roof.memory_bound else NONE,
            number(theirs.get("us")),
            number(theirs.get("tflops")),
            _baseline(score),
            against(score.ratio, score.goal.ratio, "{:.3f}x"),
            number(score.normal, "{:.3f}x"),
            against(score.share, score.goal.share, "{:.1%}"),
            roof.limit if roof else NONE,
            against(score.moving, score.goal.moving, "{:.1%}") + (", goal out of reach" if score.out_of_reach else ""),
            verified(score.record),
            _sanitized(score.record),
            link(score.kernel) + _advised(score.record) if score.kernel else f"none: {cell(score.failure or '')}",
            *(_errors(score) if errors else ()),
            *(_tflops_per_w(score) if energy else ()),
        )
    if errors:
        yield from ("", ERRORS_MEANING)
    if energy:
        yield from ("", ENERGY_MEANING)


def _errors(score: Score) -> tuple[str, str]:
    """The errors of our kernel and of the baseline."""
    found = score.bench.get("error") or {}
    return number(found.get("ours"), "{:.2f}"), number(found.get("baseline"), "{:.2f}")


def _tflops_per_w(score: Score) -> tuple[str, str]:
    """TFLOPS per watt of our kernel and of the baseline, each while it ran alone."""
    found = score.bench.get("energy") or {}
    ours, theirs = (found.get(name) or {} for name in ("ours", "cublaslt"))
    return number(ours.get("tflops_per_w"), "{:.3f}"), number(theirs.get("tflops_per_w"), "{:.3f}")


def _baseline(score: Score) -> str:
    """The baseline: "cuBLASLt", "cuBLASLt + GELU_BIAS"; "none" if it has no kernel for the types or layout."""
    if not score.bench:
        return NONE
    if score.bench["cublaslt"] is None:
        return "none"
    library = GEMM_BATCHED if score.problem.pointers else "cuBLASLt"
    today = f", not {baseline_epilogue(score.problem)}" if score.outdated else ""
    return " + ".join(filter(None, (library, score.bench["cublaslt"].get("epilogue")))) + today


def verified(record: Mapping[str, Any]) -> str:
    """ "gpu 20; emulator 20, 16 in part": the situations passed, by executor; in part: only some tiles of C ran."""
    verdicts = verdicts_of(record)
    return "; ".join(f"{verdict['executor']} {_passed(verdict)}" for verdict in verdicts) or NONE


def _passed(verdict: Mapping[str, Any]) -> str:
    if not verdict["passed"]:
        return _failed(verdict["failure"])
    examples, sampled = verdict["examples"], verdict["sampled"]
    part = " in part" if sampled == examples else f", {sampled} in part" if sampled else ""
    return f"{examples}{part}"


def _sanitized(record: Mapping[str, Any]) -> str:
    """ "4 pass", or the failing tools and why; in part: only the first blocks of a launch that is too large to watch.

    The card is named if it differs from the record's.
    """
    tools = record.get("sanitizers") or []
    failing = [f"{tool['tool']} {_failed(tool['failure'])}" for tool in tools if not tool["passed"]]
    part = " in part" if any(tool["sampled"] for tool in tools) else ""
    others = sorted({tool["card"] for tool in tools if tool.get("card") not in (None, record.get("device"))})
    on = f" on {', '.join(others)}" if others else ""
    return f"{', '.join(failing) or f'{len(tools)} pass{part}'}{on}" if tools else NONE


def _advised(record: Mapping[str, Any]) -> str:
    """ ", C7519": the advisories of ptxas."""
    said = (record.get("resources") or {}).get("advisories", ())
    return "".join(f", {code}" for code in dict.fromkeys(advisory.partition(":")[0] for advisory in said))


def _failed(failure: Mapping[str, Any]) -> str:
    return f"fails: {failure['kind']}"


def made_how(record: Mapping[str, Any]) -> str:
    """Date, card, versions and command, as a record gives them."""
    bench = record.get("bench")
    if not bench:
        return f"{record.get('device', NONE)}, {str(record.get('date', NONE))[:10]}: `{record.get('command', NONE)}`"
    limits, library = _limits(bench), bench["cublaslt"]["version"] if bench["cublaslt"] else "no baseline"
    return (
        f"{bench['card']}, {str(bench['date'])[:10]}, compiled by {record['compiler']}, "
        f"{library}; measured on the card: {number(limits.ffma_tflops)} TFLOPS FFMA, "
        f"{number(limits.dfma_tflops)} DFMA, {limits.read_gbs:.0f} GB/s read, {limits.copy_gbs:.0f} copy: "
        f"`gemmgen suite` or `gemmgen bench SHAPE`"
    )


def _limits(bench: Mapping[str, Any]) -> MeasuredLimits:
    return MeasuredLimits(**{"dfma_tflops": math.nan, **bench["limits"]})  # records of old have no DFMA rate


def times(time: Mapping[str, Any] | None) -> tuple[str, str]:
    """(us, TFLOPS), with a word if they are not measurements."""
    if not time:
        return NONE, NONE
    word = "" if time["kind"] == "measured" else f" {time['kind']}"
    return number(time["us"]) + word, number(time["tflops"]) + word


def number(value: float | None, pattern: str = "{:.1f}") -> str:
    """`value` for a table."""
    return NONE if value is None or math.isnan(value) else pattern.format(value)


def link(kernel: KernelFile) -> str:
    """The kernel's config as a link to its file."""
    assert kernel.path is not None
    family, config = config_of(kernel.source)
    return f"[{family.name} {config}]({text_link(kernel.path)})"


def against(value: float | None, goal: float | None, pattern: str) -> str:
    """The value, with the goal if it misses it."""
    text = number(value, pattern)
    return f"{text} (goal {pattern.format(goal)})" if goal is not None and _below(value, goal) else text


def _below(value: float | None, goal: float | None) -> bool:
    return value is not None and goal is not None and value < goal


def cell(text: str) -> str:
    """The text without characters that would break a table."""
    return " ".join(text.replace("|", "/").split())[:REASON_LENGTH]
