/*# Where warps and threads are in the block tile, by the layout of mma.sync's accumulators. #*/
//% macro warp_origin(view)
// The first element of this warp's tile within the block tile.
struct WarpOrigin {
    int m, n;
};

__device__ __forceinline__ WarpOrigin warp_origin()
{
    const int warp = threadIdx.x / 32;
    return {warp / (BN / WN) * WM, warp % (BN / WN) * WN};
}

// The first of this thread's sums within the block tile, once lanes have exchanged them if they do. It has the sums of ${ view.together }
// neighbouring columns in that row, and in the next one or the row 8 below.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const WarpOrigin warp = warp_origin();
    const int lane = threadIdx.x % 32;
//% set row = {true: "lane / 4 * 2", false: "lane / 4"}[view.a.pairs]
//% if view.exchanges | length == 1
    return {warp.m + ${ row }, warp.n + lane % 2 * ${ 2 * view.together } + lane % 4 / 2 * ${ view.together }};
//% else
    return {warp.m + ${ row }, warp.n + lane % 4 * ${ view.together }};
//% endif
}
//% endmacro
