"""cuBLAS's gemmBatched as the baseline for batches of pointers, through nvmath-python's bindings. Runs in the worker.

It has no algorithms to choose from: the library takes its own. As in cublaslt.py the operands swap, because cuBLAS is
column-major.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.run.gpu.cublaslt import OPERATION_T, WORKSPACE_BYTES
from gemmgen.run.gpu.launching import Pointers
from gemmgen.run.gpu.replay import allocate
from gemmgen.run.gpu.timing import GEMM_BATCHED
from gemmgen.support.errors import CandidateFailed, Failure

OPERATION_N = 0  # cublasOperation_t


class Cublas:
    """The library and its workspace. Raises CandidateFailed (unavailable) where it is missing."""

    def __init__(self) -> None:
        try:
            from nvmath.bindings import cublas

            self.handle = cublas.create()  # loads the library
        except (ImportError, RuntimeError) as error:
            reason = f"cuBLAS is missing ({str(error).splitlines()[0]}): pip install nvmath-python nvidia-cublas"
            raise CandidateFailed(Failure("unavailable", reason, "cublas")) from error
        self.api: Any = cublas
        self.products = {DType.F32: cublas.sgemm_batched, DType.F64: cublas.dgemm_batched}
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
        if not types.uniform or case.problem.epilogue.sums:
            sums = "".join(f", nor for {name}" for name in case.problem.epilogue.sums)
            reason = f"no baseline: {GEMM_BATCHED} has no kernel for {types}{sums}"
            raise CandidateFailed(Failure("unavailable", reason, "cublas"))
        dtype = types.accumulator
        self._library, self._case = library, case
        self._product = library.products[dtype]
        self._alpha, self._beta = np.array([case.alpha], dtype.numpy), np.array([case.beta], dtype.numpy)

    def enqueue(self, algorithm: int, pointers: Pointers, stream: Any) -> None:
        """Put one batch on `stream`; `pointers` are those of the arrays. Raises CandidateFailed (launch)."""
        api, handle, case = self._library.api, self._library.handle, self._case
        of_b, of_a = (OPERATION_T if matrix.order == "c" else OPERATION_N for matrix in (case.b, case.a))
        try:
            api.set_stream(handle, stream.handle)
            # A new stream resets it; without one of ours, cuBLAS would allocate while a graph is captured.
            api.set_workspace(handle, int(self._library.workspace), WORKSPACE_BYTES)
            self._product(
                handle,
                of_b,
                of_a,
                case.n,
                case.m,
                case.k,
                self._alpha.ctypes.data,
                pointers["B"],
                case.ldb,
                pointers["A"],
                case.lda,
                self._beta.ctypes.data,
                pointers["C"],
                case.ldc,
                case.batch,
            )
        except api.cuBLASError as error:
            raise CandidateFailed(Failure("launch", str(error), "cublas")) from error

    def close(self) -> None:
        """It holds nothing of the library's."""
