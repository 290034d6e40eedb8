// gemm_f32_rr_b4096_32x32x32_sm90_bba53a77
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; beta = 0 never reads C
//     for each of 4096 products
//
//     A  32 x 32, row-major, lda = 32, stride_a = 1024
//     B  32 x 32, row-major, ldb = 32, stride_b = 1024
//     C  32 x 32, row-major, ldc = 32, stride_c = 1024
//
// Block   32 x 32 of C by 64 threads, in steps of 32 along K, 26112 bytes of shared memory
// Thread  16 elements of C: for each k 16 FMAs on 8 words of shared memory, taken in 2 reads
// Reads   K / 16 words of global and K / 2 of shared memory for each element of C; 8 FLOP for a byte of global
// Ahead   global memory is read 2 steps before its use, while the FMAs run
// Bound   device memory: 5.33 FLOP for a byte that has to move, too few for any known card
//
// Launch  ceil(M / 32) * ceil(N / 32) * batch blocks of 64 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         no two matrices of C that overlap
// Config  gemm_f32_rr_b4096_32x32x32_simt_outer1_32x32x32_4x4_w16x32_v4_ta0_tb0_pad4_s3_async1_ahead4_slices1_minb1_g1_split1_lead2_order1
// Made by gemmgen generate 32x32x32 --dtype f32 --layout rr --batch 4096 --arch sm_90 --set BM=32 --set BN=32 --set BK=32 --set TM=4 --set TN=4 --set WM=16 --set TA=0 --set STAGES=3 --set ASYNC=1 --set AHEAD=4 --set GROUP=1 --set LEAD=2 --set ORDER=1

