// gemm_e4m3e4m3bf16_promoted_rc_Mx4096x7168_sm90_eca43474
//
//     C = alpha * A * B + beta * C      A e4m3, B e4m3, C bf16;
//                                       sums in f32 on tensor cores, as --compute promoted says;
//                                       C is read unless beta = 0, A and B always
//     256 groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]; further rows stay as they are
//
//     A  M x 7168, row-major, lda = 7168
//     B  7168 x 4096, column-major, ldb = 7168, stride_b = 29360128
//     C  M x 4096, row-major, ldc = 4096
//     offs  256 elements: ends of the groups of rows
//     scales_a  56 x M, row-major, rows ceil(M / 4) * 4 apart: a scale for each 128 along K of a row of A
//     scales_b  256 x 32 x 56, row-major: a scale for each 128 x 128 of B
//
// Block   128 x 96 of C by 384 threads, in k tiles of 128; persistent: block b computes tiles b, b + gridDim.x, ...
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 4 stages;
//         2 consumer warpgroups: 64 x 96 of C each by 4 wgmmas of 64 x 96 x 32 a k tile
// Sums    tensor cores add up 128 products, to 13 bits behind a sum's first; such sums are added in f32
// Scales  a k tile is a block of K: its sums are multiplied by both scales as they are added
// Groups  no tile has rows of two groups: each warp finds its block's tiles from the ends in offs
//         rows of tiles: at most min(M, 256), one per group with rows, and one more per 128 further rows
//         boxes of A at a group's end bring rows behind it, too: these are multiplied, and not stored
// Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered
//         a piece in which a group ends is stored by threads, without the rows behind the group
//
// Launch  up to (min(M, 256) + max(M - 256, 0) / 128) * ceil(N / 96) blocks of 384 threads, 123904 bytes of dynamic
//         shared memory
// Maps    map_a of A: boxes of 128 x 128 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_b of B: boxes of 128 x 96 x 1 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_c of C: boxes of 32 x 64 elements, swizzle of 64 bytes
// Expects A, B, C, offs, scales_a and scales_b at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above M
// Config  gemm_e4m3e4m3bf16_promoted_rc_Mx4096x7168_g256_blocks_padded_wgmma_128x96x128_c2_k1x0_s4_f1_g8_p1
// Made by gemmgen generate '?x4096x7168' --types e4m3,e4m3,bf16 --compute promoted --inputs groups=256+blocks+padded --layout rc --arch sm_90 --family wgmma --set BN=96

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

// An 8-bit float of 4 bits of exponent and 3 of fraction.
struct E4M3 {
    unsigned char bits;
};

// A CUtensorMap, which the host encodes (cuTensorMapEncodeTiled): a matrix in global memory, its boxes, their swizzle.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 4096;
    static constexpr int K = 7168;
    static constexpr int ldc = 4096;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 128;       // rows of C that a block computes
constexpr int BN = 96;        // columns of C that a block computes
constexpr int BK = 128;       // depth of a k tile
constexpr int CONSUMERS = 2;  // warpgroups that multiply, each its rows of the block tile
constexpr int STAGES = 4;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least; without this bound ptxas ignores setmaxnreg
constexpr int K_STEP = 32;                      // k of an instruction
constexpr int MMAS_M = BM / (64 * CONSUMERS);   // instructions down a consumer's tile
constexpr int PRODUCER_REGISTERS = 40;          // registers of a producer's thread, after setmaxnreg
constexpr int CONSUMER_REGISTERS = 232;         // and of a consumer's: together no more than the block starts with

// Groups
constexpr int GROUPS = 256;  // groups of rows, each with its own B; some may be empty

// Shared memory
constexpr int LINE_A = 128;  // elements of a line of A's boxes, the span of the swizzle
constexpr int LINE_B = 128;  // elements of a line of B's boxes, the span of the swizzle
constexpr int CN = 32;       // columns of a piece: C leaves by pieces of a consumer's 64 rows
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

static_assert(BM % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 rows at once");
static_assert(BM <= 256, "a box of TMA has at most 256 elements along each dimension");
static_assert(BN % 8 == 0 and BN <= 256, "wgmma's n is a multiple of 8, up to 256");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");

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

// A thread's accumulators: its part of the 64 x 96 sums of an instruction, over the 128 threads of a warpgroup.
using Accumulators = float[MMAS_M][BN / 2];

// The ring of k tiles, C on its way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) E4M3 a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
    alignas(1024) E4M3 b[STAGES][BN * BK];  // boxes of lines of LINE_B elements, likewise
    alignas(1024) BF16 c[CONSUMERS][C_STAGES][64 * CN];  // pieces of C
    unsigned long long full[STAGES];   // a stage's tiles have landed: consumers wait
    unsigned long long empty[STAGES];  // those that read them have: the producer waits
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
};
static_assert(sizeof(Shared) == 123904, "the launch asks for as much shared memory");

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

