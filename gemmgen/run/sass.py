"""Analysis of machine code: instruction counts of a cubin, and the load that its main loop puts on an SM's units.

It also tells whether two cubins do the same.

The disassembler is NVIDIA's `nvdisasm`, from its wheel or from a toolkit on the PATH.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from gemmgen.kernel.cost import SCHEDULERS
from gemmgen.kernel.plan import Work
from gemmgen.problem.device import WARP, Arch
from gemmgen.problem.dtype import DType
from gemmgen.run.compile import machine_code, variables
from gemmgen.run.nvrtc import wheel_folders
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.scratch import scratch_folder

INSTRUCTION = re.compile(
    r"/\*[0-9a-f]{4,}\*/\s+(?P<guard>@!?U?P\w+\s+)?(?P<opcode>[A-Z]\w*)(?P<modifiers>\S*)(?P<operands>.*)"
)
LABEL = re.compile(r"^(\.L_\w+):")
TARGET = re.compile(r"`\((\.L_\w+)\)")
REGISTER = re.compile(r"\bR(\d+)(\.reuse)?")
ADDRESSES = "c[0x4]"  # an operand from the bank with the addresses of variables
BANKS = 2  # of the register file, by the parity of a register's number; each gives one operand a cycle
BANKS_KNOWN = "sm_90"  # the architecture on which `Loop.operand_cycles` was held against measurements


@dataclass(frozen=True)
class InstructionMix:
    """Instructions by opcode, without modifiers: {"FFMA": 1024, "LDS": 64, ...}. `fma` does the work."""

    counts: dict[str, int]
    fma: str = "FFMA"

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def share(self, opcode: str) -> float:
        """The opcode's share of all instructions, 0 to 1."""
        return self.counts.get(opcode, 0) / self.total if self.total else 0.0

    def per_fma(self, opcode: str) -> float:
        """Instructions of `opcode` per FMA; infinite without FMAs."""
        return self.counts.get(opcode, 0) / self.fmas if self.fmas else float("inf")

    @property
    def fmas(self) -> int:
        return self.counts.get(self.fma, 0)


@dataclass(frozen=True)
class Instruction:
    """One instruction: "LDS", ".128", " R68, [R212+0x400] ;".

    skipped  whether a branch of its loop may jump over it without jumping over an FMA
    """

    opcode: str
    modifiers: str = ""
    operands: str = ""
    skipped: bool = False

    @property
    def words(self) -> int:
        """4-byte words that a thread reads or writes in an access to memory."""
        whole = (".128", ".M88.4")  # an access of 16 bytes, an ldmatrix of four matrices
        return 4 if any(one in self.modifiers for one in whole) else 2 if ".64" in self.modifiers else 1

    @cached_property
    def sources(self) -> tuple[tuple[int, bool] | None, ...]:
        """(register, whether it is kept for the next FMA) for each source operand; None if it is not a register."""
        found = (REGISTER.search(place) for place in self.operands.split(",")[1:])
        return tuple(None if one is None else (int(one[1]), one[2] is not None) for one in found)


