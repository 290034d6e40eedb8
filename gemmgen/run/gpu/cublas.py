"""cuBLAS's gemmBatched as the baseline for batches of pointers, through nvmath-python's bindings. Runs in the worker.

There is no choice of algorithms: the library chooses itself. As in cublaslt.py the operands swap, because cuBLAS is
column-major.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.types import Types
from gemmgen.run.gpu.cublaslt import DATA_TYPES, OPERATION_T, WORKSPACE_BYTES
from gemmgen.run.gpu.launching import Pointers
from gemmgen.run.gpu.sampling import allocate
from gemmgen.run.gpu.timing import GEMM_BATCHED
from gemmgen.support.errors import CandidateFailed, Failure, NoBaseline

OPERATION_N = 0  # cublasOperation_t
DEFAULT_ALGORITHM = -1  # cublasGemmAlgo_t
# The types that cublasGemmBatchedEx takes, by its table: sums are f32, or s32 if C is.
CONVERTED = frozenset(map(Types.parse, ("f16", "bf16", "f16,f16,f32", "bf16,bf16,f32", "s8,s8,s32")))


class Cublas:
    """The library and its workspace. Raises CandidateFailed (unavailable) if it is missing."""

    def __init__(self) -> None:
        try:
            from nvmath.bindings import cublas

            self.handle = cublas.create()  # loads the library
        except (ImportError, RuntimeError) as error:
            reason = f"cuBLAS is missing ({str(error).splitlines()[0]}): pip install nvmath-python nvidia-cublas"
            raise CandidateFailed(Failure("unavailable", reason, "cublas")) from error
        self.api: Any = cublas
        self.products = {Types.of(DType.F32): cublas.sgemm_batched, Types.of(DType.F64): cublas.dgemm_batched}
        self.workspace = allocate(WORKSPACE_BYTES)

    @property
    def version(self) -> str:
        number = int(self.api.get_version(self.handle))
        return f"cuBLAS {number // 10000}.{number // 100 % 100}.{number % 100} {GEMM_BATCHED}"

    def plan(self, case: Case) -> BatchedPlan:
        """One problem as cuBLAS sees it."""
        return BatchedPlan(self, case)


class BatchedPlan:
    """The arguments of one call; `offered` is 1, as there is nothing to choose."""

    offered = 1

    def __init__(self, library: Cublas, case: Case) -> None:
        types = case.problem.types
        served = types in library.products or types in CONVERTED
        if not served or case.problem.epilogue.sums:
            sums = "".join(f", nor for {name}" for name in case.problem.epilogue.sums)
            raise NoBaseline(f"{GEMM_BATCHED} has no kernel for {types}{sums}", "cublas")
        scalar = types.scalar.numpy
        self._library, self._case = library, case
        self._alpha, self._beta = np.array([case.alpha], scalar), np.array([case.beta], scalar)

    def enqueue(self, algorithm: int, pointers: Pointers, stream: Any) -> None:
        """Enqueue one batch on `stream`; `pointers` are those of the arrays. Raises CandidateFailed (launch)."""
        api, handle, case = self._library.api, self._library.handle, self._case
        of_b, of_a = (OPERATION_T if matrix.order == "c" else OPERATION_N for matrix in (case.b, case.a))
        try:
            api.set_stream(handle, stream.handle)
            # A new stream resets it; without one of ours, cuBLAS would allocate while a graph is captured.
            api.set_workspace(handle, int(self._library.workspace), WORKSPACE_BYTES)
            sizes = (case.n, case.m, case.k)
            self._multiply((handle, of_b, of_a, *sizes), pointers)
        except api.cuBLASError as error:
            raise CandidateFailed(Failure("launch", str(error), "cublas")) from error

    def _multiply(self, start: tuple[int, ...], pointers: Pointers) -> None:
        """Call gemmBatched; `start` holds its first arguments, up to the sizes."""
        case, types, api = self._case, self._case.problem.types, self._library.api
        alpha, beta = self._alpha.ctypes.data, self._beta.ctypes.data
        a, b, c = (pointers[name] for name in "ABC")
        product = self._library.products.get(types)
        if product is not None:
            product(*start, alpha, b, case.ldb, a, case.lda, beta, c, case.ldc, case.batch)
            return
        of_a, of_b, of_c = (DATA_TYPES[dtype] for dtype in types.operands)
        sums = api.ComputeType.COMPUTE_32I if types.accumulator.is_integer else api.ComputeType.COMPUTE_32F
        operands = (alpha, b, of_b, case.ldb, a, of_a, case.lda, beta, c, of_c, case.ldc)
        api.gemm_batched_ex(*start, *operands, case.batch, sums, DEFAULT_ALGORITHM)

    def close(self) -> None:
        """Do nothing, as the plan holds nothing of the library's."""
