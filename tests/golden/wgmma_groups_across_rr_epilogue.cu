// gemm_bf16_rr_Mx1536x1024_bias_gelu_residual_sm90_a0177ff5
//
//     C = gelu(alpha * acc + beta * C + bias_n) + residual      acc = A * B; bf16; sums in f32 on tensor cores;
//                                                               C is read unless beta = 0, A and B always
//     64 groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]; further rows stay as they are
//
//     A  M x 1024, row-major, lda = 1024
//     B  1024 x 1536, row-major, ldb = 1536, stride_b = 1572864
//     C  M x 1536, row-major, ldc = 1536
//     residual  M x 1536, row-major, ld_residual = 1536
//     offs  64 elements: ends of the groups of rows
//     bias_n  64 x 1536, row-major, a row for each group
//
// Block   128 x 128 of C by 384 threads, in k tiles of 64; persistent: cluster c of n computes tiles c, c + n, ...
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 4 stages;
//         2 consumer warpgroups: 128 x 128 of C each by 8 wgmmas of 64 x 128 x 16 a k tile
//         in turns: while one stores its tile of C, another multiplies the block's next one
// Cluster 2 blocks, tiles beside each other: each lets TMA send its part of A to all of them
// Groups  no tile has rows of two groups: each warp finds its block's tiles from the ends in offs
//         rows of tiles: at most min(M, 64), one per group with rows, and one more per 128 further rows
//         boxes of A at a group's end bring rows behind it, too: these are multiplied, and not stored
// Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered
//         a piece in which a group ends is stored by threads, without the rows behind the group
//
// Launch  up to (min(M, 64) + max(M - 64, 0) / 128) * ceil(N / 256) * 2 blocks of 384 threads, 164864 bytes of dynamic
//         shared memory
// Maps    map_a of A: boxes of 64 x 64 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_b of B: boxes of 64 x 64 x 1 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_c of C: boxes of 64 x 64 elements, swizzle of 128 bytes
// Expects A, B, C, offs, bias_n and residual at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above M
// Config  gemm_bf16_rr_Mx1536x1024_g64_bias_gelu_residual_wgmma_128x128x64_c2_k2x1_s4_f1_g8_p1_o1_whole1
// Made by gemmgen generate '?x1536x1024' --dtype bf16 --inputs groups=64 --layout rr --epilogue 'gelu(alpha * acc + beta * C + bias_n) + residual' --arch sm_90 --family wgmma --set BN=128 --set CLUSTER=2 --set ACROSS=1 --set PINGPONG=1 --set WHOLE=1

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

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 1536;
    static constexpr int K = 1024;
    static constexpr int ldc = 1536;
    static constexpr int ld_residual = 1536;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 128;       // rows of C that a block computes
constexpr int BN = 128;       // columns of C that a block computes
constexpr int BK = 64;        // depth of a k tile
constexpr int CONSUMERS = 2;  // warpgroups that multiply in turns, each a block tile of its own
constexpr int CLUSTER = 2;    // blocks of a cluster: each brings its part of an operand to all
constexpr int STAGES = 4;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least; without this bound ptxas ignores setmaxnreg
constexpr int K_STEP = 16;                      // k of an instruction
constexpr int MMAS_M = BM / 64;                 // instructions down a consumer's tile
constexpr int PRODUCER_REGISTERS = 40;          // registers of a producer's thread, after setmaxnreg
constexpr int CONSUMER_REGISTERS = 232;         // and of a consumer's: together no more than the block starts with

// Clusters
constexpr int CLUSTER_N = CLUSTER * BN;  // columns of C that a cluster computes
constexpr int PART_A = BM / CLUSTER;     // lines of a box of A that a block brings

// Groups
constexpr int GROUPS = 64;  // groups of rows, each with its own B; some may be empty

// Shared memory
constexpr int LINE_A = 64;  // elements of a line of A's boxes, the span of the swizzle
constexpr int LINE_B = 64;  // elements of a line of B's boxes, the span of the swizzle
constexpr int CN = 64;      // columns of a piece: C leaves by pieces of a consumer's 64 rows
// a consumer's buffers: 2, in turns, for an even number of pieces
constexpr int C_STAGES = 1 + (MMAS_M * BN / CN % 2 == 0);

