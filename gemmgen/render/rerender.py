"""A kernel as this version of gemmgen renders it, from its problem and config; its config as edits by hand left it."""

from __future__ import annotations

import re
from dataclasses import replace

from gemmgen.families import config_of, config_to_blame, plan_of
from gemmgen.families.base import first_rejection
from gemmgen.kernel.plan import Never
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import Arch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput

CONSTANT = re.compile(r"^constexpr int (\w+) = (\d+);", re.MULTILINE)


def rendered_again(source: KernelSource, arch: str | None = None, problem: Problem | None = None) -> KernelSource:
    """What the templates make today of a kernel's config, for `problem` or its own; by its name if a user gave it one.

    `arch` None is the one that its text names.
    Raises InvalidInput for a family or an axis that is not known any more, or a config that cannot be rendered.
    """
    asked = source if problem is None else source.promising(problem=problem)
    with config_to_blame(asked):
        again = render(asked.problem, *config_of(asked), arch or source.arch)
    return again if source.own_name is None else again.renamed(source.own_name)


def rendered_or_none(
    source: KernelSource, arch: str | None = None, problem: Problem | None = None
) -> KernelSource | None:
    """Render the kernel again as `rendered_again` does; None for a config that this version does not know, or
    refuses."""
    try:
        return rendered_again(source, arch, problem)
    except InvalidInput:
        return None


def never_of(source: KernelSource) -> tuple[Never, ...]:
    """The outcomes that no launch of the kernel reaches, as its plan says; empty if gemmgen does not render its
    text."""
    try:
        with config_to_blame(source):
            stated = plan_of(source).never
    except InvalidInput:
        return ()
    return stated if stated and is_rendered(source) else ()


def is_rendered(source: KernelSource) -> bool:
    """Whether today's templates make this text of its config."""
    again = rendered_or_none(source)
    return again is not None and again.text == source.text


def edited_axes(source: KernelSource, arch: Arch) -> dict[str, int]:
    """The axes, by name, whose values in the text differ from its config.

    Empty if they give no config that `arch` can run, or if the config is not known. Other edits do not show here.
    """
    rendered = rendered_or_none(source)
    if rendered is None:
        return {}
    before, now = (dict(CONSTANT.findall(one.text)) for one in (rendered, source))
    changed = {
        name: int(now[name])
        for name, value in source.config.items()
        if name in now and before.get(name) == str(value) and now[name] != before[name]
    }
    family, config = config_of(source)
    rejected = first_rejection(family, source.problem, config.with_values(**changed), arch.limits)
    return changed if rejected is None else {}


def with_axes(source: KernelSource, axes: dict[str, int]) -> KernelSource:
    """Return `source` with other values of some axes in its config; its text stays."""
    return replace(source, config={**source.config, **axes})
