// gemm_f64_rr_4096x4096x4096_sm90_ca4d43ad
//
//     C = alpha * A * B + beta * C      f64 on CUDA cores; beta = 0 never reads C
//
//     A  4096 x 4096, row-major, lda = 4096
//     B  4096 x 4096, row-major, ldb = 4096
//     C  4096 x 4096, row-major, ldc = 4096
//
// Block   64 x 64 of C by 64 threads, in steps of 16 along K, 50704 bytes of shared memory
// Thread  64 elements of C: for each k 64 FMAs on 32 words of shared memory, taken in 8 reads
// Reads   K / 16 words of global and K / 2 of shared memory for each element of C; 8 FLOP for a byte of global
// Ahead   global memory is read 2 steps before its use, while the FMAs run
// Bound   DFMA issue: FMAs are 87% of the main loop's FMAs, reads and copies
// Stream  528 blocks share the last tiles, by equal runs of steps: none waits for a last wave
//
// Launch  ceil(T / 528) * 528 blocks of 64 threads, for T = ceil(M / 64) * ceil(N / 64) tiles, 50704 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         partials: (528 + T % 528) * 4096 doubles, holding anything,
//         tickets: 528 counters, zero before the first launch, which every launch leaves zero,
//         no other launch using the same workspace at the same time
// Config  gemm_f64_rr_4096x4096x4096_simt_outer1_64x64x16_8x8_w32x64_v2_ta1_tb0_pad4_s3_async1_ahead4_slices1_minb1_g8_split1_stream528_lead1
// Made by gemmgen generate 4096x4096x4096 --dtype f64 --layout rr --arch sm_90 --set BM=64 --set BN=64 --set BK=16 --set WM=32 --set WN=64 --set STAGES=3 --set ASYNC=1 --set AHEAD=4 --set STREAM=528 --set LEAD=1

namespace {

// Sizes and the elements between lines (leading dimensions). What is known here folds into the code.
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
constexpr int BM = 64;       // rows of C that a block computes
constexpr int BN = 64;       // columns of C that a block computes
constexpr int BK = 16;       // depth of one step along K
constexpr int TM = 8;        // rows of C that a thread computes
constexpr int TN = 8;        // columns of C that a thread computes
constexpr int WM = 32;       // rows of C that a warp computes
constexpr int WN = 64;       // columns of C that a warp computes
constexpr int PAD = 4;       // elements after each shared line of an operand stored along k: spreads banks
constexpr int STAGES = 3;    // tiles of A and B that shared memory holds
constexpr int AHEAD = 4;     // depths that the loop over a step unrolls, reading two ahead
constexpr int MINB = 1;      // blocks that must fit an SM at once: caps a thread's registers
constexpr int GROUP = 8;     // tile rows that blocks walk down before they step right, for reuse in L2
constexpr int STREAM = 528;  // blocks that share the last tiles of C, each an equal run of their steps along K
constexpr int LEAD = 1;      // rows or columns of a thread's tile whose FMAs come before the branch to the next tile or turn

// Work split
constexpr int THREADS = BM / TM * (BN / TN);  // threads a block
constexpr int LANES_M = WM / TM;              // threads down a warp's tile
constexpr int LANES_N = WN / TN;              // threads across a warp's tile
constexpr int FM = 2;                         // doubles of a thread's shared read of A
constexpr int FN = 2;                         // doubles of a thread's shared read of B
constexpr int STEP_M = FM * LANES_M;          // rows from one shared read of a thread to its next
constexpr int STEP_N = FN * LANES_N;          // columns from one shared read of a thread to its next
constexpr int VC = 2;                         // doubles of an access to C

// How A gets to shared memory
constexpr int VA = 1;                                                                  // doubles of an access to A
constexpr int STORE_A = 1;                                                             // doubles of A that one cp.async writes to shared memory
constexpr int A_LINE = BK;                                                             // doubles of a line of A's tile
constexpr int A_LINES = BM;                                                            // lines of A's tile
constexpr int A_TEAM = 4;                                                              // neighbouring threads that fetch a line together
constexpr int A_STRIDE = THREADS / A_TEAM;                                             // lines that all threads fetch at once
constexpr int A_SHARE = A_LINE / VA / A_TEAM * ((A_LINES + A_STRIDE - 1) / A_STRIDE);  // accesses that a thread makes at most
constexpr int PITCH_A = BM + PAD;                                                      // doubles from one shared line of A to the next
constexpr int SHARED_A = BK * PITCH_A;                                                 // doubles of a shared tile of A

// How B gets to shared memory
constexpr int VB = 2;                                                                  // doubles of an access to B
constexpr int STORE_B = VB;                                                            // doubles of B that one cp.async writes to shared memory
constexpr int B_LINE = BN;                                                             // doubles of a line of B's tile
constexpr int B_LINES = BK;                                                            // lines of B's tile
constexpr int B_TEAM = 8;                                                              // neighbouring threads that fetch a line together
constexpr int B_STRIDE = THREADS / B_TEAM;                                             // lines that all threads fetch at once
constexpr int B_SHARE = B_LINE / VB / B_TEAM * ((B_LINES + B_STRIDE - 1) / B_STRIDE);  // accesses that a thread makes at most
constexpr int PITCH_B = BN;                                                            // doubles from one shared line of B to the next
constexpr int SHARED_B = BK * PITCH_B;                                                 // doubles of a shared tile of B

static_assert(BM % TM == 0, "threads split a block's rows evenly");
static_assert(BN % TN == 0, "threads split a block's columns evenly");
static_assert(BM % WM == 0, "warps split a block's rows evenly");
static_assert(BN % WN == 0, "warps split a block's columns evenly");
static_assert(WM % TM == 0, "lanes split a warp's rows evenly");
static_assert(WN % (2 * TN) == 0, "lanes stand in pairs along a warp's columns");
static_assert(WM * WN == 32 * TM * TN, "a warp has 32 lanes, each with a TM x TN tile");
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

// N doubles that move as one access of 8 * N bytes.
template <int N>
struct alignas(8 * N) Vec {
    double at[N];
};

template <int N>
__device__ __forceinline__ Vec<N> load(const double* from)
{
    return *reinterpret_cast<const Vec<N>*>(from);
}

template <int N>
__device__ __forceinline__ void store(double* to, const Vec<N>& value)
{
    *reinterpret_cast<Vec<N>*>(to) = value;
}

// An element of a tile on its way to shared memory: row or column mn of C, and depth k.
struct Spot {
    int mn, k;
};

using TileA = double[SHARED_A / PITCH_A][PITCH_A];  // A's tile in shared memory: [k][m]
using TileB = double[SHARED_B / PITCH_B][PITCH_B];  // B's tile in shared memory: [k][n]

// The tile of C that a block computes. Blocks walk down GROUP tile rows before they step right, so
// that blocks that run together read the same tiles of A and B from L2.
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
struct Place {
    int m, n;
};

__device__ __forceinline__ Place place_of_thread()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Lanes zigzag in pairs: i and i^1 share rows, i and i^2 columns (if LANES_M > 1), so a vector read of
    // either operand meets each address twice in neighbouring lanes and takes half the shared-memory cycles.
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int m = warp / (BN / WN) * WM + lane_m * FM, n = warp % (BN / WN) * WN + lane_n * FN;
    return {m, n};
}

