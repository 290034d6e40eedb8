"""The errors of a kernel's results, and of cuBLASLt's for the same operands in the same run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.run.executor import Floats
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.verification.companions import by_rows
from gemmgen.verification.data import data_seed, make_operands, unscaled
from gemmgen.verification.products import products
from gemmgen.verification.situation import Situation
from gemmgen.verification.window import Window

ROWS = 64  # of C that are looked at: as many products as a second or two of BLAS
UNIT = DType.F32.unit_roundoff  # 2^-24


@dataclass(frozen=True)
class Accuracy:
    """The largest error of an element over the sum of its products' magnitudes, in units of 2^-24.

    The product A * B has numbers uniform in [-1, 1]; its first ROWS rows count. The reference is summed in float64.
    """

    ours: float
    baseline: float


def measured(gpu: GpuExecutor, kernel: GpuKernel, case: Case) -> Accuracy:
    """Measure the accuracy in one launch each, with cuBLASLt's first heuristic. Raises CandidateFailed."""
    situation = Situation(unscaled(case), "random", seed=0)
    operands = make_operands(situation)
    window = Window.whole(situation.case).parts(ROWS * case.n)[0]
    product, size, _ = products(situation.case, situation.data, data_seed(situation), window)

    def error(result: Floats) -> float:
        got = case.c.dtype.decode(by_rows(case, operands, case.c.view(result))[window.index])
        return float((np.abs(got - product) / size).max(initial=0.0) / UNIT)

    theirs = gpu.run_baseline(situation.case, operands)
    return Accuracy(error(gpu.run(kernel, situation.case, operands)), error(theirs))
