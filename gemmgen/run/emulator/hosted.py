"""A kernel's text in words that the host's C++ compiler takes, and the lines that export it to the runtime."""

from __future__ import annotations

import re

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import MAX_THREADS
from gemmgen.run.emulator.parameters import cluster_dims, most_threads

LEAST_ALIGNMENT = 16  # bytes, of dynamic shared memory whose declaration asks for less: of the widest type
MOST_ALIGNMENT = 1024  # of such that no declaration, or none in numbers, asks for

# `extern __shared__ float tile[];` and the like: indentation, type and name.
DYNAMIC_SHARED = re.compile(
    r"^([ \t]*)extern\s+(?:__align__\([^()]*\)\s+)?__shared__\s+(?:(?:__align__|alignas)\([^()]*\)\s+)?"
    r"([\w:<> ]+?)\s*\b(\w+)\s*\[\s*\]\s*;",
    re.MULTILINE,
)
# What it is aligned to, before or behind `__shared__`.
DYNAMIC_ALIGNMENT = re.compile(
    r"\bextern\s+(?:__align__\(([^()]*)\)\s+)?__shared__\s+(?:(?:__align__|alignas)\(([^()]*)\)\s+)?"
)
# `__shared__ __align__(16) float As[2][64], last;`: alignment, type, and names with their bounds.
SHARED = re.compile(
    r"(?<!\w)(?<!extern )(?:static\s+)?__shared__[ \t]+(?:(?:__align__|alignas)\(([^()]*)\)[ \t]+)?"
    r"((?:(?:const|volatile|unsigned|signed|long|short)[ \t]+)*[\w:]+(?:<[^<>;]*>)?(?:[ \t]+(?:long|int|char))*)[ \t]+"
    r"(\w+(?:\[[^\];<>]+\])*(?:\s*,\s*\w+(?:\[[^\];<>]+\])*)*)\s*;"
)
# `__device__ float table[4] = ...` at file scope, functions apart.
DEVICE_VARIABLE = re.compile(
    r"^(?:static\s+)?(__device__|__constant__)\s+((?:__align__\([^()]*\)|[^(){};=])+)[;={]", re.MULTILINE
)


def for_host(text: str) -> str:
    """`text` with the declarations that no macro makes C++ in other words, on the same lines: `extern __shared__`."""

    def pointer(found: re.Match[str]) -> str:
        indent, ctype, name = found.groups()
        memory = f"reinterpret_cast<{ctype}*>(gemmgen::dynamic_shared_memory(__LINE__))"
        return f"{indent}{ctype}* const {name} = {memory};" if indent else f"#define {name} ({memory})"

    def aligned(found: re.Match[str]) -> str:
        alignment, ctype, names = found.groups()
        return " ".join(_shared_array(alignment or "1", ctype, name) for name in re.split(r",(?![^\[]*\])", names))

    return re.sub(r"\bstatic(\s+__shared__)", r"\1", SHARED.sub(aligned, DYNAMIC_SHARED.sub(pointer, text)))


def _shared_array(alignment: str, ctype: str, declared: str) -> str:
    """Of `As[2][64]` what aligns it as CUDA does, and no further; see gemmgen_emulator.hpp."""
    name, bounds = declared.strip(), ""
    if "[" in name:
        name, bracket, rest = name.partition("[")
        bounds = bracket + rest
    held = f"{name.strip()}_gemmgen_shared"
    array = f"gemmgen::Shared<{ctype}{bounds}, {alignment}>"
    return f"__shared__ {array} {held} = {{}}; static auto& {name.strip()} = {held}.value;"


def device_variables(text: str) -> dict[str, bool]:
    """The variables at file scope in global and constant memory, by name: whether a kernel may write them."""
    found = {}
    for space, declared in DEVICE_VARIABLE.findall(text):
        names = (re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", part) for part in declared.split(","))
        constant = space == "__constant__" or re.search(r"\b(const|constexpr)\b", declared) is not None
        found.update({name[1]: not constant for name in names if name})
    return found


def exports(source: KernelSource, sites: int) -> str:
    """The lines behind a kernel's text that the runtime finds it by, and its probes at so many `sites`."""
    variables = device_variables(source.text).items()
    listed = " ".join(f"GEMMGEN_VARIABLE({name}, {str(written).lower()})" for name, written in variables)
    *prepares, kernel = source.program
    entries = " ".join(
        f"GEMMGEN_ENTRY({one.name}, ({most_threads(one, MAX_THREADS)}), ({cluster_dims(one)}))"
        for one in (kernel, *prepares)
    )
    exported = f"GEMMGEN_ENTRIES({entries}, {_dynamic_alignment(source.text)})"
    return f"{exported}\nGEMMGEN_VARIABLES({listed})\nGEMMGEN_SITES({sites})\n"


def _dynamic_alignment(text: str) -> int:
    """Of dynamic shared memory, in bytes: the largest that its declarations ask for."""
    asked = [before or behind for before, behind in DYNAMIC_ALIGNMENT.findall(text)]
    if not all(one.isdecimal() or not one for one in asked):
        return MOST_ALIGNMENT
    return max((LEAST_ALIGNMENT, *(int(one) for one in asked if one))) if asked else MOST_ALIGNMENT
