// gemm_f32_rr_1x16384x16384_sm90_06ab372f
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  1 x 16384, row-major, lda = 16384
//     B  16384 x 16384, row-major, ldb = 16384
//     C  1 x 16384, row-major, ldc = 16384
//
// Block   1 x 128 of C by 512 threads, 8448 bytes of shared memory
// Thread  8 elements of C, over 1/32 of K: the sums of 32 threads are added up at the end
// Weights the elements of B, each multiplied by those of A, the small operand, at the same k
// Reads   each weight once, to a register, with 132096 bytes of a block in flight; 0.496 FLOP for a byte of global
//         memory
// Bound   global memory: too few FLOP for each byte, on every known card
//
// Launch  M * ceil(N / 128) blocks of 512 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f32_rr_1x16384x16384_skinny_s1_t8_l16_w16_k256_u8_v4_split1
// Made by gemmgen generate 1x16384x16384 --dtype f32 --layout rr --arch sm_90 --family skinny --set S=1 --set T=8 --set LANES=16 --set WARPS=16 --set UNROLL=8

namespace {

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
constexpr int T = 8;       // elements along C's long side that a thread sums
constexpr int LANES = 16;  // lanes of a warp along C's long side; its other lanes take other k
constexpr int WARPS = 16;  // warps of a block
constexpr int BK = 256;    // k of the small operand that shared memory holds at once
constexpr int UNROLL = 8;  // steps along K whose weights are under way at once

// Work split
constexpr int THREADS = 32 * WARPS;                         // threads a block
constexpr int BM = S;                                       // rows of C that a block computes
constexpr int BN = LANES * T;                               // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 4;                 // floats of an access to the weights
constexpr int LOADS = T / VW;         // accesses of a thread a step
constexpr int GROUPS = 32 / LANES;    // groups of a warp's lanes, each at a k of its own
constexpr int STEP = WARPS * GROUPS;  // k that a block takes in a step

// Shared memory
constexpr int FX = 1;                                  // floats of a read of the small operand
constexpr int PITCH = S + 4 * (S % 8 == 0);            // floats from one line of a chunk to the next
constexpr int SUMS_PITCH = BN + 4;                     // floats from one line of sums to the next
constexpr int PARTIALS = WARPS;                        // sums of each element of C that meet in shared memory
constexpr int CHUNK_WORDS = BK * PITCH;                // floats of a chunk of the small operand
constexpr int SUMS_WORDS = PARTIALS * S * SUMS_PITCH;  // floats of the sums that replace it at the end

// Shared memory, in all
// floats of shared memory, for one and then the other
constexpr int SHARED_WORDS = CHUNK_WORDS * (CHUNK_WORDS >= SUMS_WORDS) + SUMS_WORDS * (SUMS_WORDS > CHUNK_WORDS);

static_assert(S * T <= 256, "larger tiles of sums exceed the registers");
static_assert(BK % (UNROLL * STEP) == 0, "a chunk is a whole number of the steps that registers hold");
static_assert(2 * UNROLL * STEP <= 2048, "loads that run ahead stay near the edge of K");
static_assert(32 % LANES == 0, "a warp is a whole number of groups of lanes");
static_assert(GROUPS % (S * T) == 0 or S * T % GROUPS == 0, "groups halve the sums until each has its own");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// N floats that move as one access of 4 * N bytes.
template <int N>
struct alignas(4 * N) Vec {
    float at[N];
};

template <int N>
__device__ __forceinline__ Vec<N> load(const float* from)
{
    return *reinterpret_cast<const Vec<N>*>(from);
}

// The first `valid` of N floats, the rest zero: one access where all exist, else one by one.
template <int N>
__device__ __forceinline__ Vec<N> load_edge(const float* from, int valid)
{
    if (valid >= N) return load<N>(from);
    Vec<N> value = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) value.at[i] = from[i];
    }
    return value;
}

// Where a thread starts: k and column n of C.
struct ThreadOrigin {
    int k, n;
};

using Sums = float[S][SUMS_PITCH];  // one of each element of a block's tile: [m][n]

using Chunk = float[BK][PITCH];  // of A in shared memory: [k][m], so that a k's values are neighbours

// This thread's first weights, from the block's: one k for each LANES lanes, which take neighbouring vectors of it.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    return {group, lane * VW};
}

// The n of the thread's output t, from the first one: vectors lie LANES of them apart.
__device__ __forceinline__ int output(int t)
{
    return t / VW * (LANES * VW) + t % VW;
}

