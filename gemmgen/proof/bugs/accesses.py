"""Bugs with right results: kernels read what they do not use, or write back what they have read."""

from __future__ import annotations

from gemmgen.proof.bugs.base import Bug, Diagnosis
from gemmgen.proof.bugs.subjects import ACROSS, ALONG_K, DOUBLE_VECTORS, NAIVE_BATCH, NAIVE_RR, SMALL_BATCH

UNREAD_C = Diagnosis("crash", "reads C at row .*, which this launch has not written")
PADDING_OF_A = Diagnosis("crash", "reads (the padding of A at row|.* after the end of A)")
PADDING_OF_B = Diagnosis("crash", "reads (the padding of B at row|.* after the end of B)")
PADDING_OF_C = Diagnosis("crash", "(reads|writes) (the padding of C at row|.* after the end of C)")

LOAD_EDGE = """    if (valid >= N) return load<N>(from);
    Vec<N> value = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) value.at[i] = from[i];
    }
    return value;
"""
LOAD_WHOLE = """    Vec<N> value = {};
    if (valid <= 0) return value;
    const Vec<N> all = load<N>(from);
    #pragma unroll
    for (int i = 0; i < N; ++i) value.at[i] = i < valid ? all.at[i] : 0.0f;
    return value;
"""
STORE_EDGE = """    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) to[i] = beta == 0.0f ? value.at[i] : fmaf(beta, to[i], value.at[i]);
    }
"""
STORE_WHOLE = """    if (valid <= 0) return;
    Vec<N> all = load<N>(to);
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) all.at[i] = beta == 0.0f ? value.at[i] : fmaf(beta, all.at[i], value.at[i]);
    }
    store<N>(to, all);
"""
TO_C = "*to = beta == 0.0f ? alpha * {0} : fmaf(beta, *to, alpha * {0});"
# Volatile: else the compiler reads where beta asks for it.
READ_C = "*static_cast<const volatile float*>(to);\n"
OLD_C = f"const float old = {READ_C}    *to = beta == 0.0f ? alpha * {{0}} : fmaf(beta, old, alpha * {{0}});"
OLD_VECTOR = "    if (beta != 0.0f) {\n        const Vec<N> old = load<N>(to);\n"
VECTOR_FIRST = f"    {READ_C}" + OLD_VECTOR

ACCESS_BUGS = (
    Bug("C is read, and dropped where beta = 0", "beta = 0", NAIVE_RR,
        TO_C.format("acc"), OLD_C.format("acc"), (UNREAD_C,)),
    Bug("C of a batch is read, and dropped where beta = 0", "beta = 0", NAIVE_BATCH,
        TO_C.format("acc"), OLD_C.format("acc"), (UNREAD_C,)),
    Bug("C is read, and dropped where beta = 0, skinny", "beta = 0", ACROSS,
        TO_C.format("sums[i]"), OLD_C.format("sums[i]"), (UNREAD_C,)),
    Bug("vectors of C are read before beta is asked for", "beta = 0", SMALL_BATCH,
        OLD_VECTOR, VECTOR_FIRST, (UNREAD_C,)),
    Bug("the edge of C is read, changed and written back whole", "padding", DOUBLE_VECTORS,
        STORE_EDGE, STORE_WHOLE, (PADDING_OF_C, UNREAD_C)),
    Bug("whole vectors are read at the edge, and masked", "padding", DOUBLE_VECTORS,
        LOAD_EDGE, LOAD_WHOLE, (PADDING_OF_A, PADDING_OF_B)),
    Bug("whole vectors of weights are read at the edge, and masked", "padding", ALONG_K,
        LOAD_EDGE, LOAD_WHOLE, (PADDING_OF_B,)),
    Bug("the mask of A comes after the read, skinny", "padding", ACROSS, "chunk[depth][line] = exists ? A[at] : 0.0f;",
        "chunk[depth][line] = k + depth < s.lda && m + line < s.M ? A[at] : 0.0f; if (!exists) chunk[depth][line] = "
        "0.0f;", (PADDING_OF_A,)),
    Bug("the row of A goes on, and is masked", "padding", NAIVE_RR, "const float a = A[Offset(m) * s.lda + k];",
        "const float ahead = A[Offset(m) * s.lda + k + 1], a = A[Offset(m) * s.lda + k]; if (ahead > 1e30f && k + 1 "
        "< s.K) acc += 0.0f;", (PADDING_OF_A,)),
    Bug("the column of B goes on, in a batch", "padding", NAIVE_BATCH, "const float b = B[Offset(n) * s.ldb + k];",
        "const float ahead = B[Offset(n) * s.ldb + k + 1], b = B[Offset(n) * s.ldb + k]; if (ahead > 1e30f && k + 1 "
        "< s.K) acc += 0.0f;", (PADDING_OF_B,)),
)  # fmt: skip
