"""The operator gemmgen::scaled_grouped_mm: products of groups of rows whose rows and columns have scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gemmgen.support.errors import require
from gemmgen.torch.grouped import SCALES, asked_of, computed, require_ends
from gemmgen.torch.operator import Kernel, extent, names_of

SCHEMA = (
    "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor offs, Tensor? bias, str[] kernels, ScalarType dtype)"
    " -> Tensor"
)


def scaled_grouped_mm(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    offs: Any,
    bias: Any = None,
    out_dtype: Any = None,
    *,
    kernels: Sequence[Kernel],
) -> Any:
    """Compute what torch._scaled_grouped_mm does of e4m3 by row: the experts of a mixture, for inference.

    a is M x K, the rows of all groups, and b is G x K x N: the result is M x N, as that of `grouped_mm`. A row of a
    has one scale, and each group has one for each column of b:

        result[m, n] = scale_a[m] * scale_b[g, n] * (a[m] @ b[g])[n] + bias[g, n]       row m is of group g

    scale_a    M numbers
    scale_b    G x N
    offs       the ends of the groups: G numbers of int32 on the device of a
    bias       G x N; None: nothing is added
    out_dtype  the type of the result, a type of C of a kernel; None: bfloat16
    kernels    loaded kernels, or products of a library, with `inputs="groups=G"` and the epilogue scale_m+scale_n, for
               a bias scale_m+scale_n+bias: of e4m3,e4m3,bf16, or of s8,s8,bf16. The first serves that fits

    It can be traced by torch.compile. There are no gradients. Raises InvalidInput if no kernel fits, with the reason
    for each, and for what kernels refuse.
    """
    dims = a.dim(), b.dim()
    require(dims == (2, 3), f"a has {dims[0]} dimensions, and b {dims[1]}: 2 and 3 are groups of rows with scales")
    require_ends(offs)
    given = a, b, scale_a, scale_b, offs, bias, names_of(kernels), out_dtype or torch.bfloat16
    learns = torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in given[:6])
    return (OPERATOR if learns or torch.compiler.is_compiling() else _run)(*given)


def _run(a: Any, b: Any, scale_a: Any, scale_b: Any, offs: Any, bias: Any, kernels: list[str], dtype: Any) -> Any:
    by_group, vectors = {"scale_b": scale_b}, {"scale_m": scale_a, "scale_n": scale_b}
    if bias is not None:
        by_group["bias"] = vectors["bias_n"] = bias
    epilogue = SCALES if bias is None else f"{SCALES}+bias"
    asked = asked_of(a, b, offs, dtype, epilogue, by_group)
    rows = a.shape[:1]
    require(scale_a.shape == rows, f"scale_a is {extent(scale_a.shape)}: this product takes {rows[0]}, one per row")
    out = _empty(a, b, scale_a, scale_b, offs, bias, kernels, dtype)
    return computed(kernels, asked, a, b, out, offs, vectors)


def _empty(a: Any, b: Any, scale_a: Any, scale_b: Any, offs: Any, bias: Any, kernels: list[str], dtype: Any) -> Any:
    return a.new_empty((a.shape[0], b.shape[-1]), dtype=dtype)


def _backward(ctx: Any, grad: Any) -> Any:
    require(False, "scaled_grouped_mm has no gradients: gemmgen.torch.grouped_mm of bf16 has them")


OPERATOR = torch.library.custom_op("gemmgen::scaled_grouped_mm", _run, mutates_args=(), schema=SCHEMA)
OPERATOR.register_fake(_empty)
OPERATOR.register_autograd(_backward)
