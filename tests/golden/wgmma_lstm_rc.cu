// gemm_bf16_rc_64x1024x2048_lstm_sm90_0ec9fd64
//
//     C = sigmoid(acc4) * tanh(aux(sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)))
//     acc = A * B1, acc2 = A * B2, acc3 = A * B3, acc4 = A * B4, B1, B2, B3 and B4 side by side in B; bf16;
//     sums in f32 on tensor cores
//
//     A  64 x 2048, row-major, lda = 2048
//     B  2048 x 4096, column-major, ldb = 2048
//     C  64 x 1024, row-major, ldc = 1024
//     residual  64 x 1024, row-major, ld_residual = 1024
//     aux  64 x 1024, row-major, ldc = 1024
//
// Block   64 x 16 of C by 256 threads, in k tiles of 64
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 8 stages;
//         1 consumer warpgroup: 64 x 16 of C by 4 wgmmas of 64 x 64 x 16 a k tile
// Sums    16 columns of each product: those of B2 follow those of B1 in shared memory
// Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered
// Split-K a cluster's 2 blocks compute a tile, each over a part of K; then each adds up all their sums of a part of the
//         tile
//
// Launch  ceil(M / 64) * ceil(N / 16) * 2 blocks of 256 threads, 133120 bytes of dynamic shared memory
// Maps    map_a of A: boxes of 64 x 64 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_b of B: boxes of 64 x 16 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_c of C: boxes of 8 x 64 elements, no swizzle
// Expects A, B, C, residual and aux at addresses divisible by 16, C and aux overlapping no other operand
// Config  gemm_bf16_rc_64x1024x2048_lstm_wgmma_64x16x64_c1_k1x0_s8_f1_g8_p0_split2
// Made by gemmgen generate 64x1024x2048 --dtype bf16 --layout rc --epilogue 'sigmoid(acc4) * tanh(aux(sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)))' --arch sm_90 --family wgmma --set BM=64 --set BN=16 --set CONSUMERS=1 --set STAGES=8 --set PERSISTENT=0 --set SPLIT=2

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
};

// A CUtensorMap, which the host encodes (cuTensorMapEncodeTiled): a matrix in global memory, its boxes, their swizzle.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 64;
    static constexpr int N = 1024;
    static constexpr int K = 2048;
    static constexpr int ldc = 1024;
    static constexpr int ld_residual = 1024;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 64;        // rows of C that a block computes
constexpr int BN = 16;        // columns of C that a block computes
constexpr int BK = 64;        // depth of a k tile
constexpr int CONSUMERS = 1;  // warpgroups that multiply, each its rows of the block tile
constexpr int STAGES = 8;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2
constexpr int SPLIT = 2;      // split-K: blocks of a cluster that compute the same tile of C, each over a part of K

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least
constexpr int K_STEP = 16;                      // k of an instruction
constexpr int MMAS_M = BM / (64 * CONSUMERS);   // instructions down a consumer's tile

// Split-K
constexpr int PART_N = BN / SPLIT;  // columns of the tile that a block stores

// Shared memory
constexpr int LINE_A = 64;  // elements of a line of A's boxes, the span of the swizzle
constexpr int LINE_B = 64;  // elements of a line of B's boxes, the span of the swizzle
constexpr int CN = 8;       // columns of a piece: C leaves by pieces of a consumer's 64 rows
// a consumer's buffers: 2, in turns, for an even number of pieces
constexpr int C_STAGES = 1 + (MMAS_M * PART_N / CN % 2 == 0);

// How C leaves registers
constexpr int TM = 2;       // rows of C that a thread has sums of, of each instruction
constexpr int TN = CN / 4;  // columns of C that a thread has sums of, of a piece
constexpr int FM = 1;       // adjacent rows in a run
constexpr int FN = 2;       // adjacent columns in a run
constexpr int STEP_M = 8;   // rows from a run to the next
constexpr int STEP_N = 8;   // columns from a run to the next
constexpr int VC = 2;       // elements of an access to C

