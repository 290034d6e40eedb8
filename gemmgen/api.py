"""gemmgen from a script: the command line's path as functions.

    import gemmgen

    result = gemmgen.tune(gemmgen.Problem(512, 512, 512), out="kernels")
    print(result.winner.source.name, result.winner.time_us, result.winner.time_kind)

Sizes are in elements, times in microseconds, shared memory in bytes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gemmgen.artifacts.exporting import Exported, Wish, export_verified
from gemmgen.artifacts.kernelfile import KernelFile, find_kernel, find_rung, reading, require_writable, write_kernel
from gemmgen.artifacts.records import Origin, provenance
from gemmgen.kernel.families import DEFAULT_FAMILY, SEARCHED, config_of, family_named
from gemmgen.kernel.families.base import Family, check, first_rejection
from gemmgen.kernel.model import predict
from gemmgen.kernel.naming import require_identifier
from gemmgen.kernel.render import render, render_plan
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import ARCHS, DEFAULT_ARCH, DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.run.target import DeviceChoice, compile_target, open_card, open_target
from gemmgen.search.notebook import progress_here
from gemmgen.search.result import TuneResult
from gemmgen.search.trial import Progress, Trial
from gemmgen.search.tuner import tune as search
from gemmgen.support.errors import InvalidInput, require, whole
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.sanitizers.tool import TOOLS, Tool
from gemmgen.verification.verifier import DEFAULT_EXAMPLES, Verdict
from gemmgen.verification.verifier import verify as property_test
from gemmgen.verification.with_sanitizers import require_sanitizer
from gemmgen.verification.with_sanitizers import sanitize as add_sanitizers

if TYPE_CHECKING:  # the functions that need them import the rooms arrays and benchmark themselves: `tune` does without
    from gemmgen.arrays.kernel import ArrayKernel
    from gemmgen.arrays.library import ArrayLibrary
    from gemmgen.artifacts.library.building import Library
    from gemmgen.artifacts.library.spec import Spec
    from gemmgen.benchmark.bench import BenchRow
    from gemmgen.benchmark.difference import Difference
    from gemmgen.benchmark.explain import Explanation
    from gemmgen.benchmark.report.page import Page
    from gemmgen.benchmark.study import StudyResult
    from gemmgen.benchmark.study.modelcheck import ModelCheck

Folder = str | os.PathLike[str]
Kernel = KernelSource | KernelFile | Folder  # rendered, read from its files, or a `.cu` file or name to look up

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
    name: str | None = None,
    command: str = "gemmgen.tune(...)",
    progress: Progress | None = None,
) -> TuneResult:
    """Find the fastest correct kernel for `problem`.

    device    "gpu" (or "cuda") runs, verifies and measures; "emulator" runs on the CPU, and times are predicted;
              "auto" takes the GPU where there is one and it is of `arch`
    arch      what to compile for: "sm_80", ..., a card's name ("A100"), or "auto": the GPU's, else sm_90
    family    name of the one kernel family to search: "simt", "skinny", "batched", "mma", "wmma" or "naive"; None: all
              that suit the problem, naive and wmma apart
    budget    candidates to try, at least one (None: gemmgen.search.tuner.default_budget)
    seed      of test data, thread schedules and what the property tests draw
    out       folder for the winner's NAME.cu and NAME.json (None: write nothing)
    name      what the winner is called, a C identifier (None: a name that it has of itself)
    command   what NAME.json says that it was made by
    progress  hears each step; see gemmgen.search.trial.Progress

    A second call for the same problem takes what is known from the cache.
    Raises InvalidInput (the request is wrong) or GemmgenError (the work failed).
    """
    families = SEARCHED if family is None else (family_named(family),)
    budget, seed = _budget(budget), whole("seed", seed, least=0)
    if name is not None:
        _require_free(name, problem, families)
    if out is not None:
        require_writable(Path(out))
    require_memory(problem)
    started = time.perf_counter()
    target = open_target(device, arch, store := Store())
    opened = round(time.perf_counter() - started, 3)
    with target.executor:
        result = search(
            problem,
            target,
            store,
            families=families,
            budget=budget,
            seed=seed,
            progress=progress or progress_here(),
        )
        origin = Origin.of(target, command)
    result = replace(result, seconds={"start": opened, **result.seconds})
    if name is not None:
        result = result.renamed(name)
    if out is not None:
        write_kernel(result.winner.source, provenance(result.winner, origin), Path(out))
    return result


def _require_free(name: str, problem: Problem, families: Sequence[Family]) -> None:
    """Raise InvalidInput for a name that kernels of `families` use: better before a long search than after it."""
    require_identifier(name)
    for family in families:
        config = family.default(problem)
        if first_rejection(family, problem, config, ARCHS[DEFAULT_ARCH].limits) is None:
            render(problem, family, config).renamed(name)


def generate(
    problem: Problem,
    *,
    family: str = DEFAULT_FAMILY,
    arch: str = "auto",
    out: Folder | None = None,
    name: str | None = None,
    command: str = "gemmgen.generate(...)",
    **values: int,
) -> KernelSource:
    """Render one kernel: `family`'s default config with `values` (BM=64, ...) in place of its own.

    Nothing is compiled or run. `arch` decides which limits the config must hold; "auto" is the GPU's, else sm_90.
    `name` is what the kernel is called, a C identifier; None leaves it the name that it has of itself.
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
    source = render_plan(plan, arch)
    if name is not None:
        require_identifier(name)
        source = source.renamed(name)
    if out is not None:
        trial = Trial(source, plan, predict(plan, spec))
        write_kernel(source, provenance(trial, Origin.unrun(arch, spec, command)), Path(out))
    return source


