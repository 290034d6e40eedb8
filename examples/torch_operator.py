"""An exported kernel as an operator of torch, which builds it: where this runs there is no gemmgen.

gemmgen generate '?x4096x4096' --dtype bf16 --layout rc --family wgmma --as linear
gemmgen export linear --to vendored --torch
python examples/torch_operator.py vendored
"""

from __future__ import annotations

import sys

import torch
from torch.utils import cpp_extension

sources = [f"{sys.argv[1]}/linear{end}" for end in (".cu", "_torch.cpp")]
flags = ["-gencode=arch=compute_90a,code=sm_90a"]  # README.md there names those of its kernels
cpp_extension.load("linear", sources, extra_cuda_cflags=flags, is_python_module=False)

weight, x = (torch.randn(rows, 4096, device="cuda").bfloat16() for rows in (4096, 100))
layer = torch.compile(lambda x: torch.ops.linear.gemm(x, weight.t(), alpha=0.5).relu())
torch.testing.assert_close(layer(x), (0.5 * (x @ weight.t())).relu(), rtol=0.01, atol=0.01)
print("the same as torch's")