static_assert(BM % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 rows at once");
static_assert(BM <= 256, "a box of TMA has at most 256 elements along each dimension");
static_assert(BN % 8 == 0 and BN <= 256, "wgmma's n is a multiple of 8, up to 256");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
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

// A thread's accumulators: its part of the 64 x 64 sums of an instruction, over the 128 threads of a warpgroup.
using Accumulators = float[MMAS_M][BN * 2];

// The ring of k tiles, C on its way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) BF16 a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
    alignas(1024) BF16 b[STAGES][4 * BN * BK];  // boxes of lines of LINE_B elements, likewise
    alignas(1024) BF16 c[CONSUMERS][C_STAGES][64 * CN];  // pieces of C
    unsigned long long full[STAGES];   // a stage's tiles have landed: consumers wait
    unsigned long long empty[STAGES];  // those that read them have: the producer waits
};
static_assert(sizeof(Shared) == 133120, "the launch asks for as much shared memory");

// A place in the ring: a stage, and the parity of the round. In round r, from 0 on, consumers wait for phase r of
// full[stage], the producer for phase r - 1 of empty[stage].
struct Ring {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance()
    {
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
    }
};

// Row and column of this thread's first sum, of those that its warpgroup multiplies at once.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    return {warp * 16 + lane / 4, lane % 4 * 2};
}

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

// The address of what lies in shared memory, as PTX takes it.
__device__ __forceinline__ unsigned shared_address(const void* shared)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// An mbarrier counts arrivals and bytes. Its phase completes when as many arrivals as it was initialised with have
// come, and all bytes that it was told to expect; the next phase begins at once. One thread initialises it. The fence
// makes that visible to TMA and to the cluster; a barrier of all threads comes before any use.
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrive.
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrive after adding to the bytes that the current phase expects.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned long long* barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Wait until the phase of this parity has completed. Phases count from 0; on a new barrier parity 1 passes, as if a
// phase -1 had completed. Parity only tells a phase from its neighbours: nobody may fall two phases behind.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, unsigned parity)
{
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra waited; bra again; waited: }" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Which block of its cluster this is.
__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Arrive at the barrier of the cluster's threads, without waiting. What a thread did before, in shared memory of
// whichever block, is visible to those that have waited.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }

// Wait until all threads of the cluster have arrived or exited.
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Wait for all threads of the cluster.
__device__ __forceinline__ void cluster_sync()
{
    cluster_arrive();
    cluster_wait();
}

// Load four floats from distributed shared memory: from block `rank` of the cluster, at the address that they have in
// this block. That one must not have exited; a barrier of the cluster comes between their store and this.
__device__ __forceinline__ void load_shared_cluster(const float* shared, unsigned rank, float (&values)[4])
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
                 : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
                 : "r"(shared_address(shared)), "r"(rank));
}

// Programmatic dependent launch, an attribute of launches: a kernel may start while the one before on the stream runs.
// Wait until that has ended and its writes are visible; and let the next one start once all blocks have come here.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Start loading the box at (x, y), x along the contiguous dimension, to shared memory. Its bytes count at `barrier`,
// also those outside of the tensor, which become zeros.
__device__ __forceinline__ void tma_load_2d(void* to, const TensorMap* map, unsigned long long* barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y) : "memory");
}

// Start storing a box. Outside of the tensor nothing is written but the rest of a 16-byte chunk across a line's end.
__device__ __forceinline__ void tma_store_2d(const TensorMap* map, const void* from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(map), "r"(shared_address(from)), "r"(x), "r"(y) : "memory");
}

