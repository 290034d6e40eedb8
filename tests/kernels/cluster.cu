/*# Two blocks of a cluster each bring a row of A to both, by a ring of two stages; C's rows are sums of these rows. #*/
//% from "device/cluster.cu" import cluster, mbarrier_arrive_cluster, tma_multicast
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
//% from "device/mbarrier.cu" import mbarrier, mbarrier_arrive
//% from "device/tma.cu" import tensor_map
${ tensor_map() }
struct Shared {
    float row[2][2][32];  // of each stage, of each block
    unsigned long long full[2], empty[2];
};

${ shared_address() }
${ mbarrier(mbarrier_arrive()) }
${ cluster() }
${ mbarrier_arrive_cluster() }
${ tma_multicast((2,)) }
${ dynamic_shared(1024) }
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
k(const __grid_constant__ TensorMap map_a, const float* B, float* C, float alpha, float beta)
{
    Shared& shared = *reinterpret_cast<Shared*>(dynamic_shared());
    const unsigned rank = cluster_rank();
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < 2; ++stage) {
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], 2);  // a consumer of each block
        }
        fence_mbarrier_init();
    }
    cluster_sync();
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int tile = 0; lane == 0 && tile < 3; ++tile) {
            const int stage = tile % 2;
            mbarrier_wait(&shared.empty[stage], (tile / 2 & 1) ^ 1);
            mbarrier_arrive_expect_tx(&shared.full[stage], 256);
            tma_load_multicast_2d(shared.row[stage][rank], &map_a, &shared.full[stage], 32 * tile, blockIdx.x, 3);
        }
    } else {
        for (int tile = 0; tile < 3; ++tile) {
            const int stage = tile % 2;
            mbarrier_wait(&shared.full[stage], tile / 2 & 1);
            C[96 * blockIdx.x + 32 * tile + lane] = shared.row[stage][0][lane] + (2 + rank) * shared.row[stage][1][lane];
            __syncwarp();
            if (lane < 2) mbarrier_arrive_cluster(&shared.empty[stage], lane);
        }
    }
    cluster_sync();  // until then the other block may arrive here
}
