"""A convolution and what follows it in a network, as one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.support.errors import require
from gemmgen.torch.conv_layer import convolution, require_kind
from gemmgen.torch.convolution import POINT, conv2d
from gemmgen.torch.few_channels import squares_of
from gemmgen.torch.operator import Kernel, extent


class FusedConv2d(torch.nn.Module):
    """y = relu(norm(conv(x)) + residual), or less of that, by one kernel, for inference.

    conv  a torch.nn.Conv2d, with zeros as padding and without groups
    norm  the torch.nn.BatchNorm2d behind it, or None. It is folded in f32 into copies of the weight, which is rounded
          once to its type, and of the bias, which stays f32
    size  height and width of the images that kernels take
    adds  whether a residual is added; it is the old C of kernels
    relu  whether a ReLU comes last

    `use` gives it kernels of `problem`. torch computes images of other sizes, and numbers of images for which no kernel
    is. Images of few channels are copied first, as `gemmgen.torch.few_channels` says; so is the residual, unless
    `overwrites` is set: the result then lies in its place. Raises InvalidInput for another kind of convolution.
    """

    def __init__(
        self, conv: Any, norm: Any = None, *, size: tuple[int, int], adds: bool = False, relu: bool = False
    ) -> None:
        super().__init__()
        require_kind(conv)
        self.size, self.adds, self.relu, self.overwrites = size, adds, relu, False
        self.given = {"stride": conv.stride, "padding": conv.padding, "dilation": conv.dilation}  # of torch's function
        weight, bias = folded(conv, norm)
        pixels = convolution(conv, *size)
        self._squares = squares_of(pixels, weight.element_size())
        self.convolution = pixels if self._squares is None else self._squares.conv
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        filters = None if self._squares is None else self._squares.filters(weight)
        self.register_buffer("filters", filters, persistent=False)
        self.kernels: list[Kernel] = []

    def problem(self, images: int | None = None) -> Problem:
        """The problem of a kernel for so many images at once; None: any number."""
        value = " + ".join(("acc", *["bias_n"] * (self.bias is not None), *["beta * C"] * self.adds))
        return Problem(
            None if images is None else images * self.convolution.per_image,
            self.weight.shape[0],
            self.convolution.depth,
            dtype=self.weight.dtype,
            layout="rc",
            inputs=Inputs() if self._is_product else Inputs(conv=self.convolution),
            epilogue=f"relu({value})" if self.relu else value,
        )

    @property
    def _is_product(self) -> bool:
        """Whether it is a plain product of pixels and filters."""
        return self.convolution == replace(POINT, size=self.convolution.size)

    def use(self, kernels: Sequence[Kernel]) -> None:
        """Compute by these kernels from now on. Raises InvalidInput for one of another problem."""
        wanted, images = self.problem(), Inputs(conv=self.convolution)
        for kernel in kernels:
            found = kernel.source.problem
            same = _kind(found) == _kind(wanted) and found.inputs in (wanted.inputs, images)
            require(
                same and found.n in (None, wanted.n) and found.k in (None, wanted.k),
                f"{kernel.name} computes {found}, and this layer needs {wanted}",
            )
        self.kernels = list(kernels)

    def forward(self, x: Any, residual: Any = None) -> Any:
        if not self._serves(x):
            bias = None if self.bias is None else self.bias.to(x.dtype)
            y = torch.nn.functional.conv2d(x, self.weight, bias, **self.given)
            y = y if residual is None else y + residual
            return torch.relu(y) if self.relu else y
        if self._squares is None:
            filters = self.weight
        else:
            x, filters = self._squares.images(x), self.filters
        return conv2d(x, filters, self.bias, residual, kernels=self.kernels, overwrite=self.overwrites)

    def _serves(self, x: Any) -> bool:
        """Whether a kernel takes these images."""
        if x.dim() != 4 or tuple(x.shape[2:]) != self.size:
            return False
        rows = x.shape[0] * self.convolution.per_image
        return any(kernel.source.problem.m in (None, rows) for kernel in self.kernels)

    def extra_repr(self) -> str:
        k, c, *taps = self.weight.shape
        told = f"{c}, {k}, taps={extent(taps)}, images={extent(self.size)}, residual={self.adds}, relu={self.relu}"
        return f"{told}, kernels={len(self.kernels)}"


def folded(conv: Any, norm: Any = None) -> tuple[Any, Any]:
    """(the weight in torch.channels_last, the bias in f32 or None) of a convolution and the BatchNorm2d behind it."""
    dtype = torch.promote_types(conv.weight.dtype, torch.float32)
    weight, bias = conv.weight.detach(), None if conv.bias is None else conv.bias.detach().to(dtype)
    if norm is not None:
        scale = torch.rsqrt(norm.running_var.to(dtype) + norm.eps)
        if norm.weight is not None:
            scale = scale * norm.weight.detach().to(dtype)
        shift = -norm.running_mean.to(dtype) if bias is None else bias - norm.running_mean.to(dtype)
        bias = shift * scale if norm.bias is None else shift * scale + norm.bias.detach().to(dtype)
        weight = (weight.to(dtype) * scale[:, None, None, None]).to(weight.dtype)
    return weight.clone(memory_format=torch.channels_last), bias


def _kind(problem: Problem) -> tuple[Any, ...]:
    """What kernels of a layer have in common."""
    return problem.types.operands, problem.layout, problem.epilogue, problem.batched
