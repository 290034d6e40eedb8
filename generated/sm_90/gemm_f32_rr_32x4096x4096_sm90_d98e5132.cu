// gemm_f32_rr_32x4096x4096_sm90_d98e5132
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; beta = 0 never reads C
//
//     A  32 x 4096, row-major, lda = 4096
//     B  4096 x 4096, row-major, ldb = 4096
//     C  32 x 4096, row-major, ldc = 4096
//
// Block   32 x 64 of C by 128 threads, in steps of 64 along K, 51216 bytes of shared memory
// Thread  64 elements of C: for each k 64 FMAs on 16 words of shared memory, taken in 4 reads
// Reads   K / 21.33 words of global and K / 4 of shared memory for each element of C; 10.7 FLOP for a byte of global
// Ahead   global memory is read 1 step before its use, while the FMAs run
// Bound   FFMA issue: FMAs are 92% of the main loop's FMAs, reads and copies
// Slices  4 groups of warps share the block's tile: each sums a part of every step; they add up
// Split   4 blocks share a tile: each sums a part of K, the last to come adds the parts up
//
// Launch  ceil(M / 32) * ceil(N / 64) * 4 blocks of 128 threads, 51216 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         partials: ceil(M / 32) * ceil(N / 64) * 4 * 2048 floats, holding anything,
//         tickets: ceil(M / 32) * ceil(N / 64) counters, zero before the first launch, which every launch leaves zero,
//         no other launch using the same workspace at the same time
// Config  gemm_f32_rr_32x4096x4096_simt_outer1_32x64x64_8x8_w32x64_v4_ta1_tb0_pad4_s2_async1_ahead4_slices4_minb1_g1_split4_lead1_order1_team16
// Made by gemmgen generate 32x4096x4096 --dtype f32 --layout rr --arch sm_90 --set BM=32 --set BN=64 --set BK=64 --set WM=32 --set WN=64 --set ASYNC=1 --set AHEAD=4 --set SLICES=4 --set GROUP=1 --set SPLIT=4 --set LEAD=1 --set ORDER=1 --set TEAM=16

