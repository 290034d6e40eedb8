"""Right edits of kernels whose threads read A and B straight from global memory."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.edits.base import Edit

LOOP = """\
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(m) * s.lda + k];
        const float b = B[Offset(k) * s.ldb + n];
        acc = fmaf(a, b, acc);
    }
"""
ENTRY = 'extern "C" __global__'
TILE = "    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;\n"
TICKET = (
    (ENTRY, f"__device__ unsigned tickets;\n\n{ENTRY}"),
    (
        TILE,
        """\
    __shared__ unsigned ticket;
    if (threadIdx.x == 0) ticket = atomicInc(&tickets, gridDim.x - 1);  // which wraps to zero for the next launch
    __syncthreads();
    const int tile_m = ticket / columns, tile_n = ticket % columns;
""",
    ),
)

NAIVE_EDITS = (
    Edit("the loop along K unrolled by hand", on.NAIVE_RR, ((LOOP, """\
    int k = 0;
    for (; k + 4 <= s.K; k += 4) {
        const float* const a = A + Offset(m) * s.lda + k;
        const float* const b = B + Offset(k) * s.ldb + n;
        acc = fmaf(a[0], b[0], acc);
        acc = fmaf(a[1], b[s.ldb], acc);
        acc = fmaf(a[2], b[Offset(2) * s.ldb], acc);
        acc = fmaf(a[3], b[Offset(3) * s.ldb], acc);
    }
    for (; k < s.K; ++k) acc = fmaf(A[Offset(m) * s.lda + k], B[Offset(k) * s.ldb + n], acc);
"""),)),
    Edit("pointers that walk in place of indices", on.NAIVE_RR, ((LOOP, """\
    const float* a = A + Offset(m) * s.lda;
    const float* b = B + n;
    for (const float* const end = a + s.K; a != end; b += s.ldb) acc = fmaf(*a++, *b, acc);
"""),)),
    Edit("two sums that meet at the end", on.NAIVE_RR, ((LOOP, """\
    float odd = 0.0f;
    for (int k = 0; k + 1 < s.K; k += 2) {
        acc = fmaf(A[Offset(m) * s.lda + k], B[Offset(k) * s.ldb + n], acc);
        odd = fmaf(A[Offset(m) * s.lda + k + 1], B[Offset(k + 1) * s.ldb + n], odd);
    }
    if (s.K % 2 == 1) acc = fmaf(A[Offset(m) * s.lda + s.K - 1], B[Offset(s.K - 1) * s.ldb + n], acc);
    acc += odd;
"""),)),
    Edit("sums in f64", on.NAIVE_RR, (("    float acc = 0.0f;\n", "    double sum = 0.0;\n"), (LOOP, """\
    for (int k = 0; k < s.K; ++k) {
        sum = fma(double(A[Offset(m) * s.lda + k]), double(B[Offset(k) * s.ldb + n]), sum);
    }
    const float acc = float(sum);
"""))),
    Edit("sums that compensate what they lost", on.NAIVE_RR, ((LOOP, """\
    float lost = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float term = fmaf(A[Offset(m) * s.lda + k], B[Offset(k) * s.ldb + n], -lost), next = acc + term;
        lost = isfinite(next) ? (next - acc) - term : 0.0f;
        acc = next;
    }
"""),)),
    Edit("sums of 64 products that are summed", on.NAIVE_RR, ((LOOP, """\
    for (int first = 0; first < s.K; first += 64) {
        float part = 0.0f;
        for (int k = first; k < min(first + 64, s.K); ++k) {
            part = fmaf(A[Offset(m) * s.lda + k], B[Offset(k) * s.ldb + n], part);
        }
        acc += part;
    }
"""),)),
    Edit("tiles in the order in which blocks come", on.NAIVE_RR, TICKET),
    Edit("tiles in the order in which blocks come, sampled", on.NAIVE_TALL, TICKET),
    Edit("blocks that take tiles while there are any", on.NAIVE_RR, (
        (ENTRY, f"__device__ unsigned taken, done;\n\n{ENTRY}"),
        (TILE, """\
    const unsigned tiles = static_cast<unsigned>((s.M + BM - 1) / BM) * columns;
    __shared__ unsigned ticket;
    while (true) {
    if (threadIdx.x == 0) ticket = atomicAdd(&taken, 1u);
    __syncthreads();
    const unsigned tile = ticket;
    __syncthreads();
    if (tile >= tiles) break;
    const int tile_m = tile / columns, tile_n = tile % columns;
"""),
        ("    if (m >= s.M || n >= s.N) return;\n", "    if (m >= s.M || n >= s.N) continue;\n"),
        ("alpha * acc);", """\
alpha * acc);
    }
    if (threadIdx.x == 0 && atomicInc(&done, gridDim.x - 1) == gridDim.x - 1) atomicExch(&taken, 0u);
