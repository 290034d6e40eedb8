/*# Tiles of C by their numbers in the grid. #*/
//% import "device/raster.cu" as rasters
//% from "epilogue/extent.cu" import of_c
//% from "wgmma/range.cu" import tile_number, tiles_of_matrix
//% set ends, group = of_c, ""
//% macro functions(view)
${ rasters[view.raster]() }
//%- endmacro
/*# How many there are, #*/
//% macro count(view)
/*% if view.persistent or view.batched %*/
    const int tiles = ${ tiles_of_matrix(view) };  // of a matrix C
/*% endif %*/
//%- endmacro
/*# and where the block's lies. #*/
//% macro tile(view)
tile_of_block(s, ${ tile_number(view) }
//%- endmacro
/*# One thread of the producer finds it. #*/
//% macro leave_idle(roles)
    if (${ roles.idle }) return;  // no __syncthreads follows
//%- endmacro
//% macro one_of_warp()
//%- endmacro
/*# All consumers multiply it. #*/
//% macro skip(view)
//%- endmacro
/*# Each has all of K. #*/
//% macro range_of_group(view)
//%- endmacro
//% macro end_of_range(view)
//%- endmacro
//% macro drop_alpha(kernel)
    if (s.K == 0) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endmacro
//% macro drop_alpha_of_group(kernel)
//%- endmacro
