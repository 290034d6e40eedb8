/*# The blocks of a cluster compute neighbouring tiles of C. Each brings a part of the operand that they share to all of them. #*/
//% set rank_argument, first_row, first_column = ", rank", "", ""
//% from "device/cluster.cu" import cluster_at_once, mbarrier_arrive_cluster, tma_multicast
//% from "device/mbarrier.cu" import mbarrier, mbarrier_arrive
//% from "device/tma.cu" import tma
//% from "wgmma/gather.cu" import arrivals
//% import "wgmma/blocks/alone.cu" as alone
//% set functions, reduce = alone.functions, alone.reduce
//% macro barriers(view)
${ mbarrier(mbarrier_arrive() if view.gathered else "") }
${ mbarrier_arrive_cluster() }
${ cluster_at_once() }
//% endmacro
//% macro loads(view)
${ tma(view.loaded_ranks, view.stored_ranks) }
//% if [view.a, view.b] | selectattr("shared") | rejectattr("images") | list
${ tma_multicast((view.box_rank,)) }
//% endif
//% endmacro
//% macro initialise(tiles, view)
//% if view.gathered
            // Full: all threads of the producer arrive, one of them twice, and the bytes. Empty: one thread of each consumer that reads it, in
            // each block.
//% else
            // Full: the producer arrives, and the bytes. Empty: one thread of each consumer that reads it, in each block.
//% endif
            mbarrier_init(&shared.full[stage], ${ arrivals(view) });
            mbarrier_init(&shared.empty[stage], ${ tiles.readers_of_cluster });
//% endmacro
//% macro meet()
    cluster_sync();  // other blocks arrive at these barriers, too
//% endmacro
//% macro rank(view)
    const int rank = static_cast<int>(cluster_rank());  // the blocks of a cluster compute neighbouring tiles
//% endmacro
//% macro release_stage()
// Tell the producers of all blocks of the cluster that this warpgroup has read a stage. A wgmma is the whole
// warpgroup's: one thread arrives for all, in each block.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    const unsigned rank = threadIdx.x % 128;  // of the block that this thread tells
    if (rank < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], rank);
}
//% endmacro
//% macro leave()
    cluster_sync();  // no block exits while another may arrive at its barriers
//% endmacro
