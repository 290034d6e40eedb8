/*# Split-K: SPLIT blocks compute a tile of C, each over a range of K. #*/
//% from "device/fixup.cu" import fixup
//% from "epilogue/sums.cu" import partial_elements
/*# `whole`: a range begins at a whole number of steps, also behind the end of K. #*/
//% macro split_k_range(step, whole=false)
// The range [begin, end) of K that one of a tile's SPLIT blocks sums: a whole number of ${ step }, the same for all but the last
// ranges, which may be shorter or empty.
struct KRange {
    int begin, end;
};

__device__ __forceinline__ KRange split_k_range(int K, int split)
{
    const int extent = (K + SPLIT * ${ step } - 1) / (SPLIT * ${ step }) * ${ step };
    return {${ "split * extent" if whole else "min(K, split * extent)" }, min(K, (split + 1) * extent)};
}
//% endmacro
//% macro split_k(kernel, step, ragged=false, whole=false)
${ split_k_range(step, whole) }
${ fixup(kernel, ragged) }
// The partials and the semaphore of this block's tile.
__device__ __forceinline__ Fixup split_k_fixup(${ T }* partials, unsigned* semaphores)
{
    const long long tile = blockIdx.x / SPLIT;
    return {partials + tile * SPLIT * ${ partial_elements(kernel) }, SPLIT, static_cast<int>(blockIdx.x % SPLIT), semaphores + tile};
}
//% endmacro
