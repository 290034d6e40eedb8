// gemm_f32_rc_16x4096x4096_sm90_d9872cbe
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  16 x 4096, row-major, lda = 4096
//     B  4096 x 4096, column-major, ldb = 4096
//     C  16 x 4096, row-major, ldc = 4096
//
// Block   16 x 64 of C by 128 threads, in k tiles of 32, 47120 bytes of shared memory
// Thread  32 elements of C: for each k 32 FMAs on 12 elements of A and B, read from shared memory by 3 loads
// Reads   0.3125 bytes of global and 1.5 of shared memory for each FMA; 6.4 FLOP for a byte of global
// Stages  global memory is read 3 stages ahead of its use, while the FMAs run
// Bound   device memory: 7.94 FLOP for a byte that has to move, too few for any known card
// Slices  sliced-K: 4 groups of warps compute the block tile, each over a part of the k tile
// Split-K 4 blocks compute a tile, each over a part of K; the last to arrive adds up their sums
//
// Launch  ceil(M / 16) * ceil(N / 64) * 4 blocks of 128 threads, 47120 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         partials: ceil(M / 16) * ceil(N / 64) * 4 * 1024 floats, uninitialised,
//         semaphores: ceil(M / 16) * ceil(N / 64) counters, zero before the first launch, which every launch leaves
//         zero,
//         no other launch using the same workspace at the same time
// Config  gemm_f32_rc_16x4096x4096_simt_outer1_16x64x32_8x4_w16x64_v4_ta1_tb0_pad4_s4_async1_unroll4_slices4_minb1_g1_split4_hoist2_copy32
// Made by gemmgen generate 16x4096x4096 --dtype f32 --layout rc --arch sm_90 --set BM=16 --set BN=64 --set BK=32 --set TN=4 --set WM=16 --set WN=64 --set TB=0 --set STAGES=4 --set ASYNC=1 --set K_UNROLL=4 --set SLICES=4 --set GROUP=1 --set SPLIT=4 --set HOIST=2 --set COPY_THREADS=32

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
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
constexpr int BM = 16;     // rows of C that a block computes
constexpr int BN = 64;     // columns of C that a block computes
constexpr int BK = 32;     // depth of a k tile
constexpr int TM = 8;      // rows of C that a thread computes
constexpr int TN = 4;      // columns of C that a thread computes
constexpr int WM = 16;     // rows of C that a warp computes
constexpr int WN = 64;     // columns of C that a warp computes
constexpr int PAD = 4;     // elements after each shared line of an operand stored along k: spreads banks
constexpr int STAGES = 4;  // stages: k tiles of A and B that shared memory holds
constexpr int K_UNROLL = 4;  // k that a mainloop iteration unrolls, with fragments prefetched two k ahead
constexpr int SLICES = 4;  // sliced-K: groups of warps that compute the same block tile, each over a part of the k tile
constexpr int MINB = 1;    // blocks that must fit an SM at once: caps a thread's registers
constexpr int GROUP = 1;   // raster: tile rows that blocks go down before the next tile column, for reuse in L2
constexpr int SPLIT = 4;   // split-K: blocks that compute the same tile of C, each over a part of K
constexpr int HOIST = 2;   // rows or columns of the thread tile whose FMAs are hoisted above the mainloop's branch

// Work split
constexpr int DEPTH = BK / SLICES;                  // k of a slice's part of a k tile
constexpr int SLICE_THREADS = BM / TM * (BN / TN);  // threads a slice, which cover the block's tile
constexpr int THREADS = SLICE_THREADS * SLICES;     // threads a block
constexpr int LANES_M = WM / TM;                    // threads down a warp's tile
constexpr int LANES_N = WN / TN;                    // threads across a warp's tile
constexpr int FM = 4;                               // floats of a thread's shared read of A
constexpr int FN = 1;                               // columns of a thread's shared read of B
constexpr int STEP_M = FM * LANES_M;                // rows from one shared read of a thread to its next
constexpr int STEP_N = FN * LANES_N;                // columns from one shared read of a thread to its next
constexpr int VC = 1;                               // floats of an access to C

// How A gets to shared memory
constexpr int VA = 1;                      // floats of an access to A
constexpr int STORE_A = 1;                 // floats of A that one cp.async writes to shared memory
constexpr int A_CONTIGUOUS = BK;           // floats of A's tile along its contiguous dimension
constexpr int A_STRIDED = BM;              // extent of A's tile along the other, strided dimension
constexpr int A_LANES = 32;                // threads along the contiguous dimension
constexpr int A_PASS = THREADS / A_LANES;  // threads along the strided dimension
// accesses of a thread, at most
constexpr int A_ITERATIONS = A_CONTIGUOUS / VA / A_LANES * ((A_STRIDED + A_PASS - 1) / A_PASS);
constexpr int PITCH_A = BM + PAD;          // floats from one row of A's shared tile to the next
constexpr int SHARED_A = BK * PITCH_A;     // floats of a shared tile of A

