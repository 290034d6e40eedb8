"""The output for a search space: its axes, and how many configs the rules leave."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from gemmgen.cli.reports.words import accepted, bold, show_table, table
from gemmgen.kernel.config import Constraint
from gemmgen.search.space import Space
from gemmgen.support.words import percent


def show_space(console: Console, space: Space, arch: str) -> None:
    """Print axes, counts, and rejections by reason."""
    console.print(bold(space.problem), f", family {space.family.name}, {arch}\n", sep="")
    show_table(console, _axes(space))
    console.print(f"{space.total:,} configs, {accepted(len(space.accepted), space.total)}\n")
    show_table(console, _rejections(space))


def _axes(space: Space) -> Table:
    made = table("<axis", "<the search tries", "default", "<<meaning", title="axes")
    default = space.family.default(space.problem)
    for axis in space.family.config_type.axes():
        tried = " ".join(map(str, axis.values)) + (" per SM" if axis.per_sm else "")
        made.add_row(axis.name, tried, str(default.values[axis.name]), axis.described)
    return made


def _rejections(space: Space) -> Table:
    made = table("configs", "share", "<kind", "<<rule", "<<because", title="rejected, each by the first rule it breaks")
    for rule, count in space.rejected:
        share = percent(count / space.total)
        made.add_row(f"{count:,}", share, _kind(space, rule), rule.expression, rule.because)
    return made


def _kind(space: Space, rule: Constraint) -> str:
    """The kind of a rule: a constraint rejects what cannot work, pruning what would only be slow."""
    return "pruned" if rule in space.family.pruning else "constraint"
