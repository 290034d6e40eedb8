// gemm_f32_rr_512x512x512_ep8e2768da_sm90_6e6a3ae7
//
//     C = gelu(alpha * acc + bias_n) + residual      acc = A * B; f32 on CUDA cores; A and B are read even if alpha = 0
//
//     A  512 x 512, row-major, lda = 512
//     B  512 x 512, row-major, ldb = 512
//     C  512 x 512, row-major, ldc = 512
//     residual  512 x 512, row-major, ld_residual = 512
//     bias_n  512 elements, one a column of C
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B, C, bias_n and residual at addresses divisible by 16, C overlapping no other operand
// Config  gemm_f32_rr_512x512x512_ep8e2768da_naive_16x16
// Made by gemmgen generate 512x512x512 --dtype f32 --layout rr --epilogue 'gelu(alpha * acc + bias_n) + residual' --arch sm_90 --family naive

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 512;
    static constexpr int N = 512;
    static constexpr int K = 512;
    static constexpr int lda = 512;
    static constexpr int ldb = 512;
    static constexpr int ldc = 512;
    static constexpr int ld_residual = 512;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 16;  // rows of C that a block computes
constexpr int BN = 16;  // columns of C that a block computes

// Work split
constexpr int THREADS = BM * BN;  // threads a block

static_assert(BM >= 1 and BN >= 1, "a tile holds at least one element");

// 2^x, off by 2^-22 of it at most.
__device__ __forceinline__ float exp2_approx(float x)
{
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}

// The lesser; NaN if one is.
__device__ __forceinline__ float min_or_nan(float a, float b)
{
    float value;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}

// x * Phi(x), of the normal distribution Phi: max(x, 0) - |x| * Phi(-|x|), off by 2 units in the last place of x at
// most.
__device__ __forceinline__ float gelu(float x)
{
    const float t = min_or_nan(fabsf(x), 16.0f);  // of infinity, too, 2^p is a number
    float p = -2.8349123e-06f;  // log2(Phi(-t)), fitted where Phi(-t) counts beside 1
    p = fmaf(p, t, 3.9377686e-05f);
    p = fmaf(p, t, -0.00018618022f);
    p = fmaf(p, t, -0.00013693642f);
    p = fmaf(p, t, 0.00706342f);
    p = fmaf(p, t, -0.05249618f);
    p = fmaf(p, t, -0.4592082f);
    p = fmaf(p, t, -1.1511052f);
    p = fmaf(p, t, -1.0f);
    return fmaf(-t, exp2_approx(p), fmaxf(x, 0.0f));
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    float alpha;
    const float* bias_n;
    const float* residual;
};

// C's new element; c is the old one, or 0 where beta = 0:
// gelu(alpha * acc + bias_n) + residual
__device__ __forceinline__ float epilogue(const Epilogue& e, Shape s, int m, int n, float acc)
{
    const float bias_n = e.bias_n[n];
    const float residual = e.residual[Offset(m) * s.ld_residual + n];
    const float x = fmaf(e.alpha, acc, bias_n);
    return gelu(x) + residual;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f32_rr_512x512x512_ep8e2768da_sm90_6e6a3ae7(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, const float* __restrict__ bias_n,
    const float* __restrict__ residual, float alpha)
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
    const Epilogue e = {alpha, bias_n, residual};
    *to = epilogue(e, s, m, n, acc);
}
