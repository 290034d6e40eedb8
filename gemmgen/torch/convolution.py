"""The operator gemmgen::conv2d: convolutions of images in channels_last, in torch.compile and autograd."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch

from gemmgen.arrays.checked import MOST_FORMS
from gemmgen.problem.convolution import Convolution
from gemmgen.support.errors import require
from gemmgen.torch.operator import PRODUCTS, SUMS, Kernel, extent, kernel_named, names_of, torch_type
from gemmgen.torch.served import Served, fitting, refuse

SCHEMA = "(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, str[] kernels) -> Tensor"
SCHEMA_IN_PLACE = "(Tensor x, Tensor weight, Tensor? bias, Tensor(a!) residual, str[] kernels) -> ()"
NHWC = 0, 2, 3, 1  # of torch's dimensions
POINT = Convolution((1, 1, 1), (1, 1))  # what a plain product computes, whatever the sizes


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    residual: Any = None,
    *,
    kernels: Sequence[Kernel],
    overwrite: bool = False,
) -> Any:
    """Compute what torch.nn.functional.conv2d does, by kernels with `inputs="im2col=HxWxC_RxS"` and layout rc.

    x          images, N x C x H x W, in torch.channels_last; so is the result, N x K x P x Q of the kernel's type of C
    weight     K x C x R x S, in torch.channels_last, too
    bias       K numbers, or None: the kernel adds them if its epilogue has bias_n, else they are added to its result
    residual   images of the result's shape, in torch.channels_last, or None: what the kernel's epilogue calls
               `residual`, in the type of alpha; or the old C of beta * C, in the type of C, where beta is then 1
    kernels    loaded kernels, from which shapes and types choose. Padding, stride and dilation are those of the kernel,
               and kernels that fit the same shapes must agree in them. Of those that fit, one with a fixed M comes
               first, then one with bias_n if there is a bias. Kernels of plain products serve 1 x 1 taps with stride 1
               and without padding: pixels are rows
    overwrite  the old C is `residual` itself rather than a copy of it: the result then lies there. Without effect if
               gradients are needed

    An epilogue may apply a function, as "relu(acc + bias_n + beta * C)" does. It can be traced by torch.compile. There
    are gradients for an epilogue that is the product, with or without bias_n and beta * C. Those of x and weight are
    computed by `kernels`, too, if one is for them, otherwise by torch. For that of x its convolution is
    `Convolution.gradient` of the first one's; for that of weight it has the same convolution with "+wgrad", and layout
    cr.

    Raises InvalidInput if no kernel fits, with the reason for each, for tensors that are not in channels_last, and for
    what kernels refuse.
    """
    for name, one in (("x", x), ("weight", weight), ("residual", residual)):
        if one is not None and (one.dim() != 4 or (one.shape[1] > 1 and one.stride(1) != 1)):
            _refuse(name, one)
    names = names_of(kernels)
    needed = any(one is not None and one.requires_grad for one in (x, weight, bias, residual))
    learns = needed and torch.is_grad_enabled()
    if not learns and not torch.compiler.is_compiling():
        return _computed(x, weight, bias, residual, names, overwrite)
    old = overwrite and residual is not None and all("residual" not in kernel.traced.operands for kernel in kernels)
    if learns or not old:
        return OPERATOR(x, weight, bias, residual, names)
    IN_PLACE(x, weight, bias, residual, names)
    return residual


def _refuse(name: str, tensor: Any) -> None:
    require(
        tensor.dim() == 4, f"{name} has {tensor.dim()} dimensions: it has 4, as torch.nn.functional.conv2d takes them"
    )
    told = f"{name} of {extent(tensor.shape)} has strides {tuple(tensor.stride())}: kernels read channels together"
    require(False, f"{told}. Pass {name}.to(memory_format=torch.channels_last), best made once")


class Asked(NamedTuple):
    """The part of a convolution by which its kernel is chosen: of x and weight shapes and types, if it has a bias, and
    shape and type of a residual."""

    x: tuple[Any, ...]
    weight: tuple[Any, ...]
    types: tuple[Any, Any]
    biased: bool
    residual: tuple[tuple[Any, ...], Any] | None = None


class Convolving(Served):
    """A kernel of convolutions, or of one product of two matrices, which computes those with 1 x 1 taps.

    conv    None of a kernel that takes no images
    scalar  torch's type of alpha
    biased  whether the epilogue names bias_n, and `adds` whether it names residual, which it needs then
    steps   padding, stride and dilation
    """

    def __init__(self, identity: str) -> None:
        super().__init__(identity)
        self.conv, self.epilogue = self.problem.inputs.conv, self.problem.epilogue
        self.scalar = torch_type(self.problem.types.scalar)
        self.operands = {one.name for one in self.epilogue.operands}
        self.biased, self.adds = "bias_n" in self.operands, "residual" in self.operands
        conv = self.conv or POINT
        self.steps = conv.pad, conv.stride, conv.dilation

    def places(self, size: tuple[Any, ...]) -> tuple[Any, ...]:
        """Height and width of results for images of this size."""
        return size if self.conv is None else self.conv.places

    def lacks(self, asked: Asked) -> str | None:
        problem = self.problem
        plain = problem.inputs.is_plain and problem.products == 1 and not problem.batched
        if self.conv is None and not (plain and asked.weight[2:] == POINT.taps):
            return f"{self.takes}: im2col=HxWxC_RxS is needed"
        if problem.inputs.wgrad:
            return f"{self.takes}: it computes the gradient of weight"
        wrong = self._wrong_epilogue(asked) or next(self._wrong_operands(asked), None)
        return wrong and f"{self.name} {wrong}"

    def _wrong_epilogue(self, asked: Asked) -> str | None:
        told = f"has the epilogue {self.epilogue}"
        if not self.operands <= {"bias_n", "residual"}:
            return f"{told}: of operands conv2d passes bias_n and residual"
        if self.biased and not asked.biased:
            return f"{told}, and bias is None"
        if asked.biased and not self.biased and self.epilogue not in PRODUCTS:
            return f"{told}, without bias_n: a bias goes before it"
        if self.adds and asked.residual is None:
            return f"{told}, and residual is None"
        if asked.residual is not None and not (self.adds or self.epilogue.reads_c):
            return f"{told}, without residual and beta * C: there is a residual"
        return None

    def _wrong_operands(self, asked: Asked) -> Iterator[str]:
        layout, types = self.problem.layout, self.types[:2]
        if str(layout) != "rc":
            yield f"has layout {layout}: filters lie as rc reads them"
        if types != asked.types:
            yield f"takes x and weight of {_labels(types)}, and they are of {_labels(asked.types)}"
        if self.conv is None:
            channels = self.problem.k or asked.weight[1]
            x, weight = (channels, *asked.x[2:]), (channels, *POINT.taps)
        else:
            height, width, channels = self.conv.size
            x, weight = (channels, height, width), (channels, *self.conv.taps)
        for name, first, shape, takes in (("x", "N", asked.x, x), ("weight", "K", asked.weight, weight)):
            if shape[1:] != takes:
                yield f"takes {name} of {extent((first, *takes))}, and {name} is {extent(shape)}"
        yield from self._wrong_residual(asked)
        m = asked.x[0] * math.prod(self.places(asked.x[2:]))
        yield from self.other_sizes("convolution", M=m, N=asked.weight[0])

    def _wrong_residual(self, asked: Asked) -> Iterator[str]:
        if asked.residual is None:
            return
        shape, dtype = asked.residual
        made = asked.x[0], asked.weight[0], *self.places(asked.x[2:])
        if shape != made:
            yield f"makes {extent(made)}, and residual is {extent(shape)}"
        if not self.adds and dtype != self.types[2]:
            both = _labels((self.types[2], dtype))
            yield f"has the epilogue {self.epilogue}, so that residual has the type of C: the types are {both}"

    def gives_weight(self, conv: Convolution, filters: Any, places: Any, types: tuple[Any, Any]) -> bool:
        """Whether it computes the gradient of so many filters of `conv`, from dy and x of these types."""
        ours = self.problem.inputs.wgrad and self.conv == conv and self.types[:2] == types
        sized = not any(self.other_sizes("gradient", M=filters, K=places))
        return ours and str(self.problem.layout) == "cr" and sized and self.epilogue in PRODUCTS


def _labels(types: tuple[Any, Any]) -> str:
    return " and ".join(str(one).removeprefix("torch.") for one in types)


_served = cache(Convolving)


def _choice(kernels: Sequence[str], asked: Asked) -> str:
    """The kernel that computes the convolution. Raises InvalidInput if there is none, or if it is not clear what is
    computed."""
    found = fitting(_served, kernels, asked) or refuse(_served, kernels, asked)
    first = min(found, key=lambda one: (_served(one).problem.m is None, _served(one).biased != asked.biased))
    for one in found:
        both = _served(first), _served(one)
        told = " and ".join(f"{served.name} with inputs = {served.problem.inputs}" for served in both)
        require(both[0].steps == both[1].steps, f"{told} fit these shapes: pass the one that is meant")
    return first


_chosen = lru_cache(MOST_FORMS)(_choice)


def _asked(x: Any, weight: Any, bias: Any, residual: Any) -> Asked:
    added = None if residual is None else (tuple(residual.shape), residual.dtype)
    return Asked(tuple(x.shape), tuple(weight.shape), (x.dtype, weight.dtype), bias is not None, added)


def _run(x: Any, weight: Any, bias: Any, residual: Any, kernels: list[str]) -> Any:
    return _computed(x, weight, bias, residual, kernels, False)


def _run_in_place(x: Any, weight: Any, bias: Any, residual: Any, kernels: list[str]) -> None:
    found = _computed(x, weight, bias, residual, kernels, True)
    if found.data_ptr() != residual.data_ptr():  # which is not dense
        residual.copy_(found)


def _computed(x: Any, weight: Any, bias: Any, residual: Any, kernels: list[str], overwrite: bool) -> Any:
    name = _chosen(tuple(kernels), _asked(x, weight, bias, residual))
    kernel, served = kernel_named(name), _served(name)
    operands, beta = {}, 0.0
    if served.biased:
        operands["bias_n"] = bias.detach().to(served.scalar).contiguous()
    if residual is None or served.adds:
        out = _made(x, weight, served)
        if residual is not None:
            operands["residual"] = residual.detach().to(served.scalar).permute(NHWC)
    else:  # C holds it before the launch
        dense = overwrite and residual.is_contiguous(memory_format=torch.channels_last)
        out = residual.detach() if dense else residual.detach().clone(memory_format=torch.channels_last)
        beta = 1.0
    a, b, c = (one.detach().permute(NHWC) for one in (x, weight, out))
    if served.conv is None:  # pixels are rows
        a, b, c = a.flatten(0, 2), b.flatten(1).t(), c.flatten(0, 2)
        operands = {name: one.flatten(0, -2) if one.dim() > 1 else one for name, one in operands.items()}
    kernel(a, b, c, beta=beta, **operands)
    return out if bias is None or served.biased else out.add_(bias.detach()[:, None, None])


def _empty(x: Any, weight: Any, bias: Any, residual: Any, kernels: list[str]) -> Any:
    asked = _asked(x, weight, bias, residual)
    return _made(x, weight, _served(_choice(kernels, asked)))  # symbols are no keys of a cache


def _made(x: Any, weight: Any, served: Convolving) -> Any:
    shape = x.shape[0], weight.shape[0], *served.places(x.shape[2:])
    return torch.empty(shape, dtype=served.types[2], device=x.device, memory_format=torch.channels_last)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, bias, residual, kernels = inputs
    ctx.name, ctx.kernels = _choice(kernels, _asked(x, weight, bias, residual)), kernels
    ctx.bias = None if bias is None else bias.dtype
    ctx.residual = None if residual is None else residual.dtype
    ctx.save_for_backward(x, weight)


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    (x, weight), served = ctx.saved_tensors, _served(ctx.name)
    conv, epilogue = served.conv or POINT, served.epilogue
    known = epilogue in PRODUCTS or epilogue in SUMS
    require(known, f"the epilogue {epilogue} has no gradient: those of a product, and of a product and bias_n, have")
    need_x, need_weight, need_bias, need_residual, _ = ctx.needs_input_grad
    of_bias = grad.sum((0, 2, 3), dtype=ctx.bias) if need_bias else None
    of_residual = grad.to(ctx.residual) if need_residual else None
    grad = grad.to(x.dtype)
    of_x = _of_x(conv, grad, x, weight, ctx.kernels) if need_x else None
    of_weight = _of_weight(conv, grad, x, weight, ctx.kernels) if need_weight else None
    wanted = need_x and of_x is None, need_weight and of_weight is None
    by_torch = _by_torch(conv, grad, x, weight, wanted) if any(wanted) else (None, None)
    found = (theirs if ours is None else ours for ours, theirs in zip((of_x, of_weight), by_torch, strict=True))
    return *found, of_bias, of_residual, None


def _of_x(conv: Convolution, grad: Any, x: Any, weight: Any, kernels: list[str]) -> Any:
    """The gradient of x by one of `kernels`: a convolution of `grad`; None if none computes it."""
    if conv.no_gradient:
        return None
    filters, channels = weight.shape[:2]
    turned = Asked(tuple(grad.shape), (channels, filters, *conv.taps), (grad.dtype, weight.dtype), biased=False)
    wanted = conv.gradient(int(filters))
    alike = [one for one in kernels if _served(one).conv in (wanted, None) and _served(one).epilogue in PRODUCTS]
    found = fitting(_served, alike, turned)
    if not found:
        return None
    layout = {"memory_format": torch.channels_last}
    reversed_taps = weight.flip(2, 3).transpose(0, 1).contiguous(**layout)
    return OPERATOR(grad.contiguous(**layout), reversed_taps, None, None, found).to(x.dtype)


def _of_weight(conv: Convolution, grad: Any, x: Any, weight: Any, kernels: list[str]) -> Any:
    """The gradient of weight by one of `kernels`, those with a fixed K first; None if none computes it."""
    places = grad.shape[0] * math.prod(conv.places)
    types = grad.dtype, x.dtype
    found = [one for one in kernels if _served(one).gives_weight(conv, weight.shape[0], places, types)]
    if not found:
        return None
    name = min(found, key=lambda one: _served(one).problem.k is None)
    return OF_WEIGHT(grad.contiguous(memory_format=torch.channels_last), x, name).to(weight.dtype)


def _run_of_weight(grad: Any, x: Any, kernel: str) -> Any:
    out = _empty_of_weight(grad, x, kernel)
    kernel_named(kernel)(*(one.detach().permute(NHWC) for one in (grad, x, out)))
    return out


def _empty_of_weight(grad: Any, x: Any, kernel: str) -> Any:
    served = _served(kernel)
    assert served.conv is not None
    shape = grad.shape[1], served.conv.size[2], *served.conv.taps
    return torch.empty(shape, dtype=served.types[2], device=x.device, memory_format=torch.channels_last)


def _save_of_weight(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *saved, ctx.name = inputs
    ctx.save_for_backward(*saved)


def _backward_of_weight(ctx: Any, of_weight: Any) -> tuple[Any, ...]:
    """By torch: the result is linear in both, as the convolution is in x and weight."""
    (grad, x), conv = ctx.saved_tensors, _served(ctx.name).conv
    assert conv is not None
    top, left, bottom, right = conv.pad
    padded, weight = torch.nn.functional.pad(x, (left, right, top, bottom)), of_weight.to(x.dtype)
    of_grad = torch.nn.functional.conv2d(padded, weight, None, conv.stride, 0, conv.dilation)
    return of_grad, _by_torch(conv, grad, x, weight, (True, False))[0], None


def _by_torch(conv: Convolution, grad: Any, x: Any, weight: Any, wanted: tuple[bool, bool]) -> tuple[Any, Any]:
    """The gradients of x and weight that are `wanted`."""
    (top, left, bottom, right), (height, width) = conv.pad, x.shape[2:]
    even = (top, left) == (bottom, right)  # the only padding that torch's gradient takes
    padded = x if even else torch.nn.functional.pad(x, (left, right, top, bottom))
    of_x, of_weight, _ = torch.ops.aten.convolution_backward(
        grad,
        padded,
        weight,
        None,
        conv.stride,
        (top, left) if even else (0, 0),
        conv.dilation,
        False,
        (0, 0),
        1,
        (*wanted, False),
    )
    if wanted[0] and not even:
        of_x = of_x[:, :, top : top + height, left : left + width]
    return of_x, of_weight


OF_WEIGHT = torch.library.custom_op(
    "gemmgen::conv2d_of_weight", _run_of_weight, mutates_args=(), schema="(Tensor grad, Tensor x, str kernel) -> Tensor"
)
OF_WEIGHT.register_fake(_empty_of_weight)
OF_WEIGHT.register_autograd(_backward_of_weight, setup_context=_save_of_weight)
OPERATOR = torch.library.custom_op("gemmgen::conv2d", _run, mutates_args=(), schema=SCHEMA)
OPERATOR.register_fake(_empty)
OPERATOR.register_autograd(_backward, setup_context=_save)
IN_PLACE = torch.library.custom_op(
    "gemmgen::conv2d_in_place", _run_in_place, mutates_args=("residual",), schema=SCHEMA_IN_PLACE
)
IN_PLACE.register_fake(lambda *given: None)
