"""`gemmgen study`: series of kernels that teach, side by side."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from gemmgen.api import ladder as climb
from gemmgen.cli.options import (
    ProblemOptions,
    Shape,
    arch_option,
    device_option,
    json_option,
    out_option,
    problem_options,
    shape,
)
from gemmgen.cli.output import emit
from gemmgen.cli.progress import watch
from gemmgen.report.ladder import show_ladder
from gemmgen.target import DeviceChoice


@click.group()
def command() -> None:
    """Series of kernels that differ in one idea each, verified and timed side by side."""


@command.command()
@click.argument("size", metavar="[SHAPE]", type=shape, default="1024x1024x1024")
@problem_options
@arch_option
@device_option
@click.option("--budget", type=click.IntRange(1), help="Candidates of the search for the last rung.")
@out_option("Folder for each rung's NAME.cu and NAME.json.")
@json_option
@click.pass_obj
def ladder(
    words: list[str],
    size: Shape,
    options: ProblemOptions,
    arch: str,
    device: DeviceChoice,
    budget: int | None,
    out: Path,
    as_json: bool,
) -> None:
    """From one thread an element to the tuned kernel for SHAPE, one idea at a time. [SHAPE: 1024x1024x1024]

    Each rung is verified like any candidate, and all are timed in turns; without a GPU their times are predicted.
    """
    line = shlex.join(["gemmgen", *words])
    with watch() as progress:
        steps, documents = climb(
            options.problem(size), device=device, arch=arch, budget=budget, out=out, command=line, progress=progress
        )

    def document() -> dict[str, Any]:
        return {"rungs": documents}

    emit(as_json, document, lambda console: show_ladder(console, steps))
