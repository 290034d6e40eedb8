// gemm_bf16u4bf16_rc_Mx1536x2048_sm90_5d2a737e
//
//     C = alpha * A * B + beta * C      A bf16, B u4, C bf16; sums in f32 on tensor cores;
//                                       C is read unless beta = 0, A and B always
//     128 groups of rows, each with its own B: rows offs[g - 1], or 0, to offs[g]; further rows stay as they are
//
//     A  M x 2048, row-major, lda = 2048
//     B  2048 x 1536, column-major, ldb = 2048, stride_b = 3145728
//     C  M x 1536, row-major, ldc = 1536
//     offs  128 elements: ends of the groups of rows
//     scales_b  128 x 16 x 1536, row-major: a scale for each column of B and group of K
//     zeros_b  128 x 16 x 1536, row-major: a zero point for each column of B and group of K
//
// Block   16 x 128 of C by 384 threads, in k tiles of 128; persistent: block b computes tiles b, b + gridDim.x, ...
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 4 stages;
//         2 consumer warpgroups: 16 x 64 of C each by 8 wgmmas of 64 x 16 x 16 a k tile
// Groups  no tile has rows of two groups: each warp finds its block's tiles from the ends in offs
//         rows of tiles: at most min(M, 128), one per group with rows, and one more per 16 further rows
//         boxes of A at a group's end bring rows behind it, too: these are multiplied, and not stored
// Codes   of B are packed in the order of fragments, once for many launches: see prepared_b. Consumers
//         dequantise them in registers, from which wgmma takes its first operand
// Swap    C^T = B^T A^T: the 64 rows of an instruction are columns of C, its columns are rows of C
// Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered
//         a piece in which a group ends is stored by threads, without the rows behind the group
//
// Launch  up to (min(M, 128) + max(M - 128, 0) / 16) * ceil(N / 128) blocks of 384 threads, 56320 bytes of dynamic
//         shared memory
// Maps    map_a of A: boxes of 64 x 16 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_b of prepared_b: boxes of 32 x 68 elements, no swizzle, L2 promotion of 128 bytes
//         map_c of C: boxes of 64 x 16 elements, swizzle of 128 bytes
// Expects A, B, C, offs, scales_b and zeros_b at addresses divisible by 16, C overlapping no other operand,
//         offs ascending, none below 0 or above M,
//         prepared_b: 128 * ceil(1536 / 64) * ceil(2048 / 128) * 1088 words of 32 bits, at an address divisible by 16,
//         which gemm_bf16u4bf16_rc_Mx1536x2048_sm90_5d2a737e_prepare_b_kernel writes before: any grid, blocks of 256
//         threads,
//         no other launch using the same workspace at the same time
// Config  gemm_bf16u4bf16_rc_Mx1536x2048_k128_zeros_g128_wgmma_16x128x128_c2_k1x0_s4_f1_g8_p1_x1
// Made by gemmgen generate '?x1536x2048' --types bf16,u4,bf16 --inputs scales=128+zeros+groups=128 --layout rc --arch sm_90 --family wgmma

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
    static constexpr int K = 2048;
    static constexpr int ldc = 1536;
};
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here

// Parameters
constexpr int BM = 16;        // rows of C that a block computes
constexpr int BN = 128;       // columns of C that a block computes
constexpr int BK = 128;       // depth of a k tile
constexpr int CONSUMERS = 2;  // warpgroups that multiply, each its columns of the block tile
constexpr int STAGES = 4;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least; without this bound ptxas ignores setmaxnreg
constexpr int K_STEP = 16;                      // k of an instruction
constexpr int PRODUCER_REGISTERS = 40;          // registers of a producer's thread, after setmaxnreg
constexpr int CONSUMER_REGISTERS = 232;         // and of a consumer's: together no more than the block starts with

// Groups
constexpr int GROUPS = 128;  // groups of rows, each with its own B; some may be empty

// Shared memory
constexpr int LINE_A = 64;                        // elements of a line of A's boxes, the span of the swizzle
constexpr int CHUNK_K = 128;                      // k of a chunk of packed codes
constexpr int CHUNK_LINES = 34;                   // lines of 128 bytes of a chunk
constexpr int LINE_B = 32;                        // words of such a line
constexpr int CM = 16;                            // rows of a piece: C leaves by pieces of a consumer's 64 columns
constexpr int CN = 64;                            // columns of these in a line of shared memory
constexpr int C_STAGES = 1 + (BM / CM % 2 == 0);  // a consumer's buffers: 2, in turns, for an even number of pieces

