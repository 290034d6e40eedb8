/*# Blocks that share nothing. #*/
//% set rank_argument, first_row, first_column = "", "", ""
//% from "device/mbarrier.cu" import mbarrier, mbarrier_arrive
//% from "device/tma.cu" import tma
//% from "wgmma/gather.cu" import arrivals
//% macro barriers(view)
${ mbarrier(mbarrier_arrive()) }
//% endmacro
//% macro loads(view)
${ tma(view.loaded_ranks, view.stored_ranks) }
//% endmacro
//% macro initialise(tiles, view)
//% if view.gathered
            // Full: all threads of the producer arrive, one of them twice, and the bytes. Empty: one thread of each consumer that reads it.
//% else
            // Full: the producer arrives, and the bytes. Empty: one thread of each consumer that reads it.
//% endif
            mbarrier_init(&shared.full[stage], ${ arrivals(view) });
            mbarrier_init(&shared.empty[stage], ${ tiles.readers });
//% endmacro
//% macro meet()
    __syncthreads();
//% endmacro
//% macro rank(view)
//%- endmacro
//% macro release_stage()
// Tell the producer that this warpgroup has read a stage. A wgmma is the whole warpgroup's: one thread arrives for all.
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
}
//% endmacro
//% macro functions(view)
//%- endmacro
//% macro reduce(view)
//%- endmacro
//% macro leave()
//%- endmacro
