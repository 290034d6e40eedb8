/*# Tiles of C below and beside each other. #*/
//% set tile_rows, tile_columns = "(s.M + BM - 1) / BM", "(s.N + BN - 1) / BN"
/*# `along`: "m" or "n", in which direction the tiles of a cluster's blocks lie; the cluster has a tile of the grid. #*/
//% macro raster(group, along="")
//% set rows, columns = "CLUSTER_M" if along == "m" else "BM", "CLUSTER_N" if along == "n" else "BN"
//% set where = "tile of block `rank` lies, within the cluster's tile of this number" if along else "tile of this number lies"
//% if group == 1
// The raster: where in C the ${ where }. Numbers follow the rows of tiles, one by one: GROUP is 1.
//% else
// The raster: where in C the ${ where }. Consecutive numbers go down GROUP tile rows before the next tile column,
// so that blocks that run together read the same tiles of A and B from L2.
//% endif
struct TileOrigin { int m, n; };

__device__ __forceinline__ TileOrigin tile_of_block(Shape s, int number${ ", int rank" if along })
{
    const int rows = ${ tile_rows | replace("BM", rows) }, columns = ${ tile_columns | replace("BN", columns) };  // of tiles
    const int group = number / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = number % (GROUP * columns);
    return {(first + within % height) * ${ rows }${ " + rank * BM" if along == "m" }, within / height * ${ columns }${ " + rank * BN" if along == "n" }};
}
//% endmacro
