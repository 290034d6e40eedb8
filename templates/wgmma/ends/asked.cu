/*# Likewise where there may be no k tile, whose stage would be released. #*/
//% from "wgmma/range.cu" import any_k
//% macro to_the_end(view)
//% import view.tiles as tiles
${ caller() | trim("\n") }
${ tiles.pass_turn(view) }wgmma_wait<0>();
if (${ any_k(view) }) release_stage(shared, previous);
//% endmacro