static_assert(BM <= 256, "a box of TMA has at most 256 elements along each dimension");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
static_assert(BN % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 columns at once");
static_assert(BM % 8 == 0, "wgmma's n, here rows of A, is a multiple of 8");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// A thread's accumulators: its part of the 64 x 16 sums of an instruction, over the 128 threads of a warpgroup.
using Accumulators = float[BM / 2];
static_assert(BN == 64 * CONSUMERS, "a consumer multiplies 64 columns");

// The ring of k tiles, C on its way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) BF16 a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
    // chunks of codes, with what scales them
    alignas(1024) unsigned b[STAGES][BK / CHUNK_K][BN / 64][CHUNK_LINES * LINE_B];
    alignas(1024) BF16 c[CONSUMERS][C_STAGES][64 * CM];  // pieces of C
    unsigned long long full[STAGES];   // a stage's tiles have landed: consumers wait
    unsigned long long empty[STAGES];  // those that read them have: the producer waits
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
};
static_assert(sizeof(Shared) == 56320, "the launch asks for as much shared memory");

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

// Codes that a thread loads at once, words of eight.
struct alignas(16) Codes {
    unsigned at[4];
};

using ChunkOfThread = Codes[CHUNK_K / 64];  // of its two columns

// Elements of B that an instruction takes from this thread, for one step of k: a pair in each register.
using Fragment = unsigned[4];
using Fragments = Fragment;

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
// d += a * b, 64 x 16 x 16, by a warpgroup; d = a * b where it is told not to accumulate. In lane 4 g + t of warp w
// d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c; sums of f16 are two to a register. Behind b stand
// scale-d, then imm-scale-a and -b (1: not negated) and imm-trans-a and -b (1: MN-major), where the instruction has
// them.
__device__ __forceinline__ void wgmma_m64n16k16_bf16_rs(float (&d)[8], const unsigned (&a)[4], unsigned long long b)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, %12, p, 1, 1, 0; }"
        : SUMS(0), SUMS(4)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#undef SUMS

// Scales and zero points of two columns of B, 8 apart. A zero point has 128 added to it, as codes have, and is
// replicated in both halves of a word.
// Scales are replicated, too.
struct Scales {
    unsigned scale[2], zero[2];
};

__device__ __forceinline__ unsigned replicated(unsigned number) { return number | number << 16; }

// Load those of columns `column` and `column + 8` of a chunk; they follow its codes.
__device__ __forceinline__ Scales load_scales(const unsigned* chunk, int column)
{
    const unsigned short* const scales = reinterpret_cast<const unsigned short*>(chunk + 8 * CHUNK_K) + column;
    Scales found;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        found.scale[i] = replicated(scales[8 * i]);
        found.zero[i] = replicated(scales[64 + 8 * i]);
    }
    return found;
}

// Load this thread's codes of a chunk: those of a warpgroup's threads lie side by side.
__device__ __forceinline__ void load_codes(const unsigned* chunk, ChunkOfThread& codes)
{
    #pragma unroll
    for (int i = 0; i < CHUNK_K / 64; ++i)
        codes[i] = reinterpret_cast<const Codes*>(chunk)[i * 128 + threadIdx.x % 128];
}

// Dequantise eight codes. Register r of a fragment has column g + 8 * (r % 2) at k = 2 t + 8 * (r / 2) and the next
// (lane 4 g + t).
// 128 plus a code is exact (the code becomes its last bits), and so is its difference from 128 plus a zero point.
// The difference's product with the scale is rounded once.
__device__ __forceinline__ void dequantise(unsigned codes, const Scales& of, unsigned (&numbers)[4])
{
    // of both halves of a word, in a register: the one constant that lop3 holds is the number added to codes
    unsigned last_bits;
    asm volatile("mov.b32 %0, 0x000f000f;" : "=r"(last_bits));
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        asm("{ .reg .b32 code, difference;\n"
            "lop3.b32 code, %1, %2, 0x43004300, 0xea;\n"  // (%1 & %2) | 0x43004300
            "sub.rn.bf16x2 difference, code, %3;\n"
            "mul.rn.bf16x2 %0, difference, %4; }"
            : "=r"(numbers[r]) : "r"(codes >> 4 * r), "r"(last_bits), "r"(of.zero[r % 2]), "r"(of.scale[r % 2]));
    }
}

