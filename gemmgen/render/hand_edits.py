"""What an edit by hand made of a kernel's config, as far as the constants of its text say."""

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
    """The axes that the text gives other values than its config, by name.

    Empty where they make no config that `arch` can run, or the config is not known: what else was edited shows nowhere.
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
    """`source` with other values of some axes in its config; its text stays."""
    return replace(source, config={**source.config, **axes})
