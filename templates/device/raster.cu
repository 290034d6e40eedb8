/*# Tiles of C below and beside each other. #*/
//% set tile_rows, tile_columns = "(s.M + BM - 1) / BM", "(s.N + BN - 1) / BN"
//% macro raster(group)
//% if group == 1
// The raster: which tile of C a block computes. Blocks follow the rows of tiles, one after the other: GROUP is 1.
//% else
// The raster: which tile of C a block computes. Blocks go down GROUP tile rows before the next tile column, so
// that blocks that run together read the same tiles of A and B from L2.
//% endif
struct TileOrigin {
    int m, n;
};

__device__ __forceinline__ TileOrigin tile_of_block(Shape s, int block)
{
    const int rows = ${ tile_rows }, columns = ${ tile_columns };  // of tiles
    const int group = block / (GROUP * columns);
    const int first = group * GROUP;
    const int height = min(GROUP, rows - first);  // the last group may be lower
    const int within = block % (GROUP * columns);
    return {(first + within % height) * BM, within / height * BN};
}
//% endmacro