// acc += A * B for one step of k in a stage. Asynchronous: until wgmma_wait nothing may overwrite the stage, or
// `fragments`.
__device__ __forceinline__ void multiply_step(const Shared& shared, int stage, int k, const Fragments& fragments,
                                              Accumulators& acc)
{
    const unsigned long long a = make_descriptor<LINE_A * sizeof(BF16)>(shared.a[stage], 16, 8 * LINE_A * sizeof(BF16))
        + (k / LINE_A * LINE_A * BM + k % LINE_A) * sizeof(BF16) / 16;
    wgmma_fence();
    wgmma_m64n16k16_bf16_rs(acc, fragments, a);
    wgmma_commit();
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

// prepared_b = B's codes with their scales and zero points, in chunks of 64 columns by 128 of K: 34 lines of 128 bytes
// each.
// Of 16 columns by 16 k, lane 4 g + t of a warp has columns g and g + 8 at k = 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: eight
// codes, one word.
// Codes r and r + 4 of it make register r of a fragment: column g + 8 * (r % 2), k = 2 t + 8 * (r / 2) and the next.
extern "C" __global__ void __launch_bounds__(256)
gemm_bf16u4bf16_rc_Mx1536x2048_sm90_5d2a737e_prepare_b_kernel(
    const unsigned char* __restrict__ B, const BF16* __restrict__ scales_b, const unsigned char* __restrict__ zeros_b,
    int* __restrict__ prepared_b)
{
    const int across = (1536 + 63) / 64;
    const int tiles = across * ((2048 + 127) / 128);  // of a group
    grid_dependency_wait();
    launch_dependents();
    for (int tile = blockIdx.x; tile < 128 * tiles; tile += gridDim.x) {
        const int group = tile / tiles;
        const int first_n = tile % across * 64, first_k = tile % tiles / across * 128;
        unsigned* const chunk = reinterpret_cast<unsigned*>(prepared_b) + static_cast<long long>(tile) * 1088;
        for (int i = threadIdx.x; i < 1024; i += 256) {
            const int thread = i / 4 % 128, step = i / 512 * 4 + i % 4;  // of the warpgroup, of 16 of K
            const int n = first_n + thread / 32 * 16 + thread % 32 / 4, k = first_k + step * 16 + thread % 4 * 2;
            unsigned word = 0;
            #pragma unroll
            for (int v = 0; v < 8; ++v) {
                const int column = n + v / 2 % 2 * 8, at = k + v / 4 * 8 + v % 2;
                if (column >= 1536 || at >= 2048) continue;
                const long long from = static_cast<long long>(group) * 3145728 + static_cast<long long>(column) * 2048
                    + at;
                const unsigned code = (B[from / 2] >> (from % 2 ? 4 : 0) & 15);
                word |= code << 4 * (v / 2 + v % 2 * 4);
            }
            chunk[i] = word;
        }
        for (int i = threadIdx.x; i < 64; i += 256) {
            const int n = first_n + i;
            const bool inside = n < 1536;
            const long long from = static_cast<long long>(group * ((2048 + 127) / 128) + first_k / 128) * 1536 + n;
            unsigned short* const own = reinterpret_cast<unsigned short*>(chunk + 1024) + i;
            *own = inside ? scales_b[from].bits : 0;
            const int zero = inside ? (zeros_b[from / 2] >> (from % 2 ? 4 : 0) & 15) : 0;
            own[64] = static_cast<unsigned short>(0x4300 | zero);  // 128 plus the zero point
        }
    }
}

// Each stage of the ring goes from the producer to the consumers and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_bf16u4bf16_rc_Mx1536x2048_sm90_5d2a737e(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, BF16* __restrict__ C, const int* __restrict__ offs, int M, float alpha,
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
                #pragma unroll
                for (int at = 0; at < BK; at += LINE_A)
                    tma_load_2d(shared.a[ring.stage] + at * BM, &map_a, full, k + at, tile.m);
                tma_load_2d(shared.b[ring.stage], &map_b, full, 0,
                            ((tile.group * ((s.K + CHUNK_K - 1) / CHUNK_K) + k / CHUNK_K) * ((s.N + 63) / 64)
                             + tile.n / 64) * CHUNK_LINES);
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
        const TileOrigin tile = groups.find(offs, s, number);
        Accumulators acc = {};
        Fragments fragments[2];  // double-buffered: a step is dequantised while wgmma reads the one before
        // this thread's first column of a chunk; its second is 8 behind
        const int own_column = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
        int previous = 0;  // the stage that products in flight may still read
        for (int k = 0; k < s.K; k += BK, ring.advance()) {
            mbarrier_wait(&shared.full[ring.stage], ring.parity);
            #pragma unroll
            for (int at = 0; at < BK; at += CHUNK_K) {
                Scales scales;
                ChunkOfThread codes;
                scales = load_scales(shared.b[ring.stage][at / CHUNK_K][consumer], own_column);
                load_codes(shared.b[ring.stage][at / CHUNK_K][consumer], codes);
                #pragma unroll
                for (int step = 0; step < CHUNK_K; step += K_STEP) {
                    Fragments& fragment = fragments[step / K_STEP % 2];
                    dequantise(codes[step / 64].at[step / 16 % 4], scales, fragment);
                    multiply_step(shared, ring.stage, at + step, fragment, acc);
                    wgmma_wait<1>();  // for the step before, which reads the other fragments
                    if (at + step == 0 && k > 0) release_stage(shared, previous);
                }
            }
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
                        tma_load_2d(c, &map_c, &shared.c_loaded[consumer], n, m);
                    }
                    mbarrier_wait(&shared.c_loaded[consumer], c_parity);
                    c_parity ^= 1;
                } else {
                    load_rows(C + Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
                    named_barrier_sync(1 + consumer, 128);
                }
            }
            stage_transposed(c, row, column, acc, piece, alpha, beta);
            fence_proxy_async();
            named_barrier_sync(1 + consumer, 128);
            if (m + CM > tile.end) store_rows(C + Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
            else if (leads) tma_store_2d(&map_c, c, n, m);
            if (leads) tma_store_commit();  // also of a piece that threads store: tma_store_wait_read counts pieces
        }
    }
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
