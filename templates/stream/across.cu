/*# Weights whose lines run across C: LANES lanes of a warp take neighbouring weights of one k, the others other k. #*/
//% from "device/warp_sum.cu" import warp_sum
//% macro stream(x, w, view)
//% if view.direct
using Chunk = float[1][S];  // what a step's weights meet, in registers: ${ x.X }'s values, [k][${ x.mn }]

//% else
using Chunk = float[BK][PITCH];  // of ${ x.X } in shared memory: [k][${ x.mn }], so that a k's values are neighbours

//% endif
// Where this thread's weights start, from the block's: one k for each LANES lanes, neighbouring vectors of a line for these.
__device__ __forceinline__ Place place_of_thread()
{
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    return {group, lane * VW};
}

// The ${ w.mn } of the thread's output t, from the first one: vectors lie LANES of them apart.
__device__ __forceinline__ int output(int t)
{
    return t / VW * (LANES * VW) + t % VW;
}

// Start the loads of one step: this thread's ${ "columns" if w.X == "B" else "rows" } of ${ w.X } at depth k, zeros from depth `end` on.
__device__ __forceinline__ void fetch(const float* ${ w.X }, Shape s, int k, int end, int ${ w.mn }, Vec<VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int first = ${ w.mn } + output(i * VW);
        const bool exists = k < end${ " && first < s.%s" % w.MN if view.w_edge };
        const int valid = !exists ? 0 : ${ "s.%s - first" % w.MN if view.partial else "VW" };
        weights[i] = load_edge<VW>(${ w.X } + Offset(k) * s.${ w.ld } + first, valid);
    }
}

// acc += the outer product of ${ x.X }'s S values at depth k and this thread's T weights: every weight serves S times.
__device__ __forceinline__ void multiply(const Chunk& chunk, int k, const Vec<VW> (&weights)[LOADS], float (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; i += FX) {
        const Vec<FX> x = load<FX>(&chunk[k][i]);${ "  // the same for LANES lanes, in other banks for others" if not view.direct }
        #pragma unroll
        for (int j = 0; j < FX; ++j) {
            #pragma unroll
            for (int t = 0; t < T; ++t) acc[i + j][t] = fmaf(x.at[j], weights[t / VW].at[t % VW], acc[i + j][t]);
        }
    }
}

//% if view.grouped
${ warp_sum(grouped=true) }
// Add up what the groups of this thread's warp summed, each over its own depths, and leave it for the block.
__device__ __forceinline__ void leave(float (&acc)[S][T], Place place, Sums* sums)
{
    float (&values)[S * T] = reinterpret_cast<float (&)[S * T]>(acc);
    warp_sum<16>(values);
    const int warp = threadIdx.x / 32;
    const int first = threadIdx.x % 32 / LANES * (S * T);  // GROUPS times the number of this group's first sum
    if (first % GROUPS != 0) return;                       // a group before it has the same sum
    #pragma unroll
    for (int i = 0; i < (S * T + GROUPS - 1) / GROUPS; ++i) {
        const int value = first / GROUPS + i;
        sums[warp][value / T][place.${ w.mn } + output(value % T)] = values[i];
    }
}
//% else
// Leave this thread's sums, which cover its warp's part of the depths, where the block adds them up.
__device__ __forceinline__ void leave(float (&acc)[S][T], Place place, Sums* sums)
{
    const int warp = threadIdx.x / 32;
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        #pragma unroll
        for (int t = 0; t < T; t += VW) {
            Vec<VW> part;
            #pragma unroll
            for (int v = 0; v < VW; ++v) part.at[v] = acc[i][t + v];
            store<VW>(&sums[warp][i][place.${ w.mn } + output(t)], part);
        }
    }
}
//% endif
//% endmacro
