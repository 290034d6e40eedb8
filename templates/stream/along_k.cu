/*# Weights whose lines run along k: a warp takes T lines, its lanes neighbouring vectors along k. #*/
//% from "device/warp_sum.cu" import warp_sum
//% macro stream(x, w, view)
//% if view.direct
using Chunk = float[S][VW];  // what a step's weights meet, in registers: ${ x.X }'s values, [${ x.mn }][k]

//% else
using Chunk = float[S][PITCH];  // of ${ x.X } in shared memory: [${ x.mn }][k], so that a lane reads vectors along k

//% endif
// Where this thread's weights start, from the block's: T lines a warp, neighbouring vectors along k for its lanes.
__device__ __forceinline__ Place place_of_thread()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {lane * VW, warp * T};
}

// Start the loads of one step: VW depths from k on of the warp's T ${ "columns" if w.X == "B" else "rows" } of ${ w.X }, zeros from depth `end` on.
__device__ __forceinline__ void fetch(const float* ${ w.X }, Shape s, int k, int end, int ${ w.mn }, Vec<VW> (&weights)[LOADS])
{
    #pragma unroll
    for (int t = 0; t < T; ++t) {
        const bool exists = k < end${ " && %s + t < s.%s" % (w.mn, w.MN) if view.w_edge };
        const int valid = !exists ? 0 : ${ "end - k" if view.partial else "VW" };
        weights[t] = load_edge<VW>(${ w.X } + Offset(${ w.mn } + t) * s.${ w.ld } + k, valid);
    }
}

// acc += ${ x.X }'s S values times the weights of T lines, over the VW depths from k on: every weight serves S times.
__device__ __forceinline__ void multiply(const Chunk& chunk, int k, const Vec<VW> (&weights)[LOADS], float (&acc)[S][T])
{
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        const Vec<VW> x = load<VW>(&chunk[i][k]);
        #pragma unroll
        for (int t = 0; t < T; ++t) {
            #pragma unroll
            for (int v = 0; v < VW; ++v) acc[i][t] = fmaf(x.at[v], weights[t].at[v], acc[i][t]);
        }
    }
}

${ warp_sum() }
// Add up what the lanes of this thread's warp summed, each over its own depths, and leave it for the block.
__device__ __forceinline__ void leave(float (&acc)[S][T], Place place, Sums* sums)
{
    float (&values)[S * T] = reinterpret_cast<float (&)[S * T]>(acc);
    warp_sum<16>(values);
    const int first = threadIdx.x % 32 * (S * T);  // 32 times the number of this lane's first sum
    if (first % 32 != 0) return;                   // a lane before it has the same sum
    #pragma unroll
    for (int i = 0; i < (S * T + 31) / 32; ++i) {
        const int value = first / 32 + i;
        sums[0][value / T][place.${ w.mn } + value % T] = values[i];
    }
}
//% endmacro
