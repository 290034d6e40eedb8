// gemm_u8s8bf16_rr_Mx300xK_zero_m_zero_n_scale_m_sm90_9c2f8f8d
//
//     C = alpha * (acc - zero_m * (column_sum - K * zero_n) - row_sum * zero_n) * scale_m + beta * C
//     acc = A * B, row_sum of a row of A, column_sum of a column of B; A u8, B s8, C bf16; sums in s32 on CUDA cores;
//     C is read unless beta = 0, A and B always
//
//     A  M x K, row-major, lda at run time
//     B  K x 300, row-major, ldb = 300
//     C  M x 300, row-major, ldc = 300
//     scale_m  M elements, one a row of C
//     zero_m  M elements, one a row of C
//     zero_n  300 elements, one a column of C
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B, C, scale_m, zero_m and zero_n at addresses divisible by 16, C overlapping no other operand
// Config  gemm_u8s8bf16_rr_Mx300xK_zero_m_zero_n_scale_m_naive_16x16
// Made by gemmgen generate '?x300x?' --types u8,s8,bf16 --layout rr --epilogue 'alpha * (acc - zero_m * (column_sum - K * zero_n) - row_sum * zero_n) * scale_m + beta * C' --arch sm_90 --family naive

namespace {

// a * b + c, which wraps around at 32 bits.
__device__ __forceinline__ int multiply_add(int a, int b, int c)
{
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) + static_cast<unsigned>(c));
}

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
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 16;  // rows of C that a block computes
constexpr int BN = 16;  // columns of C that a block computes

// Work split
constexpr int THREADS = BM * BN;  // threads a block

static_assert(BM >= 1 and BN >= 1, "a tile holds at least one element");

// c - a * b, which wraps around at 32 bits.
__device__ __forceinline__ int multiply_subtract(int a, int b, int c)
{
    return static_cast<int>(static_cast<unsigned>(c) - static_cast<unsigned>(a) * static_cast<unsigned>(b));
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    float alpha, beta;
    const float* scale_m;
    const int* zero_m;
    const int* zero_n;
};

// C's new element; c is the old one, or 0 where beta = 0:
// alpha * (acc - zero_m * (column_sum - K * zero_n) - row_sum * zero_n) * scale_m + beta * C
__device__ __forceinline__ float epilogue(const Epilogue& e, Shape s, int m, int n, int acc, int row_sum,
                                          int column_sum, float c)
{
    const float scale_m = e.scale_m[m];
    const int zero_m = e.zero_m[m];
    const int zero_n = e.zero_n[n];
    return fmaf(e.beta, c,
                e.alpha * multiply_subtract(row_sum, zero_n,
                                            multiply_subtract(zero_m, multiply_subtract(s.K, zero_n, column_sum),
                                                              acc)) * scale_m);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_u8s8bf16_rr_Mx300xK_zero_m_zero_n_scale_m_sm90_9c2f8f8d(
    const unsigned char* __restrict__ A, const signed char* __restrict__ B, BF16* __restrict__ C,
    const float* __restrict__ scale_m, const int* __restrict__ zero_m, const int* __restrict__ zero_n, int M, int K,
    int lda, float alpha, float beta)
{
    const Shape s{M, K, lda};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;

    int acc = 0, row_sum = 0, column_sum = 0;
    for (int k = 0; k < s.K; ++k) {
        const int a = A[Offset(m) * s.lda + k];
        const int b = B[Offset(k) * s.ldb + n];
        acc = multiply_add(a, b, acc);
        row_sum = multiply_add(1, a, row_sum);
        column_sum = multiply_add(1, b, column_sum);
    }
    BF16* const to = C + Offset(m) * s.ldc + n;
    const Epilogue e = {alpha, beta, scale_m, zero_m, zero_n};
    *to = BF16(epilogue(e, s, m, n, acc, row_sum, column_sum, e.beta == 0.0f ? 0.0f : *to));
}
