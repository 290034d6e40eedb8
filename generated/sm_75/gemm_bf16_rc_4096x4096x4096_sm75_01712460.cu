// gemm_bf16_rc_4096x4096x4096_sm75_01712460
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  4096 x 4096, row-major, lda = 4096
//     B  4096 x 4096, column-major, ldb = 4096
//     C  4096 x 4096, row-major, ldc = 4096
//
// Block   64 x 128 of C by 64 threads, in k tiles of 8, 12816 bytes of shared memory
// Thread  128 elements of C: for each k 128 FMAs on 24 elements of A and B, read from shared memory by 6 loads
// Reads   0.04688 bytes of global and 0.75 of shared memory for each FMA; 42.7 FLOP for a byte of global
// Stages  global memory is read 1 stage ahead of its use, while the FMAs run
// Bound   FFMA issue: FMAs are 93% of the mainloop's FMAs, reads and copies
// Stream  stream-K: 160 blocks divide the k tiles of the last wave's tiles evenly
//
// Launch  ceil(T / 160) * 160 blocks of 64 threads, for T = ceil(M / 64) * ceil(N / 128) tiles
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         partials: (160 + T % 160) * 8192 floats, uninitialised,
//         semaphores: 160 counters, zero before the first launch, which every launch leaves zero,
//         no other launch using the same workspace at the same time
// Config  gemm_bf16_rc_4096x4096x4096_simt_outer1_64x128x8_8x16_w32x128_v4_ta1_tb1_pad4_s2_async0_unroll0_slices1_minb1_g8_split1_stream160
// Made by gemmgen generate 4096x4096x4096 --dtype bf16 --layout rc --arch sm_75 --set BM=64 --set TN=16 --set WM=32 --set WN=128 --set STREAM=160

