// gemm_f32_rr_bB_8x12x16_ep97a66a26_sm90_8f53ff7b
//
//     C = clamp(acc + beta * C, -1, 1) * scale_m + residual      acc = A * B; f32 on CUDA cores;
//                                                                C is read unless beta = 0
//     for each of a batch's products
//
//     A  8 x 16, row-major, lda = 16, stride_a = 128
//     B  16 x 12, row-major, ldb = 12, stride_b = 192
//     C  8 x 12, row-major, ldc = 12, stride_c = 96
//     residual  8 x 12, row-major, ld_residual = 12, stride_residual = 96
//     scale_m  8 elements, one a row of C; the same for all products
//
// Block   4 products at once by 24 threads, 5632 bytes of shared memory
// Thread  16 elements of C: for each k 16 FMAs on 8 elements of A and B, read from shared memory by 2 loads
// Reads   0.8333 bytes of global and 2 of shared memory for each FMA; 2.4 FLOP for a byte of global
// Stages  none is prefetched: a block waits for each of its loads, and only other blocks hide that
// Bound   device memory: 1.5 FLOP for a byte that has to move, too few for any known card
//
// Launch  ceil(batch / 4) blocks of 24 threads
// Expects A, B, C, scale_m and residual at addresses divisible by 16, C overlapping no other operand,
//         no two matrices of C that overlap
// Config  gemm_f32_rr_bB_8x12x16_ep97a66a26_batched_mb4_4x4_v4_pad4_s1_async0_tiles1_minb1
// Made by gemmgen generate 8x12x16 --dtype f32 --layout rr --batch '?' --epilogue 'clamp(acc + beta * C, -1, 1) * scale_m + residual' --arch sm_90 --family batched

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 8;
    static constexpr int N = 12;
    static constexpr int K = 16;
    static constexpr int lda = 16;
    static constexpr int ldb = 12;
    static constexpr int ldc = 12;
    static constexpr int ld_residual = 12;
    int batch;
    static constexpr long long stride_a = 128;
    static constexpr long long stride_b = 192;
    static constexpr long long stride_c = 96;
    static constexpr long long stride_residual = 96;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int MB = 4;           // products that a block computes at once
constexpr int TM = 4;           // rows of C that a thread computes
constexpr int TN = 4;           // columns of C that a thread computes
constexpr int PAD = 4;          // elements after each shared line of an operand stored along k: spreads banks
constexpr int STAGES = 1;       // batch tiles of MB products that shared memory holds
constexpr int BATCH_TILES = 1;  // batch tiles of MB products that a block computes one after the other
constexpr int MINB = 1;         // blocks that must fit an SM at once: caps a thread's registers

// Work split
constexpr int BM = 8;                     // rows of C: all of them
constexpr int BN = 12;                    // columns of C: all of them
constexpr int BK = 16;                    // K: all of it
constexpr int LANES_M = BM / TM;          // threads down a matrix
constexpr int LANES_N = BN / TN;          // threads across a matrix
constexpr int LANES = LANES_M * LANES_N;  // threads a product
constexpr int THREADS = MB * LANES;       // threads a block
constexpr int PAIR = 1;                   // neighbouring threads that compute the same rows
constexpr int DEPTH = 4;                  // k for which a thread loads its fragments at once
constexpr int UNROLL = 4;                 // of the loop along k: iterations that are unrolled
constexpr int FM = 1;                     // neighbouring rows of a thread's patch of C
constexpr int FN = 4;                     // neighbouring columns of a thread's patch of C
constexpr int STEP_M = FM * LANES_M;      // rows from one patch of a thread to its next
constexpr int STEP_N = FN * LANES_N;      // columns from one patch of a thread to its next
constexpr int VC = 4;                     // floats of an access to C

// How A gets to shared memory
constexpr int VA = 4;                     // floats of an access to A
constexpr int READ_A = DEPTH;             // floats of a thread's shared read of A
constexpr int A_CONTIGUOUS = BK;          // floats of A along its contiguous dimension
constexpr int A_ACCESSES = BK / VA * BM;  // accesses that fetch a matrix A
constexpr int A_ITERATIONS = (MB * A_ACCESSES + THREADS - 1) / THREADS;  // accesses of a thread to all MB, at most
constexpr int PITCH_A = BK + PAD;         // floats from one row of A's shared tile to the next
constexpr int SHARED_A = BM * PITCH_A;    // floats of a shared matrix A

