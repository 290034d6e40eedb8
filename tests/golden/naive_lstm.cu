// gemm_bf16_rc_Mx1024x2048_lstm_sm90_18831785
//
//     C = sigmoid(acc4) * tanh(aux(sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)))
//     acc = A * B1, acc2 = A * B2, acc3 = A * B3, acc4 = A * B4, B1, B2, B3 and B4 side by side in B; bf16;
//     sums in f32 on CUDA cores
//
//     A  M x 2048, row-major, lda = 2048
//     B  2048 x 4096, column-major, ldb = 2048
//     C  M x 1024, row-major, ldc = 1024
//     residual  M x 1024, row-major, ld_residual = 1024
//     aux  M x 1024, row-major, ldc = 1024
//
// Block   16 x 16 of C by 256 threads
// Bound   global memory: every FMA takes two reads of it, most of which caches serve
//
// Launch  ceil(M / 16) * ceil(N / 16) blocks of 256 threads
// Expects A, B, C, residual and aux at addresses divisible by 16, C and aux overlapping no other operand
// Config  gemm_bf16_rc_Mx1024x2048_lstm_naive_16x16
// Made by gemmgen generate '?x1024x2048' --dtype bf16 --layout rc --epilogue 'sigmoid(acc4) * tanh(aux(sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)))' --arch sm_90 --family naive

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
    static constexpr int N = 1024;
    static constexpr int K = 2048;
    static constexpr int lda = 2048;
    static constexpr int ldb = 2048;
    static constexpr int ldc = 1024;
    static constexpr int ld_residual = 1024;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 16;  // rows of C that a block computes
constexpr int BN = 16;  // columns of C that a block computes

// Work split
constexpr int THREADS = BM * BN;  // threads a block

static_assert(BM >= 1 and BN >= 1, "a tile holds at least one element");

__device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    const float* residual;
    float* aux;
};

// C's new element; c is the old one, or 0 where beta = 0:
// sigmoid(acc4) * tanh(aux(sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)))
__device__ __forceinline__ float epilogue(const Epilogue& e, Shape s, int m, int n, float acc, float acc2, float acc3,
                                          float acc4, float& aux)
{
    const float residual = e.residual[Offset(m) * s.ld_residual + n];
    const float x = sigmoid(acc2);
    aux = fmaf(x, tanhf(acc3), sigmoid(acc) * residual);
    return sigmoid(acc4) * tanhf(aux);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_bf16_rc_Mx1024x2048_lstm_sm90_18831785(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, const float* __restrict__ residual,
    float* __restrict__ aux, int M)
{
    const Shape s{M};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;

    float acc = 0.0f, acc2 = 0.0f, acc3 = 0.0f, acc4 = 0.0f;
    for (int k = 0; k < s.K; ++k) {
        const float a = A[Offset(m) * s.lda + k];
        const float b = B[Offset(n) * s.ldb + k];
        acc = fmaf(a, b, acc);
        const float b2 = B[Offset(s.N + n) * s.ldb + k];  // of the second matrix, beside the first
        acc2 = fmaf(a, b2, acc2);
        const float b3 = B[Offset(2 * s.N + n) * s.ldb + k];  // of the third matrix, beside the first
        acc3 = fmaf(a, b3, acc3);
        const float b4 = B[Offset(3 * s.N + n) * s.ldb + k];  // of the fourth matrix, beside the first
        acc4 = fmaf(a, b4, acc4);
    }
    BF16* const to = C + Offset(m) * s.ldc + n;
    const Epilogue e = {residual, aux};
    float aux_value;
    *to = BF16(epilogue(e, s, m, n, acc, acc2, acc3, acc4, aux_value));
    e.aux[Offset(m) * s.ldc + n] = aux_value;
}
