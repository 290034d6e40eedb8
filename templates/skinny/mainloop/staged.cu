/*# Each thread sums over its own k of one chunk after the other. Weights are under way to a ring of registers. #*/
//% from "device/packed.cu" import access
//% from "skinny/edge/end.cu" import end_argument
//% macro sum_products(x, w, view)
    // A ring of registers: a step's weights are loaded UNROLL steps before their use, also while the block waits.
    ${ access(w, "VW") } weights[UNROLL][LOADS];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, weights[u]);

    ${ T } acc[S][T] = {};
//% call chunks(x, view)
mma(chunk, at, weights[u], acc);
fetch(${ w.X }, s, k + at + UNROLL * STEP, end, ${ w.mn }, weights[u]);
//% endcall
//% endmacro
/*# The loops over chunks, and over a chunk's steps. #*/
//% macro chunks(x, view)
    for (int k = begin; k < end; k += BK) {
        __syncthreads();  // no thread reads the chunk before any more
        stage(${ x.X }, s, tile_${ x.mn }, k${ end_argument(view) }, chunk);
        __syncthreads();  // the chunk is complete
//% if view.k_ends
        const int depth = min(BK, end - k);
        for (int step = 0; step < depth; step += UNROLL * STEP) {
//% else
//% if view.chunk_steps > 1
        #pragma unroll 1  // or the compiler delays the loads
//% endif
        for (int step = 0; step < BK; step += UNROLL * STEP) {
//% endif
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int at = thread.k + step + u * STEP;  // in the chunk
${ caller() | indent(16, true) | trim("\n") }
            }
        }
    }
//% endmacro
