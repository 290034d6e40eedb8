/*# C = the tf32 that TMA makes of A, a box of 32 x 8. #*/
//% from "device/mbarrier.cu" import mbarrier
//% from "device/tma.cu" import tma, tensor_map
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
${ tensor_map() }
${ shared_address() }
${ mbarrier() }
${ tma() }
${ dynamic_shared(1024) }
extern "C" __global__ void __launch_bounds__(32, 1)
k(const __grid_constant__ TensorMap map_a, const float* B, unsigned* C, float alpha, float beta)
{
    __shared__ unsigned long long full;
    unsigned* const box = reinterpret_cast<unsigned*>(dynamic_shared());
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, 1024);
        tma_load_2d(box, &map_a, &full, 0, 0);
    }
    __syncwarp();
    mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < 256; i += 32) C[i] = box[i];
}
