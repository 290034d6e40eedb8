"""cuBLASLt as the baseline, through nvmath-python's bindings. Runs in the worker.

cuBLASLt is column-major at heart. A row-major C = A B is the column-major C^T = B^T A^T on the same memory, so the
operands swap: cuBLASLt's first operand is our B, and a matrix that we call row-major needs no transposition.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pycuda.driver as cuda

from gemmgen.problem.dtype import Doubles, DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.inputs import BLOCK, SCALES_TOGETHER
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.types import Compute, Types
from gemmgen.run.gpu.launching import Pointers
from gemmgen.run.gpu.lt_epilogue import adds_residual, own_epilogue
from gemmgen.run.gpu.sampling import allocate
from gemmgen.support.errors import CandidateFailed, Failure, NoBaseline

WORKSPACE_BYTES = 64 * 2**20  # NVIDIA recommends 32 MiB for Hopper
REQUESTED = 64  # heuristics; cuBLASLt offers fewer, about 8
# cudaDataType_t: R_32F and so on
DATA_TYPES = {
    DType.F32: 0,
    DType.F64: 1,
    DType.F16: 2,
    DType.S8: 3,
    DType.U8: 8,
    DType.S32: 10,
    DType.BF16: 14,
    DType.E4M3: 28,
    DType.E5M2: 29,
}
OPERATION_T = 1  # cublasOperation_t
OF_ROWS, OF_SQUARES = 4, 5  # cublasLtMatmulMatrixScale_t: VEC128_32F, a scale of 1 x 128, and BLK128x128_32F


class Cublaslt:
    """The library and its workspace. Raises CandidateFailed (unavailable) if it is missing."""

    def __init__(self) -> None:
        try:
            from nvmath.bindings import cublas, cublasLt

            self.handle = cublasLt.create()  # loads the library
        except (ImportError, RuntimeError) as error:
            reason = f"cuBLASLt is missing ({str(error).splitlines()[0]}): pip install nvmath-python nvidia-cublas"
            raise CandidateFailed(Failure("unavailable", reason, "cublaslt")) from error
        self.api: Any = cublasLt
        self.compute_types = {
            DType.F32: cublas.ComputeType.COMPUTE_32F,  # FP32 FMA; FAST_TF32 would round the inputs
            DType.F64: cublas.ComputeType.COMPUTE_64F,  # may take tensor cores, which round no more than FMAs do
            DType.S32: cublas.ComputeType.COMPUTE_32I,
        }
        self.tf32 = cublas.ComputeType.COMPUTE_32F_FAST_TF32
        self.workspace = allocate(WORKSPACE_BYTES)

    @property
    def version(self) -> str:
        number = int(self.api.get_version())
        return f"cuBLASLt {number // 10000}.{number // 100 % 100}.{number % 100}"

    def plan(self, case: Case) -> LtPlan:
        """Make descriptors and heuristics for `case`. Raises CandidateFailed if cuBLASLt has no algorithm."""
        sums = case.problem.epilogue.sums
        if sums:
            raise _no_kernel(case, f"it does not compute {' and '.join(sums)}")
        if case.problem.types.compute is Compute.F16:
            raise _no_kernel(case, "with sums of f16 it takes alpha and beta of f16")
        return LtPlan(self, case)

    def compute_type(self, types: Types) -> Any:
        """The compute type that cuBLASLt is to use."""
        return self.tf32 if types.compute is Compute.TF32 else self.compute_types[types.accumulator]


class LtPlan:
    """One problem as cuBLASLt sees it, and the algorithms that its heuristics offer."""

    def __init__(self, library: Cublaslt, case: Case) -> None:
        api = library.api
        self._library = library
        types = case.problem.types
        scalar = types.scalar
        self._added = "residual" if adds_residual(case.problem) else "C"  # what beta multiplies
        beta = case.beta if self._added == "C" else 1.0
        self._alpha, self._beta = np.array([case.alpha], scalar.numpy), np.array([beta], scalar.numpy)
        try:
            self._operation = api.matmul_desc_create(library.compute_type(types), DATA_TYPES[scalar])
        except api.cuBLASLtError as error:
            raise _no_kernel(case, error) from error
        taken = dict.fromkeys(("A", "B", "C", self._added))
        self._layouts = {name: self._layout(case.tensors[name]) for name in taken}
        for attribute, order in (("TRANSA", case.b.order), ("TRANSB", case.a.order)):  # swapped: see the module
            if order == "c":
                transposed = ctypes.c_int32(OPERATION_T)
                _set(api.matmul_desc_set_attribute, self._operation, api.MatmulDescAttribute[attribute], transposed)
        self._sum_fast(types)
        self._scaled = case.problem.inputs.blocks
        if self._scaled:
            self._scale_blocks(case)
        self._own, self._bias_type = own_epilogue(case.problem), types.c
        self._bias: Any = None
        # An operand's bias is of alpha's type, and cuBLASLt adds one of C's.
        self.takes_bias = self._own is not None and self._own.bias and types.c is not scalar
        self._set_epilogue()
        try:
            self._algorithms = self._heuristics()
        except api.cuBLASLtError as error:
            self.close()
            raise _no_kernel(case, error) from error
        if not self._algorithms:
            self.close()
            raise _no_kernel(case, "it offers no algorithm")
        self.offered = len(self._algorithms)

    def _set_epilogue(self) -> None:
        """Ask for cuBLASLt's own epilogue, if the problem's is one."""
        if self._own is None:
            return
        api = self._library.api
        epilogue = ctypes.c_int32(self._own.number)
        bias = ctypes.c_void_p(int(self._library.workspace))  # somewhere: each launch has its own
        _set(api.matmul_desc_set_attribute, self._operation, api.MatmulDescAttribute.EPILOGUE, epilogue)
        if self._own.bias:
            _set(api.matmul_desc_set_attribute, self._operation, api.MatmulDescAttribute.BIAS_POINTER, bias)

    def _sum_fast(self, types: Types) -> None:
        """Ask for sums of fp8 without promotion, if the types say so."""
        if types.compute is Compute.FAST:
            api = self._library.api
            attribute = api.MatmulDescAttribute.FAST_ACCUM
            _set(api.matmul_desc_set_attribute, self._operation, attribute, ctypes.c_int8(1))

    def _scale_blocks(self, case: Case) -> None:
        """Say how blocks are scaled. Raises NoBaseline where cuBLASLt wants scales elsewhere than they lie."""
        of_lines = case.problem.inputs.lines
        lines = (case.m, "M"), (case.n, "N") if of_lines else (-(-case.k // BLOCK), f"K / {BLOCK}")
        odd = [f"{what} = {number}" for number, what in lines if number % SCALES_TOGETHER]
        if odd:
            raise _no_kernel(case, f"it takes scales in lines of {SCALES_TOGETHER}, and {' and '.join(odd)}")
        api, attributes = self._library.api, self._library.api.MatmulDescAttribute
        of_b = OF_ROWS if of_lines else OF_SQUARES
        for name, mode in (("A_SCALE_MODE", of_b), ("B_SCALE_MODE", OF_ROWS)):  # swapped: see the module
            _set(api.matmul_desc_set_attribute, self._operation, attributes[name], ctypes.c_int32(mode))
        self._point_to_scales(int(self._library.workspace), int(self._library.workspace))  # each launch has its own

    def _point_to_scales(self, of_a: int, of_b: int) -> None:
        api, attributes = self._library.api, self._library.api.MatmulDescAttribute
        for name, address in (("A_SCALE_POINTER", of_b), ("B_SCALE_POINTER", of_a)):
            _set(api.matmul_desc_set_attribute, self._operation, attributes[name], ctypes.c_void_p(address))

    def take_bias(self, values: Doubles) -> None:
        """Set the bias to these values, rounded to C's type, in place of the operand's, if the plan `takes_bias`."""
        encoded = self._bias_type.encode(values.ravel())
        self._bias = allocate(encoded.nbytes)
        cuda.memcpy_htod(self._bias, encoded)

    def enqueue(self, algorithm: int, pointers: Pointers, stream: Any) -> None:
        """Enqueue one product on `stream`. Raises CandidateFailed (launch)."""
        api = self._library.api
        if self._scaled:
            self._point_to_scales(pointers["scales_a"], pointers["scales_b"])
        if self._own is not None and self._own.bias:
            bias = ctypes.c_void_p(pointers["bias_n"] if self._bias is None else int(self._bias))
            _set(api.matmul_desc_set_attribute, self._operation, api.MatmulDescAttribute.BIAS_POINTER, bias)
        try:
            api.matmul(
                self._library.handle,
                self._operation,
                self._alpha.ctypes.data,
                pointers["B"],
                self._layouts["B"],
                pointers["A"],
                self._layouts["A"],
                self._beta.ctypes.data,
                pointers[self._added],
                self._layouts[self._added],
                pointers["C"],
                self._layouts["C"],
                self._algorithms[algorithm].ctypes.data,
                int(self._library.workspace),
                WORKSPACE_BYTES,
                stream.handle,
            )
        except api.cuBLASLtError as error:
            raise CandidateFailed(Failure("launch", str(error), "cublaslt")) from error

    def close(self) -> None:
        api = self._library.api
        for layout in self._layouts.values():
            api.matrix_layout_destroy(layout)
        api.matmul_desc_destroy(self._operation)
        if self._bias is not None:
            self._bias.free()

    def _layout(self, matrix: Matrix) -> Any:
        """The layout of a matrix in memory for cuBLASLt: its columns are our lines."""
        api = self._library.api
        layout = api.matrix_layout_create(DATA_TYPES[matrix.dtype], matrix.line_length, matrix.lines, matrix.ld)
        if matrix.batch is not None:
            attributes = api.MatrixLayoutAttribute
            count, stride = ctypes.c_int32(matrix.batch), ctypes.c_int64(matrix.stride)
            _set(api.matrix_layout_set_attribute, layout, attributes.BATCH_COUNT, count)
            _set(api.matrix_layout_set_attribute, layout, attributes.STRIDED_BATCH_OFFSET, stride)
        return layout

    def _heuristics(self) -> list[Any]:
        """The algorithms that work, in the heuristics' order, as opaque structs."""
        api = self._library.api
        preference = api.matmul_preference_create()
        attribute = api.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES
        _set(api.matmul_preference_set_attribute, preference, attribute, ctypes.c_uint64(WORKSPACE_BYTES))
        results = api.MatmulHeuristicResult(REQUESTED)
        count = np.zeros(1, np.int32)
        operands = (self._layouts[name] for name in ("B", "A", self._added, "C"))
        try:
            api.matmul_algo_get_heuristic(
                self._library.handle, self._operation, *operands, preference, REQUESTED, results.ptr, count.ctypes.data
            )
        finally:
            api.matmul_preference_destroy(preference)
        # A copy, so that each algorithm's memory lives as long as the plan.
        return [np.array(results[index]["algo"]) for index in range(int(count[0])) if results[index]["state"] == 0]


def _no_kernel(case: Case, why: object) -> NoBaseline:
    return NoBaseline(f"cuBLASLt has no kernel for {case.problem.types} {case.problem.layout} ({why})", "cublaslt")


def _set(setter: Any, descriptor: Any, attribute: int, value: Any) -> None:
    """Set an attribute to a ctypes value."""
    setter(descriptor, attribute, ctypes.addressof(value), ctypes.sizeof(value))
