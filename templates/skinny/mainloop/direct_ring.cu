/*# Each thread sums over its own k. Weights are under way to a ring in shared memory. #*/
//% from "device/packed.cu" import access
//% from "skinny/edge/end.cu" import end_argument
//% macro sum_products(x, w, view)
//% import view.stream as stream
    // A ring in shared memory, of which each thread has elements of its own: as soon as it has taken a step's weights, it
    // copies those of UNROLL steps later to their place.
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, ring[u]);

    ${ stream.accumulators } = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int at = thread.k + k + u * STEP;
            Chunk chunk;
            fetch_small(${ x.X }, s, tile_${ x.mn }, at${ end_argument(view) }, chunk);
            ${ access(w, "VW") } weights[LOADS];
            take(ring[u], weights);
            fetch(${ w.X }, s, at + UNROLL * STEP, end, ${ w.mn }, ring[u]);
            mma(chunk, 0, weights, acc);
        }
    }
//% endmacro
