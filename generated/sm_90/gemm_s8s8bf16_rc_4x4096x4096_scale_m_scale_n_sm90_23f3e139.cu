// gemm_s8s8bf16_rc_4x4096x4096_scale_m_scale_n_sm90_23f3e139
//
//     C = alpha * acc * scale_m * scale_n + beta * C      acc = A * B; A s8, B s8, C bf16; sums in s32 on CUDA cores;
//                                                         C is read unless beta = 0, A and B always
//
//     A  4 x 4096, row-major, lda = 4096
//     B  4096 x 4096, column-major, ldb = 4096
//     C  4 x 4096, row-major, ldc = 4096
//     scale_m  4 elements, one a row of C
//     scale_n  4096 elements, one a column of C
//
// Block   2 x 32 of C by 256 threads, 33056 bytes of shared memory
// Thread  8 elements of C, over 1/32 of K: the sums of 32 threads are added up at the end
// Weights the elements of B, each multiplied by those of A, the small operand, at the same k
// Reads   each weight once, through its thread's ring in shared memory, with 34816 bytes of a block in flight; 3.76
//         FLOP for a byte of global memory
// Cached  A, which every warp reads again: L1 serves most of it
// Bound   global memory: too few FLOP for each byte, on every known card
//
// Launch  ceil(M / 2) * ceil(N / 32) blocks of 256 threads
// Expects A, B, C, scale_m and scale_n at addresses divisible by 16, C overlapping no other operand
// Config  gemm_s8s8bf16_rc_4x4096x4096_scale_m_scale_n_skinny_s2_t4_w8_k0_u2_async1_v4_split1
// Made by gemmgen generate 4x4096x4096 --types s8,s8,bf16 --layout rc --epilogue 'alpha * acc * scale_m * scale_n + beta * C' --arch sm_90 --family skinny --set S=2 --set WARPS=8 --set ASYNC=1

namespace {

// a * b + c, which wraps around at 32 bits.
__device__ __forceinline__ int multiply_add(int a, int b, int c)
{
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) + static_cast<unsigned>(c));
}

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
    static constexpr int M = 4;
    static constexpr int N = 4096;
    static constexpr int K = 4096;
    static constexpr int lda = 4096;
    static constexpr int ldb = 4096;
    static constexpr int ldc = 4096;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int S = 2;       // lines (rows or columns) of the small operand in a block: uses of a weight
constexpr int T = 4;       // elements along C's long side that a thread sums
constexpr int WARPS = 8;   // warps of a block
constexpr int UNROLL = 2;  // steps along K whose weights are under way at once

// Work split
constexpr int THREADS = 32 * WARPS;  // threads a block
constexpr int MINB = 1;              // blocks that must fit an SM at once: more would cost loads under way
constexpr int BM = S;                // rows of C that a block computes
constexpr int BN = WARPS * T;        // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 16;         // elements of an access to the weights
constexpr int LOADS = T;       // accesses of a thread a step
constexpr int STEP = 32 * VW;  // k that a block takes in a step
constexpr int LANE_K = VW;     // k that a lane takes in a step
constexpr int XW = 16;         // elements of an access to the small operand

// Shared memory
constexpr int W_BYTES = 1;                             // bytes of an element of the weights
constexpr int RING_WORDS = UNROLL * LOADS * THREADS * VW * W_BYTES / 4;  // ints of the ring
constexpr int SUMS_PITCH = BN + 4;                     // ints from one line of sums to the next
constexpr int PARTIALS = 1;                            // sums of each element of C that meet in shared memory
constexpr int SUMS_WORDS = PARTIALS * S * SUMS_PITCH;  // ints of the sums at the end

// Shared memory, in all
constexpr int SHARED_WORDS = SUMS_WORDS + RING_WORDS;  // ints of shared memory

static_assert(S * T <= 256, "larger tiles of sums exceed the registers");
static_assert(2 * UNROLL * STEP <= 2048, "loads that run ahead stay near the edge of K");
static_assert(32 % (S * T) == 0 or S * T % 32 == 0, "lanes halve the sums until each has its own");
static_assert(W_BYTES * VW >= 4, "cp.async copies 4, 8 or 16 bytes");
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

