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

//% set row, other_row = ("row 2 * (lane / 4)", "the next row") if view.a.pairs else ("row lane / 4", "the row 8 below")
//% if view.exchanges
// The first of this thread's sums within the block tile, once lanes have exchanged them: it has ${ view.together } neighbours in ${ row } of
// ${ "four instructions" if view.together == 8 else "two instructions" } side by side, and as many in ${ other_row }.
//% elif view.b.pairs
// The first of this thread's sums within the block tile. Of the 16 x 16 sums of two instructions, which have even and odd columns, a
// thread has four neighbours in ${ row } and four in ${ other_row }.
//% else
// The first of this thread's sums within the block tile. Of the 16 x 8 sums of an instruction a thread has two neighbours
// in ${ row } and two in ${ other_row }.
//% endif
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const WarpOrigin warp = warp_origin();
    const int lane = threadIdx.x % 32;
//% set m = "lane / 4 * 2" if view.a.pairs else "lane / 4"
//% if view.exchanges | length == 1
    return {warp.m + ${ m }, warp.n + lane % 2 * ${ 2 * view.together } + lane % 4 / 2 * ${ view.together }};
//% else
    return {warp.m + ${ m }, warp.n + lane % 4 * ${ view.together }};
//% endif
}
//% endmacro
