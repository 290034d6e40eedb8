// gemm_f16_rc_Mx2048x768_sm90_fbf1e12f
//
//     C = alpha * A * B + beta * C      f16; sums in f32 on tensor cores; C is read unless beta = 0, A and B always
//     8 groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]; further rows stay as they are
//     C may have more rows than M: those that index_c does not name stay as they are
//
//     A  M x 768, row-major, lda = 768
//     B  768 x 2048, column-major, ldb = 768, stride_b = 1572864
//     C  M x 2048, row-major, ldc = 2048
//     offs  8 elements: ends of the groups of rows
//     index_a  M elements: row m of the product is computed from row index_a[m] of A
//     index_c  M elements: row m of the product is stored in row index_c[m] of C
//
// Block   24 x 128 of C by 384 threads, in k tiles of 128; persistent: block b computes tiles b, b + gridDim.x, ...
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 5 stages;
//         2 consumer warpgroups: 24 x 64 of C each by 8 wgmmas of 64 x 24 x 16 a k tile
// Gather  threads of the producer copy the rows of A that index_a names by cp.async, swizzled as TMA would
// Groups  no tile has rows of two groups: each warp finds its block's tiles from the ends in offs
//         rows of tiles: at most min(M, 8), one per group with rows, and one more per 24 further rows
// Swap    C^T = B^T A^T: the 64 rows of an instruction are columns of C, its columns are rows of C
// Stores  C leaves through shared memory, by threads, 16 bytes at a time, to rows that index_c names
//
// Launch  up to (min(M, 8) + max(M - 8, 0) / 24) * ceil(N / 128) blocks of 384 threads, 201728 bytes of dynamic shared
//         memory
// Maps    map_b of B: boxes of 64 x 128 x 1 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
// Expects A, B, C, offs, index_a and index_c at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above M,
//         index_a naming rows that A has,
//         index_c naming rows that C has, no two the same
// Config  gemm_f16_rc_Mx2048x768_g8_gathered_scattered_wgmma_24x128x128_c2_k1x0_s5_f1_g8_p1_x1_whole1_b1
// Made by gemmgen generate '?x2048x768' --dtype f16 --inputs groups=8+gathered+scattered --layout rc --arch sm_90 --family wgmma --set BM=24 --set BN=128 --set BK=128 --set SWAP=1 --set STAGES=5 --set WHOLE=1 --set BROADCAST=1

