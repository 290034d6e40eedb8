"""Offsets cut to 32 bits: right as long as matrices fit into a few gigabytes."""

from __future__ import annotations

from gemmgen.verification.bugs.base import OVERFLOW, READS, VALUE, WRITES, Bug
from gemmgen.verification.bugs.subjects import (
    ACROSS,
    ALONG_K,
    ASYNC_VECTORS,
    DOUBLE,
    DOUBLE_AUX,
    DOUBLE_BATCH,
    DOUBLE_EPILOGUE,
    DOUBLE_ROWS,
    NAIVE_BATCH,
    NAIVE_BATCH_EPILOGUE,
    NAIVE_CC,
    NAIVE_EPILOGUE,
    NAIVE_MANY,
    NAIVE_POINTERS,
    NAIVE_RR,
    SMALL_BATCH,
    SMALL_EPILOGUE,
    STREAM,
)

CUT = (OVERFLOW, READS, WRITES, VALUE)

EXTENT_BUGS = (
    Bug("the row of A is an int", "leading dimension", NAIVE_RR, "A[Offset(m) * s.lda + k]", "A[m * s.lda + k]", CUT),
    Bug("the row of B is an int", "leading dimension", NAIVE_RR, "B[Offset(k) * s.ldb + n]", "B[k * s.ldb + n]", CUT),
    Bug("the column of B is unsigned", "leading dimension", NAIVE_CC,
        "B[Offset(n) * s.ldb + k]", "B[unsigned(n) * s.ldb + k]", CUT),
    Bug("the row of C is an int", "leading dimension", NAIVE_CC, "C + Offset(m) * s.ldc", "C + m * s.ldc", CUT),
    Bug("the row of the residual is an int", "leading dimension", NAIVE_EPILOGUE,
        "e.residual[Offset(m) * s.ld_residual + n]", "e.residual[m * s.ld_residual + n]", CUT),
    Bug("offsets are of type int", "leading dimension", DOUBLE,
        "using Offset = long long;", "using Offset = int;", CUT),
    Bug("offsets are unsigned", "leading dimension", ASYNC_VECTORS,
        "using Offset = long long;", "using Offset = unsigned;", CUT),
    Bug("the step along B is an int", "leading dimension", STREAM, "Offset(BK) * s.ldb", "BK * s.ldb", CUT),
    Bug("the tile of the residual is an int", "leading dimension", DOUBLE_EPILOGUE,
        "residual + Offset(tile.m) * s.ld_residual", "residual + tile.m * s.ld_residual", CUT),
    Bug("the tile of the pre-activation is an int", "leading dimension", DOUBLE_AUX,
        "aux + Offset(tile.m) * s.ldc", "aux + tile.m * s.ldc", CUT),
    Bug("the staged row of A is an int", "leading dimension", ACROSS,
        "Offset(m + line) * s.lda", "(m + line) * s.lda", CUT),
    Bug("the row of the weights is unsigned", "leading dimension", ALONG_K,
        "Offset(n + t) * s.ldb", "unsigned(n + t) * s.ldb", CUT),
    Bug("the stride of A is cut to an int", "batch", NAIVE_BATCH,
        "A += matrix * s.stride_a;", "A += matrix * static_cast<int>(s.stride_a);", CUT),
    Bug("the matrix of C starts at an int", "batch", DOUBLE_BATCH,
        "C += matrix * s.stride_c;", "C += static_cast<int>(matrix * s.stride_c);", CUT),
    Bug("the stride of the residual is cut to an int", "batch", NAIVE_BATCH_EPILOGUE,
        "matrix * s.stride_residual", "matrix * static_cast<int>(s.stride_residual)", CUT),
    Bug("the product of a batch starts at an unsigned", "batch", SMALL_BATCH,
        "(first + matrix) * s.stride_b", "static_cast<unsigned>((first + matrix) * s.stride_b)", CUT),
    Bug("the residual of a product starts at an int", "batch", SMALL_EPILOGUE,
        "residual + product * s.stride_residual", "residual + static_cast<int>(product * s.stride_residual)", CUT),
    Bug("rows are counted in a float", "size", DOUBLE, "    int M;\n", "    float M;\n", CUT),
    # Where distances are fixed, of launches that are long enough; and behind pointers.
    Bug("the product of many starts at an int in C", "batch", NAIVE_MANY,
        "C += matrix * s.stride_c;", "C += static_cast<int>(matrix * s.stride_c);", CUT),
    Bug("the row of many starts at an int", "leading dimension", DOUBLE_ROWS,
        "using Offset = long long;", "using Offset = int;", CUT),
    Bug("the row of C behind a pointer is unsigned", "pointer", NAIVE_POINTERS,
        "Offset(m) * s.ldc", "unsigned(m) * unsigned(s.ldc)", CUT),
)  # fmt: skip
