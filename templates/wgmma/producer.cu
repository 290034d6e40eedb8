/*# The producer: one thread fills the ring, for each tile of C that the block computes. #*/
//% macro produce(view)
if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
//% if view.donates
    setmaxnreg_dec<PRODUCER_REGISTERS>();
//% endif
    if (threadIdx.x > CONSUMERS * 128) return;  // no barrier of the block follows
//% if view.persistent
    for (int number = ${ view.walk.first }; number < ${ view.walk.every }; number += ${ view.walk.step }) {
${ load_tile(view) | indent(8, true) | trim("\n") }
    }
//% else
${ load_tile(view) | indent(4, true) | trim("\n") }
//% endif
    return;
}
//% endmacro
//% macro load_tile(view)
const TileOrigin tile = tile_of_block(s, ${ view.walk.tile }${ ", rank" if view.along });
//% if view.pointers
const Place place_a = place_of(A_array[${ view.walk.matrix }]), place_b = place_of(B_array[${ view.walk.matrix }]);
//% endif
//% if view.pieces
for (int first = ${ view.walk.begin }; first < ${ view.walk.end }; first += INTERVAL) {
    for (int i = 0; i < PAIRS; ++i) {
        const Pair pair = pair_of(i);
        for (int k = first; k < ${ view.walk.interval_end }; k += BK, ring.advance()) {
            mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // the phase before: the ring begins empty
            load_stage(shared, ring.stage, &map_a, &map_b, tile, k${ ", s" if view.gated }, ${ view.walk.pieces | join(", ") }${ ", rank" if view.along });
        }
    }
}
//% else
for (int k = ${ view.walk.begin }; k < ${ view.walk.end }; k += BK, ring.advance()) {
    mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // the phase before: the ring begins empty
    load_stage(shared, ring.stage, &map_a, &map_b, tile, k${ ", s" if view.gated }${ ", place_a, place_b" if view.pointers else ", %s" | format(view.walk.matrix) if view.batched }${ ", rank" if view.along });
}
//% endif
//% endmacro