// Where in C a tile begins, its group, and the row where the group ends.
struct TileOrigin { int m, n, group, end; };

__device__ __forceinline__ int tiles_of_rows(int rows, Shape s)
{
    return (rows + BM - 1) / BM * ((s.N + BN - 1) / BN);
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
    __device__ __forceinline__ TileOrigin find(const int* offs, Shape s, int number)
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

        const int rows = (to - from + BM - 1) / BM, columns = (s.N + BN - 1) / BN;  // of tiles
        const int above = number / (GROUP * columns) * GROUP;
        const int height = min(GROUP, rows - above);  // the last of these tile rows may be fewer
        const int within = number % (GROUP * columns);
        return {from + (above + within % height) * BM, within / height * BN, first + lane, to};
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
// d += a * b, 64 x 96 x 32, by a warpgroup; d = a * b where it is told not to accumulate. In lane 4 g + t of warp w
// d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c; sums of f16 are two to a register. Behind b stand
// scale-d, then imm-scale-a and -b (1: not negated) and imm-trans-a and -b (1: MN-major), where the instruction has
// them.
__device__ __forceinline__ void wgmma_m64n96k32_e4m3(float (&d)[48], unsigned long long a, unsigned long long b,
                                                     bool accumulate)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %50, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n96k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
        "%48, %49, p, 1, 1; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28), SUMS(32), SUMS(36), SUMS(40),
          SUMS(44)
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
#undef SUMS

// Sums the products of a stage's k tiles, for this warpgroup's rows of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first, Accumulators& acc)
{
    const unsigned long long a = make_descriptor<LINE_A * sizeof(E4M3)>(shared.a[stage] + first * LINE_A, 16,
                                                                        8 * LINE_A * sizeof(E4M3));
    const unsigned long long b = make_descriptor<LINE_B * sizeof(E4M3)>(shared.b[stage], 16, 8 * LINE_B * sizeof(E4M3));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i)
            wgmma_m64n96k32_e4m3(acc[i], a + i * 64 * LINE_A * sizeof(E4M3) / 16 + k * sizeof(E4M3) / 16,
                                 b + k * sizeof(E4M3) / 16, k > 0);
    }
}

// Tell the producer that this warpgroup has read a stage. A wgmma is the whole warpgroup's: one thread arrives for all.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
}

// Scales of a k tile for the sums of this thread (lane 4 g + t): of A's 1 x 128, for two rows of each instruction, g
// and g + 8 of a warp's 16; of B's 128 x 128, for the tile's first `columns` and for those behind, which lie in the
// next block.
struct BlockScales {
    float rows[MMAS_M][2], of_b, of_b_behind;
    int columns;
};

__device__ __forceinline__ void load_scales(const float* scales_a, const float* scales_b, Shape s, TileOrigin tile,
                                            int first, int k, BlockScales& scales)
{
    const int block = k / 128, row = tile.m + first + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    scales_b += static_cast<long long>(tile.group) * ((s.K + 127) / 128) * ((s.N + 127) / 128);
    const int blocks = (s.K + 127) / 128, first_of_b = tile.n / 128, last_of_b = (s.N - 1) / 128;
    scales.of_b = scales_b[static_cast<long long>(first_of_b) * blocks + block];
    scales.of_b_behind = scales_b[static_cast<long long>(min(first_of_b + 1, last_of_b)) * blocks + block];
    scales.columns = 128 - tile.n % 128;
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int m = row + i * 64 + half * 8;
            scales.rows[i][half] = m < s.M ? scales_a[static_cast<long long>(block) * ((s.M + 3) / 4 * 4) + m] : 0.0f;
        }
    }
}

// Add sums of a k tile, times the product of their scales, to totals.
__device__ __forceinline__ void promote(const Accumulators& acc, const BlockScales& scales, Accumulators& totals)
{
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int r = 0; r < BN / 2; ++r)
            totals[i][r] =
                fmaf(scales.rows[i][r / 2 % 2] * (r / 4 * 8 < scales.columns ? scales.of_b : scales.of_b_behind),
                     acc[i][r], totals[i][r]);
    }
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
    constexpr int CHUNK = 16 / sizeof(BF16), CHUNKS = CN / CHUNK;  // elements of one; chunks of a line
    return m * CN + ((n / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
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

// The first `valid` of N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_edge(BF16* to, Vec<float, N> value, float beta, int valid)
{
    if (valid >= N) {
        if (beta != 0.0f) {
            const Vec<BF16, N> old = load<N>(to);
            #pragma unroll
            for (int i = 0; i < N; ++i) value.at[i] = fmaf(beta, old.at[i], value.at[i]);
        }
        Vec<BF16, N> stored;
        #pragma unroll
        for (int i = 0; i < N; ++i) stored.at[i] = BF16(value.at[i]);
        store<N>(to, stored);
        return;
    }
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) to[i] = BF16(beta == 0.0f ? value.at[i] : fmaf(beta, to[i], value.at[i]));
    }
}

