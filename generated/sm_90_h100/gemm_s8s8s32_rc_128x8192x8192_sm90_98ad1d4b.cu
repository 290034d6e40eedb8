// gemm_s8s8s32_rc_128x8192x8192_sm90_98ad1d4b
//
//     C = alpha * A * B + beta * C      A s8, B s8, C s32; sums in s32 on tensor cores; beta = 0 never reads C;
//                                       alpha = 0 reads A and B
//
//     A  128 x 8192, row-major, lda = 8192
//     B  8192 x 8192, column-major, ldb = 8192
//     C  128 x 8192, row-major, ldc = 8192
//
// Block   64 x 128 of C by 256 threads, in k tiles of 128, 214016 bytes of shared memory
// Warps   a warpgroup of 4 warps, the producer, lets TMA fill a ring of 8 stages;
//         1 consumer of 4 warps: 64 x 128 of C by 4 wgmmas of 64 x 128 x 32 a k tile
// Cluster 2 blocks, tiles below each other: each lets TMA send its part of B to all of them
// Stores  C leaves through shared memory, by TMA
//
// Launch  ceil(M / 128) * ceil(N / 128) * 2 blocks of 256 threads, 214016 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_s8s8s32_rc_128x8192x8192_wgmma_64x128x128_c1_k2x0_s8_f1_g8_p0
// Made by gemmgen generate 128x8192x8192 --types s8,s8,s32 --layout rc --arch sm_90 --family wgmma --set BM=64 --set BN=128 --set CONSUMERS=1 --set CLUSTER=2 --set STAGES=8 --set PERSISTENT=0

namespace {

// a * b + c, which wraps around at 32 bits.
__device__ __forceinline__ int multiply_add(int a, int b, int c) {
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) + static_cast<unsigned>(c));
}

// What the host encodes of a tensor and its boxes (cuTensorMapEncodeTiled).
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

struct Shape { static constexpr int M = 128, N = 8192, K = 8192; };  // folds into the code

// Parameters
constexpr int BM = 64;        // rows of C that a block computes
constexpr int BN = 128;       // columns of C that a block computes
constexpr int BK = 128;       // depth of a k tile
constexpr int CONSUMERS = 1;  // warpgroups that multiply, each its rows of the block tile
constexpr int CLUSTER = 2;    // blocks of a cluster: each brings its part of an operand to all
constexpr int STAGES = 8;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 8;      // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks of an SM, at least: setmaxnreg needs it said
constexpr int K_STEP = 32;                      // k of an instruction
constexpr int MMAS_M = BM / (64 * CONSUMERS);   // instructions down a consumer's tile

// Clusters
constexpr int CLUSTER_M = CLUSTER * BM;  // rows of C that a cluster computes
constexpr int PART_B = BN / CLUSTER;     // lines of a box of B that a block brings

// Shared memory
constexpr int LINE_A = 128;                                // elements of a line of A
constexpr int LINE_B = 128;                                // elements of a line of B
constexpr int CN = 32;                                     // columns of C that leave at once, of a consumer's 64 rows
constexpr int C_STAGES = 1 + (MMAS_M * BN / CN % 2 == 0);  // a consumer's pieces in shared memory: 2 of an even number

// How C leaves registers
constexpr int TM = 2;       // rows of C that a thread has sums of, of each instruction
constexpr int TN = CN / 4;  // columns of C that a thread has sums of, of a piece
constexpr int FM = 1;       // neighbouring rows among them
constexpr int FN = 2;       // neighbouring columns among them
constexpr int STEP_M = 8;   // rows from one to the next
constexpr int STEP_N = 8;   // columns from one pair to the next
constexpr int VC = 2;       // elements of an access to C

static_assert(BM % (64 * CONSUMERS) == 0, "a warpgroup multiplies 64 rows at once");
static_assert(BM <= 256, "a box of TMA has 256 lines at most");
static_assert(BN % 8 == 0 and BN <= 256, "wgmma multiplies multiples of 8 columns, up to 256");
static_assert(BK % K_STEP == 0, "a k tile is a whole number of instructions");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// N elements that move as one access.
template <typename E, int N>
struct alignas(sizeof(E) * N) Vec {
    E at[N];
};

template <int N, typename E>
__device__ __forceinline__ Vec<E, N> load(const E* from) {
    return *reinterpret_cast<const Vec<E, N>*>(from);
}

template <int N, typename E>
__device__ __forceinline__ void store(E* to, const Vec<E, N>& value) {
    *reinterpret_cast<Vec<E, N>*>(to) = value;
}

// This thread's share of the sums: 64 x BN of each instruction, over the 128 threads of a warpgroup.
using Accumulators = int[MMAS_M][BN / 2];

