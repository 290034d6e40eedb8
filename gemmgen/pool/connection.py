"""A client's view of a scheduler: workers by their resource, and lanes on them that answer like children."""

from __future__ import annotations

import os
import pickle
import time
from functools import cache, partial
from importlib import import_module
from typing import Any
from uuid import uuid4

from gemmgen.pool import remote
from gemmgen.pool.worker import CPU, distributed
from gemmgen.run import compile as compiling
from gemmgen.run.compile import COMPILER
from gemmgen.support.child import Child, ChildDied
from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError, InvalidInput

LOOK_SECONDS = 5.0  # between two looks at whether there are workers still
PATIENCE_SECONDS = 120.0  # without a worker that can do it, until work is given up
JOIN_SECONDS = 10.0  # that a worker's child waits for the scheduler


class Connection:
    """A connection to the scheduler at `where`, by dask's `client`. Workers know the owner of their children by its
    `name`."""

    def __init__(self, where: str, client: Any, name: str) -> None:
        self.where, self.client, self._id = where, client, name
        self.expected = remote.identity(remote.describe())  # of workers

    def count(self, resource: str) -> int:
        """The number of workers that have the resource."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return sum(1 for one in workers if one["resources"].get(resource, 0) > 0)

    def lanes(self, resource: str, factory: str, *arguments: str) -> list[Child]:
        """Return as many lanes as workers have the resource: each request goes to an idle worker."""
        return [RemoteChild(self, resource, factory, *arguments) for _ in range(self.count(resource))]

    def submit(self, resource: str, factory: tuple[str, ...], message: bytes, timeout: float | None) -> Any:
        """Submit a request and return its future."""
        key, call = f"{factory[0].rpartition(':')[2]}-{uuid4().hex}", (self._id, self.expected, factory)
        return self.client.submit(remote.ask, *call, message, timeout, key=key, resources={resource: 1})


class RemoteChild(Child):
    """A child of any idle worker: requests carry all that they need."""

    def __init__(self, cluster: Connection, resource: str, factory: str, *arguments: str) -> None:
        super().__init__(factory, *arguments)
        self._cluster, self._resource, self._factory = cluster, resource, (factory, *arguments)
        self._future: Any = None

    def start(self) -> None:
        """Do nothing, as workers start their children with the first request."""

    def request(self, message: object, timeout: float | None = None) -> Any:
        self._future = self._cluster.submit(self._resource, self._factory, pickle.dumps(message, 5), timeout)
        kind, answer = self._wait(self._future)
        if kind == "done":
            return pickle.loads(answer)
        if kind == "failed":
            raise CandidateFailed(Failure(**answer))
        if kind == "died":
            raise ChildDied(answer[0], timed_out=answer[1])
        raise GemmgenError(answer)

    def _wait(self, future: Any) -> tuple[str, Any]:
        """Wait for the future's result, on whichever worker: dask repeats the tasks of a lost worker.

        Raises GemmgenError if no worker is left.
        """
        since = time.monotonic()
        while (found := self._result(future)) is None:
            if self._cluster.count(self._resource):
                since = time.monotonic()
            left = time.monotonic() - since <= PATIENCE_SECONDS
            if not left:
                raise GemmgenError(f"no worker with a {self._resource} is left, for {PATIENCE_SECONDS:g} s")
        return found

    def _result(self, future: Any) -> tuple[str, Any] | None:
        """The future's result; None if it takes longer than LOOK_SECONDS.

        Raises GemmgenError if dask gives up, because worker after worker was lost with the task, or if the scheduler is
        gone. A failure on a worker comes as an answer: see `remote.ask`.
        """
        dask = distributed()
        try:
            found: tuple[str, Any] = future.result(timeout=LOOK_SECONDS)
        except dask.TimeoutError:
            return None
        except dask.KilledWorker as error:
            raise GemmgenError(f"given up, as workers are lost: {error}") from None
        except (dask.CancelledError, OSError) as error:  # also of a comm that is closed
            raise GemmgenError(f"the connection to the scheduler at {self._cluster.where} is lost: {error}") from None
        return found

    def kill(self) -> None:
        if self._future is not None:
            self._future.cancel()

    def close(self) -> None:
        self.kill()


@cache
def joined(name: str, where: str) -> Connection | None:
    """Connect a worker's child to the scheduler of the worker's cluster; None if the child cannot reach it."""
    try:
        return Connection(where, distributed().Client(where, timeout=JOIN_SECONDS), name)
    except (OSError, InvalidInput):  # its certificates may be known to the client alone
        return None


def compilers(name: str, where: str) -> list[Child]:
    """Lanes on that cluster's CPU workers, which compile; empty if there are none."""
    connection = joined(name, where)
    return [] if connection is None else connection.lanes(CPU, COMPILER)


class Unpacking:
    """The side of a worker's child: requests and answers are pickles, which the worker passes on unread."""

    def __init__(self, factory: str, *arguments: str) -> None:
        if remote.FARM in os.environ:
            compiling.farm = partial(compilers, *os.environ[remote.FARM].split())
        module, _, name = factory.partition(":")
        self._handle = getattr(import_module(module), name)(*arguments)

    def __call__(self, message: bytes) -> bytes:
        return pickle.dumps(self._handle(pickle.loads(message)), 5)
