"""A cluster of dask.distributed workers, seen from gemmgen's process: its lanes answer like children."""

from __future__ import annotations

import runpy
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from gemmgen.pool import remote
from gemmgen.pool.connection import Connection
from gemmgen.pool.worker import CPU, GPU, LOOPBACK, configured, distributed, is_loopback, places_for
from gemmgen.run.target import DeviceChoice
from gemmgen.support.child import child_environment
from gemmgen.support.child_lifetime import Lifeline
from gemmgen.support.errors import InvalidInput, require
from gemmgen.support.words import plural, with_article

LOCAL = "local"
HERE_ALONE = {"host": LOOPBACK, "port": 0, "dashboard_address": f"{LOOPBACK}:0"}  # of a scheduler: any free ports
START_SECONDS = 60.0  # for the first worker to be there


class Cluster(Connection):
    """Workers by their resource, GPU or CPU. It is a context manager: leaving it ends what it started.

    A local cluster has only workers that run kernels on `device`: "auto", "gpu" or "emulator".

    Raises InvalidInput if there is no cluster at `where`, or if its workers differ from this gemmgen.
    """

    def __init__(self, where: str, device: DeviceChoice = "auto") -> None:
        distributed()
        self.where, self._device = where, device
        self._stack = ExitStack()
        self._stack.enter_context(configured())
        try:
            super().__init__(where, self._open(), uuid4().hex)
            self._addresses: dict[str, str] = {}
            self.known = self._described()
        except BaseException:
            self._stack.close()
            raise

    def _open(self) -> Any:
        if self.where == LOCAL:
            return self._started_here()
        if self.where.endswith(".py"):
            require(Path(self.where).is_file(), f"no file {self.where}: it is to have a function client()")
            made = runpy.run_path(self.where).get("client")
            require(callable(made), f"{self.where} has no function client(), which returns a distributed.Client")
            assert made is not None
            return self._stack.enter_context(made())
        require_safe(self.where)
        try:
            return self._stack.enter_context(distributed().Client(self.where, timeout=START_SECONDS))
        except (OSError, TypeError) as error:  # a TypeError where dask knows no certificates
            raise InvalidInput(f"no scheduler answers at {self.where}: {error}") from None

    def _started_here(self) -> Any:
        """Start a scheduler in this process, and the workers of this machine in another."""
        dask = distributed()
        scheduler = {"cls": dask.Scheduler, "options": {**HERE_ALONE, "dashboard": False}}
        cluster = self._stack.enter_context(dask.SpecCluster(scheduler=scheduler, workers={}, silence_logs="error"))
        command = [sys.executable, "-m", "gemmgen.pool.worker", cluster.scheduler_address, self._device]
        line = Lifeline()
        workers = subprocess.Popen(
            command,
            env=child_environment(),
            stderr=subprocess.DEVNULL,
            pass_fds=(line.end,),
            start_new_session=True,
        )
        line.tie(workers.pid)
        self._stack.callback(line.close)
        self._stack.callback(workers.wait)
        self._stack.callback(workers.terminate)
        return self._stack.enter_context(dask.Client(cluster))

    def _described(self) -> dict[str, Mapping[str, Any]]:
        """The description of each worker, by its name. Raises InvalidInput if workers differ."""
        deadline = time.monotonic() + START_SECONDS
        wanted = len(places_for(self._device)) if self.where == LOCAL else 1
        while len(names := self._names()) < wanted and time.monotonic() < deadline:
            time.sleep(0.1)
        require(bool(names), f"no worker at {self.where} after {START_SECONDS:g} s: gemmgen worker ADDRESS starts some")
        found = self.client.run(remote.describe, workers=list(names))
        described = {names[address]: what for address, what in found.items()}
        self._addresses = {names[address]: address for address in found}
        self.expected = require_alike(self.expected, described)
        return described

    def _names(self) -> dict[str, str]:
        """Names of the workers by their addresses."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {address: str(one["name"]) for address, one in workers.items()}

    def share(self, resource: str) -> int:
        """The largest number of workers with the resource on one host, which share its memory."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        hosts = Counter(one["host"] for one in workers if one["resources"].get(resource, 0) > 0)
        return max(hosts.values(), default=1)

    def resource_for(self, device: DeviceChoice) -> str:
        """The resource of the workers that run kernels on `device`: "auto", "gpu" or "emulator".

        Raises InvalidInput if no worker has it.
        """
        gpus = self.count(GPU)
        require(device != "gpu" or gpus > 0, f"no worker of the cluster at {self.where} has a GPU")
        resource = GPU if gpus and device != "emulator" else CPU
        require(self.count(resource) > 0, f"no worker of the cluster at {self.where} has cores for an emulator")
        return resource

    def __str__(self) -> str:
        """The cluster in words: "4 workers on 2 hosts, 2 of them with an NVIDIA H200"."""
        hosts, gpus = {one["host"] for one in self.known.values()}, self.count(GPU)
        cards = "" if self.card is None else f", {gpus} of them with {with_article(self.card['name'])}"
        return f"{plural(len(self.known), 'worker')} on {plural(len(hosts), 'host')}{cards}"

    @property
    def card(self) -> Mapping[str, Any] | None:
        """The driver's data of the workers' card: all workers with a card have the same."""
        return next((one["card"] for one in self.known.values() if one["card"] is not None), None)

    def lost(self) -> list[str]:
        """The names of workers that are gone or were started again; their tasks were repeated."""
        left = {name: address for address, name in self._names().items()}
        return sorted(name for name in self.known if left.get(name) != self._addresses[name])

    def close(self) -> None:
        try:
            with suppress(Exception):  # of workers or a scheduler that are gone: what they did ended with them
                self.client.run(remote.stop, self._id)
        finally:
            self._stack.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_safe(address: str) -> None:
    """Raise InvalidInput for a scheduler's address that others can reach without TLS, as it runs anybody's code."""
    parts = urlsplit(address)
    try:
        known = bool(parts.scheme and parts.hostname and parts.port)
    except ValueError:  # of a port beyond 65535
        known = False
    require(known, f"{address!r} is no address: tcp://HOST:PORT")
    require(
        parts.scheme == "tls" or is_loopback(address),
        f"{address}: a scheduler runs the code of anybody who reaches it. Use tls://, with certificates in dask's "
        "configuration (distributed.comm.tls), or a tunnel to 127.0.0.1",
    )


def require_alike(
    expected: Mapping[str, str | None], described: Mapping[str, Mapping[str, Any]]
) -> dict[str, str | None]:
    """Complete `expected` with values from the first worker that gives them.

    Raises InvalidInput for workers with a gemmgen or compiler other than this one, or with different cards or drivers.
    """
    known = dict(expected)
    for name, one in described.items():
        other = remote.difference(known, one)
        require(other is None, f"worker {name} {other}, as the others and this machine have")
        known = {what: has or known[what] for what, has in remote.identity(one).items()}
    return known
