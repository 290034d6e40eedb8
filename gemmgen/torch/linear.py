"""torch.nn.Linear by kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gemmgen.arrays.binding import Prepared
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.view import element_types
from gemmgen.support.errors import require
from gemmgen.torch.operator import OPERATOR, PRODUCTS, SUMS, registered

KernelsFor = Callable[[Any], Sequence[ArrayKernel]]  # for a torch.nn.Linear


@dataclass(frozen=True)
class Route:
    """A kernel and the rows of x that it takes: a number, or any (None).

    adds_bias  it adds the bias itself, in f32; else torch does so behind it
    """

    rows: int | None
    kernel: ArrayKernel
    name: str
    adds_bias: bool
    packs: bool


class Linear(torch.nn.Module):
    """y = x * weight^T + bias, as torch.nn.Linear, whose weight and bias it shares: the same Parameters.

    kernels  of M x out_features x in_features and layout rc, of the weight's type. One of M rows takes x of as many,
             one that leaves M to run time any other; where there is none, torch computes it

    What a kernel prepares of its operands is packed once, and again when the weight was written. In torch.compile,
    and where gradients are asked for, it is the operator of `gemmgen.torch.gemm`; else a launch.
    Raises InvalidInput for a kernel of another problem.
    """

    def __init__(self, weight: Any, bias: Any, kernels: Sequence[ArrayKernel]) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.out_features, self.in_features = weight.shape
        self._routes = tuple(_route(kernel, weight, bias) for kernel in kernels)
        self._packed: dict[str, tuple[Any, Prepared]] = {}
        self._wide: tuple[Any, Any] | None = None

    @classmethod
    def of(cls, linear: Any, kernels: Sequence[ArrayKernel]) -> Linear:
        """In place of a torch.nn.Linear."""
        return cls(linear.weight, linear.bias, kernels)

    def forward(self, x: Any) -> Any:
        rows = x.reshape(-1, self.in_features)
        route = self._route_of(rows.shape[0])
        if route is None:
            return torch.nn.functional.linear(x, self.weight, self.bias)
        traced = torch.compiler.is_compiling() or (torch.is_grad_enabled() and self._learns(x))
        y = self._traced(route, rows) if traced else self._launched(route, rows)
        if self.bias is not None and not route.adds_bias:
            y = y + self.bias
        return y.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        taken = ", ".join("any" if route.rows is None else str(route.rows) for route in self._routes)
        shape = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return f"{shape}, rows={taken or 'none'}"

    def _learns(self, x: Any) -> bool:
        return bool(x.requires_grad or self.weight.requires_grad)

    def _route_of(self, rows: int) -> Route | None:
        exact = (route for route in self._routes if route.rows == rows)
        others = (route for route in self._routes if route.rows is None and rows > 0)
        return next(exact, None) or next(others, None)

    def _traced(self, route: Route, rows: Any) -> Any:
        """By the operator, on the weight as it is: what is packed follows no gradient."""
        operands = [self.bias.float()] if route.adds_bias else []
        return OPERATOR(rows, self.weight.t(), operands, route.name, self.out_features, 1.0, False)

    def _launched(self, route: Route, rows: Any) -> Any:
        weight = self._packed_for(route) if route.packs else self.weight.t()
        if route.adds_bias:
            return route.kernel(rows, weight, bias_n=self._wide_bias())
        return route.kernel(rows, weight)

    def _packed_for(self, route: Route) -> Prepared:
        state = _state(self.weight)
        held = self._packed.get(route.name)
        if held is None or held[0] != state:
            held = state, route.kernel.prepare_b(self.weight.t())
            self._packed[route.name] = held
        return held[1]

    def _wide_bias(self) -> Any:
        state = _state(self.bias)
        if self._wide is None or self._wide[0] != state:
            self._wide = state, self.bias.detach().float()
        return self._wide[1]


def replace_linear(model: Any, kernels_for: KernelsFor) -> list[str]:
    """Put a `Linear` in place of each torch.nn.Linear of `model`, itself apart; returns the names of those replaced.

    kernels_for  gives the kernels for a torch.nn.Linear, which layers of one shape can share; of no kernel it stays
    """
    found = [(name, module) for name, module in model.named_modules() if type(module) is torch.nn.Linear and name]
    replaced = []
    for name, linear in found:
        kernels = kernels_for(linear)
        if kernels:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, Linear.of(linear, kernels))
            replaced.append(name)
    return replaced


def _route(kernel: ArrayKernel, weight: Any, bias: Any) -> Route:
    problem, (n, k) = kernel.source.problem, weight.shape
    for name, size, fixed in (("N", n, problem.n), ("K", k, problem.k)):
        require(fixed in (None, size), f"{kernel.name} is built for {name} = {fixed}, and the weight has {size}")
    wanted = element_types().get(str(weight.dtype).removeprefix("torch."))
    same = problem.types.a is wanted and problem.types.b is wanted and problem.types.c is wanted
    require(same, f"{kernel.name} multiplies {problem.types}, and the weight is of {weight.dtype}")
    require(not problem.batched, f"{kernel.name} multiplies a batch, and a Linear is one product")
    require(str(problem.layout) == "rc", f"{kernel.name} has layout {problem.layout}: a Linear needs rc")
    adds_bias = problem.epilogue in SUMS
    known = adds_bias or problem.epilogue in PRODUCTS
    require(known, f"{kernel.name} has the epilogue {problem.epilogue}: a Linear has the product, or that and bias_n")
    require(not (adds_bias and bias is None), f"{kernel.name} adds bias_n, and this Linear has no bias")
    return Route(problem.m, kernel, registered(kernel), adds_bias, kernel.prepares("B"))


def _state(tensor: Any) -> tuple[Any, ...]:
    """What changes when a tensor is written, or moved."""
    return tensor.data_ptr(), tensor._version, tensor.device
