"""The table of an architecture's matrix instructions, which the interpreter reads when it starts.

One line per instruction, with words separated by single spaces:

    opcode m n k a b accumulator products fraction kept

The last three are those of `gemmgen.problem.mma.Sums`, 0 if sums are exact. A wmma has the line of the mma.sync that
computes half of its columns in the same way. An opcode that has no line is not emulated.

A first line RING selects ring mode, in which floating-point numbers are integers: see native/ring_numbers.hpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from gemmgen.problem.device import Arch
from gemmgen.problem.mma import MMAS, Mma, multiplied
from gemmgen.problem.wgmma import Wgmma, wgmmas
from gemmgen.problem.wmma import WMMAS

RING = "ring"


@cache
def instruction_table(arch: Arch) -> str:
    """The lines of all instructions that `arch` has."""
    return "".join(f"{opcode} {_numbers(one, arch)}\n" for opcode, one in instructions(arch).items())


def instructions(arch: Arch) -> dict[str, Mma | Wgmma]:
    """The instructions by opcode. A wmma maps to the mma.sync that computes half of its columns."""
    return {opcode: one for opcode, one in _all() if one.why_not(arch) is None}


def why_lacking(ptx: str, arch: Arch) -> str | None:
    """The reason why a matrix instruction of `ptx` is missing on `arch`; None if no known one is missing."""
    for opcode, one in _all():
        why = one.why_not(arch)
        if why is not None and re.search(rf"{re.escape(opcode)}(?![.\w])", ptx):
            return why
    return None


def _all() -> Iterator[tuple[str, Mma | Wgmma]]:
    for mma in MMAS.values():
        yield mma.ptx, mma
    for wmma in WMMAS.values():
        yield wmma.ptx.replace(f".{wmma.a}.{wmma.b}.", "."), wmma.half  # layouts change no bits
    for wgmma in wgmmas().values():
        yield wgmma.ptx, wgmma


def _numbers(one: Mma | Wgmma, arch: Arch) -> str:
    sums = one.sums_on(arch)
    rounding = (0, 0, 0) if sums is None else (sums.products, sums.fraction, sums.kept)
    types = multiplied(one.a), multiplied(one.b), one.accumulator.label
    return " ".join(map(str, (one.m, one.n, one.k, *types, *rounding)))
