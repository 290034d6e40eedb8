// gemm_bf16_rc_Mx300x64_sm90_3b4ae96a
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on CUDA cores; C is read unless beta = 0, A and B always
//     8 products, one per group: the first group_rows[g] rows of group g; C's other rows stay as they are
//
//     A  M x 64, row-major, lda = 64, stride_a at run time
//     B  64 x 300, column-major, ldb = 64, stride_b = 19200
//     C  M x 300, row-major, ldc = 300, stride_c at run time
//     group_rows  8 elements: how many of each group's rows are computed
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) * batch blocks of 256 threads
// Expects A, B, C and group_rows at addresses divisible by 16, C overlapping no other operand,
//         group_rows none below 0 or above M,
//         no two matrices of C that overlap
// Config  gemm_bf16_rc_Mx300x64_g8_masked_naive_16x16
// Made by gemmgen generate '?x300x64' --dtype bf16 --inputs groups=8+masked --layout rc --arch sm_90 --family naive

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
    static constexpr int K = 64;
    static constexpr int lda = 64;
    static constexpr int ldb = 64;
    static constexpr int ldc = 300;
    long long stride_a;
    static constexpr long long stride_b = 19200;
    long long stride_c;
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
gemm_bf16_rc_Mx300x64_sm90_3b4ae96a(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, const int* __restrict__ group_rows,
    int M, long long stride_a, long long stride_c, float alpha, float beta)
{
    const Shape s{M, stride_a, stride_c};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int rows = (s.M + BM - 1) / BM;
    const int matrix = blockIdx.x / (rows * columns);
    A += matrix * s.stride_a;
    B += matrix * s.stride_b;
    C += matrix * s.stride_c;
    const int tile_m = blockIdx.x / columns % rows, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= group_rows[matrix] || n >= s.N) return;

    float acc = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(m) * s.lda + k];
        const float b = B[Offset(n) * s.ldb + k];
        acc = fmaf(a, b, acc);
    }
    BF16* const to = C + Offset(m) * s.ldc + n;
    *to = BF16(beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc));  // beta = 0 leaves C unread
}
