// gemm_f16s8f16_rr_Mx520x1024_sm90_b8a51845
//
//     C = alpha * A * B + beta * C      A f16, B s8, C f16; sums in f32 on tensor cores;
//                                       C is read unless beta = 0, A and B always
//
//     A  M x 1024, row-major, lda = 1024
//     B  1024 x 520, row-major, ldb = 520
//     C  M x 520, row-major, ldc = 520
//     scales_b  8 x 520, row-major: a scale for each column of B and group of K
//
// Block   32 x 128 of C by 128 threads, in k tiles of 128, 74496 bytes of shared memory
// Warp    16 x 64 of C: for each 16 k, 8 mmas of 16 x 8 x 16, whose fragments 17 loads bring
// Stages  cp.async fills shared memory 2 stages ahead of its use
//
// Launch  ceil(M / 32) * ceil(N / 128) blocks of 128 threads, 74496 bytes of dynamic shared memory
// Expects A, B, C and scales_b at addresses divisible by 16, C overlapping no other operand,
//         prepared_b: ceil(520 / 64) * ceil(1024 / 128) * 2080 words of 32 bits, at an address divisible by 16, which
//         gemm_f16s8f16_rr_Mx520x1024_sm90_b8a51845_prepare_b_kernel writes before: any grid, blocks of 256 threads,
//         no other launch using the same workspace at the same time
// Config  gemm_f16s8f16_rr_Mx520x1024_k128_mma_32x128x128_w16x64_s3_async1_g8_split1
// Made by gemmgen generate '?x520x1024' --types f16,s8,f16 --inputs scales=128 --layout rr --arch sm_90 --family mma

