"""Bugs that truncate offsets to 32 bits, or K to 16: right as long as matrices fit into a few gigabytes."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs import tensor_subjects as tc
from gemmgen.proof.bugs.base import POISON, READS, VALUE, WRITES, Bug, Diagnosis

CUT = (READS, WRITES, VALUE)

EXTENT_BUGS = (
    Bug("the row of A is an int", "leading dimension", on.NAIVE_RR, "A[Offset(m) * s.lda + k]", "A[m * s.lda + k]",
        CUT),
    Bug("the row of B is an int", "leading dimension", on.NAIVE_RR, "B[Offset(k) * s.ldb + n]", "B[k * s.ldb + n]",
        CUT),
    Bug("the column of B is unsigned", "leading dimension", on.NAIVE_CC,
        "B[Offset(n) * s.ldb + k]", "B[unsigned(n) * s.ldb + k]", CUT),
    Bug("the row of C is an int", "leading dimension", on.NAIVE_CC, "C + Offset(m) * s.ldc", "C + m * s.ldc", CUT),
    Bug("the row of the residual is an int", "leading dimension", on.NAIVE_EPILOGUE,
        "e.residual[Offset(m) * s.ld_residual + n]", "e.residual[m * s.ld_residual + n]", CUT),
    Bug("offsets are of type int", "leading dimension", on.DOUBLE,
        "using Offset = long long;", "using Offset = int;", CUT),
    Bug("offsets are unsigned", "leading dimension", on.ASYNC_VECTORS,
        "using Offset = long long;", "using Offset = unsigned;", CUT),
    Bug("the step along B is an int", "leading dimension", on.STREAM, "Offset(BK) * s.ldb", "BK * s.ldb", CUT),
    Bug("the tile of the residual is an int", "leading dimension", on.DOUBLE_EPILOGUE,
        "residual + Offset(tile.m) * s.ld_residual", "residual + tile.m * s.ld_residual", CUT),
    Bug("the tile of the pre-activation is an int", "leading dimension", on.DOUBLE_AUX,
        "aux + Offset(tile.m) * s.ldc", "aux + tile.m * s.ldc", CUT),
    Bug("the staged row of A is an int", "leading dimension", on.ACROSS,
        "Offset(m + line) * s.lda", "(m + line) * s.lda", CUT),
    Bug("the row of the weights is unsigned", "leading dimension", on.ALONG_K,
        "Offset(n + t) * s.ldb", "unsigned(n + t) * s.ldb", CUT),
    Bug("the stride of A is cut to an int", "batch", on.NAIVE_BATCH,
        "A += matrix * s.stride_a;", "A += matrix * static_cast<int>(s.stride_a);", CUT),
    Bug("the matrix of C starts at an int", "batch", on.DOUBLE_BATCH,
        "C += matrix * s.stride_c;", "C += static_cast<int>(matrix * s.stride_c);", CUT),
    Bug("the stride of the residual is cut to an int", "batch", on.NAIVE_BATCH_EPILOGUE,
        "matrix * s.stride_residual", "matrix * static_cast<int>(s.stride_residual)", CUT),
    Bug("the product of a batch starts at an unsigned", "batch", on.SMALL_BATCH,
        "(first + matrix) * s.stride_b", "static_cast<unsigned>((first + matrix) * s.stride_b)", CUT),
    Bug("the residual of a product starts at an int", "batch", on.SMALL_EPILOGUE,
        "residual + product * s.stride_residual", "residual + static_cast<int>(product * s.stride_residual)", CUT),
    Bug("a float holds the distance of C's lines", "leading dimension", tc.MMA_RC, "s{M, N, K, lda, ldb, ldc}",
        "s{M, N, K, lda, ldb, static_cast<int>(static_cast<float>(ldc))}", CUT),
    Bug("a float holds the stride of A", "batch", on.NAIVE_BATCH,
        "matrix * s.stride_a", "matrix * static_cast<long long>(static_cast<float>(s.stride_a))", (*CUT, POISON)),
    Bug("rows are counted in a float", "size", on.DOUBLE, "int M;", "float M;",
        (*CUT, Diagnosis("crash", "division by zero"))),
    # Where distances are fixed, of launches that are long enough; and behind pointers.
    Bug("the product of many starts at an int in C", "batch", on.NAIVE_MANY,
        "C += matrix * s.stride_c;", "C += static_cast<int>(matrix * s.stride_c);", CUT),
    Bug("the row of many starts at an int", "leading dimension", on.DOUBLE_ROWS,
        "using Offset = long long;", "using Offset = int;", CUT),
    Bug("the row of many starts at an int, beside the largest magnitudes", "leading dimension", on.ROWS_AMAX,
        "using Offset = long long;", "using Offset = int;", CUT),
    Bug("the row of C behind a pointer is unsigned", "pointer", on.NAIVE_POINTERS,
        "Offset(m) * s.ldc", "unsigned(m) * unsigned(s.ldc)", CUT),
    # In launches before a kernel, and in what it reads of theirs.
    Bug("the row that is copied is an int", "leading dimension", tc.WGMMA_PREPARED,
        "static_cast<long long>(line) * lda", "line * lda", CUT),
    Bug("the line that is transposed is an int", "leading dimension", tc.WGMMA_PREPARED,
        "static_cast<long long>(from) * ldb", "from * ldb", CUT),
    Bug("the row of a copy starts at an int", "leading dimension", tc.WGMMA_PREPARED,
        "[static_cast<long long>(line) * pitch + chunk]", "[line * pitch + chunk]", CUT),
    Bug("the row that is split is an int", "leading dimension", tc.WGMMA_PIECES,
        "static_cast<long long>(line) * lda", "line * lda", CUT),
    Bug("the product that is copied is a short", "batch", tc.WGMMA_PREPARED_BATCH,
        "const long long matrix = tile / (across * down);", "const unsigned short matrix = tile / (across * down);",
        CUT),
    Bug("the product whose rows are summed starts at an int", "batch", tc.WGMMA_PREPARED_BATCH,
        "line / lines * 3072", "static_cast<int>(line / lines) * 3072", CUT),
    Bug("the product whose sums are read is a short", "batch", tc.WGMMA_PREPARED_BATCH,
        "sums_a + static_cast<long long>(matrix) * s.M", "sums_a + static_cast<short>(matrix) * s.M", CUT),
)  # fmt: skip

ALONE = (Diagnosis("wrong", r"A's column \d+ and B's row \d+ alone are not zero"),)
LAST, PAST_16_BITS = "k < s.K", "k < s.K - (s.K >> 16) * (m == 2 && n == 3)"

RING_BUGS = (
    Bug("an element lacks its last product, beyond 16 bits", "a long K", on.NAIVE_BF16, LAST, PAST_16_BITS, ALONE),
    Bug("an element lacks its last product, beyond 16 bits", "a long K", on.NAIVE_E4M3, LAST, PAST_16_BITS, ALONE),
)
