"""Teaching series: kernels for one problem that differ in one idea each, verified and timed side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gemmgen.errors import GemmgenError
from gemmgen.families import FAMILIES, SIMT, Config
from gemmgen.families.base import first_rejection
from gemmgen.files import Store
from gemmgen.model import predict
from gemmgen.problem import Problem
from gemmgen.render import render
from gemmgen.target import Target
from gemmgen.tuner import Progress, Silent, Trial, Tuner, tune


@dataclass(frozen=True)
class Rung:
    """One step of the ladder.

    settings   axes that differ from the rung below; the first rung of a family starts from its default
    lesson     what the step adds, and why that is faster
    """

    title: str
    family: str
    settings: Mapping[str, int]
    lesson: str


@dataclass(frozen=True)
class Step:
    """A rung's kernel and what became of it."""

    number: int
    title: str
    lesson: str
    trial: Trial


# Everything that later rungs add, switched off.
SHARED_TILES = {"OUTER": 0, "WM": 0, "WN": 0, "VEC": 1, "TA": 0, "TB": 0, "PAD": 0, "STAGES": 1, "GROUP": 1}
LADDER = (
    Rung("naive", "naive", {}, "one thread an element of C; every FMA waits for two reads of global memory"),
    Rung(
        "shared tiles",
        "simt",
        {**SHARED_TILES, "BM": 32, "BN": 32, "BK": 32, "TM": 1, "TN": 1},
        "a block keeps its tiles of A and B in shared memory: each word from global memory serves 32 FMAs",
    ),
    Rung(
        "1D register tile",
        "simt",
        {"BM": 64, "BN": 64, "BK": 8, "TM": 8, "OUTER": 1},
        "a thread computes 8 rows of a column: a value of B, read once, feeds 8 FMAs",
    ),
    Rung(
        "2D tile, inner product",
        "simt",
        {"TN": 8, "OUTER": 0},
        "8 x 8 elements a thread, but each FMA reads its own two values and waits for the FMA before it",
    ),
    Rung(
        "2D tile, outer product",
        "simt",
        {"OUTER": 1},
        "the same tile with k outermost: 16 values in registers feed 64 independent FMAs",
    ),
    Rung(
        "vector access",
        "simt",
        {"VEC": 4, "TA": 1, "TB": 1, "PAD": 4},
        "16-byte reads of global memory, and of shared memory too, where A now lies transposed",
    ),
    Rung(
        "double buffer",
        "simt",
        {"STAGES": 2},
        "the next tile is on its way through registers while this one is multiplied: one barrier a step",
    ),
    Rung(
        "warp tiles",
        "simt",
        {"BN": 128, "WM": 64, "WN": 32, "GROUP": 8},
        "larger blocks reread less of A and B; a warp's lanes form a tile, so its reads share addresses",
    ),
    Rung(
        "cp.async stages",
        "simt",
        {"STAGES": 3, "ASYNC": 1, "BK": 16},
        "copies go straight to shared memory, two tiles ahead, without passing through registers",
    ),
)
TUNED = "what the search finds when all of this may vary"


def rung_configs(problem: Problem, has_cp_async: bool) -> list[tuple[Rung, Config]]:
    """Each rung with its config for `problem`: settings accumulate. A rung that the arch lacks is left out."""
    rungs: list[tuple[Rung, Config]] = []
    values: dict[str, int] = {}
    for rung in LADDER:
        if rung.settings.get("ASYNC") and not has_cp_async:
            continue
        family = FAMILIES[rung.family]
        if rung.family == "simt":
            values = _fitted(problem, {**values, **rung.settings})
        rungs.append((rung, family.default(problem).with_values(**(values if rung.family == "simt" else {}))))
    return rungs


def _fitted(problem: Problem, values: dict[str, int]) -> dict[str, int]:
    """`values` without transposition and padding where no lines run along k, and accesses of at most 16 bytes."""
    facts = SIMT.facts(problem)
    fitted = {"TA": values["TA"] * facts["A_ALONG_K"], "TB": values["TB"] * facts["B_ALONG_K"]}
    fitted["VEC"] = min(values["VEC"], problem.dtype.widest)
    return {**values, **fitted, "PAD": values["PAD"] if facts["A_ALONG_K"] or facts["B_ALONG_K"] else 0}


@dataclass
class Ladder:
    """The ladder for one problem on one target."""

    problem: Problem
    target: Target
    store: Store
    progress: Progress = field(default_factory=Silent)

    def run(self, budget: int | None = None) -> list[Step]:
        """Compile, verify and time every rung and the tuned winner, which `budget` candidates decide.

        A rung that fails stays in the list with its failure. Raises GemmgenError where the search finds nothing.
        """
        rungs = rung_configs(self.problem, self.target.spec.arch.has_cp_async)
        winner = tune(self.problem, self.target, self.store, budget=budget, progress=self.progress).winner
        trials = [self._trial(rung, config) for rung, config in rungs]
        trials.append(Trial(winner.source, winner.config, winner.prediction))
        tuner = Tuner(self.problem, self.target, self.store, (SIMT,), 0, self.progress)
        done = tuner.compare(tuner.verify(tuner.compile(trials)))
        texts = [(rung.title, rung.lesson) for rung, _ in rungs] + [("tuned", TUNED)]
        return [
            Step(number, title, lesson, trial)
            for number, ((title, lesson), trial) in enumerate(zip(texts, done, strict=True), start=1)
        ]

    def _trial(self, rung: Rung, config: Config) -> Trial:
        family = FAMILIES[rung.family]
        rejection = first_rejection(family, self.problem, config, self.target.spec.arch.limits)
        if rejection is not None:
            raise GemmgenError(f"the rung {rung.title!r} does not suit {self.problem}: {rejection}")
        source = render(self.problem, family, config)
        return Trial(source, config, predict(self.problem, family, config, self.target.spec))