// How C leaves registers
constexpr int TM = 2;       // rows of C that a thread has sums of, of each instruction
constexpr int TN = CN / 4;  // columns of C that a thread has sums of, of a piece
constexpr int FM = 1;       // adjacent rows in a run
constexpr int FN = 2;       // adjacent columns in a run
constexpr int STEP_M = 8;   // rows from a run to the next
constexpr int STEP_N = 8;   // columns from a run to the next
constexpr int VC = 2;       // elements of an access to C

static_assert(BM % 64 == 0, "a warpgroup multiplies 64 rows at once");
static_assert(BM <= 256, "a box of TMA has at most 256 elements along each dimension");
static_assert(BN % 8 == 0 and BN <= 256, "wgmma's n is a multiple of 8, up to 256");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
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

// A thread's accumulators: its part of the 64 x 128 sums of an instruction, over the 128 threads of a warpgroup.
using Accumulators = float[MMAS_M][BN / 2];

// The ring of k tiles, C on its way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) BF16 a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
    alignas(1024) BF16 b[STAGES][BN * BK];  // boxes of lines of LINE_B elements, likewise
    alignas(1024) BF16 c[CONSUMERS][C_STAGES][64 * CN];  // pieces of C
    unsigned long long full[STAGES];   // a stage's tiles have landed: consumers wait
    unsigned long long empty[STAGES];  // those that read them have: the producer waits
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
};
static_assert(sizeof(Shared) == 164864, "the launch asks for as much shared memory");

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
    // Past so many k tiles at once: those of the other consumers.
    __device__ __forceinline__ void advance(int stages)
    {
        parity ^= (stage + stages) / STAGES % 2;
        stage = (stage + stages) % STAGES;
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

// Where in C a tile begins, its group, and the row where the group ends.
struct TileOrigin { int m, n, group, end; };

__device__ __forceinline__ int tiles_of_rows(int rows, Shape s)
{
    return (rows + BM - 1) / BM * ((s.N + CLUSTER_N - 1) / CLUSTER_N);
}

// A lane's value in all lanes of the warp.
__device__ __forceinline__ int of_lane(int value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }

// Up to 32 groups of rows, one per lane of a warp. All lanes of the warp call these functions together.
struct Groups {
    int begin, end;  // rows of this lane's group
    int tiles;       // of the groups of lanes 0 to this one: a prefix sum
    int first = 0;   // lane 0's group
    int before = 0;  // tiles of the groups before it

    // The row where a group ends. Groups behind the last one are empty and end there, too.
    __device__ __forceinline__ static int end_of(const int* offs, int group)
    {
        return group < 0 ? 0 : offs[min(group, GROUPS - 1)];
    }

    __device__ __forceinline__ void load(const int* offs, Shape s)
    {
        const int lane = threadIdx.x % 32, group = first + lane;
        begin = end_of(offs, group - 1);
        end = end_of(offs, group);
        tiles = tiles_of_rows(end - begin, s);
        #pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int below = __shfl_up_sync(0xffffffffu, tiles, distance);
            if (lane >= distance) tiles += below;
        }
    }

    // Loads the first groups; returns the number of tiles of all groups.
    __device__ __forceinline__ int start(const int* offs, Shape s)
    {
        load(offs, s);
        int all = 0;
        for (int i = 0; i < GROUPS; i += 32) {
            const int group = i + static_cast<int>(threadIdx.x) % 32;
            all += tiles_of_rows(end_of(offs, group) - end_of(offs, group - 1), s);
        }
        #pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) all += __shfl_xor_sync(0xffffffffu, all, distance);
        return of_lane(all, 0);  // already in all lanes, but now the compiler knows: loops over tiles stay uniform
    }

    // The tile with this number, which exists and is no less than at the last call. The tiles of a group go down GROUP
    // tile rows before the next tile column, so that blocks that run together read the same tiles of A and B from L2.
    __device__ __forceinline__ TileOrigin find(const int* offs, Shape s, int number, int rank)
    {
        number -= before;
        unsigned ends;  // a bit per lane: the tile is in its group or in one before
        while ((ends = __ballot_sync(0xffffffffu, tiles > number)) == 0) {
            const int all = of_lane(tiles, 31);
            number -= all;
            before += all;
            first += 32;
            load(offs, s);
        }
        const int lane = __ffs(ends) - 1;  // the first of these lanes has the tile's group
        const int from = of_lane(begin, lane), to = of_lane(end, lane);
        number -= of_lane(tiles, lane) - tiles_of_rows(to - from, s);

        const int rows = (to - from + BM - 1) / BM, columns = (s.N + CLUSTER_N - 1) / CLUSTER_N;  // of tiles
        const int above = number / (GROUP * columns) * GROUP;
        const int height = min(GROUP, rows - above);  // the last of these tile rows may be fewer
        const int within = number % (GROUP * columns);
        return {from + (above + within % height) * BM, within / height * CLUSTER_N + rank * BN, first + lane, to};
    }
};

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

