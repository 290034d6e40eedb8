/*# The small operand as fragments of tensor-core instructions: each thread reads what its own lanes of these hold, with no barrier. #*/
//% from "device/packed.cu" import access
//% from "skinny/edge/end.cu" import end_parameter
//% from "skinny/lines.cu" import address_of
//% import "skinny/small/direct.cu" as direct
//% set aligned, declare_chunk, free_chunk = "", direct.declare_chunk, direct.free_chunk
//% macro small(x, w, view)
//% import view.guard as edge
// Start the loads of this thread's part of ${ x.X } for one step's weights: LANE_K k from `k` on, of line l / 4 in lane l and
// of every 8th after it, or zeros beyond its edges.
__device__ __forceinline__ void fetch_small(const ${ element[x.X] }* ${ x.X }, Shape s, int tile_${ x.mn }, int k${ end_parameter(view) }, Chunk& chunk)
{
    const int ${ x.mn } = tile_${ x.mn } + threadIdx.x % 32 / 4;
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) {
        #pragma unroll
        for (int depth = 0; depth < LANE_K; depth += XW) {
//% filter indent(12, true)
${ edge.guard(x, view, "8 * i") }chunk[i][depth / XW] = ${ edge.load("load_packed", x.X ~ " + " ~ address_of(x, "8 * i")) };
//% endfilter
        }
    }
}

// Two neighbouring k of a line, as a register of a fragment.
__device__ __forceinline__ unsigned two_k(const ${ access(x, "XW") } (&line)[LANE_K / XW], int k)
{
    return line[k / XW].words[k % XW / 2];
}
//% endmacro
