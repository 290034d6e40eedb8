"""The process that compute-sanitizer watches: it launches one kernel in a few situations, and nothing else.

Run by tool.py as `python -m gemmgen.verification.sanitizers.watched JOB OUTCOME`. Each operand, and each part of a
workspace, has its own allocation that ends where it ends, so that the tool sees an access to the next byte. Memory
stays allocated to the end, so that each address that the tool names belongs to one allocation of one situation. In a
batch of pointers each matrix has its own allocation, unless there are too many, and so has each array.
"""

from __future__ import annotations

import pickle
import sys
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pycuda.driver as cuda

from gemmgen.kernel.contract import OPERANDS
from gemmgen.problem.dtype import WIDEST_ACCESS
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.sizes import POINTER_BYTES
from gemmgen.run.executor import Floats
from gemmgen.run.gpu.launching import launch, load_program
from gemmgen.run.gpu.plain import THREADS
from gemmgen.run.scatter import scatter
from gemmgen.support.errors import CandidateFailed
from gemmgen.verification.data import make_operands
from gemmgen.verification.sanitizers.tool import (
    LAUNCH_SECONDS,
    Allocation,
    WatchJob,
    WatchOutcome,
    blocks_to_run,
    lead_bytes,
)
from gemmgen.verification.situation import Situation

MOST_MATRICES = 256  # of an operand that have allocations of their own
GAP_BYTES = 256  # between more of them, in one
EMPTY_BYTES = 256  # the allocation of an operand without elements, which starts at its end
FILL_PARTS = 64  # blocks that share a long line, at most

Addresses = npt.NDArray[np.uint64]


def main() -> None:
    """Run the job in the file that the first argument names; write its outcome to the second."""
    job: WatchJob = pickle.loads(Path(sys.argv[1]).read_bytes())
    cuda.init()
    context = cuda.Device(job.device).retain_primary_context()
    context.push()
    try:
        runner = Runner(job)  # holds the operands' memory to the end
        Path(sys.argv[2]).write_bytes(pickle.dumps(runner.run()))
    finally:  # pycuda aborts a process that leaves a context behind, and speaks after Python's traceback
        with suppress(cuda.Error):  # a kernel may have left a dead one
            context.pop()


