"""The functions for studies, for the check of the model against measured times, and for the page of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gemmgen.api.asked import count_of, shown
from gemmgen.exports.writing import Folder
from gemmgen.families import DEFAULT_FAMILY, SEARCHED, family_named
from gemmgen.problem.gemm import Problem
from gemmgen.run.target import open_card, open_target
from gemmgen.search.trial import Progress
from gemmgen.support.errors import require, whole
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory

if TYPE_CHECKING:  # the functions that need the room benchmark import it themselves
    from gemmgen.lab.report.page import Page
    from gemmgen.lab.study import StudyResult
    from gemmgen.lab.study.modelcheck import ModelCheck


def report(*folders: Folder, to: Folder, compiled: bool = False, progress: Progress | None = None) -> Page:
    """Write an HTML page of the kernels in `folders`, and in the folders directly in these, to the file `to`.

    compiled  whether to compile and disassemble each kernel, to show its main loop

    Returns what the page shows. Raises InvalidInput for a path that is not a folder, and GemmgenError if there is no
    kernel with its JSON, or if the file cannot be written.
    """
    from gemmgen.lab.report.page import write_report

    with shown(progress) as heard:
        return write_report([Path(folder) for folder in folders], Path(to), Store() if compiled else None, heard)


def study(
    name: str,
    problem: Problem,
    *,
    device: str = "auto",
    budget: int | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Run the study `name` ("ladder", "tensor-ladder", "register-tile", "block-tile" or "loop-order") for `problem`.

    device    "auto", "gpu", "emulator", or a known card ("RTX 4050 Laptop", "sm_80"): see target.open_card
    budget    number of candidates in the search for a tuned winner

    A kernel that cannot be compiled or launched is a row with its reason. Raises InvalidInput or GemmgenError, as
    `tune` does. gemmgen.lab.prints.study.write_study writes the result as table, plot and record.
    """
    from gemmgen.lab.study import run_study, study_named

    chosen = study_named(name)
    budget = count_of("budget", budget)
    require_memory(problem)
    target = open_card(device, store := Store())
    with target.executor, shown(progress) as heard:
        return run_study(chosen, problem, target, store, budget=budget, progress=heard)


def check_model(
    data: Folder | None = None,
    *,
    family: str | None = None,
    groups: Sequence[str] = (),
    shapes: int | None = None,
    measure: bool = False,
    budget: int | None = None,
    seed: int = 0,
    command: str = "gemmgen.check_model(...)",
    progress: Progress | None = None,
) -> ModelCheck:
    """Compare the model's predictions with the measured times in `data`, by default those of an H200 that come with
    gemmgen.

    family    the family whose times are read without `data` (None: simt); with `groups`, the family that is timed
              (None: those of a search)
    groups    groups of the suite whose problems are timed in place of the file's
    shapes    number of problems drawn from each group (None: all)
    measure   whether to time the file's problems again first, on the GPU here, and to rewrite the file
    budget    number of configs to time per problem
    seed      seed of the draws; with another seed than the file's, the model is compared with times that it has not
              seen
    command   the command that the file records

    Raises InvalidInput (no such file, or an unknown card), GemmgenError (none of its configs is accepted), and
    CandidateFailed (unavailable) if times are to be measured without a GPU.
    """
    from gemmgen.lab.study import modelcheck
    from gemmgen.lab.study.model_times import measure_times, unmeasured
    from gemmgen.lab.study.times import TIMES, load_times, save_times

    budget, seed = count_of("budget", budget), whole("seed", seed, least=0)
    require(
        not groups or (measure and data is not None),
        "times of a group are measured, to a file of their own: it takes `measure` and `data`",
    )
    if shapes is not None:
        shapes = whole("shapes", shapes, least=1)
        require(bool(groups), f"{shapes} shapes of each group, and none is named: it takes `groups`")
    named = family or DEFAULT_FAMILY
    require(data is not None or named in TIMES, f"no times of {named} come with gemmgen: of {', '.join(TIMES)}")
    path = TIMES[named] if data is None else Path(data)
    if not groups:
        times = load_times(path)
    if measure:
        target = open_target("gpu", "auto", store := Store())
        with target.executor:
            if groups:
                families = SEARCHED if family is None else (family_named(family),)
                times = unmeasured(families, groups, target.spec, shapes, seed)
            with shown(progress) as heard:
                times = measure_times(times, target, store, command, budget=budget, seed=seed, progress=heard)
        save_times(times, path)
    return modelcheck.check_model(times)
