// gemm_f16_rr_Mx4096x8192_sm90_b1d467fe
//
//     C = alpha * A * B + beta * C      f16; sums in f32 on tensor cores; C is read unless beta = 0, A and B always
//
//     A  M x 8192, row-major, lda = 8192
//     B  8192 x 4096, row-major, ldb = 4096
//     C  M x 4096, row-major, ldc = 4096
//
// Block   8 x 128 of C by 256 threads, 99344 bytes of shared memory
// Warp    8 x 128 of C on tensor cores, over 1/8 of the block's part of K: the sums of 8 warps are added up at the end
// Weights the elements of B, each multiplied by those of A, the small operand, at the same k
// Reads   each weight once, through its thread's ring in shared memory, with 69632 bytes of a block in flight; 7.53
//         FLOP for a byte of global memory
// Bound   global memory: too few FLOP for each byte, on every known card
// Split-K 2 blocks compute a tile, each over a part of K; the last to arrive adds up their sums
//
// Launch  ceil(M / 8) * ceil(N / 128) * 2 blocks of 256 threads, 99344 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         partials: ceil(M / 8) * ceil(N / 128) * 2 * 1024 floats, uninitialised,
//         semaphores: ceil(M / 8) * ceil(N / 128) counters, zero before the first launch, which every launch leaves
//         zero,
//         no other launch using the same workspace at the same time
// Config  gemm_f16_rr_Mx4096x8192_skinny_s8_t16_l8_w8_k0_u2_d4_async1_mma1_v4_split2
// Made by gemmgen generate '?x4096x8192' --dtype f16 --layout rr --arch sm_90 --family skinny --set T=16 --set LANES=8 --set BK=0 --set UNROLL=2 --set DEPTH=4 --set ASYNC=1 --set MMA=1 --set SPLIT=2

namespace {

__device__ __forceinline__ float float_from_f16(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// The nearest half, ties to even.
__device__ __forceinline__ unsigned short f16_from_float(float value)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// A half, IEEE 754's binary16.
struct F16 {
    unsigned short bits;
    F16() = default;
    __device__ __forceinline__ explicit F16(float value) : bits(f16_from_float(value)) {}
    __device__ __forceinline__ operator float() const { return float_from_f16(bits); }
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 4096;
    static constexpr int K = 8192;
    static constexpr int lda = 8192;
    static constexpr int ldb = 4096;
    static constexpr int ldc = 4096;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int S = 8;       // lines (rows or columns) of the small operand in a block: uses of a weight
constexpr int T = 16;      // elements along C's long side that a thread sums
constexpr int LANES = 8;   // lanes of a warp along C's long side; its other lanes take other k
constexpr int WARPS = 8;   // warps of a block
constexpr int UNROLL = 2;  // steps along K whose weights are under way at once
constexpr int DEPTH = 4;   // neighbouring k of a lane at a step, where weights run across C
constexpr int SPLIT = 2;   // split-K: blocks that compute the same tile of C, each over a part of K

// Work split
constexpr int THREADS = 32 * WARPS;  // threads a block
constexpr int MINB = 1;              // blocks that must fit an SM at once: more would cost loads under way
constexpr int BM = S;                // rows of C that a block computes
constexpr int BN = LANES * T;        // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 8;                         // elements of an access to the weights
constexpr int LOADS = DEPTH * T / VW;         // accesses of a thread a step
constexpr int GROUPS = 32 / LANES;            // groups of a warp's lanes, each at a k of its own
constexpr int STEP = DEPTH * WARPS * GROUPS;  // k that a block takes in a step
constexpr int LANE_K = DEPTH;                 // k that a lane takes in a step
constexpr int XW = 4;                         // elements of an access to the small operand

// Shared memory
constexpr int W_BYTES = 2;          // bytes of an element of the weights
constexpr int RING_WORDS = UNROLL * LOADS * THREADS * VW * W_BYTES / 4;  // floats of the ring
constexpr int SUMS_PITCH = BN + 4;  // floats from one line of sums to the next
constexpr int PARTIALS = WARPS;     // sums of each element of C that meet in shared memory

static_assert(S * T <= 256, "larger tiles of sums exceed the registers");
static_assert(2 * UNROLL * STEP <= 2048, "loads that run ahead stay near the edge of K");
static_assert(32 % LANES == 0, "a warp is a whole number of groups of lanes");
static_assert(W_BYTES * VW >= 4, "cp.async copies 4, 8 or 16 bytes");
static_assert(S % 8 == 0, "an instruction takes 8 lines of the small operand");
static_assert(XW % 2 == 0, "loads of the small operand bring whole pairs of k");
static_assert(LANES == 8 and DEPTH % 4 == 0, "a lane takes 4 of an instruction's 16 k");
static_assert(VW % 2 == 0, "a lane takes two of an instruction's 16 rows");
static_assert(GROUPS % (S * T) == 0 or S * T % GROUPS == 0, "groups halve the sums until each has its own");
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

// Start copying BYTES from global to shared memory; those past `valid_bytes` become zeros. No data passes a register.
template <int BYTES>
__device__ __forceinline__ void cp_async(void* shared, const void* global, int valid_bytes)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (BYTES == 16) {  // .cg goes past L1, which would only keep what shared memory keeps
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global),
                     "r"(valid_bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(BYTES),
                     "r"(valid_bytes) : "memory");
    }
}

// Close the group of copies started since the last commit.
__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Wait until at most the N newest groups of this thread are under way.
template <int N>
__device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
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

// The shared memory that the launch asks for: beyond 48 KB there is no other kind.
__device__ __forceinline__ unsigned char* dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char bytes[];
    return bytes;
}

