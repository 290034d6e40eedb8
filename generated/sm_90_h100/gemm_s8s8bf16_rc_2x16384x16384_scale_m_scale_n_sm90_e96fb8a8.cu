// gemm_s8s8bf16_rc_2x16384x16384_scale_m_scale_n_sm90_e96fb8a8
//
//     C = alpha * acc * scale_m * scale_n + beta * C      acc = A * B; A s8, B s8, C bf16; sums in s32 on CUDA cores;
//                                                         C is read unless beta = 0, A and B always
//
//     A  2 x 16384, row-major, lda = 16384
//     B  16384 x 16384, column-major, ldb = 16384
//     C  2 x 16384, row-major, ldc = 16384
//     scale_m  2 elements, one a row of C
//     scale_n  16384 elements, one a column of C
//
// Block   2 x 32 of C by 128 threads, 2048 bytes of shared memory
// Thread  16 elements of C, over 1/32 of K: the sums of 32 threads are added up at the end
// Weights the elements of B, each multiplied by those of A, the small operand, at the same k
// Reads   each weight once, to a register, with 34816 bytes of a block in flight; 3.76 FLOP for a byte of global memory
// Bound   global memory: too few FLOP for each byte, on every known card
//
// Launch  ceil(M / 2) * ceil(N / 32) blocks of 128 threads
// Expects A, B, C, scale_m and scale_n at addresses divisible by 16, C overlapping no other operand
// Config  gemm_s8s8bf16_rc_2x16384x16384_scale_m_scale_n_skinny_s2_t8_w4_k1024_u2_v4_split1
// Made by gemmgen generate 2x16384x16384 --types s8,s8,bf16 --layout rc --epilogue 'alpha * acc * scale_m * scale_n + beta * C' --arch sm_90 --family skinny --set T=8 --set BK=1024

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
    static constexpr int M = 2;
    static constexpr int N = 16384;
    static constexpr int K = 16384;
    static constexpr int lda = 16384;
    static constexpr int ldb = 16384;
    static constexpr int ldc = 16384;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int S = 2;       // lines (rows or columns) of the small operand in a block: uses of a weight
constexpr int T = 8;       // elements along C's long side that a thread sums
constexpr int WARPS = 4;   // warps of a block
constexpr int BK = 1024;   // k of the small operand that shared memory holds at once
constexpr int UNROLL = 2;  // steps along K whose weights are under way at once

// Work split
constexpr int THREADS = 32 * WARPS;                         // threads a block
constexpr int BM = S;                                       // rows of C that a block computes
constexpr int BN = WARPS * T;                               // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 16;         // elements of an access to the weights
constexpr int LOADS = T;       // accesses of a thread a step
constexpr int STEP = 32 * VW;  // k that a block takes in a step
constexpr int XW = 16;         // elements of an access to the small operand

// Shared memory
constexpr int PITCH = BK;                              // elements from one line of a chunk to the next
constexpr int SUMS_PITCH = BN + 4;                     // ints from one line of sums to the next
constexpr int PARTIALS = 1;                            // sums of each element of C that meet in shared memory
constexpr int CHUNK_WORDS = S * PITCH / 4;             // ints of a chunk of the small operand
constexpr int SUMS_WORDS = PARTIALS * S * SUMS_PITCH;  // ints of the sums that replace it at the end

// Shared memory, in all
// ints of shared memory, for one and then the other
constexpr int SHARED_WORDS = CHUNK_WORDS * (CHUNK_WORDS >= SUMS_WORDS) + SUMS_WORDS * (SUMS_WORDS > CHUNK_WORDS);

static_assert(S * T <= 256, "larger tiles of sums exceed the registers");
static_assert(BK % (UNROLL * STEP) == 0, "a chunk is a whole number of the steps that registers hold");
static_assert(2 * UNROLL * STEP <= 2048, "loads that run ahead stay near the edge of K");
static_assert(32 % (S * T) == 0 or S * T % 32 == 0, "lanes halve the sums until each has its own");
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

template <int N, typename E>
__device__ __forceinline__ void store_packed(E* to, const Packed<E, N>& value)
{
    *reinterpret_cast<Packed<E, N>*>(to) = value;
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

using Chunk = signed char[S][PITCH];  // of A in shared memory: [m][k]

// This thread's first weights, from the block's: T columns per warp, whose lanes take neighbouring vectors along k.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {lane * VW, warp * T};
}

// Start the loads of one step: VW k from `k` on of the warp's T columns of B, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const signed char* B, Shape s, int k, int end, int n,
                                      Packed<signed char, VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int t = 0; t < T; ++t) {
        const bool exists = k < end;
        const int valid = exists ? VW : 0;
        weights[t] = load_edge<VW>(B + Offset(n + t) * s.ldb + k, valid);
    }
}

// acc += A's S values times the weights of T columns, over VW k from `k` on: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const Packed<signed char, VW> (&weights)[LOADS],
                                    int (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        const Packed<signed char, VW> x = load_packed<VW>(&chunk[i][k]);
        #pragma unroll
        for (int v = 0; v < VW; v += 4) {
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i][t] = dot(x.words[v / 4], weights[t].words[v / 4], acc[i][t]);
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

// A's values at k to k + BK - 1, or zeros beyond its edges, to shared memory.
__device__ __forceinline__ void stage(const signed char* A, Shape s, int m, int k, Chunk& chunk)
{
    #pragma unroll 4
    for (int i = threadIdx.x; i < S * BK / XW; i += THREADS) {
        const int line = i * XW / BK, depth = i * XW % BK;
        const Offset at = Offset(m + line) * s.lda + k + depth;
        const Packed<signed char, XW> values = load_packed<XW>(A + at);
        store_packed(&chunk[line][depth], values);
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

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_s8s8bf16_rc_2x16384x16384_scale_m_scale_n_sm90_e96fb8a8(
    const signed char* __restrict__ A, const signed char* __restrict__ B, BF16* __restrict__ C,
    const float* __restrict__ scale_m, const float* __restrict__ scale_n, float alpha, float beta)
{
    __shared__ __align__(16) int shared[SHARED_WORDS];
    Chunk& chunk = *reinterpret_cast<Chunk*>(shared);
    Sums* const block_sums = reinterpret_cast<Sums*>(shared);  // PARTIALS of each element, at the end

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
    // A ring of registers: a step's weights are loaded UNROLL steps before their use, also while the block waits.
    Packed<signed char, VW> weights[UNROLL][LOADS];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(B, s, begin + thread.k + u * STEP, end, n, weights[u]);

    int acc[S][T] = {};
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
