// gemm_f32_bf16x6_rr_4096x4096x4096_sm90_9b05fee0
//
//     C = alpha * A * B + beta * C      f32 on tensor cores, as --compute bf16x6 says;
//                                       C is read unless beta = 0, A and B always
//
//     A  4096 x 4096, row-major, lda = 4096
//     B  4096 x 4096, row-major, ldb = 4096
//     C  4096 x 4096, row-major, ldc = 4096
//
// Block   128 x 128 of C by 384 threads, in k tiles of 128
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 3 stages;
//         2 consumer warpgroups: 64 x 128 of C each by 8 wgmmas of 64 x 128 x 16 a k tile
// Pieces  A and B are each split into 3 of bf16: for 128 of K at a time
//         6 pairs of them are multiplied, small products first; sums are added in f32
// Error   results are as exact, element by element, as those of f32 on CUDA cores, Inf and NaN among them; what
//         overflows becomes Inf of either sign, or NaN; elements of A and B count to a multiple of 2^-133, which
//         takes bits from those below 2^-110
// Cluster 2 blocks, tiles beside each other: each lets TMA send its part of A to all of them
// Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered
//
// Launch  ceil(M / 128) * ceil(N / 256) * 2 blocks of 384 threads, 230400 bytes of dynamic shared memory
// Maps    map_a of prepared_a: boxes of 64 x 64 x 1 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_b of prepared_b: boxes of 64 x 128 x 1 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_c of C: boxes of 32 x 64 elements, swizzle of 128 bytes
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         prepared_a: 3 * 4096 * 4096 elements, which gemm_f32_bf16x6_rr_4096x4096x4096_sm90_9b05fee0_prepare_a_kernel
//         writes before: any grid, blocks of 256 threads,
//         prepared_b: 3 * 4096 * 4096 elements, which gemm_f32_bf16x6_rr_4096x4096x4096_sm90_9b05fee0_prepare_b_kernel
//         writes before: any grid, blocks of 256 threads,
//         no other launch using the same workspace at the same time
// Config  gemm_f32_bf16x6_rr_4096x4096x4096_wgmma_128x128x128_c2_k2x1_s3_f0_g8_p0
// Made by gemmgen generate 4096x4096x4096 --dtype f32 --compute bf16x6 --layout rr --arch sm_90 --family wgmma --set BK=128 --set CLUSTER=2 --set ACROSS=1 --set STAGES=3 --set PERSISTENT=0

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

// A CUtensorMap, which the host encodes (cuTensorMapEncodeTiled): a matrix in global memory, its boxes, their swizzle.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

struct Shape { static constexpr int M = 4096, N = 4096, K = 4096; };  // constants, which fold into the code

// Parameters
constexpr int BM = 128;       // rows of C that a block computes
constexpr int BN = 128;       // columns of C that a block computes
constexpr int BK = 128;       // depth of a k tile
constexpr int CONSUMERS = 2;  // warpgroups that multiply, each its rows of the block tile
constexpr int CLUSTER = 2;    // blocks of a cluster: each brings its part of an operand to all
constexpr int STAGES = 3;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least; without this bound ptxas ignores setmaxnreg
constexpr int K_STEP = 16;                      // k of an instruction
constexpr int PRODUCER_REGISTERS = 40;          // registers of a producer's thread, after setmaxnreg
constexpr int CONSUMER_REGISTERS = 232;         // and of a consumer's: together no more than the block starts with

// Clusters
constexpr int CLUSTER_N = CLUSTER * BN;  // columns of C that a cluster computes
constexpr int PART_A = BM / CLUSTER;     // lines of a box of A that a block brings

// Pieces
constexpr int INTERVAL = 128;  // k of which sums are added up in f32
constexpr int PAIRS = 6;       // of pieces whose products count

// Shared memory
constexpr int LINE_A = 64;                        // elements of a line of A's boxes, the span of the swizzle
constexpr int LINE_B = 64;                        // elements of a line of B's boxes, the span of the swizzle
constexpr int CN = 32;                            // columns of a piece: C leaves by pieces of a consumer's 64 rows
constexpr int C_STAGES = 1 + (BN / CN % 2 == 0);  // a consumer's buffers: 2, in turns, for an even number of pieces

