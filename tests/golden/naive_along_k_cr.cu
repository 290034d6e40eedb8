// gemm_bf16bf16f32_cr_Mx300xK_sm90_be363d95
//
//     C = alpha * A * B + beta * C      A bf16, B bf16, C f32; sums in f32 on CUDA cores;
//                                       C is read unless beta = 0, A and B always
//     8 products, one per group: group g sums k from offs[g - 1], or 0, to offs[g]; an empty one has A * B = 0
//
//     A  M x K, column-major, lda at run time
//     B  K x 300, row-major, ldb = 300
//     C  M x 300, row-major, ldc = 300, stride_c at run time
//     offs  8 elements: ends of the groups along K
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) * batch blocks of 256 threads
// Expects A, B, C and offs at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above K,
//         no two matrices of C that overlap
// Config  gemm_bf16bf16f32_cr_Mx300xK_g8_alongk_naive_16x16
// Made by gemmgen generate '?x300x?' --types bf16,bf16,f32 --inputs groups=8+along_k --layout cr --arch sm_90 --family naive

namespace {

// A bfloat16: the upper half of a float.
struct BF16 {
    unsigned short bits;
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
gemm_bf16bf16f32_cr_Mx300xK_sm90_be363d95(
    const BF16* __restrict__ A, const BF16* __restrict__ B, float* __restrict__ C, const int* __restrict__ offs, int M,
    int K, int lda, long long stride_c, float alpha, float beta)
{
    const Shape s{M, K, lda, stride_c};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int rows = (s.M + BM - 1) / BM;
    const int matrix = blockIdx.x / (rows * columns);
    C += matrix * s.stride_c;
    const int tile_m = blockIdx.x / columns % rows, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;
    const int begin = matrix > 0 ? offs[matrix - 1] : 0, end = offs[matrix];
    if (begin == end) alpha = 0.0f;  // nothing to scale, be alpha infinite or NaN

    float acc = 0.0f;
    for (int k = begin; k < end; ++k) {
        const float a = A[Offset(k) * s.lda + m];
        const float b = B[Offset(k) * s.ldb + n];
        acc = fmaf(a, b, acc);
    }
    float* const to = C + Offset(m) * s.ldc + n;
    *to = beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc);  // beta = 0 leaves C unread
}
