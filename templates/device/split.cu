/*# Split K: SPLIT blocks share a tile of C, each sums a part of K, and the last to arrive adds the parts. One launch,
    no waiting, no float atomics: the parts are added in their order, whichever block does it. But where `atomic`: then
    each block adds its part with atomics, and the last to arrive finds the sums. #*/
//% from "device/add_atomically.cu" import add_atomically
//% macro split_k(step, sliced=false, atomic=false)
//% set threads = "SLICE_THREADS" if sliced else "THREADS"
// The depths [begin, end) that one of a tile's SPLIT blocks sums: equal parts of K, each a whole number of steps. The
// last parts may be shorter, or empty.
struct Depths {
    int begin, end;
};

__device__ __forceinline__ Depths depths_of_split(int K, int split)
{
    const int part = (K + SPLIT * ${ step } - 1) / (SPLIT * ${ step }) * ${ step };
    return {min(K, split * part), min(K, (split + 1) * part)};
}

// True in the last of a tile's SPLIT blocks to come here, which then sees all that the others wrote before they came.
// Nobody waits for anybody, so it does not matter in which order blocks run, or whether they run at once.
__device__ __forceinline__ bool last_to_arrive(unsigned* ticket)
{
    __shared__ int last;
    __syncthreads();  // the whole block has written its part
    if (threadIdx.x == 0) {
        __threadfence();                                   // it is visible to all before the ticket is taken,
        last = atomicInc(ticket, SPLIT - 1) == SPLIT - 1;  // (the last ticket turns the counter back to zero)
        __threadfence();                                   // and parts of earlier tickets are visible after it
    }
    __syncthreads();
    return last;
}

//% if atomic
${ add_atomically() }
//% endif
// Adds up what the tile's SPLIT blocks summed: this thread's elements are those at ${ threads } * i + threadIdx.x of the tile.
// Returns true in one block of the tile, with the whole sums; the others are done.
//% if sliced
// Only the threads with `has_sums` have any; the others come along to the barriers.
//% endif
//% if atomic
// Blocks add in the order in which they come, so that bits may differ from run to run${ "; denormal numbers count as zero" if T == "float" }.
//% endif
template <int COUNT>
__device__ __forceinline__ bool add_splits(${ T } (&sums)[COUNT], ${ T }* partials, unsigned* tickets${ ", bool has_sums" if sliced })
{
    const int tile = blockIdx.x / SPLIT;
//% if atomic
    ${ T }* const whole = partials + static_cast<long long>(tile) * (BM * BN);  // zero when the tile's first block comes
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * ${ threads } + threadIdx.x;
        if (${ "has_sums && (" if sliced }COUNT * ${ threads } == BM * BN || element < BM * BN${ ")" if sliced }) add_atomically(whole + element, sums[i]);
    }
    if (!last_to_arrive(tickets + tile)${ " || !has_sums" if sliced }) return false;

    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * ${ threads } + threadIdx.x;
        if (COUNT * ${ threads } != BM * BN && element >= BM * BN) break;
        sums[i] = __ldcg(whole + element);
        whole[element] = ${ zero };  // for the next launch
    }
//% else
    ${ T }* const parts = partials + static_cast<long long>(tile) * SPLIT * (BM * BN);  // one behind the other
    ${ T }* const mine = parts + blockIdx.x % SPLIT * (BM * BN);
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * ${ threads } + threadIdx.x;
        if (${ "has_sums && (" if sliced }COUNT * ${ threads } == BM * BN || element < BM * BN${ ")" if sliced }) mine[element] = sums[i];
    }
    if (!last_to_arrive(tickets + tile)${ " || !has_sums" if sliced }) return false;

    #pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = ${ zero };
    #pragma unroll 4
    for (int split = 0; split < SPLIT; ++split) {  // always in this order: the same bits every time
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int element = i * ${ threads } + threadIdx.x;
            if (COUNT * ${ threads } == BM * BN || element < BM * BN) sums[i] += __ldcg(parts + split * (BM * BN) + element);
        }
    }
//% endif
    return true;
}
//% endmacro
