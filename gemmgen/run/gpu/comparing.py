"""Comparison of C with its reference on the device: see templates/device/plain/judge.cu. Runs in the worker."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pycuda.driver as cuda

from gemmgen.problem.gemm import Case
from gemmgen.run.acceptance import Judged, Rule
from gemmgen.run.gpu.comparing_records import Known, records
from gemmgen.run.gpu.plain import THREADS
from gemmgen.run.gpu.sampling import allocate

FOUND = 4  # counts and largest ones


class Judge:
    """The loaded kernel judge.cu, which runs on `blocks` blocks."""

    def __init__(self, cubin: bytes, blocks: int) -> None:
        self._module, self._blocks = cuda.module_from_buffer(cubin), blocks

    def judge(self, case: Case, rule: Rule, known: Known, places: npt.NDArray[np.int64]) -> Judged:
        """Judge all of C, and report its elements at `places`, counted row by row."""
        given = [cuda.to_device(values) for values in (*records(case, rule, known), places)]
        *addresses, asked = [np.uintp(int(memory)) for memory in given]
        found = cuda.to_device(np.zeros(FOUND, np.uint64))
        self._launch("judge", *addresses, np.uintp(int(found)))
        count = len(places)
        made = [allocate(8 * max(count, 1)) for _ in range(3)]
        outputs = [np.uintp(int(memory)) for memory in made]
        self._launch("sample", *addresses, asked, np.int64(count), *outputs)
        bits, values, bounds = (_fetched(memory, count, kind) for memory, kind in zip(made, "udd", strict=True))
        numbers = _fetched(found, FOUND, "u")
        elements, wrong = (int(number) for number in numbers[:2])
        worst, largest = (float(number) for number in numbers[2:].view(np.float64))
        return Judged(elements, wrong, worst, largest, bits.astype(case.c.dtype.bits), values, bounds)

    def _launch(self, name: str, *arguments: Any) -> None:
        self._module.get_function(name)(*arguments, grid=(self._blocks, 1), block=(THREADS, 1, 1))


def _fetched(memory: Any, count: int, kind: str) -> npt.NDArray[Any]:
    values = np.empty(count, {"u": np.uint64, "d": np.float64}[kind])
    if count:
        cuda.memcpy_dtoh(values, memory)
    return values
