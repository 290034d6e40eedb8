// gemm_bf16_cr_Mx300xK_ep8e2768da_sm90_010a1a3c
//
//     C = gelu(alpha * acc + bias_n) + residual      acc = A * B; bf16; sums in f32 on CUDA cores;
//                                                    A and B are read even if alpha = 0
//
//     A  M x K, column-major, lda at run time
//     B  K x 300, row-major, ldb = 300
//     C  M x 300, row-major, ldc = 300
//     residual  M x 300, row-major, ld_residual = 300
//     bias_n  300 elements, one a column of C
//
// Block   64 x 64 of C by 128 threads
// Thread  8 x 4 of C: 12 reads for 32 FMAs
// Bound   global memory: threads that read the same elements meet in the caches alone
//
// Launch  ceil(M / 64) * ceil(N / 64) blocks of 128 threads
// Expects A, B, C, bias_n and residual at addresses divisible by 16, C overlapping no other operand
// Config  gemm_bf16_cr_Mx300xK_ep8e2768da_threadtile_64x64_8x4
// Made by gemmgen generate '?x300x?' --dtype bf16 --layout cr --epilogue 'gelu(alpha * acc + bias_n) + residual' --arch sm_90 --family threadtile --set TM=8

namespace {

// The nearest bfloat16, ties to even.
__device__ __forceinline__ unsigned short bf16_from_float(float value)
{
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// A bfloat16: the upper half of a float.
struct BF16 {
    unsigned short bits;
    BF16() = default;
    __device__ __forceinline__ explicit BF16(float value) : bits(bf16_from_float(value)) {}
    __device__ __forceinline__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 300;
    int K;
    int lda;
    static constexpr int ldb = 300;
    static constexpr int ldc = 300;
    static constexpr int ld_residual = 300;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 64;     // rows of C that a block computes
constexpr int BN = 64;     // columns of C that a block computes
constexpr int TM = 8;      // rows of C that a thread computes
constexpr int TN = 4;      // columns of C that a thread computes
constexpr int UNROLL = 1;  // k of an iteration, whose reads wait for none of its FMAs

// Work split
constexpr int STEP_M = BM / TM;           // rows between two of a thread
constexpr int STEP_N = BN / TN;           // columns between two of a thread
constexpr int THREADS = STEP_M * STEP_N;  // threads per block

static_assert(BM >= 1 and BN >= 1 and TM >= 1 and TN >= 1 and UNROLL >= 1, "a tile holds at least one element");
static_assert(BM % TM == 0, "threads split a block's rows evenly");
static_assert(BN % TN == 0, "threads split a block's columns evenly");

// 2^x, off by 2^-22 of it at most.
__device__ __forceinline__ float exp2_approx(float x)
{
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}

// The lesser; NaN if one is.
__device__ __forceinline__ float min_or_nan(float a, float b)
{
    float value;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}

// x * Phi(x), of the normal distribution Phi: max(x, 0) - |x| * Phi(-|x|), off by 2^-17 of x at most: a 256th of a
// rounding to bf16, a 32nd of one to f16.
__device__ __forceinline__ float gelu(float x)
{
    const float t = min_or_nan(fabsf(x), 8.0f);  // of infinity, too, 2^p is a number
    float p = 0.004707857f;  // log2(Phi(-t)), fitted where Phi(-t) counts beside 1
    p = fmaf(p, t, -0.04798701f);
    p = fmaf(p, t, -0.46222025f);
    p = fmaf(p, t, -1.1504672f);
    p = fmaf(p, t, -1.0000197f);
    return fmaf(-t, exp2_approx(p), fmaxf(x, 0.0f));
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    float alpha;
    const float* bias_n;
    const float* residual;
};

// C's new element; c is the old one, or 0 where beta = 0:
// gelu(alpha * acc + bias_n) + residual
__device__ __forceinline__ float epilogue(const Epilogue& e, Shape s, int m, int n, float acc)
{
    const float bias_n = e.bias_n[n];
    const float residual = e.residual[Offset(m) * s.ld_residual + n];
    const float x = fmaf(e.alpha, acc, bias_n);
    return gelu(x) + residual;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_bf16_cr_Mx300xK_ep8e2768da_sm90_010a1a3c(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, const float* __restrict__ bias_n,
    const float* __restrict__ residual, int M, int K, int lda, float alpha)
{
    const Shape s{M, K, lda};
    if (s.K == 0) alpha = 0.0f;  // nothing to scale, be alpha infinite or NaN
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int first_m = tile_m * BM + threadIdx.x / STEP_N;
    const int first_n = tile_n * BN + threadIdx.x % STEP_N;  // neighbouring threads read neighbouring columns of B

    float acc[TM][TN] = {};
    #pragma unroll UNROLL
    for (int k = 0; k < s.K; ++k) {
        float a[TM], b[TN];
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            // beyond the edge the last row again, which is not stored
            const int m = min(first_m + i * STEP_M, s.M - 1);
            a[i] = A[Offset(k) * s.lda + m];
        }
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = min(first_n + j * STEP_N, s.N - 1);
            b[j] = B[Offset(k) * s.ldb + n];
        }
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = first_m + i * STEP_M;
        if (m >= s.M) return;
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = first_n + j * STEP_N;
            if (n >= s.N) break;
            BF16* const to = C + Offset(m) * s.ldc + n;
            const Epilogue e = {alpha, bias_n, residual};
            *to = BF16(epilogue(e, s, m, n, acc[i][j]));
        }
    }
}
