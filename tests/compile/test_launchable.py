"""What nvcc refuses, or a driver would: `verify` on the emulator says so without a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gemmgen.families import NAIVE
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import compile_kernel
from gemmgen.run.sass import disassemble
from gemmgen.support.files import Store
from gemmgen.verification.with_nvrtc import CudaCheck, check_cuda

PROBLEM = Problem(16, 16, 16)
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
BOUNDS = "__launch_bounds__(THREADS)"


def edited(*changes: tuple[str, str]) -> KernelSource:
    text = SOURCE.text
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return replace(SOURCE, text=text)


def checked(source: KernelSource, store: Store, arch: str = "sm_90") -> CudaCheck:
    return check_cuda(source, arch, store)


def test_a_right_kernel_is_launchable(shared_store: Store) -> None:
    check = checked(SOURCE, shared_store)
    assert check.failure is None and check.missing is None and check.compiler and check.registers


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (edited(("float acc", "flaot acc")), "flaot"),
        (edited((BOUNDS, "__launch_bounds__(32)")), "more than the kernel's __launch_bounds__ of 32"),
        (SOURCE.promising(parameters=SOURCE.parameters[:-1]), "parameters of"),
        (edited(('extern "C" __global__', "__global__")), 'finds no function extern "C"'),
        (SOURCE.promising(launch=replace(SOURCE.launch, shared_bytes=300_000)), "300000 of the launch are more than"),
    ],
    ids=["syntax", "bounds", "parameters", "name", "shared"],
)
def test_what_no_gpu_would_run_fails(source: KernelSource, words: str, shared_store: Store) -> None:
    failure = checked(source, shared_store).failure
    assert failure is not None and failure.source == "nvrtc" and words in failure.reason


def test_a_block_may_have_all_the_shared_memory_that_there_is(shared_store: Store) -> None:
    most = parse_arch("sm_90").limits.shared_bytes - compile_kernel(SOURCE, "sm_90", shared_store).shared_bytes
    for dynamic, launchable in ((most, True), (most + 1, False)):
        source = SOURCE.promising(launch=replace(SOURCE.launch, shared_bytes=dynamic))
        assert (checked(source, shared_store).failure is None) == launchable


def test_a_program_is_launchable_and_copies_by_16_bytes(
    program: Callable[..., KernelSource], shared_store: Store
) -> None:
    for layout, types in (("rr", "bf16"), ("cr", "s8,s8,s32")):
        source = program(layout, types)
        check = checked(source, shared_store)
        assert check.failure is None and check.missing is None
        sass = disassemble(compile_kernel(source, "sm_90", shared_store).cubin).text
        assert len(re.findall(r"STG\.E\.128", sass)) >= 2
        assert check.shared_bytes == 0  # of the kernel, whatever a transposition takes


def test_a_program_whose_launches_differ_from_its_text_fails(
    program: Callable[..., KernelSource], shared_store: Store
) -> None:
    source = program("rr", "bf16")
    missing = replace(source, text=source.text.replace("k_prepare_b_kernel(", "k_prepare_x_kernel("))
    failure = checked(missing, shared_store).failure
    assert failure is not None and "k_prepare_b_kernel" in failure.reason
    fewer = re.sub(r"int N,\s+int K,\s+int ldb\)", "int N, int ldb)", source.text).replace("length = K", "length = 8")
    failure = checked(replace(source, text=fewer), shared_store).failure
    assert failure is not None and "k_prepare_b_kernel takes 4 parameters" in failure.reason


def test_registers_of_a_whole_block(shared_store: Store) -> None:
    """128 sums a thread need as many registers: without launch bounds the compiler knows nothing of 1,024 threads."""
    many = """float acc = 0, sums[128];
    for (float& sum : sums) sum = A[0];
#pragma unroll 1
    for (int i = 0; i < 99; ++i) {
#pragma unroll
        for (int j = 0; j < 128; ++j) sums[j] = sums[j] * sums[j * 7 % 128] + B[i];
    }
    for (float sum : sums) acc += sum;"""
    line = next(line for line in SOURCE.text.splitlines() if "float acc" in line)
    source = edited((line, many), (BOUNDS, ""))
    source = source.promising(launch=replace(source.launch, threads=1024))
    failure = checked(source, shared_store).failure
    assert failure is not None and failure.kind == "launch" and "registers need" in failure.reason


def test_an_architecture_that_the_compiler_does_not_know_is_not_checked(shared_store: Store) -> None:
    check = checked(SOURCE, shared_store, "sm_10")
    assert check.failure is None and check.compiler is None and check.missing and "sm_10" in check.missing


@pytest.mark.parametrize(
    "lines",
    [
        '#include "{file}"',
        "%:include <{file}>",
        '#inc\\\nlude "{file}"',
        '#/* one */ include /* two */ "{file}"',
        '#define FILE "{file}"\n#include FILE',
        '#if __has_include("{file}")\n#endif',
        '#include "../../../..{file}"',
    ],
)
def test_no_file_but_cudas_headers_is_read(lines: str, shared_store: Store, tmp_path: Path) -> None:
    """NVRTC's messages would show lines of it."""
    secret = tmp_path / "secret.txt"
    secret.write_text("token_of_mine")
    named = lines.format(file=secret)
    check = checked(replace(SOURCE, text=f"// first\n{named}\n{SOURCE.text}"), shared_store)
    assert check.failure is not None and check.failure.kind == "unjudged", check.failure
    asked = next(number for number, line in enumerate(named.splitlines(), 2) if "inc" in line)
    assert f"line {asked}: " in check.failure.reason and "token_of_mine" not in check.failure.reason


def test_cudas_headers_that_are_not_here_refuse_no_kernel(shared_store: Store) -> None:
    check = checked(replace(SOURCE, text=f"#include <cuda_fp16.h>\n{SOURCE.text}"), shared_store)
    assert check.failure is None
    assert check.registers or "pip install nvidia-cuda-runtime" in str(check.missing)


def test_a_text_that_takes_too_long_is_not_judged(shared_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "abcdefghijklm"
    bomb = "\n".join(f"#define {one} {' '.join([other] * 8)}" for one, other in pairwise(names))
    monkeypatch.setattr("gemmgen.run.compile.APART_TIMEOUT", 2.0)
    check = checked(replace(SOURCE, text=f"{bomb}\nint bombs[] = {{a}};\n{SOURCE.text}"), shared_store)
    assert check.failure is not None and check.failure.kind == "unjudged"
    assert "no answer in 2 s" in check.failure.reason
