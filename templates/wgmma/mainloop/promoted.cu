/*# The sums of a k tile are added to totals as soon as its products have ended. #*/
//% import "wgmma/mainloop/awaited.cu" as awaited
//% from "wgmma/mainloop/k_tiles.cu" import each_k_tile
//% from "wgmma/stage.cu" import load_block_scales, multiply_stage, passed_scales, promote
//% from "wgmma/range.cu" import stage_arguments
//% set types, origin = awaited.types, awaited.origin
//% set k_tiles, range_step = awaited.k_tiles, awaited.range_step
//% macro functions(view)
//% import view.blocks as blocks
${ multiply_stage(view, adds=", k > 0") }
${ blocks.release_stage() }
${ promote(view) }
//% endmacro
//% macro products(view)
//% import view.tiles as tiles
Accumulators acc = {}, totals = {};
//% if view.blocks_scaled
BlockScales scales;
//% endif
//% call each_k_tile(view)
wgmma_fence();
multiply_stage(shared, ${ stage_arguments(view) }acc);
wgmma_commit();
//% if view.blocks_scaled
${ load_block_scales(view) }
//% endif
wgmma_wait<0>();  // meanwhile products of other consumers keep the tensor cores busy
release_stage(shared, ring.stage);
promote(acc, ${ passed_scales(view) }totals);
//% endcall
${ tiles.pass_turn(view) }
//% endmacro
