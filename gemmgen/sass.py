"""What the machine code does: instruction counts of a cubin, for the whole kernel and for its main loop.

The disassembler is NVIDIA's `nvdisasm`, from its wheel or from a toolkit on the PATH.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmgen.compile import wheel_folders
from gemmgen.errors import CandidateFailed, Failure

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)(\S*)(.*)")
LABEL = re.compile(r"^(\.L_\w+):")
TARGET = re.compile(r"`\((\.L_\w+)\)")


@dataclass(frozen=True)
class InstructionMix:
    """Instructions by opcode, without modifiers: {"FFMA": 1024, "LDS": 64, ...}. `fma` does the work."""

    counts: dict[str, int]
    fma: str = "FFMA"

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def share(self, opcode: str) -> float:
        """The opcode's part of all instructions, 0 to 1."""
        return self.counts.get(opcode, 0) / self.total if self.total else 0.0

    def per_fma(self, opcode: str) -> float:
        """Instructions of `opcode` for each FMA; infinite without FMA."""
        return self.counts.get(opcode, 0) / self.fmas if self.fmas else float("inf")

    @property
    def fmas(self) -> int:
        return self.counts.get(self.fma, 0)


@dataclass(frozen=True)
class Sass:
    """A kernel's machine code: its text, and the mix of everything and of the main loop.

    The main loop is the loop with the most FMAs, the innermost one of those; where there is
    no loop (K unrolled whole), it is the kernel.
    """

    text: str
    kernel: InstructionMix
    main_loop: InstructionMix


def disassemble(cubin: bytes, fma: str = "FFMA") -> Sass:
    """Disassemble `cubin`, whose work the instruction `fma` does.

    Raises CandidateFailed: unavailable (no nvdisasm) or compile (no cubin).
    """
    text = _run_nvdisasm(cubin)
    opcodes, loops = _parse(text)
    main = min(loops, key=lambda loop: (-opcodes[loop].count(fma), loop.stop - loop.start), default=slice(None))
    return Sass(text, _mix(opcodes, fma), _mix(opcodes[main], fma))


def _run_nvdisasm(cubin: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run([find_nvdisasm(), "-c", str(path)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise CandidateFailed(Failure("compile", done.stderr.strip() or "nvdisasm failed", "nvdisasm"))
    return done.stdout


def find_nvdisasm() -> str:
    """Path of nvdisasm. Raises CandidateFailed (unavailable)."""
    places = [str(folder) for folder in wheel_folders("bin")]
    for path in (*places, None):  # None: the PATH
        found = shutil.which("nvdisasm", path=path)
        if found is not None:
            return found
    raise CandidateFailed(Failure("unavailable", "nvdisasm is missing: pip install nvidia-cuda-nvdisasm", "nvdisasm"))


def _parse(text: str) -> tuple[list[str], list[slice]]:
    """The opcodes in order, and each loop as the slice from its label to the branch back to it."""
    opcodes: list[str] = []
    labels: dict[str, int] = {}
    loops: list[slice] = []
    for line in text.splitlines():
        label, instruction = LABEL.match(line), INSTRUCTION.search(line)
        if label is not None:
            labels[label[1]] = len(opcodes)
        elif instruction is not None:
            opcodes.append(instruction[1])
            target = TARGET.search(instruction[3])
            start = labels.get(target[1]) if target is not None and instruction[1] == "BRA" else None
            if start is not None and start < len(opcodes) - 1:  # the end of the code is a branch to itself
                loops.append(slice(start, len(opcodes)))
    return opcodes, loops


def _mix(opcodes: Sequence[str], fma: str) -> InstructionMix:
    return InstructionMix(dict(Counter(opcodes).most_common()), fma)
