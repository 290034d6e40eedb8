// gemm_f32_rr_8192x8x8192_sm90_24ec45dc
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  8192 x 8192, row-major, lda = 8192
//     B  8192 x 8, row-major, ldb = 8
//     C  8192 x 8, row-major, ldc = 8
//
// Block   32 x 8 of C by 256 threads, 8192 bytes of shared memory
// Thread  32 elements of C, over 1/32 of K: the sums of 32 threads are added up at the end
// Weights the elements of A, each multiplied by those of B, the small operand, at the same k
// Reads   each weight once, to a register, with 40960 bytes of a block in flight; 3.2 FLOP for a byte of global memory
// Bound   global memory: too few FLOP for each byte, on every known card
//
// Launch  ceil(M / 32) * ceil(N / 8) blocks of 256 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f32_rr_8192x8x8192_skinny_s8_t4_w8_k256_u2_v4_split1
// Made by gemmgen generate 8192x8x8192 --dtype f32 --layout rr --arch sm_90 --family skinny --set WARPS=8

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 8192;
    static constexpr int N = 8;
    static constexpr int K = 8192;
    static constexpr int lda = 8192;
    static constexpr int ldb = 8;
    static constexpr int ldc = 8;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int S = 8;       // lines (rows or columns) of the small operand in a block: uses of a weight
constexpr int T = 4;       // elements along C's long side that a thread sums
constexpr int WARPS = 8;   // warps of a block
constexpr int BK = 256;    // k of the small operand that shared memory holds at once
constexpr int UNROLL = 2;  // steps along K whose weights are under way at once

// Work split
constexpr int THREADS = 32 * WARPS;                         // threads a block
constexpr int BM = WARPS * T;                               // rows of C that a block computes
constexpr int BN = S;                                       // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 4;          // floats of an access to the weights
constexpr int LOADS = T;       // accesses of a thread a step
constexpr int STEP = 32 * VW;  // k that a block takes in a step

// Shared memory
constexpr int PITCH = BK;                              // floats from one line of a chunk to the next
constexpr int SUMS_PITCH = BM + 4;                     // floats from one line of sums to the next
constexpr int PARTIALS = 1;                            // sums of each element of C that meet in shared memory
constexpr int CHUNK_WORDS = S * PITCH;                 // floats of a chunk of the small operand
constexpr int SUMS_WORDS = PARTIALS * S * SUMS_PITCH;  // floats of the sums that replace it at the end

// Shared memory, in all
// floats of shared memory, for one and then the other
constexpr int SHARED_WORDS = CHUNK_WORDS * (CHUNK_WORDS >= SUMS_WORDS) + SUMS_WORDS * (SUMS_WORDS > CHUNK_WORDS);

static_assert(S * T <= 256, "larger tiles of sums exceed the registers");
static_assert(BK % (UNROLL * STEP) == 0, "a chunk is a whole number of the steps that registers hold");
static_assert(2 * UNROLL * STEP <= 2048, "loads that run ahead stay near the edge of K");
static_assert(32 % (S * T) == 0 or S * T % 32 == 0, "lanes halve the sums until each has its own");
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

// Where a thread starts: k and row m of C.
struct ThreadOrigin {
    int k, m;
};

using Sums = float[S][SUMS_PITCH];  // one of each element of a block's tile: [n][m]

using Chunk = float[S][PITCH];  // of B in shared memory: [n][k]

// This thread's first weights, from the block's: T rows per warp, whose lanes take neighbouring vectors along k.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {lane * VW, warp * T};
}

// Start the loads of one step: VW k from `k` on of the warp's T rows of A, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const float* A, Shape s, int k, int end, int m, Vec<VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int t = 0; t < T; ++t) {
        const bool exists = k < end;
        const int valid = exists ? VW : 0;
        weights[t] = load_edge<VW>(A + Offset(m + t) * s.lda + k, valid);
    }
}

// acc += B's S values times the weights of T rows, over VW k from `k` on: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const Vec<VW> (&weights)[LOADS], float (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        const Vec<VW> x = load<VW>(&chunk[i][k]);
        #pragma unroll
        for (int t = 0; t < T; ++t) {
            #pragma unroll
            for (int v = 0; v < VW; ++v) acc[i][t] = fmaf(x.at[v], weights[t].at[v], acc[i][t]);
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
        sums[0][value / T][thread.m + value % T] = values[i];
    }
}

// B's values at k to k + BK - 1, or zeros beyond its edges, to shared memory.
__device__ __forceinline__ void stage(const float* B, Shape s, int n, int k, Chunk& chunk)
{
    #pragma unroll 8
    for (int i = threadIdx.x; i < S * BK; i += THREADS) {  // neighbouring threads read along B's lines
        const int line = i % S, depth = i / S;
        const Offset at = Offset(k + depth) * s.ldb + n + line;
        chunk[line][depth] = B[at];
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
gemm_f32_rr_8192x8x8192_sm90_24ec45dc(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float alpha, float beta)
{
    __shared__ __align__(16) float shared[SHARED_WORDS];
    Chunk& chunk = *reinterpret_cast<Chunk*>(shared);
    Sums* const block_sums = reinterpret_cast<Sums*>(shared);  // PARTIALS of each element, at the end

    const Shape s{};
    const int tile = blockIdx.x;
    const int begin = 0, end = s.K;
    const int tiles_along = (s.N + BN - 1) / BN;  // along N: they read the same weights, so they run together
    const int tile_n = tile % tiles_along * BN, tile_m = tile / tiles_along * BM;
    const ThreadOrigin thread = thread_origin();
    const int m = tile_m + thread.m;

    // A ring of registers: a step's weights are loaded UNROLL steps before their use, also while the block waits.
    Vec<VW> weights[UNROLL][LOADS];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(A, s, begin + thread.k + u * STEP, end, m, weights[u]);

    float acc[S][T] = {};
    for (int k = begin; k < end; k += BK) {
        __syncthreads();  // no thread reads the chunk before any more
        stage(B, s, tile_n, k, chunk);
        __syncthreads();  // the chunk is complete
        for (int step = 0; step < BK; step += UNROLL * STEP) {
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int at = thread.k + step + u * STEP;  // in the chunk
                mma(chunk, at, weights[u], acc);
                fetch(A, s, k + at + UNROLL * STEP, end, m, weights[u]);
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
        for (int p = 0; p < PARTIALS; ++p) sums[i] += block_sums[p][element % BN][element / BN];
    }
    store_c(C, s, tile_m, tile_n, sums, alpha, beta);
}