static_assert(BM % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 rows at once");
static_assert(BM <= 256, "a box of TMA has at most 256 elements along each dimension");
static_assert(BN % 8 == 0 and BN <= 256, "wgmma's n is a multiple of 8, up to 256");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
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

// A thread's accumulators: its part of the 64 x 128 sums of an instruction, over the 128 threads of a warpgroup.
using Accumulators = float[BN / 2];
static_assert(BM == 64 * CONSUMERS, "a consumer multiplies 64 rows");

// The ring of k tiles, C on its way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) BF16 a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
    alignas(1024) BF16 b[STAGES][BN * BK];  // boxes of lines of LINE_B elements, likewise
    alignas(1024) float c[CONSUMERS][C_STAGES][64 * CN];  // pieces of C
    unsigned long long full[STAGES];   // a stage's tiles have landed: consumers wait
    unsigned long long empty[STAGES];  // those that read them have: the producer waits
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
};
static_assert(sizeof(Shared) == 230400, "the launch asks for as much shared memory");

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

// Start loading the box at (x, y, z), x along the contiguous dimension, to shared memory. Its bytes count at `barrier`,
// also those outside of the tensor, which become zeros.
__device__ __forceinline__ void tma_load_3d(void* to, const TensorMap* map, unsigned long long* barrier, int x, int y,
                                            int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z) : "memory");
}

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

// tma_load_3d to all blocks of the cluster whose bit of `blocks` is set, 1 << rank: to where each has what is at `to`
// here, and its bytes count at the barrier that it has where `barrier` is here, which must expect them.
__device__ __forceinline__ void tma_load_multicast_3d(void* to, const TensorMap* map, unsigned long long* barrier,
                                                       int x, int y, int z, unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%4, %5, %6}], [%2], %3;"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "h"(blocks), "r"(x), "r"(y), "r"(z)
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
// d += a * b, 64 x 128 x 16, by a warpgroup; d = a * b where it is told not to accumulate. In lane 4 g + t of warp w
// d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c; sums of f16 are two to a register. Behind b stand
// scale-d, then imm-scale-a and -b (1: not negated) and imm-trans-a and -b (1: MN-major), where the instruction has
// them.
__device__ __forceinline__ void wgmma_m64n128k16_bf16_trans_b(float (&d)[64], unsigned long long a,
                                                              unsigned long long b, bool accumulate)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 1; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28), SUMS(32), SUMS(36), SUMS(40),
          SUMS(44), SUMS(48), SUMS(52), SUMS(56), SUMS(60)
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
#undef SUMS

// x = at[0] + at[1] + at[2]: each piece is the nearest BF16 to what those before it leave.
struct Pieces {
    BF16 at[3];
};

// If x is not 0, neither is its first piece, else Inf times it would be NaN: for a tiny x that is the smallest BF16,
// which the second piece makes up for. Inf and NaN go to the last piece, which is multiplied by the other operand's
// first piece only.
__device__ __forceinline__ Pieces split(float x)
{
    // magnitudes of BF16
    const float largest = __uint_as_float(0x7f7f0000u), smallest = copysignf(__uint_as_float(0x00010000u), x);
    if (!isfinite(x)) return {BF16(smallest), BF16(0.0f), BF16(x)};
    BF16 first(fminf(fmaxf(x, -largest), largest));
    if (first == 0.0f && x != 0.0f) first = BF16(smallest);
    const float rest = x - first;
    const BF16 second(rest);
    return {first, second, BF16(rest - second)};
}

// The pieces of A and B that are multiplied, pair by pair: small products first, while the sum is small, too.
struct Pair {
    int a, b;
};

__device__ __forceinline__ Pair pair_of(int number)
{
    constexpr Pair pairs[PAIRS] = {{1, 1}, {0, 2}, {2, 0}, {0, 1}, {1, 0}, {0, 0}};
    return pairs[number];
}

// Sums the products of a stage's k tiles, for this warpgroup's rows of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first, bool adds, Accumulators& acc)
{
    const unsigned long long a = make_descriptor<LINE_A * sizeof(BF16)>(shared.a[stage] + first * LINE_A, 16,
                                                                        8 * LINE_A * sizeof(BF16));
    const unsigned long long b = make_descriptor<LINE_B * sizeof(BF16)>(shared.b[stage], BK * LINE_B * sizeof(BF16),
                                                                        8 * LINE_B * sizeof(BF16));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP)
        wgmma_m64n128k16_bf16_trans_b(acc, a + (k / LINE_A * LINE_A * BM + k % LINE_A) * sizeof(BF16) / 16,
                                      b + k * LINE_B * sizeof(BF16) / 16, adds || k > 0);
}