// Start the loads of one step: this thread's columns of B at k, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const float* B, Shape s, int k, int end, int n, Vec<VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int first = n + output(i * VW);
        const bool exists = k < end;
        const int valid = exists ? VW : 0;
        weights[i] = load_edge<VW>(B + Offset(k) * s.ldb + first, valid);
    }
}

// acc += the outer product of A's S values at k and this thread's T weights: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const Vec<VW> (&weights)[LOADS], float (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; i += FX) {
        const Vec<FX> x = load<FX>(&chunk[k][i]);  // one address for LANES lanes
        #pragma unroll
        for (int j = 0; j < FX; ++j) {
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i + j][t] = fmaf(x.at[j], weights[t / VW].at[t % VW], acc[i + j][t]);
        }
    }
}

// Sums COUNT values over the GROUPS groups of a warp, over lanes of the same rank. Each step pairs groups 16 lanes
// apart, then 8 and so on: one of a pair keeps the first half of the values and the other the second, until one is
// left, which both keep.
// Group g ends with the sums of values g * COUNT / GROUPS and, where COUNT > GROUPS, of the next COUNT / GROUPS - 1.
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
    if constexpr (DISTANCE > LANES) warp_sum<DISTANCE / 2>(values);
}

// Reduce the sums of a warp's groups, each over its own k, and store them to shared memory.
__device__ __forceinline__ void store_sums(float (&acc)[S][T], ThreadOrigin thread, Sums* sums)
{
    float (&values)[S * T] = reinterpret_cast<float (&)[S * T]>(acc);
    warp_sum<16>(values);
    const int warp = threadIdx.x / 32;
    const int first = threadIdx.x % 32 / LANES * (S * T);  // GROUPS times the number of this group's first sum
    if (first % GROUPS != 0) return;                       // a group before it has the same sum
    #pragma unroll
    for (int i = 0; i < (S * T + GROUPS - 1) / GROUPS; ++i) {
        const int value = first / GROUPS + i;
        sums[warp][value / T][thread.n + output(value % T)] = values[i];
    }
}

// A's values at k to k + BK - 1, or zeros beyond its edges, to shared memory.
__device__ __forceinline__ void stage(const float* A, Shape s, int m, int k, Chunk& chunk)
{
    #pragma unroll 8
    for (int i = threadIdx.x; i < S * BK; i += THREADS) {  // neighbouring threads read along A's lines
        const int line = i / BK, depth = i % BK;
        const Offset at = Offset(m + line) * s.lda + k + depth;
        chunk[depth][line] = A[at];
    }
}

// C = alpha * sums + beta * C for this thread's elements that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void store_c(float* C, Shape s, int tile_m, int tile_n, const float (&sums)[OUTPUTS],
                                        float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        float* const to = C + Offset(m) * s.ldc + n;
        *to = beta == 0.0f ? alpha * sums[i] : fmaf(beta, *to, alpha * sums[i]);  // beta = 0 leaves C unread
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f32_rr_1x16384x16384_sm90_06ab372f(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float alpha, float beta)
{
    __shared__ __align__(16) float shared[SHARED_WORDS];
    Chunk& chunk = *reinterpret_cast<Chunk*>(shared);
    Sums* const block_sums = reinterpret_cast<Sums*>(shared);  // PARTIALS of each element, at the end

    const Shape s{};
    const int tile = blockIdx.x;
    const int begin = 0, end = s.K;
    const int tiles_along = (s.M + BM - 1) / BM;  // along M: they read the same weights, so they run together
    const int tile_m = tile % tiles_along * BM, tile_n = tile / tiles_along * BN;
    const ThreadOrigin thread = thread_origin();
    const int n = tile_n + thread.n;

    // A ring of registers: a step's weights are loaded UNROLL steps before their use, also while the block waits.
    Vec<VW> weights[UNROLL][LOADS];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(B, s, begin + thread.k + u * STEP, end, n, weights[u]);

    float acc[S][T] = {};
    for (int k = begin; k < end; k += BK) {
        __syncthreads();  // no thread reads the chunk before any more
        stage(A, s, tile_m, k, chunk);
        __syncthreads();  // the chunk is complete
        for (int step = 0; step < BK; step += UNROLL * STEP) {
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int at = thread.k + step + u * STEP;  // in the chunk
                mma(chunk, at, weights[u], acc);
                fetch(B, s, k + at + UNROLL * STEP, end, n, weights[u]);
            }
        }
    }

    // Reduce the sums of threads at different k, in the order of these.
    __syncthreads();  // no thread reads the last chunk any more
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
