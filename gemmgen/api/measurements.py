"""Measurements: kernels compared with cuBLASLt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gemmgen.api.asked import Kernel, kernel_file, shown
from gemmgen.exports.writing import DEFAULT_OUT, Folder, require_writable
from gemmgen.problem.gemm import Problem
from gemmgen.run.target import open_target
from gemmgen.search.trial import Progress
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory

if TYPE_CHECKING:  # the functions that need the room benchmark import it themselves
    from gemmgen.judge.bench import BenchRow


def bench(
    *wanted: Problem | Kernel,
    out: Folder = DEFAULT_OUT,
    energy: bool = False,
    command: str = "gemmgen.bench(...)",
    progress: Progress | None = None,
) -> tuple[BenchRow, ...]:
    """Time kernels and cuBLASLt's best on the GPU here, each pair interleaved in one run; return a row for each.

    wanted   kernels, or problems: for a problem the winner on file, else one that is tuned now
    out      folder in which winners are looked up before generated/, and written if tuned now
    energy   also let each run alone for two seconds, and read energy, power and clocks from the card (NVML)
    command  the command that is recorded in the JSON of a kernel that is tuned now

    The result is added to the kernel's JSON, if there is one and it belongs to this card. Raises InvalidInput (no such
    kernel), GemmgenError (no GPU) or CandidateFailed (a kernel is wrong or does not run; there is no cuBLASLt).
    """
    from gemmgen.judge.bench import measure_all, require_gpu

    require_gpu()
    require_writable(Path(out))
    target = open_target("gpu", "auto", store := Store())
    with target.executor:
        for one in wanted:
            if isinstance(one, Problem):
                require_memory(one)
        found = [one if isinstance(one, Problem) else kernel_file(one, target.spec, Path(out)) for one in wanted]
        with shown(progress) as heard:
            return measure_all(found, target, store, Path(out), command, heard, energy=energy)
