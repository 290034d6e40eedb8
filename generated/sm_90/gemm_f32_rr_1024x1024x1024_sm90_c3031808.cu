// gemm_f32_rr_1024x1024x1024_sm90_c3031808
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  1024 x 1024, row-major, lda = 1024
//     B  1024 x 1024, row-major, ldb = 1024
//     C  1024 x 1024, row-major, ldc = 1024
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f32_rr_1024x1024x1024_naive_16x16
// Made by gemmgen generate 1024x1024x1024 --dtype f32 --layout rr --arch sm_90 --family naive

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 1024;
    static constexpr int N = 1024;
    static constexpr int K = 1024;
    static constexpr int lda = 1024;
    static constexpr int ldb = 1024;
    static constexpr int ldc = 1024;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 16;  // rows of C that a block computes
constexpr int BN = 16;  // columns of C that a block computes

// Work split
constexpr int THREADS = BM * BN;  // threads a block

static_assert(BM >= 1 and BN >= 1, "a tile holds at least one element");

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f32_rr_1024x1024x1024_sm90_c3031808(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float alpha, float beta)
{
    const Shape s{};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;

    float acc = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(m) * s.lda + k];
        const float b = B[Offset(k) * s.ldb + n];
        acc = fmaf(a, b, acc);
    }
    float* const to = C + Offset(m) * s.ldc + n;
    *to = beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc);  // beta = 0 leaves C unread
}