def verify(
    kernel: Kernel,
    *,
    device: DeviceChoice = "auto",
    examples: int = DEFAULT_EXAMPLES,
    seed: int = 0,
    bits: bool = False,
    sanitize: Sequence[Tool] = (),
) -> Verdict:
    """Property-test `kernel`: a KernelSource, a `.cu` file as it stands, or a kernel's name.

    device    where it runs, as for `tune`
    examples  situations to try, at least one: sizes, leading dimensions, scalars and data
    seed      of all that is drawn; the same seed tries the same situations
    bits      an edited text fails, too, where its sums on tensor cores are not those of its plan
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
        source = _kernel_file(kernel, target.spec).source
        require_memory(source.problem)
        verdict = property_test(target.executor, source, examples=examples, seed=seed, bits=bits)
        if not sanitize or target.gpu is None:
            return verdict
        return add_sanitizers(target.gpu, source, verdict, sanitize)


def diff(
    a: Kernel, b: Kernel, *, out: Folder = DEFAULT_OUT, arch: str = "auto", context: int | None = None
) -> Difference:
    """What sets kernel `b` apart from kernel `a`: config, resources, main loop, text.

    a, b     kernels as `explain` takes them, or the titles of rungs of a ladder on file
    out      folder in which names and titles are looked up before generated/
    arch     what to compile for, as for `explain`
    context  lines about each change of the text (None: 3)

    Raises InvalidInput as `explain` does.
    """
    from gemmgen.benchmark.difference import CONTEXT, difference

    ours, theirs = (explain(_rung_or_kernel(one, Path(out)), arch=arch) for one in (a, b))
    return difference(ours, theirs, CONTEXT if context is None else whole("context", context, least=0))


def explain(kernel: Kernel, *, arch: str = "auto") -> Explanation:
    """Why `kernel` is as it is and what to expect of it: tiles, traffic, roofline, occupancy, machine code.

    arch  what to compile for: "sm_80", ..., a card's name, or "auto": the one that the kernel's JSON names, else
          the GPU's, else sm_90

    Nothing is run. Raises InvalidInput where there is no such kernel, or its family and config are not known.
    """
    from gemmgen.benchmark.explain import explain as explain_kernel

    name, spec = compile_target(arch)
    found = _kernel_file(kernel, spec)
    if found.record is not None and found.path is not None:
        with reading(found.path.with_suffix(".json")):
            config_of(found.source)
            if arch == "auto" and "arch" in found.record:
                name, spec = compile_target(str(found.record["arch"]))
    return explain_kernel(found, name, spec, Store())


def export(
    kernel: Kernel,
    *,
    to: Folder,
    device: DeviceChoice = "auto",
    arch: str = "auto",
    examples: int | None = None,
    seed: int = 0,
    name: str | None = None,
    torch: bool = False,
    command: str = "gemmgen.export(...)",
    progress: Progress | None = None,
) -> Exported:
    """Verify `kernel`, and write it to the folder `to`: kernel, launcher, header, self-test, build file, certificate.

    What other kernels `to` holds that were exported stays, and goes into its build file.

    device    where it is verified, as for `tune`
    arch      what to compile for; "auto" is the one that the kernel's JSON names, else the GPU's, else sm_90
    examples  situations to verify it in (None: 100, of large problems 20; 0: none, and the certificate says so)
    seed      of all that is drawn
    name      what kernel, files and launcher are called, a C identifier (None: the kernel's own name)
    torch     write operators of torch, too: NAME_torch.cpp, for torch.utils.cpp_extension or CMake with LibTorch
    command   what the certificate says that it was made by

    A kernel that is wrong is not written: `files` is empty, and `verdict` says how it is wrong.
    Raises InvalidInput (no such kernel; `to` holds other files of these names; `torch`, and the kernel takes arrays of
    pointers), CandidateFailed (it does not compile) or GemmgenError (the device is not available; `to` cannot be
    written).
    """
    if examples is not None:
        examples = whole("examples", examples, least=0)
    seed = whole("seed", seed, least=0)
    _, spec = compile_target(arch)
    found = _kernel_file(kernel, spec)
    wish = Wish(device, arch, examples, seed, command, progress or progress_here(), torch)
    (exported,) = export_verified([found if name is None else found.renamed(name)], Path(to), wish)
    return exported


def export_all(
    *kernels: Kernel,
    to: Folder,
    device: DeviceChoice = "auto",
    arch: str = "auto",
    examples: int | None = None,
    seed: int = 0,
    torch: bool = False,
    command: str = "gemmgen.export_all(...)",
    progress: Progress | None = None,
) -> tuple[Exported, ...]:
    """`export` of several kernels into one folder, with one build file. The first that is wrong ends it, unwritten.

    Raises InvalidInput besides for kernels of one name: `KernelFile.renamed` gives another.
    """
    if examples is not None:
        examples = whole("examples", examples, least=0)
    _, spec = compile_target(arch)
    wish = Wish(device, arch, examples, whole("seed", seed, least=0), command, progress or progress_here(), torch)
    return export_verified([_kernel_file(one, spec) for one in kernels], Path(to), wish)


def load(kernel: Kernel | Trial | TuneResult, *, device: DeviceChoice = "auto") -> ArrayKernel:
    """`kernel` as a function of arrays: `kernel(a, b)` of torch, CuPy, PyCUDA, JAX or numpy, without a copy of them.

    kernel  as for `verify`, or what `tune` found
    device  "gpu" (or "cuda") takes arrays of a GPU, in the context and on the stream that are current there; "emulator"
            takes arrays of the host, and is slow; "auto" takes the GPU where there is one

    On a GPU it is compiled at the first call, for the device of the arrays. Nothing verifies it here.
    Raises InvalidInput (no such kernel) or CandidateFailed (the device is not available; the emulator has no twin of
    what the kernel uses).
    """
    from gemmgen.arrays.load import load_source

    if isinstance(kernel, TuneResult):
        kernel = kernel.winner
    source = kernel.source if isinstance(kernel, Trial) else _kernel_file(kernel, compile_target("auto")[1]).source
    return load_source(source, device, Store())


def library(
    spec: Spec | Folder,
    *,
    to: Folder,
    device: DeviceChoice = "auto",
    arch: str = "auto",
    budget: int | None = None,
    examples: int | None = None,
    seed: int = 0,
    points: int | None = None,
    fallback: Literal["cublaslt"] | None = None,
    command: str = "gemmgen.library(...)",
    progress: Progress | None = None,
) -> Library:
    """Write a library of kernels with one dispatcher to the folder `to`: see gemmgen.artifacts.library.spec.

    spec      a SPEC.toml, or what one says
    device    where kernels are verified and timed, as for `tune`; of other architectures than the GPU's they are
              verified in the emulator, and their times are predicted
    arch      what to compile for where the spec names no architectures; "auto" is the GPU's, else sm_90
    budget    candidates of each search (None: as for `tune`, and 2 without a GPU)
    examples  situations to verify each kernel in (None: as for `export`, and in the emulator a sixth of that, where one
              launch runs 3 times)
    seed      of all that is drawn
    points    sizes at which a product's kernels are timed, at most (None: 256 measured, 1024 predicted)
    fallback  "cublaslt" lets cuBLASLt serve sizes for which it was measured to be faster than all kernels, of products
              with the linear epilogue; the library then needs it. None: it needs the CUDA runtime alone
    command   what record and certificates say that it was made by

    What was found before is taken from the cache: with a changed spec only what changed is done again. Files of an
    earlier run that are no longer named are removed, unless they were edited.
    Raises InvalidInput (the spec; `to` holds other files of these names) or GemmgenError (a kernel is wrong; `to`
    cannot be written).
    """
    from gemmgen.artifacts.library.building import Options, build_library
    from gemmgen.artifacts.library.spec import Spec, read_spec

    require(fallback in (None, "cublaslt"), f"fallback = {fallback!r}: known are 'cublaslt' and None")
    name, _ = compile_target(arch)
    asked = spec if isinstance(spec, Spec) else read_spec(Path(spec), name)
    options = Options(
        device,
        None if budget is None else whole("budget", budget, least=1),
        None if examples is None else whole("examples", examples, least=0),
        whole("seed", seed, least=0),
        None if points is None else whole("points", points, least=8),
        fallback is not None,
        command,
    )
    return build_library(asked, Path(to), options, progress or progress_here())


def load_library(folder: Folder, *, device: DeviceChoice = "auto") -> ArrayLibrary:
    """The products of a folder that `library` wrote, by name, as functions of arrays of any size: see `load`.

    The rules of its record choose among its kernels, as its dispatcher in C does.
    Raises InvalidInput where the folder holds no library, or none for this device's architecture.
    """
    from gemmgen.arrays.load import load_library as load_folder

    return load_folder(Path(folder), device, Store())


def bench(
    *wanted: Problem | Kernel,
    out: Folder = DEFAULT_OUT,
    command: str = "gemmgen.bench(...)",
    progress: Progress | None = None,
) -> tuple[BenchRow, ...]:
    """Time kernels beside cuBLASLt's best on the GPU here, each pair interleaved in one run: a row for each.

    wanted   kernels, or problems: of these the winner on file, else one that is tuned now
    out      folder in which winners are looked up before generated/, and written if tuned now
    command  what the JSON of one that is tuned now says that it was made by

    The result is added to the JSON of a kernel that has one. Raises InvalidInput (no such kernel), GemmgenError (no
    GPU) or CandidateFailed (a kernel is wrong or does not run; there is no cuBLASLt).
    """
    from gemmgen.benchmark.bench import measure_all, require_gpu

    require_gpu()
    require_writable(Path(out))
    target = open_target("gpu", "auto", store := Store())
    with target.executor:
        for one in wanted:
            if isinstance(one, Problem):
                require_memory(one)
        found = [one if isinstance(one, Problem) else _kernel_file(one, target.spec, Path(out)) for one in wanted]
        return measure_all(found, target, store, Path(out), command, progress or progress_here())


def report(*folders: Folder, to: Folder, compiled: bool = False, progress: Progress | None = None) -> Page:
    """Write one HTML page of the kernels in `folders`, and in the folders directly in these, to the file `to`.

    compiled  compile and disassemble each kernel, for its main loop

    Returns what the page shows. Raises InvalidInput where one is no folder, and GemmgenError where there is no kernel
    with its JSON, or the file cannot be written.
    """
    from gemmgen.benchmark.report.page import write_report

    return write_report(
        [Path(folder) for folder in folders], Path(to), Store() if compiled else None, progress or progress_here()
    )


def study(
    name: str,
    problem: Problem,
    *,
    device: str = "auto",
    budget: int | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """The study `name` ("ladder", "tensor-ladder", "register-tile", "block-tile" or "loop-order") of `problem`.

    device    "auto", "gpu", "emulator", or a known card ("RTX 4050 Laptop", "sm_80"): see target.open_card
    budget    candidates of the search for a tuned winner

    What cannot be compiled or launched is a row with its reason. Raises InvalidInput or GemmgenError, as `tune` does.
    gemmgen.cli.reports.study_files.write_study writes the result as table, plot and record.
    """
    from gemmgen.benchmark.study import run_study, study_named

    chosen = study_named(name)
    budget = _budget(budget)
    require_memory(problem)
    target = open_card(device, store := Store())
    with target.executor:
        return run_study(chosen, problem, target, store, budget=budget, progress=progress or progress_here())


def check_model(
    data: Folder | None = None,
    *,
    family: str = DEFAULT_FAMILY,
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
    from gemmgen.benchmark.study import modelcheck
    from gemmgen.benchmark.study.modelcheck import TIMES, load_times, measure_times, save_times

    budget, seed = _budget(budget), whole("seed", seed, least=0)
    require(family in TIMES, f"no times of {family} come with gemmgen: of {', '.join(TIMES)}")
    path = TIMES[family] if data is None else Path(data)
    times = load_times(path)
    if measure:
        target = open_target("gpu", "auto", store := Store())
        with target.executor:
            times = measure_times(
                times, target, store, command, budget=budget, seed=seed, progress=progress or progress_here()
            )
        save_times(times, path)
    return modelcheck.check_model(times)


def _kernel_file(kernel: Kernel, spec: DeviceSpec, out: Path = DEFAULT_OUT) -> KernelFile:
    """The kernel that is meant; a name is looked up in `out` first."""
    if isinstance(kernel, KernelSource):
        return KernelFile(kernel)
    return kernel if isinstance(kernel, KernelFile) else find_kernel(os.fspath(kernel), out, spec.arch)


def _rung_or_kernel(kernel: Kernel, out: Path) -> Kernel:
    """The kernel of the rung that is called so; else what is meant, of which a name is looked up in `out` first."""
    if not isinstance(kernel, str):
        return kernel
    rung = find_rung(kernel, out)
    if rung is not None:
        return rung
    try:
        return find_kernel(kernel, out, ARCHS[DEFAULT_ARCH])
    except InvalidInput as error:
        raise InvalidInput(
            f"{error}; no rung there has this title: gemmgen study LADDER --out {out} leaves them"
        ) from error


def _budget(count: int | None) -> int | None:
    return None if count is None else whole("budget", count, least=1)