#ifdef __CUDACC__
// The shared memory that the launch asks for: beyond 48 KB there is no other kind.
__device__ __forceinline__ unsigned char* dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char bytes[];
    return bytes;
}
#endif  // __CUDACC__

// Who computes which tiles of C. STREAM blocks run at once, a wave. The tiles of whole waves have a block each. Those that are
// left have one each, too, which does only its first `own` steps along K; the other blocks of their wave, the helpers, do
// the rest: as if the rest of all these tiles stood in one row, each helper takes a run of it. So all blocks of the wave have
// about as many steps to do, and most of them go through the same depths of K at the same time, which serves the caches.
struct Shares {
    int tiles;       // of C, and blocks that are no helpers
    int whole;       // of these, the first ones, are whole waves
    int steps;       // of a tile: at least one, which stores C where K = 0
    int own;         // of a shared tile, which the block does that has its number
    int helpers;     // blocks that do the rest: no more than this has steps
    long long rest;  // steps that helpers do
};

__device__ __forceinline__ Shares shares_of(Shape s)
{
    const int tiles = ((s.M + BM - 1) / BM) * ((s.N + BN - 1) / BN), shared = tiles % STREAM;
    const int steps = max(1, (s.K + BK - 1) / BK);
    const int own = static_cast<int>((static_cast<long long>(shared) * steps + STREAM - 1) / STREAM);
    const long long rest = static_cast<long long>(shared) * (steps - own);
    return {tiles, tiles - shared, steps, own, static_cast<int>(min(rest, static_cast<long long>(STREAM - shared))), rest};
}

// The first of the helpers' steps that one of them takes. It takes those up to the next helper's first.
__device__ __forceinline__ long long first_step(const Shares& shares, int helper)
{
    return helper * shares.rest / shares.helpers;
}

// The helper that takes one of their steps: the last one whose first step is no later.
__device__ __forceinline__ int helper_of(const Shares& shares, long long step)
{
    return static_cast<int>(((step + 1) * shares.helpers - 1) / shares.rest);
}

// What a block does: `length` steps, the first of them `step` of `tile`, the others behind it and in the tiles that follow.
struct Run {
    int tile, step, length;
};

