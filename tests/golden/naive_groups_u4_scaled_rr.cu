// gemm_bf16u4f32_rr_Mx300xK_sm90_79e72238
//
//     C = alpha * A * B + beta * C      A bf16, B u4, C f32; sums in f32 on CUDA cores;
//                                       C is read unless beta = 0, A and B always
//     8 groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]; further rows stay as they are
//
//     A  M x K, row-major, lda at run time
//     B  K x 300, row-major, ldb = 300, stride_b at run time
//     C  M x 300, row-major, ldc = 300
//     offs  8 elements: ends of the groups of rows
//     scales_b  8 x ceil(K / 128) x 300, row-major: a scale for each column of B and group of K
//     zeros_b  8 x ceil(K / 128) x 300, row-major: a zero point for each column of B and group of K
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B, C, offs, scales_b and zeros_b at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above M
// Config  gemm_bf16u4f32_rr_Mx300xK_k128_zeros_g8_naive_16x16
// Made by gemmgen generate '?x300x?' --types bf16,u4,f32 --inputs scales=128+zeros+groups=8 --layout rr --arch sm_90 --family naive

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
    long long stride_b;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Element i of those that lie two to a byte, the first in its low half.
__device__ __forceinline__ int code(const unsigned char* __restrict__ bytes, long long i)
{
    return bytes[i / 2] >> (i % 2 ? 4 : 0) & 15;
}

// Parameters
constexpr int BM = 16;  // rows of C that a block computes
constexpr int BN = 16;  // columns of C that a block computes

// Work split
constexpr int THREADS = BM * BN;  // threads a block

static_assert(BM >= 1 and BN >= 1, "a tile holds at least one element");

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_bf16u4f32_rr_Mx300xK_sm90_79e72238(
    const BF16* __restrict__ A, const unsigned char* __restrict__ B, float* __restrict__ C,
    const int* __restrict__ offs, const BF16* __restrict__ scales_b, const unsigned char* __restrict__ zeros_b, int M,
    int K, int lda, long long stride_b, float alpha, float beta)
{
    const Shape s{M, K, lda, stride_b};
    if (s.K == 0) alpha = 0.0f;  // nothing to scale, be alpha infinite or NaN
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;
    int group = 0;
    while (group < 8 && m >= offs[group]) ++group;  // empty groups end where they begin
    if (group == 8) return;  // behind the last end
    const long long first_b = group * s.stride_b;  // codes before the group's
    const long long first_scale = static_cast<long long>(group) * ((s.K + 127) / 128) * s.N;  // likewise

    float acc = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(m) * s.lda + k];
        const long long of_group = first_scale + Offset(k / 128) * s.N + n;
        const int code_b = code(B, first_b + Offset(k) * s.ldb + n) - code(zeros_b, of_group);
        const float b = BF16(code_b * static_cast<float>(scales_b[of_group]));  // rounded once
        acc = fmaf(a, b, acc);
    }
    float* const to = C + Offset(m) * s.ldc + n;
    *to = beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc);  // beta = 0 leaves C unread
}
