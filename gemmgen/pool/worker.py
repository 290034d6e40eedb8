"""The workers of one machine: one for each GPU, and others that compile and emulate."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from gemmgen.run.gpu.capability import cards_here
from gemmgen.support.threads import cores

GPU, CPU = "GPU", "CPU"  # resources, of which a worker has 1
CORES_A_GPU = 2  # that are left to it: what measures waits for no compiler
ALONE_SECONDS = 60  # that a worker waits for a scheduler that is gone
# A sampling thread would disturb what is timed. Tasks keep what they find in files, and nothing in the worker.
SETTINGS = {"distributed.worker.profile.enabled": False, "distributed.worker.memory.terminate": False}


@dataclass(frozen=True)
class Place:
    """What one worker process has: its name ("host/GPU-...", "host/cpu-3"), resource and environment."""

    name: str
    resource: str
    environment: dict[str, str]


def places(cpus: int | None = None) -> list[Place]:
    """Those of this machine: a place for each GPU, and `cpus` others; None: as many as the GPUs leave cores."""
    host, cards = platform.node(), cards_here()
    count = max(1, cores() - CORES_A_GPU * len(cards)) if cpus is None else cpus
    gpus = [Place(f"{host}/{uuid}", GPU, {"CUDA_VISIBLE_DEVICES": uuid}) for uuid in cards]
    return [*gpus, *(Place(f"{host}/cpu-{one}", CPU, {"CUDA_VISIBLE_DEVICES": ""}) for one in range(count))]


def places_for(device: str) -> list[Place]:
    """Those of this machine that run kernels on `device`: with GPUs, but for "emulator", where it has some."""
    found = places()
    wanted = GPU if device != "emulator" and any(one.resource == GPU for one in found) else CPU
    return [one for one in found if one.resource == wanted]


def serve(address: str, wanted: Sequence[Place]) -> None:
    """Work for the scheduler at `address` until it ends, or this process is interrupted or terminated."""
    with configured():
        asyncio.run(_serve(address, wanted))


def configured() -> Any:
    """A context in which dask is set as gemmgen's workers need it."""
    import dask

    return dask.config.set(SETTINGS)


async def _serve(address: str, wanted: Sequence[Place]) -> None:
    from distributed import Nanny

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with AsyncExitStack() as stack:
        nannies: list[Any] = [
            await stack.enter_async_context(
                Nanny(
                    address,
                    nthreads=1,
                    name=one.name,
                    resources={one.resource: 1},
                    env={**one.environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    dashboard=False,
                    death_timeout=ALONE_SECONDS,
                    memory_limit=0,
                )
            )
            for one in wanted
        ]
        gone = [asyncio.ensure_future(one.finished()) for one in nannies]
        await asyncio.wait([*gone, asyncio.ensure_future(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
        for task in gone:
            task.cancel()


def main() -> None:
    """The workers of a local cluster, in a process of their own: the scheduler's address, and the device to be for."""
    address, device = sys.argv[1:]
    serve(address, places_for(device))


if __name__ == "__main__":
    main()
