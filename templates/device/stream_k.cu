/*# Stream-K: the blocks of the last wave share its tiles, and those that would have made another wave, by runs of steps along
    K of equal length. Parts add up as those of split K do. gemmgen/streamk.py says the same in Python. #*/
//% from "device/parts.cu" import add_parts
//% macro stream_k()
// Who computes which tiles of C. STREAM blocks run at once, a wave. The first `whole` blocks of the grid, which are whole
// waves, have a tile each. The last STREAM blocks share the tiles that are left, fewer than two for each: as if all steps
// along K of these tiles stood in one row, each block takes a run of them, as long as any other's but for one step.
struct Shares {
    int whole;        // tiles that have a block of their own
    int steps;        // of a tile: at least one, which stores C where K = 0
    int sharers;      // blocks that share the other tiles: no more than these have steps
    long long total;  // steps of these tiles
};

__device__ __forceinline__ Shares shares_of(Shape s)
{
    const int tiles = ((s.M + BM - 1) / BM) * ((s.N + BN - 1) / BN);
    const int whole = max(0, tiles / STREAM - 1) * STREAM, steps = max(1, (s.K + BK - 1) / BK);
    const long long total = static_cast<long long>(tiles - whole) * steps;
    return {whole, steps, static_cast<int>(min(total, static_cast<long long>(STREAM))), total};
}

// The first of the shared steps that a sharer takes. It takes those up to the next sharer's first.
__device__ __forceinline__ long long first_step(const Shares& shares, int sharer)
{
    return sharer * shares.total / shares.sharers;
}

// The sharer that takes a shared step: the last one whose first step is no later.
__device__ __forceinline__ int sharer_of(const Shares& shares, long long step)
{
    return static_cast<int>(((step + 1) * shares.sharers - 1) / shares.total);
}

// What a block does: `length` steps, the first of them `step` of `tile`, the others behind it and in the tiles that follow.
struct Run {
    int tile, step, length;
};

__device__ __forceinline__ Run run_of_block(const Shares& shares)
{
    const int block = blockIdx.x, sharer = block - shares.whole;
    if (sharer < 0) return {block, 0, shares.steps};
    if (sharer >= shares.sharers) return {0, 0, 0};  // fewer steps than blocks: nothing is left for this one
    const long long first = first_step(shares, sharer);
    return {
        shares.whole + static_cast<int>(first / shares.steps), static_cast<int>(first % shares.steps),
        static_cast<int>(first_step(shares, sharer + 1) - first),
    };
}

${ add_parts() }
// Adds up what the blocks of a tile summed. Returns true in one of them, with the whole sums; the others are done with it.
template <int COUNT>
__device__ __forceinline__ bool add_shares(${ T } (&sums)[COUNT], const Shares& shares, int tile, ${ T }* partials, unsigned* tickets)
{
    const int shared = tile - shares.whole;
    if (shared < 0) return true;  // the tile is this block's alone
    const long long begin = static_cast<long long>(shared) * shares.steps;
    const int first = sharer_of(shares, begin), last = sharer_of(shares, begin + shares.steps - 1);
    if (first == last) return true;
    // All parts of shared tiles in the order of their steps: the next one is the same block's in the next tile, or the next
    // block's, so that the sum of both numbers tells parts apart. A tile's own parts lie side by side.
    ${ T }* const parts = partials + static_cast<long long>(first + shared) * (BM * BN);
    const int mine = static_cast<int>(blockIdx.x) - shares.whole - first;
    return add_parts(sums, parts, mine, last - first + 1, tickets + shared);
}
//% endmacro
