// gemm_bf16bf16f32_cr_64x576xK_sm90_c36b01e5
//
//     C = alpha * A * B + beta * C      A bf16, B bf16, C f32; sums in f32 on tensor cores;
//                                       C is read unless beta = 0, A and B always
//     K is output pixel (image, p, q) of P x Q = 56 x 56;
//     column n of C is (r, s, c): tap (r, s) of R x S = 3 x 3, channel c
//     B holds ceil(K / 3136) images of H x W = 56 x 56; padding 1 x 1
//
//     A  64 x K, column-major, lda = 64
//     B  images x 56 x 56 x 64, row-major, ldb = 64
//     C  64 x 576, row-major, ldc = 576
//
// Block   64 x 192 of C by 256 threads, in k tiles of 64
// Warps   specialised: a thread of the producer warpgroup lets TMA fill a ring of 4 stages;
//         1 consumer warpgroup: 64 x 192 of C by 4 wgmmas of 64 x 192 x 16 a k tile
// Images  implicit GEMM: TMA gathers rows of B from images, tap by tap (im2col mode); padding is zeros
// Stores  C leaves through shared memory, by TMA in whole lines: a thread's sums lie scattered
// Split-K a cluster's 4 blocks compute a tile, each over a part of K; then each adds up all their sums of a part of the
//         tile
//
// Launch  ceil(M / 64) * ceil(N / 192) * 4 blocks of 256 threads, 136192 bytes of dynamic shared memory
// Maps    map_a of A: boxes of 64 x 64 elements, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_b of B: im2col, bounding box with corners {-1, -1} from an image's first pixel and {-1, -1} from its
//         last, as {W, H}; boxes of 64 channels x 64 pixels, swizzle of 128 bytes, L2 promotion of 128 bytes
//         map_c of C: boxes of 16 x 64 elements, swizzle of 64 bytes
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_bf16bf16f32_cr_64x576xK_i56x56x64_3x3_p1x1_wgrad_wgmma_64x192x64_c1_k1x0_s4_f1_g8_p0_split4
// Made by gemmgen generate '64x576x?' --types bf16,bf16,f32 --inputs im2col=56x56x64_3x3_p1x1+wgrad --layout cr --arch sm_90 --family wgmma --set BM=64 --set BN=192 --set CONSUMERS=1 --set PERSISTENT=0 --set SPLIT=4

namespace {

// A bfloat16: the upper half of a float.
struct BF16 {
    unsigned short bits;
};

// A CUtensorMap, which the host encodes (cuTensorMapEncodeTiled): a matrix in global memory, its boxes, their swizzle.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 64;
    static constexpr int N = 576;
    int K;
};

// Parameters
constexpr int BM = 64;        // rows of C that a block computes
constexpr int BN = 192;       // columns of C that a block computes
constexpr int BK = 64;        // depth of a k tile
constexpr int CONSUMERS = 1;  // warpgroups that multiply, each its rows of the block tile
constexpr int STAGES = 4;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2
constexpr int SPLIT = 4;      // split-K: blocks of a cluster that compute the same tile of C, each over a part of K

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks an SM, at least
constexpr int K_STEP = 16;                      // k of an instruction

// Split-K
constexpr int PART_N = BN / SPLIT;  // columns of the tile that a block stores

// Convolution
constexpr int CHANNELS = 64;   // channels of a pixel
constexpr int P = 56;          // rows of output pixels per image
constexpr int Q = 56;          // columns of output pixels per image
constexpr int S = 3;           // columns of taps of a filter
constexpr int PAD_H = 1;       // rows of padding above an image
constexpr int PAD_W = 1;       // columns of padding left of an image
constexpr int STRIDE_H = 1;    // rows that the filter moves from one row of output pixels to the next
constexpr int STRIDE_W = 1;    // columns that it moves from one output pixel to the next
constexpr int DILATION_H = 1;  // rows of pixels from one row of taps to the next
constexpr int DILATION_W = 1;  // columns of pixels from one column of taps to the next

// Shared memory
constexpr int LINE_A = 64;                            // elements of a line of A's boxes, the span of the swizzle
constexpr int LINE_B = 64;                            // elements of a line of B's boxes, the span of the swizzle
constexpr int CN = 16;                                // columns of a piece: C leaves by pieces of a consumer's 64 rows
constexpr int C_STAGES = 1 + (PART_N / CN % 2 == 0);  // a consumer's buffers: 2, in turns, for an even number of pieces

