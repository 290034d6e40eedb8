// gemm_bf16_rc_Mx64x576_sm90_5f084b37
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on CUDA cores; C is read unless beta = 0, A and B always
//     row m of C is output pixel (image, p, q) of P x Q = 28 x 28;
//     K is (r, s, c): tap (r, s) of R x S = 3 x 3, channel c
//     A holds ceil(M / 784) images of H x W = 56 x 56; padding 1 x 1, stride 2 x 2
//
//     A  images x 56 x 56 x 64, row-major, lda = 64
//     B  576 x 64, column-major, ldb = 576
//     C  M x 64, row-major, ldc = 64
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_bf16_rc_Mx64x576_i56x56x64_3x3_p1x1_s2x2_naive_16x16
// Made by gemmgen generate '?x64x576' --dtype bf16 --inputs im2col=56x56x64_3x3_p1x1_s2x2 --layout rc --arch sm_90 --family naive

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
    static constexpr int N = 64;
    static constexpr int K = 576;
    static constexpr int lda = 64;
    static constexpr int ldb = 576;
    static constexpr int ldc = 64;
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
gemm_bf16_rc_Mx64x576_sm90_5f084b37(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, int M, float alpha, float beta)
{
    const Shape s{M};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;
    const int q = m % Q, p = m / Q % P, image = m / (P * Q);  // the output pixel

    float acc = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const int channel = k % CHANNELS, tap = k / CHANNELS;
        const int y = p * STRIDE_H - PAD_H + tap / S * DILATION_H;
        const int x = q * STRIDE_W - PAD_W + tap % S * DILATION_W;
        const bool inside = y >= 0 && y < H && x >= 0 && x < W;  // padding is zeros
        const float a = inside ? static_cast<float>(A[((Offset(image) * H + y) * W + x) * s.lda + channel]) : 0.0f;
        const float b = B[Offset(n) * s.ldb + k];
        acc = fmaf(a, b, acc);
    }
    BF16* const to = C + Offset(m) * s.ldc + n;
    *to = BF16(beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc));  // beta = 0 leaves C unread
}
