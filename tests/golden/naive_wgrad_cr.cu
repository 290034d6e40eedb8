// gemm_bf16bf16f32_cr_Mx576xK_sm90_d39b1feb
//
//     C = alpha * A * B + beta * C      A bf16, B bf16, C f32; sums in f32 on CUDA cores;
//                                       C is read unless beta = 0, A and B always
//     K is output pixel (image, p, q) of P x Q = 28 x 28;
//     column n of C is (r, s, c): tap (r, s) of R x S = 3 x 3, channel c
//     B holds ceil(K / 784) images of H x W = 56 x 56; padding 1 x 1, stride 2 x 2
//
//     A  M x K, column-major, lda at run time
//     B  images x 56 x 56 x 64, row-major, ldb = 64
//     C  M x 576, row-major, ldc = 576
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_bf16bf16f32_cr_Mx576xK_i56x56x64_3x3_p1x1_s2x2_wgrad_naive_16x16
// Made by gemmgen generate '?x576x?' --types bf16,bf16,f32 --inputs im2col=56x56x64_3x3_p1x1_s2x2+wgrad --layout cr --arch sm_90 --family naive

namespace {

// A bfloat16: the upper half of a float.
struct BF16 {
    unsigned short bits;
    __device__ __forceinline__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 576;
    int K;
    int lda;
    static constexpr int ldb = 64;
    static constexpr int ldc = 576;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 16;  // rows of C that a block computes
constexpr int BN = 16;  // columns of C that a block computes

// Work split
constexpr int THREADS = BM * BN;  // threads a block

// Convolution
constexpr int H = 56;          // rows of an image
constexpr int W = 56;          // columns of an image
constexpr int CHANNELS = 64;   // channels of a pixel
constexpr int P = 28;          // rows of output pixels per image
constexpr int Q = 28;          // columns of output pixels per image
constexpr int S = 3;           // columns of taps of a filter
constexpr int PAD_H = 1;       // rows of padding above an image
constexpr int PAD_W = 1;       // columns of padding left of an image
constexpr int STRIDE_H = 2;    // rows that the filter moves from one row of output pixels to the next
constexpr int STRIDE_W = 2;    // columns that it moves from one output pixel to the next
constexpr int DILATION_H = 1;  // rows of pixels from one row of taps to the next
constexpr int DILATION_W = 1;  // columns of pixels from one column of taps to the next

static_assert(BM >= 1 and BN >= 1, "a tile holds at least one element");

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_bf16bf16f32_cr_Mx576xK_sm90_d39b1feb(
    const BF16* __restrict__ A, const BF16* __restrict__ B, float* __restrict__ C, int M, int K, int lda, float alpha,
    float beta)
{
    const Shape s{M, K, lda};
    if (s.K == 0) alpha = 0.0f;  // nothing to scale, be alpha infinite or NaN
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;
    const int channel = n % CHANNELS, tap = n / CHANNELS;

    float acc = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(k) * s.lda + m];
        const int q = k % Q, p = k / Q % P, image = k / (P * Q);  // the output pixel
        const int y = p * STRIDE_H - PAD_H + tap / S * DILATION_H;
        const int x = q * STRIDE_W - PAD_W + tap % S * DILATION_W;
        const bool inside = y >= 0 && y < H && x >= 0 && x < W;  // padding is zeros
        const float b = inside ? static_cast<float>(B[((Offset(image) * H + y) * W + x) * s.ldb + channel]) : 0.0f;
        acc = fmaf(a, b, acc);
    }
    float* const to = C + Offset(m) * s.ldc + n;
    *to = beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc);  // beta = 0 leaves C unread
}
