/*# A consumer's way through k tiles of the ring: it waits for a stage, multiplies what is there, and releases it. #*/
/*# `loop` goes over k tiles, `later` says that one is not the first of them; `how` stands before acc in calls of multiply_stage,
    and before the step in those of multiply_step. #*/
//% macro multiply_k_tiles(view, loop, later, how)
for (${ loop }, ring.advance()) {
    mbarrier_wait(&shared.full[ring.stage], ring.parity);
//% if view.feeds
    #pragma unroll
    for (int step = 0; step < BK; step += K_STEP) {
        multiply_step(shared, ring.stage, ${ how }step, fragments[step / K_STEP % 2], acc);
        wgmma_wait<1>();  // for the step before, which reads the other fragments
//% if view.in_flight
        if (step == 0 && ${ later }) release_stage(shared, previous);
//% endif
    }
//% else
    wgmma_fence();
    multiply_stage(shared, ring.stage, ${ how }acc);
    wgmma_commit();
//% endif
//% if view.feeds and view.in_flight
    previous = ring.stage;
//% elif view.in_flight
    wgmma_wait<1>();  // for the products of the k tile before
    if (${ later }) release_stage(shared, previous);
    previous = ring.stage;
//% else
    wgmma_wait<0>();
    release_stage(shared, ring.stage);
//% endif
//% if view.promoted and not view.pieces
    promote(acc, totals);
//% endif
}
//% endmacro
/*# Two k tiles a round, so that registers that are in flight have names; there may be an `odd` one, which comes first. Those
    of the last one, in acc[1], are still to be awaited and promoted, where this does not `end` them itself. #*/
//% macro multiply_pairs(view, how, odd, begin, end, ends=false)
int k = ${ begin }, previous = -1;  // the stage that products under way may still read, if any
//% if odd
if ((${ end }${ " - begin" if begin != "0" } + BK - 1) / BK % 2 == 1) {  // one k tile beside the pairs
    mbarrier_wait(&shared.full[ring.stage], ring.parity);
    wgmma_fence();
    multiply_stage(shared, ring.stage, ${ how }acc[0]);
    wgmma_commit();
    wgmma_wait<0>();
    release_stage(shared, ring.stage);
    promote(acc[0], totals);
    ring.advance();
    k ${ "=" if begin == "0" else "+=" } BK;
}
//% endif
//% set pairs
for (; k < ${ end }; k += 2 * BK) {
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        mbarrier_wait(&shared.full[ring.stage], ring.parity);
        wgmma_wait<0>();  // for the products of the k tile before, whose sums are added up beside those that begin
        wgmma_fence();
        multiply_stage(shared, ring.stage, ${ how }acc[i]);
        wgmma_commit();
        if (previous >= 0) release_stage(shared, previous);
        promote(acc[1 - i], totals);  // zeros in the first round
        previous = ring.stage;
        ring.advance();
    }
}
//% if ends
wgmma_wait<0>();
release_stage(shared, previous);
promote(acc[1], totals);
//% endif
//% endset
//% if ends
if (k < ${ end }) {  // with the wait in it: were that behind, sums would be zeros or under way there, and ptxas would serialise all wgmmas
${ pairs | indent(4, true) | trim("\n") }
}
//% else
${ pairs | trim("\n") }
//% endif
//% endmacro
