// gemm_bf16_rr_1x16384x16384_sm90_31b7f686
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  1 x 16384, row-major, lda = 16384
//     B  16384 x 16384, row-major, ldb = 16384
//     C  1 x 16384, row-major, ldc = 16384
//
// Block   1 x 128 of C by 512 threads, 73984 bytes of shared memory
// Thread  8 elements of C, over 1/32 of K: the sums of 32 threads are added up at the end
// Weights the elements of B, each multiplied by those of A, the small operand, at the same k
// Reads   each weight once, through its thread's ring in shared memory, with 66048 bytes of a block in flight; 0.992
//         FLOP for a byte of global memory
// Bound   global memory: too few FLOP for each byte, on every known card
//
// Launch  M * ceil(N / 128) blocks of 512 threads, 73984 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_bf16_rr_1x16384x16384_skinny_s1_t8_l16_w16_k0_u2_d4_async1_v4_split1
// Made by gemmgen generate 1x16384x16384 --dtype bf16 --layout rr --arch sm_90 --family skinny --set LANES=16 --set WARPS=16 --set ASYNC=1 --set SPLIT=1

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
constexpr int T = 8;       // elements along C's long side that a thread sums
constexpr int LANES = 16;  // lanes of a warp along C's long side; its other lanes take other k
constexpr int WARPS = 16;  // warps of a block
constexpr int UNROLL = 2;  // steps along K whose weights are under way at once
constexpr int DEPTH = 4;   // neighbouring k of a lane at a step, where weights run across C

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
static_assert(GROUPS % (S * T) == 0 or S * T % GROUPS == 0, "groups halve the sums until each has its own");
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

using Chunk = Packed<BF16, XW>[S][DEPTH / XW];  // of A in registers, an access along its lines

// This thread's first weights, from the block's: DEPTH k for each LANES lanes, which take neighbouring vectors of it.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    return {group * DEPTH, lane * VW};
}

// The n of the thread's output t, from the first one: vectors lie LANES of them apart.
__device__ __forceinline__ int output(int t)
{
    return t / VW * (LANES * VW) + t % VW;
}

// Start the loads of one step: this thread's columns of B at DEPTH k, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const BF16* B, Shape s, int k, int end, int n,
                                      Packed<BF16, VW> (&weights)[LOADS][THREADS])
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

// acc += the outer products of A's S values and this thread's T weights at DEPTH k: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const Packed<BF16, VW> (&weights)[LOADS],
                                    float (&acc)[S][T])
{
    #pragma unroll
    for (int depth = 0; depth < DEPTH; ++depth) {
        #pragma unroll
        for (int i = 0; i < S; ++i) {
            const float x = chunk[i][depth / XW][depth % XW];
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i][t] = fmaf(x, weights[(depth * T + t) / VW][t % VW], acc[i][t]);
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

using Ring = Packed<BF16, VW>[UNROLL][LOADS][THREADS];  // of weights in shared memory: each thread's own

// Wait for the oldest step that is under way, and take this thread's weights of it.
__device__ __forceinline__ void take(const Packed<BF16, VW> (&step)[LOADS][THREADS], Packed<BF16, VW> (&weights)[LOADS])
{
    cp_async_wait<UNROLL - 1>();
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) weights[i] = step[i][threadIdx.x];
}

// Start the loads of what one step's weights are multiplied by: A's S values at each of this thread's k from `k` on, or
// zeros beyond its edges.
__device__ __forceinline__ void fetch_small(const BF16* A, Shape s, int m, int k, Chunk& chunk)
{
    #pragma unroll
    for (int line = 0; line < S; ++line) {
        #pragma unroll
        for (int depth = 0; depth < LANE_K; depth += XW) {
            chunk[line][depth / XW] = load_packed<XW>(A + Offset(m + line) * s.lda + k + depth);
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
gemm_bf16_rr_1x16384x16384_sm90_31b7f686(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, float alpha, float beta)
{
    float* const shared = reinterpret_cast<float*>(dynamic_shared());
    Ring& ring = *reinterpret_cast<Ring*>(shared);
    Sums* const block_sums = reinterpret_cast<Sums*>(shared + RING_WORDS);  // PARTIALS of each element, at the end

    const Shape s{};
    const int tile = blockIdx.x;
    const int begin = 0, end = s.K;
    const int tiles_along = (s.M + BM - 1) / BM;  // along M: they read the same weights, so they run together
    const int tile_m = tile % tiles_along * BM, tile_n = tile / tiles_along * BN;
    const ThreadOrigin thread = thread_origin();
    const int n = tile_n + thread.n;

    // A ring in shared memory, of which each thread has elements of its own: as soon as it has taken a step's weights,
    // it copies those of UNROLL steps later to their place.
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(B, s, begin + thread.k + u * STEP, end, n, ring[u]);

    float acc[S][T] = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int at = thread.k + k + u * STEP;
            Chunk chunk;
            fetch_small(A, s, tile_m, at, chunk);
            Packed<BF16, VW> weights[LOADS];
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
    store_c(C, s, tile_m, tile_n, sums, alpha, beta);
}
