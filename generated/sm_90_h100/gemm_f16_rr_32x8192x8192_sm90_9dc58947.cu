// gemm_f16_rr_32x8192x8192_sm90_9dc58947
//
//     C = alpha * A * B + beta * C      f16; sums in f32 on tensor cores; beta = 0 never reads C;
//                                       alpha = 0 reads A and B
//
//     A  32 x 8192, row-major, lda = 8192
//     B  8192 x 8192, row-major, ldb = 8192
//     C  32 x 8192, row-major, ldc = 8192
//
// Block   64 x 64 of C by 256 threads, in k tiles of 128, 205824 bytes of shared memory
// Warps   a warpgroup of 4 warps, the producer, lets TMA fill a ring of 6 stages;
//         1 consumer of 4 warps: 64 x 64 of C by 8 wgmmas of 64 x 64 x 16 a k tile
// Stores  C leaves through shared memory, by TMA
//
// Launch  up to ceil(M / 64) * ceil(N / 64) blocks of 256 threads, 205824 bytes of dynamic shared memory
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B
// Config  gemm_f16_rr_32x8192x8192_wgmma_64x64x128_c1_k1x0_s6_f1_g16_p1
// Made by gemmgen generate 32x8192x8192 --dtype f16 --layout rr --arch sm_90 --family wgmma --set BM=64 --set BN=64 --set BK=128 --set CONSUMERS=1 --set STAGES=6 --set GROUP=16

namespace {

#ifdef __CUDACC__
__device__ __forceinline__ float float_from_f16(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// The nearest half, ties to even.
__device__ __forceinline__ unsigned short f16_from_float(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif  // __CUDACC__

// A half, IEEE 754's binary16.
struct F16 {
    unsigned short bits;

    F16() = default;
    __device__ __forceinline__ explicit F16(float value) : bits(f16_from_float(value)) {}
    __device__ __forceinline__ operator float() const { return float_from_f16(bits); }
};

// What the host encodes of a tensor and its boxes (cuTensorMapEncodeTiled).
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

struct Shape { static constexpr int M = 32, N = 8192, K = 8192; };  // folds into the code

// Parameters
constexpr int BM = 64;        // rows of C that a block computes
constexpr int BN = 64;        // columns of C that a block computes
constexpr int BK = 128;       // depth of a k tile
constexpr int CONSUMERS = 1;  // warpgroups that multiply, each its rows of the block tile
constexpr int STAGES = 6;     // stages: k tiles of A and B that shared memory holds
constexpr int GROUP = 16;     // raster: tile rows that blocks go down before the next tile column, for reuse in L2

// Work split
constexpr int THREADS = 128 * (CONSUMERS + 1);  // threads a block: the last warpgroup is the producer
constexpr int MINB = 1;                         // blocks of an SM, at least: setmaxnreg needs it said
constexpr int K_STEP = 16;                      // k of an instruction
constexpr int MMAS_M = BM / (64 * CONSUMERS);   // instructions down a consumer's tile

// Shared memory
constexpr int LINE_A = 64;                                 // elements of a line of A
constexpr int LINES_A = 32;                                // lines of a box of A: there are no more
constexpr int LINE_B = 64;                                 // elements of a line of B
constexpr int CN = 64;                                     // columns of C that leave at once, of a consumer's 64 rows
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
using Accumulators = float[MMAS_M][BN / 2];

// The ring of k tiles, pieces of C on their way out, and barriers. Tiles start where a swizzle's 1024 bytes do.
struct Shared {
    alignas(1024) F16 a[STAGES][BM * BK];  // boxes of BM lines of LINE_A elements, one behind the other
    alignas(1024) F16 b[STAGES][BN * BK];  // a box of BK lines of LINE_B elements
    alignas(1024) F16 c[CONSUMERS][C_STAGES][64 * CN];  // pieces of C
    unsigned long long full[STAGES];         // a stage's tiles have landed
    unsigned long long empty[STAGES];        // all consumers have done with them
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
};
static_assert(sizeof(Shared) == 205824, "the launch asks for as much shared memory");

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

// The raster: which tile of C a block computes. Blocks go down GROUP tile rows before the next tile column, so
// that those that run together read the same tiles of A and B from L2.
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
// d = a * b, plus d where it is to `accumulate`; 64 x 64 x 16, by a warpgroup. Lane 4 g + t of warp w holds rows
// 16 w + g and 16 w + g + 8: d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c.
__device__ __forceinline__ void wgmma_m64n64k16_f16_trans_b(float (&d)[32], unsigned long long a, unsigned long long b,
                                                            bool accumulate) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 1; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28)
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
#undef SUMS
#endif  // __CUDACC__

template <class T, int N>
__device__ __forceinline__ void clear(T (&tile)[N]) {
    constexpr int CHUNK = 16 / sizeof(T);
    for (int i = threadIdx.x * CHUNK; i < N; i += THREADS * CHUNK) store<CHUNK>(&tile[i], Vec<T, CHUNK>{});
}

// acc += A * B for a stage's k tiles and the MMAS_M * 64 rows of A from `first` on. The products are still
// under way as this returns: what they read and sum up is the hardware's until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first, Accumulators& acc) {
    const unsigned long long a = make_descriptor<LINE_A * sizeof(F16)>(shared.a[stage] + first * LINE_A, 16,
                                                                       8 * LINE_A * sizeof(F16));
    const unsigned long long b = make_descriptor<LINE_B * sizeof(F16)>(shared.b[stage], BK * LINE_B * sizeof(F16),
                                                                       8 * LINE_B * sizeof(F16));
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i)
            wgmma_m64n64k16_f16_trans_b(acc[i],
                                        a + i * 64 * LINE_A * sizeof(F16) / 16
                                        + (k / LINE_A * LINE_A * BM + k % LINE_A) * sizeof(F16) / 16,
                                        b + k * LINE_B * sizeof(F16) / 16, true);
    }
}

