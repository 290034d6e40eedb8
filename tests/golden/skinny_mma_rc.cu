// gemm_bf16_rc_8x4096x4096_sm90_168b91c7
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on tensor cores; C is read unless beta = 0, A and B always
//
//     A  8 x 4096, row-major, lda = 4096
//     B  4096 x 4096, column-major, ldb = 4096
//     C  8 x 4096, row-major, ldc = 4096
//
// Block   8 x 16 of C by 128 threads, 2560 bytes of shared memory
// Warp    8 x 16 of C on tensor cores, over 1/4 of K: the sums of 4 warps are added up at the end
// Weights the elements of B, each multiplied by those of A, the small operand, at the same k
// Reads   each weight once, to a register, with 24576 bytes of a block in flight; 5.33 FLOP for a byte of global memory
// Cached  A, which every warp reads again: L1 serves most of it
// Bound   global memory: too few FLOP for each byte, on every known card
//
// Launch  ceil(M / 8) * ceil(N / 16) blocks of 128 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_bf16_rc_8x4096x4096_skinny_s8_t16_w4_k0_u4_mma1_v4_split1
// Made by gemmgen generate 8x4096x4096 --dtype bf16 --layout rc --arch sm_90 --family skinny --set T=16 --set BK=0 --set UNROLL=4 --set MMA=1

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
    static constexpr int M = 8;
    static constexpr int N = 4096;
    static constexpr int K = 4096;
    static constexpr int lda = 4096;
    static constexpr int ldb = 4096;
    static constexpr int ldc = 4096;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int S = 8;       // lines (rows or columns) of the small operand in a block: uses of a weight
constexpr int T = 16;      // elements along C's long side that a warp sums
constexpr int WARPS = 4;   // warps of a block
constexpr int UNROLL = 4;  // steps along K whose weights are under way at once

// Work split
constexpr int THREADS = 32 * WARPS;  // threads a block
constexpr int MINB = 1;              // blocks that must fit an SM at once: more would cost loads under way
constexpr int BM = S;                // rows of C that a block computes
constexpr int BN = T;                // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 8;                 // elements of an access to the weights
constexpr int LOADS = T / 8;          // accesses of a thread a step
constexpr int STEP = 4 * VW * WARPS;  // k that a block takes in a step
constexpr int LANE_K = VW;            // k that a lane takes in a step
constexpr int XW = 8;                 // elements of an access to the small operand

// Shared memory
constexpr int SUMS_PITCH = BN + 4;                     // floats from one line of sums to the next
constexpr int PARTIALS = WARPS;                        // sums of each element of C that meet in shared memory
constexpr int SUMS_WORDS = PARTIALS * S * SUMS_PITCH;  // floats of the sums at the end

// Shared memory, in all
constexpr int SHARED_WORDS = SUMS_WORDS;  // floats of shared memory

static_assert(S * T <= 256, "larger tiles of sums exceed the registers");
static_assert(2 * UNROLL * STEP <= 2048, "loads that run ahead stay near the edge of K");
static_assert(S % 8 == 0, "an instruction takes 8 lines of the small operand");
static_assert(XW % 2 == 0, "loads of the small operand bring whole pairs of k");
static_assert(T % 16 == 0 and VW % 4 == 0, "a warp takes 16 lines of weights at once");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// N elements that move as one access. They stay packed until each is used: to take one out is to wait for the load.
template <typename E, int N>
struct alignas(sizeof(E) * N) Packed {
    static constexpr int EACH = 4 / sizeof(E);
    unsigned words[N / EACH];
};

template <int N, typename E>
__device__ __forceinline__ Packed<E, N> load_packed(const E* from)
{
    return *reinterpret_cast<const Packed<E, N>*>(from);
}

// The first `valid` of N elements, the rest zero: one access where all exist, else one by one.
template <int N, typename E>
__device__ __forceinline__ Packed<E, N> load_edge(const E* from, int valid)
{
    if (valid >= N) return load_packed<N>(from);
    alignas(Packed<E, N>) E some[N] = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) some[i] = from[i];
    }
    return load_packed<N>(some);
}

// Where a thread starts: k and column n of C.
struct ThreadOrigin {
    int k, n;
};

using Sums = float[S][SUMS_PITCH];  // one of each element of a block's tile: [m][n]

// d += a * b, 16 x 8 x 16, by a warp. Lane 4 g + t holds of d columns 2 t and 2 t + 1 in row g and every 8th
// after it; of a the same rows, of b column g, each at k = 2 t to 2 t + 1, and every 8 further on.
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

using Chunk = Packed<BF16, XW>[S / 8][VW / XW];  // A's part of a step in this thread's registers: [m / 8][k]
using Accumulators = float[S / 8][T / 16][4];  // by instructions: 8 lines of A times 16 of B

// This thread's first weights, from the block's: lane 4 g + t takes vector t of its warp's four, in line g and every
// 8th after it.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {(warp * 4 + lane % 4) * VW, lane / 4};
}