namespace {

// The nearest bfloat16, ties to even. No instruction before sm_80 does it.
__device__ __forceinline__ unsigned short round_to_bf16(float value)
{
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;  // NaN
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// A bfloat16: the upper half of a float.
struct BF16 {
    unsigned short bits;
    BF16() = default;
    __device__ __forceinline__ explicit BF16(float value) : bits(round_to_bf16(value)) {}
    __device__ __forceinline__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 4096;
    static constexpr int N = 4096;
    static constexpr int K = 4096;
    static constexpr int lda = 4096;
    static constexpr int ldb = 4096;
    static constexpr int ldc = 4096;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 64;     // rows of C that a block computes
constexpr int BN = 128;    // columns of C that a block computes
constexpr int BK = 8;      // depth of a k tile
constexpr int TM = 8;      // rows of C that a thread computes
constexpr int TN = 16;     // columns of C that a thread computes
constexpr int WM = 32;     // rows of C that a warp computes
constexpr int WN = 128;    // columns of C that a warp computes
constexpr int PAD = 4;     // elements after each shared line of an operand stored along k: spreads banks
constexpr int STAGES = 2;  // stages: k tiles of A and B that shared memory holds
constexpr int MINB = 1;    // blocks that must fit an SM at once: caps a thread's registers
constexpr int GROUP = 8;   // raster: tile rows that blocks go down before the next tile column, for reuse in L2
// stream-K: blocks that compute the last wave's tiles of C, with about as many k tiles each
constexpr int STREAM = 160;

// Work split
constexpr int THREADS = BM / TM * (BN / TN);  // threads a block
constexpr int LANES_M = WM / TM;              // threads down a warp's tile
constexpr int LANES_N = WN / TN;              // threads across a warp's tile
constexpr int FM = 4;                         // elements of a thread's shared read of A
constexpr int FN = 4;                         // elements of a thread's shared read of B
constexpr int STEP_M = FM * LANES_M;          // rows from one shared read of a thread to its next
constexpr int STEP_N = FN * LANES_N;          // columns from one shared read of a thread to its next
constexpr int VC = 4;                         // elements of an access to C

// How A gets to shared memory
constexpr int VA = 4;                      // elements of an access to A
constexpr int STORE_A = 1;                 // elements of a shared store of A
constexpr int A_CONTIGUOUS = BK;           // elements of A's tile along its contiguous dimension
constexpr int A_STRIDED = BM;              // extent of A's tile along the other, strided dimension
constexpr int A_LANES = 2;                 // threads along the contiguous dimension
constexpr int A_PASS = THREADS / A_LANES;  // threads along the strided dimension
// accesses of a thread, at most
constexpr int A_ITERATIONS = A_CONTIGUOUS / VA / A_LANES * ((A_STRIDED + A_PASS - 1) / A_PASS);
constexpr int PITCH_A = BM + PAD;          // elements from one row of A's shared tile to the next
constexpr int SHARED_A = BK * PITCH_A;     // elements of a shared tile of A

// How B gets to shared memory
constexpr int VB = 4;                      // elements of an access to B
constexpr int STORE_B = 1;                 // elements of a shared store of B
constexpr int B_CONTIGUOUS = BK;           // elements of B's tile along its contiguous dimension
constexpr int B_STRIDED = BN;              // extent of B's tile along the other, strided dimension
constexpr int B_LANES = 2;                 // threads along the contiguous dimension
constexpr int B_PASS = THREADS / B_LANES;  // threads along the strided dimension
// accesses of a thread, at most
constexpr int B_ITERATIONS = B_CONTIGUOUS / VB / B_LANES * ((B_STRIDED + B_PASS - 1) / B_PASS);
constexpr int PITCH_B = BN + PAD;          // elements from one row of B's shared tile to the next
constexpr int SHARED_B = BK * PITCH_B;     // elements of a shared tile of B

static_assert(BM % TM == 0, "threads split a block's rows evenly");
static_assert(BN % TN == 0, "threads split a block's columns evenly");
static_assert(BM % WM == 0, "warps split a block's rows evenly");
static_assert(BN % WN == 0, "warps split a block's columns evenly");
static_assert(WM % TM == 0, "lanes split a warp's rows evenly");
static_assert(WN % (2 * TN) == 0, "lanes stand in pairs along a warp's columns");
static_assert(WM * WN == 32 * TM * TN, "a warp has 32 lanes, each with a TM x TN tile");
static_assert(A_CONTIGUOUS % VA == 0, "A's tile is a whole number of accesses along its contiguous dimension");
static_assert(B_CONTIGUOUS % VB == 0, "B's tile is a whole number of accesses along its contiguous dimension");
static_assert(TM % FM == 0, "a thread's rows are a whole number of shared reads");
static_assert(TN % FN == 0, "a thread's columns are a whole number of shared reads");
static_assert(FN % VC == 0, "a thread's neighbouring columns are a whole number of stores");
static_assert(PITCH_A % FM == 0 and PITCH_A % STORE_A == 0, "vector accesses to A's shared tile stay aligned");
static_assert(PITCH_B % FN == 0 and PITCH_B % STORE_B == 0, "vector accesses to B's shared tile stay aligned");
static_assert(STAGES * SHARED_A % FN == 0 and STAGES * SHARED_A % STORE_B == 0,
              "vector accesses to B's tiles, which may follow A's, stay aligned");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");
static_assert(Shape::K % BK == 0, "tiles end where K does: no access is checked for that");

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

// An element of A's or B's tile: row or column mn of C's tile, and k.
struct Coord {
    int mn, k;
};

using TileA = float[SHARED_A / PITCH_A][PITCH_A];  // A's tile in shared memory: [k][m]
using TileB = float[SHARED_B / PITCH_B][PITCH_B];  // B's tile in shared memory: [k][n]

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

// The first element of this thread's tile within the block tile. Thread tiles are FM x FN patches, STEP_M and
// STEP_N apart, so that neighbouring threads read neighbouring addresses of shared memory.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Lanes zigzag in pairs: i and i^1 share rows, i and i^2 columns (if LANES_M > 1), so in a vector load of
    // either operand neighbouring lanes read the same address, which takes half the shared-memory wavefronts.
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int m = warp / (BN / WN) * WM + lane_m * FM, n = warp % (BN / WN) * WN + lane_n * FN;
    return {m, n};
}

// Which block computes which k tiles of which tile of C. STREAM blocks run at once, a wave. Tiles of whole waves are
// data-parallel: one block each. A tile of the last wave has an owner, which does its first `owner_k_tiles`. The wave's
// other blocks, the stream blocks, divide the k tiles that are left evenly, tile after tile. So all blocks of the wave
// do about as many k tiles, and most read the same k at the same time, which L2 then holds.
struct StreamK {
    int tiles;           // of C; the first as many blocks own one each
    int data_parallel;   // the tiles of whole waves, which come first
    int k_tiles;         // of one tile: at least one, so that its epilogue stores C where K = 0, too
    int owner_k_tiles;   // the owner's of these, in the last wave
    int stream_blocks;   // no more than there are k tiles for them
    long long streamed;  // k tiles of all stream blocks
};

__device__ __forceinline__ StreamK stream_k_schedule(Shape s)
{
    const int tiles = ((s.M + BM - 1) / BM) * ((s.N + BN - 1) / BN), last_wave = tiles % STREAM;
    const int k_tiles = max(1, (s.K + BK - 1) / BK);
    const int owner_k_tiles = static_cast<int>((static_cast<long long>(last_wave) * k_tiles + STREAM - 1) / STREAM);
    const long long streamed = static_cast<long long>(last_wave) * (k_tiles - owner_k_tiles);
    const int stream_blocks = static_cast<int>(min(streamed, static_cast<long long>(STREAM - last_wave)));
    return {tiles, tiles - last_wave, k_tiles, owner_k_tiles, stream_blocks, streamed};
}

// The number of a stream block's first k tile among the streamed ones. It does those up to the next block's first.
__device__ __forceinline__ long long first_k_tile(const StreamK& schedule, int stream_block)
{
    return stream_block * schedule.streamed / schedule.stream_blocks;
}

// The stream block that does the streamed k tile of this number.
__device__ __forceinline__ int stream_block_of(const StreamK& schedule, long long k_tile)
{
    return static_cast<int>(((k_tile + 1) * schedule.stream_blocks - 1) / schedule.streamed);
}

// What a block does: `k_tiles` k tiles, from number `k_tile` of `tile` on. Those past its last are the next tile's.
struct WorkUnit {
    int tile, k_tile, k_tiles;
};

__device__ __forceinline__ WorkUnit work_unit_of_block(const StreamK& schedule)
{
    const int block = blockIdx.x, stream_block = block - schedule.tiles;
    if (stream_block < 0) return {block, 0, block < schedule.data_parallel ? schedule.k_tiles : schedule.owner_k_tiles};
    if (stream_block >= schedule.stream_blocks) return {0, 0, 0};  // nothing is left for this one
    const int per_tile = schedule.k_tiles - schedule.owner_k_tiles;  // streamed
    const long long first = first_k_tile(schedule, stream_block);
    return {
        schedule.data_parallel + static_cast<int>(first / per_tile),
        schedule.owner_k_tiles + static_cast<int>(first % per_tile),
        static_cast<int>(first_k_tile(schedule, stream_block + 1) - first),
    };
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

// The partials and the semaphore of a tile; one peer where the tile is this block's alone.
__device__ __forceinline__ Fixup stream_k_fixup(const StreamK& schedule, int tile, float* partials,
                                                unsigned* semaphores)
{
    const int in_wave = tile - schedule.data_parallel;  // its number among the tiles of the last wave
    if (in_wave < 0 || schedule.stream_blocks == 0) return {partials, 1, 0, semaphores};
    const int per_tile = schedule.k_tiles - schedule.owner_k_tiles;  // streamed
    const long long begin = static_cast<long long>(in_wave) * per_tile;
    const int first = stream_block_of(schedule, begin), last = stream_block_of(schedule, begin + per_tile - 1);
    // Rank 0 is the owner's, then come the stream blocks in the order of their k tiles. A block whose work unit reaches
    // into the next tile is a peer there, too, so that a tile's partials begin behind those of all tiles before it.
    const int stream_block = static_cast<int>(blockIdx.x) - schedule.tiles;
    const int rank = stream_block < 0 ? 0 : stream_block - first + 1;
    float* const tile_partials = partials + static_cast<long long>(first + 2 * in_wave) * (BM * BN);
    return {tile_partials, last - first + 2, rank, semaphores + in_wave};
}

// This thread's first access to A's tile: A_LANES neighbouring threads copy along its contiguous dimension.
__device__ __forceinline__ Coord access_origin_a()
{
    const int strided = threadIdx.x / A_LANES, contiguous = threadIdx.x % A_LANES * VA;
    return {strided, contiguous};
}

// From there to its i-th access: along the contiguous dimension first. The same for all threads.
__device__ __forceinline__ Coord access_offset_a(int i)
{
    constexpr int TIMES = A_CONTIGUOUS / VA / A_LANES;  // accesses along the contiguous dimension
    const int strided = i / TIMES * A_PASS, contiguous = i % TIMES * A_LANES * VA;
    return {strided, contiguous};
}

// Elements from the origin of A's tile to `at`, in global memory.
__device__ __forceinline__ Offset offset_a(Coord at, Shape s)
{
    return Offset(at.mn) * s.lda + at.k;
}

// Global memory -> registers: this thread's accesses to A's tile. Zeros stand for what lies outside A.
__device__ __forceinline__ void fetch_a(const BF16* tile, Shape s, Vec<BF16, VA> (&staged)[A_ITERATIONS])
{
    const Coord first = access_origin_a();
    const BF16* from = tile + offset_a(first, s);
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const Coord step = access_offset_a(i), at = {first.mn + step.mn, first.k + step.k};
        if (A_STRIDED % A_PASS != 0 && at.mn >= A_STRIDED) break;
        staged[i] = load<VA>(from + offset_a(step, s));
    }
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_a(const Vec<BF16, VA> (&staged)[A_ITERATIONS], TileA& shared)
{
    const Coord first = access_origin_a();
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const Coord step = access_offset_a(i), at = {first.mn + step.mn, first.k + step.k};
        if (A_STRIDED % A_PASS != 0 && at.mn >= A_STRIDED) break;
        #pragma unroll
        for (int v = 0; v < VA; ++v) {
            shared[at.k + v][at.mn] = staged[i].at[v];
        }
    }
}

// This thread's first access to B's tile: B_LANES neighbouring threads copy along its contiguous dimension.
__device__ __forceinline__ Coord access_origin_b()
{
    const int strided = threadIdx.x / B_LANES, contiguous = threadIdx.x % B_LANES * VB;
    return {strided, contiguous};
}

// From there to its i-th access: along the contiguous dimension first. The same for all threads.
__device__ __forceinline__ Coord access_offset_b(int i)
{
    constexpr int TIMES = B_CONTIGUOUS / VB / B_LANES;  // accesses along the contiguous dimension
    const int strided = i / TIMES * B_PASS, contiguous = i % TIMES * B_LANES * VB;
    return {strided, contiguous};
}

// Elements from the origin of B's tile to `at`, in global memory.
__device__ __forceinline__ Offset offset_b(Coord at, Shape s)
{
    return Offset(at.mn) * s.ldb + at.k;
}

// Global memory -> registers: this thread's accesses to B's tile. Zeros stand for what lies outside B.
__device__ __forceinline__ void fetch_b(const BF16* tile, Shape s, Vec<BF16, VB> (&staged)[B_ITERATIONS])
{
    const Coord first = access_origin_b();
    const BF16* from = tile + offset_b(first, s);
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const Coord step = access_offset_b(i), at = {first.mn + step.mn, first.k + step.k};
        if (B_STRIDED % B_PASS != 0 && at.mn >= B_STRIDED) break;
        staged[i] = load<VB>(from + offset_b(step, s));
    }
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_b(const Vec<BF16, VB> (&staged)[B_ITERATIONS], TileB& shared)
{
    const Coord first = access_origin_b();
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const Coord step = access_offset_b(i), at = {first.mn + step.mn, first.k + step.k};
        if (B_STRIDED % B_PASS != 0 && at.mn >= B_STRIDED) break;
        #pragma unroll
        for (int v = 0; v < VB; ++v) {
            shared[at.k + v][at.mn] = staged[i].at[v];
        }
    }
}

// This thread's fragment of A at one k, from `from` on: TM values, FM a load.
__device__ __forceinline__ void load_fragment_a(const float* from, float (&fragment)[TM])
{
    #pragma unroll
    for (int i = 0; i < TM; i += FM) {
        const Vec<float, FM> vector = load<FM>(from + i / FM * STEP_M);
        #pragma unroll
        for (int v = 0; v < FM; ++v) fragment[i + v] = vector.at[v];
    }
}

// This thread's fragment of B at one k, from `from` on: TN values, FN a load.
__device__ __forceinline__ void load_fragment_b(const float* from, float (&fragment)[TN])
{
    #pragma unroll
    for (int i = 0; i < TN; i += FN) {
        const Vec<float, FN> vector = load<FN>(from + i / FN * STEP_N);
        #pragma unroll
        for (int v = 0; v < FN; ++v) fragment[i + v] = vector.at[v];
    }
}

// acc += a * b, an outer product, in a serpentine along the rows: each FMA reuses an operand of the one before it.
// There are two register banks, so an FMA that reads three new registers takes two cycles.
__device__ __forceinline__ void outer_product(const float (&a)[TM], const float (&b)[TN], float (&acc)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int step = 0; step < TN; ++step) {
            const int j = i % 2 ? TN - 1 - step : step;
            acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
        }
    }
}

