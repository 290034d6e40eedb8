"""Linear layers whose weights and activations are e4m3 with scales of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gemmgen.arrays.quantising import quantise_rows, quantise_squares
from gemmgen.problem.dtype import DType
from gemmgen.support.errors import require
from gemmgen.torch.linear import KernelsFor
from gemmgen.torch.operator import PRODUCTS, Kernel


class BlocksLinear(torch.nn.Module):
    """y = x * W^T + bias, like torch.nn.Linear, with W and x rounded to e4m3: for inference alone.

    W has a scale for each 128 x 128 elements, a row of x one for each 128 (`gemmgen.arrays.quantising`).

    weight   a tensor, N x K; its codes and scales are kept as buffers
    bias     a tensor, or None
    kernels  kernels of M x N x K with types "e4m3,e4m3,bf16_promoted", say, layout rc, `inputs="blocks"`, and C of the
             type of x. One with fixed M takes x with M rows, and one with run-time M, of which there is at least one,
             any other x

    Raises InvalidInput for a kernel of another problem.
    """

    def __init__(self, weight: Any, bias: Any, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        for kernel in kernels:
            _require_kernel(kernel, weight)
        self._by_rows = {kernel.source.problem.m: kernel for kernel in reversed(kernels)}
        names = ", ".join(kernel.name for kernel in kernels) or "none"
        require(None in self._by_rows, f"a kernel for any number of rows is needed: there are {names}")
        self.bias = bias if bias is None or isinstance(bias, torch.nn.Parameter) else torch.nn.Parameter(bias, False)
        codes, scales = quantise_squares(weight.detach().contiguous())
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)

    def forward(self, x: Any) -> Any:
        rows = x.reshape(-1, self.in_features)
        kernel = self._by_rows.get(rows.shape[0]) or self._by_rows[None]
        codes, scales = quantise_rows(rows)
        y = kernel(codes, self.codes.t(), scales_a=scales, scales_b=self.scales)
        if self.bias is not None:
            y = y + self.bias
        return y.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def replace_blocks(model: Any, kernels_for: KernelsFor) -> list[str]:
    """Replace each torch.nn.Linear in `model`, except `model` itself, by a `BlocksLinear`; return their names.

    kernels_for  returns the kernels for a torch.nn.Linear, which layers of one shape can share; without kernels it
                 stays
    """
    found = [(name, module) for name, module in model.named_modules() if type(module) is torch.nn.Linear and name]
    replaced = []
    for name, linear in found:
        kernels = kernels_for(linear)
        if kernels:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, BlocksLinear(linear.weight, linear.bias, kernels))
            replaced.append(name)
    return replaced


def _require_kernel(kernel: Kernel, weight: Any) -> None:
    problem, (n, k) = kernel.source.problem, weight.shape
    for name, size, fixed in (("N", n, problem.n), ("K", k, problem.k)):
        require(fixed in (None, size), f"{kernel.name} is built for {name} = {fixed}, and the weight has {size}")
    wanted = str(weight.dtype).removeprefix("torch.")
    types = problem.types
    same = types.a is types.b is DType.E4M3 and str(types.c.numpy) == wanted
    require(same, f"{kernel.name} multiplies {types}: x and the weight are {wanted}, and become e4m3")
    inputs = problem.inputs
    require(inputs.blocks and not inputs.lines, f"{kernel.name} takes inputs = {inputs}: a BlocksLinear needs blocks")
    require(str(problem.layout) == "rc", f"{kernel.name} has layout {problem.layout}: a Linear needs rc")
    known = problem.epilogue in PRODUCTS
    require(known, f"{kernel.name} has the epilogue {problem.epilogue}: a BlocksLinear has the product")
