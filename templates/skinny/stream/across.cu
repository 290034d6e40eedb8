/*# Weights whose lines run across C: LANES lanes of a warp take neighbouring weights of one k, other lanes other k. #*/
//% from "skinny/edge/end.cu" import weights_exist
//% set accumulators, lines = T ~ " acc[S][T]", {"A": "rows", "B": "columns"}
//% macro stream(x, w, view)
//% import view.small as small
//% import view.sums as sums
//% set left = {true: "s.%s - first" | format(w.MN), false: "VW"}
using Chunk = ${ small.chunk("%s[1][S]" | format(element[x.X]), "%s[BK][PITCH]" | format(T)) };  // of ${ x.X } ${ small.where }: [k][${ x.mn }], so that a k's values are neighbours

// This thread's first weights, from the block's: one k for each LANES lanes, which take neighbouring vectors of it.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    return {group, lane * VW};
}

${ output(w) }
// Start the loads of one step: this thread's ${ lines[w.X] } of ${ w.X } at k, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const ${ T }* ${ w.X }, Shape s, int k, int end, int ${ w.mn }, Vec<VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int first = ${ w.mn } + output(i * VW);
        const bool exists = ${ weights_exist("k", "first", w, view) };
        const int valid = exists ? ${ left[view.partial] } : 0;
        weights[i] = load_edge<VW>(${ w.X } + Offset(k) * s.${ w.ld } + first, valid);
    }
}

// acc += the outer product of ${ x.X }'s S values at k and this thread's T weights: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const Vec<VW> (&weights)[LOADS], ${ T } (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; i += FX) {
        const Vec<FX> x = load<FX>(&chunk[k][i]);  // one address for LANES lanes
        #pragma unroll
        for (int j = 0; j < FX; ++j) {
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i + j][t] = ${ fma }(x.at[j], weights[t / VW].at[t % VW], acc[i + j][t]);
        }
    }
}

${ sums.store_sums(w, "VW") }
//% endmacro
//% macro output(w)
// The ${ w.mn } of the thread's output t, from the first one: vectors lie LANES of them apart.
__device__ __forceinline__ int output(int t)
{
    return t / VW * (LANES * VW) + t % VW;
}

//% endmacro
/*# What follows the small operand's functions. #*/
//% macro products(x, w, view)
//%- endmacro
