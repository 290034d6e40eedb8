// gemm_s8u8s32_rc_Mx512xK_sm90_9210c88a
//
//     C = alpha * A * B + beta * C      A s8, B u8, C s32; sums in s32 on tensor cores;
//                                       C is read unless beta = 0, A and B always
//
//     A  M x K, row-major, lda at run time
//     B  K x 512, column-major, ldb at run time
//     C  M x 512, row-major, ldc = 512
//
// Block   32 x 32 of C by 128 threads, in k tiles of 64, 8192 bytes of shared memory
// Warp    16 x 16 of C: for each 32 k, 2 mmas of 16 x 8 x 32, whose fragments 2 ldmatrix bring
// Stages  the next k tile is in registers while this one is multiplied
//
// Launch  ceil(M / 32) * ceil(N / 32) blocks of 128 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         lda, ldb divisible by 8
// Config  gemm_s8u8s32_rc_Mx512xK_la8_mma_32x32x64_w16x16_s2_async0_mma32_g8_split1
// Made by gemmgen generate '?x512x?' --types s8,u8,s32 --layout rc --ld-align 8 --arch sm_90 --family mma --set BM=32 --set BN=32 --set WM=16 --set WN=16 --set STAGES=2 --set ASYNC=0

namespace {

// a * b + c, which wraps around at 32 bits.
__device__ __forceinline__ int multiply_add(int a, int b, int c)
{
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) + static_cast<unsigned>(c));
}

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 512;
    int K;
    int lda;
    int ldb;
    static constexpr int ldc = 512;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 32;     // rows of C that a block computes
constexpr int BN = 32;     // columns of C that a block computes
constexpr int BK = 64;     // depth of a k tile
constexpr int WM = 16;     // rows of C that a warp computes
constexpr int WN = 16;     // columns of C that a warp computes
constexpr int STAGES = 2;  // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;   // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);  // threads a block
constexpr int K_STEP = 32;                           // k of a step: those of one set of fragments
constexpr int MMAS_M = WM / 16;                      // products of 16 x 8 down a warp's tile
constexpr int MMAS_N = WN / 8;                       // products of 16 x 8 across a warp's tile
constexpr int K_STEPS = BK / K_STEP;                 // steps along a k tile

// How A gets to shared memory
constexpr int VA = 8;             // elements of an access to A
constexpr int A_LANES = BK / VA;  // threads along a line of A's tile
constexpr int A_ITERATIONS = (BM * A_LANES + THREADS - 1) / THREADS;  // accesses of a thread, at most
constexpr int CHUNK_A = 16;       // elements of a chunk of 16 bytes, the unit of the swizzle
constexpr int A_PHASE = 2;        // consecutive lines that swizzle alike: they fill the banks together
constexpr int A_SWIZZLED = 4;     // chunks of a line that the swizzle permutes

// How B gets to shared memory
constexpr int VB = 8;             // elements of an access to B
constexpr int B_LANES = BK / VB;  // threads along a line of B's tile
constexpr int B_ITERATIONS = (BN * B_LANES + THREADS - 1) / THREADS;  // accesses of a thread, at most
constexpr int CHUNK_B = 16;       // elements of a chunk of 16 bytes, the unit of the swizzle
constexpr int B_PHASE = 2;        // consecutive lines that swizzle alike: they fill the banks together
constexpr int B_SWIZZLED = 4;     // chunks of a line that the swizzle permutes

// How C leaves registers
constexpr int TM = 2 * MMAS_M;  // rows of C that a thread has sums of
constexpr int TN = 2 * MMAS_N;  // columns of C that a thread has sums of
constexpr int FM = 1;           // adjacent rows in a run
constexpr int FN = 2;           // adjacent columns in a run
constexpr int STEP_M = 8;       // rows from a run to the next
constexpr int STEP_N = 8;       // columns from a run to the next
constexpr int VC = 2;           // elements of an access to C

static_assert(BM % WM == 0, "warps split a block's rows evenly");
static_assert(BN % WN == 0, "warps split a block's columns evenly");
static_assert(WM % 16 == 0, "fragments of A have 16 rows");
static_assert(WN % 16 == 0, "fragments of B, of 8 columns, are loaded two at a time");
static_assert(BK % (2 * K_STEP) == 0, "fragments of a k tile take turns in two sets of registers");
static_assert(A_LANES > 0 and THREADS % A_LANES == 0, "threads copy whole lines of A's tile together");
static_assert(B_LANES > 0 and THREADS % B_LANES == 0, "threads copy whole lines of B's tile together");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

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

using TileA = signed char[BM][BK];  // A's tile in shared memory, its lines as in global memory
using TileB = unsigned char[BN][BK];  // B's, likewise
using Accumulators = int[MMAS_M][MMAS_N][4];  // this thread's sums, by instructions of its warp

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
// 2 neighbouring columns in that row, and in the next one or the row 8 below.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const WarpOrigin warp = warp_origin();
    const int lane = threadIdx.x % 32;
    return {warp.m + lane / 4, warp.n + lane % 4 * 2};
}

// N elements of 8 bits as words.
template <int N, typename E>
__device__ __forceinline__ Vec<unsigned, N / 4> load_words(const E* from)
{
    return load<N / 4>(reinterpret_cast<const unsigned*>(from));
}

// The first `valid` of them, the rest zero: one access where all exist, else one by one.
template <int N, typename E>
__device__ __forceinline__ Vec<unsigned, N / 4> load_edge_words(const E* from, int valid)
{
    if (valid >= N) return load_words<N>(from);
    Vec<unsigned, N / 4> words = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid)
            words.at[i / 4] |= static_cast<unsigned>(reinterpret_cast<const unsigned char*>(from)[i]) << i % 4 * 8;
    }
    return words;
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

