// gemm_bf16_rc_512x512x512_sm90_42bb0bc0
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on tensor cores; C is read unless beta = 0, A and B always
//
//     A  512 x 512, row-major, lda = 512
//     B  512 x 512, column-major, ldb = 512
//     C  512 x 512, row-major, ldc = 512
//
// Block   64 x 64 of C by 128 threads, in k tiles of 32, 15360 bytes of shared memory
// Warp    32 x 32 of C: for each 16 k 4 products of 16 x 16 x 16
// Stages  one: nothing is multiplied while a k tile is copied
//
// Launch  ceil(M / 64) * ceil(N / 64) blocks of 128 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_bf16_rc_512x512x512_wmma_64x64x32_w32x32
// Made by gemmgen generate 512x512x512 --dtype bf16 --layout rc --arch sm_90 --family wmma

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
    static constexpr int M = 512;
    static constexpr int N = 512;
    static constexpr int K = 512;
    static constexpr int lda = 512;
    static constexpr int ldb = 512;
    static constexpr int ldc = 512;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 64;  // rows of C that a block computes
constexpr int BN = 64;  // columns of C that a block computes
constexpr int BK = 32;  // depth of a k tile
constexpr int WM = 32;  // rows of C that a warp computes
constexpr int WN = 32;  // columns of C that a warp computes

// Work split
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);  // threads a block
constexpr int WARPS = THREADS / 32;                  // warps a block
constexpr int FRAGMENTS_M = WM / 16;                 // fragments down a warp's tile
constexpr int FRAGMENTS_N = WN / 16;                 // fragments across a warp's tile
constexpr int PITCH_A = BK + 8;                      // elements from a line of A's tile to the next
constexpr int PITCH_B = BK + 8;                      // elements from a line of B's tile to the next
constexpr int PITCH_SUMS = 20;                       // floats from a line of a fragment's sums to the next

static_assert(BM % WM == 0, "warps split a block's rows evenly");
static_assert(BN % WN == 0, "warps split a block's columns evenly");
static_assert(WM % 16 == 0 and WN % 16 == 0, "a fragment has 16 rows and columns");
static_assert(BK % 16 == 0, "an instruction sums over 16 k");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");
static_assert(Shape::K % BK == 0, "tiles end where K does: no access is checked for that");

using TileA = BF16[BM][PITCH_A];  // A's tile in shared memory: [m][k]
using TileB = BF16[BN][PITCH_B];  // B's tile in shared memory: [n][k]

// Fragments of a warp's product of 16 x 16 x 16. Which lane has which element is left open: only the functions below
// know.
struct FragmentA {
    unsigned registers[4];
};
struct FragmentB {
    unsigned registers[4];
};
struct Accumulator {
    float registers[8];
};

// A's 16 rows of 16 from shared memory, `ld` elements apart: 8 divides that, and 32 bytes the first one's address.
__device__ __forceinline__ void wmma_load_a_row(FragmentA& a, const void* rows, int ld)
{
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(rows));
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(a.registers[0]), "=r"(a.registers[1]), "=r"(a.registers[2]), "=r"(a.registers[3])
                 : "r"(from), "r"(ld)
                 : "memory");
}

// B's 16 columns of 16 from shared memory, `ld` elements apart: 8 divides that, and 32 bytes the first one's address.
__device__ __forceinline__ void wmma_load_b_col(FragmentB& b, const void* columns, int ld)
{
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(columns));
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(b.registers[0]), "=r"(b.registers[1]), "=r"(b.registers[2]), "=r"(b.registers[3])
                 : "r"(from), "r"(ld)
                 : "memory");
}

// d += a * b.
__device__ __forceinline__ void wmma_row_col_bf16(Accumulator& d, const FragmentA& a, const FragmentB& b)
{
    asm volatile(
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, "
        "{%12, %13, %14, %15}, {%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(d.registers[0]), "+f"(d.registers[1]), "+f"(d.registers[2]), "+f"(d.registers[3]), "+f"(d.registers[4]),
            "+f"(d.registers[5]), "+f"(d.registers[6]), "+f"(d.registers[7])
        : "r"(a.registers[0]), "r"(a.registers[1]), "r"(a.registers[2]), "r"(a.registers[3]), "r"(b.registers[0]),
        "r"(b.registers[1]), "r"(b.registers[2]), "r"(b.registers[3]));
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
__device__ __forceinline__ void copy_a(const BF16* A, Shape s, int tile_m, int tile_k, TileA& shared)
{
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
        const int line = i / BK, at = i % BK;
        const int m = tile_m + line, k = tile_k + at;
        shared[line][at] = A[Offset(m) * s.lda + k];
    }
}

// This thread's elements of B's tile from `n` and `k` on, neighbours' side by side; beyond an edge there are zeros.
__device__ __forceinline__ void copy_b(const BF16* B, Shape s, int tile_n, int tile_k, TileB& shared)
{
    for (int i = threadIdx.x; i < BN * BK; i += THREADS) {
        const int line = i / BK, at = i % BK;
        const int n = tile_n + line, k = tile_k + at;
        shared[line][at] = B[Offset(n) * s.ldb + k];
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_bf16_rc_512x512x512_sm90_42bb0bc0(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, float alpha, float beta)
{
    __shared__ __align__(32) TileA As;
    __shared__ __align__(32) TileB Bs;
    __shared__ __align__(32) float sums[WARPS][16][PITCH_SUMS];  // a fragment of each warp, on its way to C
    const Shape s{};
    const int columns = (s.N + BN - 1) / BN;  // of tiles
    const int tile_m = blockIdx.x / columns * BM, tile_n = blockIdx.x % columns * BN;
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
            for (int i = 0; i < FRAGMENTS_M; ++i) wmma_load_a_row(a[i], &As[warp_m + 16 * i][step], PITCH_A);
            #pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) wmma_load_b_col(b[j], &Bs[warp_n + 16 * j][step], PITCH_B);
            #pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) {
                #pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) wmma_row_col_bf16(acc[i][j], a[i], b[j]);
            }
        }
        __syncthreads();  // no thread reads the k tile any more
    }

    #pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i) {
        #pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j) {
            wmma_store(sums[warp][0], acc[i][j], PITCH_SUMS);
            __syncwarp();  // other lanes' sums are there, too
            for (int element = lane; element < 16 * 16; element += 32) {
                const int row = element / 16, column = element % 16;
                const int m = tile_m + warp_m + 16 * i + row, n = tile_n + warp_n + 16 * j + column;
                const float acc_mn = sums[warp][row][column];
                BF16* const to = C + Offset(m) * s.ldc + n;
                // beta = 0 leaves C unread
                *to = BF16(beta == 0.0f ? alpha * acc_mn : fmaf(beta, *to, alpha * acc_mn));
            }
            __syncwarp();  // no lane reads these sums any more
        }
    }
}