// C = alpha * sums + beta * C in the i-th of this thread's rows, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(BF16* tile, Shape s, int rows, int columns, ThreadOrigin thread, int i,
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
        store_edge<VC>(tile + staged_at(m, n), value, beta, columns - n);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(BF16* tile, Shape s, int rows, int columns, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, rows, columns, thread, i, sums[i], alpha, beta);
}

}  // namespace

// Each stage of the ring goes from the producer to the consumers and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_e4m3e4m3bf16_promoted_rc_Mx4096x7168_sm90_eca43474(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, BF16* __restrict__ C, const int* __restrict__ offs,
    const float* __restrict__ scales_a, const float* __restrict__ scales_b, int M, float alpha, float beta)
{
    extern __shared__ __align__(1024) unsigned char bytes[];  // the launch sets its size; above 48 KB the host opts in
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            // Full: the producer arrives, and the bytes. Empty: one thread of each consumer that reads it.
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], CONSUMERS);
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) mbarrier_init(&shared.c_loaded[consumer], 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    grid_dependency_wait();  // the barriers are set up while the kernel before still runs
    launch_dependents();

    const Shape s{M};
    Groups groups;
    const int tiles = groups.start(offs, s);  // of all groups
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x / 32 > CONSUMERS * 4) return;  // no __syncthreads follows
        const bool loads = threadIdx.x % 32 == 0;
        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
            const TileOrigin tile = groups.find(offs, s, number);
            if (!loads) continue;  // to find the next tile with the other lanes
            for (int k = 0; k < s.K; k += BK, ring.advance()) {
                mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // of the round before; the first passes
                unsigned long long* const full = &shared.full[ring.stage];
                // of all copies to this block
                mbarrier_arrive_expect_tx(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));
                tma_load_2d(shared.a[ring.stage], &map_a, full, k, tile.m);
                tma_load_3d(shared.b[ring.stage], &map_b, full, k, tile.n, tile.group);
            }
        }
        return;
    }

    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const ThreadOrigin thread = thread_origin();
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const TileOrigin tile = groups.find(offs, s, number);
        if (tile.m + consumer * MMAS_M * 64 >= tile.end) {  // the group has none of this consumer's rows
            #pragma unroll 1
            for (int k = 0; k < s.K; k += BK, ring.advance()) {
                mbarrier_wait(&shared.full[ring.stage], ring.parity);
                // all warps have seen this phase: after the release the next may come
                named_barrier_sync(1 + consumer, 128);
                release_stage(shared, ring.stage);
            }
            continue;
        }
        Accumulators acc[2] = {}, totals = {};
        BlockScales scales[2] = {};
        int k = 0, previous = -1;  // the stage that products under way may still read, if any
        for (; k < s.K; k += 2 * BK) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                load_scales(scales_a, scales_b, s, tile, consumer * MMAS_M * 64, k + i * BK, scales[i]);
                mbarrier_wait(&shared.full[ring.stage], ring.parity);
                wgmma_wait<0>();  // for the k tile before
                wgmma_fence();
                multiply_stage(shared, ring.stage, consumer * MMAS_M * 64, acc[i]);
                wgmma_commit();
                if (previous >= 0) release_stage(shared, previous);
                promote(acc[1 - i], scales[1 - i], totals);  // zeros, before the first pair
                previous = ring.stage;
                ring.advance();
            }
        }
        wgmma_wait<0>();
        if (previous >= 0) release_stage(shared, previous);
        promote(acc[1], scales[1], totals);
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i) {
            #pragma unroll
            for (int piece = 0; piece < BN / CN; ++piece) {
                const int m = tile.m + (consumer * MMAS_M + i) * 64, n = tile.n + piece * CN;
                float sums[TM][TN];
                sums_of_piece(totals[i], piece, sums);
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
                store_c(c, s, tile.end - m, s.N - n, thread, sums, alpha, beta);
                fence_proxy_async();
                named_barrier_sync(1 + consumer, 128);
                if (m + 64 > tile.end) store_rows(C + Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
                else if (leads) tma_store_2d(&map_c, c, n, m);
                if (leads) tma_store_commit();  // also of a piece that threads store: tma_store_wait_read counts pieces
            }
        }
    }
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
