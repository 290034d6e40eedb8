/*# Likewise for elements that are narrower than the sums: a thread has DEPTH neighbouring k. #*/
//% from "device/packed.cu" import access
//% from "skinny/edge/end.cu" import weights_exist
//% import "skinny/stream/across.cu" as across
//% set accumulators, lines, products, output = across.accumulators, across.lines, across.products, across.output
//% macro stream(x, w, view)
//% import view.small as small
//% import view.sums as sums
using Chunk = ${ small.chunk(access(x, "XW") ~ chunk[x.along_k], "%s[BK][PITCH]" | format(T)) };  // of ${ x.X } ${ small.where }, an access along its lines

// This thread's first weights, from the block's: DEPTH k for each LANES lanes, which take neighbouring vectors of it.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    return {group * DEPTH, lane * VW};
}

${ output(w) }
${ fetch(w, view) }
// acc += the outer products of ${ x.X }'s S values and this thread's T weights at DEPTH k: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const ${ access(w, "VW") } (&weights)[LOADS], ${ T } (&acc)[S][T])
{
    #pragma unroll
    for (int depth = 0; depth < DEPTH; ++depth) {
${ small.choose(by_element(x), by_vector()) | indent(8, true) | trim("\n") }
    }
}

${ sums.store_sums(w, "RX") }
//% endmacro
//% set chunk = {true: "[S][DEPTH / XW]", false: "[DEPTH][S / XW]"}
//% set value = {true: "[i][depth / XW][depth % XW]", false: "[depth][i / XW][i % XW]"}
//% macro by_element(x)
#pragma unroll
for (int i = 0; i < S; ++i) {
    const ${ T } x = chunk${ value[x.along_k] };
    #pragma unroll
    for (int t = 0; t < T; ++t) acc[i][t] = ${ fma }(x, weights[(depth * T + t) / VW][t % VW], acc[i][t]);
}
//% endmacro
//% macro by_vector()
#pragma unroll
for (int i = 0; i < S; i += FX) {
    const Vec<${ of.sums }FX> x = load<FX>(&chunk[k + depth][i]);  // the same for LANES lanes, in other banks for others
    #pragma unroll
    for (int j = 0; j < FX; ++j) {
        #pragma unroll
        for (int t = 0; t < T; ++t) acc[i + j][t] = ${ fma }(x.at[j], weights[(depth * T + t) / VW][t % VW], acc[i + j][t]);
    }
}
//% endmacro
//% macro fetch(w, view)
//% import view.weights as weights
//% set left = {true: "s.%s - first" | format(w.MN), false: "VW"}
// Start the loads of one step: this thread's ${ lines[w.X] } of ${ w.X } at DEPTH k, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const ${ element[w.X] }* ${ w.X }, Shape s, int k, int end, int ${ w.mn }, ${ weights.weights(w) })
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int depth = k + i / (T / VW), first = ${ w.mn } + output(i % (T / VW) * VW);
        const bool exists = ${ weights_exist(view.last_k, "first", w, view) };
        const int valid = exists ? ${ left[view.partial] } : 0;
        ${ weights.start(w, "i", w.X ~ " + Offset(depth) * s." ~ w.ld ~ " + first", view) }    }
${ weights.commit() }}

//% endmacro