namespace {

__device__ __forceinline__ float float_from_f16(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// The nearest half, ties to even.
__device__ __forceinline__ unsigned short f16_from_float(float value)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// A half, IEEE 754's binary16.
struct F16 {
    unsigned short bits;
    F16() = default;
    __device__ __forceinline__ explicit F16(float value) : bits(f16_from_float(value)) {}
    __device__ __forceinline__ operator float() const { return float_from_f16(bits); }
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 520;
    static constexpr int K = 1024;
    static constexpr int lda = 1024;
    static constexpr int ldc = 520;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 32;     // rows of C that a block computes
constexpr int BN = 128;    // columns of C that a block computes
constexpr int BK = 128;    // depth of a k tile
constexpr int WM = 16;     // rows of C that a warp computes
constexpr int WN = 64;     // columns of C that a warp computes
constexpr int STAGES = 3;  // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;   // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);  // threads a block
constexpr int K_STEP = 16;                           // k of a step: those of one set of fragments
constexpr int MMAS_M = WM / 16;                      // products of 16 x 8 down a warp's tile
constexpr int MMAS_N = WN / 8;                       // products of 16 x 8 across a warp's tile
constexpr int K_STEPS = BK / K_STEP;                 // steps along a k tile

// How A gets to shared memory
constexpr int VA = 8;             // elements of an access to A
constexpr int A_LANES = BK / VA;  // threads along a line of A's tile
constexpr int A_ITERATIONS = (BM * A_LANES + THREADS - 1) / THREADS;  // accesses of a thread, at most
constexpr int CHUNK_A = 8;        // elements of a chunk of 16 bytes, the unit of the swizzle
constexpr int A_PHASE = 1;        // consecutive lines that swizzle alike: they fill the banks together
constexpr int A_SWIZZLED = 8;     // chunks of a line that the swizzle permutes

// How B gets to shared memory
constexpr int CHUNK_K = 128;                      // k of a chunk of packed codes
constexpr int CHUNK_WORDS = 2080;                 // words of a chunk: codes, scales and zero points
constexpr int ROW_WORDS = BN / 64 * CHUNK_WORDS;  // words of the chunks of a tile's columns
constexpr int VB = 4;                             // words of an access to them
constexpr int B_ITERATIONS = (BK / CHUNK_K * ROW_WORDS / VB + THREADS - 1) / THREADS;  // accesses of a thread, at most

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

using TileA = F16[BM][BK];  // A's tile in shared memory, its lines as in global memory
using TileB = unsigned[BK / CHUNK_K][ROW_WORDS];  // chunks of B's packed codes, as they lie in global memory
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
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Where element `at` of a line of A's shared tile lies: its chunks trade places, by XOR with the line's
// number, so that the same chunk of lines that are read at once lies in banks of its own in each.
__device__ __forceinline__ int swizzled_a(int line, int at)
{
    return at ^ line / A_PHASE % A_SWIZZLED * CHUNK_A;
}

// Start this thread's copies of A's tile to shared memory: neighbouring threads along its contiguous dimension. Zeros
// stand for what lies outside A.
__device__ __forceinline__ void copy_a(const F16* tile, Shape s, int rows, TileA& shared)
{
    const int first = threadIdx.x / A_LANES, k = threadIdx.x % A_LANES * VA;
    const F16* const from = tile + Offset(first) * s.lda + k;
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int step = i * (THREADS / A_LANES), m = first + step;
        const int valid = m < rows ? VA : 0;  // elements that exist
        cp_async<2 * VA>(&shared[m][swizzled_a(m, k)], from + Offset(step) * s.lda, 2 * max(0, min(VA, valid)));
    }
}

// Chunks of 64 columns that lie side by side.
__device__ __forceinline__ int chunks_across(Shape s) { return (s.N + 63) / 64; }

// Start this thread's copies of a k tile of packed codes: the chunks of a tile's columns lie side by side.
// Chunks beyond N are filled with zeros.
__device__ __forceinline__ void copy_b(const int* tile, Shape s, int columns, TileB& shared)
{
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const int word = (threadIdx.x + i * THREADS) * VB, row = word / ROW_WORDS, at = word % ROW_WORDS;
        if (row >= BK / CHUNK_K) break;
        cp_async<4 * VB>(&shared[row][at], tile + Offset(row) * chunks_across(s) * CHUNK_WORDS + at,
                         at / CHUNK_WORDS * 64 < columns ? 4 * VB : 0);
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

// Scales and zero points of two columns of B, 8 apart. A zero point has 1024 added to it, as codes have, and is
// replicated in both halves of a word.
// Scales are replicated, too.
struct Scales {
    unsigned scale[2], zero[2];
};

__device__ __forceinline__ unsigned replicated(unsigned number) { return number | number << 16; }

// Load those of columns `column` and `column + 8` of a chunk; they follow its codes.
__device__ __forceinline__ Scales load_scales(const unsigned* chunk, int column)
{
    const unsigned short* const scales = reinterpret_cast<const unsigned short*>(chunk + 16 * CHUNK_K) + column;
    Scales found;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        found.scale[i] = replicated(scales[8 * i]);
        found.zero[i] = replicated(0x6480);
    }
    return found;
}

// Dequantise eight codes, the bytes of two words. Register r of a fragment has column g + 8 * (r % 2) at k = 2 t + 8 *
// (r / 2) and the next (lane 4 g + t). 1024 plus a code is exact (the code becomes its last bits), and so is its
// difference from 1024 plus a zero point.
// The difference's product with the scale is rounded once.
__device__ __forceinline__ void dequantise(uint2 codes, const Scales& of, unsigned (&numbers)[4])
{
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        const unsigned word = r < 2 ? codes.x : codes.y;
        const unsigned code = __byte_perm(word, 0x6400, r % 2 ? 0x5352 : 0x5150);
        asm("{ .reg .b32 difference;\n"
            "sub.rn.f16x2 difference, %1, %2;\n"
            "mul.rn.f16x2 %0, difference, %3; }"
            : "=r"(numbers[r]) : "r"(code), "r"(of.zero[r % 2]), "r"(of.scale[r % 2]));
    }
}

// Codes that a thread loads at once: eight in two words.
struct alignas(16) Codes {
    uint2 at[2];
};

// This thread's codes and scales of 16 columns: of columns g and g + 8 (lane 4 g + t).
struct Columns {
    Codes codes;
    Scales scales;
};

// Make this warp's fragments of B's tile at the K_STEP k from `k_step` on: 8 columns each, from `warp_n` on. Codes of
// several steps are loaded at once, and scales once per chunk.
__device__ __forceinline__ void load_fragments_b(const TileB& shared, int warp_n, int k_step, unsigned (&b)[MMAS_N][2],
                                                 Columns (&packed)[MMAS_N / 2])
{
    const int k = k_step % CHUNK_K, lane = threadIdx.x % 32;
    #pragma unroll
    for (int j = 0; j < MMAS_N / 2; ++j) {
        const int column = (warp_n + 16 * j) % 64;  // the first of the 16 in its chunk
        const unsigned* const chunk = shared[k_step / CHUNK_K] + (warp_n + 16 * j) / 64 * CHUNK_WORDS;
        if (k == 0) packed[j].scales = load_scales(chunk, column + lane / 4);
        if (k % 32 == 0) packed[j].codes = reinterpret_cast<const Codes*>(chunk)[k / 32 * 128 + column * 2 + lane];
        unsigned fragment[4];
        dequantise(packed[j].codes.at[k / 16 % 2], packed[j].scales, fragment);
        #pragma unroll
        for (int r = 0; r < 4; ++r) b[2 * j + r % 2][r / 2] = fragment[r];
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
            mma_m16n8k16_f16(acc[i][j], a[i], b[j]);
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
__device__ __forceinline__ void store_edge(F16* to, Vec<float, N> value, float beta, int valid)
{
    if (valid >= N) {
        if (beta != 0.0f) {
            const Vec<F16, N> old = load<N>(to);
            #pragma unroll
            for (int i = 0; i < N; ++i) value.at[i] = fmaf(beta, old.at[i], value.at[i]);
        }
        Vec<F16, N> stored;
        #pragma unroll
        for (int i = 0; i < N; ++i) stored.at[i] = F16(value.at[i]);
        store<N>(to, stored);
        return;
    }
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) to[i] = F16(beta == 0.0f ? value.at[i] : fmaf(beta, to[i], value.at[i]));
    }
}

// C = alpha * sums + beta * C in the i-th of this thread's rows, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(F16* tile, Shape s, int rows, int columns, ThreadOrigin thread, int i,
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

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(F16* tile, Shape s, int rows, int columns, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, rows, columns, thread, i, sums[i], alpha, beta);
}

}  // namespace

