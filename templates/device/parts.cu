/*# What blocks that share a tile of C do with their sums: each leaves its part, and the last to arrive adds the parts. One
    launch, no waiting, no float atomics: the parts are added in their order, whichever block does it. But where `atomic`:
    then each block adds its part with atomics, and the last to arrive finds the sums. #*/
//% from "device/add_atomically.cu" import add_atomically
//% macro add_parts(atomic=false, unroll=1)
// True in the last of a tile's `count` blocks to come here, which then sees all that the others wrote before they came.
// Nobody waits for anybody, so it does not matter in which order blocks run, or whether they run at once.
__device__ __forceinline__ bool last_to_arrive(unsigned* ticket, int count)
{
    __shared__ int last;
    __syncthreads();  // the whole block has written its part
    if (threadIdx.x == 0) {
        __threadfence();                                   // it is visible to all before the ticket is taken,
        last = atomicInc(ticket, count - 1) == count - 1;  // (the last ticket turns the counter back to zero)
        __threadfence();                                   // and parts of earlier tickets are visible after it
    }
    __syncthreads();
    return last;
}

//% if atomic
${ add_atomically() }
// Adds up what a tile's `count` blocks summed, in `whole`: this thread's elements are those at THREADS * i + threadIdx.x
// of the tile. Blocks add in the order in which they come, so that bits may differ from run to run.
//% if T == "float"
// Of what they add, denormal numbers count as zero.
//% endif
//% else
// Adds up what a tile's `count` blocks summed. Their parts lie one behind the other, this block's is number `mine`, in which
// this thread's elements are those at THREADS * i + threadIdx.x.
//% endif
// Returns true in one block of the tile, with the whole sums; the others are done.
template <int COUNT>
//% if atomic
__device__ __forceinline__ bool add_parts(${ T } (&sums)[COUNT], ${ T }* whole, int count, unsigned* ticket)
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (COUNT * THREADS == BM * BN || element < BM * BN) add_atomically(whole + element, sums[i]);
    }
    if (!last_to_arrive(ticket, count)) return false;

    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (COUNT * THREADS != BM * BN && element >= BM * BN) break;
        sums[i] = __ldcg(whole + element);
        whole[element] = ${ zero };  // for the next launch
    }
    return true;
}
//% else
__device__ __forceinline__ bool add_parts(${ T } (&sums)[COUNT], ${ T }* parts, int mine, int count, unsigned* ticket)
{
    ${ T }* const own = parts + mine * (BM * BN);
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (COUNT * THREADS == BM * BN || element < BM * BN) own[element] = sums[i];
    }
    if (!last_to_arrive(ticket, count)) return false;

    #pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = ${ zero };
    #pragma unroll ${ unroll }
    for (int part = 0; part < count; ++part) {  // always in this order: the same bits every time
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int element = i * THREADS + threadIdx.x;
            if (COUNT * THREADS == BM * BN || element < BM * BN) sums[i] += __ldcg(parts + part * (BM * BN) + element);
        }
    }
    return true;
}
//% endif
//% endmacro
