/*# Split K: SPLIT blocks share a tile of C, each sums a part of K, and the last to arrive has the whole sums. #*/
//% from "device/parts.cu" import add_parts
//% macro split_k(step, ragged=false)
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

${ add_parts(ragged) }
// What the SPLIT blocks of this one's tile share.
__device__ __forceinline__ Parts parts_of_split(${ T }* partials, unsigned* tickets)
{
    const long long tile = blockIdx.x / SPLIT;
    return {partials + tile * SPLIT * (BM * BN), SPLIT, static_cast<int>(blockIdx.x % SPLIT), tickets + tile};
}
//% endmacro
