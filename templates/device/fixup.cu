/*# Fixup of split-K and stream-K: each block of a tile stores its partial sums, and the last to arrive reduces them. One launch,
    no waiting, no float atomics: partials are added in their order, whichever block does it. In a `ragged` tile the last
    elements of some threads do not exist. #*/
//% from "device/convert.cu" import add_to
//% from "epilogue/sums.cu" import partial_elements
//% macro fixup(kernel, ragged=false)
//% set partial, summed = partial_elements(kernel), kernel.problem.epilogue.sums
//% macro check(indented="")
//% if ragged
${ indented }        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
//% endif
//% endmacro
//% if summed
// The partial sums of a tile of C, an array for each of its blocks: those of BM x BN elements, then of rows of A and of
// columns of B. A thread's elements are those at THREADS * i + threadIdx.x.
//% else
// The partial sums of a tile of C, one BM x BN array for each of its blocks. A thread's elements are those at
// THREADS * i + threadIdx.x.
//% endif
struct Fixup {
    ${ T }* partials;
    int peers;  // blocks that compute the tile
    int rank;   // this block's among them
    unsigned* semaphore;
};

// True in the last of a tile's `count` blocks to arrive, to which the partials of all others are visible. No block waits
// for another: they may run in any order, at once or not.
__device__ __forceinline__ bool last_to_arrive(unsigned* semaphore, int count)
{
    __shared__ int last;
    __syncthreads();  // the whole block has stored its partial
    if (threadIdx.x == 0) {
        __threadfence();                                      // release: the partial is visible before the count,
        last = atomicInc(semaphore, count - 1) == count - 1;  // which wraps to zero for the next launch;
        __threadfence();                                      // acquire: the partials counted before are visible now
    }
    __syncthreads();
    return last;
}

//% if summed
// Stores COUNT sums of each thread as its elements from the `first` on.
template <int COUNT>
__device__ __forceinline__ void store_sums(const ${ T } (&sums)[COUNT], int first, const Fixup& fixup)
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) fixup.partials[fixup.rank * ${ partial } + (first + i) * THREADS + threadIdx.x] = sums[i];
}

//% endif
// Stores this block's sums, COUNT of each thread. Returns true in the last of the tile's blocks, which has to reduce the
// partials; the others are done with the tile.
template <int COUNT>
__device__ __forceinline__ bool store_partial(const ${ T }* sums, const Fixup& fixup)
{
    ${ T }* const partial = fixup.partials + fixup.rank * ${ partial };
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int element = i * THREADS + threadIdx.x;
${ check() }        partial[element] = sums[i];
    }
    return last_to_arrive(fixup.semaphore, fixup.peers);
}

// The sums over all blocks of COUNT elements of this thread, from its `first` on.
template <int COUNT>
__device__ __forceinline__ void reduce_partials(const Fixup& fixup, int first, ${ T } (&sums)[COUNT])
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = ${ zero };
    #pragma unroll 4
    for (int peer = 0; peer < fixup.peers; ++peer) {  // always in this order: the same bits in every run
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int element = (first + i) * THREADS + threadIdx.x;
${ check("    ") }            ${ add_to("sums[i]", "__ldcg(fixup.partials + peer * %s + element)" | format(partial)) }
        }
    }
}
//% endmacro
