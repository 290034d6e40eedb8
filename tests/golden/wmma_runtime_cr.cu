// gemm_f16f16f32_cr_bB_Mx320x200_bias_gelu_row_amax_sm90_981f9f94
//
//     C = row_amax(gelu(alpha * acc + beta * C + bias_n))      acc = A * B; A f16, B f16, C f32;
//                                                              sums in f32 on tensor cores;
//                                                              C is read unless beta = 0, A and B always
//     for each of a batch's products
//
//     A  M x 200, column-major, lda at run time, stride_a at run time
//     B  200 x 320, row-major, ldb = 320, stride_b = 64000
//     C  M x 320, row-major, ldc = 320, stride_c at run time
//     bias_n  320 elements, one a column of C; the same for all products
//     row_amax  M elements, one a row of C: the largest |x| of its row_amax(x), NaN where one is NaN;
//               another for each product
//
// Block   64 x 64 of C by 128 threads, in k tiles of 16, 9728 bytes of shared memory
// Warp    32 x 32 of C: for each 16 k 4 products of 16 x 16 x 16
// Stages  one: nothing is multiplied while a k tile is copied
//
// Launch  ceil(M / 64) * ceil(N / 64) * batch blocks of 128 threads
// Expects A, B, C, bias_n and row_amax at addresses divisible by 16, C and row_amax overlapping no other operand,
//         no two matrices of C that overlap,
//         row_amax holding 0 before every launch
// Config  gemm_f16f16f32_cr_bB_Mx320x200_bias_gelu_row_amax_wmma_64x64x16_w32x32
// Made by gemmgen generate '?x320x200' --types f16,f16,f32 --layout cr --batch '?' --epilogue 'row_amax(gelu(alpha * acc + beta * C + bias_n))' --arch sm_90 --family wmma --set BK=16

namespace {

// A half, IEEE 754's binary16.
struct F16 {
    unsigned short bits;
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 320;
    static constexpr int K = 200;
    int lda;
    static constexpr int ldb = 320;
    static constexpr int ldc = 320;
    int batch;
    long long stride_a;
    static constexpr long long stride_b = 64000;
    long long stride_c;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 64;  // rows of C that a block computes
constexpr int BN = 64;  // columns of C that a block computes
constexpr int BK = 16;  // depth of a k tile
constexpr int WM = 32;  // rows of C that a warp computes
constexpr int WN = 32;  // columns of C that a warp computes

// Work split
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);  // threads a block
constexpr int WARPS = THREADS / 32;                  // warps a block
constexpr int FRAGMENTS_M = WM / 16;                 // fragments down a warp's tile
constexpr int FRAGMENTS_N = WN / 16;                 // fragments across a warp's tile
constexpr int PITCH_A = BM + 8;                      // elements from a line of A's tile to the next
constexpr int PITCH_B = BN + 8;                      // elements from a line of B's tile to the next
constexpr int PITCH_SUMS = 20;                       // floats from a line of a fragment's sums to the next

static_assert(BM % WM == 0, "warps split a block's rows evenly");
static_assert(BN % WN == 0, "warps split a block's columns evenly");
static_assert(WM % 16 == 0 and WN % 16 == 0, "a fragment has 16 rows and columns");
static_assert(BK % 16 == 0, "an instruction sums over 16 k");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

using TileA = F16[BK][PITCH_A];  // A's tile in shared memory: [k][m]
using TileB = F16[BK][PITCH_B];  // B's tile in shared memory: [k][n]

// Fragments of a warp's product of 16 x 16 x 16. Which lane has which element is left open: only the functions below
// know.
struct FragmentA {
    unsigned registers[8];
};
struct FragmentB {
    unsigned registers[8];
};
struct Accumulator {
    float registers[8];
};

// A's 16 columns of 16 from shared memory, `ld` elements apart: 8 divides that, and 32 bytes the first one's address.
__device__ __forceinline__ void wmma_load_a_col(FragmentA& a, const void* columns, int ld)
{
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(columns));
    asm volatile("wmma.load.a.sync.aligned.col.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
                 : "=r"(a.registers[0]), "=r"(a.registers[1]), "=r"(a.registers[2]), "=r"(a.registers[3]),
                     "=r"(a.registers[4]), "=r"(a.registers[5]), "=r"(a.registers[6]), "=r"(a.registers[7])
                 : "r"(from), "r"(ld)
                 : "memory");
}

