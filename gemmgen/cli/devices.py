"""`gemmgen devices`: what is here and what is known."""

from __future__ import annotations

import click

from gemmgen.cli.options import json_option
from gemmgen.cli.output import emit
from gemmgen.cli.reports.devices import show_devices
from gemmgen.run.here import here, known_document


@click.command()
@click.option("--measure", is_flag=True, help="Measure the GPU's own limits: FMA rates, read and copy bandwidth.")
@json_option
def command(measure: bool, as_json: bool) -> None:
    """Show what this machine has, and the architectures and cards that gemmgen knows.

    Any card's name or architecture goes with --arch; cards that are not at hand are predicted by data-sheet rates.
    """
    found = here(measure=measure)
    emit(
        as_json,
        lambda: {"here": found.document(), "known": known_document()},
        lambda console: show_devices(console, found),
    )
