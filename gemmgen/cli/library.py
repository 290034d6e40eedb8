"""`gemmgen library`: kernels of several products behind one dispatcher, as a folder that another project takes in."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click
from rich.console import Console

from gemmgen.api.products import library as make_library
from gemmgen.api.products import regret as measure_regret
from gemmgen.cli.clustered import cluster_at
from gemmgen.cli.options import (
    Sectioned,
    arch_option,
    cluster_option,
    device_option,
    json_option,
    seed_option,
)
from gemmgen.cli.output import emit
from gemmgen.cli.progress import watch
from gemmgen.cli.reports.words import bold, show_table, table
from gemmgen.exports.json_records import Document
from gemmgen.exports.library.building import Library
from gemmgen.exports.library.choice import beside_library
from gemmgen.exports.library.choices_json import choice_document
from gemmgen.exports.library.clustered import LANE
from gemmgen.exports.library.regret import ProductRegret
from gemmgen.pool.worker import GPU
from gemmgen.run.target import DeviceChoice
from gemmgen.support.child import Child, crew
from gemmgen.support.errors import require
from gemmgen.support.words import percent


@click.command(cls=Sectioned)
@click.argument("spec", metavar="SPEC.toml", type=click.Path(path_type=Path))
@click.option("--to", type=click.Path(path_type=Path), required=True, help="Folder for the library's files.")
@device_option
@click.option(
    "--budget",
    type=click.IntRange(1),
    help="Candidates of each search; of one search for many sizes, those per size in its first round.  "
    "[default: 24, and 6 per size; without a GPU 1, 2 where that fails]",
)
@click.option(
    "--examples",
    type=click.IntRange(0),
    help="Situations to verify each kernel in, 0 for none.  [default: as `export`; emulated a sixth of that]",
)
@click.option(
    "--points",
    type=click.IntRange(8),
    help="Sizes at which a product's kernels are timed, at most.  [default: 224 on a GPU, 256 predicted]",
)
@click.option(
    "--fallback",
    type=click.Choice(["cublaslt"]),
    help="What may serve sizes for which it was measured to be faster than all kernels; the library then needs it.",
)
@click.option(
    "--regret",
    is_flag=True,
    help="Make nothing: time the choices of the library in --to against the fastest of all candidates, over sizes "
    "drawn at random.",
)
@click.option("--sizes", type=click.IntRange(1), help="How many, with --regret on a GPU.  [default: 200]")
@seed_option
@arch_option
@cluster_option
@json_option
@click.pass_obj
def command(
    words: list[str],
    spec: Path,
    to: Path,
    device: DeviceChoice,
    budget: int | None,
    examples: int | None,
    points: int | None,
    fallback: Literal["cublaslt"] | None,
    regret: bool,
    sizes: int | None,
    seed: int,
    arch: str,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Write a library: NAME.h, a .cu for each kernel, a dispatcher, CMake, self-test, certificate and record.

    SPEC.toml names the library and its architectures. Each [[product]] has types, layout, epilogue, batch and the sizes
    M, N and K that count. A size is a number, a list, a range ("1..8192") or "?" for any. A batch is the number of
    products for which kernels are chosen, or "?": the function takes any number. docs/library-file.md describes all
    keys. Kernels are tuned for some of the sizes, timed over a grid of them, and chosen by rules that the dispatcher
    holds as a table. Every product has a kernel that serves all sizes. What was found before is kept: with a changed
    SPEC.toml only what changed is done again, and files that are no longer named are removed.

    \b
    name = "mylinear"
    architectures = ["sm_80", "sm_90"]
    [[product]]
    types = "bf16"
    layout = "rc"
    M = "1..8192"
    N = 4096
    K = [4096, 11008]
    epilogue = "bias+gelu"
    """
    if regret:
        making = {"--budget": budget, "--examples": examples, "--points": points, "--fallback": fallback}
        given = ", ".join(name for name, value in making.items() if value is not None)
        require(not given, f"--regret makes nothing: leave out {given}")
        require(cluster is None, "--regret times kernels on the GPU here: leave out --cluster")
        with watch() as progress:
            found = measure_regret(spec, to=to, device=device, arch=arch, sizes=sizes, seed=seed, progress=progress)
        emit(as_json, lambda: [_regret_document(one) for one in found], lambda console: show_regrets(console, found))
        return
    require(sizes is None, f"--sizes {sizes} is of --regret")
    with _lanes(cluster, device) as (lanes, where), watch() as progress:
        made = make_library(
            spec,
            to=to,
            device=where,
            lanes=lanes,
            arch=arch,
            budget=budget,
            examples=examples,
            seed=seed,
            points=points,
            fallback=fallback,
            command=shlex.join(["gemmgen", *words]),
            progress=progress,
        )
    emit(as_json, lambda: _document(made), lambda console: show_library(console, made))


