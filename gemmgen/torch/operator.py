"""The operator gemmgen::gemm: a kernel as torch.compile and autograd see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gemmgen.arrays.binding import Prepared, require_known, require_names
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import ArrayProduct
from gemmgen.arrays.loaded import LOADED
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.support.errors import require

SCHEMA = "(Tensor a, Tensor b, Tensor[] operands, str kernel, SymInt n, float alpha, bool packed) -> Tensor"
PRODUCTS = tuple(map(parse_epilogue, ("alpha * acc + beta * C", "alpha * acc", "acc")))
SUMS = tuple(map(parse_epilogue, ("bias", "alpha * acc + bias_n", "acc + bias_n")))

Kernel = ArrayKernel | ArrayProduct  # one, or a library's choice among some

_kernels: dict[str, Kernel] = {}  # by what the operator calls them: a graph holds no Python object


def gemm(kernel: Kernel, a: Any, b: Any, *, alpha: float = 1.0, **operands: Any) -> Any:
    """Compute C = alpha * A * B, or the kernel's epilogue of it, as a new dense tensor: M x N.

    It is like `ArrayKernel.__call__`, but traceable: torch.compile records it. Gradients of a, b and bias_n are
    torch.matmul's if the epilogue is the product, with or without a bias. `operands` are those of the epilogue, none of
    which may be written, the scales of blocks, and offs, group_rows, index_a and index_c. Products of groups and of
    gathered or scattered rows have no gradient here: those of `grouped_mm` have.
    """
    traced = kernel.traced
    named = len(operands) == len(traced.operands) and all(name in operands for name in traced.operands)
    if not (named and traced.reads and (traced.scaled or alpha == 1)):
        _refuse(kernel, alpha, operands)
    packed = isinstance(b, Prepared)
    if not torch.compiler.is_compiling():  # else `kernel_named` finds it: a graph has no such effect
        registered(kernel)
    n = b.shape[-1] // traced.products
    given = [operands[name] for name in traced.operands]
    return OPERATOR(a, b.array if packed else b, given, traced.identity, n, alpha, packed)


def names_of(kernels: Sequence[Kernel]) -> list[str]:
    """The operator's names for `kernels`."""
    if not torch.compiler.is_compiling():  # else `kernel_named` finds them: a graph has no such effect
        for kernel in kernels:
            registered(kernel)
    return [kernel.traced.identity for kernel in kernels]


def torch_type(dtype: DType) -> Any:
    """torch's type of the same name; None if it has none."""
    return getattr(torch, str(dtype.numpy), None)


def extent(shape: Sequence[Any]) -> str:
    """A shape for a message: "3 x 4"."""
    return " x ".join(map(str, shape)) or "one element"


def registered(kernel: Kernel) -> str:
    """The operator's name for `kernel`, which is kept alive from now on."""
    _kernels[kernel.identity] = kernel  # rather than one that may be closed by now
    return kernel.identity


def kernel_named(identity: str) -> Kernel:
    """The kernel of this name, which is kept alive from now on. Raises InvalidInput if there is none."""
    found: Kernel | None = LOADED.get(identity) or _kernels.get(identity)
    require(found is not None, f"{identity} is not loaded in this process, or was closed: load it before the call")
    assert found is not None
    _kernels[identity] = found
    return found


def _refuse(kernel: Kernel, alpha: float, operands: dict[str, Any]) -> None:
    """Raise InvalidInput for arguments that the operator does not take."""
    problem = kernel.source.problem
    for operand in problem.epilogue.outputs:
        require(False, f"the epilogue {problem.epilogue} writes {operand.name}: call the kernel itself")
    require_known(problem, operands, ("alpha",))
    require_names(problem, operands, alpha, 0)


def _run(a: Any, b: Any, operands: list[Any], kernel: str, n: int, alpha: float, packed: bool) -> Any:
    found = kernel_named(kernel)
    named = dict(zip(found.traced.operands, operands, strict=True))
    c = _empty(a, b, operands, kernel, n, alpha, packed)
    if packed:
        b = found.prepared_b(b, (*a.shape[:-2], a.shape[-1], found.source.problem.products * n))
    return found(a, b, c, alpha=alpha, **named)


def _empty(a: Any, b: Any, operands: list[Any], kernel: str, n: int, alpha: float, packed: bool) -> Any:
    found = kernel_named(kernel)
    problem = found.source.problem
    named = dict(zip(found.traced.operands, operands, strict=True))
    return a.new_empty((*_lead(problem.inputs, a, b, named, packed), n), dtype=torch_type(problem.types.c))


def _lead(inputs: Inputs, a: Any, b: Any, named: dict[str, Any], packed: bool) -> tuple[Any, ...]:
    """The sizes of C before its columns. Raises InvalidInput for images."""
    require(inputs.conv is None, f"inputs = {inputs} take images: gemmgen.torch.conv2d passes them")
    if inputs.gathered:
        return (named["index_a"].shape[0],)
    if inputs.along_k:
        return inputs.groups, a.shape[0]
    if inputs.row_groups:
        return (a.shape[0],)
    batch = a.shape[:-2] if packed or a.dim() > b.dim() else b.shape[:-2]  # which one of them may be without
    return *batch, a.shape[-2]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    a, b, operands, ctx.kernel, _, ctx.alpha, ctx.packed = inputs
    ctx.save_for_backward(a, b)
    ctx.types = [operand.dtype for operand in operands]


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    _require_gradient(kernel_named(ctx.kernel).source.problem, ctx.packed)
    need_a, need_b, need_operands, *_ = ctx.needs_input_grad
    scaled = grad if ctx.alpha == 1 else grad * ctx.alpha
    of_a = _summed(scaled @ b.mT, a).to(a.dtype) if need_a else None
    of_b = _summed(a.mT @ scaled, b).to(b.dtype) if need_b else None
    rows = tuple(range(grad.dim() - 1))
    of_bias = [grad.sum(rows, dtype=dtype) for dtype in ctx.types]
    return of_a, of_b, of_bias if any(need_operands) else [None] * len(ctx.types), None, None, None, None


def _require_gradient(problem: Problem, packed: bool) -> None:
    require(not packed, "a prepared operand has no gradient: pass it as it was")
    inputs = problem.inputs
    require(not inputs.blocks, "operands with scales by block have no gradient")
    several = inputs.groups > 0 or inputs.gathered or inputs.scattered
    require(not several, f"inputs = {inputs} have no gradient here: gemmgen.torch.grouped_mm has one")
    epilogue = problem.epilogue
    known = epilogue in PRODUCTS or epilogue in SUMS
    require(
        known, f"the epilogue {epilogue} has no gradient here: those of a product, and of a product and bias_n, have"
    )


def _summed(product: Any, b: Any) -> Any:
    """The gradient of a matrix that the products of a batch share."""
    return product.sum(0) if product.dim() > b.dim() else product


OPERATOR = torch.library.custom_op("gemmgen::gemm", _run, mutates_args=(), schema=SCHEMA)
OPERATOR.register_fake(_empty)
OPERATOR.register_autograd(_backward, setup_context=_save)
