/*# A consumer: it multiplies the k tiles of a tile of C, and stores their sums. #*/
//% from "wgmma/epilogue.cu" import store_pieces
//% from "wgmma/prologue.cu" import matrix_of_block, tile_of_block
//% macro consume(kernel, view)
//% import view.blocks as blocks
//% import view.mainloop as mainloop
//% import view.roles as roles
//% import view.schedule as schedule
//% import view.store as store
//% import view.tiles as tiles
//% if view.donates
setmaxnreg_inc<CONSUMER_REGISTERS>();
//% endif
const int consumer = ${ roles.consumer };
${ store.places(view) | trim("\n") }
//% call tiles.each_own_tile(view)
${ tile_of_block(view) }${ schedule.skip(view) }${ matrix_of_block(view) }${ schedule.drop_alpha_of_group(kernel) }/*% if view.pointers and view.staged %*/
const MapOrigin origin_c = map_origin(C_array[matrix]);
/*% endif %*/
${ mainloop.products(view) | trim("\n") }
${ blocks.reduce(view) }${ store_pieces(kernel, view) | trim("\n") }
//% endcall
//% endmacro
