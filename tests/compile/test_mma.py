"""NVRTC takes the tensor-core instructions where the table has them, and machine code has them there."""

from __future__ import annotations

import re

import pytest

from gemmgen.problem.device import ARCHS, Arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.mma import MMAS, Mma
from gemmgen.problem.wgmma import Wgmma
from gemmgen.run.compile import compile_kernel
from gemmgen.run.launchable import why_not_launchable
from gemmgen.run.sass import disassemble
from gemmgen.support.files import Store
from gemmgen.verification.tensor_core_recordings import TRIED
from gemmgen.verification.vectors import random_vectors

SHOWN = {
    "sm_75": "mma_m8n8k16_s8",
    "sm_80": "mma_m16n8k8_tf32",
    "sm_86": "mma_m16n8k16_f16_f16",
    "sm_89": "mma_m16n8k32_e4m3",
    "sm_90": "mma_m16n8k16_f64",
    "sm_100": "mma_m16n8k16_bf16",
    "sm_120": "mma_m16n8k32_e4m3e5m2",
}


def check(mma: Mma | Wgmma, arch: Arch, store: Store) -> None:
    source = random_vectors(mma, mma.k, products=1, seed=1).source(arch.name)
    compiled = compile_kernel(source, arch.name, store)
    assert why_not_launchable(source, compiled) is None
    found = re.findall(r"\b[HIDQ]G?MMA\S*", disassemble(compiled.cubin).text)
    assert len(found) == 1, (mma.function, found)


@pytest.mark.parametrize(("arch", "name"), SHOWN.items(), ids=SHOWN)
def test_a_native_instruction_is_one_of_the_machine(arch: str, name: str, shared_store: Store) -> None:
    check(MMAS[name], ARCHS[arch], shared_store)


@pytest.mark.soak
@pytest.mark.parametrize("arch", ARCHS.values(), ids=list(ARCHS))
def test_each_instruction_is_one_of_the_machine_where_it_is_native(arch: Arch, shared_store: Store) -> None:
    for one in TRIED:
        if one.why_not(arch) is None:
            check(one, arch, shared_store)


def test_wgmma_is_compiled_for_the_architecture_that_has_it(shared_store: Store) -> None:
    check(Wgmma(8, DType.S8, DType.U8, DType.S32), ARCHS["sm_90"], shared_store)
