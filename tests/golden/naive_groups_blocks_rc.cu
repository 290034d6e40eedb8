// gemm_e4m3e4m3bf16_rc_Mx300xK_sm90_654b041a
//
//     C = alpha * A * B + beta * C      A e4m3, B e4m3, C bf16; sums in f32 on CUDA cores;
//                                       C is read unless beta = 0, A and B always
//     8 groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]; further rows stay as they are
//
//     A  M x K, row-major, lda at run time
//     B  K x 300, column-major, ldb at run time, stride_b at run time
//     C  M x 300, row-major, ldc = 300
//     offs  8 elements: ends of the groups of rows
//     scales_a  ceil(K / 128) x M, row-major: a scale for each 128 along K of a row of A
//     scales_b  8 x 3 x ceil(K / 128), row-major: a scale for each 128 x 128 of B
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B, C, offs, scales_a and scales_b at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above M
// Config  gemm_e4m3e4m3bf16_rc_Mx300xK_g8_blocks_naive_16x16
// Made by gemmgen generate '?x300x?' --types e4m3,e4m3,bf16 --inputs groups=8+blocks --layout rc --arch sm_90 --family naive

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

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_e4m3e4m3bf16_rc_Mx300xK_sm90_654b041a(
    const E4M3* __restrict__ A, const E4M3* __restrict__ B, BF16* __restrict__ C, const int* __restrict__ offs,
    const float* __restrict__ scales_a, const float* __restrict__ scales_b, int M, int K, int lda, int ldb,
    long long stride_b, float alpha, float beta)
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
    scales_b += static_cast<long long>(group) * ((s.K + 127) / 128) * ((s.N + 127) / 128);

    float acc = 0.0f;
    for (int block = 0; block < s.K; block += 128) {
        float sum = 0.0f;
        for (int k = block; k < min(block + 128, s.K); ++k) {
            const float a = A[Offset(m) * s.lda + k];
            const float b = B[Offset(n) * s.ldb + k];
            sum = fmaf(a, b, sum);
        }
        const float scale_a = scales_a[Offset(block / 128) * s.M + m];
        const float scale_b = scales_b[Offset(n / 128) * ((s.K + 127) / 128) + block / 128];
        acc = fmaf(scale_a * scale_b, sum, acc);  // the product of both is rounded first
    }
    BF16* const to = C + Offset(m) * s.ldc + n;
    *to = BF16(beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc));  // beta = 0 leaves C unread
}
