"""Threads that nobody waits for after an interrupt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_threads(ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Return `ask(item)` for each item, in order; a single item is asked in this thread."""
    if len(items) <= 1:
        return [ask(item) for item in items]
    with thread_pool(min(len(items), cores())) as pool:
        return list(pool.map(ask, items))


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def thread_pool(workers: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """A pool whose work is done when the block ends.

    A KeyboardInterrupt leaves at once: tasks that have not begun are dropped. What the threads wait for must be ended
    by its owner, such as an executor's `close`.
    """
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    except BaseException as error:
        pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    pool.shutdown()
