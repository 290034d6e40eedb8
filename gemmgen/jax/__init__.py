"""Kernels in JAX (`pip install 'gemmgen[jax]'`): a product that jax.jit compiles in and jax.vmap maps.

import gemmgen, gemmgen.jax

kernel = gemmgen.load("gemm_bf16_rr_4096x4096x4096_sm90_1f3c9a2b")
c = jax.jit(lambda a, b: gemmgen.jax.gemm(kernel, a, b) + 1)(a, b)
"""

from gemmgen.jax.product import gemm

__all__ = ["gemm"]