static_assert(BM % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 rows at once");
static_assert(BM <= 256, "a box of TMA has at most 256 elements along each dimension");
static_assert(BN % 8 == 0 and BN <= 256, "wgmma's n is a multiple of 8, up to 256");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// A thread's accumulators: its part of the 64 x 192 sums of an instruction, over the 128 threads of a warpgroup.
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
static_assert(sizeof(Shared) == 136192, "the launch asks for as much shared memory");

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
// d += a * b, 64 x 192 x 16, by a warpgroup; d = a * b where it is told not to accumulate. In lane 4 g + t of warp w
// d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c; sums of f16 are two to a register. Behind b stand
// scale-d, then imm-scale-a and -b (1: not negated) and imm-trans-a and -b (1: MN-major), where the instruction has
// them.
__device__ __forceinline__ void wgmma_m64n192k16_bf16_trans_a_trans_b(float (&d)[96], unsigned long long a,
                                                                      unsigned long long b)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
        "%96, %97, p, 1, 1, 1, 1; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28), SUMS(32), SUMS(36), SUMS(40),
          SUMS(44), SUMS(48), SUMS(52), SUMS(56), SUMS(60), SUMS(64), SUMS(68), SUMS(72), SUMS(76), SUMS(80), SUMS(84),
          SUMS(88), SUMS(92)
        : "l"(a), "l"(b));
}
#undef SUMS

// Start loading pixels of images (NHWC): those that lie under one tap of the filter at consecutive output pixels, their
// channels from `channel` on. At the first of these the filter begins at `column` and `row`, and the tap is that far
// `right` and `down`. All bytes count at `barrier`, also those of pixels outside of an image, which become zeros.
__device__ __forceinline__ void tma_load_im2col(void* to, const TensorMap* map, unsigned long long* barrier,
                                                int channel, int column, int row, int image, unsigned short right,
                                                unsigned short down)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(channel), "r"(column), "r"(row),
                     "r"(image),
                   "h"(right), "h"(down) : "memory");
}

// Where the filter begins for an output pixel: the pixel of an image under its first tap, which may lie in the padding.
struct Place { int column, row, image; };

// Where it begins for k, which is one.
__device__ __forceinline__ Place place_of_row(int k)
{
    return {k % Q * STRIDE_W - PAD_W, k / Q % P * STRIDE_H - PAD_H, k / (P * Q)};
}

// Start loading a box of B: columns n to n + LINE_B, which are channels of one tap, in rows from `place` on.
__device__ __forceinline__ void load_pixels(BF16* to, const TensorMap* map, unsigned long long* barrier, int n,
                                            Place place)
{
    const int tap = n / CHANNELS, channel = n % CHANNELS;
    tma_load_im2col(to, map, barrier, channel, place.column, place.row, place.image, tap % S * DILATION_W,
                    tap / S * DILATION_H);
}

// Sums the products of a stage's k tiles, for this warpgroup's rows of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first, Accumulators& acc)
{
    const unsigned long long a = make_descriptor<LINE_A * sizeof(BF16)>(shared.a[stage] + first * BK,
                                                                        BK * LINE_A * sizeof(BF16),
                                                                        8 * LINE_A * sizeof(BF16));
    const unsigned long long b = make_descriptor<LINE_B * sizeof(BF16)>(shared.b[stage], BK * LINE_B * sizeof(BF16),
                                                                        8 * LINE_B * sizeof(BF16));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP)
        wgmma_m64n192k16_bf16_trans_a_trans_b(acc, a + k * LINE_A * sizeof(BF16) / 16,
                                              b + k * LINE_B * sizeof(BF16) / 16);
}

// Tell the producer that this warpgroup has read a stage. A wgmma is the whole warpgroup's: one thread arrives for all.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
}

// The range [begin, end) of K that one of a tile's SPLIT blocks sums: a whole number of BK, the same for all but the
// last ranges, which may be shorter or empty.
struct KRange {
    int begin, end;
};

__device__ __forceinline__ KRange split_k_range(int K, int split)
{
    const int extent = (K + SPLIT * BK - 1) / (SPLIT * BK) * BK;
    return {min(K, split * extent), min(K, (split + 1) * extent)};
}

// This thread's share of the sums that its block stores, of one matrix of B after the other.
using Part = float[PART_N / 2];

// Where this thread's sums from the r-th of an instruction on, four of them, lie in shared memory, once the ring is
// done with. Those of all consumers' threads lie side by side, so that a warp's access is 512 contiguous bytes.
__device__ __forceinline__ float* address_of_sums(Shared& shared, int r)
{
    return reinterpret_cast<float*>(&shared) + (r / 4 * 128 * CONSUMERS + static_cast<int>(threadIdx.x)) * 4;
}

