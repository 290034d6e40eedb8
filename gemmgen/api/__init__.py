"""gemmgen from a script: the command line's path as functions.

    import gemmgen

    result = gemmgen.tune(gemmgen.Problem(512, 512, 512), out="kernels")
    print(result.winner.source.name, result.winner.time_us, result.winner.time_kind)

kernels.py       tune, generate, verify, explain, diff: one kernel
products.py      export, export_all, library, regret, load, load_library: what kernels become
measurements.py  bench: kernels beside cuBLASLt

Sizes are in elements, times in microseconds, shared memory in bytes.
"""

from gemmgen.api.asked import DEFAULT_OUT
from gemmgen.api.kernels import diff, explain, generate, tune, verify
from gemmgen.api.measurements import bench
from gemmgen.api.products import export, export_all, library, load, load_library, regret

__all__ = [
    "DEFAULT_OUT",
    "bench",
    "diff",
    "explain",
    "export",
    "export_all",
    "generate",
    "library",
    "load",
    "load_library",
    "regret",
    "tune",
    "verify",
]