// acc += A's tile * B's tile. k is outermost: TM + TN values feed TM * TN FMAs, an outer product per k.
__device__ __forceinline__ void mma(const TileA& As, const TileB& Bs, ThreadOrigin thread, float (&acc)[TM][TN])
{
    #pragma unroll
    for (int k = 0; k < BK; ++k) {
        float a[TM], b[TN];
        load_fragment_a(&As[k][thread.m], a);
        load_fragment_b(&Bs[k][thread.n], b);
        outer_product(a, b, acc);
    }
}

// N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_results(BF16* to, Vec<float, N> value, float beta)
{
    if (beta != 0.0f) {
        const Vec<BF16, N> old = load<N>(to);
        #pragma unroll
        for (int i = 0; i < N; ++i) value.at[i] = fmaf(beta, old.at[i], value.at[i]);
    }
    Vec<BF16, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = BF16(value.at[i]);
    store<N>(to, stored);
}

// C = alpha * sums + beta * C in the i-th of this thread's rows, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(BF16* tile, Shape s, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], float alpha, float beta)
{
    const int m = thread.m + i / FM * STEP_M + i % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<float, VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
        store_results<VC>(tile + Offset(m) * s.ldc + n, value, beta);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(BF16* tile, Shape s, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, thread, i, sums[i], alpha, beta);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_bf16_rc_4096x4096x4096_sm75_01712460(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, float* __restrict__ partials,
    unsigned* __restrict__ semaphores, float alpha, float beta)
{
    __shared__ __align__(16) TileA As[STAGES];
    __shared__ __align__(16) TileB Bs[STAGES];
    const Shape s{};
    const StreamK schedule = stream_k_schedule(s);
    for (WorkUnit unit = work_unit_of_block(schedule); unit.k_tiles > 0;) {
        const int k_tiles = min(unit.k_tiles, schedule.k_tiles - unit.k_tile);  // of this tile
        const int begin = unit.k_tile * BK, extent = min(s.K - begin, k_tiles * BK);  // of K, which this block sums
        const TileOrigin tile = tile_of_block(s, unit.tile);
        const ThreadOrigin thread = thread_origin();
        const BF16* a_tile = A + Offset(tile.m) * s.lda + begin;
        const BF16* b_tile = B + Offset(tile.n) * s.ldb + begin;
        const Offset a_step = BK;  // to the next tile along K
        const Offset b_step = BK;
        float acc[TM][TN] = {};

        Vec<BF16, VA> a_staged[A_ITERATIONS];
        Vec<BF16, VB> b_staged[B_ITERATIONS];
        if (extent > 0) {
            fetch_a(a_tile, s, a_staged);
            fetch_b(b_tile, s, b_staged);
            store_shared_a(a_staged, As[0]);
            store_shared_b(b_staged, Bs[0]);
        }
        __syncthreads();

        int stage = 0;
        for (int k = 0; k < extent; k += BK) {
            const int depth = extent - k - BK;  // of K behind this k tile
            if (depth > 0) {                 // these loads run during the FMAs of this k tile
                a_tile += a_step;
                b_tile += b_step;
                fetch_a(a_tile, s, a_staged);
                fetch_b(b_tile, s, b_staged);
            }
            mma(As[stage], Bs[stage], thread, acc);
            stage ^= 1;
            if (depth > 0) {
                store_shared_a(a_staged, As[stage]);
                store_shared_b(b_staged, Bs[stage]);
            }
            __syncthreads();  // the next stage is complete, and no thread reads this one any more
        }

        BF16* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
        const Fixup fixup = stream_k_fixup(schedule, unit.tile, partials, semaphores);
        if (fixup.peers == 1) {
            store_c(c_tile, s, thread, acc, alpha, beta);
        } else if (store_partial<TM * TN>(&acc[0][0], fixup)) {
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                float row[TN];
                reduce_partials(fixup, i * TN, row);
                store_row(c_tile, s, thread, i, row, alpha, beta);
            }
        }
        // Only stream blocks go on, from a tile with peers: store_partial's barrier has ended the use of As and Bs.
        unit = {unit.tile + 1, schedule.owner_k_tiles, unit.k_tiles - k_tiles};
    }
}
