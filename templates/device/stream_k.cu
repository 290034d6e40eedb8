/*# Stream-K for the tiles of the last wave, which would leave SMs idle. Its fixup is that of split-K.
    gemmgen/kernel/streamk.py says the same in Python. #*/
//% from "device/fixup.cu" import fixup
//% from "epilogue/sums.cu" import partial_elements
//% from "device/raster.cu" import tile_rows, tile_columns
//% macro stream_k(kernel)
// Which block computes which k tiles of which tile of C. STREAM blocks run at once, a wave. Tiles of whole waves are
// data-parallel: one block each. A tile of the last wave has an owner, which does its first `owner_k_tiles`. The wave's other
// blocks, the stream blocks, divide the k tiles that are left evenly, tile after tile. So all blocks of the wave do about as
// many k tiles, and most read the same k at the same time, which L2 then holds.
struct StreamK {
    int tiles;           // of C; the first as many blocks own one each
    int data_parallel;   // the tiles of whole waves, which come first
    int k_tiles;         // of one tile: at least one, so that its epilogue stores C where K = 0, too
    int owner_k_tiles;   // the owner's of these, in the last wave
    int stream_blocks;   // no more than there are k tiles for them
    long long streamed;  // k tiles of all stream blocks
};

__device__ __forceinline__ StreamK stream_k_schedule(Shape s)
{
    const int tiles = (${ tile_rows }) * (${ tile_columns }), last_wave = tiles % STREAM;
    const int k_tiles = max(1, (s.K + BK - 1) / BK);
    const int owner_k_tiles = static_cast<int>((static_cast<long long>(last_wave) * k_tiles + STREAM - 1) / STREAM);
    const long long streamed = static_cast<long long>(last_wave) * (k_tiles - owner_k_tiles);
    const int stream_blocks = static_cast<int>(min(streamed, static_cast<long long>(STREAM - last_wave)));
    return {tiles, tiles - last_wave, k_tiles, owner_k_tiles, stream_blocks, streamed};
}

// The number of a stream block's first k tile among the streamed ones. It does those up to the next block's first.
__device__ __forceinline__ long long first_k_tile(const StreamK& schedule, int stream_block)
{
    return stream_block * schedule.streamed / schedule.stream_blocks;
}

// The stream block that does the streamed k tile of this number.
__device__ __forceinline__ int stream_block_of(const StreamK& schedule, long long k_tile)
{
    return static_cast<int>(((k_tile + 1) * schedule.stream_blocks - 1) / schedule.streamed);
}

// What a block does: `k_tiles` k tiles, from number `k_tile` of `tile` on. Those past its last are the next tile's.
struct WorkUnit {
    int tile, k_tile, k_tiles;
};

__device__ __forceinline__ WorkUnit work_unit_of_block(const StreamK& schedule)
{
    const int block = blockIdx.x, stream_block = block - schedule.tiles;
    if (stream_block < 0) return {block, 0, block < schedule.data_parallel ? schedule.k_tiles : schedule.owner_k_tiles};
    if (stream_block >= schedule.stream_blocks) return {0, 0, 0};  // nothing is left for this one
    const int per_tile = schedule.k_tiles - schedule.owner_k_tiles;  // streamed
    const long long first = first_k_tile(schedule, stream_block);
    return {
        schedule.data_parallel + static_cast<int>(first / per_tile),
        schedule.owner_k_tiles + static_cast<int>(first % per_tile),
        static_cast<int>(first_k_tile(schedule, stream_block + 1) - first),
    };
}

${ fixup(kernel) }
// The partials and the semaphore of a tile; one peer where the tile is this block's alone.
__device__ __forceinline__ Fixup stream_k_fixup(const StreamK& schedule, int tile, ${ T }* partials, unsigned* semaphores)
{
    const int in_wave = tile - schedule.data_parallel;  // its number among the tiles of the last wave
    if (in_wave < 0 || schedule.stream_blocks == 0) return {partials, 1, 0, semaphores};
    const int per_tile = schedule.k_tiles - schedule.owner_k_tiles;  // streamed
    const long long begin = static_cast<long long>(in_wave) * per_tile;
    const int first = stream_block_of(schedule, begin), last = stream_block_of(schedule, begin + per_tile - 1);
    // Rank 0 is the owner's, then come the stream blocks in the order of their k tiles. A block whose work unit reaches
    // into the next tile is a peer there, too, so that a tile's partials begin behind those of all tiles before it.
    const int stream_block = static_cast<int>(blockIdx.x) - schedule.tiles;
    const int rank = stream_block < 0 ? 0 : stream_block - first + 1;
    ${ T }* const tile_partials = partials + static_cast<long long>(first + 2 * in_wave) * ${ partial_elements(kernel) };
    return {tile_partials, last - first + 2, rank, semaphores + in_wave};
}
//% endmacro
