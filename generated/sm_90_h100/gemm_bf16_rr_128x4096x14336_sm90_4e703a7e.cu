// gemm_bf16_rr_128x4096x14336_sm90_4e703a7e
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on tensor cores; beta = 0 never reads C;
//                                       alpha = 0 reads A and B
//
//     A  128 x 14336, row-major, lda = 14336
//     B  14336 x 4096, row-major, ldb = 4096
//     C  128 x 4096, row-major, ldc = 4096
//
// Block   128 x 64 of C by 384 threads, in k tiles of 64, 156672 bytes of shared memory
// Warps   a warpgroup of 4 warps, the producer, lets TMA fill a ring of 6 stages;
//         2 consumers of 4 warps each: 64 x 64 of C each by 4 wgmmas of 64 x 64 x 16 a k tile
// Stores  C leaves through shared memory, by TMA
// Split-K a cluster's 2 blocks compute a tile, each over a part of K; then each adds up all their sums of a part of the
// tile
//
// Launch  ceil(M / 128) * ceil(N / 64) * 2 blocks of 384 threads, 156672 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_bf16_rr_128x4096x14336_wgmma_128x64x64_c2_k1x0_s6_f1_g1_p0_split2
// Made by gemmgen generate 128x4096x14336 --dtype bf16 --layout rr --arch sm_90 --family wgmma --set BN=64 --set STAGES=6 --set GROUP=1 --set PERSISTENT=0 --set SPLIT=2

namespace {

#ifdef __CUDACC__
// The nearest bfloat16, ties to even.
__device__ __forceinline__ unsigned short bf16_from_float(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif  // __CUDACC__

// A bfloat16: the upper half of a float.
struct BF16 {
    unsigned short bits;

    BF16() = default;
    __device__ __forceinline__ explicit BF16(float value) : bits(bf16_from_float(value)) {}
    __device__ __forceinline__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};

// What the host encodes of a tensor and its boxes (cuTensorMapEncodeTiled).
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

struct Shape { static constexpr int M = 128, N = 4096, K = 14336; };  // folds into the code

// Parameters
constexpr int BM = 128;       // rows of C that a block computes
constexpr int BN = 64;        // columns of C that a block computes
constexpr int BK = 64;        // depth of a k tile
constexpr int CONSUMERS = 2;  // warpgroups that multiply, each its rows of the block tile
constexpr int STAGES = 6;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 1;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2
constexpr int SPLIT = 2;      // split-K: blocks of a cluster that compute the same tile of C, each over a part of K

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks of an SM, at least: setmaxnreg needs it said
constexpr int K_STEP = 16;                      // k of an instruction
constexpr int PRODUCER_REGISTERS = 40;          // registers that a thread of the producer keeps
constexpr int CONSUMER_REGISTERS = 232;         // registers that a consumer's thread has then

// Split-K
constexpr int PART_N = BN / SPLIT;  // columns of the tile that a block stores

// Shared memory
constexpr int LINE_A = 64;                            // elements of a line of A
constexpr int LINE_B = 64;                            // elements of a line of B
constexpr int CN = 32;                                // columns of C that leave at once, of a consumer's 64 rows
constexpr int C_STAGES = 1 + (PART_N / CN % 2 == 0);  // a consumer's pieces in shared memory: 2 of an even number

static_assert(BM % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 rows at once");
static_assert(BM <= 256, "a box of TMA has 256 lines at most");
static_assert(BN % 8 == 0 and BN <= 256, "wgmma multiplies multiples of 8 columns, up to 256");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// This thread's share of the sums: 64 x BN, over the 128 threads of a warpgroup.
using Accumulators = float[BN / 2];
static_assert(BM == 64 * CONSUMERS, "a consumer multiplies 64 rows");

// The ring of k tiles, pieces of C on their way out, and barriers. Tiles start where a swizzle's 1024 bytes do.
struct Shared {
    alignas(1024) BF16 a[STAGES][BM * BK];  // a box of BM lines of LINE_A elements
    alignas(1024) BF16 b[STAGES][BN * BK];  // a box of BK lines of LINE_B elements
    alignas(1024) BF16 c[CONSUMERS][C_STAGES][64 * CN];  // pieces of C
    unsigned long long full[STAGES];         // a stage's tiles have landed
    unsigned long long empty[STAGES];        // all consumers have done with them
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
};
static_assert(sizeof(Shared) == 156672, "the launch asks for as much shared memory");

// A stage of the ring, and the parity (even or odd) of the phase that its barriers are in: it flips with each round.
struct Ring {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
    }
};

// The raster: which tile of C a block computes. Blocks follow the rows of tiles, one after the other: GROUP is 1.
struct TileOrigin { int m, n; };

__device__ __forceinline__ TileOrigin tile_of_block(Shape s, int block) {
    const int rows = (s.M + BM - 1) / BM, columns = (s.N + BN - 1) / BN;  // of tiles
    const int group = block / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = block % (GROUP * columns);
    return {(first + within % height) * BM, within / height * BN};
}

#ifdef __CUDACC__
// The address of what lies in shared memory, as PTX takes it.
__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// An mbarrier goes through phases. One ends when `arrivals` threads have arrived and all bytes have landed that it was
// told to expect; then the next begins. One thread initialises it, and fences, so that TMA and other blocks see that,
// too; a barrier of the block comes before any use.
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrive; and arrive, after the phase has been told to expect so many bytes more.
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned long long* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Wait for the end of a phase of this parity: phases are even and odd by turns. The first has parity 0; the one before
// it, of parity 1, counts as complete.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, unsigned parity) {
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra waited; bra again; waited: }" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Which block of its cluster this is.
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// Come to the barrier of all threads of the cluster without waiting: what this thread did before, in shared memory of
// whichever block, comes before what those do who have waited.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }

// Wait until all threads have arrived that have not exited.
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Wait for all threads of the cluster.
__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// Four floats from where block `rank` of the cluster has what this one has at `shared`: it must not have exited.
// What was written there before a barrier of the cluster is seen behind it.
__device__ __forceinline__ void load_shared_cluster(const float* shared, unsigned rank, float (&values)[4]) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
                 : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
                 : "r"(shared_address(shared)), "r"(rank));
}