// Start loading the box at (x, y, z), x along the contiguous dimension, to shared memory. Its bytes count at `barrier`,
// also those outside of the tensor, which become zeros.
__device__ __forceinline__ void tma_load_3d(void* to, const TensorMap* map, unsigned long long* barrier, int x, int y,
                                            int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z) : "memory");
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

// Arrive at that barrier without waiting.
__device__ __forceinline__ void named_barrier_arrive(int number, int threads)
{
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
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
                                                              unsigned long long b)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 1; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28), SUMS(32), SUMS(36), SUMS(40),
          SUMS(44), SUMS(48), SUMS(52), SUMS(56), SUMS(60)
        : "l"(a), "l"(b));
}
#undef SUMS

// Sums the products of a stage's k tiles, for this warpgroup's rows of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, Accumulators& acc)
{
    const unsigned long long a = make_descriptor<LINE_A * sizeof(BF16)>(shared.a[stage], 16, 8 * LINE_A * sizeof(BF16));
    const unsigned long long b = make_descriptor<LINE_B * sizeof(BF16)>(shared.b[stage], BK * LINE_B * sizeof(BF16),
                                                                        8 * LINE_B * sizeof(BF16));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i)
            wgmma_m64n128k16_bf16_trans_b(acc[i], a + i * 64 * LINE_A * sizeof(BF16) / 16 + k * sizeof(BF16) / 16,
                                          b + k * LINE_B * sizeof(BF16) / 16);
    }
}

// Tell the producers of all blocks of the cluster that this warpgroup has read a stage. A wgmma is the whole
// warpgroup's: one thread arrives for all, in each block.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    const unsigned rank = threadIdx.x % 128;  // of the block that this thread tells
    if (rank < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], rank);
}

// This thread's sums of a piece by rows of C, and by columns in each.
__device__ __forceinline__ void sums_of_piece(const float (&acc)[BN / 2], int piece, float (&sums)[TM][TN])
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
    return m * CN + ((n / 8) ^ (m % 8)) * 8 + n % 8;
}

// Store the first `rows` rows of a staged piece, which has more, and of these the first `columns` elements. `to` is
// where the piece begins in C.
__device__ __forceinline__ void store_rows(BF16* to, Shape s, int rows, int columns, const BF16* piece)
{
    constexpr int CHUNK = 16 / sizeof(BF16), CHUNKS = CN / CHUNK;  // elements of a chunk; chunks of a row
    #pragma unroll
    for (int first = 0; first < 64 * CHUNKS; first += 128) {
        const int i = first + static_cast<int>(threadIdx.x) % 128;
        const int m = i / CHUNKS, n = i % CHUNKS * CHUNK;
        if (m < rows && n < columns)
            *reinterpret_cast<uint4*>(to + Offset(m) * s.ldc + n) =
                *reinterpret_cast<const uint4*>(piece + staged_at(m, n));
    }
}

