"""Bugs of kernels in double precision."""

from __future__ import annotations

from gemmgen.proof.bugs.base import MISALIGNED, POISON, VALUE, Bug
from gemmgen.proof.bugs.subjects import ASYNC_F64, DOUBLE_F64, NAIVE_F64

F64_BUGS = (
    Bug("sums in float", "precision", NAIVE_F64, "acc = fma(a, b, acc);", "acc = float(fma(a, b, acc));", (VALUE,)),
    Bug("one FMA in float", "precision", DOUBLE_F64, "fma(a[i], b[j], acc[i][j])",
        "i + j == 0 ? fmaf(a[i], b[j], acc[i][j]) : fma(a[i], b[j], acc[i][j])", (VALUE,)),
    Bug("operands keep 24 bits", "precision", DOUBLE_F64, "fma(a[i], b[j], acc[i][j])",
        "fma(double(float(a[i])), b[j], acc[i][j])", (VALUE,)),
    Bug("bytes of floats", "zero fill", ASYNC_F64, "= 8 * max(0,", "= 4 * max(0,", (VALUE, POISON), count=2),
    Bug("vectors of 16 bytes from lines of 8", "misaligned", DOUBLE_F64, "constexpr int VA = 1;",
        "constexpr int VA = 2;", (MISALIGNED,)),
)  # fmt: skip