namespace {

// Sizes and the elements between lines (leading dimensions). What is known here folds into the code.
struct Shape {
    static constexpr int M = 32;
    static constexpr int N = 4096;
    static constexpr int K = 4096;
    static constexpr int lda = 4096;
    static constexpr int ldb = 4096;
    static constexpr int ldc = 4096;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 32;     // rows of C that a block computes
constexpr int BN = 64;     // columns of C that a block computes
constexpr int BK = 64;     // depth of one step along K
constexpr int TM = 8;      // rows of C that a thread computes
constexpr int TN = 8;      // columns of C that a thread computes
constexpr int WM = 32;     // rows of C that a warp computes
constexpr int WN = 64;     // columns of C that a warp computes
constexpr int PAD = 4;     // elements after each shared line of an operand stored along k: spreads banks
constexpr int STAGES = 2;  // tiles of A and B that shared memory holds
constexpr int AHEAD = 4;   // depths that the loop over a step unrolls, reading two ahead
constexpr int SLICES = 4;  // groups of warps that share a block's tile, each with a part of a step's depth
constexpr int MINB = 1;    // blocks that must fit an SM at once: caps a thread's registers
constexpr int GROUP = 1;   // tile rows that blocks walk down before they step right, for reuse in L2
constexpr int SPLIT = 4;   // blocks that share a tile of C, each with a part of K
constexpr int LEAD = 1;    // rows or columns of a thread's tile whose FMAs come before the branch to the next tile or turn

// Work split
constexpr int DEPTH = BK / SLICES;                  // depth of a slice's part of a step
constexpr int SLICE_THREADS = BM / TM * (BN / TN);  // threads a slice, which cover the block's tile
constexpr int THREADS = SLICE_THREADS * SLICES;     // threads a block
constexpr int LANES_M = WM / TM;                    // threads down a warp's tile
constexpr int LANES_N = WN / TN;                    // threads across a warp's tile
constexpr int FM = 4;                               // floats of a thread's shared read of A
constexpr int FN = 4;                               // floats of a thread's shared read of B
constexpr int STEP_M = FM * LANES_M;                // rows from one shared read of a thread to its next
constexpr int STEP_N = FN * LANES_N;                // columns from one shared read of a thread to its next
constexpr int VC = 4;                               // floats of an access to C

// How A gets to shared memory
constexpr int VA = 1;                                                                  // floats of an access to A
constexpr int STORE_A = 1;                                                             // floats of A that one cp.async writes to shared memory
constexpr int A_LINE = BK;                                                             // floats of a line of A's tile
constexpr int A_LINES = BM;                                                            // lines of A's tile
constexpr int A_TEAM = 16;                                                             // neighbouring threads that fetch a line together
constexpr int A_STRIDE = THREADS / A_TEAM;                                             // lines that all threads fetch at once
constexpr int A_SHARE = A_LINE / VA / A_TEAM * ((A_LINES + A_STRIDE - 1) / A_STRIDE);  // accesses that a thread makes at most
constexpr int PITCH_A = BM + PAD;                                                      // floats from one shared line of A to the next
constexpr int SHARED_A = BK * PITCH_A;                                                 // floats of a shared tile of A

// How B gets to shared memory
constexpr int VB = 4;                                                                  // floats of an access to B
constexpr int STORE_B = VB;                                                            // floats of B that one cp.async writes to shared memory
constexpr int B_LINE = BN;                                                             // floats of a line of B's tile
constexpr int B_LINES = BK;                                                            // lines of B's tile
constexpr int B_TEAM = 8;                                                              // neighbouring threads that fetch a line together
constexpr int B_STRIDE = THREADS / B_TEAM;                                             // lines that all threads fetch at once
constexpr int B_SHARE = B_LINE / VB / B_TEAM * ((B_LINES + B_STRIDE - 1) / B_STRIDE);  // accesses that a thread makes at most
constexpr int PITCH_B = BN;                                                            // floats from one shared line of B to the next
constexpr int SHARED_B = BK * PITCH_B;                                                 // floats of a shared tile of B

// How slices add up
constexpr int ROUNDS = 1 + (SLICES * BM * BN > STAGES * (SHARED_A + SHARED_B)) + 2 * (SLICES * BM * BN > 2 * STAGES * (SHARED_A + SHARED_B));  // rounds in which slices add up: 1, 2 or 4, so that the sums of one fit where the tiles were
constexpr int ROWS = TM / SLICES;                                                                                                              // rows of a thread's tile that each slice gets, and stores

static_assert(BM % TM == 0, "threads split a block's rows evenly");
static_assert(BN % TN == 0, "threads split a block's columns evenly");
static_assert(BM % WM == 0, "warps split a block's rows evenly");
static_assert(BN % WN == 0, "warps split a block's columns evenly");
static_assert(WM % TM == 0, "lanes split a warp's rows evenly");
static_assert(WN % (2 * TN) == 0, "lanes stand in pairs along a warp's columns");
static_assert(WM * WN == 32 * TM * TN, "a warp has 32 lanes, each with a TM x TN tile");
static_assert(SLICES * BM * BN <= ROUNDS * STAGES * (SHARED_A + SHARED_B), "the slices' sums take the place of the tiles");
static_assert(A_LINE % VA == 0, "a line of A's tile is a whole number of accesses");
static_assert(B_LINE % VB == 0, "a line of B's tile is a whole number of accesses");
static_assert(TM % FM == 0, "a thread's rows are a whole number of shared reads");
static_assert(TN % FN == 0, "a thread's columns are a whole number of shared reads");
static_assert(FN % VC == 0, "a thread's neighbouring columns are a whole number of stores");
static_assert(PITCH_A % FM == 0 and PITCH_A % STORE_A == 0, "vector accesses to A's shared lines stay aligned");
static_assert(PITCH_B % FN == 0 and PITCH_B % STORE_B == 0, "vector accesses to B's shared lines stay aligned");
static_assert(STAGES * SHARED_A % FN == 0 and STAGES * SHARED_A % STORE_B == 0, "vector accesses to B's tiles, which may follow A's, stay aligned");
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

// An element of a tile on its way to shared memory: row or column mn of C, and depth k.
struct Spot {
    int mn, k;
};

using TileA = float[SHARED_A / PITCH_A][PITCH_A];  // A's tile in shared memory: [k][m]
using TileB = float[SHARED_B / PITCH_B][PITCH_B];  // B's tile in shared memory: [k][n]

// The tile of C that a block computes. Blocks walk along the rows of tiles, one after the other: GROUP is 1.
struct TileOrigin {
    int m, n;
};

__device__ __forceinline__ TileOrigin tile_of_block(Shape s, int block)
{
    const int rows = (s.M + BM - 1) / BM, columns = (s.N + BN - 1) / BN;  // of tiles
    const int group = block / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = block % (GROUP * columns);
    return {(first + within % height) * BM, within / height * BN};
}

// Where this thread's elements start within the block's tile. They come in FM x FN patches, STEP_M and
// STEP_N apart, so that neighbouring threads read neighbouring addresses of shared memory.
// Its slice takes the depths from k on of every step.
struct Place {
    int m, n, k;
};

__device__ __forceinline__ Place place_of_thread()
{
    const int warp = threadIdx.x % SLICE_THREADS / 32, lane = threadIdx.x % 32;
    // Lanes zigzag in pairs: i and i^1 share rows, i and i^2 columns (if LANES_M > 1), so a vector read of
    // either operand meets each address twice in neighbouring lanes and takes half the shared-memory cycles.
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int m = warp / (BN / WN) * WM + lane_m * FM, n = warp % (BN / WN) * WN + lane_n * FN;
    return {m, n, static_cast<int>(threadIdx.x) / SLICE_THREADS * DEPTH};
}

#ifdef __CUDACC__
// The shared memory that the launch asks for: beyond 48 KB there is no other kind.
__device__ __forceinline__ unsigned char* dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char bytes[];
    return bytes;
}
#endif  // __CUDACC__

// The depths [begin, end) that one of a tile's SPLIT blocks sums: equal parts of K, each a whole number of steps. The
// last parts may be shorter, or empty.
struct Depths {
    int begin, end;
};

__device__ __forceinline__ Depths depths_of_split(int K, int split)
{
    const int part = (K + SPLIT * BK - 1) / (SPLIT * BK) * BK;
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

// Adds up what the block's slices summed, in their order. The threads with the same number in each slice have the same tile,
// of which each gets ROWS rows: those from slice * ROWS on. `shared` may hold tiles that other threads still read.
__device__ __forceinline__ void add_slices(const float (&acc)[TM][TN], float (&sums)[ROWS][TN], float* shared)
{
    constexpr int WIDTH = 16 / sizeof(float);  // of an access
    constexpr int LINE = TN * SLICE_THREADS;   // elements of one row of all the slice's threads, the threads' vectors in turns
    constexpr int TAKEN = ROWS / ROUNDS;       // rows that a slice gets in a round
    const int slice = threadIdx.x / SLICE_THREADS, thread = threadIdx.x % SLICE_THREADS;
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        __syncthreads();  // nobody reads what stands there any more
        #pragma unroll
        for (int to = 0; to < SLICES; ++to) {
            #pragma unroll
            for (int i = 0; i < TAKEN; ++i) {
                float* const line = shared + ((slice * SLICES + to) * TAKEN + i) * LINE + thread * WIDTH;
                #pragma unroll
                for (int j = 0; j < TN; j += WIDTH) {
                    Vec<WIDTH> part;
                    #pragma unroll
                    for (int v = 0; v < WIDTH; ++v) part.at[v] = acc[to * ROWS + round * TAKEN + i][j + v];
                    store<WIDTH>(line + j * SLICE_THREADS, part);
                }
            }
        }
        __syncthreads();  // the sums of all slices stand there
        #pragma unroll
        for (int i = 0; i < TAKEN; ++i) {
            #pragma unroll
            for (int j = 0; j < TN; ++j) sums[round * TAKEN + i][j] = 0.0f;
            #pragma unroll
            for (int from = 0; from < SLICES; ++from) {
                const float* const line = shared + ((from * SLICES + slice) * TAKEN + i) * LINE + thread * WIDTH;
                #pragma unroll
                for (int j = 0; j < TN; j += WIDTH) {
                    const Vec<WIDTH> part = load<WIDTH>(line + j * SLICE_THREADS);
                    #pragma unroll
                    for (int v = 0; v < WIDTH; ++v) sums[round * TAKEN + i][j + v] += part.at[v];
                }
            }
        }
    }
}

#ifdef __CUDACC__
// Start copying BYTES from global to shared memory; those past `valid_bytes` become zeros. No data passes a register.
template <int BYTES>
__device__ __forceinline__ void cp_async(void* shared, const void* global, int valid_bytes)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (BYTES == 16) {  // .cg goes past L1, which would only keep what shared memory keeps
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(valid_bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(BYTES), "r"(valid_bytes) : "memory");
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
#endif  // __CUDACC__

// Where this thread's first access to A's tile starts: A_TEAM neighbouring threads fetch a line together, along k.
__device__ __forceinline__ Spot spot_a()
{
    const int line = threadIdx.x / A_TEAM, along = threadIdx.x % A_TEAM * VA;
    return {line, along};
}

// From there to its i-th: further along the line first, then A_STRIDE lines on. The same for all threads.
__device__ __forceinline__ Spot step_a(int i)
{
    constexpr int TIMES = A_LINE / VA / A_TEAM;  // accesses of a thread to a line
    const int line = i / TIMES * A_STRIDE, along = i % TIMES * A_TEAM * VA;
    return {line, along};
}

// Floats from the origin of A's tile to `at`, in global memory.
__device__ __forceinline__ Offset offset_a(Spot at, Shape s)
{
    return Offset(at.mn) * s.lda + at.k;
}

// Start this thread's share of A's tile on its way to shared memory.
__device__ __forceinline__ void copy_a(const float* tile, Shape s, TileA& shared)
{
    const Spot first = spot_a();
    const float* from = tile + offset_a(first, s);
    #pragma unroll
    for (int i = 0; i < A_SHARE; ++i) {
        const Spot step = step_a(i), at = {first.mn + step.mn, first.k + step.k};
        if (A_LINES % A_STRIDE != 0 && at.mn >= A_LINES) break;
        cp_async<4 * VA>(&shared[at.k][at.mn], from + offset_a(step, s), 4 * VA);
    }
}

// Where this thread's first access to B's tile starts: B_TEAM neighbouring threads fetch a line together, along n.
__device__ __forceinline__ Spot spot_b()
{
    const int line = threadIdx.x / B_TEAM, along = threadIdx.x % B_TEAM * VB;
    return {along, line};
}

// From there to its i-th: further along the line first, then B_STRIDE lines on. The same for all threads.
__device__ __forceinline__ Spot step_b(int i)
{
    constexpr int TIMES = B_LINE / VB / B_TEAM;  // accesses of a thread to a line
    const int line = i / TIMES * B_STRIDE, along = i % TIMES * B_TEAM * VB;
    return {along, line};
}

// Floats from the origin of B's tile to `at`, in global memory.
__device__ __forceinline__ Offset offset_b(Spot at, Shape s)
{
    return Offset(at.k) * s.ldb + at.mn;
}

// Start this thread's share of B's tile on its way to shared memory.
__device__ __forceinline__ void copy_b(const float* tile, Shape s, TileB& shared)
{
    const Spot first = spot_b();
    const float* from = tile + offset_b(first, s);
    #pragma unroll
    for (int i = 0; i < B_SHARE; ++i) {
        const Spot step = step_b(i), at = {first.mn + step.mn, first.k + step.k};
        if (B_LINES % B_STRIDE != 0 && at.k >= B_LINES) break;
        cp_async<4 * VB>(&shared[at.k][at.mn], from + offset_b(step, s), 4 * VB);
    }
}

// This thread's TM values of A at one depth, the first of which lies at `from`, FM to a read.
__device__ __forceinline__ void read_a(const float* from, float (&fragment)[TM])
{
    #pragma unroll
    for (int i = 0; i < TM; i += FM) {
        const Vec<FM> part = load<FM>(from + i / FM * STEP_M);
        #pragma unroll
        for (int v = 0; v < FM; ++v) fragment[i + v] = part.at[v];
    }
}

// This thread's TN values of B at one depth, the first of which lies at `from`, FN to a read.
__device__ __forceinline__ void read_b(const float* from, float (&fragment)[TN])
{
    #pragma unroll
    for (int i = 0; i < TN; i += FN) {
        const Vec<FN> part = load<FN>(from + i / FN * STEP_N);
        #pragma unroll
        for (int v = 0; v < FN; ++v) fragment[i + v] = part.at[v];
    }
}

// acc += a * b, an outer product, to and fro along the columns: each FMA shares a value with the one before it.
// Two register banks give an operand a cycle each, so an FMA that reads three registers anew takes two cycles.
// Even columns start at their far end: so registers fall into other banks.
template <int FIRST, int END>  // columns of the thread's tile
__device__ __forceinline__ void add_product(const float (&a)[TM], const float (&b)[TN], float (&acc)[TM][TN])
{
    #pragma unroll
    for (int j = FIRST; j < END; ++j) {
        #pragma unroll
        for (int step = 0; step < TM; ++step) {
            const int i = j % 2 == 0 ? TM - 1 - step : step;
            acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
        }
    }
}

// N results to C. beta = 0 overwrites C unread: what stood there may be NaN.
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

// C = alpha * sums + beta * C in the i-th of this thread's ROWS rows.
__device__ __forceinline__ void store_row(float* tile, Shape s, Place place, int i,
                                          const float (&sums)[TN], float alpha, float beta)
{
    const int row = static_cast<int>(threadIdx.x) / SLICE_THREADS * ROWS + i;  // of the tile that slices share
    const int m = place.m + row / FM * STEP_M + row % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = place.n + j / FN * STEP_N + j % FN;
        Vec<VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
        store_results<VC>(tile + Offset(m) * s.ldc + n, value, beta);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f32_rr_32x4096x4096_sm90_d98e5132(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    float* __restrict__ partials,
    unsigned* __restrict__ tickets,
    float alpha,
    float beta)
{
    TileA* const As = reinterpret_cast<TileA*>(dynamic_shared());
    TileB* const Bs = reinterpret_cast<TileB*>(As + STAGES);
    const Shape s{};
    const TileOrigin tile = tile_of_block(s, blockIdx.x / SPLIT);
    const auto [begin, end] = depths_of_split(s.K, blockIdx.x % SPLIT);
    const int part = end - begin;  // of K, which this block sums
    const Place place = place_of_thread();
    const float* a_tile = A + Offset(tile.m) * s.lda + begin;
    const float* b_tile = B + tile.n + Offset(begin) * s.ldb;
    const Offset a_step = BK;  // to the next tile along K
    const Offset b_step = Offset(BK) * s.ldb;
    float acc[TM][TN] = {};

    const int padded = (part + BK - 1) / BK * BK;  // rounded up to whole steps
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
        cp_async_wait<STAGES - 1>();  // this thread's share of the first tile has landed
        __syncthreads();              // so has everybody's
        // The values of depth d are replaced by those of d + 2 once they are used, and arrive while those of d + 1 are
        // multiplied. A turn of the loop takes AHEAD depths; a_from and b_from say where the values of these lie.
        // The compiler puts a read off to the next branch, unless it sees the values used before that. So the first LEAD
        // columns of each product come a depth early: before the branch to the next tile or turn, which the others follow.
        const float* a_from = &As[0][place.k][place.m];
        const float* b_from = &Bs[0][place.k][place.n];
        float a[2][TM], b[2][TN];
        #pragma unroll
        for (int d = 0; d < 2; ++d) {
            read_a(a_from + d * PITCH_A, a[d]);
            read_b(b_from + d * PITCH_B, b[d]);
        }

        add_product<0, LEAD>(a[0], b[0], acc);
        int stage = 0;
        for (int k = AHEAD; k < padded / SLICES; k += AHEAD) {  // k counts a slice's depths, DEPTH of each step
            #pragma unroll
            for (int d = 0; d < AHEAD; ++d) {
                if (d == AHEAD - 2) {  // what is read from here on is the next turn's
                    a_from += AHEAD * PITCH_A;
                    b_from += AHEAD * PITCH_B;
                }
                if (d == AHEAD - 2 && k % DEPTH == 0) {  // and of the next tile
                    cp_async_wait<STAGES - 2>();      // this thread's share of it has landed
                    __syncthreads();                  // so has everybody's, and nobody reads this tile any more
                    if (padded - k * SLICES > (STAGES - 1) * BK) {
                        copy_a(a_tile, s, As[stage]);
                        copy_b(b_tile, s, Bs[stage]);
                    }
                    cp_async_commit();  // an empty group too: the wait counts groups
                    a_tile += a_step;
                    b_tile += b_step;
                    stage = stage + 1 < STAGES ? stage + 1 : 0;
                    a_from = &As[stage][place.k][place.m];
                    b_from = &Bs[stage][place.k][place.n];
                }
                add_product<LEAD, TN>(a[d % 2], b[d % 2], acc);
                read_a(a_from + (d + 2) % AHEAD * PITCH_A, a[d % 2]);
                read_b(b_from + (d + 2) % AHEAD * PITCH_B, b[d % 2]);
                add_product<0, LEAD>(a[(d + 1) % 2], b[(d + 1) % 2], acc);
            }
        }

        #pragma unroll
        for (int d = 0; d < AHEAD; ++d) {  // the last turn
            add_product<LEAD, TN>(a[d % 2], b[d % 2], acc);
            if (d + 2 < AHEAD) {
                read_a(a_from + (d + 2) * PITCH_A, a[d % 2]);
                read_b(b_from + (d + 2) * PITCH_B, b[d % 2]);
            }
            if (d + 1 < AHEAD) add_product<0, LEAD>(a[(d + 1) % 2], b[(d + 1) % 2], acc);
        }
    }

    float sums[ROWS][TN];
    add_slices(acc, sums, reinterpret_cast<float*>(As));
    float* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    const Parts parts = parts_of_split(partials, tickets);
    if (!leave_part<ROWS * TN>(&sums[0][0], parts)) return;
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        float row[TN];
        add_parts(parts, i * TN, row);
        store_row(c_tile, s, place, i, row, alpha, beta);
    }
}