// Load the old elements of the same rows of C to the staged piece; its other elements become zero.
__device__ __forceinline__ void load_rows(const BF16* from, Shape s, int rows, int columns, BF16* piece)
{
    constexpr int CHUNK = 16 / sizeof(BF16), CHUNKS = CN / CHUNK;  // elements of a chunk; chunks of a row
    #pragma unroll
    for (int first = 0; first < 64 * CHUNKS; first += 128) {
        const int i = first + static_cast<int>(threadIdx.x) % 128;
        const int m = i / CHUNKS, n = i % CHUNKS * CHUNK;
        const bool exists = m < rows && n < columns;
        *reinterpret_cast<uint4*>(piece + staged_at(m, n)) = exists
            ? *reinterpret_cast<const uint4*>(from + Offset(m) * s.ldc + n) : uint4{};
    }
}

// 2^x, off by 2^-22 of it at most.
__device__ __forceinline__ float exp2_approx(float x)
{
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}

// The lesser; NaN if one is.
__device__ __forceinline__ float min_or_nan(float a, float b)
{
    float value;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}

// x * Phi(x), of the normal distribution Phi: max(x, 0) - |x| * Phi(-|x|), off by 2^-17 of x at most: a 256th of a
// rounding to bf16, a 32nd of one to f16.
__device__ __forceinline__ float gelu(float x)
{
    const float t = min_or_nan(fabsf(x), 8.0f);  // of infinity, too, 2^p is a number
    float p = 0.004707857f;  // log2(Phi(-t)), fitted where Phi(-t) counts beside 1
    p = fmaf(p, t, -0.04798701f);
    p = fmaf(p, t, -0.46222025f);
    p = fmaf(p, t, -1.1504672f);
    p = fmaf(p, t, -1.0000197f);
    return fmaf(-t, exp2_approx(p), fmaxf(x, 0.0f));
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    float alpha, beta;
    const float* bias_n;
    const float* residual;
};

// C's new element; c is the old one, or 0 where beta = 0:
// gelu(alpha * acc + beta * C + bias_n) + residual
__device__ __forceinline__ float epilogue(const Epilogue& e, Shape s, int m, int n, float acc, float c)
{
    const float bias_n = e.bias_n[n];
    const float residual = e.residual[Offset(m) * s.ld_residual + n];
    const float x = fmaf(e.alpha, acc, e.beta == 0.0f ? bias_n : fmaf(e.beta, c, bias_n));
    return gelu(x) + residual;
}

// N new elements of C.
template <int N>
__device__ __forceinline__ Vec<BF16, N> results(const BF16* from, const Epilogue& e, Shape s, int m, int n, Vec<float,
                                                N> value)
{
    Vec<BF16, N> old = {};
    if (e.beta != 0.0f) old = load<N>(from);  // else C is not read: it may be uninitialised
    Vec<BF16, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = BF16(epilogue(e, s, m, n + i, value.at[i], old.at[i]));
    return stored;
}

// This thread's elements of a piece. All are computed before the first is stored, so that no load waits for a store.
__device__ __forceinline__ void store_c(BF16* tile, Shape s, int rows, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], const Epilogue& e)
{
    Vec<BF16, VC> stored[TM][TN / VC];
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = thread.m + i / FM * STEP_M + i % FM;
        #pragma unroll
        for (int j = 0; j < TN; j += VC) {
            const int n = thread.n + j / FN * STEP_N + j % FN;
            Vec<float, VC> value;
            #pragma unroll
            for (int v = 0; v < VC; ++v) value.at[v] = sums[i][j + v];
            stored[i][j / VC] = results<VC>(tile + staged_at(m, n), e, s, min(m, rows - 1), n, value);
        }
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = thread.m + i / FM * STEP_M + i % FM;
        #pragma unroll
        for (int j = 0; j < TN; j += VC) {
            const int n = thread.n + j / FN * STEP_N + j % FN;
            store<VC>(tile + staged_at(m, n), stored[i][j / VC]);
        }
    }
}

}  // namespace

