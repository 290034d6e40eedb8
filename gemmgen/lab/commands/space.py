"""`gemmgen space`: shows the search space of a family."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from gemmgen.cli.options import (
    FAMILY,
    ProblemOptions,
    Sectioned,
    Shape,
    arch_option,
    json_option,
    problem_options,
    shape_argument,
)
from gemmgen.cli.output import emit
from gemmgen.cli.reports.words import accepted, bold, show_table, table
from gemmgen.exports.json_records import space_document
from gemmgen.families import DEFAULT_FAMILY, family_named
from gemmgen.kernel.config import Constraint
from gemmgen.run.card import compile_target
from gemmgen.search.space import Space, explore
from gemmgen.support.words import percent


@click.command(cls=Sectioned)
@shape_argument
@click.option("--family", type=FAMILY, default=DEFAULT_FAMILY, show_default=True, help="Family of the kernels.")
@problem_options
@arch_option
@json_option
def command(shape: Shape, family: str, options: ProblemOptions, arch: str, as_json: bool) -> None:
    """Show the axes of a family, how many configs are accepted, and why the others are not.

    A constraint rejects configs that cannot work; pruning leaves out configs that work but are slow. `gemmgen generate
    --set` accepts every config that satisfies the constraints.
    """
    name, spec = compile_target(arch)
    space = explore(family_named(family), options.problem(shape), spec)
    emit(as_json, lambda: {"arch": name, **space_document(space)}, lambda console: show_space(console, space, name))


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