// Tell the producers of all blocks of the cluster that this warpgroup has read a stage. A wgmma is the whole
// warpgroup's: one thread arrives for all, in each block.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    const unsigned rank = threadIdx.x % 128;  // of the block that this thread tells
    if (rank < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], rank);
}

// Add sums of one k tile or some to totals, in f32 with rounding: tensor cores keep fewer bits.
__device__ __forceinline__ void promote(const Accumulators& acc, Accumulators& totals)
{
    #pragma unroll
    for (int r = 0; r < BN / 2; ++r) totals[r] += acc[r];
}

// Where an element of a piece lies in shared memory, swizzled as TMA expects it: the number of its chunk of 16 bytes is
// XORed with its line's, so that the eight lines that a warp writes at once do not meet in a bank. Where a piece has
// several boxes, these lie one behind the other.
__device__ __forceinline__ int staged_at(int m, int n)
{
    return m * CN + ((n / 4) ^ (m % 8)) * 4 + n % 4;
}

// Write alpha * acc + beta * C to the staged piece, of the first or `second` of this thread's two rows, 8 apart, in
// pairs of columns 8 apart. If beta is not 0, the old C is there already; else it is not read: it may be uninitialised.
__device__ __forceinline__ void stage_row(float* c, int row, int column, int second, const float (&acc)[BN / 2],
                                          int piece, float alpha, float beta)
{
    struct alignas(2 * sizeof(float)) PairOfC { float at[2]; };  // two neighbouring elements
    const int m = row + second * 8;
    #pragma unroll
    for (int j = 0; j < CN / 8; ++j) {
        const int n = column + j * 8, r = piece * CN / 2 + j * 4 + second * 2;
        float value[2] = {alpha * acc[r], alpha * acc[r + 1]};
        PairOfC& to = *reinterpret_cast<PairOfC*>(c + staged_at(m, n));
        if (beta != 0.0f) {
            const PairOfC old = to;
            for (int v = 0; v < 2; ++v) value[v] = fmaf(beta, old.at[v], value[v]);
        }
        to = {value[0], value[1]};
    }
}

}  // namespace

// 16 bytes of a line.
template <typename E>
struct alignas(16) Chunk {
    E at[16 / sizeof(E)];
};

// prepared_a = 3 pieces of A, a matrix each, one behind the other, with lines 4096 elements apart: whole chunks of 16
// bytes, with zeros behind a line's end.
extern "C" __global__ void __launch_bounds__(256)
gemm_f32_bf16x6_rr_4096x4096x4096_sm90_9b05fee0_prepare_a_kernel(
    const float* __restrict__ A, BF16* __restrict__ prepared_a)
{
    const int lines = 4096, length = 4096;  // of the copy
    const int chunks = (length + 7) / 8;
    const unsigned across = (length + 255u) / 256, down = (lines + 7u) / 8;
    const unsigned tiles = across * down;
    grid_dependency_wait();
    launch_dependents();
    const long long apart = static_cast<long long>(lines) * chunks;  // from a piece to the next, in chunks
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int line = static_cast<int>(tile / across) * 8 + static_cast<int>(threadIdx.x) / 32;
        const int chunk = static_cast<int>(tile % across) * 32 + static_cast<int>(threadIdx.x) % 32;
        if (line >= lines || chunk >= chunks) continue;
        const float* const from = A + static_cast<long long>(line) * 4096 + chunk * 8;
        Chunk<BF16> split_up[3];
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
            const auto read = load<4>(from + i);
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                const Pieces pieces = split(read.at[j]);
                #pragma unroll
                for (int p = 0; p < 3; ++p) split_up[p].at[i + j] = pieces.at[p];
            }
        }
        Chunk<BF16>* const to = reinterpret_cast<Chunk<BF16>*>(prepared_a) + static_cast<long long>(line) * chunks
            + chunk;
        #pragma unroll
        for (int p = 0; p < 3; ++p) to[p * apart] = split_up[p];
    }
}

