"""The worker's side: functions that dask calls in a worker process, on plain data."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Mapping
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
from gemmgen.support.stamp import gemmgen_version

SERVED = "gemmgen.pool.connection:Unpacking"  # what their children are
FARM = "GEMMGEN_FARM"  # of a child's environment: its client, and the scheduler's address
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # numpy's: a lane has one core

_children: dict[tuple[str, ...], Child] = {}  # by client and factory, with its arguments
_lock = Lock()


def ask(
    client: str, expected: Mapping[str, str | None], factory: tuple[str, ...], message: bytes, timeout: float | None
) -> tuple[str, Any]:
    """Return (the outcome of a request to a child of this worker, its answer or the reason why there is none).

    expected  the required identity of the worker, which may have joined after the client's check: see `identity`

    A worker handles one request at a time. Children of an earlier client are ended here, as that client may have died.
    """
    try:
        if (other := difference(expected, describe())) is not None:
            return "differs", f"a worker on {platform.node()} {other}"
        return "done", _child(client, factory).request(message, timeout)
    except ChildDied as error:
        return "died", (str(error), error.timed_out)
    except CandidateFailed as error:
        return "failed", asdict(error.failure)
    except GemmgenError as error:
        return "error", str(error)
    except Exception:  # of a worker without room for files, say: what dask would raise there is the client's own
        return "error", f"on {platform.node()}: {traceback.format_exc()}"


def identity(described: Mapping[str, Any]) -> dict[str, str | None]:
    """The facts that must be equal for all workers, from the description of one. None matches everything."""
    card = described["card"] or {"name": None, "driver": None}
    return {
        "gemmgen": f"{described['gemmgen']}, code {described['digest'][:8]}",
        "compiler": described["compiler"],
        "card": card["name"],
        "driver": card["driver"],
    }


def difference(expected: Mapping[str, str | None], described: Mapping[str, Any]) -> str | None:
    """The difference between a worker and `expected`, in words; None if there is none."""
    for what, has in identity(described).items():
        wanted = expected[what]
        if None not in (wanted, has) and has != wanted:
            return f"has {what} {has}, which has to be {wanted}"
    return None


def _child(client: str, factory: tuple[str, ...]) -> Child:
    mine = (client, *factory)
    with _lock:
        for key in [key for key in _children if key[0] != client]:
            _children.pop(key).close()
        if mine not in _children:
            _children[mine] = Child(SERVED, *factory, environment={**ONE_THREAD, **_farm(client)})
        return _children[mine]


def _farm(client: str) -> dict[str, str]:
    """For the children of a worker with a GPU: the environment that lets the cluster's other workers compile for
    them."""
    worker = import_module("distributed").get_worker()
    if GPU not in worker.state.total_resources:
        return {}
    return {FARM: f"{client} {worker.scheduler.address}"}


def stop(client: str) -> None:
    """End what a client's requests started here; a running request ends as ChildDied."""
    with _lock:
        mine = [key for key in _children if key[0] == client]
        children = [_children.pop(key) for key in mine]
    for child in children:
        child.kill()


@cache
def describe() -> dict[str, Any]:
    """The description of a worker: versions, and its card if it sees one."""
    card = asdict(properties_here()) if cards_here() else None
    return {
        "host": platform.node(),
        "gemmgen": gemmgen_version(),
        "digest": generator_digest(),
        "compiler": compiler_version_or_none(),
        "card": card,
    }


def compiler_version_or_none() -> str | None:
    """ "NVRTC 13.0"; None without NVRTC."""
    try:
        return compiler_version()
    except CandidateFailed:
        return None
