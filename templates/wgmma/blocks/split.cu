/*# Split-K: the blocks of a cluster compute a tile of C, each over a range of K. Their sums meet in shared memory, where the ring
    was, and each block adds up and stores its columns of the tile, or its rows where C is transposed. #*/
//% from "device/cluster.cu" import cluster, load_shared_cluster
//% from "device/split.cu" import split_k_range
//% import "wgmma/blocks/alone.cu" as alone
//% from "wgmma/range.cu" import kept_sums, sums_of_mma
//% set initialise, loads, meet, release_stage = alone.initialise, alone.loads, alone.meet, alone.release_stage
//% set rank_argument, first_row, first_column = "", "rank * PART_M + ", "rank * PART_N + "
//% macro barriers(view)
${ alone.barriers(view) }
${ cluster() }
${ load_shared_cluster(T) }
//% endmacro
//% macro rank(view)
    const int rank = static_cast<int>(cluster_rank());  // says which range of K, and which part of the tile
//% if view.even
    const int begin = rank * (s.K / SPLIT), end = begin + s.K / SPLIT;
//% else
    const auto [begin, end] = split_k_range(s.K, rank);
//% endif
//% endmacro
//% macro functions(view)
//% import view.mainloop as mainloop
//% import view.each as mmas
//% import view.matrices as matrices
//% set part = view.stored ~ " / 2"
//% if not view.even
${ split_k_range(mainloop.range_step) }
//% endif
// This thread's share of the sums that its block stores, of one matrix of B after the other.
using Part = ${ mmas.array(view, T, kept_sums(view)) };

// Where this thread's sums from the r-th of an instruction on, four of them, lie in shared memory, once the ring is done with. Those
// of all consumers' threads lie side by side, so that a warp's access is 512 contiguous bytes.
__device__ __forceinline__ ${ T }* address_of_sums(Shared& shared, ${ mmas.parameter }int r)
{
    return reinterpret_cast<${ T }*>(&shared) + (${ mmas.number(view, "r") } / 4 * 128 * CONSUMERS + static_cast<int>(threadIdx.x)) * 4;
}

// Leaves this thread's sums there, for all blocks of the cluster.
__device__ __forceinline__ void store_sums(const Accumulators& sums, Shared& shared)
{
//% filter indent(4, true)
//% call mmas.each_mma(view)
#pragma unroll
for (int r = 0; r < ${ sums_of_mma(view) }; r += 4) {
    ${ T }4& four = *reinterpret_cast<${ T }4*>(address_of_sums(shared, ${ mmas.argument }r));
    four = {sums${ mmas.of }[r], sums${ mmas.of }[r + 1], sums${ mmas.of }[r + 2], sums${ mmas.of }[r + 3]};
}
//% endcall
//% endfilter
}

// part += the sums of all blocks of the cluster, of what the block of this rank stores.
__device__ __forceinline__ void add_up(Shared& shared, int rank, Part& part)
{
//% filter indent(4, true)
//% call mmas.each_mma(view)
#pragma unroll
for (int r = 0; r < ${ part }; r += 4) {
    #pragma unroll
    for (unsigned peer = 0; peer < SPLIT; ++peer) {  // always in this order: the same bits in every run
        ${ T } sums[4];
${ matrices.add_part(view, mmas, part) | indent(8, true) | trim("\n") }
    }
}
//% endcall
//% endfilter
}
//% endmacro
/*# From the sums of a block's range of K to those of all of it, of what the block stores. #*/
//% macro reduce(view)

named_barrier_sync(1 + CONSUMERS, 128 * CONSUMERS);  // no products of any warp read the ring any more
store_sums(${ view.summed }, shared);
cluster_sync();  // all blocks have stored theirs
Part part = {};
add_up(shared, rank, part);
cluster_arrive();  // none reads them any more once all have come
//% endmacro
//% macro leave()
    cluster_wait();  // no block exits while another may read its sums
//% endmacro
