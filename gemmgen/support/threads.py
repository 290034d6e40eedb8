"""Threads that nobody waits for once the work is interrupted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_threads(ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """`ask(item)` for each, in their order; here where there is but one."""
    if len(items) <= 1:
        return [ask(item) for item in items]
    with thread_pool(min(len(items), cores())) as pool:
        return list(pool.map(ask, items))


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def thread_pool(workers: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """A pool that has done its work when the block ends.

    A KeyboardInterrupt leaves at once: what has not begun is dropped, and what the threads wait for is to be ended by
    whoever owns it, an executor's `close` for one.
    """
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    except BaseException as error:
        pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    pool.shutdown()
