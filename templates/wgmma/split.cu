/*# Split-K: SPLIT blocks compute a tile of C, each over a range of K, and leave their sums in the workspace, as their threads
    hold them. The last one to arrive adds them up, its own as it left them: a load that need not be is cheaper than a choice. #*/
//% from "device/convert.cu" import add_to
//% from "device/split.cu" import split_k_range
//% macro split_k(view)
${ split_k_range("INTERVAL" if view.pieces else "BK") }
// Where this thread's sums r to r + 3 of instruction i lie in its block's partial. Those of all consumers' threads lie side by
// side, so that a warp's access is 512 contiguous bytes.
__device__ __forceinline__ int place_in_partial(int i, int r)
{
    return ((i * ${ view.sums } + r) / 4 * 128 * CONSUMERS + static_cast<int>(threadIdx.x)) * 4;
}

//% set four = T ~ "4"
// Leaves this block's sums, PARTIAL of them, in the workspace. By __stcg, for the compiler splits a plain store of four registers
// that wgmma returns into four stores.
__device__ __forceinline__ void store_partial(const Accumulators& sums, ${ T }* partial)
{
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) {
        #pragma unroll
        for (int r = 0; r < ${ view.sums }; r += 4)
            __stcg(reinterpret_cast<${ four }*>(partial + place_in_partial(i, r)), ${ four }{sums[i][r], sums[i][r + 1], sums[i][r + 2], sums[i][r + 3]});
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

// sums = those over all of K, from the partials of all ranges. Loads of several partials are under way at once, to hide L2's latency.
__device__ __forceinline__ void reduce_partials(const ${ T }* partials, Accumulators& sums)
{
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) {
        #pragma unroll
        for (int r = 0; r < ${ view.sums }; ++r) sums[i][r] = ${ zero };
    }
    constexpr int PEERS_AT_ONCE = 1 + 127 / (${ view.mmas } * ${ view.sums });  // partials whose loads are under way at once: of 128 registers or more
    #pragma unroll PEERS_AT_ONCE
    for (int peer = 0; peer < SPLIT; ++peer) {  // always in this order: the same bits in every run
        #pragma unroll
        for (int i = 0; i < ${ view.mmas }; ++i) {
            Vec<${ of.sums }4> part[${ view.sums } / 4];
            #pragma unroll
            for (int r = 0; r < ${ view.sums }; r += 4) part[r / 4] = load<4>(partials + peer * PARTIAL + place_in_partial(i, r));
            #pragma unroll
            for (int r = 0; r < ${ view.sums }; ++r) ${ add_to("sums[i][r]", "part[r / 4].at[r % 4]") }
        }
    }
}
//% endmacro