// sum + the products of A's and B's four elements, which share 32 bits. It wraps around at 32 bits.
__device__ __forceinline__ int dot(unsigned a, unsigned b, int sum)
{
    return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
}

// Where a thread starts: k and column n of C.
struct ThreadOrigin {
    int k, n;
};

using Sums = int[S][SUMS_PITCH];  // one of each element of a block's tile: [m][n]

using Chunk = Packed<signed char, XW>[S][VW / XW];  // of A in registers: [m][k]

// This thread's first weights, from the block's: T columns per warp, whose lanes take neighbouring vectors along k.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {lane * VW, warp * T};
}

// Start the loads of one step: VW k from `k` on of the warp's T columns of B, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const signed char* B, Shape s, int k, int end, int n,
                                      Packed<signed char, VW> (&weights)[LOADS][THREADS])
{
    #pragma unroll
    for (int t = 0; t < T; ++t) {
        const bool exists = k < end;
        const int valid = exists ? VW : 0;
        cp_async<W_BYTES * VW>(&weights[t][threadIdx.x], B + Offset(n + t) * s.ldb + k, valid > 0 ? W_BYTES * VW : 0);
    }
    cp_async_commit();
}

// acc += A's S values times the weights of T columns, over VW k from `k` on: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const Packed<signed char, VW> (&weights)[LOADS],
                                    int (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        #pragma unroll
        for (int v = 0; v < VW; v += 4) {
            #pragma unroll
            for (int t = 0; t < T; ++t)
                acc[i][t] = dot(chunk[i][v / XW].words[v % XW / 4], weights[t].words[v / 4], acc[i][t]);
        }
    }
}

// Sums COUNT values over the 32 lanes of a warp. Each of five steps pairs lanes 16, 8, 4, 2, 1 apart: one of a pair
// keeps the first half of the values and the other the second, until one is left, which both keep.
// Lane l ends with the sums of values l * COUNT / 32 and, where COUNT > 32, of the next COUNT / 32 - 1.
// Steps are template arguments so that every index is a constant early: in a loop over them values went to local
// memory.
template <int DISTANCE, int COUNT>
__device__ __forceinline__ void warp_sum(int (&values)[COUNT])
{
    constexpr bool HALVED = COUNT * DISTANCE >= 32;
    constexpr int KEPT = HALVED ? COUNT * DISTANCE / 32 : 1;  // values after this step
    #pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const bool second = threadIdx.x & DISTANCE;
        const int first = values[i], last = values[HALVED ? KEPT + i : i];
        const int kept = second ? last : first, sent = second ? first : last;
        values[i] = multiply_add(1, kept, __shfl_xor_sync(0xffffffffu, sent, DISTANCE));
    }
    if constexpr (DISTANCE > 1) warp_sum<DISTANCE / 2>(values);
}

// Reduce the sums of a warp's lanes, each over its own k, and store them to shared memory.
__device__ __forceinline__ void store_sums(int (&acc)[S][T], ThreadOrigin thread, Sums* sums)
{
    int (&values)[S * T] = reinterpret_cast<int (&)[S * T]>(acc);
    warp_sum<16>(values);
    const int first = threadIdx.x % 32 * (S * T);  // 32 times the number of this lane's first sum
    if (first % 32 != 0) return;                   // a lane before it has the same sum
    #pragma unroll
    for (int i = 0; i < (S * T + 31) / 32; ++i) {
        const int value = first / 32 + i;
        sums[0][value / T][thread.n + value % T] = values[i];
    }
}

using Ring = Packed<signed char, VW>[UNROLL][LOADS][THREADS];  // of weights in shared memory: each thread's own

// Wait for the oldest step that is under way, and take this thread's weights of it.
__device__ __forceinline__ void take(const Packed<signed char, VW> (&step)[LOADS][THREADS],
                                     Packed<signed char, VW> (&weights)[LOADS])
{
    cp_async_wait<UNROLL - 1>();
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) weights[i] = step[i][threadIdx.x];
}

