// gemm_f32_rr_512x512x512_sm90_ea7b0a69
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  512 x 512, row-major, lda = 512
//     B  512 x 512, row-major, ldb = 512
//     C  512 x 512, row-major, ldc = 512
//
// Block   64 x 64 of C by 256 threads
// Thread  4 x 4 of C: 8 reads for 16 FMAs
// Bound   global memory: threads that read the same elements meet in the caches alone
//
// Launch  ceil(M / 64) * ceil(N / 64) blocks of 256 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f32_rr_512x512x512_threadtile_64x64_4x4
// Made by gemmgen generate 512x512x512 --dtype f32 --layout rr --arch sm_90 --family threadtile

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 512;
    static constexpr int N = 512;
    static constexpr int K = 512;
    static constexpr int lda = 512;
    static constexpr int ldb = 512;
    static constexpr int ldc = 512;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 64;     // rows of C that a block computes
constexpr int BN = 64;     // columns of C that a block computes
constexpr int TM = 4;      // rows of C that a thread computes
constexpr int TN = 4;      // columns of C that a thread computes
constexpr int UNROLL = 1;  // k of an iteration, whose reads wait for none of its FMAs

// Work split
constexpr int STEP_M = BM / TM;           // rows between two of a thread
constexpr int STEP_N = BN / TN;           // columns between two of a thread
constexpr int THREADS = STEP_M * STEP_N;  // threads per block

static_assert(BM >= 1 and BN >= 1 and TM >= 1 and TN >= 1 and UNROLL >= 1, "a tile holds at least one element");
static_assert(BM % TM == 0, "threads split a block's rows evenly");
static_assert(BN % TN == 0, "threads split a block's columns evenly");

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f32_rr_512x512x512_sm90_ea7b0a69(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float alpha, float beta)
{
    const Shape s{};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int first_m = tile_m * BM + threadIdx.x / STEP_N;
    const int first_n = tile_n * BN + threadIdx.x % STEP_N;  // neighbouring threads read neighbouring columns of B

    float acc[TM][TN] = {};
    #pragma unroll UNROLL
    for (int k = 0; k < s.K; ++k) {
        float a[TM], b[TN];
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            // beyond the edge the last row again, which is not stored
            const int m = min(first_m + i * STEP_M, s.M - 1);
            a[i] = A[Offset(m) * s.lda + k];
        }
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = min(first_n + j * STEP_N, s.N - 1);
            b[j] = B[Offset(k) * s.ldb + n];
        }
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = first_m + i * STEP_M;
        if (m >= s.M) return;
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = first_n + j * STEP_N;
            if (n >= s.N) break;
            float* const to = C + Offset(m) * s.ldc + n;
            *to = beta == 0.0f ? alpha * acc[i][j] : fmaf(beta, *to, alpha * acc[i][j]);  // beta = 0 leaves C unread
        }
    }
}
