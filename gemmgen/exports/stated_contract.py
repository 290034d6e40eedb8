"""The contract that a kernel's own text states, and the promises that only the JSON beside it makes.

A kernel is judged only for the sizes, alignments and launch in its JSON. Its callers read its name and header, so the
JSON must not contradict these, and a verdict must list what the JSON adds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import LD_ALIGN, POINTER_ALIGN
from gemmgen.problem.sizes import RUNTIME
from gemmgen.render.naming import problem_name, short_name, stated_config, stated_problem
from gemmgen.render.rerender import rendered_or_none
from gemmgen.support.errors import InvalidInput, require

_SHORT = re.compile(r"gemm_.*_sm(?P<arch>\d+[af]?)_(?P<digits>[0-9a-f]{8})")


def require_agreement(source: KernelSource, path: Path) -> None:
    """Raise InvalidInput if the JSON at `path`, which describes `source`, contradicts its header or its name."""
    said, stated = problem_name(source.problem), _stated(source)
    require(
        stated in (None, said),
        f"{path} describes another problem than the kernel {source.name}: {said}, where the kernel's header or name "
        f"says {stated}. Which of the two is right nobody but their author knows",
    )
    match = _SHORT.fullmatch(source.name)
    short = source.name if match is None else short_name(source.problem, f"sm_{match['arch']}", match["digits"])
    require(
        short == source.name,
        f"{path} describes another problem than the kernel {source.name}: {said}, whose kernels are called {short}",
    )


def only_promised(source: KernelSource) -> tuple[str, ...]:
    """The facts about a kernel with a JSON that neither header nor name states: "ld_align = 4"."""
    return (*_unstated_problem(source), *_unstated_launch(source))


def launch_is_wrong(source: KernelSource) -> bool:
    """Whether gemmgen renders this text but the JSON launches it differently, so that the JSON is wrong."""
    rendered = _rendered(source)
    return rendered is not None and rendered.text == source.text and rendered.contract != source.contract


def _stated(source: KernelSource) -> str | None:
    return stated_problem(source.full_name or source.name)


def _unstated_problem(source: KernelSource) -> Iterator[str]:
    problem = source.problem
    if _stated(source) is not None:
        return
    if _SHORT.fullmatch(source.name) is None:
        yield problem_name(problem)
        return
    unnamed: dict[str, int | str] = {
        "pointer_align": POINTER_ALIGN,
        "ld_align": LD_ALIGN,
    }  # that short names leave out: what is usual
    unnamed |= dict.fromkeys((*problem.line_sizes, *problem.stride_sizes), "dense")
    for name, usual in unnamed.items():
        promised = getattr(problem, name)
        if promised != usual:
            yield f"{name} = {RUNTIME if promised is None else promised}"


def _unstated_launch(source: KernelSource) -> Iterator[str]:
    rendered, promised = _rendered(source), asdict(source.launch)
    if rendered is None:
        yield from (f"{name} = {value}" for name, value in source.launch.document.items())
        return
    for name, usual in asdict(rendered.launch).items():
        if promised[name] != usual:
            yield f"{name} = {promised[name]} (gemmgen launches it with {usual})"
    taken, usually = (", ".join(one.name for one in kernel.parameters) for kernel in (source, rendered))
    if source.parameters != rendered.parameters:
        yield f"parameters {taken} (gemmgen passes {usually})"


def _rendered(source: KernelSource) -> KernelSource | None:
    """The kernel of the config in the header, or else in the JSON; None if it is unknown."""
    try:
        stated = None if source.full_name is None else stated_config(source.full_name)
    except InvalidInput:
        return None
    if stated is not None:
        family, config = stated
        source = replace(source, family=family.name, config=config.values)
    return rendered_or_none(source)
