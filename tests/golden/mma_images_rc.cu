// gemm_bf16_rc_Mx64x576_bias_relu_sm90_276d76ed
//
//     C = relu(alpha * acc + beta * C + bias_n)      acc = A * B; bf16; sums in f32 on tensor cores;
//                                                    C is read unless beta = 0, A and B always
//     row m of C is output pixel (image, p, q) of P x Q = 56 x 56;
//     K is (r, s, c): tap (r, s) of R x S = 3 x 3, channel c
//     A holds ceil(M / 3136) images of H x W = 56 x 56; padding 1 x 1
//
//     A  images x 56 x 56 x 64, row-major, lda = 64
//     B  576 x 64, column-major, ldb = 576
//     C  M x 64, row-major, ldc = 64
//     bias_n  64 elements, one a column of C
//
// Block   128 x 64 of C by 128 threads, in k tiles of 64, 73728 bytes of shared memory
// Warp    32 x 64 of C: for each 16 k, 16 mmas of 16 x 8 x 16, whose fragments 6 ldmatrix bring
// Images  implicit GEMM: threads copy rows of A from images, tap by tap; padding is zeros
// Stages  cp.async fills shared memory 2 stages ahead of its use
//
// Launch  ceil(M / 128) * ceil(N / 64) blocks of 128 threads, 73728 bytes of dynamic shared memory
// Expects A, B, C and bias_n at addresses divisible by 16, C overlapping no other operand
// Config  gemm_bf16_rc_Mx64x576_i56x56x64_3x3_p1x1_bias_relu_mma_128x64x64_w32x64_s3_async1_g8_split1
// Made by gemmgen generate '?x64x576' --dtype bf16 --inputs im2col=56x56x64_3x3_p1x1 --layout rc --epilogue 'relu(alpha * acc + beta * C + bias_n)' --arch sm_90 --family mma --set BN=64 --set BK=64 --set WM=32

