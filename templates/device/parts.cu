/*# What blocks that share a tile of C do with their sums: each leaves its part, and the last to arrive adds the parts. One
    launch, no waiting, no float atomics: the parts are added in their order, whichever block does it. Where threads have
    `ragged` shares of the tile, the last ones of some do not exist. #*/
//% macro add_parts(ragged=false)
//% macro check(indented="")
//% if ragged
${ indented }        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
//% endif
//% endmacro
// What the blocks that share a tile of C leave for each other: their sums, one part behind the other, of which this
// thread's are those at THREADS * i + threadIdx.x.
struct Parts {
    ${ T }* sums;
    int count;  // of blocks
    int mine;   // this block's number among them
    unsigned* ticket;
};

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

// Leaves this block's sums, COUNT of each thread, as its part of the tile. Returns true in the last of the tile's blocks, which
// has to add all parts; the others are done with the tile.
template <int COUNT>
__device__ __forceinline__ bool leave_part(const ${ T }* sums, const Parts& parts)
{
    ${ T }* const own = parts.sums + parts.mine * (BM * BN);
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * THREADS + threadIdx.x;
${ check() }        own[element] = sums[i];
    }
    return last_to_arrive(parts.ticket, parts.count);
}

// What all blocks summed for COUNT of this thread's elements, from its `first` on.
template <int COUNT>
__device__ __forceinline__ void add_parts(const Parts& parts, int first, ${ T } (&sums)[COUNT])
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = ${ zero };
    #pragma unroll 4
    for (int part = 0; part < parts.count; ++part) {  // always in this order: the same bits every time
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int element = (first + i) * THREADS + threadIdx.x;
${ check("    ") }            sums[i] += __ldcg(parts.sums + part * (BM * BN) + element);
        }
    }
}
//% endmacro
