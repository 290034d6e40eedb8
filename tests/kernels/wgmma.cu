/*# C = A * B of bf16 with sums in f32, A and B K-major: one warp loads tiles of 64 x 64 by TMA, a warpgroup multiplies them.
    A block has two tiles of C, one below the other. #*/
//% from "device/mbarrier.cu" import mbarrier, mbarrier_arrive
//% from "device/tma.cu" import tma, tensor_map, fence_proxy_async, tma_store_wait
//% from "device/warpgroup.cu" import named_barrier_arrive, named_barrier_sync, elect_one
//% from "device/wgmma.cu" import wgmma
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
${ elect_one() }
${ dynamic_shared(1024) }
${ wgmma([instruction]) }
extern "C" __global__ void __launch_bounds__(160, 1)
k(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
  const __grid_constant__ TensorMap map_c, int M, ${ "int N, " if not n }int K, int lda, int ldb, int ldc, float alpha, float beta)
{
//% if n
    constexpr int N = ${ n };
//% endif
    const int bug = static_cast<int>(alpha);
    constexpr int BK = 64, STAGES = 3, TILE_BYTES = 64 * BK * 2;
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    unsigned char* const As = dynamic_shared();
    unsigned char* const Bs = As + STAGES * TILE_BYTES;
    float* const Cs = reinterpret_cast<float*>(Bs + STAGES * TILE_BYTES);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    const int columns = (N + 63) / 64, steps = (K + BK - 1) / BK;
    const int first_m = blockIdx.x / columns * 128, n = blockIdx.x % columns * 64;
    int stage = 0;
    unsigned phase = 0;
    if (threadIdx.x >= 128) {
        if (elect_one()) {
            for (int tile = 0; tile < 2; ++tile) {
                for (int k = 0; k < steps; ++k) {
                    mbarrier_wait(&empty[stage], phase ^ 1);
                    mbarrier_arrive_expect_tx(&full[stage], 2 * TILE_BYTES);
                    tma_load_2d(As + stage * TILE_BYTES, &map_a, &full[stage], k * BK, first_m + tile * 64);
                    tma_load_2d(Bs + stage * TILE_BYTES, &map_b, &full[stage], k * BK, n);
                    stage = stage + 1 == STAGES ? 0 : stage + 1;
                    phase ^= stage == 0;
                }
            }
        }
    } else {
        for (int tile = 0; tile < 2; ++tile) {
            float d[32];
            for (int i = 0; i < 32; ++i) d[i] = 0.0f;
            for (int k = 0; k < steps; ++k) {
                mbarrier_wait(&full[stage], phase);
                const unsigned long long a = make_descriptor<128>(As + stage * TILE_BYTES, 16, 1024);
                const unsigned long long b = make_descriptor<128>(Bs + stage * TILE_BYTES, 16, 1024);
                wgmma_fence();
                for (int i = 0; i < BK / 16; ++i) wgmma_m64n64k16_bf16(d, a + 2 * i, b + 2 * i, k > 0 || i > 0);
                wgmma_commit();
                wgmma_wait<0>();
                if (threadIdx.x == 0) mbarrier_arrive(&empty[stage]);
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                if (stage == 0) phase ^= 1;
            }
            if (threadIdx.x == 0 && tile > 0) tma_store_wait_read<0>();
            named_barrier_sync(1, 128);
            const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
            for (int i = 0; i < 32; ++i) Cs[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + column + i % 2] = d[i];
            fence_proxy_async();
            named_barrier_sync(2, 128);
            if (threadIdx.x == 0) {
                tma_store_2d(&map_c, Cs, n, first_m + tile * 64);
                tma_store_commit();
            }
        }
        if (threadIdx.x == 0) tma_store_wait_read<0>();
    }
}
