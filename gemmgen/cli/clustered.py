"""--cluster: lanes on its workers, and what a person hears of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from gemmgen.cli.output import stderr
from gemmgen.pool.cluster import Cluster
from gemmgen.pool.worker import GPU
from gemmgen.problem.device import DEFAULT_ARCH, DeviceSpec, device_for, parse_arch
from gemmgen.run.gpu.properties import DeviceProperties
from gemmgen.run.target import DeviceChoice, spec_of
from gemmgen.support.child import Child, crew
from gemmgen.verification.lanes import cluster_lanes


class Workers(NamedTuple):
    """What runs kernels: lanes, which executor they have, and the card, or the one that stands for emulators."""

    lanes: Sequence[Child]
    executor: str
    card: DeviceSpec


@contextmanager
def workers_of(where: str, device: DeviceChoice) -> Iterator[Workers]:
    """Those of the cluster at `where`, with GPUs where `device` is not "emulator" and it has some.

    Says which they are, and at the end which were lost. Raises InvalidInput where there are none.
    """
    with Cluster(where) as cluster:
        resource = cluster.resource_for(device)
        stderr().print(f"{where}: {cluster}")
        card = device_for(parse_arch(DEFAULT_ARCH))
        if resource == GPU and cluster.card is not None:
            card = spec_of(DeviceProperties(**cluster.card))
        with crew(cluster_lanes(cluster, resource)) as lanes:
            yield Workers(lanes, "gpu" if resource == GPU else "emulator", card)
        if lost := cluster.lost():
            stderr().print(f"workers that were lost, whose work was done again: {', '.join(lost)}")
