// gemm_f32_rr_1024x1024x1024_sm90_96cfab10
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; beta = 0 never reads C
//
//     A  1024 x 1024, row-major, lda = 1024
//     B  1024 x 1024, row-major, ldb = 1024
//     C  1024 x 1024, row-major, ldc = 1024
//
// Block   64 x 64 of C by 64 threads, in steps of 8 along K, 4224 bytes of shared memory
// Thread  64 elements of C: for each k 64 FMAs on 16 words of shared memory, taken in 4 reads
// Reads   K / 32 words of global and K / 4 of shared memory for each element of C; 16 FLOP for a byte of global
// Ahead   nothing: a block waits for each tile, and only other blocks hide that
// Bound   FFMA issue: FMAs are 92% of the main loop's FMAs, reads and copies
//
// Launch  ceil(M / 64) * ceil(N / 64) blocks of 64 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f32_rr_1024x1024x1024_simt_outer1_64x64x8_8x8_w0x0_v4_ta1_tb0_pad4_s1_async0_ahead0_slices1_minb1_g1_split1
// Made by gemmgen generate 1024x1024x1024 --dtype f32 --layout rr --arch sm_90 --set BM=64 --set BN=64 --set WM=0 --set WN=0 --set STAGES=1 --set GROUP=1

namespace {

// Sizes and the elements between lines (leading dimensions). What is known here folds into the code.
struct Shape {
    static constexpr int M = 1024;
    static constexpr int N = 1024;
    static constexpr int K = 1024;
    static constexpr int lda = 1024;
    static constexpr int ldb = 1024;
    static constexpr int ldc = 1024;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 64;     // rows of C that a block computes
constexpr int BN = 64;     // columns of C that a block computes
constexpr int BK = 8;      // depth of one step along K
constexpr int TM = 8;      // rows of C that a thread computes
constexpr int TN = 8;      // columns of C that a thread computes
constexpr int PAD = 4;     // elements after each shared line of an operand stored along k: spreads banks
constexpr int STAGES = 1;  // tiles of A and B that shared memory holds
constexpr int MINB = 1;    // blocks that must fit an SM at once: caps a thread's registers
constexpr int GROUP = 1;   // tile rows that blocks walk down before they step right, for reuse in L2

// Work split
constexpr int THREADS = BM / TM * (BN / TN);  // threads a block
constexpr int LANES_M = BM / TM;              // threads down a block's tile
constexpr int LANES_N = BN / TN;              // threads across a block's tile
constexpr int FM = 4;                         // floats of a thread's shared read of A
constexpr int FN = 4;                         // floats of a thread's shared read of B
constexpr int STEP_M = FM * LANES_M;          // rows from one shared read of a thread to its next
constexpr int STEP_N = FN * LANES_N;          // columns from one shared read of a thread to its next
constexpr int VC = 4;                         // floats of an access to C

// How A gets to shared memory
constexpr int VA = 4;                                                                  // floats of an access to A
constexpr int STORE_A = 1;                                                             // floats of a shared store of A
constexpr int A_LINE = BK;                                                             // floats of a line of A's tile
constexpr int A_LINES = BM;                                                            // lines of A's tile
constexpr int A_TEAM = 2;                                                              // neighbouring threads that fetch a line together
constexpr int A_STRIDE = THREADS / A_TEAM;                                             // lines that all threads fetch at once
constexpr int A_SHARE = A_LINE / VA / A_TEAM * ((A_LINES + A_STRIDE - 1) / A_STRIDE);  // accesses that a thread makes at most
constexpr int PITCH_A = BM + PAD;                                                      // floats from one shared line of A to the next
constexpr int SHARED_A = BK * PITCH_A;                                                 // floats of a shared tile of A

// How B gets to shared memory
constexpr int VB = 4;                                                                  // floats of an access to B
constexpr int STORE_B = VB;                                                            // floats of a shared store of B
constexpr int B_LINE = BN;                                                             // floats of a line of B's tile
constexpr int B_LINES = BK;                                                            // lines of B's tile
constexpr int B_TEAM = 8;                                                              // neighbouring threads that fetch a line together
constexpr int B_STRIDE = THREADS / B_TEAM;                                             // lines that all threads fetch at once
constexpr int B_SHARE = B_LINE / VB / B_TEAM * ((B_LINES + B_STRIDE - 1) / B_STRIDE);  // accesses that a thread makes at most
constexpr int PITCH_B = BN;                                                            // floats from one shared line of B to the next
constexpr int SHARED_B = BK * PITCH_B;                                                 // floats of a shared tile of B

static_assert(BM % TM == 0, "threads split a block's rows evenly");
static_assert(BN % TN == 0, "threads split a block's columns evenly");
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
struct Place {
    int m, n;
};

__device__ __forceinline__ Place place_of_thread()
{
    return {static_cast<int>(threadIdx.x) / LANES_N * FM, static_cast<int>(threadIdx.x) % LANES_N * FN};
}

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

// Global memory -> registers: this thread's share of A's tile.
__device__ __forceinline__ void fetch_a(const float* tile, Shape s, Vec<VA> (&staged)[A_SHARE])
{
    const Spot first = spot_a();
    const float* from = tile + offset_a(first, s);
    #pragma unroll
    for (int i = 0; i < A_SHARE; ++i) {
        const Spot step = step_a(i), at = {first.mn + step.mn, first.k + step.k};
        if (A_LINES % A_STRIDE != 0 && at.mn >= A_LINES) break;
        staged[i] = load<VA>(from + offset_a(step, s));
    }
}

// Registers -> shared memory: across its lines, which turns k into the line number.
__device__ __forceinline__ void store_shared_a(const Vec<VA> (&staged)[A_SHARE], TileA& shared)
{
    const Spot first = spot_a();
    #pragma unroll
    for (int i = 0; i < A_SHARE; ++i) {
        const Spot step = step_a(i), at = {first.mn + step.mn, first.k + step.k};
        if (A_LINES % A_STRIDE != 0 && at.mn >= A_LINES) break;
        #pragma unroll
        for (int v = 0; v < VA; ++v) {
            shared[at.k + v][at.mn] = staged[i].at[v];
        }
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

// Global memory -> registers: this thread's share of B's tile.
__device__ __forceinline__ void fetch_b(const float* tile, Shape s, Vec<VB> (&staged)[B_SHARE])
{
    const Spot first = spot_b();
    const float* from = tile + offset_b(first, s);
    #pragma unroll
    for (int i = 0; i < B_SHARE; ++i) {
        const Spot step = step_b(i), at = {first.mn + step.mn, first.k + step.k};
        if (B_LINES % B_STRIDE != 0 && at.k >= B_LINES) break;
        staged[i] = load<VB>(from + offset_b(step, s));
    }
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_b(const Vec<VB> (&staged)[B_SHARE], TileB& shared)
{
    const Spot first = spot_b();
    #pragma unroll
    for (int i = 0; i < B_SHARE; ++i) {
        const Spot step = step_b(i), at = {first.mn + step.mn, first.k + step.k};
        if (B_LINES % B_STRIDE != 0 && at.k >= B_LINES) break;
        store<VB>(&shared[at.k][at.mn], staged[i]);
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
__device__ __forceinline__ void add_product(const float (&a)[TM], const float (&b)[TN], float (&acc)[TM][TN])
{
    #pragma unroll
    for (int j = 0; j < TN; ++j) {
        #pragma unroll
        for (int step = 0; step < TM; ++step) {
            const int i = j % 2 ? TM - 1 - step : step;
            acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
        }
    }
}

// acc += A's tile * B's tile. k is outermost: TM + TN values feed TM * TN FMAs, an outer product per k.
__device__ __forceinline__ void multiply(const TileA& As, const TileB& Bs, Place place, float (&acc)[TM][TN])
{
    #pragma unroll
    for (int k = 0; k < BK; ++k) {
        float a[TM], b[TN];
        read_a(&As[k][place.m], a);
        read_b(&Bs[k][place.n], b);
        add_product(a, b, acc);
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
gemm_f32_rr_1024x1024x1024_sm90_96cfab10(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    float alpha,
    float beta)
{
    __shared__ __align__(16) TileA As[STAGES];
    __shared__ __align__(16) TileB Bs[STAGES];
    const Shape s{};
    const TileOrigin tile = tile_of_block(s, blockIdx.x);
    const Place place = place_of_thread();
    const float* a_tile = A + Offset(tile.m) * s.lda;
    const float* b_tile = B + tile.n;
    const Offset a_step = BK;  // to the next tile along K
    const Offset b_step = Offset(BK) * s.ldb;
    float acc[TM][TN] = {};

    Vec<VA> a_staged[A_SHARE];
    Vec<VB> b_staged[B_SHARE];
    for (int k = 0; k < s.K; k += BK) {
        fetch_a(a_tile, s, a_staged);
        fetch_b(b_tile, s, b_staged);
        store_shared_a(a_staged, As[0]);
        store_shared_b(b_staged, Bs[0]);
        __syncthreads();  // the tiles are complete
        multiply(As[0], Bs[0], place, acc);
        __syncthreads();  // nobody reads them any more
        a_tile += a_step;
        b_tile += b_step;
    }

    float* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    store_c(c_tile, s, place, acc, alpha, beta);
}