namespace {

// The nearest bfloat16, ties to even.
__device__ __forceinline__ unsigned short bf16_from_float(float value)
{
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// A bfloat16: the upper half of a float.
struct BF16 {
    unsigned short bits;
    BF16() = default;
    __device__ __forceinline__ explicit BF16(float value) : bits(bf16_from_float(value)) {}
    __device__ __forceinline__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 64;
    static constexpr int K = 576;
    static constexpr int lda = 64;
    static constexpr int ldb = 576;
    static constexpr int ldc = 64;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 128;    // rows of C that a block computes
constexpr int BN = 64;     // columns of C that a block computes
constexpr int BK = 64;     // depth of a k tile
constexpr int WM = 32;     // rows of C that a warp computes
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
constexpr int VB = 8;             // elements of an access to B
constexpr int B_LANES = BK / VB;  // threads along a line of B's tile
constexpr int B_ITERATIONS = (BN * B_LANES + THREADS - 1) / THREADS;  // accesses of a thread, at most
constexpr int CHUNK_B = 8;        // elements of a chunk of 16 bytes, the unit of the swizzle
constexpr int B_PHASE = 1;        // consecutive lines that swizzle alike: they fill the banks together
constexpr int B_SWIZZLED = 8;     // chunks of a line that the swizzle permutes

// Convolution
constexpr int H = 56;          // rows of an image
constexpr int W = 56;          // columns of an image
constexpr int CHANNELS = 64;   // channels of a pixel
constexpr int P = 56;          // rows of output pixels per image
constexpr int Q = 56;          // columns of output pixels per image
constexpr int R = 3;           // rows of taps of a filter
constexpr int S = 3;           // columns of taps of a filter
constexpr int PAD_H = 1;       // rows of padding above an image
constexpr int PAD_W = 1;       // columns of padding left of an image
constexpr int STRIDE_H = 1;    // rows that the filter moves from one row of output pixels to the next
constexpr int STRIDE_W = 1;    // columns that it moves from one output pixel to the next
constexpr int DILATION_H = 1;  // rows of pixels from one row of taps to the next
constexpr int DILATION_W = 1;  // columns of pixels from one column of taps to the next

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

using TileA = BF16[BM][BK];  // A's tile in shared memory, its lines as in global memory
using TileB = BF16[BN][BK];  // B's, likewise
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
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
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

// The same in B's.
__device__ __forceinline__ int swizzled_b(int line, int at)
{
    return at ^ line / B_PHASE % B_SWIZZLED * CHUNK_B;
}

// The rows of A's tile that a thread copies, each an output pixel, and the tile's first k.
struct Pixels {
    const BF16* first[A_ITERATIONS];  // the pixel under the filter's first tap, an address that may lie in the padding
    unsigned inside[A_ITERATIONS];  // bit r: the image has the r-th row of taps; bit R + s: the s-th column
    int k;
};

// The pixels of the tile that begins at row m of C and at k. Divisions are done here, once per row.
__device__ __forceinline__ Pixels pixels_of_tile(const BF16* A, Shape s, int m, int k)
{
    Pixels tile;
    tile.k = k;
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        // the output pixel, among those of all images
        const int place = m + threadIdx.x / A_LANES + i * (THREADS / A_LANES);
        const int row = place / Q % P * STRIDE_H - PAD_H, column = place % Q * STRIDE_W - PAD_W;
        tile.first[i] = A + ((Offset(place / (P * Q)) * H + row) * W + column) * s.lda;
        tile.inside[i] = 0;
        for (int tap = 0; tap < R; ++tap) {
            const int at = row + tap * DILATION_H;
            tile.inside[i] |= unsigned(at >= 0 && at < H) << tap;
        }
        for (int tap = 0; tap < S; ++tap) {
            const int at = column + tap * DILATION_W;
            tile.inside[i] |= unsigned(at >= 0 && at < W) << (R + tap);
        }
    }
    return tile;
}

// Start this thread's copies of A's tile to shared memory: for each of its rows, channels of the pixel under one tap.
// Zeros stand for padding and for what lies outside A.
__device__ __forceinline__ void copy_a(const Pixels& tile, Shape s, int rows, TileA& shared)
{
    const int first = threadIdx.x / A_LANES, k = threadIdx.x % A_LANES * VA;
    const int element = tile.k + k;  // (r, s, c) as one number
    const int tap_row = element / (S * CHANNELS);
    const int tap_column = element / CHANNELS % S, channel = element % CHANNELS;
    // from the pixel under the first tap
    const Offset distance = (Offset(tap_row) * (DILATION_H * W) + tap_column * DILATION_W) * s.lda + channel;
    const unsigned tap = 1u << tap_row | 1u << (R + tap_column);
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int m = first + i * (THREADS / A_LANES);
        const bool exists = m < rows && (tile.inside[i] & tap) == tap;
        cp_async<2 * VA>(&shared[m][swizzled_a(m, k)], tile.first[i] + distance, exists ? 2 * VA : 0);
    }
}

// Start this thread's copies of B's tile to shared memory: neighbouring threads along its contiguous dimension. Zeros
// stand for what lies outside B.
__device__ __forceinline__ void copy_b(const BF16* tile, Shape s, TileB& shared)
{
    const int first = threadIdx.x / B_LANES, k = threadIdx.x % B_LANES * VB;
    const BF16* const from = tile + Offset(first) * s.ldb + k;
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const int step = i * (THREADS / B_LANES), n = first + step;
        cp_async<2 * VB>(&shared[n][swizzled_b(n, k)], from + Offset(step) * s.ldb, 2 * VB);
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
            mma_m16n8k16_bf16(acc[i][j], a[i], b[j]);
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

__device__ __forceinline__ float relu(float x)
{
    return x < 0 ? 0 : x;
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    float alpha, beta;
    const float* bias_n;
};

// C's new element; c is the old one, or 0 where beta = 0:
// relu(alpha * acc + beta * C + bias_n)
__device__ __forceinline__ float epilogue(const Epilogue& e, int n, float acc, float c)
{
    const float bias_n = e.bias_n[n];
    const float x = fmaf(e.alpha, acc, e.beta == 0.0f ? bias_n : fmaf(e.beta, c, bias_n));
    return relu(x);
}

// N new elements to C.
template <int N>
__device__ __forceinline__ void store_results(BF16* to, const Epilogue& e, int n, Vec<float, N> value)
{
    Vec<BF16, N> old = {};
    if (e.beta != 0.0f) old = load<N>(to);  // else C is not read: it may be uninitialised
    Vec<BF16, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = BF16(epilogue(e, n + i, value.at[i], old.at[i]));
    store<N>(to, stored);
}

// The i-th of this thread's rows of C, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(BF16* tile, Shape s, int rows, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], const Epilogue& e)
{
    const int m = thread.m + i / FM * STEP_M + i % FM;
    if (m >= rows) return;  // C has no such row
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<float, VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = sums[j + v];
        store_results<VC>(tile + Offset(m) * s.ldc + n, e, n, value);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(BF16* tile, Shape s, int rows, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], const Epilogue& e)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, rows, thread, i, sums[i], e);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_bf16_rc_Mx64x576_bias_relu_sm90_276d76ed(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, const float* __restrict__ bias_n,
    int M, float alpha, float beta)
{
    TileA* const As = reinterpret_cast<TileA*>(dynamic_shared());
    TileB* const Bs = reinterpret_cast<TileB*>(As + STAGES);
    const Shape s{M};
    const TileOrigin tile = tile_of_block(s, blockIdx.x);
    const ThreadOrigin thread = thread_origin();
    const int rows = s.M - tile.m;  // from the tile's origin to the edge of C
    Pixels a_tile = pixels_of_tile(A, s, tile.m, 0);
    const BF16* b_tile = B + Offset(tile.n) * s.ldb;
    const Offset b_step = BK;  // to the next tile along K
    const WarpOrigin warp = warp_origin();
    Accumulators acc = {};

    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        const int depth = s.K - stage * BK;
        if (depth > 0) {
            copy_a(a_tile, s, rows, As[stage]);
            copy_b(b_tile, s, Bs[stage]);
        }
        cp_async_commit();
        a_tile.k += BK;
        b_tile += b_step;
    }

    cp_async_wait<STAGES - 2>();  // this thread's copies of the first k tile have landed
    __syncthreads();              // and all threads'
    unsigned a[2][MMAS_M][4], b[2][MMAS_N][2];  // fragments of a k step, and of the next one
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
                    copy_a(a_tile, s, rows, As[write]);
                    copy_b(b_tile, s, Bs[write]);
                }
                cp_async_commit();  // an empty group too: the wait counts groups
                a_tile.k += BK;
                b_tile += b_step;
                write = write + 1 < STAGES ? write + 1 : 0;
            }
            mma(a[step % 2], b[step % 2], acc);
        }
    }

    float sums[TM][TN];
    rows_of(acc, sums);

    BF16* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
    const Epilogue e = {alpha, beta, bias_n + tile.n};
    store_c(c_tile, s, rows, thread, sums, e);
}
