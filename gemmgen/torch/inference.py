"""The base of linear layers for inference: the weight is prepared once, and the number of rows chooses the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gemmgen.support.errors import require
from gemmgen.torch.linear import adds_bias
from gemmgen.torch.operator import Kernel, registered


class InferenceLinear(torch.nn.Module):
    """y = x * W^T + bias, where a subclass says how W is kept, and multiplies by it."""

    def __init__(self, n: int, k: int, bias: Any, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        self.out_features, self.in_features = n, k
        names = ", ".join(kernel.name for kernel in kernels) or "none"
        self._by_rows = {
            kernel.source.problem.m: (kernel, registered(kernel), adds_bias(kernel, n, k, bias is not None))
            for kernel in reversed(kernels)
        }
        require(None in self._by_rows, f"a kernel for any number of rows is needed: there are {names}")
        self.bias = None if bias is None else torch.nn.Parameter(bias.detach(), requires_grad=False)

    def forward(self, x: Any) -> Any:
        learns = torch.is_grad_enabled() and x.requires_grad
        require(not learns, f"x requires a gradient, and a {type(self).__name__} has none")
        rows = x.reshape(-1, self.in_features)
        kernel, name, adds = self._by_rows.get(rows.shape[0]) or self._by_rows[None]
        operands = {} if self.bias is None or not adds else {"bias_n": self.bias.float()}
        y = self._product(rows, kernel, name, operands)
        if self.bias is not None and not adds:
            y = y + self.bias
        return y.view(*x.shape[:-1], self.out_features)

    def _product(self, rows: Any, kernel: Kernel, name: str, operands: dict[str, Any]) -> Any:
        """Multiply rows of x by W^T: with `kernel`, or in torch.compile with the operator, which knows it by `name`."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
