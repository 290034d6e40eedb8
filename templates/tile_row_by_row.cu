/*# Which tile of C a block computes, and of which matrix, where blocks go through the tiles row by row. #*/
//% from "device/raster.cu" import tile_rows, tile_columns
//% from "signature.cu" import matrices_of
//% macro row_by_row(kernel)
    const int columns = ${ tile_columns };  // of tiles
//% if kernel.problem.batched
    const int rows = ${ tile_rows };
    const int matrix = blockIdx.x / (rows * columns);
${ matrices_of(kernel, "matrix") }    const int tile_m = blockIdx.x / columns % rows, tile_n = blockIdx.x % columns;
//% else
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
//% endif
//% endmacro