class Runner:
    """Launches the job's situations one by one, and records where their operands lie."""

    def __init__(self, job: WatchJob) -> None:
        self._job = job
        self._stream = cuda.Stream()  # which waits for what is copied and filled without one
        self._memory: list[Any] = []
        self._allocations: list[Allocation] = []

    def run(self) -> WatchOutcome:
        """Run the situations. It stops at LAUNCH_SECONDS and at an error of CUDA, as a broken context runs nothing
        more."""
        done, spent = 0, 0.0
        try:
            functions = load_program(self._job.source, self._job.cubin)
            for index, situation in enumerate(self._job.situations):
                if spent > LAUNCH_SECONDS:
                    break
                pointers = self._place(index, situation)
                blocks = blocks_to_run(self._job.source.launch, situation.case, self._job.tool)
                started = time.monotonic()
                launch(functions, self._job.source.contract, situation.case, pointers, self._stream, blocks)
                cuda.Context.synchronize()
                spent += time.monotonic() - started
                done += 1
        except cuda.Error as error:
            return WatchOutcome(done, str(error), tuple(self._allocations))
        except CandidateFailed as error:
            return WatchOutcome(done, error.failure.reason, tuple(self._allocations))
        return WatchOutcome(done, None, tuple(self._allocations))

    def _place(self, index: int, situation: Situation) -> dict[str, int]:
        """Allocate and fill the operands, and a workspace if the kernel needs one; return their addresses."""
        operands = make_operands(situation)
        pointers: dict[str, int] = {}
        for place, (name, matrix) in enumerate(situation.case.tensors.items()):
            held = matrix.in_bytes
            if situation.case.problem.pointers and name in OPERANDS:
                starts = self._allocate_matrices(index, situation, place)
                pointers[name] = self._place_pointers(index, situation, name, starts)
            else:
                pointers[name] = self._allocate(index, situation, name, matrix.bytes)
                step = held.dtype.bytes(held.stride)
                starts = pointers[name] + step * np.arange(held.stored.batch or 1, dtype=np.uint64)
            if name != "C" or situation.case.beta != 0 or self._job.tool != "initcheck":
                values = matrix.dtype.packed(operands.by_name[name])
                self._write(starts, held, values.view(held.dtype.bits))
        workspace = self._job.source.launch.workspace(situation.case)
        for name in self._job.source.launch.parts:  # holding anything
            pointers[name] = self._allocate(index, situation, name, workspace.lengths[name], workspace.aligns[name])
        if workspace.semaphores:
            cuda.memset_d32(pointers["semaphores"], 0, workspace.semaphores)
        return pointers

    def _allocate_matrices(self, index: int, situation: Situation, place: int) -> Addresses:
        """Allocate an operand's different matrices; return their addresses."""
        name, case = "ABC"[place], situation.case
        matrix = case.matrices[place]
        count, size = matrix.stored.batch or 1, matrix.dtype.size
        if count <= MOST_MATRICES:
            starts = [self._allocate(index, situation, f"{name}[{p}]", size * matrix.span) for p in range(count)]
            return np.array(starts, np.uint64)
        slots = scatter(case, GAP_BYTES, WIDEST_ACCESS, situation.seed)[place]
        base = self._allocate(index, situation, name, slots.matrix.bytes)
        return np.asarray(base + (size * slots.offsets[:count]).astype(np.uint64))

    def _place_pointers(self, index: int, situation: Situation, name: str, starts: Addresses) -> int:
        """Allocate and fill the array of pointers to an operand's matrices; return its address."""
        array = np.resize(starts, situation.case.batch)
        lead = POINTER_BYTES * (situation.seed % 2)  # as operands by odd seeds: aligned to that and no more
        address = self._allocate(index, situation, f"the pointers to {name}", array.nbytes, lead)
        cuda.memcpy_htod(address, array)
        return address

    def _allocate(self, index: int, situation: Situation, name: str, length: int, lead: int | None = None) -> int:
        """The address of an allocation's last `length` bytes, `lead` bytes from its start."""
        lead = EMPTY_BYTES if length == 0 else lead_bytes(situation) if lead is None else lead
        memory = cuda.mem_alloc(lead + length)
        self._memory.append(memory)
        address = int(memory) + lead
        self._allocations.append(Allocation(index, name, address, length))
        return address

    def _write(self, starts: Addresses, matrix: Matrix, values: Floats) -> None:
        """Copy the elements of each different matrix to its start.

        Padding stays uninitialised, so that initcheck sees a read of it. A kernel copies, because the tools slow down
        each copy from the host, and batches have up to a million lines.
        """
        if not matrix.elements:
            return
        padded = matrix.ld > matrix.line_length  # else a matrix is one line
        lines, length = (matrix.lines, matrix.line_length) if padded else (1, matrix.span)
        within = matrix.ld * np.arange(lines)
        sources = matrix.stride * np.arange(len(starts))[:, None] + within
        targets = starts[:, None] + (values.itemsize * within).astype(np.uint64)
        size = values.itemsize
        staged = [
            cuda.to_device(np.ascontiguousarray(array)) for array in (values.view(np.uint8), size * sources, targets)
        ]
        grid = (targets.size, min(FILL_PARTS, -(-size * length // THREADS)))
        self._fill(*staged, np.int64(size * length), grid=grid, block=(THREADS, 1, 1))

    @cached_property
    def _fill(self) -> Any:
        return cuda.module_from_buffer(self._job.fill).get_function("fill")


if __name__ == "__main__":
    main()
