"""torch.nn.Linear by kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.support.errors import require
from gemmgen.torch.operator import OPERATOR, PRODUCTS, SUMS, Kernel, registered, torch_type


@dataclass(frozen=True)
class Given:
    """The arguments of a kernel in a Linear beside x, and the `state` of weight and bias from which they were made."""

    state: tuple[int, ...]
    weight: Any
    operands: dict[str, Any]


@dataclass
class Route:
    """A kernel and the rows of x that it takes: a number, or any (None).

    adds_bias  whether it adds the bias itself, in f32; else torch adds it afterwards
    given      its arguments in the last call
    """

    rows: int | None
    kernel: Kernel
    name: str
    adds_bias: bool
    packs: bool
    given: Given | None = None


class Linear(torch.nn.Module):
    """y = x * weight^T + bias, like a torch.nn.Linear with which it shares weight and bias: the same Parameters.

    kernels  kernels of M x out_features x in_features and layout rc, with the weight's type. A kernel with fixed M
             takes x with M rows, one with run-time M any other x; without one, torch computes it. A product of a
             library (`gemmgen.load_library`) serves any number of rows

    Operands that a kernel prepares are packed once, and again after the weight was written. In torch.compile, and if
    gradients are needed, it calls the operator of `gemmgen.torch.gemm`; else it launches the kernel. Raises
    InvalidInput for a kernel of another problem.
    """

    def __init__(self, weight: Any, bias: Any, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.out_features, self.in_features = weight.shape
        routes = [_route(kernel, weight, bias) for kernel in kernels]
        self._by_rows = {route.rows: route for route in reversed(routes)}

    @classmethod
    def of(cls, linear: Any, kernels: Sequence[Kernel]) -> Linear:
        """Make one in place of a torch.nn.Linear."""
        return cls(linear.weight, linear.bias, kernels)

    def forward(self, x: Any) -> Any:
        flat = x.dim() == 2
        rows = x if flat else x.reshape(-1, self.in_features)
        count = rows.shape[0]
        route = self._by_rows.get(count) or self._by_rows.get(None)
        weight, bias = self._parameters.get("weight"), self._parameters.get("bias")  # in a tenth of self.weight's time
        if weight is None:  # a tensor, or what torch.nn.utils.parametrize makes of one
            weight = self.weight
        if bias is None:
            bias = self.bias
        if route is None or count == 0:
            return torch.nn.functional.linear(x, weight, bias)
        biased = route.adds_bias and bias.requires_grad
        learns = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad or biased)
        if learns or torch.compiler.is_compiling():
            y = self._traced(route, rows)
        else:
            given = self._given_to(route, weight, bias)
            y = route.kernel(rows, given.weight, **given.operands)
        if bias is not None and not route.adds_bias:
            y = y + bias
        return y if flat else y.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        taken = ", ".join("any" if rows is None else str(rows) for rows in self._by_rows)
        shape = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return f"{shape}, rows={taken or 'none'}"

    def _traced(self, route: Route, rows: Any) -> Any:
        """Compute by the operator, on the unpacked weight, as gradients do not reach a packed one."""
        operands = [self.bias.float()] if route.adds_bias else []
        return OPERATOR(rows, self.weight.t(), operands, route.name, self.out_features, 1.0, False)

    def _given_to(self, route: Route, weight: Any, bias: Any) -> Given:
        """The kernel's arguments beside x, made again if weight or bias was written or moved."""
        state: tuple[int, ...] = (weight.data_ptr(), _writes(weight)) if route.packs else (weight.data_ptr(),)
        if route.adds_bias:
            state = (*state, bias.data_ptr(), _writes(bias))
        held = route.given
        if held is None or held.state != state:
            transposed = weight.detach().t()
            kernel = route.kernel
            packed = kernel.prepare_b(transposed) if isinstance(kernel, ArrayKernel) and route.packs else transposed
            operands = {"bias_n": bias.detach().float()} if route.adds_bias else {}
            held = route.given = Given(state, packed, operands)
        return held


def adds_bias(kernel: Kernel, n: int, k: int, biased: bool) -> bool:
    """Whether a kernel of a linear layer with a weight of n x k adds the bias itself.

    Raises InvalidInput for kernels of other sizes, layouts or epilogues, and for one that adds a bias where none is.
    """
    problem = kernel.source.problem
    for name, size, fixed in (("N", n, problem.n), ("K", k, problem.k)):
        require(fixed in (None, size), f"{kernel.name} is built for {name} = {fixed}, and the weight has {size}")
    require(not problem.batched, f"{kernel.name} multiplies a batch, and a Linear is one product")
    require(problem.inputs.conv is None, f"{kernel.name} takes images: gemmgen.torch.Conv2d passes them")
    require(str(problem.layout) == "rc", f"{kernel.name} has layout {problem.layout}: a Linear needs rc")
    adds = problem.epilogue in SUMS
    known = adds or problem.epilogue in PRODUCTS
    require(known, f"{kernel.name} has the epilogue {problem.epilogue}: a Linear has the product, or that and bias_n")
    require(biased or not adds, f"{kernel.name} adds bias_n, and this Linear has no bias")
    return adds


def _route(kernel: Kernel, weight: Any, bias: Any) -> Route:
    problem, (n, k) = kernel.source.problem, weight.shape
    same = {*map(torch_type, problem.types.operands)} == {weight.dtype}
    require(same, f"{kernel.name} multiplies {problem.types}, and the weight is of {weight.dtype}")
    adds = adds_bias(kernel, n, k, bias is not None)
    packs = isinstance(kernel, ArrayKernel) and kernel.prepares("B")  # a library's next call may take another kernel
    return Route(problem.m, kernel, registered(kernel), adds, packs)


def _writes(tensor: Any) -> int:
    """A number that changes when a tensor is written; tensors of torch.inference_mode do not count writes."""
    return 0 if tensor.is_inference() else int(tensor._version)