// prepared_b = B's codes with their scales, in chunks of 64 columns by 128 of K: 65 lines of 128 bytes each.
// Of 16 columns by 16 k, lane 4 g + t of a warp has columns g and g + 8 at k = 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: eight
// codes, two words.
// Codes 2 r and 2 r + 1 make register r of a fragment: column g + 8 * (r % 2), k = 2 t + 8 * (r / 2) and the next.
extern "C" __global__ void __launch_bounds__(256)
gemm_f16s8f16_rr_Mx520x1024_sm90_b8a51845_prepare_b_kernel(
    const signed char* __restrict__ B, const F16* __restrict__ scales_b, int* __restrict__ prepared_b)
{
    const int across = (520 + 63) / 64;
    const int tiles = across * ((1024 + 127) / 128);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first_n = tile % across * 64, first_k = tile / across * 128;
        unsigned* const chunk = reinterpret_cast<unsigned*>(prepared_b) + static_cast<long long>(tile) * 2080;
        for (int i = threadIdx.x; i < 1024; i += 256) {
            const int thread = i / 2 % 128, step = i / 256 * 2 + i % 2;  // of the warpgroup, of 16 of K
            const int n = first_n + thread / 32 * 16 + thread % 32 / 4, k = first_k + step * 16 + thread % 4 * 2;
            uint2 words = {};
            #pragma unroll
            for (int v = 0; v < 8; ++v) {
                const int column = n + v / 2 % 2 * 8, at = k + v / 4 * 8 + v % 2;
                if (column >= 520 || at >= 1024) continue;
                const long long from = static_cast<long long>(at) * 520 + column;
                const unsigned code = (B[from] & 255) ^ 128;
                (v < 4 ? words.x : words.y) |= code << 8 * (v % 4);
            }
            reinterpret_cast<uint2*>(chunk)[i] = words;
        }
        for (int i = threadIdx.x; i < 64; i += 256) {
            const int n = first_n + i;
            const bool inside = n < 520;
            const long long from = static_cast<long long>(first_k / 128) * 520 + n;
            unsigned short* const own = reinterpret_cast<unsigned short*>(chunk + 2048) + i;
            *own = inside ? scales_b[from].bits : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f16s8f16_rr_Mx520x1024_sm90_b8a51845(
    const F16* __restrict__ A, const int* __restrict__ prepared_b, F16* __restrict__ C, int M, float alpha, float beta)
{
    TileA* const As = reinterpret_cast<TileA*>(dynamic_shared());
    TileB* const Bs = reinterpret_cast<TileB*>(As + STAGES);
    const Shape s{M};
    const TileOrigin tile = tile_of_block(s, blockIdx.x);
    const ThreadOrigin thread = thread_origin();
    const int rows = s.M - tile.m, columns = s.N - tile.n;  // from the tile's origin to the edge of C
    const F16* a_tile = A + Offset(tile.m) * s.lda;
    const Offset a_step = BK;  // to the next tile along K
    const Offset b_step = Offset(BK / CHUNK_K) * chunks_across(s) * CHUNK_WORDS;
    const int* b_tile = prepared_b + tile.n / 64 * CHUNK_WORDS;
    const WarpOrigin warp = warp_origin();
    Accumulators acc = {};

    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        const int depth = s.K - stage * BK;
        if (depth > 0) {
            copy_a(a_tile, s, rows, As[stage]);
            copy_b(b_tile, s, columns, Bs[stage]);
        }
        cp_async_commit();
        a_tile += a_step;
        b_tile += b_step;
    }

    cp_async_wait<STAGES - 2>();  // this thread's copies of the first k tile have landed
    __syncthreads();              // and all threads'
    unsigned a[2][MMAS_M][4], b[2][MMAS_N][2];  // fragments of a k step, and of the next one
    Columns held[MMAS_N / 2];
    load_fragments_a(As[0], warp.m, 0, a[0]);
    load_fragments_b(Bs[0], warp.n, 0, b[0], held);

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
            load_fragments_b(Bs[read], warp.n, (step + 1) % K_STEPS * K_STEP, b[next], held);
            if (step == 0) {
                const int depth = s.K - k - (STAGES - 1) * BK;
                if (depth > 0) {
                    copy_a(a_tile, s, rows, As[write]);
                    copy_b(b_tile, s, columns, Bs[write]);
                }
                cp_async_commit();  // an empty group too: the wait counts groups
                a_tile += a_step;
                b_tile += b_step;
                write = write + 1 < STAGES ? write + 1 : 0;
            }
            mma(a[step % 2], b[step % 2], acc);
        }
    }

    float sums[TM][TN];
    rows_of(acc, sums);

    F16* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    store_c(c_tile, s, rows, columns, thread, sums, alpha, beta);
}
