//% macro place(warped)
// Where this thread's elements start within the block's tile. They come in FM x FN patches, STEP_M and
// STEP_N apart, so that neighbouring threads read neighbouring addresses of shared memory.
struct Place {
    int m, n;
};

__device__ __forceinline__ Place place_of_thread()
{
//% if warped
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Lanes zigzag in pairs: i and i^1 share rows, i and i^2 columns (if LANES_M > 1), so a vector read of
    // either operand meets each address twice in neighbouring lanes and takes half the shared-memory cycles.
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    return {warp / (BN / WN) * WM + lane_m * FM, warp % (BN / WN) * WN + lane_n * FN};
//% else
    return {static_cast<int>(threadIdx.x) / LANES_N * FM, static_cast<int>(threadIdx.x) % LANES_N * FN};
//% endif
}
//% endmacro