// How B gets to shared memory
constexpr int VB = 4;                     // floats of an access to B
constexpr int READ_B = FN;                // floats of a thread's shared read of B
constexpr int B_CONTIGUOUS = BN;          // floats of B along its contiguous dimension
constexpr int B_ACCESSES = BN / VB * BK;  // accesses that fetch a matrix B
constexpr int B_ITERATIONS = (MB * B_ACCESSES + THREADS - 1) / THREADS;  // accesses of a thread to all MB, at most
constexpr int PITCH_B = BN;               // floats from one row of B's shared tile to the next
constexpr int SHARED_B = BK * PITCH_B;    // floats of a shared matrix B

static_assert(PITCH_A % VA == 0 and PITCH_A % READ_A == 0, "vector accesses to A's shared lines stay aligned");
static_assert(PITCH_B % VB == 0 and PITCH_B % READ_B == 0, "vector accesses to B's shared lines stay aligned");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

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

using MatrixA = float[SHARED_A / PITCH_A][PITCH_A];  // A in shared memory, line by line: [m][k]
using MatrixB = float[SHARED_B / PITCH_B][PITCH_B];  // B in shared memory, line by line: [k][n]

// The first element of a thread tile within its product. Thread tiles are FM x FN patches, STEP_M and STEP_N apart,
// so that neighbouring threads read neighbouring addresses of shared memory.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin lane_origin(int lane)
{
    // PAIR neighbouring lanes have the same rows, lanes PAIR apart the same columns: a vector load of one address by
    // neighbouring lanes takes half the shared-memory wavefronts.
    const int lane_m = lane / PAIR % LANES_M;
    const int lane_n = lane / (PAIR * LANES_M) * PAIR + lane % PAIR;
    return {lane_m * FM, lane_n * FN};
}

// This thread's copies of MB matrices A to shared memory, as far as the batch has so many.
__device__ __forceinline__ void copy_a(const float* batch, Shape s, int first, MatrixA* shared)
{
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int access = threadIdx.x + i * THREADS;
        if (MB * A_ACCESSES % THREADS != 0 && access >= MB * A_ACCESSES) break;
        const int matrix = access / A_ACCESSES, within = access % A_ACCESSES;
        const int line = within / (A_CONTIGUOUS / VA), at = within % (A_CONTIGUOUS / VA) * VA;
        if (first + matrix >= s.batch) break;
        const float* from = batch + (first + matrix) * s.stride_a + Offset(line) * s.lda + at;
        store<VA>(&shared[matrix][line][at], load<VA>(from));
    }
}

// This thread's copies of MB matrices B to shared memory, as far as the batch has so many.
__device__ __forceinline__ void copy_b(const float* batch, Shape s, int first, MatrixB* shared)
{
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const int access = threadIdx.x + i * THREADS;
        if (MB * B_ACCESSES % THREADS != 0 && access >= MB * B_ACCESSES) break;
        const int matrix = access / B_ACCESSES, within = access % B_ACCESSES;
        const int line = within / (B_CONTIGUOUS / VB), at = within % (B_CONTIGUOUS / VB) * VB;
        if (first + matrix >= s.batch) break;
        const float* from = batch + (first + matrix) * s.stride_b + Offset(line) * s.ldb + at;
        store<VB>(&shared[matrix][line][at], load<VB>(from));
    }
}

// This thread's fragments of A at DEPTH neighbouring k: TM loads of DEPTH values along k.
__device__ __forceinline__ void load_fragment_a(const MatrixA& shared, int k, int m, float (&fragment)[DEPTH][TM])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const Vec<DEPTH> vector = load<DEPTH>(&shared[m + i * STEP_M][k]);
        #pragma unroll
        for (int d = 0; d < DEPTH; ++d) fragment[d][i] = vector.at[d];
    }
}