// Start the loads of one step: VW k from `k` on of every 8th of the columns of B, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const BF16* B, Shape s, int k, int end, int n, Packed<BF16, VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const bool exists = k < end;
        const int valid = exists ? VW : 0;
        weights[i] = load_edge<VW>(B + Offset(n + 8 * i) * s.ldb + k, valid);
    }
}

// Start the loads of this thread's part of A for one step's weights: LANE_K k from `k` on, of line l / 4 in lane l and
// of every 8th after it, or zeros beyond its edges.
__device__ __forceinline__ void fetch_small(const BF16* A, Shape s, int tile_m, int k, int end, Chunk& chunk)
{
    const int m = tile_m + threadIdx.x % 32 / 4;
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) {
        #pragma unroll
        for (int depth = 0; depth < LANE_K; depth += XW) {
            const bool exists = k + depth < end;
            const int valid = exists ? XW : 0;
            chunk[i][depth / XW] = load_edge<XW>(A + Offset(m + 8 * i) * s.lda + k + depth, valid);
        }
    }
}

// Two neighbouring k of a line, as a register of a fragment.
__device__ __forceinline__ unsigned two_k(const Packed<BF16, XW> (&line)[LANE_K / XW], int k)
{
    return line[k / XW].words[k % XW / 2];
}

// acc += the products of a step: weights are the instruction's 16 rows (a), the small operand its 8 columns (b). The
// order of k is free if both agree: a lane passes the neighbouring k that its loads brought, four to each instruction.
__device__ __forceinline__ void mma(const Chunk& chunk, int, const Packed<BF16, VW> (&weights)[LOADS],
                                    Accumulators& acc)
{
    #pragma unroll
    for (int k = 0; k < VW; k += 4) {
        #pragma unroll
        for (int i = 0; i < S / 8; ++i) {
            const unsigned b[] = {two_k(chunk[i], k), two_k(chunk[i], k + 2)};
            #pragma unroll
            for (int j = 0; j < T / 16; ++j) {
                const auto &upper = weights[2 * j].words, &lower = weights[2 * j + 1].words;
                const unsigned a[] = {upper[k / 2], lower[k / 2], upper[k / 2 + 1], lower[k / 2 + 1]};
                mma_m16n8k16_bf16(acc[i][j], a, b);
            }
        }
    }
}

// Store this thread's sums, over the k of its warp, to shared memory.
__device__ __forceinline__ void store_sums(const Accumulators& acc, ThreadOrigin thread, Sums* sums)
{
    const int warp = threadIdx.x / 32, line = threadIdx.x % 4 * 2;
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) {
        #pragma unroll
        for (int j = 0; j < T / 16; ++j) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) sums[warp][8 * i + line + v % 2][thread.n + 16 * j + v / 2 * 8] = acc[i][j][v];
        }
    }
}

// C = alpha * sums + beta * C for this thread's elements that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void store_c(BF16* C, Shape s, int tile_m, int tile_n, const float (&sums)[OUTPUTS],
                                        float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        BF16* const to = C + Offset(m) * s.ldc + n;
        *to = BF16(beta == 0.0f ? alpha * sums[i] : fmaf(beta, *to, alpha * sums[i]));  // beta = 0 leaves C unread
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_bf16_rc_8x4096x4096_sm90_168b91c7(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, float alpha, float beta)
{
    __shared__ __align__(16) float shared[SHARED_WORDS];
    Sums* const block_sums = reinterpret_cast<Sums*>(shared);  // PARTIALS of each element, at the end

    const Shape s{};
    const int tile = blockIdx.x;
    const int begin = 0, end = s.K;
    const int tiles_along = (s.M + BM - 1) / BM;  // along M: they read the same weights, so they run together
    const int tile_m = tile % tiles_along * BM, tile_n = tile / tiles_along * BN;
    const ThreadOrigin thread = thread_origin();
    const int n = tile_n + thread.n;

    // A ring of registers: a step's weights, and A's values for them, are loaded UNROLL steps before their use.
    Packed<BF16, VW> weights[UNROLL][LOADS];
    Chunk chunks[UNROLL];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        fetch(B, s, begin + thread.k + u * STEP, end, n, weights[u]);
        fetch_small(A, s, tile_m, begin + thread.k + u * STEP, end, chunks[u]);
    }

    Accumulators acc = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int next = thread.k + k + (u + UNROLL) * STEP;
            mma(chunks[u], 0, weights[u], acc);
            fetch(B, s, next, end, n, weights[u]);
            fetch_small(A, s, tile_m, next, end, chunks[u]);
        }
    }

    // Reduce the sums of threads at different k, in the order of these.
    store_sums(acc, thread, block_sums);
    __syncthreads();
    float sums[OUTPUTS] = {};
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        #pragma unroll
        for (int p = 0; p < PARTIALS; ++p) sums[i] += block_sums[p][element / BN][element % BN];
    }
    store_c(C, s, tile_m, tile_n, sums, alpha, beta);
}
