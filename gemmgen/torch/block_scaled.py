"""Linear layers whose weights and activations are e4m3 with scales by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gemmgen.arrays.quantising import quantise_rows, quantise_squares
from gemmgen.problem.dtype import DType
from gemmgen.problem.inputs import BLOCK
from gemmgen.support.errors import require
from gemmgen.torch.inference import InferenceLinear
from gemmgen.torch.operator import OPERATOR, Kernel

# quantise_rows, as torch.compile sees it.
QUANTISE = torch.library.custom_op(
    "gemmgen::quantise_rows", quantise_rows, mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)"
)


def _of_shapes(x: Any) -> Any:
    """Return codes and scales of the shapes that `quantise_rows` returns."""
    rows, k = x.shape
    codes = x.new_empty((rows, k), dtype=torch.float8_e4m3fn)
    return codes, x.new_empty((-(-k // BLOCK), rows), dtype=torch.float32)


QUANTISE.register_fake(_of_shapes)


class BlockScaledLinear(InferenceLinear):
    """y = x * W^T + bias, like torch.nn.Linear, with W and x in e4m3: W has a scale for each 128 x 128 elements, a row
    of x one for each 128 (`gemmgen.arrays.quantising`). Each call rounds x.

    weight   a tensor, N x K: of floats, which are rounded, or of e4m3 together with `scales`
    bias     a tensor of N elements, or None
    kernels  kernels of M x N x K with types e4m3, e4m3 and the type of y, compute "promoted", layout rc and
             `inputs="blocks"`. One with fixed M takes x with M rows; one with run-time M, which is needed, any other x
    scales   ceil(N / 128) x ceil(K / 128) of f32, for a weight of e4m3: DeepSeek's `weight_scale_inv`, for instance

    torch.compile traces it. Raises InvalidInput for a kernel of another problem, and for x that requires a gradient.
    """

    def __init__(self, weight: Any, bias: Any, kernels: Sequence[Kernel], scales: Any = None) -> None:
        (n, k), rounded = weight.shape, weight.dtype is torch.float8_e4m3fn
        for kernel in kernels:
            _require_kernel(kernel)
        super().__init__(n, k, bias, kernels)
        require(rounded == (scales is not None), f"a weight of {weight.dtype}: scales go with e4m3, and only with it")
        codes, scales = (weight, scales) if rounded else quantise_squares(weight.detach().contiguous())
        wanted = -(-n // BLOCK), -(-k // BLOCK)
        require(tuple(scales.shape) == wanted, f"scales of shape {tuple(scales.shape)}: this weight has {wanted}")
        self.register_buffer("codes", codes.contiguous())
        self.register_buffer("scales", scales.contiguous())

    def _product(self, rows: Any, kernel: Kernel, name: str, operands: dict[str, Any]) -> Any:
        if torch.compiler.is_compiling():
            codes, scales = QUANTISE(rows)
            given = [scales, self.scales, *operands.values()]
            return OPERATOR(codes, self.codes.t(), given, name, self.out_features, 1.0, False)
        codes, scales = quantise_rows(rows)
        return kernel(codes, self.codes.t(), scales_a=scales, scales_b=self.scales, **operands)


def _require_kernel(kernel: Kernel) -> None:
    types, inputs = kernel.source.problem.types, kernel.source.problem.inputs
    require(types.a is types.b is DType.E4M3, f"{kernel.name} multiplies {types}: x and the weight become e4m3")
    dense = inputs.squares and not inputs.padded
    require(dense, f"{kernel.name} takes inputs = {inputs}: a BlockScaledLinear needs blocks")
