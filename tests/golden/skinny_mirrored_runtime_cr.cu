// gemm_f32_cr_Mx3xK_sm90_578e0e3d
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  M x K, column-major, lda at run time
//     B  K x 3, row-major, ldb = 3
//     C  M x 3, row-major, ldc = 3
//
// Block   128 x 4 of C by 256 threads, 16912 bytes of shared memory
// Thread  16 elements of C, over 1/8 of the block's part of K: the sums of 8 threads are added up at the end
// Weights the elements of A, each multiplied by those of B, the small operand, at the same k
// Reads   each weight once, to a register, with 8448 bytes of a block in flight; 1.94 FLOP for a byte of global memory
// Bound   global memory: too few FLOP for each byte, on every known card
// Split-K 2 blocks compute a tile, each over a part of K; the last to arrive adds up their sums
//
// Launch  ceil(M / 128) * ceil(N / 4) * 2 blocks of 256 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         partials: ceil(M / 128) * ceil(N / 4) * 2 * 512 floats, uninitialised,
//         semaphores: ceil(M / 128) * ceil(N / 4) counters, zero before the first launch, which every launch leaves
//         zero,
//         no other launch using the same workspace at the same time
// Config  gemm_f32_cr_Mx3xK_skinny_s4_t4_w8_k256_u2_v4_split2
// Made by gemmgen generate '?x3x?' --dtype f32 --layout cr --arch sm_90 --family skinny --set S=4 --set WARPS=8 --set SPLIT=2

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 3;
    int K;
    int lda;
    static constexpr int ldb = 3;
    static constexpr int ldc = 3;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int S = 4;       // lines (rows or columns) of the small operand in a block: uses of a weight
constexpr int T = 4;       // elements along C's long side that a thread sums
constexpr int LANES = 32;  // lanes of a warp along C's long side; its other lanes take other k
constexpr int WARPS = 8;   // warps of a block
constexpr int BK = 256;    // k of the small operand that shared memory holds at once
constexpr int UNROLL = 2;  // steps along K whose weights are under way at once
constexpr int SPLIT = 2;   // split-K: blocks that compute the same tile of C, each over a part of K

// Work split
constexpr int THREADS = 32 * WARPS;                         // threads a block
constexpr int BM = LANES * T;                               // rows of C that a block computes
constexpr int BN = S;                                       // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 1;                 // floats of an access to the weights
constexpr int LOADS = T / VW;         // accesses of a thread a step
constexpr int GROUPS = 32 / LANES;    // groups of a warp's lanes, each at a k of its own
constexpr int STEP = WARPS * GROUPS;  // k that a block takes in a step

// Shared memory
constexpr int FX = 4;                                  // floats of a read of the small operand
constexpr int PITCH = S;                               // floats from one line of a chunk to the next
constexpr int SUMS_PITCH = BM + 4;                     // floats from one line of sums to the next
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

template <int N>
__device__ __forceinline__ void store(float* to, const Vec<N>& value)
{
    *reinterpret_cast<Vec<N>*>(to) = value;
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

using Chunk = float[BK][PITCH];  // of B in shared memory: [k][n], so that a k's values are neighbours

// This thread's first weights, from the block's: one k for each LANES lanes, which take neighbouring vectors of it.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    return {group, lane * VW};
}

// The m of the thread's output t, from the first one: vectors lie LANES of them apart.
__device__ __forceinline__ int output(int t)
{
    return t / VW * (LANES * VW) + t % VW;
}

// Start the loads of one step: this thread's rows of A at k, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const float* A, Shape s, int k, int end, int m, Vec<VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int first = m + output(i * VW);
        const bool exists = k < end && first < s.M;
        const int valid = exists ? VW : 0;
        weights[i] = load_edge<VW>(A + Offset(k) * s.lda + first, valid);
    }
}

// acc += the outer product of B's S values at k and this thread's T weights: every weight serves S times.
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

// Store this thread's sums, over the k of its warp, to shared memory.
__device__ __forceinline__ void store_sums(float (&acc)[S][T], ThreadOrigin thread, Sums* sums)
{
    const int warp = threadIdx.x / 32;
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        #pragma unroll
        for (int t = 0; t < T; t += VW) {
            Vec<VW> values;
            #pragma unroll
            for (int v = 0; v < VW; ++v) values.at[v] = acc[i][t + v];
            store<VW>(&sums[warp][i][thread.m + output(t)], values);
        }
    }
}

