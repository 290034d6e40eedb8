/*# The products under way after the loop over k tiles, of which there is one at least, are awaited. #*/
//% macro to_the_end(view)
//% import view.tiles as tiles
${ caller() | trim("\n") }
${ tiles.pass_turn(view) }wgmma_wait<0>();
release_stage(shared, previous);
//% endmacro
