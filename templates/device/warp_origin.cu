/*# Where warps and threads are in the block tile, by the layout of mma.sync's accumulators. #*/
//% macro warp_origin(exchanged=0)
// The first element of this warp's tile within the block tile.
struct WarpOrigin {
    int m, n;
};

__device__ __forceinline__ WarpOrigin warp_origin()
{
    const int warp = threadIdx.x / 32;
    return {warp / (BN / WN) * WM, warp % (BN / WN) * WN};
}

//% if exchanged
// The first of this thread's sums within the block tile, once lanes have exchanged them: it has ${ exchanged } neighbours in row lane / 4 of
// ${ "four instructions" if exchanged == 8 else "two instructions" } side by side, and as many in the row 8 below.
//% else
// The first of this thread's sums within the block tile. Of the 16 x 8 sums of an instruction a thread has two neighbours
// in row lane / 4 and two in the row 8 below.
//% endif
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const WarpOrigin warp = warp_origin();
    const int lane = threadIdx.x % 32;
//% if exchanged == 4
    return {warp.m + lane / 4, warp.n + lane % 2 * 8 + lane % 4 / 2 * 4};
//% else
    return {warp.m + lane / 4, warp.n + lane % 4 * ${ exchanged or 2 }};
//% endif
}
//% endmacro