@contextmanager
def _lanes(where: str | None, device: DeviceChoice) -> Iterator[tuple[Sequence[Child], DeviceChoice]]:
    """(lanes of the cluster at `where`, what kernels run on there); none without one."""
    if where is None:
        yield (), device
        return
    with cluster_at(where, device) as cluster:
        resource = cluster.resource_for(device)
        with crew(cluster.lanes(resource, LANE)) as lanes:
            yield lanes, device if resource == GPU else "emulator"


def _regret_document(found: ProductRegret) -> Document:
    worst = found.worst
    return {
        "product": found.product,
        "arch": found.arch,
        "kind": found.kind,
        "device": found.device,
        **asdict(found.regret),
        "worst_call": {"keeps": worst.given.text, "sizes": worst.sizes, "us": worst.us, "best_us": worst.best_us},
    }


def _document(made: Library) -> Document:
    return {
        "library": made.spec.name,
        "choices": [choice_document(choice) for choice in made.choices],
        "files": [str(path) for path in made.files],
        "removed": [str(path) for path in made.removed],
        "left": [str(path) for path in made.left],
    }


def show_regrets(console: Console, found: Sequence[ProductRegret]) -> None:
    """A line for each product and architecture: how much longer choices take than the fastest candidate."""
    rows = table(
        *["<product", "<arch", "<times", "<on", "sizes", "mean", "geometric"], "at 95%", "worst", "<at", *BESIDE
    )
    for one in found:
        regret, worst = one.regret, one.worst
        shares = (regret.arithmetic, regret.mean, regret.p95, regret.worst)
        at = "x".join(map(str, worst.sizes)) if regret.worst else ""
        rows.add_row(
            *(one.product, one.arch, one.kind, one.device, str(regret.points), *map(percent, shares), at),
            *_beside(beside_library(one.drawn)),
        )
    show_table(console, rows)
    kinds = {one.kind for one in found}
    console.print(*(MEANINGS[kind] for kind in MEANINGS if kind in kinds), sep="\n", soft_wrap=True)


BESIDE = ("cuBLASLt/ours", "least")  # columns: its time over that of the choice, geometric mean and least


def _beside(ratios: tuple[float, float] | None) -> tuple[str, str]:
    return ("", "") if ratios is None else (f"{ratios[0]:.3f}", f"{ratios[1]:.3f}")


MEANINGS = {
    "measured": "measured: the kernels were timed here, for sizes drawn at random that are not of the grid",
    "recorded": "recorded: nothing was measured here, as there is no GPU of this architecture; these are the times "
    "that were measured when the library was made",
    "predicted": "predicted: there is no GPU of this architecture here, and no measured time on record; the "
    "model's times were compared",
}


def show_library(console: Console, made: Library) -> None:
    """A line for each product and architecture, what fewer kernels would cost, and the files."""
    rows = table("<product", "<arch", "kernels", "<times", "<on", "regret", "at 95%", *BESIDE, "<<for")
    for choice in made.choices:
        sizes = " x ".join(f"[{one}]" if one.listed[1:] else str(one) for one in choice.product.ranges)
        rows.add_row(
            *(choice.product.name, choice.arch, str(len(choice.members)), choice.kind, choice.device),
            *(percent(choice.regret.mean), percent(choice.regret.p95), *_beside(choice.beside_library), sizes),
        )
    show_table(console, rows)
    for choice in made.choices:
        for sets in choice.sets:
            losses = ", ".join(f"{len(one.kernels)}: {percent(one.slowdown)}" for one in sets)
            if len(sets) > 1:
                console.print(f"{choice.product.name}, {choice.arch}: slowdown by number of kernels: {losses}")
    if any(len(sets) > 1 for choice in made.choices for sets in choice.sets):
        console.print("slowdown: how much longer the best kernel of so many takes than the best of all candidates")
    predicted = any(choice.kind == "predicted" for choice in made.choices)
    drawn = max(choice.regret.points for choice in made.choices)
    fastest = (
        "the library's fastest kernel, by predicted times" if predicted else "the fastest candidate that was timed"
    )
    console.print(
        f"regret: how much longer the choice takes than {fastest}, over {drawn} sizes that the rules were not made of; "
        "geometric mean, and 95th percentile" + ("; `--regret` measures it on a GPU\n" if predicted else "\n")
    )
    for title, paths in (("files", made.files), ("removed", made.removed), ("edited, so they stay", made.left)):
        if paths:
            console.print(bold(title), *paths, sep="\n  ", soft_wrap=True)
