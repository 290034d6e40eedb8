"""Exported folders on a card: nvcc builds them, and their self-tests pass."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gemmgen.exports.folder import export
from gemmgen.families import FAMILIES
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import parse_shape
from gemmgen.render.kernel_text import render
from gemmgen.run.card import compile_target
from gemmgen.run.gpu import why_no_gpu

REASON = why_no_gpu() or ("nvcc is not on the PATH" if shutil.which("nvcc") is None else "")
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


def kernel(shape: str, layout: str, family: str, problem: dict[str, Any], **config: int) -> KernelSource:
    described = Problem(*parse_shape(shape), layout=Layout.parse(layout), **problem)
    record = FAMILIES[family]
    return render(described, record, record.default(described).with_values(**config))


KERNELS = {
    "f32": kernel("?x?x?", "rr", "simt", {}),
    "bf16": kernel("?x?x?", "rc", "simt", {"types": "bf16"}),
    "bf16, sampled": kernel("4096x4096x4096", "rc", "simt", {"types": "bf16"}),
    "bf16 skinny": kernel("4x4096x4096", "rc", "skinny", {"types": "bf16", "epilogue": "bias+silu"}),
    "f16 by pointers": kernel("16x16x24", "rr", "batched", {"types": "f16", "batch": None, "pointers": True}),
    "fp8": kernel("?x?x?", "rc", "simt", {"types": "e4m3,e5m2,e4m3"}),
    "s8 with scales": kernel(
        "?x?x?", "rr", "simt", {"types": "s8,u8,bf16", "epilogue": "zero_m+zero_n+scale_m+scale_n+bias+residual"}
    ),
    "s8 requantised": kernel("?x512x?", "cr", "simt", {"types": "s8", "epilogue": "zero_a+scale_a+scale_n+bias+relu"}),
    "s8 to s32, split": kernel("?x?x?", "rr", "simt", {"types": "s8,s8,s32"}, SPLIT=3),
    "aux": kernel("?x?x?", "rr", "simt", {"types": "bf16", "epilogue": "bias+aux+gelu+residual", "batch": None}),
    "amax": kernel(
        "?x?x?", "rr", "simt", {"types": "bf16", "epilogue": "bias+row_amax+gelu+column_amax", "batch": None}
    ),
    "images": kernel("?x64x96", "rc", "naive", {"types": "bf16", "inputs": "im2col=9x8x16_3x2_p1x0x2x1_s2x1_d1x2"}),
    "images by mma": kernel(
        "?x64x576", "rc", "mma", {"types": "bf16", "inputs": "im2col=14x15x64_3x3_p1x1", "lda": None, "ld_align": 8}
    ),
    "images by wgmma": kernel(
        "?x64x576", "rc", "wgmma", {"types": "bf16", "inputs": "im2col=14x15x64_3x3_p1x1", "lda": None, "ld_align": 8}
    ),
    "gradient of filters by wgmma": kernel(
        "64x576x?", "cr", "wgmma", {"types": "bf16,bf16,f32", "inputs": "im2col=14x15x64_3x3_p1x1+wgrad"}
    ),
    "gathered by wgmma": kernel("?x136x256", "rc", "wgmma", {"types": "bf16", "inputs": "groups=8+gathered"}),
    "rows by an index": kernel("?x?x?", "rr", "wgmma", {"types": "bf16", "inputs": "gathered", "ld_align": 8}),
    "scattered by wgmma": kernel(
        "?x136x256", "rc", "wgmma", {"types": "bf16", "inputs": "groups=8+scattered", "epilogue": "scale_m"}
    ),
    "rows to an index": kernel("?x?x?", "rr", "wgmma", {"types": "bf16", "inputs": "scattered", "ld_align": 8}),
    "gathered and scattered": kernel(
        "?x72x64", "rc", "wgmma", {"types": "f16", "inputs": "groups=3+gathered+scattered"}
    ),
    "aux of f64": kernel("?x64x?", "rr", "simt", {"types": "f64", "epilogue": "bias+aux+silu"}, SPLIT=4),
}


@pytest.mark.parametrize("name", KERNELS)
def test_an_exported_kernel_passes_its_selftest(name: str, tmp_path: Path) -> None:
    source, native = KERNELS[name], compile_target("auto")[0]
    if source.launch.maps and not native.startswith("sm_90"):
        pytest.skip(f"wgmma runs on sm_90, and the card here is an {native}")
    arch, flag = ("sm_90a", "compute_90a,code=sm_90a") if source.launch.maps else ("sm_90", "")
    export(source, {"arch": arch, "verification": None, "timing": None}, tmp_path)
    texts = (f"{source.name}.cu", f"{source.name}_selftest.cu")
    build = ("nvcc", "-O3", "-std=c++17", f"-gencode=arch={flag}" if flag else "-arch=native", *texts, "-o", "selftest")
    subprocess.run(build, cwd=tmp_path, check=True, timeout=300)
    result = subprocess.run([tmp_path / "selftest"], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0 and result.stdout.endswith("PASS  all\n"), result.stdout
