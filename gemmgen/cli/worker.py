"""`gemmgen worker`: this machine's part of a cluster."""

from __future__ import annotations

import click

from gemmgen.cli.output import stderr
from gemmgen.pool.cluster import require_safe
from gemmgen.pool.worker import GPU, places, serve
from gemmgen.support.words import plural


@click.command()
@click.argument("address", metavar="ADDRESS")
@click.option(
    "--cpus",
    type=click.IntRange(0),
    metavar="N",
    help="Workers that compile and emulate.  [default: one a core, 2 cores left to each GPU]",
)
def command(address: str, cpus: int | None) -> None:
    """Work for the scheduler at ADDRESS (`dask scheduler` starts one): a worker for each GPU, and others.

    A command with --cluster ADDRESS then has its kernels compiled, emulated and run here. Workers are named for the
    host and the card's UUID. They end with the scheduler, or when they are interrupted.
    """
    require_safe(address)
    wanted = places(cpus)
    gpus = sum(one.resource == GPU for one in wanted)
    words = f"{plural(gpus, 'GPU worker')} and {plural(len(wanted) - gpus, 'CPU worker')}"
    stderr().print(f"{words} for {address}")
    serve(address, wanted)
