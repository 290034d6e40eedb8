// gemm_f16s8f32_promoted_rc_Mx300x72_sm90_17242bf9
//
//     C = alpha * A * B + beta * C      A f16, B s8, C f32; sums in f32 on CUDA cores, as --compute promoted says;
//                                       C is read unless beta = 0, A and B always
//     8 groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]; further rows stay as they are
//
//     A  M x 72, row-major, lda = 72
//     B  72 x 300, column-major, ldb = 72, stride_b = 21600
//     C  M x 300, row-major, ldc = 300
//     offs  8 elements: ends of the groups of rows
//     scales_b  8 x 1 x 300, row-major: a scale for each column of B and group of K
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B, C, offs and scales_b at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above M
// Config  gemm_f16s8f32_promoted_rc_Mx300x72_k_g8_naive_16x16
// Made by gemmgen generate '?x300x72' --types f16,s8,f32 --compute promoted --inputs scales=K+groups=8 --layout rc --arch sm_90 --family naive

namespace {

__device__ __forceinline__ float float_from_f16(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// A half, IEEE 754's binary16.
struct F16 {
    unsigned short bits;
    __device__ __forceinline__ operator float() const { return float_from_f16(bits); }
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 300;
    static constexpr int K = 72;
    static constexpr int lda = 72;
    static constexpr int ldb = 72;
    static constexpr int ldc = 300;
    static constexpr long long stride_b = 21600;
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
gemm_f16s8f32_promoted_rc_Mx300x72_sm90_17242bf9(
    const F16* __restrict__ A, const signed char* __restrict__ B, float* __restrict__ C, const int* __restrict__ offs,
    const F16* __restrict__ scales_b, int M, float alpha, float beta)
{
    const Shape s{M};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;
    int group = 0;
    while (group < 8 && m >= offs[group]) ++group;  // empty groups end where they begin
    if (group == 8) return;  // behind the last end
    const long long first_b = group * s.stride_b;  // codes before the group's
    const long long first_scale = static_cast<long long>(group) * s.N;  // likewise

    float acc = 0.0f;
    for (int first = 0; first < s.K; first += 128) {
        float sum = 0.0f;
        for (int k = first; k < min(first + 128, s.K); ++k) {
            const float a = A[Offset(m) * s.lda + k];
            const int b = B[first_b + Offset(n) * s.ldb + k];
            sum = fmaf(a, static_cast<float>(b), sum);
        }
        acc = fmaf(static_cast<float>(scales_b[first_scale + n]), sum, acc);
    }
    float* const to = C + Offset(m) * s.ldc + n;
    *to = beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc);  // beta = 0 leaves C unread
}
