// gemm_f32_rr_16x4096x4096_sm90_8da9f7ee
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; beta = 0 never reads C
//
//     A  16 x 4096, row-major, lda = 4096
//     B  4096 x 4096, row-major, ldb = 4096
//     C  16 x 4096, row-major, ldc = 4096
//
// Block   16 x 128 of C by 128 threads, 33808 bytes of shared memory
// Thread  64 sums, each of one k in 4: 4 threads share an element of C and add up at the end
// Weights are the elements of B: each meets (is multiplied by) those of A, the small operand, at its k
// Reads   each weight once, to a register, 18432 bytes of a block under way at once; 7.11 FLOP for a byte of global memory
// Bound   global memory: too few FLOP for a byte, on any known card
// Split   8 blocks share a tile: each sums a part of K, the last to come adds the parts up
//
// Launch  ceil(M / 16) * ceil(N / 128) * 8 blocks of 128 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         partials: ceil(M / 16) * ceil(N / 128) * 8 * 2048 floats, holding anything,
//         tickets: ceil(M / 16) * ceil(N / 128) counters, zero before the first launch, which every launch leaves zero,
//         no other launch using the same workspace at the same time
// Config  gemm_f32_rr_16x4096x4096_skinny_s16_t4_w4_k256_u8_v4_split8
// Made by gemmgen generate 16x4096x4096 --dtype f32 --layout rr --arch sm_90 --family skinny --set S=16 --set UNROLL=8 --set SPLIT=8

namespace {

// Sizes and the elements between lines (leading dimensions). What is known here folds into the code.
struct Shape {
    static constexpr int M = 16;
    static constexpr int N = 4096;
    static constexpr int K = 4096;
    static constexpr int lda = 4096;
    static constexpr int ldb = 4096;
    static constexpr int ldc = 4096;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int S = 16;      // lines of the small operand that a block multiplies: uses of a weight
constexpr int T = 4;       // elements along C's long side that a thread sums
constexpr int LANES = 32;  // lanes of a warp along C's long side, the others at other depths
constexpr int WARPS = 4;   // warps of a block
constexpr int BK = 256;    // depths of the small operand that shared memory holds at once
constexpr int UNROLL = 8;  // steps along K whose weights are under way at once
constexpr int SPLIT = 8;   // blocks that share a tile of C, each with a part of K

// Work split
constexpr int THREADS = 32 * WARPS;                         // threads a block
constexpr int BM = S;                                       // rows of C that a block computes
constexpr int BN = LANES * T;                               // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 4;                 // floats of an access to the weights
constexpr int LOADS = T / VW;         // accesses of a thread a step
constexpr int GROUPS = 32 / LANES;    // groups of a warp's lanes, each with a depth of its own
constexpr int STEP = WARPS * GROUPS;  // depths that a block takes at a step

// Shared memory
constexpr int FX = 4;                                // floats of a read of the small operand
constexpr int PITCH = S + 4 * (S % 8 == 0);          // floats from one line of a chunk to the next
constexpr int SUMS_PITCH = BN + 4;                   // floats from one line of sums to the next
constexpr int PARTS = WARPS;                         // sums of each element of C that meet in shared memory
constexpr int CHUNK_FLOATS = BK * PITCH;             // floats of a chunk of the small operand
constexpr int SUMS_FLOATS = PARTS * S * SUMS_PITCH;  // floats of the sums that replace it at the end

// Shared memory, in all
constexpr int SHARED_FLOATS = CHUNK_FLOATS * (CHUNK_FLOATS >= SUMS_FLOATS) + SUMS_FLOATS * (SUMS_FLOATS > CHUNK_FLOATS);  // floats of shared memory, for one and then the other

static_assert(S * T <= 256, "a thread has no registers for more sums");
static_assert(BK % (UNROLL * STEP) == 0, "a chunk is a whole number of turns of the ring of registers");
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

// Where a thread's work starts: depth k and column n of C.
struct Place {
    int k, n;
};

using Sums = float[S][SUMS_PITCH];  // one of each element of a block's tile: [m][n]

using Chunk = float[BK][PITCH];  // of A in shared memory: [k][m], so that a k's values are neighbours

// Where this thread's weights start, from the block's: one k for each LANES lanes, neighbouring vectors of a line for these.
__device__ __forceinline__ Place place_of_thread()
{
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    return {group, lane * VW};
}

// The n of the thread's output t, from the first one: vectors lie LANES of them apart.
__device__ __forceinline__ int output(int t)
{
    return t / VW * (LANES * VW) + t % VW;
}

// Start the loads of one step: this thread's columns of B at depth k, zeros from depth `end` on.
__device__ __forceinline__ void fetch(const float* B, Shape s, int k, int end, int n, Vec<VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int first = n + output(i * VW);
        const bool exists = k < end;
        const int valid = !exists ? 0 : VW;
        weights[i] = load_edge<VW>(B + Offset(k) * s.ldb + first, valid);
    }
}

// acc += the outer product of A's S values at depth k and this thread's T weights: every weight serves S times.
__device__ __forceinline__ void multiply(const Chunk& chunk, int k, const Vec<VW> (&weights)[LOADS], float (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; i += FX) {
        const Vec<FX> x = load<FX>(&chunk[k][i]);  // the same for LANES lanes, in other banks for others
        #pragma unroll
        for (int j = 0; j < FX; ++j) {
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i + j][t] = fmaf(x.at[j], weights[t / VW].at[t % VW], acc[i + j][t]);
        }
    }
}

