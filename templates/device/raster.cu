/*# Tiles of C below and beside each other. #*/
//% set tile_rows, tile_columns = "(s.M + BM - 1) / BM", "(s.N + BN - 1) / BN"
/*# A block has a tile of the grid, #*/
//% macro raster()
${ tile_of_block("tile of this number lies", "", tile_rows, "BM", tile_columns, "BN") }
//%- endmacro
/*# or a cluster has, whose blocks compute tiles below each other, #*/
//% macro raster_below()
${ tile_of_block("tile of block `rank` lies, within the cluster's tile of this number", ", int rank", tile_rows | replace("BM", "CLUSTER_M"), "CLUSTER_M + rank * BM", tile_columns, "BN") }
//%- endmacro
/*# or beside each other. #*/
//% macro raster_beside()
${ tile_of_block("tile of block `rank` lies, within the cluster's tile of this number", ", int rank", tile_rows, "BM", tile_columns | replace("BN", "CLUSTER_N"), "CLUSTER_N + rank * BN") }
//%- endmacro
//% macro tile_of_block(what, rank, rows, to_row, columns, to_column)
// The raster: where in C the ${ what }. Consecutive numbers go down GROUP tile rows before the next tile column, so that
// blocks that run together read the same tiles of A and B from L2.
struct TileOrigin { int m, n; };

__device__ __forceinline__ TileOrigin tile_of_block(Shape s, int number${ rank })
{
    const int rows = ${ rows }, columns = ${ columns };  // of tiles
    const int group = number / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = number % (GROUP * columns);
    return {(first + within % height) * ${ to_row }, within / height * ${ to_column }};
}
//% endmacro
