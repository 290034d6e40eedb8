/*# Tiles of C below and beside each other. #*/
//% set tile_rows, tile_columns = "(s.M + BM - 1) / BM", "(s.N + BN - 1) / BN"
/*# `unit`: what the tiles are of, whose rows are a multiple of BM. #*/
//% macro raster(group, unit="block", rows="BM", columns="BN")
//% if group == 1
// The raster: which tile of C a ${ unit } computes. ${ unit | capitalize }s follow the rows of tiles, one after the other: GROUP is 1.
//% else
// The raster: which tile of C a ${ unit } computes. ${ unit | capitalize }s go down GROUP tile rows before the next tile column, so
// that ${ unit }s that run together read the same tiles of A and B from L2.
//% endif
struct TileOrigin {
    int m, n;
};

__device__ __forceinline__ TileOrigin tile_of_${ unit }(Shape s, int ${ unit })
{
    const int rows = ${ tile_rows | replace("BM", rows) }, columns = ${ tile_columns | replace("BN", columns) };  // of tiles
    const int group = ${ unit } / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = ${ unit } % (GROUP * columns);
    return {(first + within % height) * ${ rows }, within / height * ${ columns }};
}
//% endmacro