// Close a group of this thread's stores since the last commit; and wait until all but its N newest groups have read
// shared memory, which may be overwritten then: what they write to global memory may still be under way.
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void tma_store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// Threads access shared memory by the generic proxy, TMA and wgmma by the async proxy. These see what a thread wrote
// only after its fence: each that wrote fences, then all meet at a barrier, and then a copy or a product may read it.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A __syncthreads for so many of the block's threads, whole warps, at barrier `number` of 1 to 15 (0 is that of all).
__device__ __forceinline__ void named_barrier_sync(int number, int threads)
{
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// The matrix descriptor by which wgmma finds a tile in shared memory. Bits 0-13: address / 16; 16-29 and 32-45: PTX's
// leading and stride byte offsets / 16; 49-51: base offset, 0 as tiles begin with a pattern of the swizzle; 62-63: the
// swizzle, 1, 2, 3 for lines of 128, 64, 32 bytes. `stride` leads from 8 lines to the next 8. `leading` leads from one
// box to the next where lines run across k (MN-major); where they run along k (K-major) nothing reads it. The swizzle
// applies to the final address: to go on by so many bytes in a tile, add them / 16 to the descriptor.
template <int SWIZZLE>
__device__ __forceinline__ unsigned long long make_descriptor(const void* shared, int leading, int stride)
{
    constexpr unsigned long long LAYOUT = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
    return LAYOUT << 62 | static_cast<unsigned long long>(stride >> 4) << 32 |
           static_cast<unsigned long long>(leading >> 4) << 16 | (shared_address(shared) & 0x3ffff) >> 4;
}

// wgmma is asynchronous. A fence comes before the first one, and again after other code has written registers that it
// reads or adds to. A commit closes a group of all since the last commit; after a wait at most the N newest groups are
// in flight. Nobody may touch the accumulators of a group in flight, nor overwrite what it reads.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
#define SUMS(r) "+f"(d[r]), "+f"(d[r + 1]), "+f"(d[r + 2]), "+f"(d[r + 3])  // four of a thread's accumulators, or all
// d += a * b, 64 x 64 x 16, by a warpgroup; d = a * b where it is told not to accumulate. In lane 4 g + t of warp w
// d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c; sums of f16 are two to a register. Behind b stand
// scale-d, then imm-scale-a and -b (1: not negated) and imm-trans-a and -b (1: MN-major), where the instruction has
// them.
__device__ __forceinline__ void wgmma_m64n64k16_bf16(float (&d)[32], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28)
        : "l"(a), "l"(b));
}
#undef SUMS

// Sums the products of a stage's k tiles, for this warpgroup's rows of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first, Accumulators& acc)
{
    const unsigned long long a = make_descriptor<LINE_A * sizeof(BF16)>(shared.a[stage] + first * LINE_A, 16,
                                                                        8 * LINE_A * sizeof(BF16));
    const unsigned long long b = make_descriptor<LINE_B * sizeof(BF16)>(shared.b[stage], 16, 8 * LINE_B * sizeof(BF16));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i)
            wgmma_m64n64k16_bf16(acc[i], a + i * 64 * LINE_A * sizeof(BF16) / 16 + k * sizeof(BF16) / 16,
                                 b + k * sizeof(BF16) / 16);
    }
}

// Tell the producer that this warpgroup has read a stage. A wgmma is the whole warpgroup's: one thread arrives for all.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
}

// This thread's share of the sums that its block stores, of one matrix of B after the other.
using Part = float[MMAS_M][PART_N * 2];

// Where this thread's sums from the r-th of an instruction on, four of them, lie in shared memory, once the ring is
// done with. Those of all consumers' threads lie side by side, so that a warp's access is 512 contiguous bytes.
__device__ __forceinline__ float* address_of_sums(Shared& shared, int i, int r)
{
    return reinterpret_cast<float*>(&shared)
        + ((i * (BN * 2) + r) / 4 * 128 * CONSUMERS + static_cast<int>(threadIdx.x)) * 4;
}

// Leaves this thread's sums there, for all blocks of the cluster.
__device__ __forceinline__ void store_sums(const Accumulators& sums, Shared& shared)
{
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int r = 0; r < BN * 2; r += 4) {
            float4& four = *reinterpret_cast<float4*>(address_of_sums(shared, i, r));
            four = {sums[i][r], sums[i][r + 1], sums[i][r + 2], sums[i][r + 3]};
        }
    }
}

