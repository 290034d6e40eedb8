/*# Stream-K: blocks share the tiles that no whole wave takes, by runs of steps along K of equal length. Kernels add the
    parts up as those that split K do. gemmgen/streamk.py says the same in Python. #*/
//% from "device/parts.cu" import add_parts
//% macro stream_k()
// How blocks share the tiles of C. Those of all whole waves but one have a block each, by the first blocks of the grid. The
// last STREAM blocks, as many as run at once, share the others: an equal run of steps along K for each, tile after tile.
struct Shares {
    int whole;        // tiles that have a block of their own
    int steps;        // of a tile: at least one, which stores C where K = 0
    int sharers;      // blocks that share: no more than there are steps
    long long total;  // steps that they share
};

__device__ __forceinline__ Shares shares_of(Shape s)
{
    const int tiles = ((s.M + BM - 1) / BM) * ((s.N + BN - 1) / BN);
    const int whole = max(0, tiles / STREAM - 1) * STREAM, steps = max(1, (s.K + BK - 1) / BK);
    const long long total = static_cast<long long>(tiles - whole) * steps;
    return {whole, steps, static_cast<int>(min(total, static_cast<long long>(STREAM))), total};
}

// The first of the shared steps that one of the sharers takes, and which of them takes a step.
__device__ __forceinline__ long long first_step(const Shares& shares, int sharer)
{
    return sharer * shares.total / shares.sharers;
}

__device__ __forceinline__ int sharer_of(const Shares& shares, long long step)
{
    return static_cast<int>(((step + 1) * shares.sharers - 1) / shares.total);
}

// What a block does: `length` steps, from one step of a tile on, through the tiles behind it.
struct Run {
    int tile, step, length;
};

__device__ __forceinline__ Run run_of_block(const Shares& shares)
{
    const int block = blockIdx.x, sharer = block - shares.whole;
    if (sharer < 0) return {block, 0, shares.steps};
    if (sharer >= shares.sharers) return {0, 0, 0};
    const long long first = first_step(shares, sharer);
    return {
        shares.whole + static_cast<int>(first / shares.steps), static_cast<int>(first % shares.steps),
        static_cast<int>(first_step(shares, sharer + 1) - first),
    };
}

${ add_parts() }
// Returns true in one of a tile's blocks, with the sums of all of them; the others are done with it.
template <int COUNT>
__device__ __forceinline__ bool add_shares(${ T } (&sums)[COUNT], const Shares& shares, int tile, ${ T }* partials, unsigned* tickets)
{
    const int shared = tile - shares.whole;
    if (shared < 0) return true;
    const long long begin = static_cast<long long>(shared) * shares.steps;
    const int first = sharer_of(shares, begin), last = sharer_of(shares, begin + shares.steps - 1);
    if (first == last) return true;
    // Each part in the order of steps is by one block or one tile further than the part before it.
    ${ T }* const parts = partials + static_cast<long long>(first + shared) * (BM * BN);
    const int mine = static_cast<int>(blockIdx.x) - shares.whole - first;
    return add_parts(sums, parts, mine, last - first + 1, tickets + shared);
}
//% endmacro
