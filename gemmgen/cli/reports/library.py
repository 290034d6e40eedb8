"""A library: what was chosen for each product, and how good the choices are."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gemmgen.cli.reports.words import bold, show_table, table
from gemmgen.exports.library.building import Library
from gemmgen.exports.library.choice import beside_library
from gemmgen.exports.library.regret import ProductRegret
from gemmgen.support.words import percent


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
    "cross-validated": "cross-validated: nothing was measured here, as there is no GPU of this architecture; sizes "
    "that the record has measured times of were decided by rules that were made without them",
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