// The ring of k tiles, pieces of C on their way out, and barriers. Tiles start where a swizzle's 1024 bytes do.
struct Shared {
    alignas(1024) signed char a[STAGES][BM * BK];  // a box of BM lines of LINE_A elements
    alignas(1024) signed char b[STAGES][BN * BK];  // a box of BN lines of LINE_B elements
    alignas(1024) int c[CONSUMERS][C_STAGES][64 * CN];  // pieces of C
    unsigned long long full[STAGES];         // a stage's tiles have landed
    unsigned long long empty[STAGES];        // all consumers of the cluster have done with them
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
};
static_assert(sizeof(Shared) == 214016, "the launch asks for as much shared memory");

// A stage of the ring, and the parity (even or odd) of the phase that its barriers are in: it flips with each round.
struct Ring {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
    }
};

// Row and column of this thread's first sum, of the 64 x BN that its warpgroup multiplies at once.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin() {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    return {warp * 16 + lane / 4, lane % 4 * 2};
}

// The raster: which tile of C a cluster computes. Clusters go down GROUP tile rows before the next tile column, so
// that those that run together read the same tiles of A and B from L2.
struct TileOrigin { int m, n; };

__device__ __forceinline__ TileOrigin tile_of_block(Shape s, int cluster, int rank) {
    const int rows = (s.M + CLUSTER_M - 1) / CLUSTER_M, columns = (s.N + BN - 1) / BN;  // of tiles
    const int group = cluster / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = cluster % (GROUP * columns);
    return {(first + within % height) * CLUSTER_M + rank * BM, within / height * BN};
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

// Arrive, after the phase has been told to expect so many bytes more.
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

// Arrive at the barrier that block `rank` of the cluster has where this one has `barrier`: it must not have exited.
// What this thread has read before may be written by who has waited for that; what it has written is not to be read
// for that.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cta.shared::cluster.b64 _, [there]; }"
                 ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}

// Which block of its cluster this is.
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Wait for all threads of the cluster: what any did before, in shared memory of whichever block, comes before what
// they do after.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
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

// tma_load_2d to all blocks of the cluster whose bit of `blocks` is set, 1 << rank: to where each has what is at `to`
// here, and its bytes count at the barrier that it has where `barrier` is here, which must expect them.
__device__ __forceinline__ void tma_load_multicast_2d(void* to, const TensorMap* map, unsigned long long* barrier,
                                                       int x, int y, unsigned short blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%4, %5}], [%2], %3;"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "h"(blocks), "r"(x), "r"(y)
                 : "memory");
}

// TMA and wgmma reach memory another way than threads do, the async proxy: they see what this thread has written to
// shared memory, or waited for, only behind this fence.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Wait at barrier `number` of 1 to 15 (0 is __syncthreads's) until so many threads have come, whole warps.
__device__ __forceinline__ void named_barrier_sync(int number, int threads) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

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
#define SUMS(r) "+r"(d[r]), "+r"(d[r + 1]), "+r"(d[r + 2]), "+r"(d[r + 3])
// d = a * b, plus d where it is to `accumulate`; 64 x 128 x 32, by a warpgroup. Lane 4 g + t of warp w holds rows
// 16 w + g and 16 w + g + 8: d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c.
__device__ __forceinline__ void wgmma_m64n128k32_s8(int (&d)[64], unsigned long long a, unsigned long long b,
                                                    bool accumulate) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28), SUMS(32), SUMS(36), SUMS(40),
          SUMS(44), SUMS(48), SUMS(52), SUMS(56), SUMS(60)
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
#undef SUMS
#endif  // __CUDACC__

// acc += A * B for a stage's k tiles and the MMAS_M * 64 rows of A from `first` on. The products are still
// under way as this returns: what they read and sum up is the hardware's until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first, Accumulators& acc) {
    const unsigned long long a = make_descriptor<LINE_A * sizeof(signed char)>(shared.a[stage] + first * LINE_A, 16,
                                                                               8 * LINE_A * sizeof(signed char));
    const unsigned long long b = make_descriptor<LINE_B * sizeof(signed char)>(shared.b[stage], 16,
                                                                               8 * LINE_B * sizeof(signed char));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i)
            wgmma_m64n128k32_s8(acc[i], a + i * 64 * LINE_A * sizeof(signed char) / 16 + k * sizeof(signed char) / 16,
                                b + k * sizeof(signed char) / 16, true);
    }
}

// Tells the producers of all blocks of the cluster that this warpgroup has done with a stage: its products end
// together, so that a thread for each block may tell.
__device__ __forceinline__ void release_stage(Shared& shared, int stage) {
    const unsigned rank = threadIdx.x % 128;  // of the block that this thread tells
    if (rank < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], rank);
}

// This thread's sums of a piece by rows of C, and by columns in each: other names for the same registers.
__device__ __forceinline__ void sums_of_piece(const int (&acc)[BN / 2], int piece, int (&sums)[TM][TN]) {
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j)
            sums[i][j] = acc[piece * CN / 2 + j / 2 * 4 + i * 2 + j % 2];
    }
}

