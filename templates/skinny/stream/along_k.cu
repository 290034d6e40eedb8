/*# Weights whose lines run along k: a warp takes T rows or columns, its lanes neighbouring vectors along k. #*/
//% from "device/packed.cu" import access
//% from "device/warp_sum.cu" import warp_sum
//% from "skinny/edge/end.cu" import weights_exist
//% set accumulators, lines = T ~ " acc[S][T]", {"A": "rows", "B": "columns"}
//% macro stream(x, w, view)
//% import view.small as small
using Chunk = ${ small.chunk(chunk_of_registers(x), "%s[S][PITCH]" | format(T)) };  // of ${ x.X } ${ small.where }: [${ x.mn }][k]

${ thread_origin(w) }
${ fetch(w, view) }
// acc += ${ x.X }'s S values times the weights of T ${ lines[w.X] }, over VW k from `k` on: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const Vec<VW> (&weights)[LOADS], ${ T } (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        const Vec<VW> x = load<VW>(&chunk[i][k]);
        #pragma unroll
        for (int t = 0; t < T; ++t) {
            #pragma unroll
            for (int v = 0; v < VW; ++v) acc[i][t] = ${ fma }(x.at[v], weights[t].at[v], acc[i][t]);
        }
    }
}

${ store_sums(w) }
//% endmacro
//% macro chunk_of_registers(x)
${ element[x.X] }[S][VW]
//%- endmacro
//% macro thread_origin(w)
// This thread's first weights, from the block's: T ${ lines[w.X] } per warp, whose lanes take neighbouring vectors along k.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {lane * VW, warp * T};
}

//% endmacro
//% macro fetch(w, view)
//% import view.weights as weights
//% set left = {true: "end - k", false: "VW"}
// Start the loads of one step: VW k from `k` on of the warp's T ${ lines[w.X] } of ${ w.X }, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const ${ element[w.X] }* ${ w.X }, Shape s, int k, int end, int ${ w.mn }, ${ weights.weights(w) })
{
    #pragma unroll
    for (int t = 0; t < T; ++t) {
        const bool exists = ${ weights_exist("k", w.mn ~ " + t", w, view) };
        const int valid = exists ? ${ left[view.partial] } : 0;
        ${ weights.start(w, "t", w.X ~ " + Offset(" ~ w.mn ~ " + t) * s." ~ w.ld ~ " + k", view) }    }
${ weights.commit() }}

//% endmacro
//% macro store_sums(w)
${ warp_sum() }
// Reduce the sums of a warp's lanes, each over its own k, and store them to shared memory.
__device__ __forceinline__ void store_sums(${ T } (&acc)[S][T], ThreadOrigin thread, Sums* sums)
{
    ${ T } (&values)[S * T] = reinterpret_cast<${ T } (&)[S * T]>(acc);
    warp_sum<16>(values);
    const int first = threadIdx.x % 32 * (S * T);  // 32 times the number of this lane's first sum
    if (first % 32 != 0) return;                   // a lane before it has the same sum
    #pragma unroll
    for (int i = 0; i < (S * T + 31) / 32; ++i) {
        const int value = first / 32 + i;
        sums[0][value / T][thread.${ w.mn } + value % T] = values[i];
    }
}
//% endmacro
/*# What follows the small operand's functions. #*/
//% macro products(x, w, view)
//%- endmacro
