"""Linear layers whose weights are quantised to 4 or 8 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gemmgen.arrays.binding import Prepared
from gemmgen.checkpoints.weight import QuantisedWeight
from gemmgen.problem.dtype import DType
from gemmgen.support.errors import require
from gemmgen.torch.inference import InferenceLinear
from gemmgen.torch.operator import OPERATOR, Kernel


class QuantisedLinear(InferenceLinear):
    """y = x * W^T + bias, like torch.nn.Linear, with W quantised to 4 or 8 bits and a scale for each group along K.

    weight   the quantised weight, packed once for all kernels and kept as the buffer `packed`
    bias     a tensor of N elements, or None
    kernels  kernels of M x N x K, layout rc, with A and C of the type of the scales and `inputs=weight.inputs`. A
             kernel with fixed M takes x with M rows; one with run-time M, which is needed, any other x. A product of a
             library (`gemmgen.load_library`) takes any number of rows

    torch.compile traces it. Raises InvalidInput for a kernel of another problem, and for x that requires a gradient.
    """

    def __init__(self, weight: QuantisedWeight, bias: Any, kernels: Sequence[Kernel]) -> None:
        for kernel in kernels:
            _require_kernel(kernel, weight)
        super().__init__(weight.n, weight.k, bias, kernels)
        self._layout, packed = _packed(self._by_rows[None][0], weight)
        self.register_buffer("packed", packed)

    def _product(self, rows: Any, kernel: Kernel, name: str, operands: dict[str, Any]) -> Any:
        if torch.compiler.is_compiling():
            return OPERATOR(rows, self.packed, [*operands.values()], name, self.out_features, 1.0, True)
        packed = Prepared("B", self.packed, (self.in_features, self.out_features), self._layout)
        return kernel(rows, packed, **operands)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self._layout}"


def _require_kernel(kernel: Kernel, weight: QuantisedWeight) -> None:
    problem = kernel.source.problem
    wanted = weight.scale_type, weight.element
    taken = problem.types.a, problem.types.b
    words = f"{kernel.name} multiplies {taken[0].label} by {taken[1].label}"
    require(taken == wanted, f"{words}: this weight is {wanted[1].label}, with scales of {wanted[0].label}")
    require(problem.inputs == weight.inputs, f"{kernel.name} takes {problem.inputs}: this weight has {weight.inputs}")


def _packed(kernel: Kernel, weight: QuantisedWeight) -> tuple[str, Any]:
    """(the layout of a packed weight, and that weight on the kernel's device)."""
    device = kernel.device

    def tensor(array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    scales = tensor(weight.scales.view(np.int16)).view(getattr(torch, str(weight.scale_type.numpy)))
    zeros, codes = weight.packed_zeros(), weight.packed(weight.element).reshape(weight.n, -1)
    if weight.element is DType.S8:  # which has a byte per code, as torch.int8
        codes = codes.view(np.int8)
    made = kernel.pack_b(tensor(codes), scales, None if zeros is None else tensor(zeros))
    return made.layout, made.array
