/*# Tiles of C below and beside each other. #*/
//% set tile_rows, tile_columns = "(s.M + BM - 1) / BM", "(s.N + BN - 1) / BN"
/*# `along`: "m" or "n", in which direction the tiles of a cluster's blocks lie; the cluster has a tile of the grid. #*/
//% macro raster(group, along="")
//% set unit = "cluster" if along else "block"
//% set rows, columns = "CLUSTER_M" if along == "m" else "BM", "CLUSTER_N" if along == "n" else "BN"
//% if group == 1
// The raster: which tile of C a ${ unit } computes. ${ unit | capitalize }s follow the rows of tiles, one after the other: GROUP is 1.
//% else
// The raster: which tile of C a ${ unit } computes. ${ unit | capitalize }s go down GROUP tile rows before the next tile column, so
// that those that run together read the same tiles of A and B from L2.
//% endif
struct TileOrigin { int m, n; };

__device__ __forceinline__ TileOrigin tile_of_block(Shape s, int ${ unit }${ ", int rank" if along })
{
    const int rows = ${ tile_rows | replace("BM", rows) }, columns = ${ tile_columns | replace("BN", columns) };  // of tiles
    const int group = ${ unit } / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = ${ unit } % (GROUP * columns);
    return {(first + within % height) * ${ rows }${ " + rank * BM" if along == "m" }, within / height * ${ columns }${ " + rank * BN" if along == "n" }};
}
//% endmacro
