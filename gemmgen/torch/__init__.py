"""Kernels in torch (`pip install 'gemmgen[torch]'`): an operator, a Linear module, and a function that replaces a
model's.

    import gemmgen, gemmgen.torch

    problem = gemmgen.Problem(None, 4096, 4096, "bf16", layout="rc", epilogue="bias")
    kernel = gemmgen.load(gemmgen.tune(problem))
    y = gemmgen.torch.gemm(kernel, x, weight.t(), bias_n=bias.float())

gemm            a product in torch.compile and autograd
Linear          torch.nn.Linear by kernels, chosen by the number of rows; it packs its weight once
replace_linear  puts it in place of a model's torch.nn.Linear
CodesLinear     a Linear whose weight is codes of 4 bits, with scales
replace_codes   puts it in place of those layers of a model whose codes are given
BlocksLinear    a Linear whose weight and activations are e4m3 with scales of blocks
replace_blocks  puts it in place of a model's torch.nn.Linear
"""

from gemmgen.torch.blocks import BlocksLinear, replace_blocks
from gemmgen.torch.codes import CodesLinear, replace_codes
from gemmgen.torch.linear import Linear, replace_linear
from gemmgen.torch.operator import gemm

__all__ = ["BlocksLinear", "CodesLinear", "Linear", "gemm", "replace_blocks", "replace_codes", "replace_linear"]
