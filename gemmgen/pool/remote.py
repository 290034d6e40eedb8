"""The worker's side: functions that dask calls in a worker process, on plain data."""

from __future__ import annotations

import platform
from dataclasses import asdict
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

from gemmgen.pool.worker import GPU
from gemmgen.run.gpu.capability import cards_here, properties_here
from gemmgen.run.nvrtc import compiler_version
from gemmgen.support.child import Child, ChildDied
from gemmgen.support.errors import CandidateFailed, GemmgenError
from gemmgen.support.files import generator_digest
from gemmgen.support.version import gemmgen_version

SERVED = "gemmgen.pool.served:Unpacking"  # what their children are
FARM = "GEMMGEN_FARM"  # of a child's environment: its client, and the scheduler's address
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # numpy's: a worker has one core

_children: dict[tuple[str, ...], Child] = {}  # by client and factory, with its arguments
_lock = Lock()


def ask(client: str, digest: str, factory: tuple[str, ...], message: bytes, timeout: float | None) -> tuple[str, Any]:
    """(what became of a request to a child of this worker, its answer or why there is none).

    digest  of the client's gemmgen, which has to be this one
    """
    if digest != generator_digest():
        return "version", gemmgen_version()
    with _lock:
        environment = {**ONE_THREAD, **_farm(client)}
        child = _children.setdefault((client, *factory), Child(SERVED, *factory, environment=environment))
    try:
        return "done", child.request(message, timeout)
    except ChildDied as error:
        return "died", (str(error), error.timed_out)
    except CandidateFailed as error:
        return "failed", asdict(error.failure)
    except GemmgenError as error:
        return "error", str(error)


def _farm(client: str) -> dict[str, str]:
    """For the children of a worker with a GPU: where the cluster's other workers compile for them."""
    worker = import_module("distributed").get_worker()
    if GPU not in worker.state.total_resources:
        return {}
    return {FARM: f"{client} {worker.scheduler.address}"}


def stop(client: str) -> None:
    """End what a client's requests started here; one that is under way gets to know it."""
    with _lock:
        mine = [key for key in _children if key[0] == client]
        children = [_children.pop(key) for key in mine]
    for child in children:
        child.kill()


@cache
def describe() -> dict[str, Any]:
    """What a worker is: versions, and its card if it sees one."""
    card = asdict(properties_here()) if cards_here() else None
    return {
        "host": platform.node(),
        "gemmgen": gemmgen_version(),
        "digest": generator_digest(),
        "compiler": compiler_version_or_none(),
        "card": card,
    }


def compiler_version_or_none() -> str | None:
    """ "NVRTC 13.0"; None where there is none."""
    try:
        return compiler_version()
    except CandidateFailed:
        return None
