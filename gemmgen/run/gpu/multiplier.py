"""A * B in float64 on the device: see templates/device/plain/multiply.cu. Runs in the worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pycuda.driver as cuda

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.run.gpu.plain import THREADS
from gemmgen.run.gpu.sampling import allocate

TILE = 64  # rows and columns of a block tile
MOST_MATRICES = 32768  # of a batch that blocks share out among them; a block takes the others one after the other


class Multiplier:
    """The loaded kernels of multiply.cu; those that do not multiply run on `blocks` blocks."""

    def __init__(self, cubin: bytes, blocks: int) -> None:
        self._module = cuda.module_from_buffer(cubin)
        self._blocks = blocks
        self._tables: dict[DType, Any] = {}

    def multiply(self, case: Case, addresses: Mapping[str, int], *, magnitudes: bool) -> Any:
        """Return device memory with the product of A and all columns of B, which lie at `addresses`, or of their
        `magnitudes`.

        Raises CandidateFailed (launch) if memory is short.
        """
        a = self._decoded(case.a, addresses["A"], case, magnitudes, by_rows=True)
        b = self._decoded(case.b, addresses["B"], case, magnitudes, by_rows=False)
        product = allocate(DType.F64.size * case.m * case.b.cols * case.batch)
        accurate = case.problem.types.accumulator is DType.F64 and not magnitudes
        function = self._module.get_function("multiply_accurately" if accurate else "multiply")
        grid = -(-case.m // TILE), -(-case.b.cols // TILE), min(case.batch, MOST_MATRICES)
        pointers = (np.uintp(int(memory)) for memory in (a, b, product))
        sizes = np.int32(case.m), np.int32(case.b.cols), np.int32(case.k)
        function(*pointers, *sizes, np.int64(case.batch), grid=grid, block=(THREADS, 1, 1))
        cuda.Context.synchronize()
        return product

    def largest(self, case: Case, addresses: Mapping[str, int]) -> tuple[Any, Any]:
        """Device memory with the largest finite magnitude of each row of A and each column of B, for all products."""
        return (
            self._largest(case.a, addresses["A"], case, by_rows=True),
            self._largest(case.b, addresses["B"], case, by_rows=False),
        )

    def _largest(self, matrix: Matrix, address: int, case: Case, by_rows: bool) -> Any:
        decoded = self._decoded(matrix, address, case, magnitudes=True, by_rows=by_rows)
        lines = matrix.rows if by_rows else matrix.cols
        most = allocate(DType.F64.size * lines * case.batch)
        pointers = np.uintp(int(decoded)), np.uintp(int(most))
        sizes = (np.int64(size) for size in (case.k, lines, case.batch))
        function = self._module.get_function("largest")
        function(*pointers, *sizes, grid=(self._blocks, 1), block=(THREADS, 1, 1))
        cuda.Context.synchronize()
        return most

    def _decoded(self, matrix: Matrix, address: int, case: Case, magnitudes: bool, by_rows: bool) -> Any:
        """The decoded numbers of a batch of matrices, K x lines each; the lines of A are rows (`by_rows`), those of B
        columns."""
        lines = matrix.rows if by_rows else matrix.cols
        decoded = allocate(max(1, DType.F64.size * case.k * lines * case.batch))
        down, across = (matrix.ld, 1) if matrix.order == "r" else (1, matrix.ld)
        along_k, along_lines = (across, down) if by_rows else (down, across)
        sizes = (np.int64(size) for size in (case.k, lines, case.batch, along_k, along_lines, matrix.stride))
        function = self._module.get_function(f"decode_{matrix.dtype.size}")
        pointers = np.uintp(address), np.uintp(int(decoded))
        numbers = np.uintp(self.numbers(matrix.dtype))
        function(*pointers, *sizes, np.int32(magnitudes), numbers, grid=(self._blocks, 1), block=(THREADS, 1, 1))
        return decoded

    def numbers(self, dtype: DType) -> int:
        """The device address of the values of all bit patterns of a type, as the host decodes them; 0 if none is
        needed."""
        if dtype.size > 2:
            return 0
        if dtype not in self._tables:
            codes = np.arange(2**dtype.storage_bits, dtype=np.uint32).astype(dtype.bits)
            self._tables[dtype] = cuda.to_device(dtype.decode(codes.view(dtype.numpy)))
        return int(self._tables[dtype])