// How B gets to shared memory
constexpr int VB = 4;                      // floats of an access to B
constexpr int STORE_B = VB;                // floats of B that one cp.async writes to shared memory
constexpr int B_CONTIGUOUS = BK;           // floats of B's tile along its contiguous dimension
constexpr int B_STRIDED = BN;              // extent of B's tile along the other, strided dimension
constexpr int B_LANES = 8;                 // threads along the contiguous dimension
constexpr int B_PASS = THREADS / B_LANES;  // threads along the strided dimension
// accesses of a thread, at most
constexpr int B_ITERATIONS = B_CONTIGUOUS / VB / B_LANES * ((B_STRIDED + B_PASS - 1) / B_PASS);
constexpr int PITCH_B = BK + PAD;          // floats from one row of B's shared tile to the next
constexpr int SHARED_B = BN * PITCH_B;     // floats of a shared tile of B

// How slices add up
// rounds in which slices add up: 1, 2 or 4, so that the sums of one fit where the tiles were
constexpr int ROUNDS = 1 + (SLICES * BM * BN > STAGES * (SHARED_A + SHARED_B))
    + 2 * (SLICES * BM * BN > 2 * STAGES * (SHARED_A + SHARED_B));
constexpr int ROWS = TM / SLICES;  // rows of a thread's tile that each slice gets, and stores

static_assert(BM % TM == 0, "threads split a block's rows evenly");
static_assert(BN % TN == 0, "threads split a block's columns evenly");
static_assert(BM % WM == 0, "warps split a block's rows evenly");
static_assert(BN % WN == 0, "warps split a block's columns evenly");
static_assert(WM % TM == 0, "lanes split a warp's rows evenly");
static_assert(WN % (2 * TN) == 0, "lanes stand in pairs along a warp's columns");
static_assert(WM * WN == 32 * TM * TN, "a warp has 32 lanes, each with a TM x TN tile");
static_assert(SLICES * BM * BN <= ROUNDS * STAGES * (SHARED_A + SHARED_B), "the slices' sums fit where the tiles were");
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

// An element of A's or B's tile: row or column mn of C's tile, and k.
struct Coord {
    int mn, k;
};

using TileA = float[SHARED_A / PITCH_A][PITCH_A];  // A's tile in shared memory: [k][m]
using TileB = float[SHARED_B / PITCH_B][PITCH_B];  // B's tile in shared memory: [n][k]

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
// Its slice takes the k from `k` on of every k tile.
struct ThreadOrigin {
    int m, n, k;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x % SLICE_THREADS / 32, lane = threadIdx.x % 32;
    // Lanes zigzag in pairs: i and i^1 share rows, i and i^2 columns (if LANES_M > 1), so in a vector load of
    // either operand neighbouring lanes read the same address, which takes half the shared-memory wavefronts.
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int m = warp / (BN / WN) * WM + lane_m * FM, n = warp % (BN / WN) * WN + lane_n * FN;
    return {m, n, static_cast<int>(threadIdx.x) / SLICE_THREADS * DEPTH};
}

// The shared memory that the launch asks for: beyond 48 KB there is no other kind.
__device__ __forceinline__ unsigned char* dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char bytes[];
    return bytes;
}

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

// Reduces the sums of the block's slices, in their order. Threads of the same rank in each slice have the same thread
// tile, of which each gets ROWS rows: those from slice * ROWS on. `shared` may hold tiles that other threads still
// read.
__device__ __forceinline__ void add_slices(const float (&acc)[TM][TN], float (&sums)[ROWS][TN], float* shared)
{
    constexpr int WIDTH = 16 / sizeof(float);  // of an access
    constexpr int PITCH = TN * SLICE_THREADS;  // elements of a row of thread tiles, interleaved by vectors
    constexpr int TAKEN = ROWS / ROUNDS;       // rows that a slice gets in a round
    const int slice = threadIdx.x / SLICE_THREADS, rank = threadIdx.x % SLICE_THREADS;
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        __syncthreads();  // no thread reads what is there any more
        #pragma unroll
        for (int to = 0; to < SLICES; ++to) {
            #pragma unroll
            for (int i = 0; i < TAKEN; ++i) {
                float* const row = shared + ((slice * SLICES + to) * TAKEN + i) * PITCH + rank * WIDTH;
                #pragma unroll
                for (int j = 0; j < TN; j += WIDTH) {
                    Vec<WIDTH> vector;
                    #pragma unroll
                    for (int v = 0; v < WIDTH; ++v) vector.at[v] = acc[to * ROWS + round * TAKEN + i][j + v];
                    store<WIDTH>(row + j * SLICE_THREADS, vector);
                }
            }
        }
        __syncthreads();  // the sums of all slices are there
        #pragma unroll
        for (int i = 0; i < TAKEN; ++i) {
            #pragma unroll
            for (int j = 0; j < TN; ++j) sums[round * TAKEN + i][j] = 0.0f;
            #pragma unroll
            for (int from = 0; from < SLICES; ++from) {
                const float* const row = shared + ((from * SLICES + slice) * TAKEN + i) * PITCH + rank * WIDTH;
                #pragma unroll
                for (int j = 0; j < TN; j += WIDTH) {
                    const Vec<WIDTH> vector = load<WIDTH>(row + j * SLICE_THREADS);
                    #pragma unroll
                    for (int v = 0; v < WIDTH; ++v) sums[round * TAKEN + i][j + v] += vector.at[v];
                }
            }
        }
    }
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

