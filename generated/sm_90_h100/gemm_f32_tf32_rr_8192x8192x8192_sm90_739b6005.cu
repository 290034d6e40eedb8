// gemm_f32_tf32_rr_8192x8192x8192_sm90_739b6005
//
//     C = alpha * A * B + beta * C      f32 on tensor cores, as --compute tf32 says;
//                                       C is read unless beta = 0, A and B always
//
//     A  8192 x 8192, row-major, lda = 8192
//     B  8192 x 8192, row-major, ldb = 8192
//     C  8192 x 8192, row-major, ldc = 8192
//
// Block   192 x 128 of C by 384 threads, in k tiles of 32; persistent: cluster c of n computes tiles c, c + n, ...
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 4 stages;
//         2 consumer warpgroups: 192 x 64 of C each by 4 wgmmas of 64 x 192 x 8 a k tile
// Cluster 2 blocks, tiles beside each other: each lets TMA send its part of A to all of them
// Feeds   lines of B run across K: wgmma takes tf32 of such lines only from registers; threads load it
//         C^T = B^T A^T: the rows of instructions are columns of C
// Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered
//
// Launch  up to ceil(M / 192) * ceil(N / 256) * 2 blocks of 384 threads, 197632 bytes of dynamic shared memory
// Maps    map_a of A: boxes of 32 x 96 elements, as tf32, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_b of B: boxes of 32 x 32 elements, as tf32, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_c of C: boxes of 32 x 32 elements, swizzle of 128 bytes
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f32_tf32_rr_8192x8192x8192_wgmma_192x128x32_c2_k2x1_s4_f1_g16_p1_r2
// Made by gemmgen generate 8192x8192x8192 --dtype f32 --compute tf32 --layout rr --arch sm_90 --family wgmma --set BM=192 --set CLUSTER=2 --set ACROSS=1 --set GROUP=16

namespace {

// A CUtensorMap, which the host encodes (cuTensorMapEncodeTiled): a matrix in global memory, its boxes, their swizzle.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

struct Shape { static constexpr int M = 8192, N = 8192, K = 8192; };  // constants, which fold into the code

// Parameters
constexpr int BM = 192;       // rows of C that a block computes
constexpr int BN = 128;       // columns of C that a block computes
constexpr int BK = 32;        // depth of a k tile
constexpr int CONSUMERS = 2;  // warpgroups that multiply, each its columns of the block tile
constexpr int CLUSTER = 2;    // blocks of a cluster: each brings its part of an operand to all
constexpr int STAGES = 4;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 16;     // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least; without this bound ptxas ignores setmaxnreg
constexpr int K_STEP = 8;                       // k of an instruction
constexpr int MMAS_N = BN / (64 * CONSUMERS);   // instructions across a consumer's tile
constexpr int PRODUCER_REGISTERS = 40;          // registers of a producer's thread, after setmaxnreg
constexpr int CONSUMER_REGISTERS = 232;         // and of a consumer's: together no more than the block starts with

// Clusters
constexpr int CLUSTER_N = CLUSTER * BN;  // columns of C that a cluster computes
constexpr int PART_A = BM / CLUSTER;     // lines of a box of A that a block brings

// Shared memory
constexpr int LINE_A = 32;  // floats of a line of A's boxes, the span of the swizzle
constexpr int LINE_B = 32;  // floats of a line of B's boxes, the span of the swizzle
constexpr int CM = 32;      // rows of a piece: C leaves by pieces of a consumer's 64 columns
constexpr int CN = 32;      // columns of these in a line of shared memory
// a consumer's buffers: 2, in turns, for an even number of pieces
constexpr int C_STAGES = 1 + (MMAS_N * BM / CM % 2 == 0);

// How C leaves registers
constexpr int TM = CM / 4;  // rows of C that a thread has sums of, of a piece
constexpr int TN = 2;       // columns of C that a thread has sums of, of each instruction
constexpr int FM = 2;       // adjacent rows in a run
constexpr int FN = 2;       // adjacent columns in a run
constexpr int STEP_M = 8;   // rows from a run to the next
constexpr int STEP_N = 8;   // columns from a run to the next
constexpr int VC = 2;       // elements of an access to C

static_assert(BM <= 256, "a box of TMA has at most 256 elements along each dimension");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
static_assert(BN % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 columns at once");
static_assert(BM % 8 == 0, "wgmma's n, here rows of A, is a multiple of 8");
static_assert(BK % (2 * K_STEP) == 0, "two sets of fragments take turns");
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

// A thread's accumulators: its part of the 64 x 192 sums of an instruction, over the 128 threads of a warpgroup.
using Accumulators = float[MMAS_N][BM / 2];

// The ring of k tiles, C on its way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) float a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
    alignas(1024) float b[STAGES][BN * BK];  // boxes of lines of LINE_B elements, likewise
    alignas(1024) float c[CONSUMERS][C_STAGES][64 * CM];  // pieces of C
    unsigned long long full[STAGES];   // a stage's tiles have landed: consumers wait
    unsigned long long empty[STAGES];  // those that read them have: the producer waits
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
};
static_assert(sizeof(Shared) == 197632, "the launch asks for as much shared memory");

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

// Fragments of B that an instruction takes from this thread, for one step of k.
using Fragments = unsigned[MMAS_N][4];

// The first of the two neighbouring columns of B that this thread multiplies, of the 64 of an instruction. wgmma takes
// them as rows g and g + 8 of its warp's 16 (lane 4 g + t), but it does not matter which columns of B these are, as
// long as C's sums go to the same ones. This choice avoids bank conflicts: half a warp reads chunks of 16 bytes whose
// numbers differ in bits 0 and 2, so that neither loads of fragments, from four lines, nor stores of C, to every other
// one of eight lines, meet in a bank.
__device__ __forceinline__ int fragment_row()
{
    const int warp = threadIdx.x / 32 % 4, g = threadIdx.x % 32 / 4;
    const int chunk = (warp % 2 * 2 + g / 4) ^ (g / 2 % 2 * 5);
    return warp / 2 * 32 + chunk * 4 + g % 2 * 2;
}

// Row and column of this thread's first sum, of those that its warpgroup multiplies at once.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
    return {static_cast<int>(threadIdx.x) % 4 * 2, fragment_row()};
}

