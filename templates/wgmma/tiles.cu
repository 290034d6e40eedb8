/*# Which tiles of C a block computes, and over which range of K. #*/
/*# Blocks that count as one: those of a cluster, or that share a tile. #*/
//% macro clusters(view, blocks)
${ blocks }${ " / CLUSTER" if view.cluster > 1 else " / SPLIT" if view.split }
//%- endmacro
/*# What a block does of its tiles of C, where these do not take turns: of one alone, or of every so many. #*/
//% macro each_tile(view)
//% if view.persistent
for (int number = ${ clusters(view, "blockIdx.x") }; number < ${ all_tiles(view) }; number += ${ clusters(view, "gridDim.x") }) {
${ caller() | indent(4, true) | trim("\n") }
}
//% else
${ caller() | trim("\n") }
//% endif
//% endmacro
/*# Those of all matrices. #*/
//% macro all_tiles(view)
tiles${ " * " ~ view.batch if view.batched }
//%- endmacro
/*# The tile that the block computes, among those of all matrices, #*/
//% macro number(view)
${ "number" if view.persistent else "static_cast<int>(%s)" | format(clusters(view, "blockIdx.x")) }
//%- endmacro
/*# within its matrix, #*/
//% macro tile_number(view)
${ number(view) }${ " % tiles" if view.batched }
//%- endmacro
/*# and that matrix. #*/
//% macro matrix_number(view)
${ number(view) } / tiles
//%- endmacro
/*# The block's range of K. #*/
//% macro begin(view)
${ "begin" if view.split else "0" }
//%- endmacro
//% macro end(view)
${ "end" if view.split else "s.K" }
//%- endmacro
