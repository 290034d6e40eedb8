/*# Weights whose lines run along k: a warp takes T rows or columns, its lanes neighbouring vectors along k. #*/
//% from "device/packed.cu" import access, start, weights
//% from "device/warp_sum.cu" import warp_sum
//% from "skinny/edge.cu" import weights_exist
//% macro stream(x, w, view)
//% if view.direct and types.uniform
using Chunk = ${ element[x.X] }[S][VW];  // ${ x.X }'s values that a step's weights are multiplied by, in registers: [${ x.mn }][k]

//% elif view.direct and x.along_k
using Chunk = ${ access(x, "XW") }[S][VW / XW];  // ${ x.X }'s values that a step's weights are multiplied by, in registers: [${ x.mn }][k]

//% elif view.direct
using Chunk = ${ access(x, "XW") }[VW][S / XW];  // ${ x.X }'s values that a step's weights are multiplied by, in registers: [k][${ x.mn }]

//% else
using Chunk = ${ element[x.X] if view.dots else T }[S][PITCH];  // of ${ x.X } in shared memory: [${ x.mn }][k], so that a lane reads vectors along k

//% endif
// This thread's first weights, from the block's: T ${ w.extent } a warp, whose lanes take neighbouring vectors along k.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {lane * VW, warp * T};
}

// Start the loads of one step: VW k from `k` on of the warp's T ${ w.extent } of ${ w.X }, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const ${ element[w.X] }* ${ w.X }, Shape s, int k, int end, int ${ w.mn }, ${ weights(w, view) })
{
    #pragma unroll
    for (int t = 0; t < T; ++t) {
${ weights_exist(w, view, "k", w.mn ~ " + t", "end - k") | indent(8, true) | trim("\n") }
${ start(w, "t", w.X ~ " + Offset(" ~ w.mn ~ " + t) * s." ~ w.ld ~ " + k", view) }    }
//% if view.ring
    cp_async_commit();
//% endif
}

// acc += ${ x.X }'s S values times the weights of T ${ w.extent }, over VW k from `k` on: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const ${ access(w, "VW") } (&weights)[LOADS], ${ T } (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; ++i) {
//% if types.uniform
        const Vec<VW> x = load<VW>(&chunk[i][k]);
        #pragma unroll
        for (int t = 0; t < T; ++t) {
            #pragma unroll
            for (int v = 0; v < VW; ++v) acc[i][t] = ${ fma }(x.at[v], weights[t].at[v], acc[i][t]);
        }
//% elif view.dots
//% if not view.direct
        const ${ access(x, "VW") } x = load_packed<VW>(&chunk[i][k]);
//% endif
        #pragma unroll
        for (int v = 0; v < VW; v += 4) {
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i][t] = dot(${ "chunk[i][v / XW].words[v % XW / 4]" if view.direct else "x.words[v / 4]" }, weights[t].words[v / 4], acc[i][t]);
        }
//% elif view.direct
        #pragma unroll
        for (int v = 0; v < VW; ++v) {
            const ${ T } x = chunk${ "[i][v / XW][v % XW]" if x.along_k else "[v][i / XW][i % XW]" };
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i][t] = ${ fma }(x, weights[t][v], acc[i][t]);
        }
//% else
        #pragma unroll
        for (int v = 0; v < VW; v += RX) {
            const Vec<${ of.sums }RX> x = load<RX>(&chunk[i][k + v]);
            #pragma unroll
            for (int t = 0; t < T; ++t) {
                #pragma unroll
                for (int j = 0; j < RX; ++j) acc[i][t] = ${ fma }(x.at[j], weights[t][v + j], acc[i][t]);
            }
        }
//% endif
    }
}

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
