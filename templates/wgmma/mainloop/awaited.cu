/*# Products of a k tile are awaited before its stage is released. #*/
//% from "wgmma/mainloop/k_tiles.cu" import each_k_tile
//% from "wgmma/stage.cu" import multiply_stage
//% from "wgmma/range.cu" import stage_arguments
//% set k_tiles, range_step = "(s.K + BK - 1) / BK", "BK"
//% macro types(view)
//%- endmacro
/*# Where a thread's first sum is. #*/
//% macro origin(product)
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    return ${ product.origin("warp * 16 + lane / 4", "lane % 4 * 2") };
//% endmacro
//% macro functions(view)
//% import view.blocks as blocks
${ multiply_stage(view) }
${ blocks.release_stage() }
//% endmacro
//% macro products(view)
//% import view.tiles as tiles
Accumulators acc = {};
//% call each_k_tile(view)
wgmma_fence();
multiply_stage(shared, ${ stage_arguments(view) }acc);
wgmma_commit();
wgmma_wait<0>();  // meanwhile products of other consumers keep the tensor cores busy
release_stage(shared, ring.stage);
//% endcall
${ tiles.pass_turn(view) }
//% endmacro