// Start this thread's copies of A's tile to shared memory.
__device__ __forceinline__ void copy_a(const float* tile, Shape s, TileA& shared)
{
    const Coord first = access_origin_a();
    const float* from = tile + offset_a(first, s);
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const Coord step = access_offset_a(i), at = {first.mn + step.mn, first.k + step.k};
        if (A_STRIDED % A_PASS != 0 && at.mn >= A_STRIDED) break;
        cp_async<4 * VA>(&shared[at.k][at.mn], from + offset_a(step, s), 4 * VA);
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

// Start this thread's copies of B's tile to shared memory.
__device__ __forceinline__ void copy_b(const float* tile, Shape s, TileB& shared)
{
    const Coord first = access_origin_b();
    const float* from = tile + offset_b(first, s);
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const Coord step = access_offset_b(i), at = {first.mn + step.mn, first.k + step.k};
        if (B_STRIDED % B_PASS != 0 && at.mn >= B_STRIDED) break;
        cp_async<4 * VB>(&shared[at.mn][at.k], from + offset_b(step, s), 4 * VB);
    }
}

// This thread's fragment of A at one k, from `from` on: TM values, FM a load.
__device__ __forceinline__ void load_fragment_a(const float* from, float (&fragment)[TM])
{
    #pragma unroll
    for (int i = 0; i < TM; i += FM) {
        const Vec<FM> vector = load<FM>(from + i / FM * STEP_M);
        #pragma unroll
        for (int v = 0; v < FM; ++v) fragment[i + v] = vector.at[v];
    }
}

// This thread's fragments of B at K_UNROLL k, from `from` on: TN loads of K_UNROLL values along k.
template <int FIRST, int END>  // values
__device__ __forceinline__ void load_fragment_b(const float* from, Vec<K_UNROLL> (&fragment)[TN])
{
    #pragma unroll
    for (int i = FIRST; i < END; ++i) fragment[i] = load<K_UNROLL>(from + i * STEP_N * PITCH_B);
}

// acc += a * b, an outer product, in a serpentine along the columns: each FMA reuses an operand of the one before it.
// There are two register banks, so an FMA that reads three new registers takes two cycles.
// `b` holds K_UNROLL k, of which this is the d-th.
template <int FIRST, int END>  // columns of the thread tile
__device__ __forceinline__ void outer_product(const float (&a)[TM], const Vec<K_UNROLL> (&b)[TN], float (&acc)[TM][TN],
                                              int d)
{
    #pragma unroll
    for (int j = FIRST; j < END; ++j) {
        #pragma unroll
        for (int step = 0; step < TM; ++step) {
            const int i = j % 2 ? TM - 1 - step : step;
            acc[i][j] = fmaf(a[i], b[j].at[d], acc[i][j]);
        }
    }
}

// N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_results(float* to, Vec<N> value, float beta)
{
    if (beta != 0.0f) {
        const Vec<N> old = load<N>(to);
        #pragma unroll
        for (int i = 0; i < N; ++i) value.at[i] = fmaf(beta, old.at[i], value.at[i]);
    }
    store<N>(to, value);
}