// Leaves this thread's sums there, for all blocks of the cluster.
__device__ __forceinline__ void store_sums(const Accumulators& sums, Shared& shared)
{
    #pragma unroll
    for (int r = 0; r < BN / 2; r += 4) {
        float4& four = *reinterpret_cast<float4*>(address_of_sums(shared, r));
        four = {sums[r], sums[r + 1], sums[r + 2], sums[r + 3]};
    }
}

// part += the sums of all blocks of the cluster, of what the block of this rank stores.
__device__ __forceinline__ void add_up(Shared& shared, int rank, Part& part)
{
    #pragma unroll
    for (int r = 0; r < PART_N / 2; r += 4) {
        #pragma unroll
        for (unsigned peer = 0; peer < SPLIT; ++peer) {  // always in this order: the same bits in every run
            float sums[4];
            load_shared_cluster(address_of_sums(shared, rank * (PART_N / 2) + r), peer, sums);
            #pragma unroll
            for (int j = 0; j < 4; ++j) part[r + j] += sums[j];
        }
    }
}

// Where an element of a piece lies in shared memory, swizzled as TMA expects it: the number of its chunk of 16 bytes is
// XORed with its line's, so that the eight lines that a warp writes at once do not meet in a bank. Where a piece has
// several boxes, these lie one behind the other.
__device__ __forceinline__ int staged_at(int m, int n)
{
    constexpr int CHUNK = 16 / sizeof(float), CHUNKS = CN / CHUNK;  // elements of one; chunks of a line
    return m * CN + ((n / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
}

// Write alpha * acc + beta * C to the staged piece, of the first or `second` of this thread's two rows, 8 apart, in
// pairs of columns 8 apart. If beta is not 0, the old C is there already; else it is not read: it may be uninitialised.
__device__ __forceinline__ void stage_row(float* c, int row, int column, int second, const float (&acc)[PART_N / 2],
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

// Each stage of the ring goes from the producer to the consumers and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS, MINB)
gemm_bf16bf16f32_cr_64x576xK_sm90_c36b01e5(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, int K, float alpha, float beta)
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

    const Shape s{K};
    if (s.K == 0) alpha = 0.0f;  // nothing to scale, be alpha infinite or NaN
    const int rank = static_cast<int>(cluster_rank());  // says which range of K, and which part of the tile
    const auto [begin, end] = split_k_range(s.K, rank);
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
        if (threadIdx.x > CONSUMERS * 128) return;  // no __syncthreads follows
        const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / SPLIT));
        for (int k = begin; k < end; k += BK, ring.advance()) {
            const Place place = place_of_row(k);
            mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // of the round before; the first passes
            unsigned long long* const full = &shared.full[ring.stage];
            mbarrier_arrive_expect_tx(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));  // of all copies to this block
            tma_load_2d(shared.a[ring.stage], &map_a, full, tile.m, k);
            #pragma unroll
            for (int at = 0; at < BN; at += LINE_B)
                load_pixels(shared.b[ring.stage] + at * BK, &map_b, full, tile.n + at, place);
        }
        return;
    }

    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row = warp * 16 + lane / 4, column = lane % 4 * 2;  // of this thread's first sum, within a piece
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / SPLIT));
    Accumulators acc = {};
    int previous = 0;  // the stage that products under way may still read
    // The last wait stays inside: after the if ptxas cannot tell whether wgmmas are in flight, and serialises all.
    if (begin < end) {
        for (int k = begin; k < end; k += BK, ring.advance()) {
            mbarrier_wait(&shared.full[ring.stage], ring.parity);
            wgmma_fence();
            multiply_stage(shared, ring.stage, consumer * 64, acc);
            wgmma_commit();
            wgmma_wait<1>();  // for the products of the k tile before
            if (k > begin) release_stage(shared, previous);
            previous = ring.stage;
        }
        wgmma_wait<0>();
        release_stage(shared, previous);
    }
    named_barrier_sync(1 + CONSUMERS, 128 * CONSUMERS);  // no products of any warp read the ring any more
    store_sums(acc, shared);
    cluster_sync();  // all blocks have stored theirs
    Part part = {};
    add_up(shared, rank, part);
    cluster_arrive();  // none reads them any more once all have come
    #pragma unroll
    for (int piece = 0; piece < PART_N / CN; ++piece) {
        const int m = tile.m + consumer * 64, n = tile.n + rank * PART_N + piece * CN;
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
        for (int second = 0; second < 2; ++second) stage_row(c, row, column, second, part, piece, alpha, beta);
        fence_proxy_async();
        named_barrier_sync(1 + consumer, 128);
        if (leads) {
            tma_store_2d(&map_c, c, n, m);
            tma_store_commit();
        }
    }
    cluster_wait();  // no block exits while another may read its sums
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