// Where an element of a piece lies in shared memory. The swizzle: TMA has chunks of 16 bytes trade places within a
// line, by XOR with the line's number, so that the eight lines that a warp writes at once lie in banks of their own.
__device__ __forceinline__ int staged_at(int m, int n) { return m * CN + ((n / 4) ^ (m % 8)) * 4 + n % 4; }

// N results to C. beta = 0 overwrites C unread: what stood there may be NaN.
template <int N>
__device__ __forceinline__ void store_results(int* to, Vec<int, N> value, int beta) {
    if (beta != 0) {
        const Vec<int, N> old = load<N>(to);
        #pragma unroll
        for (int i = 0; i < N; ++i) value.at[i] = multiply_add(beta, old.at[i], value.at[i]);
    }
    Vec<int, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = value.at[i];
    store<N>(to, stored);
}

// C = alpha * sums + beta * C in the i-th of this thread's TM rows.
__device__ __forceinline__ void store_row(int* tile, Shape s, ThreadOrigin thread, int i,
                                          const int (&sums)[TN], int alpha, int beta) {
    const int m = thread.m + i / FM * STEP_M + i % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<int, VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = multiply_add(alpha, sums[j + v], 0);
        store_results<VC>(tile + staged_at(m, n), value, beta);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(int* tile, Shape s, ThreadOrigin thread,
                                        const int (&sums)[TM][TN], int alpha, int beta) {
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, thread, i, sums[i], alpha, beta);
}

}  // namespace

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, MINB)
gemm_s8s8s32_rc_128x8192x8192_sm90_98ad1d4b(
    const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, int alpha, int beta) {
    extern __shared__ __align__(1024) unsigned char bytes[];  // as many as the launch asks for, over 48 KB
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&shared.full[stage], 1);                     // the producer, and the bytes that it announces
            mbarrier_init(&shared.empty[stage], CLUSTER * CONSUMERS);  // one thread of each
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) mbarrier_init(&shared.c_loaded[consumer], 1);
        fence_mbarrier_init();
    }
    cluster_sync();  // other blocks arrive at these barriers, too
    grid_dependency_wait();  // the barriers are set up while the kernel before still runs
    launch_dependents();

    const Shape s{};
    const int rank = static_cast<int>(cluster_rank());  // the blocks of a cluster compute tiles below each other
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
        if (threadIdx.x > CONSUMERS * 128) return;  // no barrier of the block follows
        const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / CLUSTER), rank);
        const int part = rank * PART_B;  // the first line of B that this block brings, to the whole cluster
        for (int k = 0; k < s.K; k += BK, ring.advance()) {
            mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // the phase before: the ring begins empty
            unsigned long long* const full = &shared.full[ring.stage];
            mbarrier_arrive_expect_tx(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));  // B's from all blocks
            tma_load_2d(shared.a[ring.stage], &map_a, full, k, tile.m);
            tma_load_multicast_2d(shared.b[ring.stage] + part * LINE_B, &map_b, full, k, tile.n + part,
                                  (1 << CLUSTER) - 1);
        }
        return;
    }

    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const ThreadOrigin thread = thread_origin();
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    const TileOrigin tile = tile_of_block(s, static_cast<int>(blockIdx.x / CLUSTER), rank);
    Accumulators acc = {};
    int previous = 0;  // the stage that products under way may still read
    for (int k = 0; k < s.K; k += BK, ring.advance()) {
        mbarrier_wait(&shared.full[ring.stage], ring.parity);
        wgmma_fence();
        multiply_stage(shared, ring.stage, consumer * MMAS_M * 64, acc);
        wgmma_commit();
        wgmma_wait<1>();  // for the products of the k tile before
        if (k > 0) release_stage(shared, previous);
        previous = ring.stage;
    }
    wgmma_wait<0>();
    release_stage(shared, previous);
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int piece = 0; piece < BN / CN; ++piece) {
            const int m = tile.m + (consumer * MMAS_M + i) * 64, n = tile.n + piece * CN;
            int sums[TM][TN];
            sums_of_piece(acc[i], piece, sums);
            int* const c = shared.c[consumer][(i * BN / CN + piece) % C_STAGES];
            if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read what was there
            named_barrier_sync(1 + consumer, 128);
            if (beta != 0) {  // else C is not read: what stands there may be NaN
                if (leads) {
                    mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * CN * sizeof(int));
                    tma_load_2d(c, &map_c, &shared.c_loaded[consumer], n, m);
                }
                mbarrier_wait(&shared.c_loaded[consumer], c_parity);
                c_parity ^= 1;
            }
            store_c(c, s, thread, sums, alpha, beta);
            fence_proxy_async();
            named_barrier_sync(1 + consumer, 128);
            if (leads) {
                tma_store_2d(&map_c, c, n, m);
                tma_store_commit();
            }
        }
    }
    cluster_sync();  // no block exits while another may arrive at its barriers
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