// C = alpha * sums + beta * C in the i-th of this thread's rows, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(float* tile, Shape s, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], float alpha, float beta)
{
    const int row = static_cast<int>(threadIdx.x) / SLICE_THREADS * ROWS + i;  // of the thread tile
    const int m = thread.m + row / FM * STEP_M + row % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
        store_results<VC>(tile + Offset(m) * s.ldc + n, value, beta);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f32_rc_16x4096x4096_sm90_d9872cbe(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float* __restrict__ partials,
    unsigned* __restrict__ semaphores, float alpha, float beta)
{
    TileA* const As = reinterpret_cast<TileA*>(dynamic_shared());
    TileB* const Bs = reinterpret_cast<TileB*>(As + STAGES);
    const Shape s{};
    const TileOrigin tile = tile_of_block(s, blockIdx.x / SPLIT);
    const auto [begin, end] = split_k_range(s.K, blockIdx.x % SPLIT);
    const int extent = end - begin;  // of K, which this block sums
    const ThreadOrigin thread = thread_origin();
    const float* a_tile = A + Offset(tile.m) * s.lda + begin;
    const float* b_tile = B + Offset(tile.n) * s.ldb + begin;
    const Offset a_step = BK;  // to the next tile along K
    const Offset b_step = BK;
    float acc[TM][TN] = {};

    const int padded = (extent + BK - 1) / BK * BK;  // rounded up to whole k tiles
    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        if (padded > stage * BK) {
            copy_a(a_tile, s, As[stage]);
            copy_b(b_tile, s, Bs[stage]);
        }
        cp_async_commit();
        a_tile += a_step;
        b_tile += b_step;
    }

    if (padded > 0) {
        cp_async_wait<STAGES - 1>();  // this thread's copies of the first k tile have landed
        __syncthreads();              // and all other threads'
        // Registers hold fragments of two k. Once k's are used, those of k + 2 replace them, while k + 1 is multiplied.
        // An iteration takes K_UNROLL k; a_from and b_from point to the fragments of its first.
        // A vector of B along k holds the K_UNROLL k of an iteration: it is replaced after the last of them.
        // The compiler sinks a load to the next branch, unless its value is used before that. So the first HOIST lines
        // of the next k's product are hoisted above the branch, and the others follow it.
        const float* a_from = &As[0][thread.k][thread.m];
        const float* b_from = &Bs[0][thread.n][thread.k];
        Vec<K_UNROLL> b[TN];
        load_fragment_b<0, TN>(b_from, b);
        float a[2][TM];
        #pragma unroll
        for (int d = 0; d < 2; ++d) load_fragment_a(a_from + d * PITCH_A, a[d]);

        outer_product<0, HOIST>(a[0], b, acc, 0);
        int stage = 0;
        for (int k = K_UNROLL; k < padded / SLICES; k += K_UNROLL) {  // k counts those of a slice, DEPTH of each k tile
            #pragma unroll
            for (int d = 0; d < K_UNROLL; ++d) {
                if (d == K_UNROLL - 2) {  // loads from here on are of the next iteration
                    a_from += K_UNROLL * PITCH_A;
                    b_from += K_UNROLL;
                }
                if (d == K_UNROLL - 2 && k % DEPTH == 0) {  // and of the next k tile
                    cp_async_wait<STAGES - 2>();      // this thread's copies of it have landed
                    __syncthreads();                  // and all threads'; none reads this tile any more
                    if (padded - k * SLICES > (STAGES - 1) * BK) {
                        copy_a(a_tile, s, As[stage]);
                        copy_b(b_tile, s, Bs[stage]);
                    }
                    cp_async_commit();  // an empty group too: the wait counts groups
                    a_tile += a_step;
                    b_tile += b_step;
                    stage = stage + 1 < STAGES ? stage + 1 : 0;
                    a_from = &As[stage][thread.k][thread.m];
                    b_from = &Bs[stage][thread.n][thread.k];
                }
                outer_product<HOIST, TN>(a[d % 2], b, acc, d);
                if (d == K_UNROLL - 1) load_fragment_b<HOIST, TN>(b_from, b);
                load_fragment_a(a_from + (d + 2) % K_UNROLL * PITCH_A, a[d % 2]);
                outer_product<0, HOIST>(a[(d + 1) % 2], b, acc, (d + 1) % K_UNROLL);
                if (d + 1 == K_UNROLL - 1) load_fragment_b<0, HOIST>(b_from, b);
            }
        }

        #pragma unroll
        for (int d = 0; d < K_UNROLL; ++d) {  // the last iteration
            outer_product<HOIST, TN>(a[d % 2], b, acc, d);
            if (d + 2 < K_UNROLL) {
                load_fragment_a(a_from + (d + 2) * PITCH_A, a[d % 2]);
            }
            if (d + 1 < K_UNROLL) outer_product<0, HOIST>(a[(d + 1) % 2], b, acc, (d + 1) % K_UNROLL);
        }
    }

    float sums[ROWS][TN];
    add_slices(acc, sums, reinterpret_cast<float*>(As));
    float* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    const Fixup fixup = split_k_fixup(partials, semaphores);
    if (!store_partial<ROWS * TN>(&sums[0][0], fixup)) return;
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        float row[TN];
        reduce_partials(fixup, i * TN, row);
        store_row(c_tile, s, thread, i, row, alpha, beta);
    }
}