// B's 16 rows of 16 from shared memory, `ld` elements apart: 8 divides that, and 32 bytes the first one's address.
__device__ __forceinline__ void wmma_load_b_row(FragmentB& b, const void* rows, int ld)
{
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(rows));
    asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
                 : "=r"(b.registers[0]), "=r"(b.registers[1]), "=r"(b.registers[2]), "=r"(b.registers[3]),
                     "=r"(b.registers[4]), "=r"(b.registers[5]), "=r"(b.registers[6]), "=r"(b.registers[7])
                 : "r"(from), "r"(ld)
                 : "memory");
}

// d += a * b.
__device__ __forceinline__ void wmma_col_row_f16(Accumulator& d, const FragmentA& a, const FragmentB& b)
{
    asm volatile(
        "wmma.mma.sync.aligned.col.row.m16n16k16.f32.f32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19, %20, %21, %22, %23}, {%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(d.registers[0]), "+f"(d.registers[1]), "+f"(d.registers[2]), "+f"(d.registers[3]), "+f"(d.registers[4]),
            "+f"(d.registers[5]), "+f"(d.registers[6]), "+f"(d.registers[7])
        : "r"(a.registers[0]), "r"(a.registers[1]), "r"(a.registers[2]), "r"(a.registers[3]), "r"(a.registers[4]),
        "r"(a.registers[5]), "r"(a.registers[6]), "r"(a.registers[7]), "r"(b.registers[0]), "r"(b.registers[1]),
        "r"(b.registers[2]), "r"(b.registers[3]), "r"(b.registers[4]), "r"(b.registers[5]), "r"(b.registers[6]),
        "r"(b.registers[7]));
}

// The 16 rows of d to shared memory, `ld` floats apart: 4 divides that, and 32 bytes the first one's address.
__device__ __forceinline__ void wmma_store(float* rows, const Accumulator& d, int ld)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(rows));
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;"
                 :
                 : "r"(to), "f"(d.registers[0]), "f"(d.registers[1]), "f"(d.registers[2]), "f"(d.registers[3]),
                     "f"(d.registers[4]), "f"(d.registers[5]), "f"(d.registers[6]), "f"(d.registers[7]), "r"(ld)
                 : "memory");
}

// This thread's elements of A's tile from `m` and `k` on, neighbours' side by side; beyond an edge there are zeros.
__device__ __forceinline__ void copy_a(const F16* A, Shape s, int tile_m, int tile_k, TileA& shared)
{
    for (int i = threadIdx.x; i < BK * BM; i += THREADS) {
        const int line = i / BM, at = i % BM;
        const int m = tile_m + at, k = tile_k + line;
        shared[line][at] = m < s.M && k < s.K ? A[Offset(k) * s.lda + m] : F16{};
    }
}

// This thread's elements of B's tile from `n` and `k` on, neighbours' side by side; beyond an edge there are zeros.
__device__ __forceinline__ void copy_b(const F16* B, Shape s, int tile_n, int tile_k, TileB& shared)
{
    for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
        const int line = i / BN, at = i % BN;
        const int n = tile_n + at, k = tile_k + line;
        shared[line][at] = k < s.K ? B[Offset(k) * s.ldb + n] : F16{};
    }
}

// A magnitude's bits, which are in the order of magnitudes, with NaN above all of them.
using Magnitude = unsigned;

