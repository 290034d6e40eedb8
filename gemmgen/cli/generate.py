"""`gemmgen generate`: one kernel from given parameters."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from gemmgen.api.rendering import generate as generate_kernel
from gemmgen.cli.options import (
    ProblemOptions,
    Sectioned,
    Shape,
    arch_option,
    as_option,
    family_option,
    json_option,
    out_option,
    problem_options,
    setting,
    shape_argument,
)
from gemmgen.cli.output import emit
from gemmgen.exports.json_records import kernel_document
from gemmgen.run.card import compile_target


@click.command(cls=Sectioned)
@shape_argument
@click.option(
    "--set",
    "settings",
    type=setting,
    metavar="NAME=VALUE",
    multiple=True,
    help="A parameter, e.g. BM=64; repeat for more.",
)
@family_option
@problem_options
@arch_option
@as_option
@out_option("Folder for NAME.cu and NAME.json.")
@json_option
@click.pass_obj
def command(
    words: list[str],
    shape: Shape,
    settings: tuple[tuple[str, int], ...],
    family: str,
    options: ProblemOptions,
    arch: str,
    own_name: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Render one kernel from given parameters, without compiling or running it.

    Parameters that --set leaves out keep the family's defaults; `gemmgen space SHAPE` lists them all. A value
    that breaks a constraint is refused with the numbers that break it and the nearest values that would do.

    \b
    Examples:
      gemmgen generate 1024x1024x1024 --set BM=64 --set BN=64
      gemmgen generate '?x4096x4096' --layout rc --ld-align 4
    """
    source = generate_kernel(
        options.problem(shape),
        family=family,
        arch=arch,
        out=out,
        name=own_name,
        command=shlex.join(["gemmgen", *words]),
        **dict(settings),
    )
    path = out / f"{source.name}.cu"
    emit(
        as_json,
        lambda: {
            **kernel_document(source),
            "arch": compile_target(arch)[0],
            "files": [str(path), str(path.with_suffix(".json"))],
        },
        lambda console: console.print(str(path), soft_wrap=True),
    )
