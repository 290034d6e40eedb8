// gemm_bf16_rc_1024x4096x7168_sm90_c5deb24f
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on tensor cores; C is read unless beta = 0, A and B always
//     32 products, one per group: the first group_rows[g] rows of group g; C's other rows stay as they are
//
//     A  1024 x 7168, row-major, lda = 7168, stride_a = 7340032
//     B  7168 x 4096, column-major, ldb = 7168, stride_b = 29360128
//     C  1024 x 4096, row-major, ldc = 4096, stride_c = 4194304
//     group_rows  32 elements: how many of each group's rows are computed
//
// Block   32 x 128 of C by 384 threads, in k tiles of 64; persistent: block b computes tiles b, b + gridDim.x, ...
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 7 stages;
//         2 consumer warpgroups: 32 x 64 of C each by 4 wgmmas of 64 x 32 x 16 a k tile
// Groups  have only tiles with rows: each warp finds its block's tiles from group_rows
// Swap    C^T = B^T A^T: the 64 rows of an instruction are columns of C, its columns are rows of C
// Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered
//         a piece in which a group ends is stored by threads, without the rows behind the group
//
// Launch  up to ceil(M / 32) * ceil(N / 128) * batch blocks of 384 threads, 152576 bytes of dynamic shared memory
// Maps    map_a of A: boxes of 64 x 32 x 1 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_b of B: boxes of 64 x 128 x 1 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_c of C: boxes of 64 x 32 x 1 elements, swizzle of 128 bytes
// Expects A, B, C and group_rows at addresses divisible by 16, C overlapping no other operand,
//         group_rows none below 0 or above 1024,
//         no two matrices of C that overlap
// Config  gemm_bf16_rc_1024x4096x7168_g32_masked_wgmma_32x128x64_c2_k1x0_s7_f1_g8_p1_x1
// Made by gemmgen generate 1024x4096x7168 --dtype bf16 --inputs groups=32+masked --layout rc --arch sm_90 --family wgmma --set BM=32 --set BN=128 --set SWAP=1 --set STAGES=7

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
    static constexpr int N = 4096;
    static constexpr int K = 7168;
    static constexpr int ldc = 4096;
    static constexpr long long stride_c = 4194304;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int BM = 32;        // rows of C that a block computes
constexpr int BN = 128;       // columns of C that a block computes
constexpr int BK = 64;        // depth of a k tile
constexpr int CONSUMERS = 2;  // warpgroups that multiply, each its columns of the block tile
constexpr int STAGES = 7;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least; without this bound ptxas ignores setmaxnreg
constexpr int K_STEP = 16;                      // k of an instruction
constexpr int PRODUCER_REGISTERS = 40;          // registers of a producer's thread, after setmaxnreg
constexpr int CONSUMER_REGISTERS = 232;         // and of a consumer's: together no more than the block starts with

// Groups
constexpr int GROUPS = 32;  // groups of rows, each with its own B; some may be empty

// Shared memory
constexpr int LINE_A = 64;                        // elements of a line of A's boxes, the span of the swizzle
constexpr int LINE_B = 64;                        // elements of a line of B's boxes, the span of the swizzle
constexpr int CM = 32;                            // rows of a piece: C leaves by pieces of a consumer's 64 columns
constexpr int CN = 64;                            // columns of these in a line of shared memory
constexpr int C_STAGES = 1 + (BM / CM % 2 == 0);  // a consumer's buffers: 2, in turns, for an even number of pieces