__device__ __forceinline__ Magnitude magnitude(float value)
{
    return __float_as_uint(value) & 0x7fffffffu;
}

// *to, which other blocks raise as well, becomes `value` if it is smaller.
__device__ __forceinline__ void raise_amax(float* to, Magnitude value)
{
    atomicMax(reinterpret_cast<Magnitude*>(to), value);
}

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
    float alpha, beta;
    const float* bias_n;
    float* row_amax;
};

// C's new element; c is the old one, or 0 where beta = 0:
// row_amax(gelu(alpha * acc + beta * C + bias_n))
// row_amax is the largest magnitude so far, which this may raise.
__device__ __forceinline__ float epilogue(const Epilogue& e, int n, float acc, float c, Magnitude& row_amax)
{
    const float bias_n = e.bias_n[n];
    const float x = fmaf(e.alpha, acc, e.beta == 0.0f ? bias_n : fmaf(e.beta, c, bias_n));
    const float x2 = gelu(x);
    row_amax = max(row_amax, magnitude(x2));
    return x2;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f16f16f32_cr_bB_Mx320x200_bias_gelu_row_amax_sm90_981f9f94(
    const F16* __restrict__ A, const F16* __restrict__ B, float* __restrict__ C, const float* __restrict__ bias_n,
    float* __restrict__ row_amax, int M, int lda, int batch, long long stride_a, long long stride_c, float alpha,
    float beta)
{
    __shared__ __align__(32) TileA As;
    __shared__ __align__(32) TileB Bs;
    __shared__ __align__(32) float sums[WARPS][16][PITCH_SUMS];  // a fragment of each warp, on its way to C
    const Shape s{M, lda, batch, stride_a, stride_c};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int rows = (s.M + BM - 1) / BM;
    const int matrix = blockIdx.x / (rows * columns);
    A += matrix * s.stride_a;
    B += matrix * s.stride_b;
    C += matrix * s.stride_c;
    row_amax += static_cast<long long>(matrix) * s.M;
    const int tile_m = blockIdx.x / columns % rows * BM, tile_n = blockIdx.x % columns * BN;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;  // the warp's place in the tile

    Accumulator acc[FRAGMENTS_M][FRAGMENTS_N] = {};
    for (int k = 0; k < s.K; k += BK) {
        copy_a(A, s, tile_m, k, As);
        copy_b(B, s, tile_n, k, Bs);
        __syncthreads();  // the k tile is complete
        #pragma unroll
        for (int step = 0; step < BK; step += 16) {
            FragmentA a[FRAGMENTS_M];
            FragmentB b[FRAGMENTS_N];
            #pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) wmma_load_a_col(a[i], &As[step][warp_m + 16 * i], PITCH_A);
            #pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) wmma_load_b_row(b[j], &Bs[step][warp_n + 16 * j], PITCH_B);
            #pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) {
                #pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) wmma_col_row_f16(acc[i][j], a[i], b[j]);
            }
        }
        __syncthreads();  // no thread reads the k tile any more
    }

    const Epilogue e = {alpha, beta, bias_n, row_amax};
    #pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i) {
        #pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j) {
            wmma_store(sums[warp][0], acc[i][j], PITCH_SUMS);
            __syncwarp();  // other lanes' sums are there, too
            for (int element = lane; element < 16 * 16; element += 32) {
                const int row = element / 16, column = element % 16;
                const int m = tile_m + warp_m + 16 * i + row, n = tile_n + warp_n + 16 * j + column;
                if (m >= s.M) continue;
                const float acc_mn = sums[warp][row][column];
                float* const to = C + Offset(m) * s.ldc + n;
                Magnitude row_amax_value = 0;
                *to = epilogue(e, n, acc_mn, e.beta == 0.0f ? 0.0f : *to, row_amax_value);
                raise_amax(e.row_amax + m, row_amax_value);
            }
            __syncwarp();  // no lane reads these sums any more
        }
    }
}
