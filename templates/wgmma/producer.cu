/*# The producer: one thread fills the ring, for each tile of C that the block computes. #*/
//% macro produce(view)
if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
//% if view.donates
    setmaxnreg_dec<PRODUCER_REGISTERS>();
//% endif
    if (threadIdx.x > CONSUMERS * 128) return;  // no barrier of the block follows
//% if view.persistent
    for (int number = ${ view.loops.first }; number < ${ view.loops.every }; number += ${ view.loops.step }) {
${ load_tile(view) | indent(8, true) | trim("\n") }
    }
//% else
${ load_tile(view) | indent(4, true) | trim("\n") }
//% endif
    return;
}
//% endmacro
//% macro load_tile(view)
const TileOrigin tile = tile_of_block(s, ${ view.loops.tile }${ ", rank" if view.along });
//% if view.pointers
const MapOrigin origin_a = map_origin(A_array[${ view.loops.matrix }]), origin_b = map_origin(B_array[${ view.loops.matrix }]);
//% endif
//% if view.pieces
for (int first = ${ view.loops.begin }; first < ${ view.loops.end }; first += INTERVAL) {
    for (int i = 0; i < PAIRS; ++i) {
        const Pair pair = pair_of(i);
        for (int k = first; k < ${ view.loops.interval_end }; k += BK, ring.advance()) {
            mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // the phase before: the ring begins empty
            load_stage(shared, ring.stage, &map_a, &map_b, tile, k${ ", s" if view.gated }, ${ view.loops.pieces | join(", ") }${ ", rank" if view.along });
        }
    }
}
//% else
for (int k = ${ view.loops.begin }; k < ${ view.loops.end }; k += BK, ring.advance()) {
    mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // the phase before: the ring begins empty
    load_stage(shared, ring.stage, &map_a, &map_b, tile, k${ ", s" if view.gated }${ ", origin_a, origin_b" if view.pointers else ", %s" | format(view.loops.matrix) if view.batched }${ ", rank" if view.along });
}
//% endif
//% endmacro
