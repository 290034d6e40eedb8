"""What a kernel's parameters must say for a GPU, and the host's compiler does not ask."""

from __future__ import annotations

import re

from gemmgen.kernel.source import KernelSource
from gemmgen.run.emulator.failures import failed
from gemmgen.run.emulator.tokens import behind, split, tokens_of

MAPS = frozenset(("TensorMap", "CUtensorMap"))


def require_grid_constants(source: KernelSource) -> None:
    """Raises CandidateFailed (launch) where TMA would get the address of a copy of a tensor map, which is none."""
    if not any(name in source.text for name in MAPS):
        return
    tokens = tokens_of(source.text)
    names = {one.name for one in source.program}
    for at, token in enumerate(tokens[:-1]):
        if token.text not in names or tokens[at + 1].text != "(":
            continue
        for parameter in split(tokens[at + 2 : behind(tokens, at + 1) - 1], (",",)):
            words = [one.text for one in parameter]
            if MAPS & {*words} and not {"__grid_constant__", "*", "&"} & {*words}:
                line = source.text.count("\n", 0, parameter[0].start) + 1
                why = f"the tensor map {words[-1]} is no __grid_constant__ parameter: TMA faults on a thread's own copy"
                raise failed("launch", f"{why} ({source.name}.cu:{line})")


def most_threads(source: KernelSource, limit: int) -> str:
    """The threads that __launch_bounds__ before the kernel's name allows, as C++; `limit` without it."""
    bounds = re.search(rf"__launch_bounds__\(([^,()]+)(?:,[^()]*)?\)\s+{source.name}\(", source.text)
    return bounds[1] if bounds else str(limit)


def cluster_dims(source: KernelSource) -> str:
    """The blocks of a cluster that __cluster_dims__ before the kernel's name asks for, as C++; 0 without it."""
    bounds = r"(?:\s+__launch_bounds__\([^()]*\))?"
    found = re.search(rf"__cluster_dims__\(([^()]+)\){bounds}\s+{source.name}\(", source.text)
    return " * ".join(f"({extent.strip()})" for extent in found[1].split(",")) if found else "0"