// d += a * b, 16 x 8 x 16, by a warp. Lane 4 g + t holds of d columns 2 t and 2 t + 1 in row g and every 8th
// after it; of a the same rows, of b column g, each at k = 2 t to 2 t + 1, and every 8 further on.
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

using Chunk = Packed<F16, XW>[S / 8][DEPTH / XW];  // A's part of a step in this thread's registers: [m / 8][k]
using Accumulators = float[S / 8][T / 2][4];  // by instructions: 8 lines of A times 16 columns of B

// This thread's first weights, from the block's: lane 4 g + t takes vector g of 8 neighbours, at DEPTH k of number t of
// its warp.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {(warp * 4 + lane % 4) * DEPTH, lane / 4 * VW};
}

// The n of the thread's output t, from the first one: vectors lie LANES of them apart.
__device__ __forceinline__ int output(int t)
{
    return t / VW * (LANES * VW) + t % VW;
}

// Start the loads of one step: this thread's columns of B at DEPTH k, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const F16* B, Shape s, int k, int end, int n,
                                      Packed<F16, VW> (&weights)[LOADS][THREADS])
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int depth = k + i / (T / VW), first = n + output(i % (T / VW) * VW);
        const bool exists = k < end;
        const int valid = exists ? VW : 0;
        cp_async<W_BYTES * VW>(&weights[i][threadIdx.x], B + Offset(depth) * s.ldb + first,
                               valid > 0 ? W_BYTES * VW : 0);
    }
    cp_async_commit();
}

using Ring = Packed<F16, VW>[UNROLL][LOADS][THREADS];  // of weights in shared memory: each thread's own

// Wait for the oldest step that is under way, and take this thread's weights of it.
__device__ __forceinline__ void take(const Packed<F16, VW> (&step)[LOADS][THREADS], Packed<F16, VW> (&weights)[LOADS])
{
    cp_async_wait<UNROLL - 1>();
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) weights[i] = step[i][threadIdx.x];
}

// Start the loads of this thread's part of A for one step's weights: LANE_K k from `k` on, of line l / 4 in lane l and
// of every 8th after it, or zeros beyond its edges.
__device__ __forceinline__ void fetch_small(const F16* A, Shape s, int tile_m, int k, Chunk& chunk)
{
    const int m = tile_m + threadIdx.x % 32 / 4;
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) {
        #pragma unroll
        for (int depth = 0; depth < LANE_K; depth += XW) {
            const bool exists = m + 8 * i < s.M;
            const int valid = exists ? XW : 0;
            chunk[i][depth / XW] = load_edge<XW>(A + Offset(m + 8 * i) * s.lda + k + depth, valid);
        }
    }
}

// Two neighbouring k of a line, as a register of a fragment.
__device__ __forceinline__ unsigned two_k(const Packed<F16, XW> (&line)[LANE_K / XW], int k)
{
    return line[k / XW].words[k % XW / 2];
}

