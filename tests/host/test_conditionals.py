"""Lines of a kernel that compilers other than NVRTC may read differently."""

from __future__ import annotations

import pytest

from gemmgen.families import SIMT
from gemmgen.kernel.conditionals import conditionals, directives
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render

PROBLEM = Problem(256, 256, 256)
SOURCE = render(PROBLEM, SIMT, SIMT.default(PROBLEM).with_values(STAGES=3, ASYNC=1))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("#ifdef __CUDACC__\na;\n#endif\n", []),
        ("#ifdef __CUDACC_RTC__\na;\n#endif\n", [(1, 3)]),
        ("\f#\v ifndef __CUDACC_RTC__\na;\n#endif\n", [(1, 3)]),
        ("#if\\\ndef __CUDACC_RTC__\na;\n#endif\n", [(1, 4)]),
        ("#define F 1\n#undef F\n#define F __CUDACC_RTC__\n#if F\na;\n#endif\n", [(3, 3), (4, 6)]),
        ("int a;\nint b = sizeof(__FILE__) > 12;\n", [(2, 2)]),
        ("int b = __CUDA_ARCH__ + __LINE__;  // __FILE__\n", []),
        ("x;\n#if 1\n#ifndef __GNUC__\na;\n#endif\n#endif\nb;\n", [(2, 6)]),
        ("#define FAST 1\n#if FAST && defined(FAST)\na;\n#endif\n", []),
        ("#define FAST __CUDA_ARCH__\n#if FAST\na;\n#endif\n", [(2, 4)]),
        ("#ifdef FAST\na;\n#endif\n#define FAST\n", [(1, 3)]),
        ("#if 0\n#elif \\\n  defined __CUDA_ARCH__\na;\n#endif\n", [(1, 5)]),
        ("/* c */ # if X\n a;\n%:endif\n", [(1, 3)]),
        ('// #if X\n/*\n#if X\n*/ const char* s = "#if X";\n', []),
        ("a;\n#if X\nb;\n", [(2, 3)]),
        ("__device__ int a;\n__host__ __device__ void f() {}\n", [(2, 2)]),
        ("__attribute__((constructor)) __device__ void f();\n", [(1, 1)]),
        ("#define H(a, b) a##b\nH(__ho, st__) __device__ void f() {}\n", [(1, 1)]),
        ('/*\n*/ asm(".quad 0");\n', [(2, 2)]),
        ('asm\n(".quad 0" ":");\n', [(1, 1)]),
        ('void f() { asm("mov %0, %1;" : "=r"(a) : "r"(b)); asm volatile("bar.sync 0;"); }\n', []),
        ('#define asm(a, b) asm(a)\nasm("x", : "r");\n', [(1, 1), (2, 2)]),
        ('#define volatile\nasm volatile("x");\n', [(1, 1)]),
        ('#pragma unroll 4\n#pragma redefine_extname k malloc\n_Pragma("weak k")\n', [(2, 2), (3, 3)]),
        ("[[maybe_unused]] int a;\n[[gnu::section]] const int b = 1;\n", [(2, 2)]),
    ],
)
def test_what_one_compiler_alone_may_see(text: str, lines: list[tuple[int, int]]) -> None:
    assert [(one.first, one.last) for one in conditionals(text)] == lines


def test_directives_are_found_as_a_compiler_finds_them() -> None:
    text = "#/*\n*/define A 1\n#de\\\nfine B\\\n 2\n\f# define C\n"
    assert [*directives(text)] == [(2, "define", " A 1"), (3, "define", " B 2"), (6, "define", " C")]


def test_all_compilers_read_what_gemmgen_renders_alike() -> None:
    assert not [*conditionals(SOURCE.text)]
