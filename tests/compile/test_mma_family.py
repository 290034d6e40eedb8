"""What NVRTC makes of kernels of `mma`: the instructions that the plan says, wide copies, nothing spilled."""

from __future__ import annotations

import pytest

from gemmgen.families import MMA
from gemmgen.families.base import check
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import compile_kernel
from gemmgen.run.sass import disassemble
from gemmgen.support.files import Store


def test_bytes_on_their_way_through_registers_lie_in_words() -> None:
    """Byte by byte a warp tile of 64 x 64 would spill on an architecture that has no cp.async."""
    problem = Problem(4096, 4096, 4096, types="s8,s8,s32", layout="rc")
    config = MMA.default(problem).with_values(ASYNC=0, STAGES=2, MMA_K=16)
    check(MMA, problem, config, ARCHS["sm_75"].limits)
    compiled = compile_kernel(render(problem, MMA, config, "sm_75"), "sm_75", Store())
    assert compiled.spill_bytes == 0
    assert disassemble(compiled.cubin, "IMMA").text.count("PRMT") < 16, "no word is made of bytes"


@pytest.mark.parametrize(
    ("arch", "types", "layout"),
    [
        ("sm_90", "bf16", "rc"),
        ("sm_80", "s8,s8,s32", "rc"),
        ("sm_80", "s8,s8,s32", "cr"),
        ("sm_90", "f64", "rc"),
        *(
            pytest.param(arch, types, layout, marks=pytest.mark.soak)
            for arch in ("sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
            for types, layout in (
                *(("bf16", "rr"), ("f16", "cc"), ("f16,f16,f32", "cr"), ("s8,s8,s32", "rc")),
                *(("s8,s8,s32", "rr"), ("s8,s8,s32", "cr"), ("s8,s8,s32", "cc")),
            )
        ),
    ],
)
def test_the_machine_code_is_what_the_plan_says(arch: str, types: str, layout: str) -> None:
    problem = Problem(4096, 4096, 4096, types=types, layout=layout)
    config = MMA.default(problem)
    one_register = problem.types.accumulator == DType.F64  # an LDS.64 brings one element
    check(MMA, problem, config, ARCHS[arch].limits)
    source = render(problem, MMA, config, arch)
    compiled = compile_kernel(source, arch, Store())
    assert compiled.spill_bytes == 0

    value, plan = MMA.plan(problem, config).constants, MMA.plan(problem, config)
    sass = disassemble(compiled.cubin, plan.instruction)
    multiplies = value["MMAS_M"] * value["MMAS_N"]
    reads = 4 * value["MMAS_M"] + 2 * value["MMAS_N"] if one_register else value["MMAS_M"] + value["MMAS_N"] // 2
    counts = sass.kernel.counts
    brought = sass.text.count("LDS.64") if one_register else counts["LDSM"]
    assert counts[plan.instruction] == value["K_STEPS"] * multiplies
    assert brought == (value["K_STEPS"] + 1) * reads, "those of the first k step, and of a k tile"
    assert counts["LDGSTS"] == value["STAGES"] * (value["A_ITERATIONS"] + value["B_ITERATIONS"])
    assert counts["LDGSTS"] == sass.text.count("LDGSTS.E.BYPASS.LTC128B.128 "), "of 16 bytes, past L1"
    unzipped = value["MMAS_M"] * (layout[0] == "c") + value["MMAS_N"] // 2 * (layout[1] == "r")
    if problem.types.a.size == 1 and unzipped:
        assert sass.main_loop.counts["PRMT"] == value["K_STEPS"] * 4 * unzipped, "one for each register of a fragment"
    assert sass.main_loop.counts[plan.instruction] == value["K_STEPS"] * multiplies
