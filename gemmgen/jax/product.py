"""A kernel as a call of XLA."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gemmgen.arrays.binding import require_known, require_names
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.view import ArrayView, Device, dense_strides, element_types
from gemmgen.jax.calls import Given, handler
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import require

_registered: dict[tuple[str, float], tuple[str, Any]] = {}  # targets by kernel and alpha; XLA may call each at any time


def gemm(kernel: ArrayKernel, a: Any, b: Any, *, alpha: float = 1.0, **operands: Any) -> Any:
    """Compute C = alpha * A * B, or the kernel's epilogue of it: M x N. It can be traced, without gradients.

    a, b      M x K and K x N (K x 2N with acc2, and so on); XLA brings them into the order that the kernel reads.
              alpha is a Python number
    operands  operands of the epilogue by name; none may be written

    With jax.vmap a kernel for batches takes one launch, others one launch per product.
    """
    problem = kernel.source.problem
    names = [operand.name for operand in problem.epilogue.operands]
    require(not problem.epilogue.outputs, f"the epilogue {problem.epilogue} writes more than C: call the kernel itself")
    require_known(problem, operands, ("alpha",))
    require_names(problem, operands, alpha, 0)
    beside = ", ".join(one.name for one in problem.companions)
    require(not beside, f"{kernel.name} takes {beside}, which XLA does not pass: call the kernel itself")
    require(problem.inputs.conv is None, f"{kernel.name} takes images, which XLA does not pass: call the kernel itself")
    problem.types.require_scalar("alpha", alpha)
    result = jax.ShapeDtypeStruct((a.shape[0], b.shape[1] // problem.products), str(problem.types.c.numpy))
    layouts = [_order(problem.layout.a), _order(problem.layout.b), *([None] * len(names))]
    call = jax.ffi.ffi_call(_target(kernel, alpha), result, vmap_method="expand_dims", input_layouts=layouts)
    return call(a, b, *(operands[name] for name in names))


def _order(order: str) -> tuple[int, int] | None:
    """The order of dimensions for XLA, the slowest first; None for its default."""
    return None if order == "r" else (1, 0)


def _target(kernel: ArrayKernel, alpha: float) -> str:
    """The name of the kernel's handler, which is registered if it was not."""
    identity = f"{kernel.source.digest} {kernel.device}", float(alpha)
    if identity not in _registered:
        name = f"gemmgen_{kernel.name}_{kernel.device}_{len(_registered)}"
        function = handler(
            lambda given, made, stream: _launch(kernel, alpha, given, made, stream), kernel.device == "cuda"
        )
        _registered[identity] = name, function
        platform = "CUDA" if kernel.device == "cuda" else "cpu"
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(function), platform=platform)
    return _registered[identity][0]


def _launch(kernel: ArrayKernel, alpha: float, given: list[Given], made: list[Given], stream: int) -> None:
    """Launch the kernel once if it is for batches, else once per product that jax.vmap made."""
    problem = kernel.source.problem
    extra = problem.epilogue.operands
    ranks, orders = (2, 2, *(len(one.along) for one in extra)), (problem.layout.a, problem.layout.b, *"r" * len(extra))
    operands = [
        Mapped(*one) for one in zip(("A", "B", *(one.name for one in extra)), given, ranks, orders, strict=True)
    ]
    c = Mapped("C", made[0], 2, "r")
    for place in [()] if problem.batched else np.ndindex(*c.lead):
        a, b, *others, out = (one.view(place, c.lead, problem, kernel.device) for one in (*operands, c))
        named: dict[str, Any] = {one.name: view for one, view in zip(extra, others, strict=True)}
        kernel(a, b, out, alpha=alpha, stream=stream, **named)


@dataclass(frozen=True)
class Mapped:
    """An operand with `rank` dimensions, preceded by those that jax.vmap maps: 1 if all products share it."""

    name: str
    given: Given
    rank: int
    order: str

    @property
    def lead(self) -> tuple[int, ...]:
        return self.given.shape[: len(self.given.shape) - self.rank]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one product's operand."""
        return self.given.shape[len(self.lead) :]

    def view(self, place: tuple[int, ...], lead: tuple[int, ...], problem: Problem, device: Device) -> ArrayView:
        """The view of the product at `place`; for a kernel for batches the view of all products, which `lead`
        counts."""
        strides = dense_strides(self.shape) if self.order == "r" else (1, self.shape[0])
        count, dtype = math.prod(self.shape), element_types()[self.given.dtype]
        if problem.batched:
            shape, strides = self._together(math.prod(lead), strides)
            return ArrayView(self.given.address, shape, strides, dtype, device)
        steps = zip(dense_strides(self.lead), place, self.lead, strict=True)
        at = sum(step * one for step, one, size in steps if size > 1)
        return ArrayView(self.given.address + at * count * dtype.size, self.shape, strides, dtype, device)

    def _together(self, products: int, strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape and strides of all products together; vectors serve all of them. Raises InvalidInput if they form
        no batch."""
        own, most = math.prod(self.lead), products if self.rank == 2 else 1
        require(
            own in (1, most),
            f"{self.name} is mapped to {own}, of {products} products: a kernel of batches takes {most}",
        )
        if self.rank < 2:
            return self.shape, strides
        return (products, *self.shape), (math.prod(self.shape) if own > 1 else 0, *strides)
