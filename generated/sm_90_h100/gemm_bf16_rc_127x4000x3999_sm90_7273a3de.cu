// gemm_bf16_rc_127x4000x3999_sm90_7273a3de
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on tensor cores; C is read unless beta = 0, A and B always
//
//     A  127 x 3999, row-major, lda = 3999
//     B  3999 x 4000, column-major, ldb = 3999
//     C  127 x 4000, row-major, ldc = 4000
//
// Block   128 x 128 of C by 256 threads, in k tiles of 64, 65552 bytes of shared memory
// Warp    32 x 64 of C: for each 16 k, 16 mmas of 16 x 8 x 16, whose fragments 6 ldmatrix bring
// Stages  the next k tile is in registers while this one is multiplied
// Stores  lanes exchange sums: each stores 8 neighbours of a row of C at once
// Split-K 4 blocks compute a tile, each over a part of K; the last to arrive adds up their sums
//
// Launch  ceil(M / 128) * ceil(N / 128) * 4 blocks of 256 threads, 65552 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         partials: ceil(M / 128) * ceil(N / 128) * 4 * 16384 floats, uninitialised,
//         semaphores: ceil(M / 128) * ceil(N / 128) counters, zero before the first launch, which every launch leaves
//         zero,
//         no other launch using the same workspace at the same time
// Config  gemm_bf16_rc_127x4000x3999_mma_128x128x64_w32x64_s2_async0_exchange1_g8_split4_pdl1
// Made by gemmgen generate 127x4000x3999 --dtype bf16 --layout rc --arch sm_90 --family mma --set BK=64 --set WM=32 --set EXCHANGE=1 --set SPLIT=4 --set PDL=1

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
    static constexpr int M = 127;
    static constexpr int N = 4000;
    static constexpr int K = 3999;
    static constexpr int lda = 3999;
    static constexpr int ldb = 3999;
    static constexpr int ldc = 4000;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 128;    // rows of C that a block computes
constexpr int BN = 128;    // columns of C that a block computes
constexpr int BK = 64;     // depth of a k tile
constexpr int WM = 32;     // rows of C that a warp computes
constexpr int WN = 64;     // columns of C that a warp computes
constexpr int STAGES = 2;  // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;   // raster: tile rows that blocks go down before the next tile column, for reuse in L2
constexpr int SPLIT = 4;   // split-K: blocks that compute the same tile of C, each over a part of K

// Work split
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);  // threads a block
constexpr int K_STEP = 16;                           // k of a step: those of one set of fragments
constexpr int MMAS_M = WM / 16;                      // products of 16 x 8 down a warp's tile
constexpr int MMAS_N = WN / 8;                       // products of 16 x 8 across a warp's tile
constexpr int K_STEPS = BK / K_STEP;                 // steps along a k tile

// How A gets to shared memory
constexpr int VA = 1;             // elements of an access to A
constexpr int A_LANES = BK / VA;  // threads along a line of A's tile
constexpr int A_ITERATIONS = (BM * A_LANES + THREADS - 1) / THREADS;  // accesses of a thread, at most
constexpr int CHUNK_A = 8;        // elements of a chunk of 16 bytes, the unit of the swizzle
constexpr int A_PHASE = 1;        // consecutive lines that swizzle alike: they fill the banks together
constexpr int A_SWIZZLED = 8;     // chunks of a line that the swizzle permutes

// How B gets to shared memory
constexpr int VB = 1;             // elements of an access to B
constexpr int B_LANES = BK / VB;  // threads along a line of B's tile
constexpr int B_ITERATIONS = (BN * B_LANES + THREADS - 1) / THREADS;  // accesses of a thread, at most
constexpr int CHUNK_B = 8;        // elements of a chunk of 16 bytes, the unit of the swizzle
constexpr int B_PHASE = 1;        // consecutive lines that swizzle alike: they fill the banks together
constexpr int B_SWIZZLED = 8;     // chunks of a line that the swizzle permutes

// How C leaves registers
constexpr int TM = 2 * MMAS_M;  // rows of C that a thread has sums of
constexpr int TN = 2 * MMAS_N;  // columns of C that a thread has sums of
constexpr int FM = 1;           // adjacent rows in a run
constexpr int FN = 8;           // adjacent columns in a run
constexpr int STEP_M = 8;       // rows from a run to the next
constexpr int STEP_N = 32;      // columns from a run to the next
constexpr int VC = 8;           // elements of an access to C

