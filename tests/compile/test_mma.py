"""NVRTC takes the tensor-core instructions where the table has them, and machine code has them there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gemmgen.problem.device import ARCHS, Arch
from gemmgen.problem.mma import MMAS
from gemmgen.run.compile import compile_kernel
from gemmgen.run.launchable import why_not_launchable
from gemmgen.run.sass import disassemble
from gemmgen.support.files import Store
from gemmgen.verification.vectors import random_vectors

SHOWN = ("mma_m16n8k16_bf16", "mma_m16n8k32_e4m3", "mma_m16n8k16_f64", "mma_m8n8k16_s8", "mma_m16n8k16_f16_f16")


@pytest.mark.parametrize("arch", ARCHS.values(), ids=list(ARCHS))
def test_each_instruction_is_one_of_the_machine_where_it_is_native(arch: Arch, tmp_path: Path) -> None:
    for mma in (MMAS[name] for name in SHOWN if MMAS[name].is_native(arch)):
        source = random_vectors(mma, mma.k, products=1, seed=1).source(arch.name)
        compiled = compile_kernel(source, arch.name, Store(tmp_path))
        assert why_not_launchable(source, compiled) is None
        code = disassemble(compiled.cubin).text
        found = re.findall(r"\b[HIDQ]MMA\S*", code)
        assert len(found) == 1, (mma.function, found)
