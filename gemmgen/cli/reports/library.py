"""A library: what was chosen for each product, and how good the choices are."""

from __future__ import annotations

from rich.console import Console

from gemmgen.artifacts.library.building import Library
from gemmgen.cli.reports.words import bold, percent, show_table, table


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
    drawn = max(choice.regret.points for choice in made.choices)
    console.print(
        f"regret: how much longer the choice takes than the best kernel of the library, over {drawn} sizes that the "
        "rules were not made of; geometric mean, and 95th percentile\n"
    )
    for title, paths in (("files", made.files), ("removed", made.removed), ("edited, so they stay", made.left)):
        if paths:
            console.print(bold(title), *paths, sep="\n  ", soft_wrap=True)