namespace {

// Sizes and the elements between lines (leading dimensions) and between matrices of the batch (strides).
// What is known here folds into the code.
struct Shape {
    static constexpr int M = 32;
    static constexpr int N = 32;
    static constexpr int K = 32;
    static constexpr int lda = 32;
    static constexpr int ldb = 32;
    static constexpr int ldc = 32;
    static constexpr int batch = 4096;
    static constexpr long long stride_a = 1024;
    static constexpr long long stride_b = 1024;
    static constexpr long long stride_c = 1024;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 32;     // rows of C that a block computes
constexpr int BN = 32;     // columns of C that a block computes
constexpr int BK = 32;     // depth of one step along K
constexpr int TM = 4;      // rows of C that a thread computes
constexpr int TN = 4;      // columns of C that a thread computes
constexpr int WM = 16;     // rows of C that a warp computes
constexpr int WN = 32;     // columns of C that a warp computes
constexpr int PAD = 4;     // elements after each shared line of an operand stored along k: spreads banks
constexpr int STAGES = 3;  // tiles of A and B that shared memory holds
constexpr int AHEAD = 4;   // depths that the loop over a step unrolls, reading two ahead
constexpr int MINB = 1;    // blocks that must fit an SM at once: caps a thread's registers
constexpr int GROUP = 1;   // tile rows that blocks walk down before they step right, for reuse in L2
constexpr int LEAD = 2;    // rows or columns of a thread's tile whose FMAs come before the branch to the next tile or turn

// Work split
constexpr int THREADS = BM / TM * (BN / TN);  // threads a block
constexpr int LANES_M = WM / TM;              // threads down a warp's tile
constexpr int LANES_N = WN / TN;              // threads across a warp's tile
constexpr int FM = 1;                         // rows of a thread's shared read of A
constexpr int FN = 4;                         // floats of a thread's shared read of B
constexpr int STEP_M = FM * LANES_M;          // rows from one shared read of a thread to its next
constexpr int STEP_N = FN * LANES_N;          // columns from one shared read of a thread to its next
constexpr int VC = 4;                         // floats of an access to C

// How A gets to shared memory
constexpr int VA = 4;                                                                  // floats of an access to A
constexpr int STORE_A = VA;                                                            // floats of A that one cp.async writes to shared memory
constexpr int A_LINE = BK;                                                             // floats of a line of A's tile
constexpr int A_LINES = BM;                                                            // lines of A's tile
constexpr int A_TEAM = 8;                                                              // neighbouring threads that fetch a line together
constexpr int A_STRIDE = THREADS / A_TEAM;                                             // lines that all threads fetch at once
constexpr int A_SHARE = A_LINE / VA / A_TEAM * ((A_LINES + A_STRIDE - 1) / A_STRIDE);  // accesses that a thread makes at most
constexpr int PITCH_A = BK + PAD;                                                      // floats from one shared line of A to the next
constexpr int SHARED_A = BM * PITCH_A;                                                 // floats of a shared tile of A

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

using TileA = float[SHARED_A / PITCH_A][PITCH_A];  // A's tile in shared memory: [m][k]
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
        cp_async<4 * VA>(&shared[at.mn][at.k], from + offset_a(step, s), 4 * VA);
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

// This thread's TM values of A at the depths of a turn, the first of which lies at `from`, AHEAD to a read.
template <int FIRST, int END>  // values
__device__ __forceinline__ void read_a(const float* from, Vec<AHEAD> (&fragment)[TM])
{
    #pragma unroll
    for (int i = FIRST; i < END; ++i) fragment[i] = load<AHEAD>(from + i * STEP_M * PITCH_A);
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

// acc += a * b, an outer product, to and fro along the rows: each FMA shares a value with the one before it.
// Two register banks give an operand a cycle each, so an FMA that reads three registers anew takes two cycles.
// `a` holds the depths of a turn, of which this is the d-th.
// Even rows start at their far end: so registers fall into other banks.
template <int FIRST, int END>  // rows of the thread's tile
__device__ __forceinline__ void add_product(const Vec<AHEAD> (&a)[TM], const float (&b)[TN], float (&acc)[TM][TN], int d)
{
    #pragma unroll
    for (int i = FIRST; i < END; ++i) {
        #pragma unroll
        for (int step = 0; step < TN; ++step) {
            const int j = i % 2 == 0 ? TN - 1 - step : step;
            acc[i][j] = fmaf(a[i].at[d], b[j], acc[i][j]);
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

// C = alpha * sums + beta * C in the i-th of this thread's TM rows.
__device__ __forceinline__ void store_row(float* tile, Shape s, Place place, int i,
                                          const float (&sums)[TN], float alpha, float beta)
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
__device__ __forceinline__ void store_c(float* tile, Shape s, Place place,
                                        const float (&sums)[TM][TN], float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, place, i, sums[i], alpha, beta);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f32_rr_b4096_32x32x32_sm90_bba53a77(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    float alpha,
    float beta)
{
    __shared__ __align__(16) TileA As[STAGES];
    __shared__ __align__(16) TileB Bs[STAGES];
    const Shape s{};
    const int tiles = ((s.M + BM - 1) / BM) * ((s.N + BN - 1) / BN);  // of a matrix of the batch
    const int matrix = blockIdx.x / tiles;                            // the block's
    A += matrix * s.stride_a;
    B += matrix * s.stride_b;
    C += matrix * s.stride_c;
    const TileOrigin tile = tile_of_block(s, blockIdx.x % tiles);
    const Place place = place_of_thread();
    const float* a_tile = A + Offset(tile.m) * s.lda;
    const float* b_tile = B + tile.n;
    const Offset a_step = BK;  // to the next tile along K
    const Offset b_step = Offset(BK) * s.ldb;
    float acc[TM][TN] = {};

    const int padded = (s.K + BK - 1) / BK * BK;  // rounded up to whole steps
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
        // A read of A takes all depths of a turn: its values are replaced after the last of them.
        // The compiler puts a read off to the next branch, unless it sees the values used before that. So the first LEAD
        // rows of each product come a depth early: before the branch to the next tile or turn, which the others follow.
        const float* a_from = &As[0][place.m][0];
        const float* b_from = &Bs[0][0][place.n];
        Vec<AHEAD> a[TM];
        read_a<0, TM>(a_from, a);
        float b[2][TN];
        #pragma unroll
        for (int d = 0; d < 2; ++d) read_b(b_from + d * PITCH_B, b[d]);

        add_product<0, LEAD>(a, b[0], acc, 0);
        int stage = 0;
        for (int k = AHEAD; k < padded; k += AHEAD) {
            #pragma unroll
            for (int d = 0; d < AHEAD; ++d) {
                if (d == AHEAD - 2) {  // what is read from here on is the next turn's
                    a_from += AHEAD;
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
                    a_from = &As[stage][place.m][0];
                    b_from = &Bs[stage][0][place.n];
                }
                add_product<LEAD, TM>(a, b[d % 2], acc, d);
                if (d == AHEAD - 1) read_a<LEAD, TM>(a_from, a);
                read_b(b_from + (d + 2) % AHEAD * PITCH_B, b[d % 2]);
                add_product<0, LEAD>(a, b[(d + 1) % 2], acc, (d + 1) % AHEAD);
                if (d + 1 == AHEAD - 1) read_a<0, LEAD>(a_from, a);
            }
        }

        #pragma unroll
        for (int d = 0; d < AHEAD; ++d) {  // the last turn
            add_product<LEAD, TM>(a, b[d % 2], acc, d);
            if (d + 2 < AHEAD) {
                read_b(b_from + (d + 2) * PITCH_B, b[d % 2]);
            }
            if (d + 1 < AHEAD) add_product<0, LEAD>(a, b[(d + 1) % 2], acc, (d + 1) % AHEAD);
        }
    }

    float* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    store_c(c_tile, s, place, acc, alpha, beta);
}
