/*# Split K: SPLIT blocks share a tile of C, each sums a part of K, and the last to arrive has the whole sums. #*/
//% from "device/parts.cu" import add_parts
//% macro split_k(step, atomic=false)
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

${ add_parts(atomic, unroll=4) }
// Returns true in one of a tile's SPLIT blocks, with the sums of all of them; the others are done.
template <int COUNT>
__device__ __forceinline__ bool add_splits(${ T } (&sums)[COUNT], ${ T }* partials, unsigned* tickets)
{
    const long long tile = blockIdx.x / SPLIT;
//% if atomic
    return add_parts(sums, partials + tile * (BM * BN), SPLIT, tickets + tile);
//% else
    return add_parts(sums, partials + tile * SPLIT * (BM * BN), blockIdx.x % SPLIT, SPLIT, tickets + tile);
//% endif
}
//% endmacro