// The raster: where in C the tile of block `rank` lies, within the cluster's tile of this number. Consecutive numbers
// go down GROUP tile rows before the next tile column, so that blocks that run together read the same tiles of A and B
// from L2.
struct TileOrigin { int m, n; };

__device__ __forceinline__ TileOrigin tile_of_block(Shape s, int number, int rank)
{
    const int rows = (s.M + BM - 1) / BM, columns = (s.N + CLUSTER_N - 1) / CLUSTER_N;  // of tiles
    const int group = number / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = number % (GROUP * columns);
    return {(first + within % height) * BM, within / height * CLUSTER_N + rank * BN};
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

// Arrive at this barrier in block `rank` of the cluster, which must not have exited. The release is at block scope: it
// says that this thread's warpgroup has read a stage, and publishes nothing that the thread wrote.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank)
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cta.shared::cluster.b64 _, [there]; }"
                 ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}

// Which block of its cluster this is.
__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Wait for all threads of the cluster: what any did before, in shared memory of whichever block, is visible after.
__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
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

// tma_load_2d to all blocks of the cluster whose bit of `blocks` is set, 1 << rank: to where each has what is at `to`
// here, and its bytes count at the barrier that it has where `barrier` is here, which must expect them.
__device__ __forceinline__ void tma_load_multicast_2d(void* to, const TensorMap* map, unsigned long long* barrier,
                                                       int x, int y, unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%4, %5}], [%2], %3;"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "h"(blocks), "r"(x), "r"(y)
                 : "memory");
}

