"""Kernels: searched for, verified, explained, compared and timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gemmgen.api.asked import Kernel, count_of, kernel_file, rung_or_kernel, shown
from gemmgen.api.rendering import require_problem
from gemmgen.exports.json_records import Origin, provenance
from gemmgen.exports.kernelfile import reading
from gemmgen.exports.writing import DEFAULT_OUT, Folder, require_writable, write_kernel
from gemmgen.families import SEARCHED, family_named, plan_of
from gemmgen.families.base import Family, first_rejection
from gemmgen.problem.device import ARCHS, DEFAULT_ARCH
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import require_identifier
from gemmgen.run.card import compile_target
from gemmgen.run.target import DeviceChoice, open_target
from gemmgen.search.result import TuneResult
from gemmgen.search.trial import Progress
from gemmgen.search.tuner import tune as search
from gemmgen.support.errors import require, whole
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.sanitizers.tool import TOOLS, Tool
from gemmgen.verification.verifier import DEFAULT_EXAMPLES, Verdict
from gemmgen.verification.verifier import verify as property_test
from gemmgen.verification.with_sanitizers import require_sanitizer
from gemmgen.verification.with_sanitizers import sanitize as add_sanitizers

if TYPE_CHECKING:  # the functions that need the room benchmark import it themselves: `tune` does without
    from gemmgen.judge.bench import BenchRow
    from gemmgen.judge.difference import Difference
    from gemmgen.judge.explain import Explanation


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
              "auto" takes the GPU if there is one and it has `arch`
    arch      the architecture to compile for: "sm_80", ..., a card's name ("A100"), or "auto": the GPU's, else sm_90
    family    name of the one kernel family to search, of gemmgen.families.FAMILIES: "simt", "wgmma", ...;
              None: all that suit the problem, except naive and wmma
    budget    candidates to try, at least one (None: gemmgen.search.tuner.default_budget)
    seed      seed of test data, thread schedules and the property tests' draws
    out       folder for the winner's NAME.cu and NAME.json (None: write nothing)
    name      the winner's name, a C identifier (None: a generated name)
    command   the command that NAME.json records
    progress  receives each step; see gemmgen.search.trial.Progress. None: bars in a terminal

    A second call for the same problem reuses cached results. Raises InvalidInput (the request is wrong) or GemmgenError
    (the work failed).
    """
    require_problem(problem)
    families = SEARCHED if family is None else (family_named(family),)
    budget, seed = count_of("budget", budget), whole("seed", seed, least=0)
    if name is not None:
        _require_free(name, problem, families)
    if out is not None:
        require_writable(Path(out))
    require_memory(problem)
    started = time.perf_counter()
    target = open_target(device, arch, store := Store())
    opened = round(time.perf_counter() - started, 3)
    with target.executor, shown(progress) as heard:
        result = search(problem, target, store, families=families, budget=budget, seed=seed, progress=heard)
        origin = Origin.of(target, command)
    result = replace(result, seconds={"start": opened, **result.seconds})
    if name is not None:
        result = result.renamed(name)
    if out is not None:
        write_kernel(result.winner.source, provenance(result.winner, origin), Path(out))
    return result


def _require_free(name: str, problem: Problem, families: Sequence[Family]) -> None:
    """Raise InvalidInput for a name that kernels of `families` use, before a long search instead of after it."""
    require_identifier(name)
    for family in families:
        config = family.default(problem)
        if first_rejection(family, problem, config, ARCHS[DEFAULT_ARCH].limits) is None:
            render(problem, family, config).renamed(name)


