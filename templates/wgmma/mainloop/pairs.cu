/*# Two k tiles a round, whose sums have accumulators by turns: those of one are added to totals while the other is multiplied. There
    may be an odd one, which comes first. #*/
//% import "wgmma/mainloop/promoted.cu" as promoted
//% from "wgmma/stage.cu" import load_block_scales, passed_scales
//% from "wgmma/range.cu" import k_begin, k_end, k_extent, stage_arguments
//% set types, origin, functions = promoted.types, promoted.origin, promoted.functions
//% set k_tiles, range_step = promoted.k_tiles, promoted.range_step
//% macro products(view)
//% import view.tiles as tiles
Accumulators acc[2] = {}, totals = {};
//% if view.blocks_scaled
BlockScales scales[2] = {};
//% endif
int k = ${ k_begin(view) }, previous = -1;  // the stage that products under way may still read, if any
//% if view.odd
if ((${ k_extent(view) } + BK - 1) / BK % 2 == 1) {  // an odd number of k tiles: the first alone
//% if view.blocks_scaled
    ${ load_block_scales(view, "k", "[0]") }
//% endif
    mbarrier_wait(&shared.full[ring.stage], ring.parity);
    wgmma_fence();
    multiply_stage(shared, ${ stage_arguments(view) }acc[0]);
    wgmma_commit();
    wgmma_wait<0>();
    release_stage(shared, ring.stage);
    promote(acc[0], ${ passed_scales(view, "[0]") }totals);
    ring.advance();
    k += BK;
}
//% endif
//% if view.guarded
// The last wait stays inside: after the if ptxas cannot tell whether wgmmas are in flight, and serialises all.
if (k < ${ k_end(view) }) {
${ rounds(view) | indent(4, true) | trim("\n") }
    wgmma_wait<0>();
    release_stage(shared, previous);
    promote(acc[1], ${ passed_scales(view, "[1]") }totals);
}
//% else
${ rounds(view) | trim("\n") }
${ tiles.pass_turn(view) }wgmma_wait<0>();
if (previous >= 0) release_stage(shared, previous);
promote(acc[1], ${ passed_scales(view, "[1]") }totals);
//% endif
//% endmacro
//% macro rounds(view)
for (; k < ${ k_end(view) }; k += 2 * BK) {
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
//% if view.blocks_scaled
        ${ load_block_scales(view, "k + i * BK", "[i]") }
//% endif
        mbarrier_wait(&shared.full[ring.stage], ring.parity);
        wgmma_wait<0>();  // for the k tile before
        wgmma_fence();
        multiply_stage(shared, ${ stage_arguments(view) }acc[i]);
        wgmma_commit();
        if (previous >= 0) release_stage(shared, previous);
        promote(acc[1 - i], ${ passed_scales(view, "[1 - i]") }totals);  // zeros, before the first pair
        previous = ring.stage;
        ring.advance();
    }
}
//% endmacro
