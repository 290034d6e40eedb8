"""Writes the files of this folder with the code of the packages that define the formats.

    python tests/host/checkpoints/write.py AUTOAWQ GPTQMODEL

Needs torch, safetensors, compressed-tensors and torchao. AUTOAWQ and GPTQMODEL are unpacked source distributions; as
importing them needs a GPU's libraries, the functions named below are compiled from their files, unchanged. Each file
has the layer "proj" and, as `expected`, the weight that the same package dequantises it to.

The files were written with torch 2.13.0+cpu, compressed-tensors 0.20.1, torchao 0.18.0, AutoAWQ 0.2.9 and GPTQModel
7.7.0:

awq                     WQLinear_GEMM.from_linear; dequantize_gemm
gptq, gptq_v2           BaseQuantLinear.pack_original; convert_gptq_v2_to_v1_format_module for gptq;
                        expected: (code - zero) * scale by torch, in f16, from what was packed
compressed, compressed8 PackedQuantizationCompressor.compress and decompress
intx                    IntxUnpackedToInt8Tensor.from_hp, flatten_tensor_state_dict; dequantize
int4                    flatten_tensor_state_dict of an Int4Tensor. Its bytes come from this file, because torchao packs
                        them with kernels of a GPU's library
"""

from __future__ import annotations

import ast
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
N, K, GROUP = 32, 64, 32


def compiled(path: Path, name: str, **names: Any) -> Any:
    """Function `name` of a Python file, without its decorators, where `names` are its globals."""
    tree = ast.parse(path.read_text())
    found = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    found.decorator_list, found.returns = [], None
    for argument in (*found.args.args, *found.args.kwonlyargs):
        argument.annotation = None
    exec(compile(ast.Module([found], []), str(path), "exec"), names)
    return names[name]


