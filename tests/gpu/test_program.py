"""Kernels of several launches on a card: right, timed as a whole, and exported with an entry point for each copy."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gemmgen.exports.folder import export
from gemmgen.families import WGMMA
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.problem.wgmma import ARCH
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.gpu.timing import QUICK
from gemmgen.support.errors import CandidateFailed
from gemmgen.verification.verifier import verify

Program = Callable[..., KernelSource]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")


@pytest.mark.parametrize(("layout", "types"), [("rr", "bf16"), ("cc", "s8,s8,s32"), ("cr", "f32"), ("rc", "e4m3")])
def test_a_program_passes_verification(gpu: GpuExecutor, program: Program, layout: str, types: str) -> None:
    source = program(layout, types, pointer_align=4, batch=None)
    verdict = verify(gpu, source, examples=30)
    assert verdict.passed, verdict.failure or verdict.mismatch


def test_a_program_is_timed_as_a_whole(gpu: GpuExecutor, program: Program) -> None:
    """Where one of its launches crashes there is no time."""
    source = program("rr", "bf16")
    case = source.problem.case(8, 8, 64)
    assert len(gpu.measure(gpu.load(source), case).samples_us) == QUICK.samples
    for line in ("const int lines = M, length", "const int lines = N, length", "float sum = 0;"):
        assert source.text.count(line) == 1
        crashing = replace(source, text=source.text.replace(line, f"__trap(); {line}"))
        with pytest.raises(CandidateFailed) as caught:
            gpu.measure(gpu.load(crashing), case)
        assert caught.value.failure.kind == "crash"


def selftest_passes(folder: Path, source: KernelSource, arch: str, flags: tuple[str, ...]) -> None:
    export(source, {"arch": arch, "verification": None, "timing": None}, folder)
    build = ("nvcc", "-O3", "-std=c++17", *flags, f"{source.name}.cu", f"{source.name}_selftest.cu", "-o", "selftest")
    subprocess.run(build, cwd=folder, check=True, timeout=300)
    result = subprocess.run([folder / "selftest"], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0 and result.stdout.endswith("PASS  all\n"), result.stdout


@needs_nvcc
def test_an_exported_program_passes_its_selftest(gpu: GpuExecutor, program: Program, tmp_path: Path) -> None:
    selftest_passes(tmp_path, program("cr", "bf16", pointer_align=2, batch=None), "sm_90", ("-arch=native",))


PROBLEMS = {
    "TMA takes all": Problem(None, None, None, layout="rc", types="bf16", ld_align=8),
    "any alignment": Problem(None, None, None, layout="cr", types="bf16", pointer_align=2, epilogue="bias+row_amax"),
    "a transposed copy": Problem(None, None, None, layout="rr", types="s8,s8,s32"),
    "tf32": Problem(None, None, None, layout="rr", types=Types.parse("f32", Compute.TF32), batch=3),
    "pieces": Problem(None, 520, None, layout="rr", types=Types.parse("f32", Compute.BF16X6), batch=3),
    "fixed": Problem(4095, 4097, 1023, layout="rr", types="bf16"),
    "codes": Problem(None, 136, 208, layout="rc", types="bf16,u4,bf16", inputs="scales=128+zeros", epilogue="bias"),
    "blocks": Problem(None, None, 208, layout="rc", types="e4m3,e4m3,bf16_promoted", inputs="blocks"),
    "signed codes": Problem(None, 4096, 4096, layout="rr", types="f16,s4,f32", inputs="scales=32", ldb=None),
}


@needs_nvcc
@pytest.mark.parametrize("name", ["by hand", *PROBLEMS])
def test_an_exported_kernel_of_tensor_maps_passes_its_selftest(
    gpu: GpuExecutor, right_kernel_of_maps: KernelSource, name: str, tmp_path: Path
) -> None:
    if gpu.arch.rstrip("a") != ARCH.rstrip("a"):
        pytest.skip(f"wgmma needs {ARCH}, and the GPU here is {gpu.arch}")
    source = render(PROBLEMS[name], WGMMA, WGMMA.default(PROBLEMS[name])) if name in PROBLEMS else right_kernel_of_maps
    selftest_passes(tmp_path, source, ARCH, ("-gencode", f"arch=compute_90a,code={ARCH}"))