// Threads access shared memory by the generic proxy, TMA and wgmma by the async proxy. These see what a thread wrote
// only after its fence: each that wrote fences, then all meet at a barrier, and then a copy or a product may read it.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A __syncthreads for so many of the block's threads, whole warps, at barrier `number` of 1 to 15 (0 is that of all).
__device__ __forceinline__ void named_barrier_sync(int number, int threads)
{
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// All warps of a warpgroup set its registers to COUNT a thread: _dec returns the rest to the block's pool, _inc waits
// until the pool has enough. So the producer, which only starts copies, leaves its own to accumulators.
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }

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
// d += a * b, 64 x 192 x 8, by a warpgroup; d = a * b where it is told not to accumulate. In lane 4 g + t of warp w
// d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c; sums of f16 are two to a register. Behind b stand
// scale-d, then imm-scale-a and -b (1: not negated) and imm-trans-a and -b (1: MN-major), where the instruction has
// them.
__device__ __forceinline__ void wgmma_m64n192k8_tf32_rs(float (&d)[96], const unsigned (&a)[4], unsigned long long b)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
        "{%96, %97, %98, %99}, %100, p, 1, 1; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28), SUMS(32), SUMS(36), SUMS(40),
          SUMS(44), SUMS(48), SUMS(52), SUMS(56), SUMS(60), SUMS(64), SUMS(68), SUMS(72), SUMS(76), SUMS(80), SUMS(84),
          SUMS(88), SUMS(92)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#undef SUMS

// This thread's fragment of the 64 columns of B from `first` on in a tile: in lane 4 g + t two neighbours at k + t, and
// both at k + t + 4.
__device__ __forceinline__ void load_fragment(const float* tile, int first, int k, unsigned (&fragment)[4])
{
    const int row = fragment_row(), t = threadIdx.x % 4;
    const float* const lines = tile + ((first + row) / LINE_B * BK + k + t) * LINE_B;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        // of the eight, after which a swizzle repeats: it permutes chunks of four elements
        const int line = 4 * half + t;
        const Vec<2> two = load<2>(lines + 4 * half * LINE_B + ((row % LINE_B / 4) ^ line) * 4 + row % 4);
        fragment[2 * half] = __float_as_uint(two.at[0]);
        fragment[2 * half + 1] = __float_as_uint(two.at[1]);
    }
}

// acc += A * B for one step of k in a stage, the K_STEP from `k` on, and the MMAS_N * 64 columns of B from `first` on:
// in flight until wgmma_wait, as is what the products read, `fragments` among it.
__device__ __forceinline__ void multiply_step(const Shared& shared, int stage, int first, int k, Fragments& fragments,
                                              Accumulators& acc)
{
    const unsigned long long tile = make_descriptor<LINE_A * sizeof(float)>(shared.a[stage], 16,
                                                                            8 * LINE_A * sizeof(float))
                                                                            + k * sizeof(float) / 16;
    #pragma unroll
    for (int i = 0; i < MMAS_N; ++i) load_fragment(shared.b[stage], first + i * 64, k, fragments[i]);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < MMAS_N; ++i) wgmma_m64n192k8_tf32_rs(acc[i], fragments[i], tile);
    wgmma_commit();
}

// Tell the producers of all blocks of the cluster that this warpgroup has read a stage. A wgmma is the whole
// warpgroup's: one thread arrives for all, in each block.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    const unsigned rank = threadIdx.x % 128;  // of the block that this thread tells
    if (rank < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], rank);
}

// This thread's sums of a piece by rows of C, and by columns in each.
__device__ __forceinline__ void sums_of_piece(const float (&acc)[BM / 2], int piece, float (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j)
            sums[i][j] = acc[piece * CM / 2 + i / 2 * 4 + j * 2 + i % 2];
    }
}

// Where an element of a piece lies in shared memory, swizzled as TMA expects it: the number of its chunk of 16 bytes is
// XORed with its line's, so that the eight lines that a warp writes at once do not meet in a bank. Where a piece has
// several boxes, these lie one behind the other.
__device__ __forceinline__ int staged_at(int m, int n)
{
    return (n / CN * CM + m) * CN + ((n % CN / 4) ^ (m % 8)) * 4 + n % 4;
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
__device__ __forceinline__ void store_row(float* tile, Shape s, int rows, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], float alpha, float beta)
{
    const int m = thread.m + i / FM * STEP_M + i % FM;
    if (m >= rows) return;  // C has no such row
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
        store_results<VC>(tile + staged_at(m, n), value, beta);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(float* tile, Shape s, int rows, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, rows, thread, i, sums[i], alpha, beta);
}

}  // namespace

