"""A library: what was chosen for each product, and how good the choices are."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gemmgen.artifacts.library.building import Library
from gemmgen.artifacts.library.regret import ProductRegret
from gemmgen.cli.reports.words import bold, percent, show_table, table


def show_regrets(console: Console, found: Sequence[ProductRegret]) -> None:
    """A line for each product and architecture: how much longer choices take than the best kernel."""
    rows = table("<product", "<arch", "<times", "<on", "sizes", "mean", "geometric", "at 95%", "worst", "<<at")
    for one in found:
        regret, worst = one.regret, one.worst
        shares = (regret.arithmetic, regret.mean, regret.p95, regret.worst)
        at = "x".join(map(str, worst.sizes)) if regret.worst else ""
        rows.add_row(one.product, one.arch, one.kind, one.device, str(regret.points), *map(percent, shares), at)
    show_table(console, rows)
    kinds = {one.kind for one in found}
    console.print(*(MEANINGS[kind] for kind in MEANINGS if kind in kinds), sep="\n", soft_wrap=True)


MEANINGS = {
    "measured": "measured: the kernels were timed here, for sizes drawn at random that are not of the grid",
    "cross-validated": "cross-validated: nothing was measured here, as there is no GPU of this architecture; sizes "
    "that the record has measured times of were decided by rules that were made without them",
    "predicted": "predicted: there is no GPU of this architecture here, and no measured time on record; the "
    "model's times were compared",
}


def show_library(console: Console, made: Library) -> None:
    """A line for each product and architecture, and the files."""
    rows = table("<product", "<arch", "kernels", "rules", "<times", "<on", "regret", "at 95%", "<<for")
    for choice in made.choices:
        sizes = " x ".join(f"[{one}]" if one.listed[1:] else str(one) for one in choice.product.ranges)
        rows.add_row(
            *(choice.product.name, choice.arch, str(len(choice.members)), str(len(choice.rules))),
            *(choice.kind, choice.device, percent(choice.regret.mean), percent(choice.regret.p95), sizes),
        )
    show_table(console, rows)
    predicted = any(choice.kind == "predicted" for choice in made.choices)
    drawn = max(choice.regret.points for choice in made.choices)
    console.print(
        f"regret: how much longer the choice takes than the best kernel of the library, over {drawn} sizes that the "
        "rules were not made of; geometric mean, and 95th percentile"
        + (", predicted as the times are: `--regret` measures it on a GPU\n" if predicted else "\n")
    )
    for title, paths in (("files", made.files), ("removed", made.removed), ("edited, so they stay", made.left)):
        if paths:
            console.print(bold(title), *paths, sep="\n  ", soft_wrap=True)
