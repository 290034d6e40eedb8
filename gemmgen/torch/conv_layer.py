"""torch.nn.Conv2d by kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gemmgen.problem.convolution import Convolution
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.images import Conv, require_together
from gemmgen.problem.inputs import Inputs
from gemmgen.problem.types import Types
from gemmgen.support.errors import require
from gemmgen.torch.convolution import conv2d
from gemmgen.torch.operator import Kernel


class Conv2d(torch.nn.Module):
    """A torch.nn.Conv2d by kernels, with which it shares weight and bias: the same Parameters.

    conv     the layer: with zeros as padding, without groups, its weight in torch.channels_last
    kernels  kernels for sizes of images, as those of `problem`, with the layer's padding, stride and dilation. torch
             computes images of other sizes. Kernels of gradients may be among them: see `gemmgen.torch.conv2d`

    It calls `gemmgen.torch.conv2d`. Raises InvalidInput for another kind of layer, and for kernels of another one.
    """

    def __init__(self, conv: Any, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        _require_layer(conv)
        self.conv = conv
        self._by_size: dict[tuple[int, int], list[Kernel]] = {}
        others: list[Kernel] = []
        for kernel in kernels:
            inputs = kernel.source.problem.inputs
            require(inputs.conv is not None, f"{kernel.name} has inputs = {inputs}: im2col=HxWxC_RxS is needed")
            size = _size(kernel)
            if inputs.conv == convolution(conv, *size) and not inputs.wgrad:
                self._by_size.setdefault(size, []).append(kernel)
            else:
                others.append(kernel)
        for kernel in others:
            self._add_gradient(kernel)

    def _add_gradient(self, kernel: Kernel) -> None:
        """Add a kernel of a gradient for images of some size to those of this size."""
        inputs, conv = kernel.source.problem.inputs, self.conv
        own = {size: convolution(conv, *size) for size in self._by_size}
        if not inputs.wgrad:
            own = {size: one.gradient(conv.out_channels) for size, one in own.items() if not one.no_gradient}
        sizes = [size for size, one in own.items() if one == inputs.conv]
        wanted = convolution(conv, *_size(kernel))
        require(bool(sizes), f"{kernel.name} has inputs = {inputs}, and this layer im2col={wanted}")
        self._by_size[sizes[0]].append(kernel)

    @staticmethod
    def problem(conv: Any, height: int, width: int, images: int | None = None) -> Problem:
        """The problem of a layer for images of this size, so many at once; None: any number."""
        _require_layer(conv)
        found = convolution(conv, height, width)
        epilogue = "acc" if conv.bias is None else "acc + bias_n"
        return Conv(images, filters=conv.out_channels, **vars(found), dtype=conv.weight.dtype, epilogue=epilogue)

    @staticmethod
    def gradients(conv: Any, height: int, width: int, images: int | None = None) -> tuple[Problem, ...]:
        """The problems of a layer's gradients for such images: that of x, unless it is no convolution, and that of
        weight."""
        _require_layer(conv)
        found = convolution(conv, height, width)
        types = Types.of(DType.of(conv.weight.dtype))
        of_weight = Problem(
            conv.out_channels,
            found.depth,
            None if images is None else images * found.per_image,
            types=replace(types, c=types.accumulator),
            layout="cr",
            inputs=Inputs(conv=found, wgrad=True),
        )
        if found.no_gradient:
            return (of_weight,)
        turned = vars(found.gradient(conv.out_channels))
        of_x = Conv(images, filters=conv.in_channels, **turned, types=types, epilogue="acc")
        return of_x, of_weight

    def forward(self, x: Any) -> Any:
        kernels = self._by_size.get((int(x.shape[-2]), int(x.shape[-1]))) if x.dim() == 4 else None
        if kernels is None:
            return self.conv(x)
        return conv2d(x, self.conv.weight, self.conv.bias, kernels=kernels)

    def extra_repr(self) -> str:
        return f"images={', '.join(f'{height}x{width}' for height, width in self._by_size) or 'none'}"


def _size(kernel: Kernel) -> tuple[int, int]:
    """Height and width of the images of a kernel that takes some."""
    conv = kernel.source.problem.inputs.conv
    assert conv is not None
    return conv.size[:2]


def convolution(conv: Any, height: int, width: int) -> Convolution:
    """The `Convolution` that a torch.nn.Conv2d computes of images of this height and width."""
    if isinstance(conv.padding, str):  # "same" puts what is odd below and right
        spans = [dilation * (taps - 1) for dilation, taps in zip(conv.dilation, conv.kernel_size, strict=True)]
        down, across = spans if conv.padding == "same" else (0, 0)
        pad = down // 2, across // 2, down - down // 2, across - across // 2
    else:
        pad = *conv.padding, *conv.padding
    return Convolution((height, width, conv.in_channels), conv.kernel_size, pad, conv.stride, conv.dilation)


def require_kind(conv: Any) -> None:
    """Raise InvalidInput unless kernels compute such a torch.nn.Conv2d, its weight's order in memory apart."""
    require_together(conv.groups, conv.in_channels)
    require(conv.padding_mode == "zeros", f"this Conv2d has padding_mode = {conv.padding_mode}: kernels pad with zeros")


def _require_layer(conv: Any) -> None:
    require_kind(conv)
    strides, shape = tuple(conv.weight.stride()), tuple(conv.weight.shape)
    lies = conv.weight.is_contiguous(memory_format=torch.channels_last)
    told = f"the weight of shape {shape} has strides {strides}: first call conv.to(memory_format=torch.channels_last)"
    require(lies, told)
