//% from "device/tma.cu" import coordinates, bound_coordinates, numbers
/*# Clusters (sm_90): blocks on neighbouring SMs that reach each other's shared memory. The kernel says `__cluster_dims__(2, 1, 1)`,
    which its grid has to be a multiple of. Static shared arrays have no place in one: their offsets are the compiler's. #*/

/*# `split`: also the halves of cluster_sync. #*/
//% macro cluster(split=true)
#ifdef __CUDACC__
// Which block of its cluster this is.
__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
//% if split

// Come to the barrier of all threads of the cluster without waiting: what this thread did before, in shared memory of whichever
// block, comes before what those do who have waited.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }

// Wait until all threads have arrived that have not exited.
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
/*% endif %*/

// Wait for all threads of the cluster${ "" if split else ": what any did before, in shared memory of whichever block, comes before what\n// they do after" }.
__device__ __forceinline__ void cluster_sync()
{
//% if split
    cluster_arrive();
    cluster_wait();
//% else
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
//% endif
}
#endif  // __CUDACC__
//% endmacro

/*# No release at the cluster's scope, which costs a barrier of the whole GPU's memory with each arrival, nor mbarrier_wait's acquire
    there, which empties the L1: an arrival says that copies and products have read, and mbarrier_wait waits for it. #*/
//% macro mbarrier_arrive_cluster()
#ifdef __CUDACC__
// Arrive at the barrier that block `rank` of the cluster has where this one has `barrier`: it must not have exited.
// What this thread has read before may be written by who has waited for that; what it has written is not to be read
// for that.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank)
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cta.shared::cluster.b64 _, [there]; }"
                 ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}
#endif  // __CUDACC__
//% endmacro

/*# `ctype`: float, or int. #*/
//% macro load_shared_cluster(ctype)
//% set type, constraint = ("s32", "r") if ctype == "int" else ("f32", "f")
#ifdef __CUDACC__
// Four ${ ctype }s from where block `rank` of the cluster has what this one has at `shared`: it must not have exited.
// What was written there before a barrier of the cluster is seen behind it.
__device__ __forceinline__ void load_shared_cluster(const ${ ctype }* shared, unsigned rank, ${ ctype } (&values)[4])
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.${ type } {%0, %1, %2, %3}, [there]; }"
                 : "=${ constraint }"(values[0]), "=${ constraint }"(values[1]), "=${ constraint }"(values[2]), "=${ constraint }"(values[3])
                 : "r"(shared_address(shared)), "r"(rank));
}
#endif  // __CUDACC__
//% endmacro

/*# `loads`: the numbers of dimensions that a kernel uses. #*/
//% macro tma_multicast(loads=(2,))
#ifdef __CUDACC__
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
/*% if not loop.last %*/

/*% endif %*/
//% endfor
#endif  // __CUDACC__
//% endmacro
