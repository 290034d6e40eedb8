"""One kernel, rendered from given parameters or as the model ranks them."""

from __future__ import annotations

from pathlib import Path

from gemmgen.exports.json_records import Origin, provenance
from gemmgen.exports.writing import Folder, require_writable, write_kernel
from gemmgen.families import DEFAULT_FAMILY, SEARCHED, family_named
from gemmgen.families.base import Family, check, first_rejection
from gemmgen.kernel.config import Config
from gemmgen.kernel.model import predict
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render_plan
from gemmgen.render.naming import require_identifier
from gemmgen.run.card import compile_target
from gemmgen.search.explorer import search_of, unsuited
from gemmgen.search.space import explore
from gemmgen.search.trial import Trial
from gemmgen.support.errors import GemmgenError, require, whole


def generate(
    problem: Problem,
    *,
    family: str | None = None,
    arch: str = "auto",
    out: Folder | None = None,
    name: str | None = None,
    command: str = "gemmgen.generate(...)",
    **values: int,
) -> KernelSource:
    """Render one kernel. Nothing is compiled or run.

    family  None, without `values`: the family and config that the model predicts to be the fastest on `arch`.
            Else the named one's default config, or simt's, with `values` (BM=64, ...) in place of its own; without
            `values`, where `arch` refuses the default (older ones lack cp.async, say), the config of the search's
            space that differs from it in the fewest parameters
    arch    whose limits the config must hold, and whose card's rates the model takes; "auto" is the GPU's, else sm_90
    out     folder for NAME.cu and NAME.json (None: write nothing)
    name    what the kernel is called, a C identifier (None: a name that it has of itself)
    command what NAME.json says that it was made by

    Raises InvalidInput where a value breaks a constraint, with the nearest ones that would do, and GemmgenError
    where no family has a config for the problem, or `out` cannot be written.
    """
    require_problem(problem)
    values = {name: whole(name, value) for name, value in values.items()}
    named = None if family is None else family_named(family)
    arch, spec = compile_target(arch)
    if named is None and not values:
        chosen, config = _predicted_best(problem, arch, spec)
    else:
        chosen = named or family_named(DEFAULT_FAMILY)
        config = chosen.default(problem).with_values(**values) if values else _usual(chosen, problem, spec)
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


def _predicted_best(problem: Problem, arch: str, spec: DeviceSpec) -> tuple[Family, Config]:
    """What the model ranks first of all families that a search tries. Raises GemmgenError where none has a config."""
    search, explored = search_of(problem, SEARCHED, spec)
    if not search.spaces:
        raise GemmgenError(unsuited(problem, arch, explored))
    best = search.ranked[0]
    return best.family, best.config


def _usual(family: Family, problem: Problem, spec: DeviceSpec) -> Config:
    """The default config, or the nearest to it that the architecture takes; the default where it takes none."""
    default = family.default(problem)
    if first_rejection(family, problem, default, spec.arch.limits) is None:
        return default

    def distance(config: Config) -> int:
        return sum(value != default.values[name] for name, value in config.values.items())

    return min(explore(family, problem, spec).accepted, key=distance, default=default)


def require_problem(problem: object) -> None:
    """Raise InvalidInput for what is no problem, such as the text of a shape."""
    known = isinstance(problem, Problem)
    require(known, f"problem = {problem!r:.100} is none: write gemmgen.Problem(512, 512, 512), or None for a ? size")
