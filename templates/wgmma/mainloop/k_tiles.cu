/*# The loop over a tile's k tiles, of which the ring has one after the other. #*/
//% from "wgmma/range.cu" import k_loop
//% macro each_k_tile(view)
//% if view.even
#pragma unroll 1  // ptxas may serialise the wgmmas of a loop that is unrolled as a whole
//% endif
for (${ k_loop(view) }, ring.advance()) {
    mbarrier_wait(&shared.full[ring.stage], ring.parity);
${ caller() | indent(4, true) | trim("\n") }
}
//% endmacro