namespace {

__device__ __forceinline__ float float_from_f16(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// The nearest half, ties to even.
__device__ __forceinline__ unsigned short f16_from_float(float value)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// A half, IEEE 754's binary16.
struct F16 {
    unsigned short bits;
    F16() = default;
    __device__ __forceinline__ explicit F16(float value) : bits(f16_from_float(value)) {}
    __device__ __forceinline__ operator float() const { return float_from_f16(bits); }
};

// A CUtensorMap, which the host encodes (cuTensorMapEncodeTiled): a matrix in global memory, its boxes, their swizzle.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    int M;
    static constexpr int N = 2048;
    static constexpr int K = 768;
    static constexpr int lda = 768;
    static constexpr int ldc = 2048;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 24;        // rows of C that a block computes
constexpr int BN = 128;       // columns of C that a block computes
constexpr int BK = 128;       // depth of a k tile
constexpr int CONSUMERS = 2;  // warpgroups that multiply, each its columns of the block tile
constexpr int STAGES = 5;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least; without this bound ptxas ignores setmaxnreg
constexpr int K_STEP = 16;                      // k of an instruction
constexpr int PRODUCER_REGISTERS = 56;          // registers of a producer's thread, after setmaxnreg
constexpr int CONSUMER_REGISTERS = 224;         // and of a consumer's: together no more than the block starts with

// Groups
constexpr int GROUPS = 8;  // groups of rows, each with its own B; some may be empty

// Shared memory
constexpr int LINE_A = 64;                           // elements of a line of A's boxes, the span of the swizzle
constexpr int CHUNKS_A = 8;                          // chunks of 16 bytes per line of A
constexpr int ROWS_A = (BM * CHUNKS_A + 127) / 128;  // rows of A's k tile of which a thread copies chunks
// k tiles whose copies may be in flight when those of the next one start
constexpr int COPIES_AHEAD = (STAGES > 2) + (STAGES > 4);
constexpr int LINE_B = 64;                           // elements of a line of B's boxes, the span of the swizzle
constexpr int CM = 24;                               // rows of a piece: C leaves by pieces of a consumer's 64 columns
constexpr int CN = 64;                               // columns of these in a line of shared memory
constexpr int C_STAGES = 1 + (BM / CM % 2 == 0);     // a consumer's buffers: 2, in turns, for an even number of pieces

static_assert(BM <= 256, "a box of TMA has at most 256 elements along each dimension");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
static_assert(BN % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 columns at once");
static_assert(BM % 8 == 0, "wgmma's n, here rows of A, is a multiple of 8");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// A thread's accumulators: its part of the 64 x 24 sums of an instruction, over the 128 threads of a warpgroup.
using Accumulators = float[BM / 2];
static_assert(BN == 64 * CONSUMERS, "a consumer multiplies 64 columns");

// The ring of k tiles, C on its way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) F16 a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
    alignas(1024) F16 b[STAGES][BN * BK];  // boxes of lines of LINE_B elements, likewise
    alignas(1024) F16 c[CONSUMERS][C_STAGES][64 * CM];  // pieces of C
    unsigned long long full[STAGES];   // a stage's tiles have landed: consumers wait
    unsigned long long empty[STAGES];  // those that read them have: the producer waits
};
static_assert(sizeof(Shared) == 201728, "the launch asks for as much shared memory");

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
    int begin, end;  // rows of this lane's group
    int tiles;       // of the groups of lanes 0 to this one: a prefix sum

    // The row where a group ends. Groups behind the last one are empty and end there, too.
    __device__ __forceinline__ static int end_of(const int* offs, int group)
    {
        return group < 0 ? 0 : offs[min(group, GROUPS - 1)];
    }

    __device__ __forceinline__ void load(const int* offs, Shape s)
    {
        const int lane = threadIdx.x % 32, group = lane;
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
        return of_lane(tiles, 31);
    }

    // The tile with this number, which exists and is no less than at the last call. The tiles of a group go down GROUP
    // tile rows before the next tile column, so that blocks that run together read the same tiles of A and B from L2.
    __device__ __forceinline__ TileOrigin find(const int* offs, Shape s, int number)
    {
        // the first lane whose prefix sum exceeds the number has its group
        const int lane = __ffs(__ballot_sync(0xffffffffu, tiles > number)) - 1;
        const int from = of_lane(begin, lane), to = of_lane(end, lane);
        number -= of_lane(tiles, lane) - tiles_of_rows(to - from, s);

        const int rows = (to - from + BM - 1) / BM, columns = (s.N + BN - 1) / BN;  // of tiles
        const int above = number / (GROUP * columns) * GROUP;
        const int height = min(GROUP, rows - above);  // the last of these tile rows may be fewer
        const int within = number % (GROUP * columns);
        return {from + (above + within % height) * BM, within / height * BN, lane, to};
    }
};

// The first lane's value. The compiler knows it to be the same in all of a warp, and computes what follows from it
// once, in uniform registers, where wgmma and TMA take their operands from.
__device__ __forceinline__ int first_lane(int value)
{
    return __shfl_sync(0xffffffffu, value, 0);
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

// Whether this is the one lane of the warp that the hardware elects. All 32 lanes call it.
__device__ __forceinline__ bool elect_one()
{
    unsigned elected;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "elect.sync _|p, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(elected));
    return elected != 0;
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
// d += a * b, 64 x 24 x 16, by a warpgroup; d = a * b where it is told not to accumulate. In lane 4 g + t of warp w
// d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c; sums of f16 are two to a register. Behind b stand
// scale-d, then imm-scale-a and -b (1: not negated) and imm-trans-a and -b (1: MN-major), where the instruction has
// them.
__device__ __forceinline__ void wgmma_m64n24k16_f16(float (&d)[12], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, "
        "%12, %13, p, 1, 1, 0, 0; }"
        : SUMS(0), SUMS(4), SUMS(8)
        : "l"(a), "l"(b));
}
#undef SUMS

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

// The rows of A that this thread copies, for rows of C from `first` on; -1 from row `end` on.
__device__ __forceinline__ void find_rows(const int* index_a, int first, int end, int (&rows)[ROWS_A])
{
    #pragma unroll
    for (int i = 0; i < ROWS_A; ++i) {
        const int m = first + static_cast<int>(threadIdx.x) % 128 / CHUNKS_A + i * (128 / CHUNKS_A);
        rows[i] = m < end ? index_a[m] : -1;
    }
}

// Start copying this thread's part of A's k tile, which begins at k: for each box a chunk of 16 bytes of each of its
// rows. Chunks lie where TMA would put them: their numbers within a line are XORed with the line's number.
// Rows and k that do not exist become zeros.
__device__ __forceinline__ void copy_rows(F16* to, const F16* A, Shape s, const int (&rows)[ROWS_A], int k)
{
    constexpr int CHUNK = 16 / sizeof(F16);  // elements
    const int line = threadIdx.x % 128 / CHUNKS_A, chunk = threadIdx.x % CHUNKS_A;
    to += line * LINE_A + (chunk ^ (line / (8 / CHUNKS_A) % CHUNKS_A)) * CHUNK;
    k += chunk * CHUNK;
    #pragma unroll
    for (int at = 0; at < BK; at += LINE_A) {
        #pragma unroll
        for (int i = 0; i < ROWS_A; ++i) {
            if (line + i * (128 / CHUNKS_A) >= BM) break;  // the tile has no such row
            const bool exists = rows[i] >= 0;
            const F16* const from = exists ? A + Offset(rows[i]) * s.lda + k + at : A;
            cp_async<16>(to + at * BM + i * (128 / CHUNKS_A) * LINE_A, from, exists ? 16 : 0);
        }
    }
}

// Hand a stage to the consumers, after this thread's copies to it have landed. The fence makes them visible to wgmma,
// which reads by the async proxy.
__device__ __forceinline__ void hand_over(Shared& shared, int stage)
{
    fence_proxy_async();
    mbarrier_arrive(&shared.full[stage]);
}

// Sums the products of a stage's k tiles, for this warpgroup's columns of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first, Accumulators& acc)
{
    const unsigned long long a = make_descriptor<LINE_B * sizeof(F16)>(shared.b[stage] + first * LINE_B, 16,
                                                                       8 * LINE_B * sizeof(F16));
    const unsigned long long b = make_descriptor<LINE_A * sizeof(F16)>(shared.a[stage], 16, 8 * LINE_A * sizeof(F16));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP)
        wgmma_m64n24k16_f16(acc, a + (k / LINE_B * LINE_B * BN + k % LINE_B) * sizeof(F16) / 16,
                            b + (k / LINE_A * LINE_A * BM + k % LINE_A) * sizeof(F16) / 16);
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

// Store the first `rows` rows of a staged piece, and of these the first `columns` elements: row m to row index[m] of C.
// `to` is the piece's first column in row 0 of C.
__device__ __forceinline__ void scatter_rows(F16* to, const int* index, Shape s, int rows, int columns,
                                             const F16* piece)
{
    constexpr int CHUNK = 16 / sizeof(F16), CHUNKS = 64 / CHUNK;  // elements of a chunk; chunks of a row
    #pragma unroll
    for (int first = 0; first < CM * CHUNKS; first += 128) {
        const int i = first + static_cast<int>(threadIdx.x) % 128;
        const int m = i / CHUNKS, n = i % CHUNKS * CHUNK;
        if (m < CM && m < rows && n < columns)
            *reinterpret_cast<uint4*>(to + Offset(index[m]) * s.ldc + n) =
                *reinterpret_cast<const uint4*>(piece + staged_at(m, n));
    }
}

// Load the old elements of the same rows of C to the staged piece; its other elements become zero.
__device__ __forceinline__ void gather_rows_of_c(const F16* from, const int* index, Shape s, int rows, int columns,
                                                 F16* piece)
{
    constexpr int CHUNK = 16 / sizeof(F16), CHUNKS = 64 / CHUNK;  // elements of a chunk; chunks of a row
    #pragma unroll
    for (int first = 0; first < CM * CHUNKS; first += 128) {
        const int i = first + static_cast<int>(threadIdx.x) % 128;
        const int m = i / CHUNKS, n = i % CHUNKS * CHUNK;
        const bool exists = m < rows && n < columns;
        if (m < CM)
            *reinterpret_cast<uint4*>(piece + staged_at(m, n)) = exists
                ? *reinterpret_cast<const uint4*>(from + Offset(index[m]) * s.ldc + n) : uint4{};
    }
}

// Load 2 matrices of 8 x 8 elements of 2 bytes. Lane 8 i + r passes the address of row r of matrix i, a multiple of 16.
// Lane l gets in r[i] elements 2 (l % 4) and 2 (l % 4) + 1 of column l / 4.
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned (&r)[2], const void* row)
{
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(from)
                 : "memory");
}

