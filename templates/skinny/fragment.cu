/*# The small operand as fragments of tensor-core instructions: each thread reads what its own lanes of these hold, with no barrier. #*/
//% from "device/packed.cu" import access
//% from "skinny/edge.cu" import exists, k_end, valid, zeros
//% macro small(x, w, view)
//% set load, counted = ("load_edge", ", valid") if view.x_guarded else ("load_packed", "")
// Start the loads of this thread's part of ${ x.X } for one step's weights: LANE_K k from `k` on, of line l / 4 in lane l and
// of every 8th after it.${ zeros(view) }
__device__ __forceinline__ void fetch_small(const ${ element[x.X] }* ${ x.X }, Shape s, int tile_${ x.mn }, int k${ k_end(view, "int ") }, Chunk& chunk)
{
    const int ${ x.mn } = tile_${ x.mn } + threadIdx.x % 32 / 4;
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) {
        #pragma unroll
        for (int depth = 0; depth < LANE_K; depth += XW) {
//% if view.x_guarded
            ${ exists(x, view, "8 * i") }
            ${ valid(x, view) }
//% endif
            chunk[i][depth / XW] = ${ load }<XW>(${ x.X } + Offset(${ x.mn } + 8 * i) * s.${ x.ld } + k + depth${ counted });
        }
    }
}

// Two neighbouring k of a line, as a register of a fragment.
__device__ __forceinline__ unsigned two_k(const ${ access(x, "XW") } (&line)[LANE_K / XW], int k)
{
    return line[k / XW].words[k % XW / 2];
}
//% endmacro
