/*# Split-K: SPLIT blocks compute a tile of C, each over a range of K. Each but the last to arrive leaves its sums in the workspace,
    as its threads hold them, and the last one adds them to its own. #*/
//% from "device/convert.cu" import add_to
//% from "device/split.cu" import split_k_range
//% macro split_k(view)
${ split_k_range("INTERVAL" if view.pieces else "BK") }
// Where registers r to r + 3 of this thread's sums, of its instruction i, lie in the partial of its block: those of all threads
// that compute lie side by side, so that a warp's access is of 512 bytes in a row.
__device__ __forceinline__ int place_in_partial(int i, int r)
{
    return ((i * ${ view.sums } + r) / 4 * 128 * CONSUMERS + static_cast<int>(threadIdx.x)) * 4;
}

// Leaves this block's sums, PARTIAL of them, in the workspace.
__device__ __forceinline__ void store_partial(const Accumulators& sums, ${ T }* partial)
{
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) {
        #pragma unroll
        for (int r = 0; r < ${ view.sums }; r += 4)
            store<4>(partial + place_in_partial(i, r), Vec<${ of.sums }4>{sums[i][r], sums[i][r + 1], sums[i][r + 2], sums[i][r + 3]});
    }
}

// True in the last of a tile's blocks to arrive, to which the partials of all others are visible. No block waits for another:
// they may run in any order, at once or not.
__device__ __forceinline__ bool last_to_arrive(Shared& shared, unsigned* semaphore)
{
    named_barrier_sync(1 + CONSUMERS, 128 * CONSUMERS);  // all consumers have stored their partials
    if (threadIdx.x == 0) {
        __threadfence();                                             // release: the partial is visible before the count,
        shared.last = atomicInc(semaphore, SPLIT - 1) == SPLIT - 1;  // which wraps to zero for the next launch;
        __threadfence();                                             // acquire: the partials counted before are visible now
    }
    named_barrier_sync(1 + CONSUMERS, 128 * CONSUMERS);
    return shared.last;
}

// sums = those over all of K, of which these are those of the range `own`.
__device__ __forceinline__ void reduce_partials(const ${ T }* partials, int own, Accumulators& sums)
{
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) {
        #pragma unroll
        for (int r = 0; r < ${ view.sums }; r += 4) {
            const Vec<${ of.sums }4> mine{sums[i][r], sums[i][r + 1], sums[i][r + 2], sums[i][r + 3]};
            #pragma unroll
            for (int c = 0; c < 4; ++c) sums[i][r + c] = ${ zero };
            #pragma unroll
            for (int peer = 0; peer < SPLIT; ++peer) {  // always in this order: the same bits in every run
                const Vec<${ of.sums }4> part = peer == own ? mine : load<4>(partials + peer * PARTIAL + place_in_partial(i, r));
                #pragma unroll
                for (int c = 0; c < 4; ++c) ${ add_to("sums[i][r + c]", "part.at[c]") }
            }
        }
    }
}
//% endmacro