__device__ __forceinline__ Run run_of_block(const Shares& shares)
{
    const int block = blockIdx.x, helper = block - shares.tiles;
    if (helper < 0) return {block, 0, block < shares.whole ? shares.steps : shares.own};
    if (helper >= shares.helpers) return {0, 0, 0};  // nothing is left for this one
    const int rest = shares.steps - shares.own;  // of a tile
    const long long first = first_step(shares, helper);
    return {
        shares.whole + static_cast<int>(first / rest), shares.own + static_cast<int>(first % rest),
        static_cast<int>(first_step(shares, helper + 1) - first),
    };
}

// What the blocks that share a tile of C leave for each other: their sums, one part behind the other, of which this
// thread's are those at THREADS * i + threadIdx.x.
struct Parts {
    double* sums;
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
__device__ __forceinline__ bool leave_part(const double* sums, const Parts& parts)
{
    double* const own = parts.sums + parts.mine * (BM * BN);
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * THREADS + threadIdx.x;
        own[element] = sums[i];
    }
    return last_to_arrive(parts.ticket, parts.count);
}

// What all blocks summed for COUNT of this thread's elements, from its `first` on.
template <int COUNT>
__device__ __forceinline__ void add_parts(const Parts& parts, int first, double (&sums)[COUNT])
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = 0.0;
    #pragma unroll 4
    for (int part = 0; part < parts.count; ++part) {  // always in this order: the same bits every time
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int element = (first + i) * THREADS + threadIdx.x;
            sums[i] += __ldcg(parts.sums + part * (BM * BN) + element);
        }
    }
}