@dataclass(frozen=True)
class Loop:
    """A loop's instructions in order; `fma` does the work.

    If the loop is a part of a step along K, instructions that a branch may skip (the step's copies, say) run in a share
    `often` of its iterations, 0 to 1, which the machine code does not tell.
    """

    instructions: tuple[Instruction, ...]
    fma: str = "FFMA"

    @cached_property
    def mix(self) -> InstructionMix:
        return _mix(self.instructions, self.fma)

    def issued(self, often: float = 1.0) -> float:
        """Instructions per iteration, on average."""
        return sum(often if one.skipped else 1.0 for one in self.instructions)

    def wavefronts(self, opcodes: Sequence[str], per_word: float = 1.0, often: float = 1.0) -> float:
        """Shared-memory cycles per iteration of a warp for accesses by `opcodes`, on average.

        Each takes `per_word` cycles per word of a thread, and at least one: with 1.0 an LDS takes 1, an LDS.64 2 and an
        LDS.128 4, as if all lanes read different words; lanes that share words take less. Bank conflicts are not
        counted, as addresses are not known.
        """
        accesses = (one for one in self.instructions if one.opcode in opcodes)
        return sum((often if one.skipped else 1.0) * max(1.0, one.words * per_word) for one in accesses)

    @cached_property
    def operand_cycles(self) -> int:
        """Cycles beyond one each that the FMAs of an iteration wait for operands from the register file, on
        BANKS_KNOWN.

        Two banks deliver one operand each per cycle. An operand that the FMA before kept (`.reuse`, in the same place)
        need not be read, even with an LDS between the two: the compiler sets the flag there too. This is an estimate,
        not a bound: kernels with an estimated FMA pipe utilisation of 78.0, 66.8 and 82.1% had 76.5, 67.0 and 78.0% by
        Nsight Compute, from start to end (H200, 4096^3, NVRTC 13.0).
        """
        fmas = [one for one in self.instructions if one.opcode == self.fma]
        return sum(_reads_cycles(before, fma) - 1 for before, fma in pairwise(fmas[-1:] + fmas))


def _reads_cycles(before: Instruction, fma: Instruction) -> int:
    """Cycles that `fma`'s operands take, at least one: those that `before` did not keep, one per bank and cycle."""
    kept = {(place, one[0]) for place, one in enumerate(before.sources) if one is not None and one[1]}
    read = {one[0] for place, one in enumerate(fma.sources) if one is not None and (place, one[0]) not in kept}
    return max([1, *Counter(register % BANKS for register in read).values()])


@dataclass(frozen=True)
class FmaUse:
    """The possible utilisation of the FMA pipe by a loop, from the counts of one warp's iteration.

    fmas, instructions  instructions issued, one per cycle and scheduler
    operand_cycles      cycles in which FMAs wait for operands; None if unknown
    pipe_cycles         cycles of the pipe per FMA of a warp
    """

    fmas: int
    instructions: float
    operand_cycles: int | None
    pipe_cycles: float

    @property
    def share(self) -> float:
        """FMAs among the instructions, 0 to 1."""
        return self.fmas / self.instructions if self.instructions else 0.0

    @property
    def allowed(self) -> float:
        """The largest share of cycles in which the FMA pipe can be busy, 0 to 1: all other waits come on top."""
        cycles = self.instructions + (self.operand_cycles or 0)
        return min(1.0, self.fmas * self.pipe_cycles / cycles) if cycles else 0.0


def fma_use(loop: Loop, work: Work, arch: Arch, dtype: DType, lanes: float | None = None) -> FmaUse:
    """The FMA pipe utilisation that the main loop of a kernel that does `work` allows on `arch`.

    It ranks compiled kernels: more `allowed` is better. `lanes` are those of Plan, for tensor cores. Operand cycles are
    counted only for f32 on BANKS_KNOWN.
    """
    known = arch.name == BANKS_KNOWN and dtype == DType.F32 and lanes is None
    pipe_cycles = WARP * SCHEDULERS / (lanes or arch.lanes(dtype))
    return FmaUse(loop.mix.fmas, loop.issued(skips(work)), loop.operand_cycles if known else None, pipe_cycles)


def skips(work: Work) -> float:
    """The share of its iterations in which the main loop runs instructions that it may skip: once per k tile."""
    return work.k_unroll / work.depth if work.k_unroll else 1.0


@dataclass(frozen=True)
class Sass:
    """A kernel's machine code: its text, the mix of everything, and the main loop.

    The main loop is the loop with the most FMAs among those that contain no loop with FMAs, as an outer loop may go
    from tile to tile. If there is no loop (K is fully unrolled), it is the whole kernel.
    """

    text: str
    kernel: InstructionMix
    loop: Loop

    @property
    def main_loop(self) -> InstructionMix:
        return self.loop.mix


