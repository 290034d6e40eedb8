// gemm_e4m3e4m3bf16_rc_Mx300xK_scale_m_scale_b_bias_sm90_78a4e539
//
//     C = alpha * acc * scale_m * scale_b + beta * C + bias_n      acc = A * B; A e4m3, B e4m3, C bf16;
//                                                                  sums in f32 on CUDA cores;
//                                                                  C is read unless beta = 0, A and B always
//     8 groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]; further rows stay as they are
//
//     A  M x K, row-major, lda at run time
//     B  K x 300, column-major, ldb at run time, stride_b at run time
//     C  M x 300, row-major, ldc = 300
//     offs  8 elements: ends of the groups of rows
//     bias_n  8 x 300, row-major, a row for each group
//     scale_m  M elements, one a row of C
//     scale_b  8 elements, one for each group
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B, C, offs, bias_n, scale_m and scale_b at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above M
// Config  gemm_e4m3e4m3bf16_rc_Mx300xK_g8_scale_m_scale_b_bias_naive_16x16
// Made by gemmgen generate '?x300x?' --types e4m3,e4m3,bf16 --inputs groups=8 --layout rc --epilogue 'alpha * acc * scale_m * scale_b + beta * C + bias_n' --arch sm_90 --family naive

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

__device__ __forceinline__ float float_from_e4m3(unsigned char bits)
{
    unsigned pair;  // of halves, which hold every number of e4m3
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(bits)));
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(pair)));
    return value;
}

// An 8-bit float of 4 bits of exponent and 3 of fraction.
struct E4M3 {
    unsigned char bits;
    __device__ __forceinline__ operator float() const { return float_from_e4m3(bits); }
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 300;
    int K;
    int lda;
    int ldb;
    static constexpr int ldc = 300;
    long long stride_b;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 16;  // rows of C that a block computes
constexpr int BN = 16;  // columns of C that a block computes

// Work split
constexpr int THREADS = BM * BN;  // threads a block

static_assert(BM >= 1 and BN >= 1, "a tile holds at least one element");

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    float alpha, beta;
    const float* bias_n;
    const float* scale_m;
    const float* scale_b;
};

// C's new element; c is the old one, or 0 where beta = 0:
// alpha * acc * scale_m * scale_b + beta * C + bias_n
__device__ __forceinline__ float epilogue(const Epilogue& e, int m, int n, float acc, float c)
{
    const float bias_n = e.bias_n[n];
    const float scale_m = e.scale_m[m];
    const float scale_b = e.scale_b[0];
    return fmaf(e.alpha * acc * scale_m, scale_b, e.beta == 0.0f ? bias_n : fmaf(e.beta, c, bias_n));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_e4m3e4m3bf16_rc_Mx300xK_scale_m_scale_b_bias_sm90_78a4e539(
    const E4M3* __restrict__ A, const E4M3* __restrict__ B, BF16* __restrict__ C, const int* __restrict__ offs,
    const float* __restrict__ bias_n, const float* __restrict__ scale_m, const float* __restrict__ scale_b, int M,
    int K, int lda, int ldb, long long stride_b, float alpha, float beta)
{
    const Shape s{M, K, lda, ldb, stride_b};
    if (s.K == 0) alpha = 0.0f;  // nothing to scale, be alpha infinite or NaN
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;
    int group = 0;
    while (group < 8 && m >= offs[group]) ++group;  // empty groups end where they begin
    if (group == 8) return;  // behind the last end
    B += group * s.stride_b;
    bias_n += static_cast<long long>(group) * s.N;
    scale_b += group;

    float acc = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(m) * s.lda + k];
        const float b = B[Offset(n) * s.ldb + k];
        acc = fmaf(a, b, acc);
    }
    BF16* const to = C + Offset(m) * s.ldc + n;
    const Epilogue e = {alpha, beta, bias_n, scale_m, scale_b};
    *to = BF16(epilogue(e, m, n, acc, e.beta == 0.0f ? 0.0f : *to));
}