// This thread's fragments of B at DEPTH neighbouring k: TN values each, FN a load.
__device__ __forceinline__ void load_fragment_b(const MatrixB& shared, int k, int n, float (&fragment)[DEPTH][TN])
{
    #pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
        #pragma unroll
        for (int i = 0; i < TN; i += FN) {
            const Vec<FN> vector = load<FN>(&shared[k + d][n + i / FN * STEP_N]);
            #pragma unroll
            for (int v = 0; v < FN; ++v) fragment[d][i + v] = vector.at[v];
        }
    }
}

// acc += A * B: for each k an outer product of this thread's TM values of A and TN of B.
__device__ __forceinline__ void mma(const MatrixA& As, const MatrixB& Bs, ThreadOrigin thread, float (&acc)[TM][TN])
{
    #pragma unroll UNROLL
    for (int k = 0; k < Shape::K; k += DEPTH) {
        float a[DEPTH][TM], b[DEPTH][TN];
        load_fragment_a(As, k, thread.m, a);
        load_fragment_b(Bs, k, thread.n, b);
        #pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(a[d][i], b[d][j], acc[i][j]);
            }
        }
    }
}

__device__ __forceinline__ float clamp(float x, float lo, float hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    float beta;
    const float* scale_m;
    const float* residual;
};

// C's new element; c is the old one, or 0 where beta = 0:
// clamp(acc + beta * C, -1, 1) * scale_m + residual
__device__ __forceinline__ float epilogue(const Epilogue& e, Shape s, int m, int n, float acc, float c)
{
    const float scale_m = e.scale_m[m];
    const float residual = e.residual[Offset(m) * s.ld_residual + n];
    const float x = e.beta == 0.0f ? acc : fmaf(e.beta, c, acc);
    return fmaf(clamp(x, -1.0f, 1.0f), scale_m, residual);
}

// N new elements to C.
template <int N>
__device__ __forceinline__ void store_results(float* to, const Epilogue& e, Shape s, int m, int n, Vec<N> value)
{
    Vec<N> old = {};
    if (e.beta != 0.0f) old = load<N>(to);  // else C is not read: it may be uninitialised
    #pragma unroll
    for (int i = 0; i < N; ++i) value.at[i] = epilogue(e, s, m, n + i, value.at[i], old.at[i]);
    store<N>(to, value);
}

// The i-th of this thread's rows of C, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(float* tile, Shape s, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], const Epilogue& e)
{
    const int m = thread.m + i / FM * STEP_M + i % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = sums[j + v];
        store_results<VC>(tile + Offset(m) * s.ldc + n, e, s, m, n, value);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(float* tile, Shape s, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], const Epilogue& e)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, thread, i, sums[i], e);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f32_rr_bB_8x12x16_ep97a66a26_sm90_8f53ff7b(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, const float* __restrict__ scale_m,
    const float* __restrict__ residual, int batch, float beta)
{
    __shared__ __align__(16) MatrixA As[STAGES * MB];  // STAGES batch tiles of MB
    __shared__ __align__(16) MatrixB Bs[STAGES * MB];
    const Shape s{batch};
    const int first = blockIdx.x * (MB * BATCH_TILES);  // product of the block
    const int in_tile = threadIdx.x / LANES;            // this thread's product of each batch tile
    const ThreadOrigin thread = lane_origin(threadIdx.x % LANES);

    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        copy_a(A, s, first + stage * MB, &As[stage * MB]);
        copy_b(B, s, first + stage * MB, &Bs[stage * MB]);
    }

    int stage = 0;
    for (int step = 0; step < BATCH_TILES; ++step) {
        __syncthreads();  // the batch tile is complete
        const int product = first + step * MB + in_tile;
        if (product < s.batch) {
            float acc[TM][TN] = {};
            mma(As[stage * MB + in_tile], Bs[stage * MB + in_tile], thread, acc);
            const Epilogue e = {beta, scale_m, residual + product * s.stride_residual};
            store_c(C + product * s.stride_c, s, thread, acc, e);
        }
        const int next = step + STAGES;
        if (next < BATCH_TILES) {
            __syncthreads();  // no thread reads the stage any more
            copy_a(A, s, first + next * MB, &As[stage * MB]);
            copy_b(B, s, first + next * MB, &Bs[stage * MB]);
        }
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
}
