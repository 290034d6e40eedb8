// gemm_f16f16f32_rc_Mx300x64_scale_m_sm90_191c555e
//
//     C = alpha * acc * scale_m + beta * C      acc = A * B; A f16, B f16, C f32; sums in f32 on CUDA cores;
//                                               C is read unless beta = 0, A and B always
//     8 groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]; further rows stay as they are
//     C may have more rows than M: those that index_c does not name stay as they are
//
//     A  M x 64, row-major, lda = 64
//     B  64 x 300, column-major, ldb = 64, stride_b = 19200
//     C  M x 300, row-major, ldc = 300
//     offs  8 elements: ends of the groups of rows
//     index_c  M elements: row m of the product is stored in row index_c[m] of C
//     scale_m  M elements, one a row of the product
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B, C, offs, index_c and scale_m at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above M,
//         index_c naming rows that C has, no two the same
// Config  gemm_f16f16f32_rc_Mx300x64_g8_scattered_scale_m_naive_16x16
// Made by gemmgen generate '?x300x64' --types f16,f16,f32 --inputs groups=8+scattered --layout rc --epilogue 'alpha * acc * scale_m + beta * C' --arch sm_90 --family naive

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
    static constexpr int K = 64;
    static constexpr int lda = 64;
    static constexpr int ldb = 64;
    static constexpr int ldc = 300;
    static constexpr long long stride_b = 19200;
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
    const float* scale_m;
};

// C's new element; c is the old one, or 0 where beta = 0:
// alpha * acc * scale_m + beta * C
__device__ __forceinline__ float epilogue(const Epilogue& e, int m, float acc, float c)
{
    const float scale_m = e.scale_m[m];
    return fmaf(e.beta, c, e.alpha * acc * scale_m);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f16f16f32_rc_Mx300x64_scale_m_sm90_191c555e(
    const F16* __restrict__ A, const F16* __restrict__ B, float* __restrict__ C, const int* __restrict__ offs,
    const int* __restrict__ index_c, const float* __restrict__ scale_m, int M, float alpha, float beta)
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
    B += group * s.stride_b;

    float acc = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(m) * s.lda + k];
        const float b = B[Offset(n) * s.ldb + k];
        acc = fmaf(a, b, acc);
    }
    float* const to = C + Offset(index_c[m]) * s.ldc + n;
    const Epilogue e = {alpha, beta, scale_m};
    *to = epilogue(e, m, acc, e.beta == 0.0f ? 0.0f : *to);
}
