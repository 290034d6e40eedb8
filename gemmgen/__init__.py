"""gemmgen: from a GEMM problem to a CUDA kernel that is specialised for it, verified and chosen.

    import gemmgen

    result = gemmgen.tune(gemmgen.Problem(512, 512, 512), out="kernels")
    print(result.winner.source.text)

Problem, Layout, DType    what to compute: C = alpha * A * B + beta * C
tune, generate, verify    the path, or parts of it; see gemmgen.api
TuneResult, Trial, ...    what they return: frozen records
"""

import os
from typing import TYPE_CHECKING, Any

# Before numpy loads it: threads of OpenBLAS with nothing to do spin for 2^26 cycles, and verification multiplies a
# little every few milliseconds. Asleep after 2^20 they leave the cores to the emulator; large products lose nothing.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

if TYPE_CHECKING:
    from gemmgen.api import generate, tune, verify
    from gemmgen.dtype import DType
    from gemmgen.errors import CandidateFailed, Failure, GemmgenError, InvalidInput
    from gemmgen.matrix import Layout
    from gemmgen.problem import Case, Problem
    from gemmgen.source import KernelSource
    from gemmgen.tuner import Trial, TuneResult
    from gemmgen.verifier import Verdict

    __version__: str
else:

    def __getattr__(name: str) -> Any:
        """What the package offers is imported when first asked for: `gemmgen --help` needs no numpy."""
        if name == "__version__":
            from gemmgen.version import gemmgen_version

            return gemmgen_version()
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from gemmgen import api

        return getattr(api, name)

    def __dir__() -> list[str]:
        return [*globals(), *__all__]


__all__ = [
    "CandidateFailed",
    "Case",
    "DType",
    "Failure",
    "GemmgenError",
    "InvalidInput",
    "KernelSource",
    "Layout",
    "Problem",
    "Trial",
    "TuneResult",
    "Verdict",
    "generate",
    "tune",
    "verify",
]
