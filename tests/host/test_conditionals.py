"""Which lines of a kernel one compiler alone sees, and which of them gemmgen did not write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmgen.artifacts.folder import kernel_texts
from gemmgen.artifacts.unseen import unseen
from gemmgen.kernel.conditionals import conditionals
from gemmgen.kernel.families import SIMT
from gemmgen.kernel.render import render
from gemmgen.problem.gemm import Problem

PROBLEM = Problem(256, 256, 256)
SOURCE = render(PROBLEM, SIMT, SIMT.default(PROBLEM).with_values(STAGES=3, ASYNC=1))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("#ifdef __CUDACC__\na;\n#endif\n", [(1, 3)]),
        ("x;\n#if 1\n#ifndef __GNUC__\na;\n#endif\n#endif\nb;\n", [(2, 6)]),
        ("#define FAST 1\n#if FAST && defined(FAST)\na;\n#endif\n", []),
        ("#define FAST __CUDA_ARCH__\n#if FAST\na;\n#endif\n", [(2, 4)]),
        ("#ifdef FAST\na;\n#endif\n#define FAST\n", [(1, 3)]),
        ("#if 0\n#elif \\\n  defined __CUDACC__\na;\n#endif\n", [(1, 5)]),
        ("/* c */ # if X\n a;\n%:endif\n", [(1, 3)]),
        ('// #if X\n/*\n#if X\n*/ const char* s = "#if X";\n', []),
        ("a;\n#if X\nb;\n", [(2, 3)]),
    ],
)
def test_what_one_compiler_alone_may_see(text: str, lines: list[tuple[int, int]]) -> None:
    assert [(one.first, one.last) for one in conditionals(text)] == lines


def test_what_gemmgen_renders_is_known_and_an_edit_is_not() -> None:
    assert any(conditionals(SOURCE.text)), "cp.async's PTX, whose twin the emulator runs"
    assert unseen(SOURCE, "sm_90") == ()
    exported = replace(SOURCE, text=kernel_texts(SOURCE, "sm_90")[f"{SOURCE.name}.cu"])
    assert unseen(exported, "sm_90") == (), "with the launcher"
    (edited,) = unseen(replace(SOURCE, text=SOURCE.text.replace("cp.async.c", "cp.async .c", 1)), "sm_90")
    assert edited.first < edited.last and "cp.async .c" in edited.text
    (launcher,) = unseen(replace(exported, text=exported.text.replace("return started(", "started(")), "sm_90")
    assert launcher.first > len(SOURCE.text.splitlines())
