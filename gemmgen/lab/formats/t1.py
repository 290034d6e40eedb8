"""T1, the open format of a tuning problem: https://github.com/odgaard/TuningSchema, version 1.0.0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gemmgen.families.base import Family
from gemmgen.kernel.expression import names_in, python_text
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.render.naming import problem_name


def t1_document(family: Family, problem: Problem, device: DeviceSpec) -> dict[str, Any]:
    """The axes of `family`, the values that the search tries, and the conditions on them for `problem` on `device`.

    Conditions that read derived constants are left out, as T1 cannot express these. A config's launch depends on all of
    its axes, so the kernel's sizes are expressions by name only.
    """
    axes = family.config_type.axes()
    return {
        "General": {"FormatVersion": 1, "TimeUnit": "Microseconds"},
        "ConfigurationSpace": {
            "TuningParameters": [
                {"Name": axis.name, "Type": "int", "Values": str(list(axis.tried(device.sms)))} for axis in axes
            ],
            "Conditions": list(_conditions(family, problem, device)),
        },
        "KernelSpecification": {
            "Language": "CUDA",
            "KernelName": f"gemm_{problem_name(problem)}_{family.name}",
            "KernelFile": family.template(family.default(problem)),
            "GlobalSizeType": "CUDA",
            "GlobalSize": {"X": "BLOCKS"},
            "LocalSize": {"X": "THREADS"},
        },
    }


def _conditions(family: Family, problem: Problem, device: DeviceSpec) -> Iterator[dict[str, Any]]:
    """Conditions from constraints and pruning rules, with numbers in place of facts about the problem and the card."""
    axes = {axis.name for axis in family.config_type.axes()}
    known = {**device.arch.limits.names, **family.facts(problem), "SMS": device.sms}
    for rule in (*family.constraints, *family.pruning):
        read = names_in(rule.expression)
        if read & axes and read <= axes | known.keys():
            text = re.sub(r"[A-Za-z_]\w*", lambda name: str(known.get(name[0], name[0])), python_text(rule.expression))
            yield {"Parameters": sorted(read & axes), "Expression": text}