// prepared_b = 3 pieces of B, a matrix each, one behind the other, with lines 4096 elements apart: whole chunks of 16
// bytes, with zeros behind a line's end.
extern "C" __global__ void __launch_bounds__(256)
gemm_f32_bf16x6_rr_4096x4096x4096_sm90_9b05fee0_prepare_b_kernel(
    const float* __restrict__ B, BF16* __restrict__ prepared_b)
{
    const int lines = 4096, length = 4096;  // of the copy
    const int chunks = (length + 7) / 8;
    const unsigned across = (length + 255u) / 256, down = (lines + 7u) / 8;
    const unsigned tiles = across * down;
    grid_dependency_wait();
    launch_dependents();
    const long long apart = static_cast<long long>(lines) * chunks;  // from a piece to the next, in chunks
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int line = static_cast<int>(tile / across) * 8 + static_cast<int>(threadIdx.x) / 32;
        const int chunk = static_cast<int>(tile % across) * 32 + static_cast<int>(threadIdx.x) % 32;
        if (line >= lines || chunk >= chunks) continue;
        const float* const from = B + static_cast<long long>(line) * 4096 + chunk * 8;
        Chunk<BF16> split_up[3];
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
            const auto read = load<4>(from + i);
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                const Pieces pieces = split(read.at[j]);
                #pragma unroll
                for (int p = 0; p < 3; ++p) split_up[p].at[i + j] = pieces.at[p];
            }
        }
        Chunk<BF16>* const to = reinterpret_cast<Chunk<BF16>*>(prepared_b) + static_cast<long long>(line) * chunks
            + chunk;
        #pragma unroll
        for (int p = 0; p < 3; ++p) to[p * apart] = split_up[p];
    }
}

// Each stage of the ring goes from the producer to the consumers and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, MINB)
gemm_f32_bf16x6_rr_4096x4096x4096_sm90_9b05fee0(
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
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x > CONSUMERS * 128) return;  // no __syncthreads follows
        const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / CLUSTER), rank);
        const int part = rank * PART_A;  // the first line of A that this block brings, to the whole cluster
        for (int first = 0; first < s.K; first += INTERVAL) {
            for (int i = 0; i < PAIRS; ++i) {
                const Pair pair = pair_of(i);
                for (int k = first; k < first + INTERVAL; k += BK, ring.advance()) {
                    mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // of the round before; the first passes
                    unsigned long long* const full = &shared.full[ring.stage];
                    // of all copies to this block
                    mbarrier_arrive_expect_tx(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));
                    #pragma unroll
                    for (int at = 0; at < BK; at += LINE_A)
                        tma_load_multicast_3d(shared.a[ring.stage] + at * BM + part * LINE_A, &map_a, full, k + at,
                                              tile.m + part, pair.a, (1 << CLUSTER) - 1);
                    #pragma unroll
                    for (int at = 0; at < BN; at += LINE_B)
                        tma_load_3d(shared.b[ring.stage] + at * BK, &map_b, full, tile.n + at, k, pair.b);
                }
            }
        }
        return;
    }

    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row = warp * 16 + lane / 4, column = lane % 4 * 2;  // of this thread's first sum, within a piece
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / CLUSTER), rank);
    Accumulators acc = {}, totals = {};
    for (int first = 0; first < s.K; first += INTERVAL) {
        for (int i = 0; i < PAIRS * INTERVAL / BK; ++i, ring.advance()) {
            mbarrier_wait(&shared.full[ring.stage], ring.parity);
            wgmma_fence();
            multiply_stage(shared, ring.stage, consumer * 64, i > 0, acc);
            wgmma_commit();
            wgmma_wait<0>();
            release_stage(shared, ring.stage);
        }
        promote(acc, totals);
    }
    #pragma unroll
    for (int piece = 0; piece < BN / CN; ++piece) {
        const int m = tile.m + consumer * 64, n = tile.n + piece * CN;
        float* const c = shared.c[consumer][piece % C_STAGES];
        if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read the piece that was there
        named_barrier_sync(1 + consumer, 128);
        if (beta != 0.0f) {  // else C is not read: it may be uninitialised
            if (leads) {
                mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * CN * sizeof(float));
                tma_load_2d(c, &map_c, &shared.c_loaded[consumer], n, m);
            }
            mbarrier_wait(&shared.c_loaded[consumer], c_parity);
            c_parity ^= 1;
        }
        #pragma unroll
        for (int second = 0; second < 2; ++second) stage_row(c, row, column, second, totals, piece, alpha, beta);
        fence_proxy_async();
        named_barrier_sync(1 + consumer, 128);
        if (leads) {
            tma_store_2d(&map_c, c, n, m);
            tma_store_commit();
        }
    }
    cluster_sync();  // no block exits while another may arrive at its barriers
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
