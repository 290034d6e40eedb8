/*# A block computes one tile of C after the other, each by all of its consumers. #*/
//% import "wgmma/tiles/one.cu" as one
//% from "wgmma/range.cu" import all_tiles, first_tile, tile_step
//% set readers, readers_of_cluster = one.readers, one.readers_of_cluster
//% set all_consumers, first_parameter = one.all_consumers, one.first_parameter
//% set advance_by, schedule, pass_turn = one.advance_by, one.schedule, one.pass_turn
//% macro overview()
${ one.overview() | trim("\n") }
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
//% endmacro
//% macro each_tile(view)
for (int number = ${ first_tile(view) }; number < ${ all_tiles(view) }; number += ${ tile_step(view) }) {
${ caller() | indent(4, true) | trim("\n") }
}
//% endmacro
//% macro each_own_tile(view)
for (int number = ${ first_tile(view) }; number < ${ all_tiles(view) }; number += ${ tile_step(view) }) {
${ caller() | indent(4, true) | trim("\n") }
}
//% endmacro