// Tells the producer that this warpgroup has done with a stage: its products end together, so that one thread may tell.
__device__ __forceinline__ void release_stage(Shared& shared, int stage) {
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
}

// This thread's sums of a piece by rows of C, and by columns in each: other names for the same registers.
__device__ __forceinline__ void sums_of_piece(const float (&acc)[BN / 2], int piece, float (&sums)[TM][TN]) {
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j)
            sums[i][j] = acc[piece * CN / 2 + j / 2 * 4 + i * 2 + j % 2];
    }
}

// Where an element of a piece lies in shared memory. The swizzle: TMA has chunks of 16 bytes trade places within a
// line, by XOR with the line's number, so that the eight lines that a warp writes at once lie in banks of their own.
__device__ __forceinline__ int staged_at(int m, int n) { return m * CN + ((n / 8) ^ (m % 8)) * 8 + n % 8; }

// N results to C. beta = 0 overwrites C unread: what stood there may be NaN.
template <int N>
__device__ __forceinline__ void store_results(F16* to, Vec<float, N> value, float beta) {
    if (beta != 0.0f) {
        const Vec<F16, N> old = load<N>(to);
        #pragma unroll
        for (int i = 0; i < N; ++i) value.at[i] = fmaf(beta, old.at[i], value.at[i]);
    }
    Vec<F16, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = F16(value.at[i]);
    store<N>(to, stored);
}

// C = alpha * sums + beta * C in the i-th of this thread's TM rows, for those elements that exist.
__device__ __forceinline__ void store_row(F16* tile, Shape s, int rows, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], float alpha, float beta) {
    const int m = thread.m + i / FM * STEP_M + i % FM;
    if (m >= rows) return;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<float, VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
        store_results<VC>(tile + staged_at(m, n), value, beta);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(F16* tile, Shape s, int rows, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], float alpha, float beta) {
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, rows, thread, i, sums[i], alpha, beta);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_f16_rr_32x8192x8192_sm90_9dc58947(
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
    // products read lines that A does not have, too
    for (int stage = 0; stage < STAGES; ++stage) clear(shared.a[stage]);
    fence_proxy_async();
    __syncthreads();
    grid_dependency_wait();  // the barriers are set up while the kernel before still runs
    launch_dependents();

    const Shape s{};
    const int tiles = ((s.M + BM - 1) / BM) * ((s.N + BN - 1) / BN);
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
        if (threadIdx.x > CONSUMERS * 128) return;  // no barrier of the block follows
        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
            const TileOrigin tile = tile_of_block(s, number);
            for (int k = 0; k < s.K; k += BK, ring.advance()) {
                mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // the phase before: the ring begins empty
                unsigned long long* const full = &shared.full[ring.stage];
                mbarrier_arrive_expect_tx(full, LINES_A * BK * sizeof(F16) + sizeof(shared.b[0]));
                #pragma unroll
                for (int at = 0; at < BK; at += LINE_A)
                    tma_load_2d(shared.a[ring.stage] + at * BM, &map_a, full, k + at, tile.m);
                tma_load_2d(shared.b[ring.stage], &map_b, full, tile.n, k);
            }
        }
        return;
    }

    const int consumer = threadIdx.x / 128;
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
    const ThreadOrigin thread = thread_origin();
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const TileOrigin tile = tile_of_block(s, number);
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
                float sums[TM][TN];
                sums_of_piece(acc[i], piece, sums);
                F16* const c = shared.c[consumer][(i * BN / CN + piece) % C_STAGES];
                if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read what was there
                named_barrier_sync(1 + consumer, 128);
                if (beta != 0.0f) {  // else C is not read: what stands there may be NaN
                    if (leads) {
                        mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * CN * sizeof(F16));
                        tma_load_2d(c, &map_c, &shared.c_loaded[consumer], n, m);
                    }
                    mbarrier_wait(&shared.c_loaded[consumer], c_parity);
                    c_parity ^= 1;
                }
                store_c(c, s, s.M - m, thread, sums, alpha, beta);
                fence_proxy_async();
                named_barrier_sync(1 + consumer, 128);
                if (leads) {
                    tma_store_2d(&map_c, c, n, m);
                    tma_store_commit();
                }
            }
        }
    }
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
}