// B's values at k to k + BK - 1, or zeros beyond its edges, to shared memory.
__device__ __forceinline__ void stage(const float* B, Shape s, int n, int k, int end, Chunk& chunk)
{
    #pragma unroll 8
    for (int i = threadIdx.x; i < S * BK; i += THREADS) {  // neighbouring threads read along B's lines
        const int line = i % S, depth = i / S;
        const bool exists = k + depth < end && n + line < s.N;
        const Offset at = Offset(k + depth) * s.ldb + n + line;
        chunk[depth][line] = exists ? B[at] : 0.0f;
    }
}

// The range [begin, end) of K that one of a tile's SPLIT blocks sums: a whole number of STEP, the same for all but the
// last ranges, which may be shorter or empty.
struct KRange {
    int begin, end;
};

__device__ __forceinline__ KRange split_k_range(int K, int split)
{
    const int extent = (K + SPLIT * STEP - 1) / (SPLIT * STEP) * STEP;
    return {min(K, split * extent), min(K, (split + 1) * extent)};
}

// The partial sums of a tile of C, one BM x BN array for each of its blocks. A thread's elements are those at
// THREADS * i + threadIdx.x.
struct Fixup {
    float* partials;
    int peers;  // blocks that compute the tile
    int rank;   // this block's among them
    unsigned* semaphore;
};

// True in the last of a tile's `count` blocks to arrive, to which the partials of all others are visible. No block
// waits for another: they may run in any order, at once or not.
__device__ __forceinline__ bool last_to_arrive(unsigned* semaphore, int count)
{
    __shared__ int last;
    __syncthreads();  // the whole block has stored its partial
    if (threadIdx.x == 0) {
        __threadfence();                                      // release: the partial is visible before the count,
        last = atomicInc(semaphore, count - 1) == count - 1;  // which wraps to zero for the next launch;
        __threadfence();                                      // acquire: the partials counted before are visible now
    }
    __syncthreads();
    return last;
}

// Stores this block's sums, COUNT of each thread. Returns true in the last of the tile's blocks, which has to reduce
// the partials; the others are done with the tile.
template <int COUNT>
__device__ __forceinline__ bool store_partial(const float* sums, const Fixup& fixup)
{
    float* const partial = fixup.partials + fixup.rank * (BM * BN);
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        partial[element] = sums[i];
    }
    return last_to_arrive(fixup.semaphore, fixup.peers);
}

// The sums over all blocks of COUNT elements of this thread, from its `first` on.
template <int COUNT>
__device__ __forceinline__ void reduce_partials(const Fixup& fixup, int first, float (&sums)[COUNT])
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = 0.0f;
    #pragma unroll 4
    for (int peer = 0; peer < fixup.peers; ++peer) {  // always in this order: the same bits in every run
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int element = (first + i) * THREADS + threadIdx.x;
            if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
            sums[i] += __ldcg(fixup.partials + peer * (BM * BN) + element);
        }
    }
}

// The partials and the semaphore of this block's tile.
__device__ __forceinline__ Fixup split_k_fixup(float* partials, unsigned* semaphores)
{
    const long long tile = blockIdx.x / SPLIT;
    return {partials + tile * SPLIT * (BM * BN), SPLIT, static_cast<int>(blockIdx.x % SPLIT), semaphores + tile};
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
        if (m >= s.M || n >= s.N) continue;
        float* const to = C + Offset(m) * s.ldc + n;
        *to = beta == 0.0f ? alpha * sums[i] : fmaf(beta, *to, alpha * sums[i]);  // beta = 0 leaves C unread
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f32_cr_Mx3xK_sm90_578e0e3d(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float* __restrict__ partials,
    unsigned* __restrict__ semaphores, int M, int K, int lda, float alpha, float beta)
{
    __shared__ __align__(16) float shared[SHARED_WORDS];
    Chunk& chunk = *reinterpret_cast<Chunk*>(shared);
    Sums* const block_sums = reinterpret_cast<Sums*>(shared);  // PARTIALS of each element, at the end

    const Shape s{M, K, lda};
    if (s.K == 0) alpha = 0.0f;  // nothing to scale, be alpha infinite or NaN
    const int tile = blockIdx.x / SPLIT;
    const auto [begin, end] = split_k_range(s.K, blockIdx.x % SPLIT);
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
        stage(B, s, tile_n, k, end, chunk);
        __syncthreads();  // the chunk is complete
        const int depth = min(BK, end - k);
        for (int step = 0; step < depth; step += UNROLL * STEP) {
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
    const Fixup fixup = split_k_fixup(partials, semaphores);
    if (!store_partial<OUTPUTS>(sums, fixup)) return;
    reduce_partials(fixup, 0, sums);
    store_c(C, s, tile_m, tile_n, sums, alpha, beta);
}
