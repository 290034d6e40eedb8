"""--cluster: lanes on its workers, and what a person hears of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from gemmgen.cli.output import stderr
from gemmgen.pool.cluster import Cluster
from gemmgen.pool.worker import GPU
from gemmgen.problem.device import DEFAULT_ARCH, DeviceSpec, device_for, parse_arch
from gemmgen.run.card import spec_of
from gemmgen.run.gpu.capability import DeviceProperties
from gemmgen.run.target import DeviceChoice
from gemmgen.support.child import Child, crew
from gemmgen.support.errors import require
from gemmgen.verification.parallel import cluster_lanes


class Workers(NamedTuple):
    """What runs kernels: lanes, which executor they have, and the card, or the one that stands for emulators."""

    lanes: Sequence[Child]
    executor: str
    card: DeviceSpec


@contextmanager
def cluster_at(where: str, device: DeviceChoice) -> Iterator[Cluster]:
    """The cluster at `where`, for kernels on `device`. Says who works there, and at the end who was lost."""
    with Cluster(where, device) as cluster:
        stderr().print(f"{where}: {cluster}")
        yield cluster
        if lost := cluster.lost():
            stderr().print(f"workers that were lost, whose requests others did again: {', '.join(lost)}")


@contextmanager
def workers_of(where: str, device: DeviceChoice) -> Iterator[Workers]:
    """Those of the cluster at `where`, with GPUs where `device` is not "emulator" and it has some.

    Raises InvalidInput where there are none.
    """
    with cluster_at(where, device) as cluster:
        resource = cluster.resource_for(device)
        card = card_of(cluster) if resource == GPU else device_for(parse_arch(DEFAULT_ARCH))
        with crew(cluster_lanes(cluster, resource)) as lanes:
            yield Workers(lanes, "gpu" if resource == GPU else "emulator", card)


def card_of(cluster: Cluster) -> DeviceSpec:
    """That of its GPU workers. Raises InvalidInput where there are none."""
    require(cluster.card is not None, f"no worker of the cluster at {cluster.where} has a GPU")
    assert cluster.card is not None
    return spec_of(DeviceProperties(**cluster.card))