// d += a * b, 16 x 8 x 32, by a warp. Lane 4 g + t holds of d columns 2 t and 2 t + 1 in row g and every 8th
// after it; of a the same rows, of b column g, each at k = 4 t to 4 t + 3, and every 16 further on.
__device__ __forceinline__ void mma_m16n8k32_s8u8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
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
__device__ __forceinline__ void fetch_a(const signed char* tile, Shape s, int rows, int depth,
                                        Vec<unsigned, VA / 4> (&staged)[A_ITERATIONS])
{
    const int first = threadIdx.x / A_LANES, k = threadIdx.x % A_LANES * VA;
    const signed char* const from = tile + Offset(first) * s.lda + k;
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int step = i * (THREADS / A_LANES), m = first + step;
        staged[i] = load_edge_words<VA>(from + Offset(step) * s.lda, m < rows ? depth - k : 0);
    }
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_a(const Vec<unsigned, VA / 4> (&staged)[A_ITERATIONS], TileA& shared)
{
    const int first = threadIdx.x / A_LANES, k = threadIdx.x % A_LANES * VA;
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int m = first + i * (THREADS / A_LANES);
        store<VA / 4>(reinterpret_cast<unsigned*>(&shared[m][swizzled_a(m, k)]), staged[i]);
    }
}

// Global memory -> registers: this thread's accesses to B's tile. Zeros stand for what lies outside B.
__device__ __forceinline__ void fetch_b(const unsigned char* tile, Shape s, int depth,
                                        Vec<unsigned, VB / 4> (&staged)[B_ITERATIONS])
{
    const int first = threadIdx.x / B_LANES, k = threadIdx.x % B_LANES * VB;
    const unsigned char* const from = tile + Offset(first) * s.ldb + k;
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const int step = i * (THREADS / B_LANES);
        staged[i] = load_edge_words<VB>(from + Offset(step) * s.ldb, depth - k);
    }
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_b(const Vec<unsigned, VB / 4> (&staged)[B_ITERATIONS], TileB& shared)
{
    const int first = threadIdx.x / B_LANES, k = threadIdx.x % B_LANES * VB;
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const int n = first + i * (THREADS / B_LANES);
        store<VB / 4>(reinterpret_cast<unsigned*>(&shared[n][swizzled_b(n, k)]), staged[i]);
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
            mma_m16n8k32_s8u8(acc[i][j], a[i], b[j]);
        }
    }
}

// The sums by the rows that this thread has of C, and by columns in each.
__device__ __forceinline__ void rows_of(const Accumulators& acc, int (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = acc[i / 2][j / 2][i % 2 * 2 + j % 2];
    }
}

// N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_results(int* to, Vec<int, N> value, int beta)
{
    if (beta != 0) {
        const Vec<int, N> old = load<N>(to);
        #pragma unroll
        for (int i = 0; i < N; ++i) value.at[i] = multiply_add(beta, old.at[i], value.at[i]);
    }
    Vec<int, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = value.at[i];
    store<N>(to, stored);
}

// C = alpha * sums + beta * C in the i-th of this thread's rows, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(int* tile, Shape s, int rows, ThreadOrigin thread, int i,
                                          const int (&sums)[TN], int alpha, int beta)
{
    const int m = thread.m + i / FM * STEP_M + i % FM;
    if (m >= rows) return;  // C has no such row
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<int, VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = multiply_add(alpha, sums[j + v], 0);
        store_results<VC>(tile + Offset(m) * s.ldc + n, value, beta);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(int* tile, Shape s, int rows, ThreadOrigin thread,
                                        const int (&sums)[TM][TN], int alpha, int beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, rows, thread, i, sums[i], alpha, beta);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_s8u8s32_rc_Mx512xK_sm90_9210c88a(
    const signed char* __restrict__ A, const unsigned char* __restrict__ B, int* __restrict__ C, int M, int K, int lda,
    int ldb, int alpha, int beta)
{
    __shared__ __align__(16) TileA As[STAGES];
    __shared__ __align__(16) TileB Bs[STAGES];
    const Shape s{M, K, lda, ldb};
    const TileOrigin tile = tile_of_block(s, blockIdx.x);
    const ThreadOrigin thread = thread_origin();
    const int rows = s.M - tile.m;  // from the tile's origin to the edge of C
    const signed char* a_tile = A + Offset(tile.m) * s.lda;
    const unsigned char* b_tile = B + Offset(tile.n) * s.ldb;
    const Offset a_step = BK;  // to the next tile along K
    const Offset b_step = BK;
    const WarpOrigin warp = warp_origin();
    Accumulators acc = {};

    Vec<unsigned, VA / 4> a_staged[A_ITERATIONS];
    Vec<unsigned, VB / 4> b_staged[B_ITERATIONS];
    if (s.K > 0) {
        fetch_a(a_tile, s, rows, s.K, a_staged);
        fetch_b(b_tile, s, s.K, b_staged);
        store_shared_a(a_staged, As[0]);
        store_shared_b(b_staged, Bs[0]);
    }
    __syncthreads();

    int stage = 0;
    for (int k = 0; k < s.K; k += BK) {
        const int depth = s.K - k - BK;  // of K behind this k tile
        if (depth > 0) {                 // these loads run while this k tile is multiplied
            a_tile += a_step;
            b_tile += b_step;
            fetch_a(a_tile, s, rows, depth, a_staged);
            fetch_b(b_tile, s, depth, b_staged);
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

    int sums[TM][TN];
    rows_of(acc, sums);

    int* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    store_c(c_tile, s, rows, thread, sums, alpha, beta);
}
