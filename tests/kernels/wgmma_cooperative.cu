/*# C = A * B of bf16, A and B K-major: a warpgroup that loads and two that multiply, 64 rows of C each; what they give up and take
    of registers, one group of products in flight, and a tile of C that stmatrix leaves swizzled. #*/
//% from "device/mbarrier.cu" import mbarrier, mbarrier_arrive
//% from "device/tma.cu" import tma, tensor_map, fence_proxy_async, tma_store_wait
//% from "device/warpgroup.cu" import named_barrier_arrive, named_barrier_sync, setmaxnreg
//% from "device/wgmma.cu" import wgmma
//% from "device/ldmatrix.cu" import ldmatrix
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
${ tensor_map() }
${ shared_address() }
${ mbarrier(mbarrier_arrive()) }
${ tma((2,), (2,)) }
${ tma_store_wait() }
${ fence_proxy_async() }
${ named_barrier_sync() }
${ named_barrier_arrive() }
${ setmaxnreg() }
${ ldmatrix((), ((4, false),)) }
${ dynamic_shared(1024) }
${ wgmma([instruction]) }
// Two bf16 in a register, rounded to nearest even, the first one in the lower half.
__device__ __forceinline__ unsigned bf16x2(float low, float high)
{
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
extern "C" __global__ void __launch_bounds__(384, 1)
k(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
  const __grid_constant__ TensorMap map_c, int M, ${ "int N, " if not n }int K, int lda, int ldb, int ldc)
{
//% if n
    constexpr int N = ${ n };
//% endif
    constexpr int BK = 64, STAGES = 4, A_BYTES = 128 * BK * 2, B_BYTES = 64 * BK * 2;
    unsigned char* const As = dynamic_shared();
    unsigned char* const Bs = As + STAGES * A_BYTES;
    unsigned char* const Cs = Bs + STAGES * B_BYTES;  // 128 x 64
    unsigned long long* const full = reinterpret_cast<unsigned long long*>(Cs + 128 * 64 * 2);
    unsigned long long* const empty = full + STAGES;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    const int rows = (M + 127) / 128, columns = (N + 63) / 64, steps = (K + BK - 1) / BK;
    const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
    int stage = 0;
    unsigned phase = 0;
    if (group == 0) {
        setmaxnreg_dec<40>();
        if (thread == 0) {
            for (int tile = blockIdx.x; tile < rows * columns; tile += gridDim.x) {
                for (int k = 0; k < steps; ++k) {
                    mbarrier_wait(&empty[stage], phase ^ 1);
                    mbarrier_arrive_expect_tx(&full[stage], A_BYTES + B_BYTES);
                    tma_load_2d(As + stage * A_BYTES, &map_a, &full[stage], k * BK, tile / columns * 128);
                    tma_load_2d(Bs + stage * B_BYTES, &map_b, &full[stage], k * BK, tile % columns * 64);
                    stage = stage + 1 == STAGES ? 0 : stage + 1;
                    phase ^= stage == 0;
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        const int consumer = group - 1;
        unsigned char* const own = Cs + consumer * 64 * 128;
        for (int tile = blockIdx.x; tile < rows * columns; tile += gridDim.x) {
            float d[32];
            int previous = -1;
            for (int k = 0; k < steps; ++k) {
                mbarrier_wait(&full[stage], phase);
                const unsigned long long a = make_descriptor<128>(As + stage * A_BYTES + consumer * 64 * 128, 16, 1024);
                const unsigned long long b = make_descriptor<128>(Bs + stage * B_BYTES, 16, 1024);
                wgmma_fence();
                for (int i = 0; i < BK / 16; ++i) wgmma_m64n64k16_bf16(d, a + 2 * i, b + 2 * i, k > 0 || i > 0);
                wgmma_commit();
                wgmma_wait<1>();
                if (thread == 0 && previous >= 0) mbarrier_arrive(&empty[previous]);
                previous = stage;
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                phase ^= stage == 0;
            }
            wgmma_wait<0>();
            if (thread == 0 && previous >= 0) mbarrier_arrive(&empty[previous]);
            if (steps == 0)
                for (int i = 0; i < 32; ++i) d[i] = 0.0f;
            if (thread == 0) tma_store_wait_read<0>();
            named_barrier_sync(1 + consumer, 128);
            const int row = thread / 32 * 16 + thread % 16;
            for (int j = 0; j < 8; j += 2) {
                unsigned packed[4];
                for (int i = 0; i < 4; ++i) packed[i] = bf16x2(d[4 * j + 2 * i], d[4 * j + 2 * i + 1]);
                stmatrix_x4(own + row * 128 + ((j + thread % 32 / 16) ^ (row % 8)) * 16, packed);
            }
            fence_proxy_async();
            named_barrier_sync(1 + consumer, 128);
            if (thread == 0) {
                tma_store_2d(&map_c, own, tile % columns * 64, tile / columns * 128 + consumer * 64);
                tma_store_commit();
            }
        }
        if (thread == 0) tma_store_wait_read<0>();
    }
}
