// gemm_f16f16f32_rc_Mx1536x1024_bias_gelu_residual_sm90_ab0342f4
//
//     C = gelu(alpha * acc + beta * C + bias_n) + residual      acc = A * B; A f16, B f16, C f32;
//                                                               sums in f32 on tensor cores;
//                                                               C is read unless beta = 0, A and B always
//     64 products, one per group: the first group_rows[g] rows of group g; C's other rows stay as they are
//
//     A  M x 1024, row-major, lda = 1024, stride_a at run time
//     B  1024 x 1536, column-major, ldb = 1024, stride_b = 1572864
//     C  M x 1536, row-major, ldc = 1536, stride_c at run time
//     residual  M x 1536, row-major, ld_residual = 1536, stride_residual at run time
//     group_rows  64 elements: how many of each group's rows are computed
//     bias_n  64 x 1536, row-major, a row for each group
//
// Block   128 x 128 of C by 384 threads, in k tiles of 64; persistent: block b computes tiles b, b + gridDim.x, ...
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 4 stages;
//         2 consumer warpgroups: 128 x 128 of C each by 8 wgmmas of 64 x 128 x 16 a k tile
//         in turns: while one stores its tile of C, another multiplies the block's next one
// Groups  have only tiles with rows: each warp finds its block's tiles from group_rows
// Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered
//         a piece in which a group ends is stored by threads, without the rows behind the group
//
// Launch  up to ceil(M / 128) * ceil(N / 128) * batch blocks of 384 threads, 164864 bytes of dynamic shared memory
// Maps    map_a of A: boxes of 64 x 128 x 1 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_b of B: boxes of 64 x 128 x 1 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_c of C: boxes of 32 x 64 x 1 elements, swizzle of 128 bytes
// Expects A, B, C, group_rows, bias_n and residual at addresses divisible by 16, C overlapping no other operand,
//         group_rows none below 0 or above M,
//         no two matrices of C that overlap,
//         stride_a, stride_c, stride_residual divisible by 8
// Config  gemm_f16f16f32_rc_Mx1536x1024_la8_g64_masked_bias_gelu_residual_wgmma_128x128x64_c2_k1x0_s4_f1_g8_p1_o1
// Made by gemmgen generate '?x1536x1024' --types f16,f16,f32 --inputs groups=64+masked --layout rc --epilogue 'gelu(alpha * acc + beta * C + bias_n) + residual' --ld-align 8 --arch sm_90 --family wgmma --set BN=128 --set PINGPONG=1

namespace {

// A half, IEEE 754's binary16.
struct F16 {
    unsigned short bits;
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
    long long stride_a;
    long long stride_c;
    long long stride_residual;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 128;       // rows of C that a block computes
constexpr int BN = 128;       // columns of C that a block computes
constexpr int BK = 64;        // depth of a k tile
constexpr int CONSUMERS = 2;  // warpgroups that multiply in turns, each a block tile of its own
constexpr int STAGES = 4;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least; without this bound ptxas ignores setmaxnreg
constexpr int K_STEP = 16;                      // k of an instruction
constexpr int MMAS_M = BM / 64;                 // instructions down a consumer's tile
constexpr int PRODUCER_REGISTERS = 40;          // registers of a producer's thread, after setmaxnreg
constexpr int CONSUMER_REGISTERS = 232;         // and of a consumer's: together no more than the block starts with

// Groups
constexpr int GROUPS = 64;  // groups of rows, each with its own B; some may be empty

// Shared memory
constexpr int LINE_A = 64;  // elements of a line of A's boxes, the span of the swizzle
constexpr int LINE_B = 64;  // elements of a line of B's boxes, the span of the swizzle
constexpr int CN = 32;      // columns of a piece: C leaves by pieces of a consumer's 64 rows
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
    alignas(1024) F16 a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
    alignas(1024) F16 b[STAGES][BN * BK];  // boxes of lines of LINE_B elements, likewise
    alignas(1024) float c[CONSUMERS][C_STAGES][64 * CN];  // pieces of C
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
    return (rows + BM - 1) / BM * ((s.N + BN - 1) / BN);
}

// A lane's value in all lanes of the warp.
__device__ __forceinline__ int of_lane(int value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }

// Up to 32 groups of rows, one per lane of a warp. All lanes of the warp call these functions together.
struct Groups {
    int rows;        // of this lane's group
    int tiles;       // of the groups of lanes 0 to this one: a prefix sum
    int first = 0;   // lane 0's group
    int before = 0;  // tiles of the groups before it

