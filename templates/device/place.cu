//% macro place(warped, slices=1)
// Where this thread's elements start within the block's tile. They come in FM x FN patches, STEP_M and
// STEP_N apart, so that neighbouring threads read neighbouring addresses of shared memory.
//% if slices > 1
// Its slice takes the depths from k on of every step.
//% endif
struct Place {
    int m, n${ ", k" if slices > 1 };
};

__device__ __forceinline__ Place place_of_thread()
{
//% if warped
    const int warp = threadIdx.x${ " % SLICE_THREADS" if slices > 1 } / 32, lane = threadIdx.x % 32;
    // Lanes zigzag in pairs: i and i^1 share rows, i and i^2 columns (if LANES_M > 1), so a vector read of
    // either operand meets each address twice in neighbouring lanes and takes half the shared-memory cycles.
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
