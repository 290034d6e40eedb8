// gemm_bf16_rc_1x16384x16384_sm90_00b40872
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  1 x 16384, row-major, lda = 16384
//     B  16384 x 16384, column-major, ldb = 16384
//     C  1 x 16384, row-major, ldc = 16384
//
// Block   1 x 16 of C by 128 threads, 80 bytes of shared memory
// Thread  4 elements of C, over 1/32 of K: the sums of 32 threads are added up at the end
// Weights the elements of B, each multiplied by those of A, the small operand, at the same k
// Reads   each weight once, to a register, with 34816 bytes of a block in flight; 0.941 FLOP for a byte of global
//         memory
// Cached  A, which every warp reads again: L1 serves most of it
// Bound   global memory: too few FLOP for each byte, on every known card
//
// Launch  M * ceil(N / 16) blocks of 128 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_bf16_rc_1x16384x16384_skinny_s1_t4_w4_k0_u4_v4_split1
// Made by gemmgen generate 1x16384x16384 --dtype bf16 --layout rc --arch sm_90 --family skinny --set UNROLL=4

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
    static constexpr int M = 1;
    static constexpr int N = 16384;
    static constexpr int K = 16384;
    static constexpr int lda = 16384;
    static constexpr int ldb = 16384;
    static constexpr int ldc = 16384;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int S = 1;       // lines (rows or columns) of the small operand in a block: uses of a weight
constexpr int T = 4;       // elements along C's long side that a thread sums
constexpr int WARPS = 4;   // warps of a block
constexpr int UNROLL = 4;  // steps along K whose weights are under way at once

// Work split
constexpr int THREADS = 32 * WARPS;  // threads a block
constexpr int MINB = 1;              // blocks that must fit an SM at once: more would cost loads under way
constexpr int BM = S;                // rows of C that a block computes
constexpr int BN = WARPS * T;        // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 8;          // elements of an access to the weights
constexpr int LOADS = T;       // accesses of a thread a step
constexpr int STEP = 32 * VW;  // k that a block takes in a step
constexpr int LANE_K = VW;     // k that a lane takes in a step
constexpr int XW = 8;          // elements of an access to the small operand

// Shared memory
constexpr int SUMS_PITCH = BN + 4;                     // floats from one line of sums to the next
constexpr int PARTIALS = 1;                            // sums of each element of C that meet in shared memory
constexpr int SUMS_WORDS = PARTIALS * S * SUMS_PITCH;  // floats of the sums at the end

// Shared memory, in all
constexpr int SHARED_WORDS = SUMS_WORDS;  // floats of shared memory

static_assert(S * T <= 256, "larger tiles of sums exceed the registers");
static_assert(2 * UNROLL * STEP <= 2048, "loads that run ahead stay near the edge of K");
static_assert(32 % (S * T) == 0 or S * T % 32 == 0, "lanes halve the sums until each has its own");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// Element i of those that share 32 bits, from the lowest on.
template <typename E>
__device__ __forceinline__ float unpack(unsigned word, int i);
template <>
__device__ __forceinline__ float unpack<BF16>(unsigned word, int i)
{
    return __uint_as_float(i == 0 ? word << 16 : word & 0xffff0000u);
}

// N elements that move as one access. They stay packed until each is used: to take one out is to wait for the load.
template <typename E, int N>
struct alignas(sizeof(E) * N) Packed {
    static constexpr int EACH = 4 / sizeof(E);
    unsigned words[N / EACH];

    __device__ __forceinline__ float operator[](int i) const { return unpack<E>(words[i / EACH], i % EACH); }
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

using Chunk = Packed<BF16, XW>[S][VW / XW];  // of A in registers, an access along its lines

// This thread's first weights, from the block's: T columns per warp, whose lanes take neighbouring vectors along k.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {lane * VW, warp * T};
}

// Start the loads of one step: VW k from `k` on of the warp's T columns of B, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const BF16* B, Shape s, int k, int end, int n, Packed<BF16, VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int t = 0; t < T; ++t) {
        const bool exists = k < end;
        const int valid = exists ? VW : 0;
        weights[t] = load_edge<VW>(B + Offset(n + t) * s.ldb + k, valid);
    }
}

// acc += A's S values times the weights of T columns, over VW k from `k` on: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const Packed<BF16, VW> (&weights)[LOADS],
                                    float (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        #pragma unroll
        for (int v = 0; v < VW; ++v) {
            const float x = chunk[i][v / XW][v % XW];
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i][t] = fmaf(x, weights[t][v], acc[i][t]);
        }
    }
}

// Sums COUNT values over the 32 lanes of a warp. Each of five steps pairs lanes 16, 8, 4, 2, 1 apart: one of a pair
// keeps the first half of the values and the other the second, until one is left, which both keep.
// Lane l ends with the sums of values l * COUNT / 32 and, where COUNT > 32, of the next COUNT / 32 - 1.
// Steps are template arguments so that every index is a constant early: in a loop over them values went to local
// memory.
template <int DISTANCE, int COUNT>
__device__ __forceinline__ void warp_sum(float (&values)[COUNT])
{
    constexpr bool HALVED = COUNT * DISTANCE >= 32;
    constexpr int KEPT = HALVED ? COUNT * DISTANCE / 32 : 1;  // values after this step
    #pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const bool second = threadIdx.x & DISTANCE;
        const float first = values[i], last = values[HALVED ? KEPT + i : i];
        const float kept = second ? last : first, sent = second ? first : last;
        values[i] = kept + __shfl_xor_sync(0xffffffffu, sent, DISTANCE);
    }
    if constexpr (DISTANCE > 1) warp_sum<DISTANCE / 2>(values);
}

// Reduce the sums of a warp's lanes, each over its own k, and store them to shared memory.
__device__ __forceinline__ void store_sums(float (&acc)[S][T], ThreadOrigin thread, Sums* sums)
{
    float (&values)[S * T] = reinterpret_cast<float (&)[S * T]>(acc);
    warp_sum<16>(values);
    const int first = threadIdx.x % 32 * (S * T);  // 32 times the number of this lane's first sum
    if (first % 32 != 0) return;                   // a lane before it has the same sum
    #pragma unroll
    for (int i = 0; i < (S * T + 31) / 32; ++i) {
        const int value = first / 32 + i;
        sums[0][value / T][thread.n + value % T] = values[i];
    }
}

// Start the loads of what one step's weights are multiplied by: A's S values at each of this thread's k from `k` on, or
// zeros beyond its edges.
__device__ __forceinline__ void fetch_small(const BF16* A, Shape s, int m, int k, int end, Chunk& chunk)
{
    #pragma unroll
    for (int line = 0; line < S; ++line) {
        #pragma unroll
        for (int depth = 0; depth < LANE_K; depth += XW) {
            const bool exists = k + depth < end;
            const int valid = exists ? XW : 0;
            chunk[line][depth / XW] = load_edge<XW>(A + Offset(m + line) * s.lda + k + depth, valid);
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
gemm_bf16_rc_1x16384x16384_sm90_00b40872(
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

    float acc[S][T] = {};
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
