// gemm_f32_cr_b12_100x64x64_sm90_d92779dc
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//     for each of 12 products
//
//     A  100 x 64, column-major, lda = 100, stride_a = 6400
//     B  64 x 64, row-major, ldb = 64, stride_b = 4096
//     C  100 x 64, row-major, ldc = 64, stride_c = 6400
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) * batch blocks of 256 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         no two matrices of C that overlap
// Config  gemm_f32_cr_b12_100x64x64_naive_16x16
// Made by gemmgen generate 100x64x64 --dtype f32 --layout cr --batch 12 --arch sm_90 --family naive

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 100;
    static constexpr int N = 64;
    static constexpr int K = 64;
    static constexpr int lda = 100;
    static constexpr int ldb = 64;
    static constexpr int ldc = 64;
    static constexpr long long stride_a = 6400;
    static constexpr long long stride_b = 4096;
    static constexpr long long stride_c = 6400;
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
gemm_f32_cr_b12_100x64x64_sm90_d92779dc(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float alpha, float beta)
{
    const Shape s{};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int rows = (s.M + BM - 1) / BM;
    const int matrix = blockIdx.x / (rows * columns);
    A += matrix * s.stride_a;
    B += matrix * s.stride_b;
    C += matrix * s.stride_c;
    const int tile_m = blockIdx.x / columns % rows, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;

    float acc = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(k) * s.lda + m];
        const float b = B[Offset(k) * s.ldb + n];
        acc = fmaf(a, b, acc);
    }
    float* const to = C + Offset(m) * s.ldc + n;
    *to = beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc);  // beta = 0 leaves C unread
}