// part += the sums of all blocks of the cluster, of what the block of this rank stores.
__device__ __forceinline__ void add_up(Shared& shared, int rank, Part& part)
{
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int r = 0; r < PART_N / 2; r += 4) {
            #pragma unroll
            for (unsigned peer = 0; peer < SPLIT; ++peer) {  // always in this order: the same bits in every run
                float sums[4];
                #pragma unroll
                for (int matrix = 0; matrix < 4; ++matrix) {
                    load_shared_cluster(address_of_sums(shared, i, matrix * (BN / 2) + rank * (PART_N / 2) + r), peer,
                                        sums);
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) part[i][matrix * (PART_N / 2) + r + j] += sums[j];
                }
            }
        }
    }
}

// This thread's sums of a piece by rows of C, and by columns in each.
__device__ __forceinline__ void sums_of_piece(const float (&acc)[PART_N * 2], int piece, float (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j)
            sums[i][j] = acc[piece * CN / 2 + j / 2 * 4 + i * 2 + j % 2];
    }
}

// Where an element of a piece lies in shared memory, swizzled as TMA expects it: the number of its chunk of 16 bytes is
// XORed with its line's, so that the eight lines that a warp writes at once do not meet in a bank. Where a piece has
// several boxes, these lie one behind the other.
__device__ __forceinline__ int staged_at(int m, int n)
{
    constexpr int CHUNK = 16 / sizeof(BF16), CHUNKS = CN / CHUNK;  // elements of one; chunks of a line
    return m * CN + ((n / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
}

__device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    const float* residual;
    float* aux;
};

// C's new element; c is the old one, or 0 where beta = 0:
// sigmoid(acc4) * tanh(aux(sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)))
__device__ __forceinline__ float epilogue(const Epilogue& e, Shape s, int m, int n, float acc, float acc2, float acc3,
                                          float acc4, float& aux)
{
    const float residual = e.residual[Offset(m) * s.ld_residual + n];
    const float x = sigmoid(acc2);
    aux = fmaf(x, tanhf(acc3), sigmoid(acc) * residual);
    return sigmoid(acc4) * tanhf(aux);
}

// N new elements to C.
template <int N>
__device__ __forceinline__ void store_results(BF16* to, const Epilogue& e, Shape s, int m, int n, Vec<float, N> value,
                                              Vec<float, N> acc2, Vec<float, N> acc3, Vec<float, N> acc4)
{
    Vec<float, N> aux;
    Vec<BF16, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i)
        stored.at[i] = BF16(epilogue(e, s, m, n + i, value.at[i], acc2.at[i], acc3.at[i], acc4.at[i], aux.at[i]));
    store<N>(to, stored);
    store<N>(e.aux + Offset(m) * s.ldc + n, aux);
}

// The i-th of this thread's rows of C, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(BF16* tile, Shape s, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], const float (&sums2)[TN], const float (&sums3)[TN],
                                          const float (&sums4)[TN], const Epilogue& e)
{
    const int m = thread.m + i / FM * STEP_M + i % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<float, VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = sums[j + v];
        Vec<float, VC> acc2;
        #pragma unroll
        for (int v = 0; v < VC; ++v) acc2.at[v] = sums2[j + v];
        Vec<float, VC> acc3;
        #pragma unroll
        for (int v = 0; v < VC; ++v) acc3.at[v] = sums3[j + v];
        Vec<float, VC> acc4;
        #pragma unroll
        for (int v = 0; v < VC; ++v) acc4.at[v] = sums4[j + v];
        store_results<VC>(tile + staged_at(m, n), e, s, m, n, value, acc2, acc3, acc4);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(BF16* tile, Shape s, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], const float (&sums2)[TM][TN],
                                        const float (&sums3)[TM][TN], const float (&sums4)[TM][TN], const Epilogue& e)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, thread, i, sums[i], sums2[i], sums3[i], sums4[i], e);
}

}  // namespace

