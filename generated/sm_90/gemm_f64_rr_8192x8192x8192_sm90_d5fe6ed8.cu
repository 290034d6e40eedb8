// gemm_f64_rr_8192x8192x8192_sm90_d5fe6ed8
//
//     C = alpha * A * B + beta * C      f64 on tensor cores; C is read unless beta = 0, A and B always
//
//     A  8192 x 8192, row-major, lda = 8192
//     B  8192 x 8192, row-major, ldb = 8192
//     C  8192 x 8192, row-major, ldc = 8192
//
// Block   64 x 64 of C by 128 threads, in k tiles of 16, 65536 bytes of shared memory
// Warp    32 x 32 of C: for each 8 k, 8 mmas of 16 x 8 x 8, whose fragments 16 loads bring
// Stages  cp.async fills shared memory 3 stages ahead of its use
//
// Launch  ceil(M / 64) * ceil(N / 64) blocks of 128 threads, 65536 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f64_rr_8192x8192x8192_mma_64x64x16_w32x32_s4_async1_mma8_g8_split1
// Made by gemmgen generate 8192x8192x8192 --dtype f64 --layout rr --arch sm_90 --family mma --set BM=64 --set BN=64 --set WN=32 --set STAGES=4

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 8192;
    static constexpr int N = 8192;
    static constexpr int K = 8192;
    static constexpr int lda = 8192;
    static constexpr int ldb = 8192;
    static constexpr int ldc = 8192;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 64;     // rows of C that a block computes
constexpr int BN = 64;     // columns of C that a block computes
constexpr int BK = 16;     // depth of a k tile
constexpr int WM = 32;     // rows of C that a warp computes
constexpr int WN = 32;     // columns of C that a warp computes
constexpr int STAGES = 4;  // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;   // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);  // threads a block
constexpr int K_STEP = 8;                            // k of a step: those of one set of fragments
constexpr int MMAS_M = WM / 16;                      // products of 16 x 8 down a warp's tile
constexpr int MMAS_N = WN / 8;                       // products of 16 x 8 across a warp's tile
constexpr int K_STEPS = BK / K_STEP;                 // steps along a k tile

// How A gets to shared memory
constexpr int VA = 2;             // doubles of an access to A
constexpr int A_LANES = BK / VA;  // threads along a line of A's tile
constexpr int A_ITERATIONS = (BM * A_LANES + THREADS - 1) / THREADS;  // accesses of a thread, at most
constexpr int CHUNK_A = 4;        // doubles of a chunk of 32 bytes, the unit of the swizzle
constexpr int A_PHASE = 1;        // consecutive lines that swizzle alike: they fill the banks together
constexpr int A_SWIZZLED = 4;     // chunks of a line that the swizzle permutes

// How B gets to shared memory
constexpr int VB = 2;             // doubles of an access to B
constexpr int B_LANES = BN / VB;  // threads along a line of B's tile
constexpr int B_ITERATIONS = (BK * B_LANES + THREADS - 1) / THREADS;  // accesses of a thread, at most
constexpr int CHUNK_B = 4;        // doubles of a chunk of 32 bytes, the unit of the swizzle
constexpr int B_PHASE = 1;        // consecutive lines that swizzle alike: they fill the banks together
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

using TileA = double[BM][BK];  // A's tile in shared memory, its lines as in global memory
using TileB = double[BK][BN];  // B's, likewise
using Accumulators = double[MMAS_M][MMAS_N][4];  // this thread's sums, by instructions of its warp

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

// The shared memory that the launch asks for: beyond 48 KB there is no other kind.
__device__ __forceinline__ unsigned char* dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char bytes[];
    return bytes;
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

// d += a * b, 16 x 8 x 8, by a warp. Lane 4 g + t holds of d columns 2 t and 2 t + 1 in row g and every 8th
// after it; of a the same rows, of b column g, each at k = t, and every 4 further on.
__device__ __forceinline__ void mma_m16n8k8_f64(double (&d)[4], const double (&a)[4], const double (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
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

// Start this thread's copies of A's tile to shared memory: neighbouring threads along its contiguous dimension. Zeros
// stand for what lies outside A.
__device__ __forceinline__ void copy_a(const double* tile, Shape s, TileA& shared)
{
    const int first = threadIdx.x / A_LANES, k = threadIdx.x % A_LANES * VA;
    const double* const from = tile + Offset(first) * s.lda + k;
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int step = i * (THREADS / A_LANES), m = first + step;
        cp_async<8 * VA>(&shared[m][swizzled_a(m, k)], from + Offset(step) * s.lda, 8 * VA);
    }
}

// Start this thread's copies of B's tile to shared memory: neighbouring threads along its contiguous dimension. Zeros
// stand for what lies outside B.
__device__ __forceinline__ void copy_b(const double* tile, Shape s, TileB& shared)
{
    const int first = threadIdx.x / B_LANES, n = threadIdx.x % B_LANES * VB;
    const double* const from = tile + Offset(first) * s.ldb + n;
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const int step = i * (THREADS / B_LANES), k = first + step;
        cp_async<8 * VB>(&shared[k][swizzled_b(k, n)], from + Offset(step) * s.ldb, 8 * VB);
    }
}

