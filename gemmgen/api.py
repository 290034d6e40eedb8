"""gemmgen from a script: the command line's path as functions.

    import gemmgen

    result = gemmgen.tune(gemmgen.Problem(512, 512, 512), out="kernels")
    print(result.winner.source.name, result.winner.time_us, result.winner.time_kind)

Sizes are in elements, times in microseconds, shared memory in bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gemmgen.artifacts.kernelfile import find_kernel, require_writable, write_kernel
from gemmgen.artifacts.records import Origin, provenance
from gemmgen.benchmark.study import StudyResult, modelcheck, run_study, study_named
from gemmgen.benchmark.study.modelcheck import TIMES, ModelCheck, load_times, measure_times, save_times
from gemmgen.kernel.families import DEFAULT_FAMILY, SEARCHED, family_named
from gemmgen.kernel.families.base import check
from gemmgen.kernel.model import predict
from gemmgen.kernel.render import render_plan
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.run.target import DeviceChoice, compile_target, open_card, open_target
from gemmgen.search.tuner import Progress, Trial, TuneResult
from gemmgen.search.tuner import tune as search
from gemmgen.support.errors import require, whole
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.sanitizers.tool import TOOLS, Tool
from gemmgen.verification.verifier import DEFAULT_EXAMPLES, Verdict
from gemmgen.verification.verifier import verify as property_test
from gemmgen.verification.with_sanitizers import require_sanitizer
from gemmgen.verification.with_sanitizers import sanitize as add_sanitizers

Folder = str | os.PathLike[str]

DEFAULT_OUT = Path("gemmgen-out")


def tune(
    problem: Problem,
    *,
    device: DeviceChoice = "auto",
    arch: str = "auto",
    family: str | None = None,
    budget: int | None = None,
    seed: int = 0,
    out: Folder | None = None,
    command: str = "gemmgen.tune(...)",
    progress: Progress | None = None,
) -> TuneResult:
    """Find the fastest correct kernel for `problem`.

    device    "gpu" (or "cuda") runs, verifies and measures; "emulator" runs on the CPU, and times are predicted;
              "auto" takes the GPU where there is one and it is of `arch`
    arch      what to compile for: "sm_80", ..., a card's name ("A100"), or "auto": the GPU's, else sm_90
    family    name of the one kernel family to search: "simt", "skinny", "batched" or "naive"; None: all that suit the
              problem, naive apart
    budget    candidates to try, at least one (None: gemmgen.search.tuner.DEFAULT_BUDGET)
    seed      of test data, thread schedules and what the property tests draw
    out       folder for the winner's NAME.cu and NAME.json (None: write nothing)
    command   what NAME.json says that it was made by
    progress  hears each step; see gemmgen.search.tuner.Progress

    A second call for the same problem takes what is known from the cache.
    Raises InvalidInput (the request is wrong) or GemmgenError (the work failed).
    """
    families = SEARCHED if family is None else (family_named(family),)
    budget, seed = _budget(budget), whole("seed", seed, least=0)
    if out is not None:
        require_writable(Path(out))
    require_memory(problem)
    target = open_target(device, arch, store := Store())
    with target.executor:
        result = search(
            problem,
            target,
            store,
            families=families,
            budget=budget,
            seed=seed,
            progress=progress,
        )
        origin = Origin.of(target, command)
    if out is not None:
        write_kernel(result.winner.source, provenance(result.winner, origin), Path(out))
    return result


def generate(
    problem: Problem,
    *,
    family: str = DEFAULT_FAMILY,
    arch: str = "auto",
    out: Folder | None = None,
    command: str = "gemmgen.generate(...)",
    **values: int,
) -> KernelSource:
    """Render one kernel: `family`'s default config with `values` (BM=64, ...) in place of its own.

    Nothing is compiled or run. `arch` decides which limits the config must hold; "auto" is the GPU's, else sm_90.
    Raises InvalidInput where a value breaks a constraint, with the nearest ones that would do, and GemmgenError
    where `out` cannot be written.
    """
    chosen = family_named(family)
    values = {name: whole(name, value) for name, value in values.items()}
    arch, spec = compile_target(arch)
    config = chosen.default(problem).with_values(**values)
    check(chosen, problem, config, spec.arch.limits)
    if out is not None:
        require_writable(Path(out))
    plan = chosen.plan(problem, config)
    source = render_plan(plan)
    if out is not None:
        trial = Trial(source, plan, predict(plan, spec))
        write_kernel(source, provenance(trial, Origin.unrun(arch, spec, command)), Path(out))
    return source


def verify(
    kernel: KernelSource | Folder,
    *,
    device: DeviceChoice = "auto",
    examples: int = DEFAULT_EXAMPLES,
    seed: int = 0,
    sanitize: Sequence[Tool] = (),
) -> Verdict:
    """Property-test `kernel`: a KernelSource, a `.cu` file as it stands, or a kernel's name.

    device    where it runs, as for `tune`
    examples  situations to try, at least one: sizes, leading dimensions, scalars and data
    seed      of all that is drawn; the same seed tries the same situations
    sanitize  tools of compute-sanitizer that watch it too, on a GPU; gemmgen.verification.sanitizers.tool.TOOLS are all

    A wrong kernel is a Verdict whose `failure`, `situation` and `mismatch` say how it is wrong.
    Raises InvalidInput (no such kernel, no examples) or CandidateFailed (the device is not available).
    """
    examples, seed = whole("examples", examples, least=1), whole("seed", seed, least=0)
    for tool in sanitize:
        require(tool in TOOLS, f"unknown tool {tool!r} of compute-sanitizer: known are {', '.join(TOOLS)}")
    if sanitize:
        require(device != "emulator", "compute-sanitizer watches kernels on a GPU, not in the emulator")
        require_sanitizer()
    target = open_target(device, "auto", Store())
    with target.executor:
        if not isinstance(kernel, KernelSource):
            kernel = find_kernel(os.fspath(kernel), DEFAULT_OUT, target.spec.arch.limits).source
        require_memory(kernel.problem)
        verdict = property_test(target.executor, kernel, examples=examples, seed=seed)
        if not sanitize or target.gpu is None:
            return verdict
        return add_sanitizers(target.gpu, kernel, verdict, sanitize)


def study(
    name: str,
    problem: Problem,
    *,
    device: str = "auto",
    budget: int | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """The study `name` ("ladder", "register-tile", "block-tile" or "loop-order") of `problem`.

    device    "auto", "gpu", "emulator", or a known card ("RTX 4050 Laptop", "sm_80"): see target.open_card
    budget    candidates of the search for a tuned winner

    What cannot be compiled or launched is a row with its reason. Raises InvalidInput or GemmgenError, as `tune` does.
    gemmgen.cli.reports.study_files.write_study writes the result as table, plot and record.
    """
    chosen = study_named(name)
    budget = _budget(budget)
    require_memory(problem)
    target = open_card(device, store := Store())
    with target.executor:
        return run_study(chosen, problem, target, store, budget=budget, progress=progress)


def check_model(
    data: Folder | None = None,
    *,
    family: str = "simt",
    measure: bool = False,
    budget: int | None = None,
    seed: int = 0,
    command: str = "gemmgen.api.check_model(...)",
    progress: Progress | None = None,
) -> ModelCheck:
    """The model's predictions against the measured times in `data`; by default those of an H200 that come with gemmgen.

    family    whose times, "simt" or "skinny", where there is no `data`
    measure   time the file's problems anew first, on the GPU here, and rewrite it
    budget    configs of each problem to time
    seed      of those that are drawn; another one than the file's holds the model against times it has not seen
    command   what the file says that it was made by

    Raises InvalidInput (no such file, a card that is not known), GemmgenError (none of its configs is accepted), and
    CandidateFailed (unavailable) where times are to be measured and there is no GPU.
    """
    budget, seed = _budget(budget), whole("seed", seed, least=0)
    require(family in TIMES, f"no times of {family} come with gemmgen: of {', '.join(TIMES)}")
    path = TIMES[family] if data is None else Path(data)
    times = load_times(path)
    if measure:
        target = open_target("gpu", "auto", store := Store())
        with target.executor:
            times = measure_times(times, target, store, command, budget=budget, seed=seed, progress=progress)
        save_times(times, path)
    return modelcheck.check_model(times)


def _budget(count: int | None) -> int | None:
    return None if count is None else whole("budget", count, least=1)