    // Rows of a group: 0 behind the last group.
    __device__ __forceinline__ static int rows_of(const int* group_rows, int group)
    {
        return group < GROUPS ? group_rows[group] : 0;
    }

    __device__ __forceinline__ void load(const int* group_rows, Shape s)
    {
        const int lane = threadIdx.x % 32, group = first + lane;
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
        int all = 0;
        for (int i = 0; i < GROUPS; i += 32) {
            const int group = i + static_cast<int>(threadIdx.x) % 32;
            all += tiles_of_rows(rows_of(group_rows, group), s);
        }
        #pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) all += __shfl_xor_sync(0xffffffffu, all, distance);
        return of_lane(all, 0);  // already in all lanes, but now the compiler knows: loops over tiles stay uniform
    }

    // The tile with this number, which exists and is no less than at the last call. The tiles of a group go down GROUP
    // tile rows before the next tile column, so that blocks that run together read the same tiles of A and B from L2.
    __device__ __forceinline__ TileOrigin find(const int* group_rows, Shape s, int number)
    {
        number -= before;
        unsigned ends;  // a bit per lane: the tile is in its group or in one before
        while ((ends = __ballot_sync(0xffffffffu, tiles > number)) == 0) {
            const int all = of_lane(tiles, 31);
            number -= all;
            before += all;
            first += 32;
            load(group_rows, s);
        }
        const int lane = __ffs(ends) - 1;  // the first of these lanes has the tile's group
        const int to = of_lane(rows, lane);
        number -= of_lane(tiles, lane) - tiles_of_rows(to, s);

        const int tile_rows = (to + BM - 1) / BM, columns = (s.N + BN - 1) / BN;
        const int above = number / (GROUP * columns) * GROUP;
        const int height = min(GROUP, tile_rows - above);  // the last of these tile rows may be fewer
        const int within = number % (GROUP * columns);
        return {(above + within % height) * BM, within / height * BN, first + lane, to};
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
__device__ __forceinline__ void wgmma_m64n128k16_f16(float (&d)[64], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28), SUMS(32), SUMS(36), SUMS(40),
          SUMS(44), SUMS(48), SUMS(52), SUMS(56), SUMS(60)
        : "l"(a), "l"(b));
}
#undef SUMS

// Sums the products of a stage's k tiles, for this warpgroup's rows of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, Accumulators& acc)
{
    const unsigned long long a = make_descriptor<LINE_A * sizeof(F16)>(shared.a[stage], 16, 8 * LINE_A * sizeof(F16));
    const unsigned long long b = make_descriptor<LINE_B * sizeof(F16)>(shared.b[stage], 16, 8 * LINE_B * sizeof(F16));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i)
            wgmma_m64n128k16_f16(acc[i], a + i * 64 * LINE_A * sizeof(F16) / 16 + k * sizeof(F16) / 16,
                                 b + k * sizeof(F16) / 16);
    }
}

// Tell the producer that this warpgroup has read a stage. A wgmma is the whole warpgroup's: one thread arrives for all.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
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
    return m * CN + ((n / 4) ^ (m % 8)) * 4 + n % 4;
}

