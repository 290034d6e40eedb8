// gemm_f32_cc_MxNxK_sm90_a3fcff31
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  M x K, column-major, lda at run time
//     B  K x N, column-major, ldb at run time
//     C  M x N, row-major, ldc at run time
//
// Block   8 x 32 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 8) * ceil(N / 32) blocks of 256 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f32_cc_MxNxK_naive_8x32
// Made by gemmgen generate '?x?x?' --dtype f32 --layout cc --arch sm_90 --family naive --set BM=8 --set BN=32

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    int N;
    int K;
    int lda;
    int ldb;
    int ldc;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 8;   // rows of C that a block computes
constexpr int BN = 32;  // columns of C that a block computes

// Work split
constexpr int THREADS = BM * BN;  // threads a block

static_assert(BM >= 1 and BN >= 1, "a tile holds at least one element");

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f32_cc_MxNxK_sm90_a3fcff31(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K, int lda,
    int ldb, int ldc, float alpha, float beta)
{
    const Shape s{M, N, K, lda, ldb, ldc};
    if (s.K == 0) alpha = 0.0f;  // nothing to scale, be alpha infinite or NaN
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;

    float acc = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(k) * s.lda + m];
        const float b = B[Offset(n) * s.ldb + k];
        acc = fmaf(a, b, acc);
    }
    float* const to = C + Offset(m) * s.ldc + n;
    *to = beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc);  // beta = 0 leaves C unread
}
