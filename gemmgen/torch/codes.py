"""Linear layers whose weights are codes of 4 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gemmgen.arrays.binding import Prepared
from gemmgen.checkpoints.weight import QuantisedWeight
from gemmgen.problem.dtype import DType
from gemmgen.support.errors import require
from gemmgen.torch.operator import OPERATOR, PRODUCTS, SUMS, Kernel, registered

KernelsForCodes = Callable[[QuantisedWeight], Sequence[Kernel]]


class CodesLinear(torch.nn.Module):
    """y = x * W^T + bias, like torch.nn.Linear, with W as codes that kernels turn into numbers: for inference alone.

    weight   the codes, packed once for the kernels and kept as the buffer `packed`
    bias     a tensor, or None
    kernels  kernels of M x out_features x in_features, layout rc, the type of the scales and `weight.inputs`. A kernel
             with fixed M takes x with M rows, and one with run-time M, of which there is at least one, any other x: a
             product of a library (`gemmgen.load_library`), for instance

    In torch.compile it calls the operator of `gemmgen.torch.gemm`, else it launches the kernel. Raises InvalidInput for
    a kernel of another problem, and for x or a bias that requires a gradient.
    """

    def __init__(self, weight: QuantisedWeight, bias: Any, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.n, weight.k
        for kernel in kernels:
            _require_kernel(kernel, weight, bias)
        self._by_rows = {
            kernel.source.problem.m: (kernel, registered(kernel), kernel.source.problem.epilogue in SUMS)
            for kernel in reversed(kernels)
        }
        names = ", ".join(kernel.name for kernel in kernels) or "none"
        require(None in self._by_rows, f"a kernel for any number of rows is needed: there are {names}")
        self.bias = bias if bias is None or isinstance(bias, torch.nn.Parameter) else torch.nn.Parameter(bias, False)
        self._layout, packed = _packed(self._by_rows[None][0], weight)
        self.register_buffer("packed", packed)

    def forward(self, x: Any) -> Any:
        rows = x.reshape(-1, self.in_features)
        kernel, name, adds = self._by_rows.get(rows.shape[0]) or self._by_rows[None]
        operands = {} if self.bias is None or not adds else {"bias_n": self.bias.float()}
        if torch.compiler.is_compiling():
            y = OPERATOR(rows, self.packed, [*operands.values()], name, self.out_features, 1.0, True)
        else:
            weight = Prepared("B", self.packed, (self.in_features, self.out_features), self._layout)
            y = kernel(rows, weight, **operands)
        if self.bias is not None and not adds:
            y = y + self.bias
        return y.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        shape = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return f"{shape}, {self._layout}"


def replace_codes(model: Any, weights: Mapping[str, QuantisedWeight], kernels_for: KernelsForCodes) -> list[str]:
    """Replace each torch.nn.Linear of `model` that `weights` names by a `CodesLinear`; return their names.

    weights      by the module's name, as `gemmgen.checkpoints.open_checkpoint` reads them
    kernels_for  returns the kernels for a weight, which layers of one shape can share; without kernels it stays

    Raises InvalidInput for a name that is no Linear, and for one of another shape.
    """
    modules = dict(model.named_modules())
    replaced = []
    for name in weights:
        linear: Any = modules.get(name)
        require(isinstance(linear, torch.nn.Linear), f"{name} is {type(linear).__name__}, and codes are of a Linear")
        weight = weights[name]
        shape = linear.out_features, linear.in_features
        require(
            shape == (weight.n, weight.k), f"{name} is {shape[0]} x {shape[1]}: its codes are {weight.n} x {weight.k}"
        )
        kernels = kernels_for(weight)
        if kernels:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, CodesLinear(weight, linear.bias, kernels))
            replaced.append(name)
    return replaced


def _require_kernel(kernel: Kernel, weight: QuantisedWeight, bias: Any) -> None:
    problem = kernel.source.problem
    for name, size, fixed in (("N", weight.n, problem.n), ("K", weight.k, problem.k)):
        require(fixed in (None, size), f"{kernel.name} is built for {name} = {fixed}, and the weight has {size}")
    wanted = weight.scale_type, weight.element
    taken = problem.types.a, problem.types.b
    words = f"{kernel.name} multiplies {taken[0].label} by {taken[1].label}"
    require(taken == wanted, f"{words}: these codes are {wanted[1].label}, with scales of {wanted[0].label}")
    require(problem.inputs == weight.inputs, f"{kernel.name} takes {problem.inputs}: these codes have {weight.inputs}")
    require(str(problem.layout) == "rc", f"{kernel.name} has layout {problem.layout}: a Linear needs rc")
    known = problem.epilogue in SUMS or problem.epilogue in PRODUCTS
    require(known, f"{kernel.name} has the epilogue {problem.epilogue}: a Linear has the product, or that and bias_n")
    require(problem.epilogue not in SUMS or bias is not None, f"{kernel.name} adds bias_n, and there is no bias")


def _packed(kernel: Kernel, weight: QuantisedWeight) -> tuple[str, Any]:
    """(the layout of packed codes, and these on the kernel's device)."""
    device = kernel.device

    def tensor(array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    codes = tensor(weight.packed(weight.element).reshape(weight.n, -1))
    kind = {DType.BF16: torch.bfloat16, DType.F16: torch.float16}[weight.scale_type]
    scales = tensor(weight.scales.view(np.int16)).view(kind)
    zeros = weight.packed_zeros()
    made = kernel.pack_b(codes, scales, None if zeros is None else tensor(zeros))
    return made.layout, made.array