"""),
    )),
    Edit("K from its end", on.NAIVE_RR, (("for (int k = 0; k < s.K; ++k) {", "for (int k = s.K; k-- > 0;) {"),)),
    Edit("a lambda that reads A, through the read-only cache", on.NAIVE_RR, (
        ("    float acc = 0.0f;\n", """\
    const auto a_at = [&](int k) { return __ldg(A + Offset(m) * s.lda + k); };
    float acc = 0.0f;
"""),
        ("A[Offset(m) * s.lda + k];", "a_at(k);"),
    )),
    Edit("launch bounds of four blocks an SM", on.NAIVE_RR, (
        ("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 4)"),)),
    Edit("a product and a sum that the compiler contracts, f64", on.NAIVE_F64, (
        ("acc = fma(a, b, acc);", "acc += a * b;"),)),
    Edit("tiles counted by others than rows times columns", on.NAIVE_BATCH, (
        ("const int matrix = blockIdx.x / (rows * columns);", """\
const unsigned tiles = static_cast<unsigned>(rows) * columns;
    const int matrix = blockIdx.x / tiles;
    const int in_matrix = blockIdx.x - matrix * tiles;"""),
        ("blockIdx.x / columns % rows, tile_n = blockIdx.x % columns;",
         "in_matrix / columns, tile_n = in_matrix - tile_m * columns;"),
    )),
    Edit("pointers through the read-only cache", on.NAIVE_POINTERS, (
        ("const A = A_array[matrix];",
         "const A = reinterpret_cast<const float*>(__ldg(reinterpret_cast<const long long*>(A_array) + matrix));"),
        ("const B = B_array[matrix];",
         "const B = reinterpret_cast<const float*>(__ldg(reinterpret_cast<const long long*>(B_array) + matrix));"),
    )),
    Edit("a bfloat16 widened by its bits", on.NAIVE_BF16, (
        ("return __uint_as_float(static_cast<unsigned>(bits) << 16);", "return __int_as_float(bits * 0x10000u);"),)),
    Edit("sums without a sign", on.NAIVE_S8, (
        ("    int acc = 0;\n", "    unsigned acc = 0;\n"),
        ("acc = multiply_add(a, b, acc);", "acc += static_cast<unsigned>(a) * static_cast<unsigned>(b);"),
    )),
    Edit("gelu's last step as a sum and a product", on.NAIVE_EPILOGUE, (
        ("return fmaf(-t, exp2_approx(p), fmaxf(x, 0.0f));",
         "const float tail = t * exp2_approx(p);\n    return fmaxf(x, 0.0f) - tail;"),)),
    Edit("epilogue vectors through the read-only cache", on.NAIVE_EPILOGUE, (
        ("= e.bias_n[n];", "= __ldg(e.bias_n + n);"),
        ("= e.residual[Offset(m) * s.ld_residual + n];", "= __ldcs(e.residual + Offset(m) * s.ld_residual + n);"),
    )),
    Edit("magnitudes raised as signed numbers", on.NAIVE_AMAX, (
        ("atomicMax(reinterpret_cast<Magnitude*>(to), value);",
         "atomicMax(reinterpret_cast<int*>(to), static_cast<int>(value));"),)),
    Edit("a promise about K to the compiler", on.NAIVE_RR, (
        ("    float acc = 0.0f;\n", "    __builtin_assume(s.K >= 0);\n    float acc = 0.0f;\n"),)),
    Edit("an instruction that the emulator lacks", on.NAIVE_RR, (
        ("    float acc = 0.0f;\n", """\
    float acc = 0.0f;
    asm volatile("{ .reg .b32 packed; cvt.pack.sat.u8.s32.b32 packed, 1, 2, 0; }");
"""),), judged=False),
)  # fmt: skip

THREAD_TILE_EDITS = (
    Edit("what lies beyond the edge counts as zero", on.THREAD_TILE_RR, (
        ("const int m = min(first_m + i * STEP_M, s.M - 1);", "const int m = first_m + i * STEP_M;"),
        ("a[i] = A[", "a[i] = m >= s.M ? 0.0f : A["))),
    Edit("columns of a thread's tile outermost", on.THREAD_TILE_CC, (("""\
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int j = 0; j < TN; ++j) acc""", """\
        for (int j = 0; j < TN; ++j)
            #pragma unroll
            for (int i = 0; i < TM; ++i) acc"""),)),
)  # fmt: skip
