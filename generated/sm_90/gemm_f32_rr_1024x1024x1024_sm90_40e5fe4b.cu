// gemm_f32_rr_1024x1024x1024_sm90_40e5fe4b
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//
//     A  1024 x 1024, row-major, lda = 1024
//     B  1024 x 1024, row-major, ldb = 1024
//     C  1024 x 1024, row-major, ldc = 1024
//
// Block   64 x 64 of C by 64 threads, in k tiles of 8, 4096 bytes of shared memory
// Thread  64 elements of C: for each k 64 FMAs on 128 elements of A and B, read from shared memory by 128 loads
// Reads   0.125 bytes of global and 8 of shared memory for each FMA; 16 FLOP for a byte of global
// Stages  none is prefetched: a block waits for each of its loads, and only other blocks hide that
// Bound   shared memory: 128 cycles of it for each k and warp, against 16 that the FMAs take
//
// Launch  ceil(M / 64) * ceil(N / 64) blocks of 64 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f32_rr_1024x1024x1024_simt_outer0_64x64x8_8x8_w0x0_v1_ta0_tb0_pad0_s1_async0_unroll0_slices1_minb1_g1_split1
// Made by gemmgen generate 1024x1024x1024 --dtype f32 --layout rr --arch sm_90 --set OUTER=0 --set BM=64 --set BN=64 --set WM=0 --set WN=0 --set VEC=1 --set TA=0 --set PAD=0 --set STAGES=1 --set GROUP=1

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
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
constexpr int BK = 8;      // depth of a k tile
constexpr int TM = 8;      // rows of C that a thread computes
constexpr int TN = 8;      // columns of C that a thread computes
constexpr int PAD = 0;     // elements after each shared line of an operand stored along k: spreads banks
constexpr int STAGES = 1;  // stages: k tiles of A and B that shared memory holds
constexpr int MINB = 1;    // blocks that must fit an SM at once: caps a thread's registers
constexpr int GROUP = 1;   // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = BM / TM * (BN / TN);  // threads a block
constexpr int LANES_M = BM / TM;              // threads down a block's tile
constexpr int LANES_N = BN / TN;              // threads across a block's tile
constexpr int FM = 1;                         // floats of a thread's shared read of A
constexpr int FN = 1;                         // floats of a thread's shared read of B
constexpr int STEP_M = FM * LANES_M;          // rows from one shared read of a thread to its next
constexpr int STEP_N = FN * LANES_N;          // columns from one shared read of a thread to its next
constexpr int VC = 1;                         // floats of an access to C

// How A gets to shared memory
constexpr int VA = 1;                      // floats of an access to A
constexpr int STORE_A = VA;                // floats of a shared store of A
constexpr int A_CONTIGUOUS = BK;           // floats of A's tile along its contiguous dimension
constexpr int A_STRIDED = BM;              // extent of A's tile along the other, strided dimension
constexpr int A_LANES = 8;                 // threads along the contiguous dimension
constexpr int A_PASS = THREADS / A_LANES;  // threads along the strided dimension
// accesses of a thread, at most
constexpr int A_ITERATIONS = A_CONTIGUOUS / VA / A_LANES * ((A_STRIDED + A_PASS - 1) / A_PASS);
constexpr int PITCH_A = BK + PAD;          // floats from one row of A's shared tile to the next
constexpr int SHARED_A = BM * PITCH_A;     // floats of a shared tile of A

// How B gets to shared memory
constexpr int VB = 1;                      // floats of an access to B
constexpr int STORE_B = VB;                // floats of a shared store of B
constexpr int B_CONTIGUOUS = BN;           // floats of B's tile along its contiguous dimension
constexpr int B_STRIDED = BK;              // extent of B's tile along the other, strided dimension
constexpr int B_LANES = 32;                // threads along the contiguous dimension
constexpr int B_PASS = THREADS / B_LANES;  // threads along the strided dimension
// accesses of a thread, at most
constexpr int B_ITERATIONS = B_CONTIGUOUS / VB / B_LANES * ((B_STRIDED + B_PASS - 1) / B_PASS);
constexpr int PITCH_B = BN;                // floats from one row of B's shared tile to the next
constexpr int SHARED_B = BK * PITCH_B;     // floats of a shared tile of B

static_assert(BM % TM == 0, "threads split a block's rows evenly");
static_assert(BN % TN == 0, "threads split a block's columns evenly");
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

