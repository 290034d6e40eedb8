"""What NVRTC makes of kernels of `wgmma`: no advisory of ptxas, nothing spilled, the products that the plan says."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby

import pytest

from gemmgen.exports.json_records import compiled_document
from gemmgen.families import WGMMA
from gemmgen.families.base import check
from gemmgen.problem.device import ARCHS
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.problem.wgmma import Wgmma
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import compile_kernel
from gemmgen.run.sass import disassemble
from gemmgen.support.files import Store


def test_what_ptxas_advises_is_on_record(shared_store: Store) -> None:
    """Sums are read while their products are under way: ptxas has them wait, and says so."""
    problem = Problem(4096, 4096, 4096, types="bf16", layout="rc")
    source = render(problem, WGMMA, WGMMA.default(problem))
    text = source.text.replace("wgmma_wait<0>();", "")
    compiled = compile_kernel(replace(source, text=text), "sm_90", shared_store)
    (advisory,) = compiled.advisories
    assert re.fullmatch(r"C75\d\d: wgmma\..+", advisory) and source.name not in advisory
    assert (compiled_document(compiled) or {})["advisories"] == (advisory,)
    assert compile_kernel(replace(source, text=text), "sm_90", shared_store).advisories == (advisory,), "from the store"
    assert "advisories" not in (compiled_document(compile_kernel(source, "sm_90", shared_store)) or {})


@pytest.mark.parametrize(
    ("types", "layout", "axes"),
    [
        (Types.parse("bf16"), "rc", {}),
        (Types.parse("s8,s8,s32"), "rc", {}),
        (Types.parse("f32", Compute.TF32), "rr", {}),
        (Types.parse("bf16"), "rc", {"BM": 160, "BN": 128, "STAGES": 5, "SWAP": 1, "PINGPONG": 1}),
        (Types.parse("bf16"), "rr", {"BM": 136, "BN": 64, "CONSUMERS": 1, "SWAP": 1}),
        *(
            pytest.param(types, layout, axes, marks=pytest.mark.soak)
            for types, layout, axes in (
                (Types.parse("f16"), "rr", {}),
                (Types.parse("f16", Compute.F16), "cc", {}),
                (Types.parse("f32", Compute.TF32), "rc", {}),
                (Types.parse("f32", Compute.TF32), "cc", {}),
                (Types.parse("e4m3,e4m3,bf16", Compute.PROMOTED), "rc", {}),
                (Types.parse("e4m3,e4m3,bf16", Compute.PROMOTED), "rc", {"BM": 104, "BN": 128, "SWAP": 1}),
            )
        ),
    ],
    ids=str,
)
def test_the_machine_code_is_what_the_plan_says(
    types: Types, layout: str, axes: dict[str, int], shared_store: Store
) -> None:
    problem = Problem(4096, 4096, 4096, types=types, layout=layout)
    config = WGMMA.default(problem).with_values(**axes)
    check(WGMMA, problem, config, ARCHS["sm_90"].limits)
    plan = WGMMA.plan(problem, config)
    compiled = compile_kernel(render(problem, WGMMA, config), "sm_90", shared_store)
    assert compiled.spill_bytes == 0 and compiled.advisories == ()
    sass = disassemble(compiled.cubin, plan.instruction)
    fed, rows = config.values["FROM_REGISTERS"], "MMAS_N" if "MMAS_N" in plan.constants else "MMAS_M"
    tiles = config.values["BK"] // plan.constants["K_STEP"] * plan.constants[rows]  # instructions of a k tile
    multiplies = [line for line in sass.text.splitlines() if "GMMA.64x" in line]
    assert multiplies and len(multiplies) % tiles == 0
    assert sass.main_loop != sass.kernel and sass.main_loop.fmas % tiles == 0, "the loop over the ring's stages"
    assert isinstance(plan.mma, Wgmma) and f"GMMA.64x{plan.mma.n}x" in multiplies[0]
    waits = sass.text.count("WARPGROUP.DEPBAR")  # ptxas adds some where it serialises products
    groups = len(multiplies) // (plan.constants[rows] if fed else tiles)
    assert waits <= groups + 1


PROMOTED = Types.parse("e4m3,e4m3,bf16", Compute.PROMOTED)
BF16 = Types.parse("bf16")


@pytest.mark.parametrize(
    ("types", "k", "axes"),
    [
        (BF16, None, {}),
        (BF16, 1000, {"SPLIT": 4}),
        (BF16, 1024, {"SPLIT": 4}),
        (PROMOTED, None, {"SPLIT": 2, "IN_FLIGHT": 1}),
    ],
    ids=str,
)
def test_where_k_may_be_empty_products_go_on_together(
    types: Types, k: int | None, axes: dict[str, int], shared_store: Store
) -> None:
    problem = Problem(512, 512, k, types=types, layout="rc", ld_align=16)
    small = {"BM": 64, "BN": 64, "BK": 64, "STAGES": 4, "CONSUMERS": 1, "PERSISTENT": 0}
    config = WGMMA.default(problem).with_values(**small, **axes)
    check(WGMMA, problem, config, ARCHS["sm_90"].limits)
    plan = WGMMA.plan(problem, config)
    compiled = compile_kernel(render(problem, WGMMA, config), "sm_90", shared_store)
    sass = disassemble(compiled.cubin, plan.instruction).text
    code = re.findall(r"[HQ]GMMA\.64x|WARPGROUP\.(?:ARRIVE|DEPBAR)|STS\.128|\bLD\.E\S*", sass)
    runs = [len(list(run)) for is_product, run in groupby(code, lambda name: "GMMA" in name) if is_product]
    assert runs and set(runs) == {config.values["BK"] // plan.constants["K_STEP"]}, "one wait a k tile"
    shared = 64 * 64 // 128 // 4 if config.values["SPLIT"] > 1 else 0  # accesses of a thread that each take four sums
    assert code.count("STS.128") == code.count("LD.E.128") == shared
    assert compiled.spill_bytes == 0
