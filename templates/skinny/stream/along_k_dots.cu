/*# Likewise for bytes: those of four neighbouring k are multiplied and summed at once. #*/
//% from "device/packed.cu" import access
//% import "skinny/stream/along_k.cu" as along_k
//% import "skinny/stream/along_k_packed.cu" as packed
//% set accumulators, lines, products = along_k.accumulators, along_k.lines, along_k.products
//% macro stream(x, w, view)
//% import view.small as small
using Chunk = ${ small.chunk(packed.chunk_of_registers(x), "%s[S][PITCH]" | format(element[x.X])) };  // of ${ x.X } ${ small.where }: [${ x.mn }][k]

${ along_k.thread_origin(w) }
${ along_k.fetch(w, view) }
// acc += ${ x.X }'s S values times the weights of T ${ lines[w.X] }, over VW k from `k` on: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const ${ access(w, "VW") } (&weights)[LOADS], ${ T } (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; ++i) {
${ small.choose("", "        const %s x = load_packed<VW>(&chunk[i][k]);\n" | format(access(x, "VW"))) }        #pragma unroll
        for (int v = 0; v < VW; v += 4) {
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i][t] = dot(${ small.choose("chunk[i][v / XW].words[v % XW / 4]", "x.words[v / 4]") }, weights[t].words[v / 4], acc[i][t]);
        }
    }
}

${ along_k.store_sums(w) }
//% endmacro
