/*# Likewise in blocks that compute one tile: a branch holds both. #*/
//% from "wgmma/range.cu" import any_k
//% macro to_the_end(view)
// The last wait stays inside: after the if ptxas cannot tell whether wgmmas are in flight, and serialises all.
if (${ any_k(view) }) {
${ caller() | indent(4, true) | trim("\n") }
    wgmma_wait<0>();
    release_stage(shared, previous);
}
//% endmacro
