"""`gemmgen bench`: ours against cuBLASLt's best."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from gemmgen.api.kernels import bench
from gemmgen.cli.options import (
    ProblemOptions,
    Sectioned,
    json_option,
    out_option,
    problem_options,
)
from gemmgen.cli.output import emit
from gemmgen.cli.progress import watch
from gemmgen.cli.reports.bench import show_bench
from gemmgen.problem.sizes import parse_shape
from gemmgen.support.errors import InvalidInput


@click.command(cls=Sectioned)
@click.argument("what", metavar="SHAPE|NAME|FILE...", nargs=-1, required=True)
@problem_options
@out_option("Folder in which winners are looked up, and written if tuned now.")
@click.option(
    "--energy", is_flag=True, help="Let each run alone for 2 s, too, and ask the card for energy, power and clocks."
)
@json_option
@click.pass_obj
def command(
    words: list[str], what: Sequence[str], options: ProblemOptions, out: Path, energy: bool, as_json: bool
) -> None:
    """Time kernels against cuBLASLt, interleaved in one run. Needs a GPU.

    For a SHAPE, the card's winner on file (--out, then generated/) or, where there is none, one that is tuned first.
    cuBLASLt is asked for all its heuristics and each is timed; its best is the baseline. That of batches of pointers is
    cuBLAS's gemmBatched. Both stand beside the card's own measured limits. The result is added to the kernel's JSON,
    unless that is of another card.

    --energy needs nvidia-ml-py. What the driver does not tell, or not to everybody, is left out.
    """
    wanted = [options.problem(parse_shape(text)) if is_shape(text) else text for text in what]
    with watch() as progress:
        rows = bench(*wanted, out=out, energy=energy, command=shlex.join(["gemmgen", *words]), progress=progress)
    emit(as_json, lambda: {"results": [row.document() for row in rows]}, lambda console: show_bench(console, rows))


def is_shape(text: str) -> bool:
    """Whether `text` means a shape rather than a kernel: a wrong shape such as 0x5x5 does too."""
    try:
        parse_shape(text)
    except InvalidInput:
        return False
    return True
