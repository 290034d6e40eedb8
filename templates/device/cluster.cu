//% from "device/tma.cu" import about_im2col, coordinates, bound_coordinates, numbers
/*# Clusters (sm_90): blocks on neighbouring SMs that reach each other's shared memory. The kernel says `__cluster_dims__(2, 1, 1)`,
    which its grid has to be a multiple of. Static shared arrays have no place in one: their offsets are the compiler's. #*/

//% macro cluster_rank()
// Which block of its cluster this is.
__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
//% endmacro

/*# A barrier of the cluster in two halves, #*/
//% macro cluster()
${ cluster_rank() }
// Arrive at the barrier of the cluster's threads, without waiting. What a thread did before, in shared memory of whichever
// block, is visible to those that have waited.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }

// Wait until all threads of the cluster have arrived or exited.
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Wait for all threads of the cluster.
__device__ __forceinline__ void cluster_sync()
{
    cluster_arrive();
    cluster_wait();
}
//% endmacro

/*# or in one. #*/
//% macro cluster_at_once()
${ cluster_rank() }
// Wait for all threads of the cluster: what any did before, in shared memory of whichever block, is visible after.
__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
//% endmacro

/*# No release at the cluster's scope, which costs a barrier of the whole GPU's memory with each arrival, nor mbarrier_wait's acquire
    there, which empties the L1: an arrival says that copies and products have read, and mbarrier_wait waits for it. #*/
//% macro mbarrier_arrive_cluster()
// Arrive at this barrier in block `rank` of the cluster, which must not have exited. The release is at block scope: it says
// that this thread's warpgroup has read a stage, and publishes nothing that the thread wrote.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank)
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cta.shared::cluster.b64 _, [there]; }"
                 ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}
//% endmacro

/*# `ctype`: float, or int. #*/
//% macro load_shared_cluster(ctype)
//% set type, constraint = ("s32", "r") if ctype == "int" else ("f32", "f")
// Load four ${ ctype }s from distributed shared memory: from block `rank` of the cluster, at the address that they have in this
// block. That one must not have exited; a barrier of the cluster comes between their store and this.
__device__ __forceinline__ void load_shared_cluster(const ${ ctype }* shared, unsigned rank, ${ ctype } (&values)[4])
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.${ type } {%0, %1, %2, %3}, [there]; }"
                 : "=${ constraint }"(values[0]), "=${ constraint }"(values[1]), "=${ constraint }"(values[2]), "=${ constraint }"(values[3])
                 : "r"(shared_address(shared)), "r"(rank));
}
//% endmacro

/*# `loads`: the numbers of dimensions that a kernel uses. #*/
//% macro tma_multicast(loads=(2,))
//% for rank in loads
// tma_load_${ rank }d to all blocks of the cluster whose bit of `blocks` is set, 1 << rank: to where each has what is at `to`
// here, and its bytes count at the barrier that it has where `barrier` is here, which must expect them.
__device__ __forceinline__ void tma_load_multicast_${ rank }d(void* to, const TensorMap* map, unsigned long long* barrier,
                                                       ${ coordinates(rank, "int ") }, unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.${ rank }d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {${ numbers(4, rank) }}], [%2], %3;"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "h"(blocks), ${ bound_coordinates(rank) }
                 : "memory");
}

//% endfor
//% endmacro

//% macro tma_im2col_multicast()
${ about_im2col() | trim("\n") }
// Each block of the cluster whose bit of `blocks` is set has them at the same address of its shared memory, and counts
// them at its own barrier.
__device__ __forceinline__ void tma_load_multicast_im2col(void* to, const TensorMap* map, unsigned long long* barrier, int channel, int column, int row, int image, unsigned short right, unsigned short down, unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(channel), "r"(column), "r"(row), "r"(image),
                   "h"(right), "h"(down), "h"(blocks) : "memory");
}

//% endmacro