def verify(
    kernel: Kernel,
    *,
    device: DeviceChoice = "auto",
    examples: int = DEFAULT_EXAMPLES,
    seed: int = 0,
    bits: bool = False,
    sanitize: Sequence[Tool] = (),
) -> Verdict:
    """Property-test `kernel`: a KernelSource, a `.cu` file as it is, or a kernel's name.

    device    the device that runs it, as for `tune`
    examples  situations to try, at least one: sizes, leading dimensions, scalars and data
    seed      seed of all draws; the same seed tries the same situations
    bits      whether an edited text also fails if its sums on tensor cores differ from its plan's
    sanitize  tools of compute-sanitizer that also watch it, on a GPU; gemmgen.verification.sanitizers.tool.TOOLS lists
              all

    For a wrong kernel the Verdict's `failure`, `situation` and `mismatch` say how it is wrong. Raises InvalidInput (no
    such kernel, no examples) or CandidateFailed (the device is not available).
    """
    examples, seed = whole("examples", examples, least=1), whole("seed", seed, least=0)
    for tool in sanitize:
        require(tool in TOOLS, f"unknown tool {tool!r} of compute-sanitizer: known are {', '.join(TOOLS)}")
    if sanitize:
        require(device != "emulator", "compute-sanitizer watches kernels on a GPU, not in the emulator")
        require_sanitizer()
    target = open_target(device, "auto", Store())
    with target.executor:
        source = kernel_file(kernel, target.spec).source
        require_memory(source.problem)
        verdict = property_test(target.executor, source, examples=examples, seed=seed, bits=bits)
        if not sanitize or target.gpu is None:
            return verdict
        return add_sanitizers(target.gpu, source, verdict, sanitize)


def explain(kernel: Kernel, *, arch: str = "auto") -> Explanation:
    """Explain `kernel` and its expected speed: tiles, traffic, roofline, occupancy, machine code.

    arch  the architecture to compile for: "sm_80", ..., a card's name, or "auto": the one that the kernel's JSON names,
          on the card that it names, else the GPU's, else sm_90

    Nothing is run. Raises InvalidInput if there is no such kernel, or if its family or config is not known.
    """
    from gemmgen.judge.explain import explain as explain_kernel

    name, spec = compile_target(arch)
    found = kernel_file(kernel, spec)
    if found.record is not None and found.path is not None:
        with reading(found.path.with_suffix(".json")):
            plan_of(found.source)
            if arch == "auto" and "arch" in found.record:
                name, spec = compile_target(found.arch)[0], found.card
    return explain_kernel(found, name, spec, Store())


def diff(
    a: Kernel, b: Kernel, *, out: Folder = DEFAULT_OUT, arch: str = "auto", context: int | None = None
) -> Difference:
    """Compare kernel `b` with kernel `a`: config, resources, main loop, text.

    a, b     kernels as `explain` takes them, or the titles of rungs of a ladder on file
    out      folder in which names and titles are looked up before generated/
    arch     the architecture to compile for, as for `explain`
    context  lines around each change of the text (None: 3)

    Raises InvalidInput as `explain` does.
    """
    from gemmgen.judge.difference import CONTEXT, difference

    ours, theirs = (explain(rung_or_kernel(one, Path(out)), arch=arch) for one in (a, b))
    return difference(ours, theirs, CONTEXT if context is None else whole("context", context, least=0))


def bench(
    *wanted: Problem | Kernel,
    out: Folder = DEFAULT_OUT,
    energy: bool = False,
    command: str = "gemmgen.bench(...)",
    progress: Progress | None = None,
) -> tuple[BenchRow, ...]:
    """Time kernels and cuBLASLt's best on the GPU here, each pair interleaved in one run; return a row for each.

    wanted   kernels, or problems: for a problem the winner on file, else one that is tuned now
    out      folder in which winners are looked up before generated/, and written if tuned now
    energy   also let each run alone for two seconds, and read energy, power and clocks from the card (NVML)
    command  the command that is recorded in the JSON of a kernel that is tuned now

    The result is added to the kernel's JSON, if there is one and it belongs to this card. Raises InvalidInput (no such
    kernel), GemmgenError (no GPU) or CandidateFailed (a kernel is wrong or does not run; there is no cuBLASLt).
    """
    from gemmgen.judge.bench import measure_all, require_gpu

    require_gpu()
    require_writable(Path(out))
    target = open_target("gpu", "auto", store := Store())
    with target.executor:
        for one in wanted:
            if isinstance(one, Problem):
                require_memory(one)
        found = [one if isinstance(one, Problem) else kernel_file(one, target.spec, Path(out)) for one in wanted]
        with shown(progress) as heard:
            return measure_all(found, target, store, Path(out), command, heard, energy=energy)