// Each stage of the ring goes from the producer to the consumers and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS, MINB)
gemm_bf16_rc_64x1024x2048_lstm_sm90_0ec9fd64(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, const float* __restrict__ residual, float* __restrict__ aux)
{
    extern __shared__ __align__(1024) unsigned char bytes[];  // the launch sets its size; above 48 KB the host opts in
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            // Full: the producer arrives, and the bytes. Empty: one thread of each consumer that reads it.
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], CONSUMERS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    grid_dependency_wait();  // the barriers are set up while the kernel before still runs
    launch_dependents();

    const Shape s{};
    const int rank = static_cast<int>(cluster_rank());  // says which range of K, and which part of the tile
    const int begin = rank * (s.K / SPLIT), end = begin + s.K / SPLIT;
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
        if (threadIdx.x > CONSUMERS * 128) return;  // no __syncthreads follows
        const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / SPLIT));
        for (int k = begin; k < end; k += BK, ring.advance()) {
            mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // of the round before; the first passes
            unsigned long long* const full = &shared.full[ring.stage];
            mbarrier_arrive_expect_tx(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));  // of all copies to this block
            tma_load_2d(shared.a[ring.stage], &map_a, full, k, tile.m);
            tma_load_2d(shared.b[ring.stage], &map_b, full, k, tile.n);
            tma_load_2d(shared.b[ring.stage] + BN * LINE_B, &map_b, full, k, s.N + tile.n);
            tma_load_2d(shared.b[ring.stage] + 2 * BN * LINE_B, &map_b, full, k, 2 * s.N + tile.n);
            tma_load_2d(shared.b[ring.stage] + 3 * BN * LINE_B, &map_b, full, k, 3 * s.N + tile.n);
        }
        return;
    }

    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const ThreadOrigin thread = thread_origin();
    const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / SPLIT));
    Accumulators acc = {};
    int previous = 0;  // the stage that products under way may still read
    #pragma unroll 1  // ptxas may serialise the wgmmas of a loop that is unrolled as a whole
    for (int k = begin; k < end; k += BK, ring.advance()) {
        mbarrier_wait(&shared.full[ring.stage], ring.parity);
        wgmma_fence();
        multiply_stage(shared, ring.stage, consumer * MMAS_M * 64, acc);
        wgmma_commit();
        wgmma_wait<1>();  // for the products of the k tile before
        if (k > begin) release_stage(shared, previous);
        previous = ring.stage;
    }
    wgmma_wait<0>();
    release_stage(shared, previous);
    named_barrier_sync(1 + CONSUMERS, 128 * CONSUMERS);  // no products of any warp read the ring any more
    store_sums(acc, shared);
    cluster_sync();  // all blocks have stored theirs
    Part part = {};
    add_up(shared, rank, part);
    cluster_arrive();  // none reads them any more once all have come
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int piece = 0; piece < PART_N / CN; ++piece) {
            const int m = tile.m + (consumer * MMAS_M + i) * 64, n = tile.n + rank * PART_N + piece * CN;
            float sums[TM][TN];
            sums_of_piece(part[i], piece, sums);
            float sums2[TM][TN];
            sums_of_piece(part[i], PART_N / CN + piece, sums2);
            float sums3[TM][TN];
            sums_of_piece(part[i], 2 * PART_N / CN + piece, sums3);
            float sums4[TM][TN];
            sums_of_piece(part[i], 3 * PART_N / CN + piece, sums4);
            BF16* const c = shared.c[consumer][(i * PART_N / CN + piece) % C_STAGES];
            if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read the piece that was there
            named_barrier_sync(1 + consumer, 128);
            const Epilogue e = {residual + Offset(m) * s.ld_residual + n, aux + Offset(m) * s.ldc + n};
            store_c(c, s, thread, sums, sums2, sums3, sums4, e);
            fence_proxy_async();
            named_barrier_sync(1 + consumer, 128);
            if (leads) {
                tma_store_2d(&map_c, c, n, m);
                tma_store_commit();
            }
        }
    }
    cluster_wait();  // no block exits while another may read its sums
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