static_assert(BM <= 256, "a box of TMA has at most 256 elements along each dimension");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
static_assert(BN % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 columns at once");
static_assert(BM % 8 == 0, "wgmma's n, here rows of A, is a multiple of 8");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// A thread's accumulators: its part of the 64 x 32 sums of an instruction, over the 128 threads of a warpgroup.
using Accumulators = float[BM / 2];
static_assert(BN == 64 * CONSUMERS, "a consumer multiplies 64 columns");

// The ring of k tiles, C on its way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) BF16 a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
    alignas(1024) BF16 b[STAGES][BN * BK];  // boxes of lines of LINE_B elements, likewise
    alignas(1024) BF16 c[CONSUMERS][C_STAGES][64 * CM];  // pieces of C
    unsigned long long full[STAGES];   // a stage's tiles have landed: consumers wait
    unsigned long long empty[STAGES];  // those that read them have: the producer waits
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
};
static_assert(sizeof(Shared) == 152576, "the launch asks for as much shared memory");

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
    int rows;        // of this lane's group
    int tiles;       // of the groups of lanes 0 to this one: a prefix sum

    // Rows of a group: 0 behind the last group.
    __device__ __forceinline__ static int rows_of(const int* group_rows, int group)
    {
        return group < GROUPS ? group_rows[group] : 0;
    }

    __device__ __forceinline__ void load(const int* group_rows, Shape s)
    {
        const int lane = threadIdx.x % 32, group = lane;
        rows = rows_of(group_rows, group);
        tiles = tiles_of_rows(rows, s);
        #pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int below = __shfl_up_sync(0xffffffffu, tiles, distance);
            if (lane >= distance) tiles += below;
        }
    }

    // Loads the first groups; returns the number of tiles of all groups.
    __device__ __forceinline__ int start(const int* group_rows, Shape s)
    {
        load(group_rows, s);
        return of_lane(tiles, 31);
    }

    // The tile with this number, which exists and is no less than at the last call. The tiles of a group go down GROUP
    // tile rows before the next tile column, so that blocks that run together read the same tiles of A and B from L2.
    __device__ __forceinline__ TileOrigin find(const int* group_rows, Shape s, int number)
    {
        // the first lane whose prefix sum exceeds the number has its group
        const int lane = __ffs(__ballot_sync(0xffffffffu, tiles > number)) - 1;
        const int to = of_lane(rows, lane);
        number -= of_lane(tiles, lane) - tiles_of_rows(to, s);

        const int tile_rows = (to + BM - 1) / BM, columns = (s.N + BN - 1) / BN;
        const int above = number / (GROUP * columns) * GROUP;
        const int height = min(GROUP, tile_rows - above);  // the last of these tile rows may be fewer
        const int within = number % (GROUP * columns);
        return {(above + within % height) * BM, within / height * BN, lane, to};
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
__device__ __forceinline__ void tma_store_3d(const TensorMap* map, const void* from, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 ::"l"(map), "r"(shared_address(from)), "r"(x), "r"(y), "r"(z) : "memory");
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
// d += a * b, 64 x 32 x 16, by a warpgroup; d = a * b where it is told not to accumulate. In lane 4 g + t of warp w
// d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c; sums of f16 are two to a register. Behind b stand
// scale-d, then imm-scale-a and -b (1: not negated) and imm-trans-a and -b (1: MN-major), where the instruction has
// them.
__device__ __forceinline__ void wgmma_m64n32k16_bf16(float (&d)[16], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, p, 1, 1, 0, 0; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12)
        : "l"(a), "l"(b));
}
#undef SUMS

// Sums the products of a stage's k tiles, for this warpgroup's columns of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first, Accumulators& acc)
{
    const unsigned long long a = make_descriptor<LINE_B * sizeof(BF16)>(shared.b[stage] + first * LINE_B, 16,
                                                                        8 * LINE_B * sizeof(BF16));
    const unsigned long long b = make_descriptor<LINE_A * sizeof(BF16)>(shared.a[stage], 16, 8 * LINE_A * sizeof(BF16));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP)
        wgmma_m64n32k16_bf16(acc, a + k * sizeof(BF16) / 16, b + k * sizeof(BF16) / 16);
}

// Tell the producer that this warpgroup has read a stage. A wgmma is the whole warpgroup's: one thread arrives for all.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
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
    constexpr int CHUNK = 16 / sizeof(BF16), CHUNKS = 64 / CHUNK;  // elements of a chunk; chunks of a row
    #pragma unroll
    for (int first = 0; first < CM * CHUNKS; first += 128) {
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
    constexpr int CHUNK = 16 / sizeof(BF16), CHUNKS = 64 / CHUNK;  // elements of a chunk; chunks of a row
    #pragma unroll
    for (int first = 0; first < CM * CHUNKS; first += 128) {
        const int i = first + static_cast<int>(threadIdx.x) % 128;
        const int m = i / CHUNKS, n = i % CHUNKS * CHUNK;
        const bool exists = m < rows && n < columns;
        *reinterpret_cast<uint4*>(piece + staged_at(m, n)) = exists
            ? *reinterpret_cast<const uint4*>(from + Offset(m) * s.ldc + n) : uint4{};
    }
}

