"""Recovers a config from a kernel that was edited by hand, as far as the constants in its text say."""

from __future__ import annotations

import re
from dataclasses import replace

from gemmgen.families import config_of
from gemmgen.families.base import first_rejection
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import Arch
from gemmgen.render.rerender import rendered_or_none

_CONSTANT = re.compile(r"^constexpr int (\w+) = (\d+);", re.MULTILINE)


def edited_axes(source: KernelSource, arch: Arch) -> dict[str, int]:
    """The axes, by name, whose values in the text differ from its config.

    Empty if they give no config that `arch` can run, or if the config is not known. Other edits do not show here.
    """
    rendered = rendered_or_none(source)
    if rendered is None:
        return {}
    before, now = (dict(_CONSTANT.findall(one.text)) for one in (rendered, source))
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
