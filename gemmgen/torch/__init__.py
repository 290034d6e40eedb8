"""Kernels in torch (`pip install 'gemmgen[torch]'`): an operator, a Linear module, and a function that replaces a
model's.

    import gemmgen, gemmgen.torch

    problem = gemmgen.Problem(None, 4096, 4096, "bf16", layout="rc", epilogue="bias")
    kernel = gemmgen.load(gemmgen.tune(problem))
    y = gemmgen.torch.gemm(kernel, x, weight.t(), bias_n=bias.float())

gemm               a product in torch.compile and autograd
conv2d             convolutions of images in channels_last, likewise: as torch.nn.functional.conv2d
grouped_mm         products of groups, the experts of a mixture, likewise: as torch.nn.functional.grouped_mm
scaled_grouped_mm  the same of e4m3 with a scale for each row and column, for inference: as torch._scaled_grouped_mm
Linear             torch.nn.Linear by kernels, chosen by the number of rows; it packs its weight once
QuantisedLinear    the same with a weight of 4 or 8 bits, for inference
BlockScaledLinear  the same with weight and activations of fp8, which have scales by block, for inference
replace_linear     puts them in place of a model's torch.nn.Linear
Experts            the experts of a mixture of transformers by kernels, for inference
replace_experts    puts them in place of a model's
Conv2d             torch.nn.Conv2d by kernels, chosen by the size of images
fuse_convs         puts kernels of convolutions into a model, with the BatchNorm2d, residual and ReLU behind them
convolutions_of    the problems of these kernels
LSTM               torch.nn.LSTM for inference: a kernel computes a step of a layer
"""

from gemmgen.torch.block_scaled import BlockScaledLinear
from gemmgen.torch.conv_layer import Conv2d
from gemmgen.torch.convolution import conv2d
from gemmgen.torch.experts import Experts, replace_experts
from gemmgen.torch.fuse import convolutions_of, fuse_convs
from gemmgen.torch.grouped import grouped_mm
from gemmgen.torch.linear import Linear
from gemmgen.torch.lstm import LSTM
from gemmgen.torch.operator import gemm
from gemmgen.torch.quantised import QuantisedLinear
from gemmgen.torch.replace import replace_linear
from gemmgen.torch.scaled_grouped import scaled_grouped_mm

__all__ = [
    "LSTM",
    "BlockScaledLinear",
    "Conv2d",
    "Experts",
    "Linear",
    "QuantisedLinear",
    "conv2d",
    "convolutions_of",
    "fuse_convs",
    "gemm",
    "grouped_mm",
    "replace_experts",
    "replace_linear",
    "scaled_grouped_mm",
]
