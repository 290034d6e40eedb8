"""Twins of the tensor-core instructions that a kernel uses, as its architecture computes them."""

from __future__ import annotations

import re

from gemmgen.problem.device import Arch, parse_arch
from gemmgen.problem.mma import MMAS, Mma, Sums, multiplied
from gemmgen.problem.wgmma import Wgmma, wgmmas
from gemmgen.problem.wmma import WMMAS, Wmma
from gemmgen.support.errors import CandidateFailed, Failure

WMMA = re.compile(r"\bwmma_")
DIRECTED = re.compile(r"\b__f(?:maf|mul|add|sub)_r[zud]\b")
PTX = "::gemmgen::ptx::"
HOPPER = re.compile(
    r"\b(?:cluster_|mbarrier_|tma_|wgmma_|setmaxnreg_|grid_dependency_wait|launch_dependents|elect_one\b|fence_proxy_async\b"
    r"|make_descriptor\b)"
)


def twins(text: str, architecture: str) -> str:
    """What the emulator compiles for those of `text`, a line each (templates/device/host/matrix_instructions.hpp).

    "" for none. Those of clusters, mbarriers, TMA and warpgroups are in a file of their own, which it names where the
    kernel uses any, and so is what inline PTX becomes.

    Raises CandidateFailed: unjudged, where `architecture` has not got one.
    """
    arch = parse_arch(architecture)
    used = (MMAS[name] for name in dict.fromkeys(re.findall(r"\bmma_m\w+", text)) if name in MMAS)
    lines = [_twin(mma, arch) for mma in used]
    if PTX in text:
        lines.append('#include "ptx.hpp"')
    if DIRECTED.search(text):
        lines.append('#include "directed.hpp"')
    if WMMA.search(text):
        called = dict.fromkeys(re.findall(r"\bwmma_(?:row|col)_\w+", text))
        lines += ['#include "wmma.hpp"', *(_wmma_twin(WMMAS[name], arch) for name in called if name in WMMAS)]
    if HOPPER.search(text):
        called = dict.fromkeys(re.findall(r"\bwgmma_m64n\w+", text))
        known = wgmmas() if called else {}
        lines += ['#include "hopper.hpp"', *(_warpgroup_twin(known[name]) for name in called if name in known)]
    return "".join(f"{line}\n" for line in lines)


def _twin(mma: Mma, arch: Arch) -> str:
    reason = mma.why_not(arch)
    if reason is not None:
        raise CandidateFailed(Failure("unjudged", reason, "emulator"))
    rounding = _rounding(mma.sums[arch.number], mma.k)
    elements = multiplied(mma.a), multiplied(mma.b), mma.accumulator.label
    registers = mma.c_type, mma.c_registers, mma.a_type, mma.a_registers, mma.b_registers
    values = (mma.function, mma.m, mma.n, mma.k, *elements, *rounding, *registers)
    return f"GEMMGEN_MMA({', '.join(map(str, values))})"


def _wmma_twin(one: Wmma, arch: Arch) -> str:
    reason = one.half.why_not(arch)
    if reason is not None:
        raise CandidateFailed(Failure("unjudged", reason, "emulator"))
    values = (one.function, one.a, one.b, one.half.a.label, *_rounding(one.half.sums[arch.number], one.half.k))
    return f"GEMMGEN_WMMA({', '.join(map(str, values))})"


def _warpgroup_twin(one: Wgmma) -> str:
    elements = multiplied(one.a), multiplied(one.b), one.accumulator.label
    transposes = str(one.trans_a).lower(), str(one.trans_b).lower()
    values = (
        one.function,
        one.n,
        one.k,
        *elements,
        *_rounding(one.sums, one.k),
        *transposes,
        one.c_type,
        one.c_registers,
    )
    return f"GEMMGEN_WGMMA{'_RS' if one.registers else ''}({', '.join(map(str, values))})"


def _rounding(sums: Sums | None, k: int) -> tuple[int, int, int]:
    return (k, 0, 0) if sums is None else (sums.products, sums.fraction, sums.kept)
