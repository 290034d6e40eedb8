// gemm_f32_rr_b4096_8x8x8_sm90_13bd0e42
//
//     C = alpha * A * B + beta * C      f32 on CUDA cores; C is read unless beta = 0, A and B always
//     for each of 4096 products
//
//     A  8 x 8, row-major, lda = 8, stride_a = 64
//     B  8 x 8, row-major, ldb = 8, stride_b = 64
//     C  8 x 8, row-major, ldc = 8, stride_c = 64
//
// Block   8 products at once by 128 threads, 5120 bytes of shared memory
// Thread  4 elements of C: for each k 4 FMAs on 5 elements of A and B, read from shared memory by 1.25 loads
// Reads   1 bytes of global and 5 of shared memory for each FMA; 2 FLOP for a byte of global
// Stages  none is prefetched: a block waits for each of its loads, and only other blocks hide that
// Bound   device memory: 1.33 FLOP for a byte that has to move, too few for any known card
//
// Launch  ceil(batch / 8) blocks of 128 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         no two matrices of C that overlap
// Config  gemm_f32_rr_b4096_8x8x8_batched_mb8_1x4_v4_pad4_s1_async1_tiles1_minb1_pdl1
// Made by gemmgen generate 8x8x8 --dtype f32 --layout rr --batch 4096 --arch sm_90 --family batched --set MB=8 --set TM=1 --set ASYNC=1 --set PDL=1

namespace {

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 8;
    static constexpr int N = 8;
    static constexpr int K = 8;
    static constexpr int lda = 8;
    static constexpr int ldb = 8;
    static constexpr int ldc = 8;
    static constexpr int batch = 4096;
    static constexpr long long stride_a = 64;
    static constexpr long long stride_b = 64;
    static constexpr long long stride_c = 64;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int MB = 8;           // products that a block computes at once
constexpr int TM = 1;           // rows of C that a thread computes
constexpr int TN = 4;           // columns of C that a thread computes
constexpr int PAD = 4;          // elements after each shared line of an operand stored along k: spreads banks
constexpr int STAGES = 1;       // batch tiles of MB products that shared memory holds
constexpr int BATCH_TILES = 1;  // batch tiles of MB products that a block computes one after the other
constexpr int MINB = 1;         // blocks that must fit an SM at once: caps a thread's registers

// Work split
constexpr int BM = 8;                     // rows of C: all of them
constexpr int BN = 8;                     // columns of C: all of them
constexpr int BK = 8;                     // K: all of it
constexpr int LANES_M = BM / TM;          // threads down a matrix
constexpr int LANES_N = BN / TN;          // threads across a matrix
constexpr int LANES = LANES_M * LANES_N;  // threads a product
constexpr int THREADS = MB * LANES;       // threads a block
constexpr int PAIR = 2;                   // neighbouring threads that compute the same rows
constexpr int DEPTH = 4;                  // k for which a thread loads its fragments at once
constexpr int UNROLL = 2;                 // of the loop along k: iterations that are unrolled
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

static_assert(Shape::batch % (MB * BATCH_TILES) == 0,
              "batch tiles end where the batch does: no product is checked for that");

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

// Programmatic dependent launch, an attribute of launches: a kernel may start while the one before on the stream runs.
// Wait until that has ended and its writes are visible; and let the next one start once all blocks have come here.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

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

// This thread's copies of MB matrices A to shared memory, as far as the batch has so many.
__device__ __forceinline__ void copy_a(const float* batch, Shape s, int first, MatrixA* shared)
{
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int access = threadIdx.x + i * THREADS;
        if (MB * A_ACCESSES % THREADS != 0 && access >= MB * A_ACCESSES) break;
        const int matrix = access / A_ACCESSES, within = access % A_ACCESSES;
        const int line = within / (A_CONTIGUOUS / VA), at = within % (A_CONTIGUOUS / VA) * VA;
        const float* from = batch + (first + matrix) * s.stride_a + Offset(line) * s.lda + at;
        cp_async<4 * VA>(&shared[matrix][line][at], from, 4 * VA);
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
        const float* from = batch + (first + matrix) * s.stride_b + Offset(line) * s.ldb + at;
        cp_async<4 * VB>(&shared[matrix][line][at], from, 4 * VB);
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
gemm_f32_rr_b4096_8x8x8_sm90_13bd0e42(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float alpha, float beta)
{
    grid_dependency_wait();  // this kernel's blocks are resident by the time the one before ends
    launch_dependents();
    __shared__ __align__(16) MatrixA As[STAGES * MB];  // STAGES batch tiles of MB
    __shared__ __align__(16) MatrixB Bs[STAGES * MB];
    const Shape s{};
    const int first = blockIdx.x * (MB * BATCH_TILES);  // product of the block
    const int in_tile = threadIdx.x / LANES;            // this thread's product of each batch tile
    const ThreadOrigin thread = lane_origin(threadIdx.x % LANES);

    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        copy_a(A, s, first + stage * MB, &As[stage * MB]);
        copy_b(B, s, first + stage * MB, &Bs[stage * MB]);
        cp_async_commit();
    }

    int stage = 0;
    for (int step = 0; step < BATCH_TILES; ++step) {
        cp_async_wait<STAGES - 1>();  // this thread's copies of the batch tile have landed
        __syncthreads();              // and all other threads'
        const int product = first + step * MB + in_tile;
        {
            float acc[TM][TN] = {};
            mma(As[stage * MB + in_tile], Bs[stage * MB + in_tile], thread, acc);
            store_c(C + product * s.stride_c, s, thread, acc, alpha, beta);
        }
        const int next = step + STAGES;
        if (next < BATCH_TILES) {
            __syncthreads();  // no thread reads the stage any more
            copy_a(A, s, first + next * MB, &As[stage * MB]);
            copy_b(B, s, first + next * MB, &Bs[stage * MB]);
        }
        cp_async_commit();  // an empty group too: the wait counts groups
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
}