// This kernel may start while the one before on the stream still runs. Wait until that has ended, and all that it wrote
// is there; and let the next one start as soon as all blocks have come here, and SMs have room for it.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Start copying the box that begins at these elements (the first along a line) to shared memory. All its bytes count
// at `barrier`; what lies outside of the tensor becomes zeros.
__device__ __forceinline__ void tma_load_2d(void* to, const TensorMap* map, unsigned long long* barrier, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y) : "memory");
}

// Start copying a box from shared memory, but for the chunks of 16 bytes that lie outside of the tensor.
__device__ __forceinline__ void tma_store_2d(const TensorMap* map, const void* from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(map), "r"(shared_address(from)), "r"(x), "r"(y) : "memory");
}

// Close the group of this thread's stores since the last commit; and wait until all but its N newest groups have read
// shared memory, which may then be written again.
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// TMA and wgmma reach memory another way than threads do, the async proxy: they see what this thread has written to
// shared memory, or waited for, only behind this fence.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Wait at barrier `number` of 1 to 15 (0 is __syncthreads's) until so many threads have come, whole warps.
__device__ __forceinline__ void named_barrier_sync(int number, int threads) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// A warpgroup's registers move: each thread gives back to the block's pool all but COUNT, or takes from there, once
// they are in it, as many as it lacks. All of its warps call it.
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }

// The descriptor by which wgmma finds a tile of A or B in shared memory: bits 0-13 the address, 16-29 `leading` and
// 32-45 `stride`, each in units of 16 bytes, 62-63 the swizzle: of lines of 128, 64 or 32 bytes, whose chunks of 16
// bytes TMA has permuted against bank conflicts, or 0. The hardware permutes the final address, so that a step along a
// line is a plain addition. A tile whose lines run along k lies in groups of 8 lines, `stride` bytes apart, and
// swizzled it has no use for `leading`.
template <int SWIZZLE>
__device__ __forceinline__ unsigned long long make_descriptor(const void* shared, int leading, int stride) {
    constexpr unsigned long long LAYOUT = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
    return LAYOUT << 62 | static_cast<unsigned long long>(stride >> 4) << 32 |
           static_cast<unsigned long long>(leading >> 4) << 16 | (shared_address(shared) & 0x3ffff) >> 4;
}

// Products are asynchronous, in groups. A fence comes before the first one, and again where other code has written to
// the registers of its sums since; a commit closes the group of products since the last commit. After a wait at most
// the N newest groups are under way: nobody may touch the sums of these, nor write what they read.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

// Four of a thread's sums, which the instruction reads and writes.
#define SUMS(r) "+f"(d[r]), "+f"(d[r + 1]), "+f"(d[r + 2]), "+f"(d[r + 3])
// d += a * b; 64 x 64 x 16, by a warpgroup. Lane 4 g + t of warp w holds rows
// 16 w + g and 16 w + g + 8: d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c.
__device__ __forceinline__ void wgmma_m64n64k16_bf16_trans_b(float (&d)[32], unsigned long long a,
                                                             unsigned long long b) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 1; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28)
        : "l"(a), "l"(b));
}
#undef SUMS
#endif  // __CUDACC__

// acc += A * B for a stage's k tiles and the 64 rows of A from `first` on. The products are still
// under way as this returns: what they read and sum up is the hardware's until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first, Accumulators& acc) {
    const unsigned long long a = make_descriptor<LINE_A * sizeof(BF16)>(shared.a[stage] + first * LINE_A, 16,
                                                                        8 * LINE_A * sizeof(BF16));
    const unsigned long long b = make_descriptor<LINE_B * sizeof(BF16)>(shared.b[stage], BK * LINE_B * sizeof(BF16),
                                                                        8 * LINE_B * sizeof(BF16));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP)
        wgmma_m64n64k16_bf16_trans_b(acc, a + k * sizeof(BF16) / 16, b + k * LINE_B * sizeof(BF16) / 16);
}

// Tells the producer that this warpgroup has done with a stage: its products end together, so that one thread may tell.
__device__ __forceinline__ void release_stage(Shared& shared, int stage) {
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
}

// This thread's share of the sums that its block stores.
using Part = float[PART_N / 2];

// Where this thread's sums r to r + 3 lie in shared memory, once the ring is done with. Those of all consumers'
// threads lie side by side, so that a warp's access is 512 contiguous bytes.
__device__ __forceinline__ float* address_of_sums(Shared& shared, int r) {
    return reinterpret_cast<float*>(&shared) + (r / 4 * 128 * CONSUMERS + static_cast<int>(threadIdx.x)) * 4;
}

// Leaves this thread's sums there, for all blocks of the cluster.
__device__ __forceinline__ void store_sums(const Accumulators& sums, Shared& shared) {
    #pragma unroll
    for (int r = 0; r < BN / 2; r += 4) {
        float4& four = *reinterpret_cast<float4*>(address_of_sums(shared, r));
        four = {sums[r], sums[r + 1], sums[r + 2], sums[r + 3]};
    }
}