// Store 2 8 x 8 matrices of 2-byte elements. Lane 8 i + r passes the address of row r of matrix i, a multiple of 16.
// Lane l has in r[i] elements 2 (l % 4) and 2 (l % 4) + 1 of column l / 4.
__device__ __forceinline__ void stmatrix_x2_trans(void* row, const unsigned (&r)[2])
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                 :
                 : "r"(to), "r"(r[0]), "r"(r[1])
                 : "memory");
}

// Write alpha * acc + beta * C to the staged piece: stmatrix transposes matrices of 8 x 8, of which a warp has two side
// by side for each eight rows of C. If beta is not 0, the old C is there already; else it is not read: it may be
// uninitialised.
__device__ __forceinline__ void stage_transposed(F16* c, int row, int column, const float (&acc)[BM / 2], int piece,
                                                 float alpha, float beta)
{
    union Pair { unsigned bits; F16 at[2]; };  // elements of two neighbouring rows
    #pragma unroll
    for (int m = 0; m < CM; m += 8) {
        F16* const to = c + staged_at(m + row, column);
        unsigned old[2] = {}, stored[2];
        if (beta != 0.0f) ldmatrix_x2_trans(old, to);
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int r = piece * CM / 2 + m / 2 + i * 2;
            float value[2] = {alpha * acc[r], alpha * acc[r + 1]};
            Pair pair{old[i]};
            if (beta != 0.0f)
                for (int v = 0; v < 2; ++v) value[v] = fmaf(beta, pair.at[v], value[v]);
            for (int v = 0; v < 2; ++v) pair.at[v] = F16(value[v]);
            stored[i] = pair.bits;
        }
        stmatrix_x2_trans(to, stored);
    }
}

}  // namespace