static_assert(BM % WM == 0, "warps split a block's rows evenly");
static_assert(BN % WN == 0, "warps split a block's columns evenly");
static_assert(WM % 16 == 0, "fragments of A have 16 rows");
static_assert(WN % 16 == 0, "fragments of B, of 8 columns, are loaded two at a time");
static_assert(BK % (2 * K_STEP) == 0, "fragments of a k tile take turns in two sets of registers");
static_assert(A_LANES > 0 and THREADS % A_LANES == 0, "threads copy whole lines of A's tile together");
static_assert(B_LANES > 0 and THREADS % B_LANES == 0, "threads copy whole lines of B's tile together");
static_assert(WN % STEP_N == 0, "four lanes have whole accesses of a row together");

// N elements that move as one access.
template <typename E, int N>
struct alignas(sizeof(E) * N) Vec {
    E at[N];
};

template <int N, typename E>
__device__ __forceinline__ Vec<E, N> load(const E* from)
{
    return *reinterpret_cast<const Vec<E, N>*>(from);
}

template <int N, typename E>
__device__ __forceinline__ void store(E* to, const Vec<E, N>& value)
{
    *reinterpret_cast<Vec<E, N>*>(to) = value;
}

using TileA = BF16[BM][BK];  // A's tile in shared memory, its lines as in global memory
using TileB = BF16[BN][BK];  // B's, likewise
using Accumulators = float[MMAS_M][MMAS_N][4];  // this thread's sums, by instructions of its warp

// The raster: where in C the tile of this number lies. Consecutive numbers go down GROUP tile rows before the next tile
// column, so that blocks that run together read the same tiles of A and B from L2.
struct TileOrigin { int m, n; };

__device__ __forceinline__ TileOrigin tile_of_block(Shape s, int number)
{
    const int rows = (s.M + BM - 1) / BM, columns = (s.N + BN - 1) / BN;  // of tiles
    const int group = number / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = number % (GROUP * columns);
    return {(first + within % height) * BM, within / height * BN};
}

// The first element of this warp's tile within the block tile.
struct WarpOrigin {
    int m, n;
};

__device__ __forceinline__ WarpOrigin warp_origin()
{
    const int warp = threadIdx.x / 32;
    return {warp / (BN / WN) * WM, warp % (BN / WN) * WN};
}

// The first of this thread's sums within the block tile, once lanes have exchanged them if they do. It has the sums of
// 8 neighbouring columns in that row, and in the next one or the row 8 below.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const WarpOrigin warp = warp_origin();
    const int lane = threadIdx.x % 32;
    return {warp.m + lane / 4, warp.n + lane % 4 * 8};
}

// The shared memory that the launch asks for: beyond 48 KB there is no other kind.
__device__ __forceinline__ unsigned char* dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char bytes[];
    return bytes;
}

// Programmatic dependent launch, an attribute of launches: a kernel may start while the one before on the stream runs.
// Wait until that has ended and its writes are visible; and let the next one start once all blocks have come here.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// The range [begin, end) of K that one of a tile's SPLIT blocks sums: a whole number of BK, the same for all but the
// last ranges, which may be shorter or empty.
struct KRange {
    int begin, end;
};

__device__ __forceinline__ KRange split_k_range(int K, int split)
{
    const int extent = (K + SPLIT * BK - 1) / (SPLIT * BK) * BK;
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

// The first `valid` of N elements, the rest zero: one access where all exist, else one by one.
template <int N, typename E>
__device__ __forceinline__ Vec<E, N> load_edge(const E* from, int valid)
{
    if (valid >= N) return load<N>(from);
    Vec<E, N> value = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) value.at[i] = from[i];
    }
    return value;
}

