"""The workers of one machine: one per GPU, and others that compile and emulate."""

from __future__ import annotations

import asyncio
import platform
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from gemmgen.run.gpu.capability import cards_here
from gemmgen.support.child import child_environment
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.support.threads import cores

GPU, CPU = "GPU", "CPU"  # resources, of which a worker has 1
CORES_A_GPU = 2  # that are left to it: what measures waits for no compiler
START_SECONDS = 60  # that a worker has to find its scheduler
LOOPBACK = "127.0.0.1"
INSTALL = "pip install 'gemmgen[cluster]'"
# A sampling thread would disturb what is timed. Tasks keep what they find in files, and nothing in the worker.
SETTINGS = {"distributed.worker.profile.enabled": False}


@dataclass(frozen=True)
class Place:
    """The name ("host/GPU-...", "host/cpu-3"), resource and environment of one worker process."""

    name: str
    resource: str
    environment: dict[str, str]


def places(cpus: int | None = None) -> list[Place]:
    """The places of this machine: one per GPU, and `cpus` others; None: as many as the GPUs leave cores."""
    host, cards = platform.node(), cards_here()
    count = max(1, cores() - CORES_A_GPU * len(cards)) if cpus is None else cpus
    gpus = [Place(f"{host}/{uuid}", GPU, {"CUDA_VISIBLE_DEVICES": uuid}) for uuid in cards]
    return [*gpus, *(Place(f"{host}/cpu-{one}", CPU, {"CUDA_VISIBLE_DEVICES": ""}) for one in range(count))]


def places_for(device: str) -> list[Place]:
    """The places of this machine that run kernels on `device`: those with GPUs if there are any, except for
    "emulator"."""
    found = places()
    wanted = GPU if device != "emulator" and any(one.resource == GPU for one in found) else CPU
    return [one for one in found if one.resource == wanted]


def serve(address: str, wanted: Sequence[Place]) -> None:
    """Work for the scheduler at `address` until it ends, or until this process is interrupted or terminated.

    Raises InvalidInput if dask.distributed is missing, and GemmgenError if no worker starts.
    """
    distributed()
    with configured():
        asyncio.run(_serve(address, wanted))


def configured() -> Any:
    """A context in which dask has the settings that gemmgen's workers need."""
    import dask

    return dask.config.set(SETTINGS)


def distributed() -> Any:
    """The module dask.distributed. Raises InvalidInput if it is not installed."""
    try:
        import distributed
    except ImportError:
        raise InvalidInput(f"a cluster needs dask.distributed: {INSTALL}") from None
    return distributed


async def _serve(address: str, wanted: Sequence[Place]) -> None:
    from distributed import Nanny

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    host = {"host": LOOPBACK} if is_loopback(address) else {}  # who reaches a worker runs code there, too
    nannies: list[Any] = [
        Nanny(
            address,
            nthreads=1,
            name=one.name,
            resources={one.resource: 1},
            env={**one.environment, "PYTHONPATH": child_environment()["PYTHONPATH"]},
            dashboard=False,
            death_timeout=START_SECONDS,
            memory_limit=0,
            **host,
        )
        for one in wanted
    ]
    stopped: asyncio.Future[Any] = asyncio.ensure_future(ended.wait())
    try:
        started: asyncio.Future[Any] = asyncio.gather(*nannies)
        await asyncio.wait([started, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not stopped.done():
            await started
            gone: asyncio.Future[Any] = asyncio.gather(*(one.finished() for one in nannies))
            await asyncio.wait([gone, stopped], return_when=asyncio.FIRST_COMPLETED)
    except RuntimeError as error:  # of dask, which says that a nanny failed to start
        raise GemmgenError(
            f"no worker starts for {address} within {START_SECONDS:g} s: {error}. Is its scheduler there, and has it "
            f"no worker called {wanted[0].name} already?"
        ) from None
    finally:
        await asyncio.gather(*(one.close() for one in nannies), return_exceptions=True)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach "tcp://HOST:PORT"."""
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def main() -> None:
    """Run the workers of a local cluster in this process; the arguments are the scheduler's address and the device."""
    address, device = sys.argv[1:]
    serve(address, places_for(device))


if __name__ == "__main__":
    main()
