"""`gemmgen import`: reads measured times from the formats of other tuners."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from gemmgen.cli.options import FAMILY, ProblemOptions, Shape, json_option, problem_options
from gemmgen.cli.output import emit
from gemmgen.exports.writing import DEFAULT_OUT
from gemmgen.families import family_named
from gemmgen.lab.formats.importing import read_foreign, times_of
from gemmgen.lab.study.times import save_times
from gemmgen.problem.device import device_named
from gemmgen.problem.sizes import parse_shape
from gemmgen.support.errors import require
from gemmgen.support.files import Store
from gemmgen.support.words import plural


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--shape", type=parse_shape, help="MxNxK of a file that does not say, with the options of a problem.")
@click.option("--family", type=FAMILY, help="Family of its configs.")
@click.option("--device", help="Card that measured, where the file names none that gemmgen knows: H200, say.")
@click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_OUT / "times.json",
    show_default=True,
    help="The file of measured times to write.",
)
@problem_options
@json_option
@click.pass_obj
def command(
    words: list[str],
    paths: Sequence[Path],
    options: ProblemOptions,
    shape: Shape | None,
    family: str | None,
    device: str | None,
    to: Path,
    as_json: bool,
) -> None:
    """Read measured times from CSV or Kernel Tuner's cache files.

    Files of gemmgen results name their problem, family and card. For other files give --shape and --family; the
    parameters are the family's axes, and times of Kernel Tuner are in milliseconds. Register counts that a file
    lacks come from compiling.

    The times become a file for gemmgen study model --data, which compares the model with them.
    """
    require((shape is None) == (family is None), "--shape and --family say together what a file does not: give both")
    meant = None if shape is None or family is None else (options.problem(shape), family_named(family))
    found = [one for path in paths for one in read_foreign(path, meant)]
    times = times_of(found, None if device is None else device_named(device), shlex.join(["gemmgen", *words]), Store())
    save_times(times, to)
    count = sum(len(part.rows) for part in times.measured)
    said = f"{plural(count, 'time')} of {plural(len(times.problems), 'problem')} on {times.device.name}"
    left_out = sum(len(one.rows) for one in found) - count
    emit(
        as_json,
        lambda: {"file": str(to), "times": count, "problems": len(times.problems), "left_out": left_out},
        lambda console: console.print(
            f"{to}: {said}; {plural(left_out, 'config')} left out, which failed or are not accepted", soft_wrap=True
        ),
    )
