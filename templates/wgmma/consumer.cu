/*# A consumer: it multiplies the k tiles of a tile of C, and stores their sums. #*/
//% from "wgmma/multiply.cu" import products
//% from "wgmma/split.cu" import exchange
//% from "wgmma/epilogue.cu" import store_pieces
//% from "wgmma/tiles.cu" import all_tiles, clusters, each_tile, matrix_number, tile_number
//% macro consume(kernel, view)
//% if view.donates
setmaxnreg_inc<CONSUMER_REGISTERS>();
//% endif
const int consumer = ${ "first_lane(threadIdx.x / 128)" if view.uniform else "threadIdx.x / 128" };
//% if view.cluster > 1 and not view.in_flight
const unsigned peer = threadIdx.x % 128;  // thread p < CLUSTER of a warpgroup releases stages to block p
//% endif
//% if view.staged or (view.cluster == 1 and not view.in_flight)
const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that ${ "stores" if view.in_flight or view.cluster > 1 else "arrives for all, and stores" if view.staged else "arrives for all" }
//% endif
//% if view.direct
const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
//% if view.swapped
const int row = ${ "lane / 16 * 8 + " if view.matrices == 4 }lane % 8, column = warp * 16 + lane / 8 % 2 * 8;  // of the eight elements of C that this lane names for stmatrix, within a piece
//% else
const int row = warp * 16 + lane / 4, column = lane % 4 * 2;  // of this thread's first sum, within a piece
//% endif
//% else
const ThreadOrigin thread = thread_origin();
//% endif
//% if view.loads_c
unsigned c_parity = 0;  // of the phase of shared.c_loaded
//% endif
//% if view.pingpong
const int begin = ${ clusters(view, "blockIdx.x") }, step = ${ clusters(view, "gridDim.x") };  // of the block's tiles
ring.advance(consumer * k_tiles);
for (int number = begin + consumer * step; number < ${ all_tiles(view) }; number += CONSUMERS * step) {
    // Consumers multiply in turns. Out of turn one could wait for a phase two later than the barrier's, and parity does not tell
    // these apart.
    if (number != begin) named_barrier_sync(1 + CONSUMERS + consumer, 256);
${ compute_tile(kernel, view) | indent(4, true) | trim("\n") }
}
//% else
//% call each_tile(view)
${ compute_tile(kernel, view) }
//% endcall
//% endif
//% endmacro
//% macro compute_tile(kernel, view)
const TileOrigin tile = tile_of_block(s, ${ tile_number(view) }${ ", rank" if view.along });
//% if view.batched
const int matrix = ${ matrix_number(view) };
//% endif
//% if view.pointers and view.staged
const MapOrigin origin_c = map_origin(C_array[matrix]);
//% endif
Accumulators acc${ "[2]" if view.alternates } = {}${ ", totals = {}" if view.promoted };
//% if view.feeds
Fragments fragments[2];  // of a step of k, and of the next one, which is loaded while the products of the first go on
//% endif
//% if view.in_flight and not view.alternates
int previous = 0;  // the stage that products under way may still read
//% endif
${ products(view) | trim("\n") }
//% if view.split

${ exchange(view) | trim("\n") }
//% endif
${ store_pieces(kernel, view) | trim("\n") }
//% if view.pingpong
ring.advance((CONSUMERS - 1) * k_tiles);
//% endif
//% endmacro