// part += the sums of all blocks of the cluster, of what the block of this rank stores.
__device__ __forceinline__ void add_up(Shared& shared, int rank, Part& part) {
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

// Where an element of a piece lies in shared memory. The swizzle: TMA has chunks of 16 bytes trade places within a
// line, by XOR with the line's number, so that the eight lines that a warp writes at once lie in banks of their own.
__device__ __forceinline__ int staged_at(int m, int n) {
    constexpr int CHUNK = 16 / sizeof(BF16), CHUNKS = CN / CHUNK;  // elements of one; chunks of a line
    return m * CN + ((n / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
}

struct alignas(2 * sizeof(BF16)) PairOfC { BF16 at[2]; };  // two neighbouring elements

// alpha * acc + beta * C to where a piece is staged, of the first (i = 0) or second of a thread's rows, which are eight
// apart, as its pairs of columns are. beta = 0 overwrites C unread: what stood there may be NaN.
__device__ __forceinline__ void stage_row(BF16* c, int row, int column, int i, const float (&acc)[PART_N / 2],
                                          int piece, float alpha, float beta) {
    const int m = row + i * 8;
    #pragma unroll
    for (int j = 0; j < CN / 8; ++j) {
        const int n = column + j * 8, r = piece * CN / 2 + j * 4 + i * 2;
        float value[2] = {alpha * acc[r], alpha * acc[r + 1]};
        PairOfC& to = *reinterpret_cast<PairOfC*>(c + staged_at(m, n));
        if (beta != 0.0f) {
            const PairOfC old = to;
            for (int v = 0; v < 2; ++v) value[v] = fmaf(beta, old.at[v], value[v]);
        }
        to = {BF16(value[0]), BF16(value[1])};
    }
}

}  // namespace

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS, MINB)
gemm_bf16_rr_128x4096x14336_sm90_4e703a7e(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, float alpha, float beta) {
    extern __shared__ __align__(1024) unsigned char bytes[];  // as many as the launch asks for, over 48 KB
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&shared.full[stage], 1);           // the producer, and the bytes that it announces
            mbarrier_init(&shared.empty[stage], CONSUMERS);  // one thread of each
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) mbarrier_init(&shared.c_loaded[consumer], 1);
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
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x > CONSUMERS * 128) return;  // no barrier of the block follows
        const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / SPLIT));
        for (int k = begin; k < end; k += BK, ring.advance()) {
            mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // the phase before: the ring begins empty
            unsigned long long* const full = &shared.full[ring.stage];
            mbarrier_arrive_expect_tx(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));
            tma_load_2d(shared.a[ring.stage], &map_a, full, k, tile.m);
            tma_load_2d(shared.b[ring.stage], &map_b, full, tile.n, k);
        }
        return;
    }

    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row = warp * 16 + lane / 4, column = lane % 4 * 2;  // of this thread's first sum, within a piece
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / SPLIT));
    Accumulators acc = {};
    int previous = 0;  // the stage that products under way may still read
    #pragma unroll 1  // ptxas may serialise the wgmmas of a loop that is unrolled as a whole
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
    named_barrier_sync(1 + CONSUMERS, 128 * CONSUMERS);  // no products of any warp read the ring any more
    store_sums(acc, shared);
    cluster_sync();  // all blocks have stored theirs
    Part part = {};
    add_up(shared, rank, part);
    cluster_arrive();  // none reads them any more once all have come
    #pragma unroll
    for (int piece = 0; piece < PART_N / CN; ++piece) {
        const int m = tile.m + consumer * 64, n = tile.n + rank * PART_N + piece * CN;
        BF16* const c = shared.c[consumer][piece % C_STAGES];
        if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read what was there
        named_barrier_sync(1 + consumer, 128);
        if (beta != 0.0f) {  // else C is not read: what stands there may be NaN
            if (leads) {
                mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * CN * sizeof(BF16));
                tma_load_2d(c, &map_c, &shared.c_loaded[consumer], n, m);
            }
            mbarrier_wait(&shared.c_loaded[consumer], c_parity);
            c_parity ^= 1;
        }
        #pragma unroll
        for (int half = 0; half < 2; ++half) stage_row(c, row, column, half, part, piece, alpha, beta);
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
