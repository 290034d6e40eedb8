"""`gemmgen space`: shows the search space of a family."""

from __future__ import annotations

import click

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
from gemmgen.exports.json_records import space_document
from gemmgen.families import DEFAULT_FAMILY, family_named
from gemmgen.lab.prints.space import show_space
from gemmgen.run.card import compile_target
from gemmgen.search.space import explore


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
