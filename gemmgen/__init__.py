"""gemmgen: from a GEMM problem to a CUDA kernel that is specialised for it, verified and chosen.

    import gemmgen

    result = gemmgen.tune(gemmgen.Problem(512, 512, 512), out="kernels")
    print(result.winner.source.text)

Problem, Layout, DType    what to compute: C = alpha * A * B + beta * C
Conv                      the Problem of a convolution
tune, generate, verify    the path, or parts of it; see gemmgen.api
load, load_library        a kernel, or the products of a library, as functions of torch's, CuPy's or numpy's arrays
explain, export, bench    a kernel: why it is as it is, as files that stand alone, beside cuBLASLt
diff                      what sets two kernels apart
study, check_model        series of kernels, and how well the model orders them
library                   kernels of several products with one dispatcher, as a folder
regret                    how much longer a library's choices take than its best kernels
report                    what is on file as one page
TuneResult, Trial, ...    what they return: frozen records
"""

import os

TYPE_CHECKING = False  # typing's, without importing it: who only asks for `gemmgen --help` waits for little

# Before numpy loads it: threads of OpenBLAS with nothing to do spin for 2^26 cycles, and verification multiplies a
# little every few milliseconds. Asleep after 2^20 they leave the cores to the emulator; large products lose nothing.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

if TYPE_CHECKING:
    from gemmgen.api.kernels import bench, diff, explain, tune, verify
    from gemmgen.api.products import export, export_all, library, load, load_library, regret
    from gemmgen.api.rendering import generate
    from gemmgen.arrays.kernel import ArrayKernel
    from gemmgen.arrays.library import ArrayLibrary
    from gemmgen.exports.exporting import Exported
    from gemmgen.exports.kernelfile import KernelFile
    from gemmgen.judge.bench import BenchRow
    from gemmgen.judge.explain import Explanation
    from gemmgen.kernel.source import KernelSource
    from gemmgen.lab.api import check_model, report, study
    from gemmgen.lab.study.engine import StudyResult
    from gemmgen.lab.study.modelcheck import ModelCheck
    from gemmgen.problem.dtype import DType
    from gemmgen.problem.gemm import Case, Problem
    from gemmgen.problem.images import Conv
    from gemmgen.problem.matrix import Layout
    from gemmgen.search.result import TuneResult
    from gemmgen.search.trial import Trial
    from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError, InvalidInput
    from gemmgen.verification.verifier import Verdict

    __version__: str
else:
    # Imported when first asked for: `gemmgen --help` needs no numpy.
    HOMES = {
        "gemmgen.api.rendering": ("generate",),
        "gemmgen.api.kernels": ("bench", "diff", "explain", "tune", "verify"),
        "gemmgen.api.products": ("export", "export_all", "library", "load", "load_library", "regret"),
        "gemmgen.arrays.kernel": ("ArrayKernel",),
        "gemmgen.arrays.library": ("ArrayLibrary",),
        "gemmgen.exports.exporting": ("Exported",),
        "gemmgen.exports.kernelfile": ("KernelFile",),
        "gemmgen.judge.bench": ("BenchRow",),
        "gemmgen.judge.explain": ("Explanation",),
        "gemmgen.lab.api": ("check_model", "report", "study"),
        "gemmgen.lab.study.engine": ("StudyResult",),
        "gemmgen.lab.study.modelcheck": ("ModelCheck",),
        "gemmgen.kernel.source": ("KernelSource",),
        "gemmgen.problem.dtype": ("DType",),
        "gemmgen.problem.gemm": ("Case", "Problem"),
        "gemmgen.problem.images": ("Conv",),
        "gemmgen.problem.matrix": ("Layout",),
        "gemmgen.search.result": ("TuneResult",),
        "gemmgen.search.trial": ("Trial",),
        "gemmgen.support.errors": ("CandidateFailed", "Failure", "GemmgenError", "InvalidInput"),
        "gemmgen.verification.verifier": ("Verdict",),
    }

    def __getattr__(name):
        from importlib import import_module

        if name == "__version__":
            return import_module("gemmgen.support.stamp").gemmgen_version()
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = next(module for module, names in HOMES.items() if name in names)
        return getattr(import_module(home), name)

    def __dir__():
        return [*globals(), *__all__]


__all__ = [
    "ArrayKernel",
    "ArrayLibrary",
    "BenchRow",
    "CandidateFailed",
    "Case",
    "Conv",
    "DType",
    "Explanation",
    "Exported",
    "Failure",
    "GemmgenError",
    "InvalidInput",
    "KernelFile",
    "KernelSource",
    "Layout",
    "ModelCheck",
    "Problem",
    "StudyResult",
    "Trial",
    "TuneResult",
    "Verdict",
    "bench",
    "check_model",
    "diff",
    "explain",
    "export",
    "export_all",
    "generate",
    "library",
    "load",
    "load_library",
    "regret",
    "report",
    "study",
    "tune",
    "verify",
]
