/*# Weights whose lines run across C: LANES lanes of a warp take neighbouring weights of one k, other lanes other k. #*/
//% from "device/packed.cu" import access, start, weights
//% from "device/warp_sum.cu" import warp_sum
//% from "skinny/edge.cu" import weights_exist
//% macro stream(x, w, view)
//% if view.direct and types.uniform
using Chunk = ${ element[x.X] }[1][S];  // ${ x.X }'s values that a step's weights are multiplied by, in registers: [k][${ x.mn }]

//% elif view.direct and x.along_k
using Chunk = ${ access(x, "XW") }[S][DEPTH / XW];  // ${ x.X }'s values that a step's weights are multiplied by, in registers: [${ x.mn }][k]

//% elif view.direct
using Chunk = ${ access(x, "XW") }[DEPTH][S / XW];  // ${ x.X }'s values that a step's weights are multiplied by, in registers: [k][${ x.mn }]

//% else
using Chunk = ${ T }[BK][PITCH];  // of ${ x.X } in shared memory: [k][${ x.mn }], so that a k's values are neighbours

//% endif
// This thread's first weights, from the block's: ${ "one k" if types.uniform else "DEPTH k" } for each LANES lanes, which take neighbouring vectors of it.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    return {group${ " * DEPTH" if not types.uniform }, lane * VW};
}

${ output(w) }
//% if not types.uniform
${ fetch(w, view) }
// acc += the outer products of ${ x.X }'s S values and this thread's T weights at DEPTH k: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const ${ access(w, "VW") } (&weights)[LOADS], ${ T } (&acc)[S][T])
{
    #pragma unroll
    for (int depth = 0; depth < DEPTH; ++depth) {
//% if view.direct
        #pragma unroll
        for (int i = 0; i < S; ++i) {
            const ${ T } x = chunk${ "[i][depth / XW][depth % XW]" if x.along_k else "[depth][i / XW][i % XW]" };
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i][t] = ${ fma }(x, weights[(depth * T + t) / VW][t % VW], acc[i][t]);
        }
//% else
        #pragma unroll
        for (int i = 0; i < S; i += FX) {
            const Vec<${ of.sums }FX> x = load<FX>(&chunk[k + depth][i]);  // the same for LANES lanes, in other banks for others
            #pragma unroll
            for (int j = 0; j < FX; ++j) {
                #pragma unroll
                for (int t = 0; t < T; ++t) acc[i + j][t] = ${ fma }(x.at[j], weights[(depth * T + t) / VW][t % VW], acc[i + j][t]);
            }
        }
//% endif
    }
}
//% else
// Start the loads of one step: this thread's ${ w.extent } of ${ w.X } at k, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const ${ T }* ${ w.X }, Shape s, int k, int end, int ${ w.mn }, Vec<VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int first = ${ w.mn } + output(i * VW);
${ weights_exist(w, view, "k", "first", "s.%s - first" | format(w.MN)) | indent(8, true) | trim("\n") }
        weights[i] = load_edge<VW>(${ w.X } + Offset(k) * s.${ w.ld } + first, valid);
    }
}

// acc += the outer product of ${ x.X }'s S values at k and this thread's T weights: every weight serves S times.
__device__ __forceinline__ void mma(const Chunk& chunk, int k, const Vec<VW> (&weights)[LOADS], ${ T } (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; i += FX) {
        const Vec<FX> x = load<FX>(&chunk[k][i]);${ "  // the same for LANES lanes, in other banks for others" if not view.direct }
        #pragma unroll
        for (int j = 0; j < FX; ++j) {
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i + j][t] = ${ fma }(x.at[j], weights[t / VW].at[t % VW], acc[i + j][t]);
        }
    }
}
/*% endif %*/

//% if view.grouped
${ warp_sum(grouped=true) }
// Reduce the sums of a warp's groups, each over its own k, and store them to shared memory.
__device__ __forceinline__ void store_sums(${ T } (&acc)[S][T], ThreadOrigin thread, Sums* sums)
{
    ${ T } (&values)[S * T] = reinterpret_cast<${ T } (&)[S * T]>(acc);
    warp_sum<16>(values);
    const int warp = threadIdx.x / 32;
    const int first = threadIdx.x % 32 / LANES * (S * T);  // GROUPS times the number of this group's first sum
    if (first % GROUPS != 0) return;                       // a group before it has the same sum
    #pragma unroll
    for (int i = 0; i < (S * T + GROUPS - 1) / GROUPS; ++i) {
        const int value = first / GROUPS + i;
        sums[warp][value / T][thread.${ w.mn } + output(value % T)] = values[i];
    }
}
//% else
//% set store_width = "VW" if types.uniform else "RX"
// Store this thread's sums, over the k of its warp, to shared memory.
__device__ __forceinline__ void store_sums(${ T } (&acc)[S][T], ThreadOrigin thread, Sums* sums)
{
    const int warp = threadIdx.x / 32;
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        #pragma unroll
        for (int t = 0; t < T; t += ${ store_width }) {
            Vec<${ of.sums }${ store_width }> values;
            #pragma unroll
            for (int v = 0; v < ${ store_width }; ++v) values.at[v] = acc[i][t + v];
            store<${ store_width }>(&sums[warp][i][thread.${ w.mn } + output(t)], values);
        }
    }
}
//% endif
//% endmacro

//% macro output(w)
// The ${ w.mn } of the thread's output t, from the first one: vectors lie LANES of them apart.
__device__ __forceinline__ int output(int t)
{
    return t / VW * (LANES * VW) + t % VW;
}
//% endmacro

//% macro fetch(w, view)
// Start the loads of one step: this thread's ${ w.extent } of ${ w.X } at DEPTH k, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const ${ element[w.X] }* ${ w.X }, Shape s, int k, int end, int ${ w.mn }, ${ weights(w, view) })
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int depth = k + i / (T / VW), first = ${ w.mn } + output(i % (T / VW) * VW);
${ weights_exist(w, view, "k" if view.whole_steps else "depth", "first", "s.%s - first" | format(w.MN)) | indent(8, true) | trim("\n") }
${ start(w, "i", w.X ~ " + Offset(depth) * s." ~ w.ld ~ " + first", view) }    }
//% if view.ring
    cp_async_commit();
//% endif
}
//% endmacro