// Leave this thread's sums, which cover its warp's part of the depths, where the block adds them up.
__device__ __forceinline__ void leave(float (&acc)[S][T], Place place, Sums* sums)
{
    const int warp = threadIdx.x / 32;
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        #pragma unroll
        for (int t = 0; t < T; t += VW) {
            Vec<VW> part;
            #pragma unroll
            for (int v = 0; v < VW; ++v) part.at[v] = acc[i][t + v];
            store<VW>(&sums[warp][i][place.n + output(t)], part);
        }
    }
}

// A's values at depths [k, k + BK) to shared memory. Zeros stand for those that do not exist, and from depth `end` on.
__device__ __forceinline__ void stage(const float* A, Shape s, int m, int k, int end, Chunk& chunk)
{
    #pragma unroll 8
    for (int i = threadIdx.x; i < S * BK; i += THREADS) {  // neighbouring threads read along A's lines
        const int line = i / BK, depth = i % BK;
        const bool exists = k + depth < end;
        const Offset at = Offset(m + line) * s.lda + k + depth;
        chunk[depth][line] = exists ? A[at] : 0.0f;
    }
}

// The depths [begin, end) that one of a tile's SPLIT blocks sums: equal parts of K, each a whole number of steps. The
// last parts may be shorter, or empty.
struct Depths {
    int begin, end;
};

__device__ __forceinline__ Depths depths_of_split(int K, int split)
{
    const int part = (K + SPLIT * STEP - 1) / (SPLIT * STEP) * STEP;
    return {min(K, split * part), min(K, (split + 1) * part)};
}

// What the blocks that share a tile of C leave for each other: their sums, one part behind the other, of which this
// thread's are those at THREADS * i + threadIdx.x.
struct Parts {
    float* sums;
    int count;  // of blocks
    int mine;   // this block's number among them
    unsigned* ticket;
};

// True in the last of a tile's `count` blocks to come here, which then sees all that the others wrote before they came.
// Nobody waits for anybody, so it does not matter in which order blocks run, or whether they run at once.
__device__ __forceinline__ bool last_to_arrive(unsigned* ticket, int count)
{
    __shared__ int last;
    __syncthreads();  // the whole block has written its part
    if (threadIdx.x == 0) {
        __threadfence();                                   // it is visible to all before the ticket is taken,
        last = atomicInc(ticket, count - 1) == count - 1;  // (the last ticket turns the counter back to zero)
        __threadfence();                                   // and parts of earlier tickets are visible after it
    }
    __syncthreads();
    return last;
}

