"""The CUDA compiler as a part of verification: checks a launch against the machine code of the kernel's text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.kernel.source import KernelSource
from gemmgen.run.compile import arch_for, compile_apart
from gemmgen.run.launchable import why_not_launchable
from gemmgen.run.nvrtc import compiler_version, why_unknown
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store
from gemmgen.support.short_repr import brief
from gemmgen.verification.verifier import Verdict


@brief
@dataclass(frozen=True)
class CudaCheck:
    """Whether the CUDA compiler accepts a kernel's text for `arch`, and the launch fits the machine code.

    compiler      "NVRTC 13.4"; None if nothing was compiled
    missing       the reason why nothing was compiled
    registers     registers per thread; None, like shared_bytes, if the text does not compile
    shared_bytes  static and dynamic shared memory per block, in bytes
    failure       compile, with the compiler's message, or launch; None if there is none
    """

    arch: str
    compiler: str | None = None
    missing: str | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    failure: Failure | None = None

    def verdict(self, executor: str, seed: int) -> Verdict:
        """The verdict of a kernel that fails here, before anything runs."""
        assert self.failure is not None
        return Verdict(executor, 0, seed, np.inf, self.failure)


def check_cuda(source: KernelSource, arch: str, store: Store) -> CudaCheck:
    """Compile `source` for `arch` with NVRTC, if it is installed and knows `arch`, and check it against its launch."""
    arch = arch_for(source, arch)
    try:
        compiler, unknown = compiler_version(), why_unknown(arch)
    except CandidateFailed as error:
        return CudaCheck(arch, missing=error.failure.reason)
    if unknown is not None:
        return CudaCheck(arch, missing=unknown)
    try:
        compiled = compile_apart(source, arch, store)
    except CandidateFailed as error:
        if error.failure.kind == "unavailable":
            return CudaCheck(arch, missing=error.failure.reason)
        return CudaCheck(arch, compiler, failure=error.failure)
    trouble = why_not_launchable(source, compiled)
    failure = None if trouble is None else Failure("launch", trouble, "nvrtc")
    return CudaCheck(
        arch, compiler, None, compiled.registers, compiled.shared_bytes + source.launch.shared_bytes, failure
    )
