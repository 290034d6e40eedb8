/*# A block computes one tile of C after the other, its consumers by turns (pingpong): while one multiplies, others store. #*/
//% import "wgmma/tiles/persistent.cu" as persistent
//% from "wgmma/range.cu" import all_tiles, first_tile, tile_step
//% set each_tile = persistent.each_tile
//% set readers, readers_of_cluster = "1", "CLUSTER"
//% set all_consumers, first_parameter = "", ""
//% macro overview()
// Each stage of the ring goes from the producer to a consumer and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  in its turn waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
//% endmacro
//% macro advance_by()

    // Past so many k tiles at once: those of the other consumers.
    __device__ __forceinline__ void advance(int stages)
    {
        parity ^= (stage + stages) / STAGES % 2;
        stage = (stage + stages) % STAGES;
    }
//% endmacro
//% macro schedule(view)
//% import view.mainloop as mainloop
//% if not view.along_k
    const int k_tiles = ${ mainloop.k_tiles };  // of a tile of C
//% endif
//% endmacro
/*# Past the k tiles of `count` of the block's tiles, which other consumers multiply, from number `first` on. #*/
//% macro pass_others(view, first, count)
//% if view.along_k
for (int i = 0; i < ${ count }; ++i) ring.advance(k_tiles_of(offs, (${ first } + i * step) / tiles));
//%- else
ring.advance(${ "(%s)" | format(count) if " " in count else count } * k_tiles);
//%- endif
//%- endmacro
//% macro each_own_tile(view)
const int begin = ${ first_tile(view) }, step = ${ tile_step(view) };  // of the block's tiles
${ pass_others(view, "begin", "consumer") }
for (int number = begin + consumer * step; number < ${ all_tiles(view) }; number += CONSUMERS * step) {
    // Consumers multiply in turns. Out of turn one could wait for a phase two later than the barrier's, and parity does not tell
    // these apart.
    if (number != begin) named_barrier_sync(1 + CONSUMERS + consumer, 256);
${ caller() | indent(4, true) | trim("\n") }
    ${ pass_others(view, "number + step", "CONSUMERS - 1") }
}
//% endmacro
//% macro pass_turn(view)
if (number < ${ all_tiles(view) } - step) named_barrier_arrive(1 + CONSUMERS + (consumer + 1) % CONSUMERS, 256);  // it is the next one's turn
//% endmacro