// Each stage of the ring goes from the producer to a consumer and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  in its turn waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, MINB)
gemm_bf16_rr_Mx1536x1024_bias_gelu_residual_sm90_a0177ff5(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, BF16* __restrict__ C, const int* __restrict__ offs,
    const float* __restrict__ bias_n, const float* __restrict__ residual, int M, float alpha, float beta)
{
    extern __shared__ __align__(1024) unsigned char bytes[];  // the launch sets its size; above 48 KB the host opts in
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            // Full: the producer arrives, and the bytes. Empty: one thread of each consumer that reads it, in each
            // block.
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], CLUSTER);
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) mbarrier_init(&shared.c_loaded[consumer], 1);
        fence_mbarrier_init();
    }
    cluster_sync();  // other blocks arrive at these barriers, too
    grid_dependency_wait();  // the barriers are set up while the kernel before still runs
    launch_dependents();

    const Shape s{M};
    const int rank = static_cast<int>(cluster_rank());  // the blocks of a cluster compute neighbouring tiles
    Groups groups;
    const int tiles = groups.start(offs, s);  // of all groups
    const int k_tiles = (s.K + BK - 1) / BK;  // of a tile of C
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x / 32 > CONSUMERS * 4) return;  // no __syncthreads follows
        const bool loads = threadIdx.x % 32 == 0;
        for (int number = blockIdx.x / CLUSTER; number < tiles; number += gridDim.x / CLUSTER) {
            const TileOrigin tile = groups.find(offs, s, number, rank);
            if (!loads) continue;  // to find the next tile with the other lanes
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
                    tma_load_3d(shared.b[ring.stage] + at * BK, &map_b, full, tile.n + at, k, tile.group);
            }
        }
        return;
    }

    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const ThreadOrigin thread = thread_origin();
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    const int begin = blockIdx.x / CLUSTER, step = gridDim.x / CLUSTER;  // of the block's tiles
    ring.advance(consumer * k_tiles);
    for (int number = begin + consumer * step; number < tiles; number += CONSUMERS * step) {
        // Consumers multiply in turns. Out of turn one could wait for a phase two later than the barrier's, and parity
        // does not tell these apart.
        if (number != begin) named_barrier_sync(1 + CONSUMERS + consumer, 256);
        const TileOrigin tile = groups.find(offs, s, number, rank);
        Accumulators acc = {};
        int previous = 0;  // the stage that products under way may still read
        for (int k = 0; k < s.K; k += BK, ring.advance()) {
            mbarrier_wait(&shared.full[ring.stage], ring.parity);
            wgmma_fence();
            multiply_stage(shared, ring.stage, acc);
            wgmma_commit();
            wgmma_wait<1>();  // for the products of the k tile before
            if (k > 0) release_stage(shared, previous);
            previous = ring.stage;
        }
        // it is the next one's turn
        if (number < tiles - step) named_barrier_arrive(1 + CONSUMERS + (consumer + 1) % CONSUMERS, 256);
        wgmma_wait<0>();
        release_stage(shared, previous);
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i) {
            #pragma unroll
            for (int piece = 0; piece < BN / CN; ++piece) {
                const int m = tile.m + i * 64, n = tile.n + piece * CN;
                float sums[TM][TN];
                sums_of_piece(acc[i], piece, sums);
                BF16* const c = shared.c[consumer][(i * BN / CN + piece) % C_STAGES];
                if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read the piece that was there
                named_barrier_sync(1 + consumer, 128);
                if (beta != 0.0f) {  // else C is not read: it may be uninitialised
                    if (m + 64 <= tile.end) {
                        if (leads) {
                            mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * CN * sizeof(BF16));
                            tma_load_2d(c, &map_c, &shared.c_loaded[consumer], n, m);
                        }
                        mbarrier_wait(&shared.c_loaded[consumer], c_parity);
                        c_parity ^= 1;
                    } else {
                        load_rows(C + Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
                        named_barrier_sync(1 + consumer, 128);
                    }
                }
                const Epilogue e = {alpha, beta, bias_n + n + static_cast<long long>(tile.group) * s.N,
                                    residual + Offset(m) * s.ld_residual + n};
                store_c(c, s, tile.end - m, thread, sums, e);
                fence_proxy_async();
                named_barrier_sync(1 + consumer, 128);
                if (m + 64 > tile.end) store_rows(C + Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
                else if (leads) tma_store_2d(&map_c, c, n, m);
                if (leads) tma_store_commit();  // also of a piece that threads store: tma_store_wait_read counts pieces
            }
        }
        ring.advance((CONSUMERS - 1) * k_tiles);
    }
    cluster_sync();  // no block exits while another may arrive at its barriers
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
