"""Vectors for tensor-core instructions: what goes in, by seed, and kernels whose C is what comes out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gemmgen.kernel.render import environment
from gemmgen.kernel.source import KernelSource, Launch, Parameter
from gemmgen.problem.device import WARP, parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import Mma
from gemmgen.problem.types import Types
from gemmgen.run.executor import Executor, Operands
from gemmgen.verification.tensor_core import Codes, dot


@dataclass(frozen=True)
class Vectors:
    """Products of `mma`, each of m x n elements: bit patterns of A (products, m, K), B (products, n, K) and C
    (products, m, n)."""

    mma: Mma
    a: Codes
    b: Codes
    c: Codes

    @property
    def problem(self) -> Problem:
        """Of the kernel: the products are a batch."""
        products, _, k = self.a.shape
        types = Types(self.mma.a, self.mma.b, self.mma.accumulator)
        return Problem(self.mma.m, self.mma.n, k, types=types, layout="rc", batch=products)

    def source(self, arch: str) -> KernelSource:
        """The kernel that adds A * B to C, a product a block."""
        mma, problem = self.mma, self.problem
        name = f"{mma.function}_vectors"
        template = environment(problem.types).get_template("device/mma_vectors.cu")
        offsets = [
            f"{i // 2 * 8 * mma.n} + {i % 2}" if mma.c_shared == 1 else f"{i * 8 * mma.n // 2}" for i in range(4)
        ]
        text = template.render(one=mma, K=self.a.shape[-1], name=name, arch=arch, c_offset=lambda i: offsets[i])
        parameters = (
            Parameter("A", f"const {mma.a_type}*"),
            Parameter("B", f"const {mma.a_type}*"),
            Parameter("C", f"{mma.c_type}*"),
        )
        return KernelSource(name, text, problem, "vectors", {}, Launch(WARP, (("batch", 1),)), parameters)

    def expected(self, arch: str) -> Codes:
        """D by the model of `arch`."""
        return dot(self.mma, parse_arch(arch), self.a[:, :, None, :], self.b[:, None, :, :], self.c)

    def run(self, executor: Executor, arch: str) -> Codes:
        """D as `executor` computes it. Raises CandidateFailed where it cannot."""
        kernel = executor.load(self.source(arch))
        try:
            case = self.problem.case(beta=1.0)
            codes = zip((self.a, self.b, self.c), case.matrices, strict=True)
            a, b, c = (some.ravel().view(matrix.dtype.numpy) for some, matrix in codes)
            return kernel.run(case, Operands(a, b, c)).view(self.c.dtype).reshape(self.c.shape)
        finally:
            kernel.close()


def random_vectors(mma: Mma, k: int, products: int, seed: int) -> Vectors:
    """Any bit patterns: as many of each exponent, Inf and NaN among them."""
    words = np.random.PCG64(seed).random_raw  # the same on every machine

    def codes(bits: int, *shape: int) -> Codes:
        drawn = np.asarray(words(math.prod(shape)), np.uint64) >> np.uint64(64 - bits)
        return np.asarray(drawn.astype(f"u{bits // 8}").reshape(shape))

    size = mma.a.storage_bits
    a, b = codes(size, products, mma.m, k), codes(size, products, mma.n, k)
    return Vectors(mma, a, b, codes(8 * mma.accumulator.size, products, mma.m, mma.n))