// This warp's fragments of A's tile at the K_STEP k from `k_step` on: 16 rows for each instruction, from `warp_m` on.
__device__ __forceinline__ void load_fragments_a(const TileA& shared, int warp_m, int k_step, double (&a)[MMAS_M][4])
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int m = warp_m + 16 * i + lane / 4 + r % 2 * 8, k = k_step + lane % 4 + r / 2 * 4;
            a[i][r] = shared[m][swizzled_a(m, k)];
        }
    }
}

// This warp's fragments of B's tile at the K_STEP k from `k_step` on: 8 columns for each instruction, from `warp_n` on.
__device__ __forceinline__ void load_fragments_b(const TileB& shared, int warp_n, int k_step, double (&b)[MMAS_N][2])
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int j = 0; j < MMAS_N; ++j) {
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int n = warp_n + 8 * j + lane / 4, k = k_step + lane % 4 + r * 4;
            b[j][r] = shared[k][swizzled_b(k, n)];
        }
    }
}

// acc += a * b: the products of one k step. In a serpentine: each instruction has a fragment of the one before it.
__device__ __forceinline__ void mma(const double (&a)[MMAS_M][4], const double (&b)[MMAS_N][2], Accumulators& acc)
{
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int step = 0; step < MMAS_N; ++step) {
            const int j = i % 2 ? MMAS_N - 1 - step : step;
            mma_m16n8k8_f64(acc[i][j], a[i], b[j]);
        }
    }
}

// The sums by the rows that this thread has of C, and by columns in each.
__device__ __forceinline__ void rows_of(const Accumulators& acc, double (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = acc[i / 2][j / 2][i % 2 * 2 + j % 2];
    }
}

// N results to C. beta = 0 overwrites C unread: it may be uninitialised.
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

// C = alpha * sums + beta * C in the i-th of this thread's rows, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(double* tile, Shape s, ThreadOrigin thread, int i,
                                          const double (&sums)[TN], double alpha, double beta)
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
__device__ __forceinline__ void store_c(double* tile, Shape s, ThreadOrigin thread,
                                        const double (&sums)[TM][TN], double alpha, double beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, thread, i, sums[i], alpha, beta);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f64_rr_8192x8192x8192_sm90_d5fe6ed8(
    const double* __restrict__ A, const double* __restrict__ B, double* __restrict__ C, double alpha, double beta)
{
    TileA* const As = reinterpret_cast<TileA*>(dynamic_shared());
    TileB* const Bs = reinterpret_cast<TileB*>(As + STAGES);
    const Shape s{};
    const TileOrigin tile = tile_of_block(s, blockIdx.x);
    const ThreadOrigin thread = thread_origin();
    const double* a_tile = A + Offset(tile.m) * s.lda;
    const double* b_tile = B + tile.n;
    const Offset a_step = BK;  // to the next tile along K
    const Offset b_step = Offset(BK) * s.ldb;
    const WarpOrigin warp = warp_origin();
    Accumulators acc = {};

    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        const int depth = s.K - stage * BK;
        if (depth > 0) {
            copy_a(a_tile, s, As[stage]);
            copy_b(b_tile, s, Bs[stage]);
        }
        cp_async_commit();
        a_tile += a_step;
        b_tile += b_step;
    }

    cp_async_wait<STAGES - 2>();  // this thread's copies of the first k tile have landed
    __syncthreads();              // and all threads'
    double a[2][MMAS_M][4], b[2][MMAS_N][2];  // fragments of a k step, and of the next one
    load_fragments_a(As[0], warp.m, 0, a[0]);
    load_fragments_b(Bs[0], warp.n, 0, b[0]);

    int read = 0, write = STAGES - 1;
    for (int k = 0; k < s.K; k += BK) {
        #pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            // Load the next step's fragments, then multiply this one's: with no branch between, ptxas interleaves both.
            const int next = (step + 1) % 2;
            if (step + 1 == K_STEPS) {        // of the next k tile; after the last one, of this one again, unused
                cp_async_wait<STAGES - 2>();  // this thread's copies of it have landed
                __syncthreads();              // and all threads'; none reads this k tile any more
                if (k + BK < s.K) read = read + 1 < STAGES ? read + 1 : 0;
            }
            load_fragments_a(As[read], warp.m, (step + 1) % K_STEPS * K_STEP, a[next]);
            load_fragments_b(Bs[read], warp.n, (step + 1) % K_STEPS * K_STEP, b[next]);
            if (step == 0) {
                const int depth = s.K - k - (STAGES - 1) * BK;
                if (depth > 0) {
                    copy_a(a_tile, s, As[write]);
                    copy_b(b_tile, s, Bs[write]);
                }
                cp_async_commit();  // an empty group too: the wait counts groups
                a_tile += a_step;
                b_tile += b_step;
                write = write + 1 < STAGES ? write + 1 : 0;
            }
            mma(a[step % 2], b[step % 2], acc);
        }
    }

    double sums[TM][TN];
    rows_of(acc, sums);

    double* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    store_c(c_tile, s, thread, sums, alpha, beta);
}
