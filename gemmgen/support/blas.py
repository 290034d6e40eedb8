"""Small products by one thread of numpy's BLAS, as waking its other threads costs more than they save."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

# A thread does as many in a millisecond. Others of OpenBLAS sleep between two products, and are awake in up to seven.
SMALL_FLOPS = 2**26
CORES = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")  # numpy's own, of 2 and of 1: linked to BLAS
CALLS = (
    "scipy_openblas_{}_num_threads64_",  # of numpy's wheels
    "openblas_{}_num_threads64_",  # of those before 2
    "openblas_{}_num_threads",  # of a distribution
)


def multiply(a: Doubles, b: Doubles) -> Doubles:
    """Return a @ b."""
    flops = 2 * a.shape[-2] * a.shape[-1] * b.shape[-1]
    if flops > SMALL_FLOPS:
        return np.asarray(a @ b)
    with ONE_THREAD():
        return np.asarray(a @ b)


class OneThread:
    """Limits BLAS to one thread. The limit is per process; it ends once no product that wants it is running."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._products = 0
        self._before = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Limit BLAS to one thread in the block. Only OpenBLAS is limited."""
        calls = openblas()
        if calls is None:
            yield
            return
        of_now, change = calls
        with self._lock:
            if self._products == 0:
                self._before = of_now()
                change(1)
            self._products += 1
        try:
            yield
        finally:
            with self._lock:
                self._products -= 1
                if self._products == 0:
                    change(self._before)


ONE_THREAD = OneThread()


@cache
def openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Return (a function that gives OpenBLAS's number of threads, one that sets it); None if numpy has another BLAS."""
    core = next((sys.modules[name] for name in CORES if name in sys.modules), None)
    if core is None or getattr(core, "__file__", None) is None:
        return None
    library = ctypes.CDLL(core.__file__)
    name = next((one for one in CALLS if hasattr(library, one.format("set"))), None)
    return None if name is None else (getattr(library, name.format("get")), getattr(library, name.format("set")))