// Load 4 matrices of 8 x 8 elements of 2 bytes. Lane 8 i + r passes the address of row r of matrix i, a multiple of 16.
// Lane l gets in r[i] elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const void* row)
{
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

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

// Two lanes DISTANCE apart exchange sums of a row. Before, each holds runs of WIDTH neighbours, and a run of the upper
// lane follows the lower lane's in C. Of each two such pairs of runs the lower lane then holds the first pair, the
// upper lane the second.
template <int DISTANCE>
__device__ __forceinline__ void exchange_with(float (&row)[TN])
{
    constexpr int WIDTH = 2 * DISTANCE;
    const bool upper = threadIdx.x & DISTANCE;
    #pragma unroll
    for (int j = 0; j < TN; ++j) {
        if (j / WIDTH % 2) continue;
        float& first = row[j];
        float& second = row[j + WIDTH];
        const float got = __shfl_xor_sync(0xffffffffu, upper ? first : second, DISTANCE);
        (upper ? first : second) = got;
    }
}

// Tensor cores leave a thread runs of two or four neighbours in a row of C. Lanes exchange them until each thread has
// runs of FN neighbours.
__device__ __forceinline__ void exchange(float (&row)[TN])
{
    exchange_with<1>(row);
    exchange_with<2>(row);
}

// Where element `at` of a line of A's shared tile lies: its chunks trade places, by XOR with the line's
// number, so that the same chunk of lines that are read at once lies in banks of its own in each.
__device__ __forceinline__ int swizzled_a(int line, int at)
{
    return at ^ line / A_PHASE % A_SWIZZLED * CHUNK_A;
}

// The same in B's.
__device__ __forceinline__ int swizzled_b(int line, int at)
{
    return at ^ line / B_PHASE % B_SWIZZLED * CHUNK_B;
}

// Global memory -> registers: this thread's accesses to A's tile. Zeros stand for what lies outside A.
__device__ __forceinline__ void fetch_a(const BF16* tile, Shape s, int rows, int depth,
                                        Vec<BF16, VA> (&staged)[A_ITERATIONS])
{
    const int first = threadIdx.x / A_LANES, k = threadIdx.x % A_LANES * VA;
    const BF16* const from = tile + Offset(first) * s.lda + k;
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int step = i * (THREADS / A_LANES), m = first + step;
        staged[i] = load_edge<VA>(from + Offset(step) * s.lda, m < rows ? depth - k : 0);
    }
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_a(const Vec<BF16, VA> (&staged)[A_ITERATIONS], TileA& shared)
{
    const int first = threadIdx.x / A_LANES, k = threadIdx.x % A_LANES * VA;
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int m = first + i * (THREADS / A_LANES);
        store<VA>(&shared[m][swizzled_a(m, k)], staged[i]);
    }
}

// Global memory -> registers: this thread's accesses to B's tile. Zeros stand for what lies outside B.
__device__ __forceinline__ void fetch_b(const BF16* tile, Shape s, int columns, int depth,
                                        Vec<BF16, VB> (&staged)[B_ITERATIONS])
{
    const int first = threadIdx.x / B_LANES, k = threadIdx.x % B_LANES * VB;
    const BF16* const from = tile + Offset(first) * s.ldb + k;
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const int step = i * (THREADS / B_LANES), n = first + step;
        staged[i] = load_edge<VB>(from + Offset(step) * s.ldb, n < columns ? depth - k : 0);
    }
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_b(const Vec<BF16, VB> (&staged)[B_ITERATIONS], TileB& shared)
{
    const int first = threadIdx.x / B_LANES, k = threadIdx.x % B_LANES * VB;
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const int n = first + i * (THREADS / B_LANES);
        store<VB>(&shared[n][swizzled_b(n, k)], staged[i]);
    }
}

// This warp's fragments of A's tile at the K_STEP k from `k_step` on: 16 rows each, from `warp_m` on.
__device__ __forceinline__ void load_fragments_a(const TileA& shared, int warp_m, int k_step, unsigned (&a)[MMAS_M][4])
{
    const int lane = threadIdx.x % 32;
    const int k = k_step + lane / 16 * CHUNK_A;
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        const int m = warp_m + 16 * i + lane % 16;
        ldmatrix_x4(a[i], &shared[m][swizzled_a(m, k)]);
    }
}

// This warp's fragments of B's tile at the K_STEP k from `k_step` on: 8 columns each, from `warp_n` on. One
// ldmatrix brings two.
__device__ __forceinline__ void load_fragments_b(const TileB& shared, int warp_n, int k_step, unsigned (&b)[MMAS_N][2])
{
    const int lane = threadIdx.x % 32;
    const int k = k_step + lane / 8 % 2 * CHUNK_B;
    #pragma unroll
    for (int j = 0; j < MMAS_N; j += 2) {
        const int n = warp_n + 8 * j + lane / 16 * 8 + lane % 8;
        unsigned pair[4];
        ldmatrix_x4(pair, &shared[n][swizzled_b(n, k)]);
        #pragma unroll
        for (int r = 0; r < 4; ++r) b[j + r / 2][r % 2] = pair[r];
    }
}

// acc += a * b: the products of one k step. In a serpentine: each instruction has a fragment of the one before it.
__device__ __forceinline__ void mma(const unsigned (&a)[MMAS_M][4], const unsigned (&b)[MMAS_N][2], Accumulators& acc)
{
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int step = 0; step < MMAS_N; ++step) {
            const int j = i % 2 ? MMAS_N - 1 - step : step;
            mma_m16n8k16_bf16(acc[i][j], a[i], b[j]);
        }
    }
}

