"""Twins of the tensor-core instructions that a kernel uses, as its architecture computes them."""

from __future__ import annotations

import re

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import Arch, parse_arch
from gemmgen.problem.mma import MMAS, Mma, multiplied
from gemmgen.support.errors import CandidateFailed, Failure


def twins(source: KernelSource) -> str:
    """What the emulator compiles for them, a line each (templates/device/host/matrix_instructions.hpp); "" for none.

    Raises CandidateFailed: unjudged, where the kernel's architecture has not got one.
    """
    arch = parse_arch(source.arch)
    used = (MMAS[name] for name in dict.fromkeys(re.findall(r"\bmma_m\w+", source.text)) if name in MMAS)
    return "".join(f"{_twin(mma, arch)}\n" for mma in used)


def _twin(mma: Mma, arch: Arch) -> str:
    reason = mma.why_not(arch)
    if reason is not None:
        raise CandidateFailed(Failure("unjudged", reason, "emulator"))
    sums = mma.sums[arch.number]
    rounding = (mma.k, 0, 0) if sums is None else (sums.products, sums.fraction, sums.kept)
    elements = multiplied(mma.a), multiplied(mma.b), mma.accumulator.label
    registers = mma.c_type, mma.c_registers, mma.a_type, mma.a_registers, mma.b_registers
    values = (mma.function, mma.m, mma.n, mma.k, *elements, *rounding, *registers)
    return f"GEMMGEN_MMA({', '.join(map(str, values))})"