// What the blocks of a tile share, one where the tile is this block's alone.
__device__ __forceinline__ Parts parts_of_tile(const Shares& shares, int tile, double* partials, unsigned* tickets)
{
    const int shared = tile - shares.whole;
    if (shared < 0 || shares.helpers == 0) return {partials, 1, 0, tickets};
    const int rest = shares.steps - shares.own;  // of a tile
    const long long begin = static_cast<long long>(shared) * rest;
    const int first = helper_of(shares, begin), last = helper_of(shares, begin + rest - 1);
    // A tile's own block leaves part 0, the helpers theirs behind it, in the order of their steps. From tile to tile the
    // parts go on where they ended: a helper's next part is in the next tile, behind that tile's own.
    const int helper = static_cast<int>(blockIdx.x) - shares.tiles, mine = helper < 0 ? 0 : helper - first + 1;
    double* const parts = partials + static_cast<long long>(first + 2 * shared) * (BM * BN);
    return {parts, last - first + 2, mine, tickets + shared};
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

// Doubles from the origin of A's tile to `at`, in global memory.
__device__ __forceinline__ Offset offset_a(Spot at, Shape s)
{
    return Offset(at.mn) * s.lda + at.k;
}

// Start this thread's share of A's tile on its way to shared memory.
__device__ __forceinline__ void copy_a(const double* tile, Shape s, TileA& shared)
{
    const Spot first = spot_a();
    const double* from = tile + offset_a(first, s);
    #pragma unroll
    for (int i = 0; i < A_SHARE; ++i) {
        const Spot step = step_a(i), at = {first.mn + step.mn, first.k + step.k};
        if (A_LINES % A_STRIDE != 0 && at.mn >= A_LINES) break;
        cp_async<8 * VA>(&shared[at.k][at.mn], from + offset_a(step, s), 8 * VA);
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

// Doubles from the origin of B's tile to `at`, in global memory.
__device__ __forceinline__ Offset offset_b(Spot at, Shape s)
{
    return Offset(at.k) * s.ldb + at.mn;
}

// Start this thread's share of B's tile on its way to shared memory.
__device__ __forceinline__ void copy_b(const double* tile, Shape s, TileB& shared)
{
    const Spot first = spot_b();
    const double* from = tile + offset_b(first, s);
    #pragma unroll
    for (int i = 0; i < B_SHARE; ++i) {
        const Spot step = step_b(i), at = {first.mn + step.mn, first.k + step.k};
        if (B_LINES % B_STRIDE != 0 && at.k >= B_LINES) break;
        cp_async<8 * VB>(&shared[at.k][at.mn], from + offset_b(step, s), 8 * VB);
    }
}

// This thread's TM values of A at one depth, the first of which lies at `from`, FM to a read.
__device__ __forceinline__ void read_a(const double* from, double (&fragment)[TM])
{
    #pragma unroll
    for (int i = 0; i < TM; i += FM) {
        const Vec<FM> part = load<FM>(from + i / FM * STEP_M);
        #pragma unroll
        for (int v = 0; v < FM; ++v) fragment[i + v] = part.at[v];
    }
}

// This thread's TN values of B at one depth, the first of which lies at `from`, FN to a read.
__device__ __forceinline__ void read_b(const double* from, double (&fragment)[TN])
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
template <int FIRST, int END>  // columns of the thread's tile
__device__ __forceinline__ void add_product(const double (&a)[TM], const double (&b)[TN], double (&acc)[TM][TN])
{
    #pragma unroll
    for (int j = FIRST; j < END; ++j) {
        #pragma unroll
        for (int step = 0; step < TM; ++step) {
            const int i = j % 2 ? TM - 1 - step : step;
            acc[i][j] = fma(a[i], b[j], acc[i][j]);
        }
    }
}

// N results to C. beta = 0 overwrites C unread: what stood there may be NaN.
template <int N>
__device__ __forceinline__ void store_results(double* to, Vec<N> value, double beta)
{
    if (beta != 0.0) {
        const Vec<N> old = load<N>(to);
        #pragma unroll
        for (int i = 0; i < N; ++i) value.at[i] = fma(beta, old.at[i], value.at[i]);
    }
    store<N>(to, value);
}

// C = alpha * sums + beta * C in the i-th of this thread's TM rows.
__device__ __forceinline__ void store_row(double* tile, Shape s, Place place, int i,
                                          const double (&sums)[TN], double alpha, double beta)
{
    const int m = place.m + i / FM * STEP_M + i % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = place.n + j / FN * STEP_N + j % FN;
        Vec<VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
        store_results<VC>(tile + Offset(m) * s.ldc + n, value, beta);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(double* tile, Shape s, Place place,
                                        const double (&sums)[TM][TN], double alpha, double beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, place, i, sums[i], alpha, beta);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f64_rr_4096x4096x4096_sm90_ca4d43ad(
    const double* __restrict__ A,
    const double* __restrict__ B,
    double* __restrict__ C,
    double* __restrict__ partials,
    unsigned* __restrict__ tickets,
    double alpha,
    double beta)
{
    TileA* const As = reinterpret_cast<TileA*>(dynamic_shared());
    TileB* const Bs = reinterpret_cast<TileB*>(As + STAGES);
    const Shape s{};
    const Shares shares = shares_of(s);
    for (Run run = run_of_block(shares); run.length > 0;) {
        const int steps = min(run.length, shares.steps - run.step);  // of this tile
        const int begin = run.step * BK, part = min(s.K - begin, steps * BK);  // of K, which this block sums
        const TileOrigin tile = tile_of_block(s, run.tile);
        const Place place = place_of_thread();
        const double* a_tile = A + Offset(tile.m) * s.lda + begin;
        const double* b_tile = B + tile.n + Offset(begin) * s.ldb;
        const Offset a_step = BK;  // to the next tile along K
        const Offset b_step = Offset(BK) * s.ldb;
        double acc[TM][TN] = {};

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
            const double* a_from = &As[0][0][place.m];
            const double* b_from = &Bs[0][0][place.n];
            double a[2][TM], b[2][TN];
            #pragma unroll
            for (int d = 0; d < 2; ++d) {
                read_a(a_from + d * PITCH_A, a[d]);
                read_b(b_from + d * PITCH_B, b[d]);
            }

            add_product<0, LEAD>(a[0], b[0], acc);
            int stage = 0;
            for (int k = AHEAD; k < padded; k += AHEAD) {
                #pragma unroll
                for (int d = 0; d < AHEAD; ++d) {
                    if (d == AHEAD - 2) {  // what is read from here on is the next turn's
                        a_from += AHEAD * PITCH_A;
                        b_from += AHEAD * PITCH_B;
                    }
                    if (d == AHEAD - 2 && k % BK == 0) {  // and of the next tile
                        cp_async_wait<STAGES - 2>();      // this thread's share of it has landed
                        __syncthreads();                  // so has everybody's, and nobody reads this tile any more
                        if (padded - k > (STAGES - 1) * BK) {
                            copy_a(a_tile, s, As[stage]);
                            copy_b(b_tile, s, Bs[stage]);
                        }
                        cp_async_commit();  // an empty group too: the wait counts groups
                        a_tile += a_step;
                        b_tile += b_step;
                        stage = stage + 1 < STAGES ? stage + 1 : 0;
                        a_from = &As[stage][0][place.m];
                        b_from = &Bs[stage][0][place.n];
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

        double* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
        const Parts parts = parts_of_tile(shares, run.tile, partials, tickets);
        if (parts.count == 1) {
            store_c(c_tile, s, place, acc, alpha, beta);
        } else if (leave_part<TM * TN>(&acc[0][0], parts)) {
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                double row[TN];
                add_parts(parts, i * TN, row);
                store_row(c_tile, s, place, i, row, alpha, beta);
            }
        }
        run = {run.tile + 1, shares.own, run.length - steps};  // a helper's next tile, behind the barriers of leave_part
    }
}
