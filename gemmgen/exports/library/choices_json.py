"""The choices in a library's record, written and read back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gemmgen.exports.json_records import Document, problem_document
from gemmgen.exports.kernelfile import read_kernel, read_record, reading
from gemmgen.exports.library.choice import Choice, Drawn, Point, Rule
from gemmgen.exports.library.estimates import estimates_from
from gemmgen.exports.library.members import NAME as CUBLASLT
from gemmgen.exports.library.members import Contestant, CublasLt, Member, Needs
from gemmgen.exports.library.spec import Product, Spec, own_name
from gemmgen.exports.library.steps import steps_from
from gemmgen.exports.library.table import AXES, Box
from gemmgen.exports.record_form import shortened
from gemmgen.exports.record_reading import problem_from
from gemmgen.families import family_named
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import arch_number
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import require

Read = TypeVar("Read")
RECORD = ".record.json"  # behind a library's name
# Columns: the time of the fastest candidate, of cuBLASLt's first heuristic where it was timed, the number of products.
BESIDE = ("best us", "cuBLASLt us", "batch")


def choice_document(choice: Choice) -> Document:
    """The choice for a product on one architecture, with its candidates."""
    names = [member.name for member in choice.members]
    return {
        "product": choice.product.name,
        "arch": choice.arch,
        **({"summation": choice.kernels[0].summation} if choice.product.invariant else {}),
        "kernels": [_member_document(member, choice.arch) for member in choice.members],
        "object_bytes": choice.object_bytes,
        "load_ms": choice.load_ms,
        "rules": [rule_document(rule, names) for rule in choice.rules],
        "times": {
            "kind": choice.kind,
            "device": choice.device,
            "unit": "us",
            "columns": ["keeps", *AXES, *names, *BESIDE],
            "points": [
                [
                    point.given.text,
                    *point.sizes,
                    *(_rounded(point.times_us.get(one)) for one in range(len(names))),
                    _rounded(point.best_us),
                    _rounded(point.library_us),
                    point.batch,
                ]
                for point in choice.times
            ],
        },
        "sets": [[{**asdict(one), "kernels": len(one.kernels)} for one in some] for some in choice.sets],
        "rivals": [_kernel_document(one) for one in choice.rivals if not choice.product.kernels],
        "regret": {
            "kind": choice.kind,
            **asdict(choice.regret),
            "columns": ["keeps", *AXES, "us", *BESIDE],
            "drawn": [
                [one.given.text, *one.sizes, *map(_rounded, (one.us, one.best_us, one.library_us)), one.batch]
                for one in choice.drawn
            ],
        },
    }


def rule_document(rule: Rule, names: Sequence[str]) -> Document:
    """A rule over kernels that go by their `names`: see `rule_from`."""
    box = {"needs": rule.needs.text, "least": list(rule.box.least), "most": list(rule.box.most)}
    kernels = [names[one] for one in rule.kernels]
    if rule.steps is not None:
        return {**box, "kernels": kernels, "steps": asdict(rule.steps)}
    if rule.estimates is not None:
        return {**box, "kernels": kernels, "estimates": asdict(rule.estimates)}
    return {**box, "kernel": kernels[0]}


def _kernel_document(member: Member) -> Document:
    """A kernel as data from which it can be rendered again."""
    source = member.source
    problem = problem_document(replace(source.problem, typical=()))  # the text does not depend on typical sizes
    return shortened({"arch": member.arch, "family": source.family, "config": source.config, "problem": problem})


def _member_document(member: Contestant, arch: str) -> Document:
    needs = {"needs": member.needs.text, "fixed": dict(member.fixed)}
    if isinstance(member, CublasLt):
        return {"name": member.name, "arch": arch, **needs}
    return {"name": member.name, **needs, **_kernel_document(member)}


def _rounded(time_us: float | None) -> float | None:
    """A rounded time; null if a kernel does not serve the size, or failed."""
    return None if time_us is None or not math.isfinite(time_us) else round(time_us, 4)


def choices_from(spec: Spec, folder: Path) -> tuple[Choice, ...]:
    """The choices of the library in `folder`, which was made from `spec`.

    Raises InvalidInput if it holds no library, or one of another spec.
    """
    path = folder / f"{spec.name}{RECORD}"
    require(
        path.is_file(), f"{folder} holds no library {spec.name}: there is no {path}. Make it first, without --regret"
    )
    record = read_record(path)
    with reading(path, "the record of a library"):
        made = {(one["product"], one["arch"]): one for one in record["choices"]}
        wanted = [(product, arch) for arch in spec.architectures for product in spec.products]
        for product, arch in wanted:
            require(
                (product.name, arch) in made, f"nothing of product {product.name} for {arch}: make the library again"
            )
        member = partial(_member, folder=folder, library=spec.name)
        return tuple(
            _choice(product, arch, made[product.name, arch], partial(member, product)) for product, arch in wanted
        )


def choice_again(product: Product, document: Any) -> Choice:
    """Read the choice that `choice_document` wrote, with kernels rendered by this version. Raises InvalidInput."""
    arch = document["arch"]
    return _choice(product, arch, document, lambda one: _rendered(product, one, arch))


def _choice(product: Product, arch: str, document: Any, member: Callable[[Any], Contestant]) -> Choice:
    names, times = [one["name"] for one in document["kernels"]], document["times"]
    return Choice(
        product,
        arch,
        tuple(member(one) for one in document["kernels"]),
        tuple(rule_from(one, names) for one in document["rules"]),
        times["kind"],
        times["device"],
        tuple(_points(times["points"])),
        (),
        tuple(_rendered(product, one, arch) for one in document["rivals"]),
        tuple(_drawn(document["regret"]["drawn"])),
        document["load_ms"],
    )


def _rendered(product: Product, document: Any, arch: str) -> Member:
    """A kernel by family, config and problem. It is rendered for `arch`, and may be compiled for another, such as
    sm_90a."""
    family = family_named(document["family"])
    config = family.config_type().with_values(**document["config"])
    return Member(product, render(problem_from(document["problem"]), family, config, arch), document["arch"])


def _member(product: Product, document: Any, folder: Path, library: str) -> Contestant:
    """The kernel of this name in the library in `folder`."""
    if document["name"] == CUBLASLT:
        return CublasLt(product)
    kernel = read_kernel(folder / f"{own_name(library, document['name'])}.cu")
    return Member(product, kernel.source, document["arch"], record=kernel.record)


def rule_from(document: Any, names: Sequence[str]) -> Rule:
    """Read the rule that `rule_document` wrote, restricted to the kernels in `names`; it may be left with none."""
    asked = document.get("kernels") or [document["kernel"]]
    places = [place for place, name in enumerate(asked) if name in names]
    kernels = tuple(names.index(asked[place]) for place in places)
    estimates = estimates_from(document["estimates"]).of(places) if "estimates" in document else None
    steps = steps_from(document["steps"]).of(places) if "steps" in document else None
    box = Box(tuple(document["least"]), tuple(document["most"]))
    return Rule(needs_from(document["needs"]), box, kernels, (), estimates, steps)


def by_product(folder: Path, arch: str, make: Callable[[Any, Callable[[str], KernelSource]], Read]) -> dict[str, Read]:
    """The results of `make` for the products of the library in `folder`, by the products' names.

    `make` receives the record of a product's choice for a device of `arch` ("sm_90"), and a function that reads a
    kernel by its name.

    Raises InvalidInput if `folder` holds no library, or none for this architecture.
    """
    records = sorted(folder.glob(f"*{RECORD}"))
    require(len(records) == 1, f"{folder} holds {len(records)} libraries' records (NAME{RECORD}), not one")
    (path,) = records
    record, library = read_record(path), path.name.removesuffix(RECORD)

    def kernel(name: str) -> KernelSource:
        return read_kernel(folder / f"{own_name(library, name)}.cu").source

    with reading(path, "the record of a library"):
        names = dict.fromkeys(choice["product"] for choice in record["choices"])
        return {name: make(_choice_for(record["choices"], name, arch), kernel) for name in names}


def _choice_for(choices: Sequence[Any], product: str, arch: str) -> Any:
    """The record of the choice for the newest architecture whose kernels a device of `arch` can run.

    Raises InvalidInput if there is none.
    """
    mine = {choice["arch"]: choice for choice in choices if choice["product"] == product}
    fitting = [one for one, choice in mine.items() if _runs(choice, one, arch)]
    require(bool(fitting), f"product {product} has kernels for {', '.join(mine)}, and none that {arch} runs")
    return mine[max(fitting, key=arch_number)]


def _runs(choice: Any, made: str, arch: str) -> bool:
    """Whether a device runs the choice's kernels: those of sm_90a only there, others also on newer devices."""
    specific = any(kernel["arch"].endswith("a") for kernel in choice["kernels"])
    return arch_number(made) == arch_number(arch) if specific else arch_number(made) <= arch_number(arch)


def needs_from(text: str) -> Needs:
    """Read the text of `Needs.text`."""
    found = Needs.NONE
    for name in () if text == "ANY" else text.split(" | "):
        found |= Needs[name]
    return found


def _points(rows: Sequence[Sequence[Any]]) -> Iterator[Point]:
    for keeps, m, n, k, *times, best, library, batch in rows:
        known = {number: math.nan if time is None else float(time) for number, time in enumerate(times)}
        yield Point(needs_from(keeps), (m, n, k), known, best, library, batch)


def _drawn(rows: Sequence[Sequence[Any]]) -> Iterator[Drawn]:
    for keeps, m, n, k, us, best, library, batch in rows:
        yield Drawn(needs_from(keeps), (m, n, k), math.inf if us is None else us, best, library, batch)
