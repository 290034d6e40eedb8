/*# A consumer's way through k tiles of the ring: it waits for a stage, multiplies what is there, and releases it. #*/
//% from "wgmma/tiles.cu" import all_tiles, begin, end
/*# Says that this warpgroup has done with the ring's stage, in kernels that say so in one place alone: else see release_stage. #*/
//% macro release_now(view)
//% if view.in_flight
release_stage(shared, ring.stage);
//%- elif view.cluster > 1
if (peer < CLUSTER) mbarrier_arrive_cluster(&shared.empty[ring.stage], peer);  // one for all: a wgmma is its whole warpgroup's
//%- else
if (leads) mbarrier_arrive(&shared.empty[ring.stage]);  // one for all: a wgmma is its whole warpgroup's
//%- endif
//%- endmacro
/*# K tiles of all pairs of pieces in an interval of K. #*/
//% macro k_tiles_of_interval(view)
${ "INTERVAL / BK" if view.whole_intervals else "((min(INTERVAL, %s - first) + BK - 1) / BK)" | format(end(view)) }
//%- endmacro
/*# Whether a k tile is not the first whose sums are accumulated. #*/
//% macro later(view)
${ "i > 0" if view.pieces else "k > " ~ begin(view) }
//%- endmacro
/*# Whether the block's range of K has a k tile. #*/
//% macro any_k(view)
${ "begin < end" if view.split else "s.K > 0" }
//%- endmacro
/*# What multiply_stage and multiply_step are told of the ring's stage. The compiler is told that all lanes of a consumer alone have the
    same one. #*/
//% macro arguments(view)
${ "first_lane(ring.stage)" if view.uniform_stage else "ring.stage" }, ${ "consumer * %s64, " | format(view.mmas ~ " * " if view.mmas) if not view.pingpong }${ later(view) ~ ", " if view.pieces }
//%- endmacro
//% macro multiply_k_tiles(view)
//% if view.even and not view.pieces
#pragma unroll 1  // ptxas may serialise the wgmmas of a loop that is unrolled as a whole
//% endif
//% if view.pieces
for (int i = 0; i < PAIRS * ${ k_tiles_of_interval(view) }; ++i, ring.advance()) {
//% else
for (int k = ${ begin(view) }; k < ${ end(view) }; k += BK, ring.advance()) {
//% endif
    mbarrier_wait(&shared.full[ring.stage], ring.parity);
//% if view.feeds
    #pragma unroll
    for (int step = 0; step < BK; step += K_STEP) {
        multiply_step(shared, ${ arguments(view) }step, fragments[step / K_STEP % 2], acc);
        wgmma_wait<1>();  // for the step before, which reads the other fragments
//% if view.in_flight
        if (step == 0 && ${ later(view) }) release_stage(shared, previous);
//% endif
    }
//% else
    wgmma_fence();
    multiply_stage(shared, ${ arguments(view) }acc);
    wgmma_commit();
//% endif
//% if view.feeds and view.in_flight
    previous = ring.stage;
//% elif view.in_flight
    wgmma_wait<1>();  // for the products of the k tile before
    if (${ later(view) }) release_stage(shared, previous);
    previous = ring.stage;
//% else
    wgmma_wait<0>();${ "  // meanwhile other consumers' products keep the tensor cores busy" if view.donates and not view.pingpong }
    ${ release_now(view) }
//% endif
//% if view.promoted and not view.pieces
    promote(acc, totals);
//% endif
}
//% endmacro
/*# Two k tiles a round, so that registers that are in flight have names; there may be an odd one, which comes first. Those
    of the last one, in acc[1], are still to be awaited and promoted, where this does not end them itself. #*/
//% macro multiply_pairs(view)
int k = ${ begin(view) }, previous = -1;  // the stage that products under way may still read, if any
//% if view.odd
if ((${ "end - begin" if view.split else "s.K" } + BK - 1) / BK % 2 == 1) {  // an odd number of k tiles: the first alone
    mbarrier_wait(&shared.full[ring.stage], ring.parity);
    wgmma_fence();
    multiply_stage(shared, ${ arguments(view) }acc[0]);
    wgmma_commit();
    wgmma_wait<0>();
    ${ release_now(view) }
    promote(acc[0], totals);
    ring.advance();
    k ${ "+=" if view.split else "=" } BK;
}
//% endif
//% set pairs
// Two sets of accumulators by turns: while a k tile is multiplied, the sums of the one before are added up.
for (; k < ${ end(view) }; k += 2 * BK) {
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        mbarrier_wait(&shared.full[ring.stage], ring.parity);
        wgmma_wait<0>();  // for the k tile before
        wgmma_fence();
        multiply_stage(shared, ${ arguments(view) }acc[i]);
        wgmma_commit();
        if (previous >= 0) release_stage(shared, previous);
        promote(acc[1 - i], totals);  // zeros, before the first pair
        previous = ring.stage;
        ring.advance();
    }
}
//% if view.guarded
wgmma_wait<0>();
release_stage(shared, previous);
promote(acc[1], totals);
//% endif
//% endset
//% if view.guarded
// The last wait stays inside: after the if ptxas cannot tell whether wgmmas are in flight, and serialises all.
if (k < ${ end(view) }) {
${ pairs | indent(4, true) | trim("\n") }
}
//% else
${ pairs | trim("\n") }
//% endif
//% endmacro
/*# All products of a tile of C, the last of them awaited. #*/
//% macro products(view)
//% if view.pieces
for (int first = ${ begin(view) }; first < ${ end(view) }; first += INTERVAL) {
${ multiply_k_tiles(view) | indent(4, true) | trim("\n") }
//% if view.in_flight
    wgmma_wait<0>();
    release_stage(shared, previous);
//% endif
    promote(acc, totals);
}
//% elif view.alternates
${ multiply_pairs(view) | trim("\n") }
//% elif view.guarded
// The last wait stays inside: after the if ptxas cannot tell whether wgmmas are in flight, and serialises all.
if (${ any_k(view) }) {
${ multiply_k_tiles(view) | indent(4, true) | trim("\n") }
    wgmma_wait<0>();
    release_stage(shared, previous);
}
//% else
${ multiply_k_tiles(view) | trim("\n") }
//% endif
//% if view.pingpong
if (number < ${ all_tiles(view) } - step) named_barrier_arrive(1 + CONSUMERS + (consumer + 1) % CONSUMERS, 256);  // it is the next one's turn
//% endif
//% if view.in_flight and not view.pieces and not view.guarded
wgmma_wait<0>();
${ "if (previous >= 0) " if view.alternates else "if (%s) " | format(any_k(view)) if view.may_be_empty }release_stage(shared, previous);
//% endif
//% if view.alternates and not view.guarded
promote(acc[1], totals);
//% endif
//% endmacro
