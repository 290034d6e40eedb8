/*# Operands are split into pieces: over each interval of K the products of all pairs of these are summed, and their sums added to
    totals. #*/
//% import "wgmma/mainloop/awaited.cu" as awaited
//% from "prepare/split.cu" import pieces, pair_of
//% from "wgmma/stage.cu" import multiply_stage, promote
//% from "wgmma/range.cu" import k_begin, k_end, k_loop, later, stage_arguments
//% set types, origin = awaited.types, awaited.origin
//% set k_tiles, range_step = "PAIRS * ((s.K + BK - 1) / BK)", "INTERVAL"
//% macro functions(view)
//% import view.blocks as blocks
${ pieces(view) }
${ pair_of(view) }
${ multiply_stage(view, parameter="bool adds, ", adds=", adds || k > 0") }
${ blocks.release_stage() }
${ promote(view) }
//% endmacro
//% macro products(view)
//% import view.tiles as tiles
Accumulators acc = {}, totals = {};
//% if view.in_flight
int previous = 0;  // the stage that products under way may still read
//% endif
for (int first = ${ k_begin(view) }; first < ${ k_end(view) }; first += INTERVAL) {
    for (${ k_loop(view) }, ring.advance()) {
        mbarrier_wait(&shared.full[ring.stage], ring.parity);
        wgmma_fence();
        multiply_stage(shared, ${ stage_arguments(view) }acc);
        wgmma_commit();
//% if view.in_flight
        wgmma_wait<1>();  // for the products of the k tile before
        if (${ later(view) }) release_stage(shared, previous);
        previous = ring.stage;
    }
    wgmma_wait<0>();
    release_stage(shared, previous);
//% else
        wgmma_wait<0>();
        release_stage(shared, ring.stage);
    }
//% endif
    promote(acc, totals);
}
${ tiles.pass_turn(view) }
//% endmacro