// Load 4 matrices of 8 x 8 elements of 2 bytes. Lane 8 i + r passes the address of row r of matrix i, a multiple of 16.
// Lane l gets in r[i] elements 2 (l % 4) and 2 (l % 4) + 1 of column l / 4.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const void* row)
{
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

// Store 4 8 x 8 matrices of 2-byte elements. Lane 8 i + r passes the address of row r of matrix i, a multiple of 16.
// Lane l has in r[i] elements 2 (l % 4) and 2 (l % 4) + 1 of column l / 4.
__device__ __forceinline__ void stmatrix_x4_trans(void* row, const unsigned (&r)[4])
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

// Write alpha * acc + beta * C to the staged piece: stmatrix transposes matrices of 8 x 8, of which a warp has two side
// by side for each eight rows of C. If beta is not 0, the old C is there already; else it is not read: it may be
// uninitialised.
__device__ __forceinline__ void stage_transposed(BF16* c, int row, int column, const float (&acc)[BM / 2], int piece,
                                                 float alpha, float beta)
{
    union Pair { unsigned bits; BF16 at[2]; };  // elements of two neighbouring rows
    #pragma unroll
    for (int m = 0; m < CM; m += 16) {
        BF16* const to = c + staged_at(m + row, column);
        unsigned old[4] = {}, stored[4];
        if (beta != 0.0f) ldmatrix_x4_trans(old, to);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int r = piece * CM / 2 + m / 2 + i * 2;
            float value[2] = {alpha * acc[r], alpha * acc[r + 1]};
            Pair pair{old[i]};
            if (beta != 0.0f)
                for (int v = 0; v < 2; ++v) value[v] = fmaf(beta, pair.at[v], value[v]);
            for (int v = 0; v < 2; ++v) pair.at[v] = BF16(value[v]);
            stored[i] = pair.bits;
        }
        stmatrix_x4_trans(to, stored);
    }
}

}  // namespace

// Each stage of the ring goes from the producer to the consumers and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_bf16_rc_1024x4096x7168_sm90_c5deb24f(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, BF16* __restrict__ C, const int* __restrict__ group_rows, float alpha,
    float beta)
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

    const Shape s{};
    Groups groups;
    const int tiles = groups.start(group_rows, s);  // of all groups
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x / 32 > CONSUMERS * 4) return;  // no __syncthreads follows
        const bool loads = threadIdx.x % 32 == 0;
        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
            const TileOrigin tile = groups.find(group_rows, s, number);
            if (!loads) continue;  // to find the next tile with the other lanes
            const int matrix = tile.group;
            for (int k = 0; k < s.K; k += BK, ring.advance()) {
                mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // of the round before; the first passes
                unsigned long long* const full = &shared.full[ring.stage];
                // of all copies to this block
                mbarrier_arrive_expect_tx(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));
                tma_load_3d(shared.a[ring.stage], &map_a, full, k, tile.m, matrix);
                tma_load_3d(shared.b[ring.stage], &map_b, full, k, tile.n, matrix);
            }
        }
        return;
    }

    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    // of the eight elements of C that this lane names for stmatrix, within a piece
    const int row = lane / 16 * 8 + lane % 8, column = warp * 16 + lane / 8 % 2 * 8;
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const TileOrigin tile = groups.find(group_rows, s, number);
        const int matrix = tile.group;
        Accumulators acc = {};
        int previous = 0;  // the stage that products under way may still read
        for (int k = 0; k < s.K; k += BK, ring.advance()) {
            mbarrier_wait(&shared.full[ring.stage], ring.parity);
            wgmma_fence();
            multiply_stage(shared, ring.stage, consumer * 64, acc);
            wgmma_commit();
            wgmma_wait<1>();  // for the products of the k tile before
            if (k > 0) release_stage(shared, previous);
            previous = ring.stage;
        }
        wgmma_wait<0>();
        release_stage(shared, previous);
        #pragma unroll
        for (int piece = 0; piece < BM / CM; ++piece) {
            const int m = tile.m + piece * CM, n = tile.n + consumer * 64;
            BF16* const c = shared.c[consumer][piece % C_STAGES];
            if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read the piece that was there
            named_barrier_sync(1 + consumer, 128);
            if (beta != 0.0f) {  // else C is not read: it may be uninitialised
                if (m + CM <= tile.end) {
                    if (leads) {
                        mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * CM * sizeof(BF16));
                        tma_load_3d(c, &map_c, &shared.c_loaded[consumer], n, m, matrix);
                    }
                    mbarrier_wait(&shared.c_loaded[consumer], c_parity);
                    c_parity ^= 1;
                } else {
                    load_rows(C + matrix * s.stride_c + Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
                    named_barrier_sync(1 + consumer, 128);
                }
            }
            stage_transposed(c, row, column, acc, piece, alpha, beta);
            fence_proxy_async();
            named_barrier_sync(1 + consumer, 128);
            if (m + CM > tile.end)
                store_rows(C + matrix * s.stride_c + Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
            else if (leads) tma_store_3d(&map_c, c, n, m, matrix);
            if (leads) tma_store_commit();  // also of a piece that threads store: tma_store_wait_read counts pieces
        }
    }
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
