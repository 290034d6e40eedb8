/*# Products of a k tile go on while the next one is awaited and multiplied: its stage is released a k tile later. #*/
//% import "wgmma/mainloop/awaited.cu" as awaited
//% from "wgmma/mainloop/k_tiles.cu" import each_k_tile
//% from "wgmma/range.cu" import later, stage_arguments
//% set types, origin, functions = awaited.types, awaited.origin, awaited.functions
//% set k_tiles, range_step = awaited.k_tiles, awaited.range_step
//% macro products(view)
//% from view.ends import to_the_end
Accumulators acc = {};
int previous = 0;  // the stage that products under way may still read
//% call to_the_end(view)
//% call each_k_tile(view)
wgmma_fence();
multiply_stage(shared, ${ stage_arguments(view) }acc);
wgmma_commit();
wgmma_wait<1>();  // for the products of the k tile before
if (${ later(view) }) release_stage(shared, previous);
previous = ring.stage;
//% endcall
//% endcall
//% endmacro