using TileA = float[SHARED_A / PITCH_A][PITCH_A];  // A's tile in shared memory: [m][k]
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
    return {static_cast<int>(threadIdx.x) / LANES_N * FM, static_cast<int>(threadIdx.x) % LANES_N * FN};
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
__device__ __forceinline__ void fetch_a(const float* tile, Shape s, Vec<VA> (&staged)[A_ITERATIONS])
{
    const Coord first = access_origin_a();
    const float* from = tile + offset_a(first, s);
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const Coord step = access_offset_a(i), at = {first.mn + step.mn, first.k + step.k};
        if (A_STRIDED % A_PASS != 0 && at.mn >= A_STRIDED) break;
        staged[i] = load<VA>(from + offset_a(step, s));
    }
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_a(const Vec<VA> (&staged)[A_ITERATIONS], TileA& shared)
{
    const Coord first = access_origin_a();
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const Coord step = access_offset_a(i), at = {first.mn + step.mn, first.k + step.k};
        if (A_STRIDED % A_PASS != 0 && at.mn >= A_STRIDED) break;
        store<VA>(&shared[at.mn][at.k], staged[i]);
    }
}

// This thread's first access to B's tile: B_LANES neighbouring threads copy along its contiguous dimension.
__device__ __forceinline__ Coord access_origin_b()
{
    const int strided = threadIdx.x / B_LANES, contiguous = threadIdx.x % B_LANES * VB;
    return {contiguous, strided};
}

// From there to its i-th access: along the contiguous dimension first. The same for all threads.
__device__ __forceinline__ Coord access_offset_b(int i)
{
    constexpr int TIMES = B_CONTIGUOUS / VB / B_LANES;  // accesses along the contiguous dimension
    const int strided = i / TIMES * B_PASS, contiguous = i % TIMES * B_LANES * VB;
    return {contiguous, strided};
}

// Elements from the origin of B's tile to `at`, in global memory.
__device__ __forceinline__ Offset offset_b(Coord at, Shape s)
{
    return Offset(at.k) * s.ldb + at.mn;
}

// Global memory -> registers: this thread's accesses to B's tile. Zeros stand for what lies outside B.
__device__ __forceinline__ void fetch_b(const float* tile, Shape s, Vec<VB> (&staged)[B_ITERATIONS])
{
    const Coord first = access_origin_b();
    const float* from = tile + offset_b(first, s);
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const Coord step = access_offset_b(i), at = {first.mn + step.mn, first.k + step.k};
        if (B_STRIDED % B_PASS != 0 && at.k >= B_STRIDED) break;
        staged[i] = load<VB>(from + offset_b(step, s));
    }
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_b(const Vec<VB> (&staged)[B_ITERATIONS], TileB& shared)
{
    const Coord first = access_origin_b();
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const Coord step = access_offset_b(i), at = {first.mn + step.mn, first.k + step.k};
        if (B_STRIDED % B_PASS != 0 && at.k >= B_STRIDED) break;
        store<VB>(&shared[at.k][at.mn], staged[i]);
    }
}

// acc += A's tile * B's tile. k is innermost: each FMA reads its own two values from shared memory and
// waits for the FMA before it. k stays a loop: unrolled, the compiler would make it an outer product.
__device__ __forceinline__ void mma(const TileA& As, const TileB& Bs, ThreadOrigin thread, float (&acc)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = thread.m + i / FM * STEP_M + i % FM;
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = thread.n + j / FN * STEP_N + j % FN;
            #pragma unroll 4
            for (int k = 0; k < BK; ++k) {
                acc[i][j] = fmaf(As[m][k], Bs[k][n], acc[i][j]);
            }
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
    const int m = thread.m + i / FM * STEP_M + i % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
        store_results<VC>(tile + Offset(m) * s.ldc + n, value, beta);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(float* tile, Shape s, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, thread, i, sums[i], alpha, beta);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f32_rr_1024x1024x1024_sm90_40e5fe4b(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float alpha, float beta)
{
    __shared__ __align__(16) TileA As[STAGES];
    __shared__ __align__(16) TileB Bs[STAGES];
    const Shape s{};
    const TileOrigin tile = tile_of_block(s, blockIdx.x);
    const ThreadOrigin thread = thread_origin();
    const float* a_tile = A + Offset(tile.m) * s.lda;
    const float* b_tile = B + tile.n;
    const Offset a_step = BK;  // to the next tile along K
    const Offset b_step = Offset(BK) * s.ldb;
    float acc[TM][TN] = {};

    Vec<VA> a_staged[A_ITERATIONS];
    Vec<VB> b_staged[B_ITERATIONS];
    for (int k = 0; k < s.K; k += BK) {
        fetch_a(a_tile, s, a_staged);
        fetch_b(b_tile, s, b_staged);
        store_shared_a(a_staged, As[0]);
        store_shared_b(b_staged, Bs[0]);
        __syncthreads();  // the tiles are complete
        mma(As[0], Bs[0], thread, acc);
        __syncthreads();  // no thread reads them any more
        a_tile += a_step;
        b_tile += b_step;
    }

    float* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    store_c(c_tile, s, thread, acc, alpha, beta);
}