def disassemble(cubin: bytes, fma: str = "FFMA") -> Sass:
    """Disassemble `cubin`, whose work the instruction `fma` does.

    Raises CandidateFailed: unavailable (no nvdisasm) or compile (not a cubin).
    """
    return read_sass(_run_nvdisasm(cubin), fma)


def same_machine_code(a: bytes, b: bytes) -> bool:
    """Whether two cubins run the same instructions on the same constants and tables.

    Different variables count only if the code reads variables: it finds them by their addresses in constant bank 4.
    Raises CandidateFailed (unavailable) if that needs a disassembler and there is none.
    """
    if machine_code(a) != machine_code(b):
        return False
    return variables(a) == variables(b) or ADDRESSES not in disassemble(a).text


def read_sass(text: str, fma: str = "FFMA") -> Sass:
    """Parse nvdisasm's `text` of one kernel."""
    code, loops, jumps = _parse(text)

    def fmas(loop: slice) -> int:
        return sum(one.opcode == fma for one in code[loop])

    def within(loop: slice) -> Iterable[slice]:
        return (other for other in loops if other != loop and loop.start <= other.start and other.stop <= loop.stop)

    innermost = [loop for loop in loops if fmas(loop) and not any(fmas(other) for other in within(loop))]
    main = max(innermost, key=fmas, default=slice(0, len(code)))
    skipped = {place for jump in jumps for place in _skipped(jump, main, code, fma)}
    loop = tuple(replace(code[place], skipped=place in skipped) for place in range(main.start, main.stop))
    return Sass(text, _mix(code, fma), Loop(loop, fma))


def _skipped(jump: slice, loop: slice, code: Sequence[Instruction], fma: str) -> Iterable[int]:
    """The instructions that a jump within `loop` skips, if there is no FMA among them."""
    within = loop.start <= jump.start and jump.stop <= loop.stop
    return range(jump.start, jump.stop) if within and all(one.opcode != fma for one in code[jump]) else ()


def _run_nvdisasm(cubin: bytes) -> str:
    with scratch_folder() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([find_nvdisasm(), "-c", str(path)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise CandidateFailed(Failure("compile", done.stderr.strip() or "nvdisasm failed", "nvdisasm"))
    return done.stdout


def find_nvdisasm() -> str:
    """The path of nvdisasm. Raises CandidateFailed (unavailable)."""
    places = [str(folder) for folder in wheel_folders("bin")]
    for path in (*places, None):  # None: the PATH
        found = shutil.which("nvdisasm", path=path)
        if found is not None:
            return found
    raise CandidateFailed(Failure("unavailable", "nvdisasm is missing: pip install nvidia-cuda-nvdisasm", "nvdisasm"))


def _parse(text: str) -> tuple[list[Instruction], list[slice], list[slice]]:
    """Return the instructions in order; each loop, from its label to the branch back; the range that each guarded
    branch skips."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    branches: list[tuple[int, str, bool]] = []  # the place after it, its target, whether it is guarded
    for line in text.splitlines():
        label, found = LABEL.match(line), INSTRUCTION.search(line)
        if label is not None:
            labels[label[1]] = len(code)
        elif found is not None:
            code.append(Instruction(found["opcode"], found["modifiers"], found["operands"]))
            target = TARGET.search(found["operands"])
            if target is not None and found["opcode"] == "BRA":
                branches.append((len(code), target[1], found["guard"] is not None))
    known = [(place, labels[name], guarded) for place, name, guarded in branches if name in labels]
    # The end of the code is a branch to itself.
    loops = [slice(target, place) for place, target, _ in known if target < place - 1]
    jumps = [slice(place, target) for place, target, guarded in known if guarded and target > place]
    return code, loops, jumps


def _mix(code: Iterable[Instruction], fma: str) -> InstructionMix:
    return InstructionMix(dict(Counter(one.opcode for one in code).most_common()), fma)
