"""A * B in float64 on the device: see templates/device/plain/multiply.cu. Runs in the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pycuda.driver as cuda

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.inputs import BLOCK
from gemmgen.problem.matrix import Matrix
from gemmgen.run.gpu.plain import THREADS
from gemmgen.run.gpu.sampling import allocate

TILE = 64  # rows and columns of a block tile
MOST_MATRICES = 32768  # of a batch that blocks share out among them; a block takes the others one after the other


@dataclass(frozen=True)
class Scales:
    """Scales of sums over `depth` k each, as multiply.cu takes them: of rows of A, or none, and of `width` columns of
    B."""

    of_a: Any
    of_b: Any
    depth: int
    width: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        return _address(self.of_a), _address(self.of_b), np.int32(self.depth), np.int32(self.width)


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
        a, b = (self._factor(case, addresses, name, magnitudes) for name in "AB")
        product = allocate(DType.F64.size * case.m * case.b.cols * case.batch)
        sizes = np.int32(case.m), np.int32(case.b.cols), np.int32(case.k)
        grid = -(-case.m // TILE), -(-case.b.cols // TILE), min(case.batch, MOST_MATRICES)
        if case.problem.scaled_depth:
            scales = self._scales(case, addresses)
            last: tuple[Any, ...] = *scales.arguments, np.int32(magnitudes)
            function = self._module.get_function("multiply_parts")
        else:
            accurate = case.problem.types.accumulator is DType.F64 and not magnitudes
            last = (np.int64(case.batch),)
            function = self._module.get_function("multiply_accurately" if accurate else "multiply")
        pointers = (_address(memory) for memory in (a, b, product))
        function(*pointers, *sizes, *last, grid=grid, block=(THREADS, 1, 1))
        cuda.Context.synchronize()
        return product

    def largest(self, case: Case, addresses: Mapping[str, int]) -> tuple[Any, Any]:
        """Device memory with the largest finite magnitude of each row of A and each column of B, for all products, in
        each part of K whose sum has a scale."""
        found = []
        for name, lines in (("A", case.a.rows), ("B", case.b.cols)):
            decoded = self._factor(case, addresses, name, magnitudes=True)
            depth = case.problem.scaled_depth or max(1, case.k)
            most = allocate(max(1, DType.F64.size * lines * -(-case.k // depth) * case.batch))
            sizes = (np.int64(size) for size in (case.k, lines, case.batch, depth))
            self._launch("largest", _address(decoded), _address(most), *sizes)
            cuda.Context.synchronize()
            found.append(most)
        return found[0], found[1]

    def largest_of_parts(self, case: Case, addresses: Mapping[str, int]) -> Any:
        """Device memory with the largest scaled product of each element of C, as `largest` and the scales allow."""
        scales, (of_rows, of_columns) = self._scales(case, addresses), self.largest(case, addresses)
        most = allocate(DType.F64.size * case.m * case.n)
        pointers = (_address(memory) for memory in (of_rows, of_columns, most))
        sizes = np.int32(case.m), np.int32(case.n), np.int32(case.k)
        self._launch("largest_of_parts", *pointers, *sizes, *scales.arguments)
        cuda.Context.synchronize()
        return most

    def numbers(self, dtype: DType) -> int:
        """The device address of the values of all bit patterns of a type, as the host decodes them; 0 if none is
        needed."""
        if dtype.size > 2:
            return 0
        if dtype not in self._tables:
            self._tables[dtype] = cuda.to_device(dtype.decode(dtype.every()))
        return int(self._tables[dtype])

    def _factor(self, case: Case, addresses: Mapping[str, int], name: str, magnitudes: bool) -> Any:
        """The numbers of A or B as they are multiplied, K x lines: lines of A are rows, those of B columns."""
        matrix, inputs = case.tensors[name], case.problem.inputs
        codes = name == "B" and case.problem.coded
        along_rows = name == "B"
        decoded = self._decoded(matrix, addresses[name], case.batch, magnitudes and not codes, along_rows)
        if not codes:
            return decoded
        names = ("scales_b" if not case.problem.scaled_depth else None, "zeros_b" if inputs.zeros else None)
        companions = [one and self._decoded(case.extra[one], addresses[one], 1, False, True) for one in names]
        pointers = [_address(memory) for memory in (decoded, *companions)]
        of_a = case.problem.types.a
        least = of_a.min_exponent + 1 - of_a.precision
        sizes = (np.int64(size) for size in (case.k, case.b.cols, inputs.group or max(case.k, 1)))
        rounding = np.int32(of_a.precision), np.int32(least), np.float64(of_a.largest)
        self._launch("scale_codes", *pointers, *sizes, *rounding, np.int32(magnitudes))
        cuda.Context.synchronize()  # the companions' memory is needed until then
        return decoded

    def _scales(self, case: Case, addresses: Mapping[str, int]) -> Scales:
        """The scales of sums of parts of K, each part's behind those of the part before."""
        inputs, depth = case.problem.inputs, case.problem.scaled_depth
        of_b, address = case.extra["scales_b"], addresses["scales_b"]
        if not inputs.blocks:
            repeats = -(-case.k // depth) if inputs.group == 0 else 0  # parts of K that share one scale
            return Scales(None, self._decoded(of_b, address, 1, False, True, repeats), depth, 1)
        of_a = self._decoded(case.extra["scales_a"], addresses["scales_a"], 1, False, True)
        lines = inputs.lines
        return Scales(of_a, self._decoded(of_b, address, 1, False, lines), depth, 1 if lines else BLOCK)

    def _decoded(
        self, matrix: Matrix, address: int, batch: int, magnitudes: bool, along_rows: bool, repeats: int = 0
    ) -> Any:
        """The decoded numbers of a batch of matrices, each of lines that lie side by side: the columns of the matrix
        (`along_rows`), or its rows. With `repeats` its only row is there so many times."""
        down, across = (matrix.ld, 1) if matrix.order == "r" else (1, matrix.ld)
        depth, lines = (matrix.rows, matrix.cols) if along_rows else (matrix.cols, matrix.rows)
        along_depth, along_lines = (down, across) if along_rows else (across, down)
        if repeats:
            depth, along_depth = repeats, 0
        decoded = allocate(max(1, DType.F64.size * depth * lines * batch))
        sizes = (np.int64(size) for size in (depth, lines, batch, along_depth, along_lines, matrix.stride))
        pointers = np.uintp(address), _address(decoded)
        numbers = np.uintp(self.numbers(matrix.dtype))
        self._launch(f"decode_{matrix.dtype.storage_bits}", *pointers, *sizes, np.int32(magnitudes), numbers)
        return decoded

    def _launch(self, name: str, *arguments: Any) -> None:
        self._module.get_function(name)(*arguments, grid=(self._blocks, 1), block=(THREADS, 1, 1))


def _address(memory: Any | None) -> Any:
    """The address of device memory; null for None."""
    return np.uintp(0 if memory is None else int(memory))
