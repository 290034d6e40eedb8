/*# Stream-K: the blocks of the last wave, which would leave a part of the card idle, share its tiles. Parts add up as those of
    split K do. gemmgen/kernel/streamk.py says the same in Python. #*/
//% from "device/parts.cu" import add_parts
//% from "device/raster.cu" import tile_rows, tile_columns
//% macro stream_k()
// Who computes which tiles of C. STREAM blocks run at once, a wave. The tiles of whole waves have a block each. Those that are
// left have one each, too, which does only its first `own` steps along K; the other blocks of their wave, the helpers, do
// the rest: as if the rest of all these tiles stood in one row, each helper takes a run of it. So all blocks of the wave have
// about as many steps to do, and most of them go through the same depths of K at the same time, which serves the caches.
struct Shares {
    int tiles;       // of C, and blocks that are no helpers
    int whole;       // of these, the first ones, are whole waves
    int steps;       // of a tile: at least one, which stores C where K = 0
    int own;         // of a shared tile, which the block does that has its number
    int helpers;     // blocks that do the rest: no more than this has steps
    long long rest;  // steps that helpers do
};

__device__ __forceinline__ Shares shares_of(Shape s)
{
    const int tiles = (${ tile_rows }) * (${ tile_columns }), shared = tiles % STREAM;
    const int steps = max(1, (s.K + BK - 1) / BK);
    const int own = static_cast<int>((static_cast<long long>(shared) * steps + STREAM - 1) / STREAM);
    const long long rest = static_cast<long long>(shared) * (steps - own);
    return {tiles, tiles - shared, steps, own, static_cast<int>(min(rest, static_cast<long long>(STREAM - shared))), rest};
}

// The first of the helpers' steps that one of them takes. It takes those up to the next helper's first.
__device__ __forceinline__ long long first_step(const Shares& shares, int helper)
{
    return helper * shares.rest / shares.helpers;
}

// The helper that takes one of their steps: the last one whose first step is no later.
__device__ __forceinline__ int helper_of(const Shares& shares, long long step)
{
    return static_cast<int>(((step + 1) * shares.helpers - 1) / shares.rest);
}

// What a block does: `length` steps, the first of them `step` of `tile`, the others behind it and in the tiles that follow.
struct Run {
    int tile, step, length;
};

__device__ __forceinline__ Run run_of_block(const Shares& shares)
{
    const int block = blockIdx.x, helper = block - shares.tiles;
    if (helper < 0) return {block, 0, block < shares.whole ? shares.steps : shares.own};
    if (helper >= shares.helpers) return {0, 0, 0};  // nothing is left for this one
    const int rest = shares.steps - shares.own;  // of a tile
    const long long first = first_step(shares, helper);
    return {
        shares.whole + static_cast<int>(first / rest), shares.own + static_cast<int>(first % rest),
        static_cast<int>(first_step(shares, helper + 1) - first),
    };
}

${ add_parts() }
// What the blocks of a tile share, one where the tile is this block's alone.
__device__ __forceinline__ Parts parts_of_tile(const Shares& shares, int tile, ${ T }* partials, unsigned* tickets)
{
    const int shared = tile - shares.whole;
    if (shared < 0 || shares.helpers == 0) return {partials, 1, 0, tickets};
    const int rest = shares.steps - shares.own;  // of a tile
    const long long begin = static_cast<long long>(shared) * rest;
    const int first = helper_of(shares, begin), last = helper_of(shares, begin + rest - 1);
    // A tile's own block leaves part 0, the helpers theirs behind it, in the order of their steps. From tile to tile the
    // parts go on where they ended: a helper's next part is in the next tile, behind that tile's own.
    const int helper = static_cast<int>(blockIdx.x) - shares.tiles, mine = helper < 0 ? 0 : helper - first + 1;
    ${ T }* const parts = partials + static_cast<long long>(first + 2 * shared) * (BM * BN);
    return {parts, last - first + 2, mine, tickets + shared};
}
//% endmacro
