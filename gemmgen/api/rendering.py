"""One kernel, rendered from given parameters."""

from __future__ import annotations

from pathlib import Path

from gemmgen.exports.json_records import Origin, provenance
from gemmgen.exports.writing import Folder, require_writable, write_kernel
from gemmgen.families import DEFAULT_FAMILY, family_named
from gemmgen.families.base import Family, check, first_rejection
from gemmgen.kernel.config import Config
from gemmgen.kernel.model import predict
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render_plan
from gemmgen.render.naming import require_identifier
from gemmgen.run.card import compile_target
from gemmgen.search.space import explore
from gemmgen.search.trial import Trial
from gemmgen.support.errors import require, whole


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

    Without `values`, where `arch` refuses the default (older ones lack cp.async, say), it is the config of the search's
    space that differs from it in the fewest parameters. Nothing is compiled or run. `arch` decides which limits the
    config must hold; "auto" is the GPU's, else sm_90.
    `name` is what the kernel is called, a C identifier; None leaves it the name that it has of itself.
    Raises InvalidInput where a value breaks a constraint, with the nearest ones that would do, and GemmgenError
    where `out` cannot be written.
    """
    require_problem(problem)
    chosen = family_named(family)
    values = {name: whole(name, value) for name, value in values.items()}
    arch, spec = compile_target(arch)
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