// Store the first `rows` rows of a staged piece, which has more, and of these the first `columns` elements. `to` is
// where the piece begins in C.
__device__ __forceinline__ void store_rows(float* to, Shape s, int rows, int columns, const float* piece)
{
    constexpr int CHUNK = 16 / sizeof(float), CHUNKS = CN / CHUNK;  // elements of a chunk; chunks of a row
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
__device__ __forceinline__ void load_rows(const float* from, Shape s, int rows, int columns, float* piece)
{
    constexpr int CHUNK = 16 / sizeof(float), CHUNKS = CN / CHUNK;  // elements of a chunk; chunks of a row
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

// x * Phi(x), of the normal distribution Phi: max(x, 0) - |x| * Phi(-|x|), off by 2 units in the last place of x at
// most.
__device__ __forceinline__ float gelu(float x)
{
    const float t = min_or_nan(fabsf(x), 16.0f);  // of infinity, too, 2^p is a number
    float p = -2.8349123e-06f;  // log2(Phi(-t)), fitted where Phi(-t) counts beside 1
    p = fmaf(p, t, 3.9377686e-05f);
    p = fmaf(p, t, -0.00018618022f);
    p = fmaf(p, t, -0.00013693642f);
    p = fmaf(p, t, 0.00706342f);
    p = fmaf(p, t, -0.05249618f);
    p = fmaf(p, t, -0.4592082f);
    p = fmaf(p, t, -1.1511052f);
    p = fmaf(p, t, -1.0f);
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

// N new elements to C.
template <int N>
__device__ __forceinline__ void store_results(float* to, const Epilogue& e, Shape s, int m, int n, Vec<float, N> value)
{
    Vec<float, N> old = {};
    if (e.beta != 0.0f) old = load<N>(to);  // else C is not read: it may be uninitialised
    Vec<float, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = epilogue(e, s, m, n + i, value.at[i], old.at[i]);
    store<N>(to, stored);
}

// The i-th of this thread's rows of C, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(float* tile, Shape s, int rows, ThreadOrigin thread, int i,
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
        store_results<VC>(tile + staged_at(m, n), e, s, m, n, value);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(float* tile, Shape s, int rows, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], const Epilogue& e)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, rows, thread, i, sums[i], e);
}

}  // namespace

// Each stage of the ring goes from the producer to a consumer and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  in its turn waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f16f16f32_rc_Mx1536x1024_bias_gelu_residual_sm90_ab0342f4(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, float* __restrict__ C, const int* __restrict__ group_rows,
    const float* __restrict__ bias_n, const float* __restrict__ residual, int M, long long stride_a, long long stride_c,
    long long stride_residual, float alpha, float beta)
{
    extern __shared__ __align__(1024) unsigned char bytes[];  // the launch sets its size; above 48 KB the host opts in
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            // Full: the producer arrives, and the bytes. Empty: one thread of each consumer that reads it.
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], 1);
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) mbarrier_init(&shared.c_loaded[consumer], 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    grid_dependency_wait();  // the barriers are set up while the kernel before still runs
    launch_dependents();

    const Shape s{M, stride_a, stride_c, stride_residual};
    Groups groups;
    const int tiles = groups.start(group_rows, s);  // of all groups
    const int k_tiles = (s.K + BK - 1) / BK;  // of a tile of C
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
    const ThreadOrigin thread = thread_origin();
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    const int begin = blockIdx.x, step = gridDim.x;  // of the block's tiles
    ring.advance(consumer * k_tiles);
    for (int number = begin + consumer * step; number < tiles; number += CONSUMERS * step) {
        // Consumers multiply in turns. Out of turn one could wait for a phase two later than the barrier's, and parity
        // does not tell these apart.
        if (number != begin) named_barrier_sync(1 + CONSUMERS + consumer, 256);
        const TileOrigin tile = groups.find(group_rows, s, number);
        const int matrix = tile.group;
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
                float* const c = shared.c[consumer][(i * BN / CN + piece) % C_STAGES];
                if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read the piece that was there
                named_barrier_sync(1 + consumer, 128);
                if (beta != 0.0f) {  // else C is not read: it may be uninitialised
                    if (m + 64 <= tile.end) {
                        if (leads) {
                            mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * CN * sizeof(float));
                            tma_load_3d(c, &map_c, &shared.c_loaded[consumer], n, m, matrix);
                        }
                        mbarrier_wait(&shared.c_loaded[consumer], c_parity);
                        c_parity ^= 1;
                    } else {
                        load_rows(C + matrix * s.stride_c + Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
                        named_barrier_sync(1 + consumer, 128);
                    }
                }
                const Epilogue e = {alpha, beta, bias_n + n + static_cast<long long>(matrix) * s.N,
                                    residual + Offset(m) * s.ld_residual + n + matrix * s.stride_residual};
                store_c(c, s, tile.end - m, thread, sums, e);
                fence_proxy_async();
                named_barrier_sync(1 + consumer, 128);
                if (m + 64 > tile.end)
                    store_rows(C + matrix * s.stride_c + Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
                else if (leads) tma_store_3d(&map_c, c, n, m, matrix);
                if (leads) tma_store_commit();  // also of a piece that threads store: tma_store_wait_read counts pieces
            }
        }
        ring.advance((CONSUMERS - 1) * k_tiles);
    }
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