// Element i of two vectors, which are neighbours along k, as a register of a fragment.
__device__ __forceinline__ unsigned two_k(const Packed<F16, VW>& first, const Packed<F16, VW>& second, int i)
{
    return __byte_perm(first.words[i / 2], second.words[i / 2], i % 2 ? 0x7632 : 0x5410);
}

// acc += the products of a step. Which k, and which columns, an instruction calls its own is free while both operands,
// and the stores, agree: a lane's are those that its loads brought.
__device__ __forceinline__ void mma(const Chunk& chunk, int, const Packed<F16, VW> (&weights)[LOADS], Accumulators& acc)
{
    constexpr int VECTORS = T / VW;  // of a lane at one k
    #pragma unroll
    for (int k = 0; k < DEPTH; k += 4) {
        #pragma unroll
        for (int j = 0; j < T / 2; ++j) {
            const Packed<F16, VW>* const vector = &weights[k * VECTORS + j / (VW / 2)];  // the first of four k
            const int upper = j % (VW / 2), lower = upper + VW / 2;  // its elements in rows g and g + 8
            const unsigned a[] = {
                two_k(vector[0], vector[VECTORS], upper), two_k(vector[0], vector[VECTORS], lower),
                two_k(vector[2 * VECTORS], vector[3 * VECTORS], upper),
                    two_k(vector[2 * VECTORS], vector[3 * VECTORS], lower)};
            #pragma unroll
            for (int i = 0; i < S / 8; ++i) {
                const unsigned b[] = {two_k(chunk[i], k), two_k(chunk[i], k + 2)};
                mma_m16n8k16_f16(acc[i][j], a, b);
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
        for (int j = 0; j < T / 2; ++j) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                const int of_vector = j % (VW / 2) + v / 2 * (VW / 2);
                sums[warp][8 * i + line + v % 2][thread.n + output(j / (VW / 2) * VW + of_vector)] = acc[i][j][v];
            }
        }
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
    return {split * extent, min(K, (split + 1) * extent)};
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
__device__ __forceinline__ void store_c(F16* C, Shape s, int tile_m, int tile_n, const float (&sums)[OUTPUTS],
                                        float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        if (m >= s.M) continue;
        F16* const to = C + Offset(m) * s.ldc + n;
        *to = F16(beta == 0.0f ? alpha * sums[i] : fmaf(beta, *to, alpha * sums[i]));  // beta = 0 leaves C unread
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f16_rr_Mx4096x8192_sm90_b1d467fe(
    const F16* __restrict__ A, const F16* __restrict__ B, F16* __restrict__ C, float* __restrict__ partials,
    unsigned* __restrict__ semaphores, int M, float alpha, float beta)
{
    float* const shared = reinterpret_cast<float*>(dynamic_shared());
    Ring& ring = *reinterpret_cast<Ring*>(shared);
    Sums* const block_sums = reinterpret_cast<Sums*>(shared + RING_WORDS);  // PARTIALS of each element, at the end

    const Shape s{M};
    const int tile = blockIdx.x / SPLIT;
    const auto [begin, end] = split_k_range(s.K, blockIdx.x % SPLIT);
    const int tiles_along = (s.M + BM - 1) / BM;  // along M: they read the same weights, so they run together
    const int tile_m = tile % tiles_along * BM, tile_n = tile / tiles_along * BN;
    const ThreadOrigin thread = thread_origin();
    const int n = tile_n + thread.n;

    // A ring in shared memory, of which each thread has elements of its own: as soon as it has taken a step's weights,
    // it copies those of UNROLL steps later to their place.
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(B, s, begin + thread.k + u * STEP, end, n, ring[u]);

    Accumulators acc = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int at = thread.k + k + u * STEP;
            Chunk chunk;
            fetch_small(A, s, tile_m, at, chunk);
            Packed<F16, VW> weights[LOADS];
            take(ring[u], weights);
            fetch(B, s, at + UNROLL * STEP, end, n, ring[u]);
            mma(chunk, 0, weights, acc);
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
    const Fixup fixup = split_k_fixup(partials, semaphores);
    if (!store_partial<OUTPUTS>(sums, fixup)) return;
    reduce_partials(fixup, 0, sums);
    store_c(C, s, tile_m, tile_n, sums, alpha, beta);
}
