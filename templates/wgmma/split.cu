/*# Split-K: the blocks of a cluster compute a tile of C, each over a range of K. Their sums meet in shared memory, where the ring
    was, and each block adds up and stores its columns of the tile, or its rows where C is transposed. #*/
//% from "device/cluster.cu" import load_shared_cluster
//% from "device/convert.cu" import add_to
//% from "device/split.cu" import split_k_range
//% from "wgmma/each.cu" import each_mma, kept_sums, of_mma, sums_of_mma
//% macro split_k(view)
//% set part = view.stored ~ " / 2"
//% if not view.even
${ split_k_range("INTERVAL" if view.pieces else "BK") }
//% endif
// This thread's share of the sums that its block stores${ ": those of B's first matrix, and then of the second" if view.gated }.
using Part = ${ T }${ "[%s]" | format(view.mmas) if view.mmas }[${ kept_sums(view) }];

// Where this thread's sums r to r + 3${ " of instruction i" if view.mmas } lie in shared memory, once the ring is done with. Those of all consumers'
// threads lie side by side, so that a warp's access is 512 contiguous bytes.
__device__ __forceinline__ ${ T }* address_of_sums(Shared& shared, ${ "int i, " if view.mmas }int r)
{
    return reinterpret_cast<${ T }*>(&shared) + (${ "(i * (%s) + r)" | format(sums_of_mma(view)) if view.mmas else "r" } / 4 * 128 * CONSUMERS + static_cast<int>(threadIdx.x)) * 4;
}

// Leaves this thread's sums there, for all blocks of the cluster.
__device__ __forceinline__ void store_sums(const Accumulators& sums, Shared& shared)
{
//% call each_mma(view)
#pragma unroll
for (int r = 0; r < ${ sums_of_mma(view) }; r += 4) {
    ${ T }4& four = *reinterpret_cast<${ T }4*>(address_of_sums(shared, ${ "i, " if view.mmas }r));
    four = {sums${ of_mma(view) }[r], sums${ of_mma(view) }[r + 1], sums${ of_mma(view) }[r + 2], sums${ of_mma(view) }[r + 3]};
}
//% endcall
}

// part += the sums of all blocks of the cluster, of what the block of this rank stores.
__device__ __forceinline__ void add_up(Shared& shared, int rank, Part& part)
{
//% call each_mma(view)
#pragma unroll
for (int r = 0; r < ${ part }; r += 4) {
    #pragma unroll
    for (unsigned peer = 0; peer < SPLIT; ++peer) {  // always in this order: the same bits in every run
        ${ T } sums[4];
//% if view.gated
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            load_shared_cluster(address_of_sums(shared, ${ "i, " if view.mmas }half * (BN / 2) + rank * (${ part }) + r), peer, sums);
            #pragma unroll
            for (int j = 0; j < 4; ++j) ${ add_to("part%s[half * (%s) + r + j]" | format(of_mma(view), part), "sums[j]") }
        }
//% else
        load_shared_cluster(address_of_sums(shared, ${ "i, " if view.mmas }rank * (${ part }) + r), peer, sums);
        #pragma unroll
        for (int j = 0; j < 4; ++j) ${ add_to("part%s[r + j]" | format(of_mma(view)), "sums[j]") }
//% endif
    }
}
//% endcall
}
//% endmacro
/*# From the sums of a block's range of K to those of all of it, of what the block stores. #*/
//% macro exchange(view)
named_barrier_sync(1 + CONSUMERS, 128 * CONSUMERS);  // no products of any warp read the ring any more
store_sums(${ view.summed }, shared);
cluster_sync();  // all blocks have stored theirs
Part part = {};
add_up(shared, rank, part);
cluster_arrive();  // none reads them any more once all have come
//% endmacro
