"""A kernel as this version of gemmgen renders it, from its problem and config."""

from __future__ import annotations

from gemmgen.kernel.families import config_of
from gemmgen.kernel.render import render
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DEFAULT_ARCH
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import InvalidInput


def rendered_again(source: KernelSource, arch: str = DEFAULT_ARCH, problem: Problem | None = None) -> KernelSource:
    """What the templates make today of a kernel's config, for `problem` or its own; by its name if a user gave it one.

    Raises InvalidInput for a family or an axis that is not known any more.
    """
    again = render(problem or source.problem, *config_of(source), arch)
    return again if source.own_name is None else again.renamed(source.own_name)


def rendered_or_none(
    source: KernelSource, arch: str = DEFAULT_ARCH, problem: Problem | None = None
) -> KernelSource | None:
    """The same; None for a config that this version does not know, or refuses."""
    try:
        return rendered_again(source, arch, problem)
    except (InvalidInput, ZeroDivisionError):  # a divisor that a constraint would have refused
        return None
