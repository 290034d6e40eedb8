/*# Likewise for elements that are narrower than the sums, which are taken out of their registers one by one. #*/
//% from "device/packed.cu" import access
//% import "skinny/stream/along_k.cu" as along_k
//% set accumulators, lines, products = along_k.accumulators, along_k.lines, along_k.products
//% macro stream(x, w, view)
//% import view.small as small
using Chunk = ${ small.chunk(chunk_of_registers(x), "%s[S][PITCH]" | format(T)) };  // of ${ x.X } ${ small.where }, an access along its lines

${ along_k.thread_origin(w) }
${ along_k.fetch(w, view) }
// acc += ${ x.X }'s S values times the weights of T ${ lines[w.X] }, over VW k from `k` on: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const ${ access(w, "VW") } (&weights)[LOADS], ${ T } (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; ++i) {
${ small.choose(by_element(x), by_vector()) | indent(8, true) | trim("\n") }
    }
}

${ along_k.store_sums(w) }
//% endmacro
//% set chunk, value = {true: "[S][VW / XW]", false: "[VW][S / XW]"}, {true: "[i][v / XW][v % XW]", false: "[v][i / XW][i % XW]"}
//% macro chunk_of_registers(x)
${ access(x, "XW") }${ chunk[x.along_k] }
//%- endmacro
//% macro by_element(x)
#pragma unroll
for (int v = 0; v < VW; ++v) {
    const ${ T } x = chunk${ value[x.along_k] };
    #pragma unroll
    for (int t = 0; t < T; ++t) acc[i][t] = ${ fma }(x, weights[t][v], acc[i][t]);
}
//% endmacro
//% macro by_vector()
#pragma unroll
for (int v = 0; v < VW; v += RX) {
    const Vec<${ of.sums }RX> x = load<RX>(&chunk[i][k + v]);
    #pragma unroll
    for (int t = 0; t < T; ++t) {
        #pragma unroll
        for (int j = 0; j < RX; ++j) acc[i][t] = ${ fma }(x.at[j], weights[t][v + j], acc[i][t]);
    }
}
//% endmacro