// The sums by the rows that this thread has of C, and by columns in each.
__device__ __forceinline__ void rows_of(const Accumulators& acc, float (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = acc[i / 2][j / 2][i % 2 * 2 + j % 2];
    }
}

// The first `valid` of N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_edge(BF16* to, Vec<float, N> value, float beta, int valid)
{
    if (valid >= N) {
        if (beta != 0.0f) {
            const Vec<BF16, N> old = load<N>(to);
            #pragma unroll
            for (int i = 0; i < N; ++i) value.at[i] = fmaf(beta, old.at[i], value.at[i]);
        }
        Vec<BF16, N> stored;
        #pragma unroll
        for (int i = 0; i < N; ++i) stored.at[i] = BF16(value.at[i]);
        store<N>(to, stored);
        return;
    }
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) to[i] = BF16(beta == 0.0f ? value.at[i] : fmaf(beta, to[i], value.at[i]));
    }
}

// C = alpha * sums + beta * C in the i-th of this thread's rows, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(BF16* tile, Shape s, int rows, int columns, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], float alpha, float beta)
{
    const int m = thread.m + i / FM * STEP_M + i % FM;
    if (m >= rows) return;  // C has no such row
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<float, VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
        store_edge<VC>(tile + Offset(m) * s.ldc + n, value, beta, columns - n);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_bf16_rc_127x4000x3999_sm90_7273a3de(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, float* __restrict__ partials,
    unsigned* __restrict__ semaphores, float alpha, float beta)
{
    grid_dependency_wait();  // this kernel's blocks are resident by the time the one before ends
    launch_dependents();
    TileA* const As = reinterpret_cast<TileA*>(dynamic_shared());
    TileB* const Bs = reinterpret_cast<TileB*>(As + STAGES);
    const Shape s{};
    const TileOrigin tile = tile_of_block(s, blockIdx.x / SPLIT);
    const auto [begin, end] = split_k_range(s.K, blockIdx.x % SPLIT);
    const int extent = end - begin;  // of K, which this block sums
    const ThreadOrigin thread = thread_origin();
    const int rows = s.M - tile.m, columns = s.N - tile.n;  // from the tile's origin to the edge of C
    const BF16* a_tile = A + Offset(tile.m) * s.lda + begin;
    const BF16* b_tile = B + Offset(tile.n) * s.ldb + begin;
    const Offset a_step = BK;  // to the next tile along K
    const Offset b_step = BK;
    const WarpOrigin warp = warp_origin();
    Accumulators acc = {};

    Vec<BF16, VA> a_staged[A_ITERATIONS];
    Vec<BF16, VB> b_staged[B_ITERATIONS];
    if (extent > 0) {
        fetch_a(a_tile, s, rows, extent, a_staged);
        fetch_b(b_tile, s, columns, extent, b_staged);
        store_shared_a(a_staged, As[0]);
        store_shared_b(b_staged, Bs[0]);
    }
    __syncthreads();

    int stage = 0;
    for (int k = 0; k < extent; k += BK) {
        const int depth = extent - k - BK;  // of K behind this k tile
        if (depth > 0) {                 // these loads run while this k tile is multiplied
            a_tile += a_step;
            b_tile += b_step;
            fetch_a(a_tile, s, rows, depth, a_staged);
            fetch_b(b_tile, s, columns, depth, b_staged);
        }
        #pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            unsigned a[MMAS_M][4], b[MMAS_N][2];
            load_fragments_a(As[stage], warp.m, step * K_STEP, a);
            load_fragments_b(Bs[stage], warp.n, step * K_STEP, b);
            mma(a, b, acc);
        }
        stage ^= 1;
        if (depth > 0) {
            store_shared_a(a_staged, As[stage]);
            store_shared_b(b_staged, Bs[stage]);
        }
        __syncthreads();  // the next stage is complete, and no thread reads this one any more
    }

    float sums[TM][TN];
    rows_of(acc, sums);
    #pragma unroll
    for (int i = 0; i < TM; ++i) exchange(sums[i]);

    BF16* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    const Fixup fixup = split_k_fixup(partials, semaphores);
    if (!store_partial<TM * TN>(&sums[0][0], fixup)) return;
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        float row[TN];
        reduce_partials(fixup, i * TN, row);
        store_row(c_tile, s, rows, columns, thread, i, row, alpha, beta);
    }
}
