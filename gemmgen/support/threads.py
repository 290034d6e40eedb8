"""Threads that nobody waits for once the work is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


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