// Each stage of the ring goes from the producer to the consumers and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
// All threads of the producer copy rows of A to the stage, too, and each arrives at full[stage] once its copies have
// landed.
extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f16_rc_Mx2048x768_sm90_fbf1e12f(
    const __grid_constant__ TensorMap map_b, const F16* __restrict__ A, F16* __restrict__ C,
    const int* __restrict__ offs, const int* __restrict__ index_a, const int* __restrict__ index_c, int M, float alpha,
    float beta)
{
    extern __shared__ __align__(1024) unsigned char bytes[];  // the launch sets its size; above 48 KB the host opts in
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            // Full: all threads of the producer arrive, one of them twice, and the bytes. Empty: one thread of each
            // consumer that reads it.
            mbarrier_init(&shared.full[stage], 1 + 128);
            mbarrier_init(&shared.empty[stage], CONSUMERS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    grid_dependency_wait();  // the barriers are set up while the kernel before still runs
    launch_dependents();

    const Shape s{M};
    Groups groups;
    const int tiles = groups.start(offs, s);  // of all groups
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: its threads copy rows of A, and one starts the copies of B
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        const bool loads = first_lane(threadIdx.x / 32) == CONSUMERS * 4 && elect_one();
        Ring landing;     // the oldest stage that this thread has not handed over
        int pending = 0;  // stages not handed over: their copies land while those of the next ones start

        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
            const TileOrigin tile = groups.find(offs, s, number);
            int rows[ROWS_A];
            find_rows(index_a, tile.m, tile.end, rows);
            for (int k = 0; k < s.K; k += BK, ring.advance()) {
                mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // of the round before; the first passes
                if (loads) {
                    unsigned long long* const full = &shared.full[ring.stage];
                    mbarrier_arrive_expect_tx(full, sizeof(shared.b[0]));  // of all copies to this block
                    #pragma unroll
                    for (int at = 0; at < BK; at += LINE_B)
                        tma_load_3d(shared.b[ring.stage] + at * BN, &map_b, full, k + at, tile.n, tile.group);
                }
                copy_rows(shared.a[ring.stage], A, s, rows, k);
                cp_async_commit();
                if (pending == COPIES_AHEAD) {
                    cp_async_wait<COPIES_AHEAD>();
                    hand_over(shared, landing.stage);
                    landing.advance();
                } else {
                    ++pending;
                }
            }
        }
        cp_async_wait<0>();
        for (; pending > 0; --pending, landing.advance()) hand_over(shared, landing.stage);
        return;
    }

    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = first_lane(threadIdx.x / 128);
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    // of the eight elements of C that this lane names for stmatrix, within a piece
    const int row = lane % 8, column = warp * 16 + lane / 8 % 2 * 8;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const TileOrigin tile = groups.find(offs, s, number);
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
            F16* const c = shared.c[consumer][piece % C_STAGES];
            named_barrier_sync(1 + consumer, 128);
            if (beta != 0.0f) {  // else C is not read: it may be uninitialised
                gather_rows_of_c(C + n, index_c + m, s, tile.end - m, s.N - n, c);
                named_barrier_sync(1 + consumer, 128);
            }
            stage_transposed(c, row, column, acc, piece, alpha, beta);
            named_barrier_sync(1 + consumer, 128);
            scatter_rows(C + n, index_c + m, s, tile.end - m, s.N - n, c);
        }
    }
}