// Start the loads of what one step's weights are multiplied by: A's S values at each of this thread's k from `k` on, or
// zeros beyond its edges.
__device__ __forceinline__ void fetch_small(const signed char* A, Shape s, int m, int k, Chunk& chunk)
{
    #pragma unroll
    for (int line = 0; line < S; ++line) {
        #pragma unroll
        for (int depth = 0; depth < LANE_K; depth += XW) {
            chunk[line][depth / XW] = load_packed<XW>(A + Offset(m + line) * s.lda + k + depth);
        }
    }
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    float alpha, beta;
    const float* scale_m;
    const float* scale_n;
};

// What the epilogue reads of these for one element of C.
struct EpilogueInputs {
    float scale_m;
    float scale_n;
};

__device__ __forceinline__ EpilogueInputs load_inputs(const Epilogue& e, int m, int n)
{
    return {e.scale_m[m], e.scale_n[n]};
}

// C's new element; c is the old one, or 0 where beta = 0:
// alpha * acc * scale_m * scale_n + beta * C
__device__ __forceinline__ float epilogue(const Epilogue& e, const EpilogueInputs& inputs, int acc, float c)
{
    const float scale_m = inputs.scale_m;
    const float scale_n = inputs.scale_n;
    return fmaf(e.beta, c, e.alpha * acc * scale_m * scale_n);
}

// What the epilogue reads for this thread's elements of C that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void load_inputs(const Epilogue& e, Shape s, int tile_m, int tile_n,
                                            EpilogueInputs (&inputs)[OUTPUTS])
{
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        if ((OUTPUTS * THREADS == BM * BN || element < BM * BN)) inputs[i] = load_inputs(e, m, n);
    }
}

// This thread's elements of C that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void store_c(BF16* C, Shape s, int tile_m, int tile_n, const int (&sums)[OUTPUTS],
                                        const Epilogue& e, const EpilogueInputs (&inputs)[OUTPUTS])
{
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        BF16* const to = C + Offset(m) * s.ldc + n;
        *to = BF16(epilogue(e, inputs[i], sums[i], e.beta == 0.0f ? 0.0f : *to));

    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_s8s8bf16_rc_4x4096x4096_scale_m_scale_n_sm90_23f3e139(
    const signed char* __restrict__ A, const signed char* __restrict__ B, BF16* __restrict__ C,
    const float* __restrict__ scale_m, const float* __restrict__ scale_n, float alpha, float beta)
{
    __shared__ __align__(16) int shared[SHARED_WORDS];
    Ring& ring = *reinterpret_cast<Ring*>(shared);
    Sums* const block_sums = reinterpret_cast<Sums*>(shared + RING_WORDS);  // PARTIALS of each element, at the end

    const Shape s{};
    const int tile = blockIdx.x;
    const int begin = 0, end = s.K;
    const int tiles_along = (s.M + BM - 1) / BM;  // along M: they read the same weights, so they run together
    const int tile_m = tile % tiles_along * BM, tile_n = tile / tiles_along * BN;
    const ThreadOrigin thread = thread_origin();
    const int n = tile_n + thread.n;

    const Epilogue e = {alpha, beta, scale_m, scale_n};
    EpilogueInputs inputs[OUTPUTS] = {};  // under way while the products are summed
    load_inputs(e, s, tile_m, tile_n, inputs);
    // A ring in shared memory, of which each thread has elements of its own: as soon as it has taken a step's weights,
    // it copies those of UNROLL steps later to their place.
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(B, s, begin + thread.k + u * STEP, end, n, ring[u]);

    int acc[S][T] = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int at = thread.k + k + u * STEP;
            Chunk chunk;
            fetch_small(A, s, tile_m, at, chunk);
            Packed<signed char, VW> weights[LOADS];
            take(ring[u], weights);
            fetch(B, s, at + UNROLL * STEP, end, n, ring[u]);
            mma(chunk, 0, weights, acc);
        }
    }

    // Reduce the sums of threads at different k, in the order of these.
    store_sums(acc, thread, block_sums);
    __syncthreads();
    int sums[OUTPUTS] = {};
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        #pragma unroll
        for (int p = 0; p < PARTIALS; ++p)
            sums[i] = multiply_add(1, block_sums[p][element / BN][element % BN], sums[i]);
    }
    store_c(C, s, tile_m, tile_n, sums, e, inputs);
}
