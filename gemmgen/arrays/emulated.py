"""Kernels in the emulator, on arrays of the host: slow, checked access by access."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.arrays.backend import Planned
from gemmgen.arrays.checked import Arrays, Checked
from gemmgen.arrays.fastcall import Direct
from gemmgen.arrays.libraries import Library
from gemmgen.arrays.view import ArrayView, Device
from gemmgen.kernel.packing import packed, scaled_of, stored_of, unpacked
from gemmgen.kernel.prepare import Pack, Prepare, Step
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.files import Store

Elements = npt.NDArray[Any]


class EmulatedBackend:
    """Runs `source` in the emulator. Raises CandidateFailed: unavailable, compile or unjudged."""

    device: Device = "cpu"

    def __init__(self, source: KernelSource, store: Store) -> None:
        self._executor = EmulatorExecutor(store)
        self._source, self._kernel = source, self._executor.load(source)

    def locate(self, view: ArrayView) -> ArrayView:
        return view

    def run(self, known: Checked, rows: int | None, addresses: Sequence[int], a: Any, stream: Any) -> None:
        self._run(known.at(rows), known, addresses)

    def plan(self, arrays: Arrays) -> Planned:
        """Plan a run of the whole program, in which the first launches prepare operands again."""
        return lambda stream: self._run(arrays.case, arrays.checked, arrays.addresses)

    def _run(self, case: Case, known: Checked, addresses: Sequence[int]) -> None:
        located = dict(zip(known.names, addresses, strict=True))
        if known.empty:
            for name, size in known.zeroed:
                ctypes.memset(located[name], 0, size)
            return
        codes = isinstance(self._source.launch.prepared("B"), Pack)
        held = ("B", *(one.name for one in case.problem.packed_with_b)) if codes else ()
        flat = {name: self._storage(name, case, known.prepared, located) for name in case.tensors if name not in held}
        flat |= self._unpacked(case, located["prepared_b"]) if codes else {}
        operands = Operands(flat["A"], flat["B"], flat["C"], {name: flat[name] for name in case.extra})
        for name, matrix in case.written.items():
            found = self._kernel.run(case, operands, output=name)
            bits = matrix.dtype.bits
            matrix.view(flat[name].view(bits))[...] = matrix.view(found.view(bits))

    def prepare(
        self, step: Step, case: Case, views: Mapping[str, ArrayView], made: ArrayView, library: Library, stream: Any
    ) -> None:
        """Compute what the launch would; sums of lines are made again by each run of the program."""
        if isinstance(step, Pack):
            memory = {name: _bytes_at(view.address, case.tensors[name].bytes) for name, view in views.items()}
            storage(made.address, _whole(step.matrix(case)))[:] = packed(case, scaled_of(case, memory)).view(np.int32)
        elif isinstance(step, Prepare):
            self._copy(step, case, views[step.source], made)

    def _copy(self, prepare: Prepare, case: Case, view: ArrayView, copy: ArrayView) -> None:
        """Copy the operand's elements, or their pieces, in the copy's order, with zeros behind lines."""
        operand, to = case.tensors[prepare.operand], prepare.matrix(case)
        held, bits, pieces = storage(copy.address, _whole(to)), to.dtype.bits, case.problem.types.compute.pieces
        held[:] = 0
        elements = operand.view(storage(view.address, operand))
        if pieces is not None:  # of each matrix one behind the other
            split = np.moveaxis(pieces.split(elements), 0, -3)
            elements = split.reshape(-1, to.rows, to.cols)
        to.view(held.view(bits))[...] = elements.view(bits)

    def _unpacked(self, case: Case, address: int) -> dict[str, Elements]:
        """The storage of B and of its companions, restored from packed codes: the emulator packs them again."""
        words = storage(address, _whole(Pack("B").matrix(case))).view(np.uint32)
        return stored_of(case, unpacked(case, words))

    native = None

    def direct(self, known: Checked) -> Direct | None:
        return None

    def close(self) -> None:
        self._executor.close()

    def _storage(self, name: str, case: Case, prepared: Sequence[str], addresses: Mapping[str, int]) -> Elements:
        """The operand's storage, restored from its copy if it was prepared: the emulator makes its own copies."""
        operand = case.tensors[name]
        if name not in prepared:
            return storage(addresses[name], operand)
        prepare = self._source.launch.prepared(name)
        assert prepare is not None
        copy, bits, pieces = prepare.matrix(case), operand.dtype.bits, case.problem.types.compute.pieces
        again: Elements = np.zeros(operand.elements, operand.dtype.numpy)
        held = storage(addresses[prepare.part], _whole(copy))
        elements = copy.view(held.view(copy.dtype.bits)).view(copy.dtype.numpy)
        if pieces is not None:
            elements = pieces.join(elements.reshape(-1, pieces.count, copy.rows, copy.cols).swapaxes(0, 1))
        operand.view(again.view(bits))[...] = elements.reshape(operand.view(again).shape).view(bits)
        return again


def storage(address: int, matrix: Matrix) -> Elements:
    """The memory of `matrix` at an address of this process, from its first element to its last."""
    memory = memoryview((ctypes.c_uint8 * matrix.bytes).from_address(address or 1))
    return np.frombuffer(memory, matrix.dtype.numpy) if matrix.bytes else np.zeros(0, matrix.dtype.numpy)


def _bytes_at(address: int, size: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)


def _whole(copy: Matrix) -> Matrix:
    """The matrix with the padding behind its last line."""
    return Matrix((copy.batch or 1) * copy.lines, copy.ld, copy.ld, "r", dtype=copy.dtype)
