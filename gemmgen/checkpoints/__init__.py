"""Quantised weights of public checkpoint formats, as one record: `QuantisedWeight`. `open_checkpoint` reads files.

weight.py      that record

scheme.py      which format a model's quantization_config names, and its numbers
words.py       codes in 32-bit words, and the checks that formats share
gptq.py        GPTQ, versions 1 and 2
awq.py         AWQ, "gemm"
compressed.py  compressed-tensors, "pack-quantized"
torchao.py     torchao's tensors with integer zero points
files.py       safetensors files, read layer by layer
"""

from gemmgen.checkpoints.files import open_checkpoint
from gemmgen.checkpoints.weight import QuantisedWeight

__all__ = ["QuantisedWeight", "open_checkpoint"]