def drawn(bits: int, dtype: torch.dtype, *, symmetric: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes N x K, scales and zero points N x groups."""
    codes = torch.randint(0, 2**bits, (N, K), dtype=torch.int32)
    scales = (torch.rand(N, K // GROUP) * 0.01 + 0.001).to(dtype)
    zeros = torch.randint(0, 2**bits, scales.shape, dtype=torch.int32)
    return codes, scales, torch.full_like(zeros, 2 ** (bits - 1)) if symmetric else zeros


def weight_of(codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    of_each = [one.repeat_interleave(GROUP, 1) for one in (zeros, scales)]
    return (codes - of_each[0]) * of_each[1].float()


def linear_of(weight: torch.Tensor) -> Any:
    linear = torch.nn.Linear(K, N, bias=False)
    linear.weight.data = weight
    return linear


def write(name: str, tensors: dict[str, torch.Tensor], expected: torch.Tensor, **more: Any) -> None:
    named = {f"proj.{part}": tensor.contiguous() for part, tensor in tensors.items()}
    save_file({**named, "expected": expected.contiguous()}, HERE / f"{name}.safetensors", **more)


def write_awq(source: Path) -> None:
    codes, scales, zeros = drawn(4, torch.float16, symmetric=False)

    def empty(w_bit: int, group_size: int, in_features: int, out_features: int, *_: Any) -> SimpleNamespace:
        return SimpleNamespace(w_bit=w_bit, group_size=group_size, in_features=in_features, out_features=out_features)

    modules = source / "awq" / "modules" / "linear" / "gemm.py"
    from_linear = compiled(modules, "from_linear", torch=torch, get_best_device=lambda: "cpu")
    weight = linear_of(weight_of(codes, scales, zeros))
    made = from_linear(empty, weight, 4, GROUP, scales=scales.T.contiguous(), zeros=zeros.T.contiguous())
    helpers = source / "awq" / "utils" / "packing_utils.py"
    names: dict[str, Any] = {"torch": torch, "AWQ_REVERSE_ORDER": [0, 4, 1, 5, 2, 6, 3, 7]}
    for name in ("unpack_awq", "reverse_awq_order", "dequantize_gemm"):
        names[name] = compiled(helpers, name, **names)
    expected = names["dequantize_gemm"](made.qweight, made.qzeros, made.scales, 4, GROUP).T
    write("awq", {"qweight": made.qweight, "qzeros": made.qzeros, "scales": made.scales}, expected)


def write_gptq(source: Path) -> None:
    codes, scales, zeros = drawn(4, torch.float16, symmetric=False)
    zeros[3, 0] = 0  # version 1 borrows from the next zero point of the word

    made = SimpleNamespace(
        bits=4, maxq=15, pack_dtype_bits=32, pack_factor=8, planar=False, pack_dtype=torch.int32, bias=None
    )
    made.pack_np_math_dtype, made.pack_np_dtype = np.uint32, np.int32
    made.register_buffer = lambda name, tensor: setattr(made, name, tensor)
    made.qzero_format = lambda **_: None

    class Limits:
        def threadpool_limits(self, _: int) -> Any:
            return torch.no_grad()

    class Nothing:
        pass

    package = source / "gptqmodel"
    never = SimpleNamespace(pytorch_utils=SimpleNamespace(Conv1D=Nothing))
    names = {"THREADPOOLCTL": Limits(), "nn": torch.nn, "_ConvNd": Nothing, "transformers": never}
    pack = compiled(
        package / "nn_modules" / "qlinear" / "__init__.py", "pack_original", t=torch, np=np, math=math, **names
    )
    g_idx = torch.arange(K, dtype=torch.int32) // GROUP
    pack(made, linear_of(weight_of(codes, scales, zeros)), scales.float(), zeros.float(), g_idx)
    expected = (weight_of(codes, scales, zeros)).half()

    def tensors() -> dict[str, torch.Tensor]:
        return {name: getattr(made, name).clone() for name in ("qweight", "qzeros", "scales", "g_idx")}

    write("gptq_v2", tensors(), expected)
    log = SimpleNamespace(info=SimpleNamespace(once=print))
    globals_ = {"torch": torch, "log": log, "BaseQuantLinear": SimpleNamespace}
    to_v1 = compiled(package / "utils" / "model.py", "convert_gptq_v2_to_v1_format_module", **globals_)
    to_v1(made, SimpleNamespace(bits=4, pack_dtype=torch.int32))
    write("gptq", tensors(), expected)


def write_compressed() -> None:
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    for name, bits, symmetric, dtype in (
        ("compressed", 4, False, torch.float16),
        ("compressed8", 8, True, torch.bfloat16),
    ):
        codes, scales, zeros = drawn(bits, dtype, symmetric=symmetric)
        args = QuantizationArgs(num_bits=bits, symmetric=symmetric, strategy="group", group_size=GROUP)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        weight = weight_of(codes, scales, zeros).to(dtype)
        points = (zeros - 2 ** (bits - 1)).to(torch.int8)
        state = {"weight": weight, "weight_scale": scales, "weight_zero_point": points}
        made = PackedQuantizationCompressor.compress(state, scheme)
        expected = PackedQuantizationCompressor.decompress(dict(made), scheme)["weight"]
        write(name, made, expected)


def write_torchao() -> None:
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Int4Tensor, IntxUnpackedToInt8Tensor
    from torchao.quantization.quant_primitives import MappingType

    weight = torch.randn(N, K).to(torch.bfloat16)
    kinds = {"block_size": (1, GROUP), "target_dtype": torch.int4, "mapping_type": MappingType.ASYMMETRIC}
    intx = IntxUnpackedToInt8Tensor.from_hp(weight, **kinds)
    codes, scales, zeros = drawn(4, torch.bfloat16, symmetric=True)
    values = (codes - 8) & 15
    qdata = (values[:, ::2] | values[:, 1::2] << 4).to(torch.uint8).view(torch.int8)
    scales_t = scales.T.contiguous()
    int4 = Int4Tensor(qdata, scales_t, torch.zeros_like(scales_t), [1, GROUP], torch.Size((N, K)))
    for name, tensor, expected in (
        ("intx", intx, intx.dequantize()),
        ("int4", int4, weight_of(codes, scales, zeros).to(torch.bfloat16)),
    ):
        tensors, metadata = flatten_tensor_state_dict({"proj.weight": tensor})
        parts = {full.removeprefix("proj."): one for full, one in tensors.items()}
        write(name, parts, expected, metadata=metadata)


if __name__ == "__main__":
    torch.manual_seed(0)
    write_awq(Path(sys.argv[1]))
    write_gptq(Path(sys.argv[2]))
    write_compressed()
    write_torchao()
