//% macro thread_origin(warped, slices=1)
// The first element of this thread's tile within the block tile. Thread tiles are FM x FN patches, STEP_M and
// STEP_N apart, so that neighbouring threads read neighbouring addresses of shared memory.
//% if slices > 1
// Its slice takes the k from `k` on of every k tile.
//% endif
struct ThreadOrigin {
    int m, n${ ", k" if slices > 1 };
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
//% if warped
    const int warp = threadIdx.x${ " % SLICE_THREADS" if slices > 1 } / 32, lane = threadIdx.x % 32;
    // Lanes zigzag in pairs: i and i^1 share rows, i and i^2 columns (if LANES_M > 1), so in a vector load of
    // either operand neighbouring lanes read the same address, which takes half the shared-memory wavefronts.
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int m = warp / (BN / WN) * WM + lane_m * FM, n = warp % (BN / WN) * WN + lane_n * FN;
//% if slices > 1
    return {m, n, static_cast<int>(threadIdx.x) / SLICE_THREADS * DEPTH};
//% else
    return {m, n};
//% endif
//% else
    return {static_cast<int>(threadIdx.x) / LANES_N * FM, static_cast<int>(threadIdx.x) % LANES_N * FN};
//% endif
}
//% endmacro