// Leaves this block's sums, COUNT of each thread, as its part of the tile. Returns true in the last of the tile's blocks, which
// has to add all parts; the others are done with the tile.
template <int COUNT>
__device__ __forceinline__ bool leave_part(const float* sums, const Parts& parts)
{
    float* const own = parts.sums + parts.mine * (BM * BN);
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        own[element] = sums[i];
    }
    return last_to_arrive(parts.ticket, parts.count);
}

// What all blocks summed for COUNT of this thread's elements, from its `first` on.
template <int COUNT>
__device__ __forceinline__ void add_parts(const Parts& parts, int first, float (&sums)[COUNT])
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = 0.0f;
    #pragma unroll 4
    for (int part = 0; part < parts.count; ++part) {  // always in this order: the same bits every time
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int element = (first + i) * THREADS + threadIdx.x;
            if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
            sums[i] += __ldcg(parts.sums + part * (BM * BN) + element);
        }
    }
}

// What the SPLIT blocks of this one's tile share.
__device__ __forceinline__ Parts parts_of_split(float* partials, unsigned* tickets)
{
    const long long tile = blockIdx.x / SPLIT;
    return {partials + tile * SPLIT * (BM * BN), SPLIT, static_cast<int>(blockIdx.x % SPLIT), tickets + tile};
}

// C = alpha * sums + beta * C for this thread's elements that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void store_c(float* C, Shape s, int tile_m, int tile_n, const float (&sums)[OUTPUTS], float alpha, float beta)
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
gemm_f32_rr_16x4096x4096_sm90_8da9f7ee(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    float* __restrict__ partials,
    unsigned* __restrict__ tickets,
    float alpha,
    float beta)
{
    __shared__ __align__(16) float shared[SHARED_FLOATS];
    Chunk& chunk = *reinterpret_cast<Chunk*>(shared);
    Sums* const parts = reinterpret_cast<Sums*>(shared);  // PARTS of each element, after the last chunk

    const Shape s{};
    const int tile = blockIdx.x / SPLIT;
    const auto [begin, end] = depths_of_split(s.K, blockIdx.x % SPLIT);
    const int thin = (s.M + BM - 1) / BM;  // tiles along M, which share their weights: they run together
    const int tile_m = tile % thin * BM, tile_n = tile / thin * BN;
    const Place place = place_of_thread();
    const int n = tile_n + place.n;

    // A ring of registers: a step's weights are loaded UNROLL steps before their use, also while the block waits.
    Vec<VW> weights[UNROLL][LOADS];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(B, s, begin + place.k + u * STEP, end, n, weights[u]);

    float acc[S][T] = {};
    for (int k = begin; k < end; k += BK) {
        __syncthreads();  // nobody reads the chunk before any more
        stage(A, s, tile_m, k, end, chunk);
        __syncthreads();  // the chunk is complete
        const int depth = min(BK, end - k);
        for (int step = 0; step < depth; step += UNROLL * STEP) {
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int at = place.k + step + u * STEP;  // in the chunk
                multiply(chunk, at, weights[u], acc);
                fetch(B, s, k + at + UNROLL * STEP, end, n, weights[u]);
            }
        }
    }

    // What the threads summed over different depths, added up in the order of these.
    __syncthreads();  // nobody reads the last chunk any more
    leave(acc, place, parts);
    __syncthreads();
    float sums[OUTPUTS] = {};
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        #pragma unroll
        for (int part = 0; part < PARTS; ++part) sums[i] += parts[part][element / BN][element % BN];
    }
    const Parts split = parts_of_split(partials, tickets);
    if (!leave_part<OUTPUTS>(sums, split)) return;
    add_parts(split, 0, sums);
    store_c(C, s, tile_m, tile_n, sums, alpha, beta);
}
