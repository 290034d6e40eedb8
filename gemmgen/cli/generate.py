"""`gemmgen generate`: one kernel from given parameters."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from gemmgen.api.rendering import generate as generate_kernel
from gemmgen.cli.options import (
    FAMILY,
    ProblemOptions,
    Sectioned,
    Shape,
    arch_option,
    as_option,
    axis_value,
    json_option,
    out_option,
    out_words,
    problem_options,
    shape_argument,
)
from gemmgen.cli.output import emit
from gemmgen.cli.reports.words import bold, show_written
from gemmgen.exports.json_records import kernel_document
from gemmgen.families import DEFAULT_FAMILY, plan_of
from gemmgen.kernel.model import predict
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DeviceSpec
from gemmgen.render.kernel_text import problem_words
from gemmgen.run.card import compile_target
from gemmgen.support.words import figure


@click.command(cls=Sectioned)
@shape_argument
@click.option(
    "--set",
    "settings",
    type=axis_value,
    metavar="NAME=VALUE",
    multiple=True,
    help="A parameter, e.g. BM=64; repeat for more.",
)
@click.option(
    "--family",
    type=FAMILY,
    help=f"Family of the kernel.  [default: the one that the model ranks first; {DEFAULT_FAMILY} with --set]",
)
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
    family: str | None,
    options: ProblemOptions,
    arch: str,
    own_name: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Render one kernel, without compiling or running it.

    With neither --family nor --set it is the kernel that the model predicts to be the fastest. Else parameters that
    --set leaves out keep the family's defaults; `gemmgen space SHAPE` lists them all. A value that breaks a constraint
    is refused with the numbers that break it and the nearest values that would do.

    \b
    Examples:
      gemmgen generate 4096x4096x4096 --dtype bf16
      gemmgen generate 1024x1024x1024 --set BM=64 --set BN=64
      gemmgen generate '?x4096x4096' --layout rc --ld-align 4
    """
    problem = options.problem(shape)
    source = generate_kernel(
        problem,
        family=family,
        arch=arch,
        out=out,
        name=own_name,
        command=shlex.join(["gemmgen", *words]),
        **dict(settings),
    )
    files = [str(out / f"{source.name}{suffix}") for suffix in (".cu", ".json")]
    name, card = compile_target(arch)
    ranked = family is None and not settings
    emit(
        as_json,
        lambda: {**kernel_document(source), "arch": name, "files": files},
        lambda console: _show(console, source, card, ranked, files, out),
    )


def _show(
    console: Console, source: KernelSource, card: DeviceSpec, ranked: bool, files: Sequence[str], out: Path
) -> None:
    """What was written, and what to do next. `ranked`: the model chose it."""
    plan = plan_of(source)
    chosen = ", which the model ranks first" if ranked else ""
    time = f"{figure(predict(plan, card).time_us)} us, predicted for {card.name}; nothing was compiled, run or measured"
    facts = {"kernel": source.name, "config": f"{plan.config} of {source.family}{chosen}", "time": time}
    for title, value in facts.items():  # no table: that would break the kernel's name in two
        console.print(bold(f"{title:<6}"), value, sep="  ", soft_wrap=True)
    named, problem = f"{source.name}{out_words(out)}", source.problem
    typical = [f"--typical {size}={number}" for size, number in problem.typical]
    commands = (
        f"gemmgen verify {named}",
        f"gemmgen explain {named}",
        f"gemmgen export {named} --to DIR",
        " ".join(["gemmgen tune", *problem_words(problem), *typical, f"--arch {source.arch}"]),
    )
    show_written(console, files, commands)