// Each stage of the ring goes from the producer to the consumers and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, MINB)
gemm_f32_tf32_rr_8192x8192x8192_sm90_739b6005(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, float alpha, float beta)
{
    extern __shared__ __align__(1024) unsigned char bytes[];  // the launch sets its size; above 48 KB the host opts in
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            // Full: the producer arrives, and the bytes. Empty: one thread of each consumer that reads it, in each
            // block.
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], CLUSTER * CONSUMERS);
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) mbarrier_init(&shared.c_loaded[consumer], 1);
        fence_mbarrier_init();
    }
    cluster_sync();  // other blocks arrive at these barriers, too
    grid_dependency_wait();  // the barriers are set up while the kernel before still runs
    launch_dependents();

    const Shape s{};
    const int rank = static_cast<int>(cluster_rank());  // the blocks of a cluster compute neighbouring tiles
    const int tiles = ((s.M + BM - 1) / BM) * ((s.N + CLUSTER_N - 1) / CLUSTER_N);  // of a matrix C
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x > CONSUMERS * 128) return;  // no __syncthreads follows
        for (int number = blockIdx.x / CLUSTER; number < tiles; number += gridDim.x / CLUSTER) {
            const TileOrigin tile = tile_of_block(s, number, rank);
            const int part = rank * PART_A;  // the first line of A that this block brings, to the whole cluster
            for (int k = 0; k < s.K; k += BK, ring.advance()) {
                mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // of the round before; the first passes
                unsigned long long* const full = &shared.full[ring.stage];
                // of all copies to this block
                mbarrier_arrive_expect_tx(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));
                tma_load_multicast_2d(shared.a[ring.stage] + part * LINE_A, &map_a, full, k, tile.m + part,
                                      (1 << CLUSTER) - 1);
                #pragma unroll
                for (int at = 0; at < BN; at += LINE_B)
                    tma_load_2d(shared.b[ring.stage] + at * BK, &map_b, full, tile.n + at, k);
            }
        }
        return;
    }

    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const ThreadOrigin thread = thread_origin();
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    for (int number = blockIdx.x / CLUSTER; number < tiles; number += gridDim.x / CLUSTER) {
        const TileOrigin tile = tile_of_block(s, number, rank);
        Accumulators acc = {};
        // of a step of k, and of the next one, which is loaded while the products of the first go on
        Fragments fragments[2];
        int previous = 0;  // the stage that products under way may still read
        for (int k = 0; k < s.K; k += BK, ring.advance()) {
            mbarrier_wait(&shared.full[ring.stage], ring.parity);
            #pragma unroll
            for (int step = 0; step < BK; step += K_STEP) {
                multiply_step(shared, ring.stage, consumer * MMAS_N * 64, step, fragments[step / K_STEP % 2], acc);
                wgmma_wait<1>();  // for the step before, which reads the other fragments
                if (step == 0 && k > 0) release_stage(shared, previous);
            }
            previous = ring.stage;
        }
        wgmma_wait<0>();
        release_stage(shared, previous);
        #pragma unroll
        for (int i = 0; i < MMAS_N; ++i) {
            #pragma unroll
            for (int piece = 0; piece < BM / CM; ++piece) {
                const int m = tile.m + piece * CM, n = tile.n + (consumer * MMAS_N + i) * 64;
                float sums[TM][TN];
                sums_of_piece(acc[i], piece, sums);
                float* const c = shared.c[consumer][(i * BM / CM + piece) % C_STAGES];
                if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read the piece that was there
                named_barrier_sync(1 + consumer, 128);
                if (beta != 0.0f) {  // else C is not read: it may be uninitialised
                    if (leads) {
                        mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * CM * sizeof(float));
                        for (int at = 0; at < 64; at += CN)
                            tma_load_2d(c + at * CM, &map_c, &shared.c_loaded[consumer], n + at, m);
                    }
                    mbarrier_wait(&shared.c_loaded[consumer], c_parity);
                    c_parity ^= 1;
                }
                store_c(c, s, s.M - m, thread, sums, alpha, beta);
                fence_proxy_async();
                named_barrier_sync(1 + consumer, 128);
                if (leads) {
                    for (int at = 0; at < 64; at += CN) tma_store_2d(&map_c, c + at * CM, n + at, m);
                    tma_store_commit();
                }
            }
        }
    }
    cluster_sync();  // no block exits while another may arrive at its barriers
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
