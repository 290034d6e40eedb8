/*# Each thread sums over its own k. Steps are under way to a ring of registers. #*/
//% from "device/packed.cu" import access
//% from "skinny/edge/end.cu" import end_argument
//% macro sum_products(x, w, view)
//% import view.small as small
//% import view.stream as stream
    // A ring of registers: a step's weights, and ${ x.X }'s values for them, are loaded UNROLL steps before their use.
    ${ access(w, "VW") } weights[UNROLL][LOADS];
    ${ small.aligned }Chunk chunks[UNROLL];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, weights[u]);
        fetch_small(${ x.X }, s, tile_${ x.mn }, begin + thread.k + u * STEP${ end_argument(view) }, chunks[u]);
    }

    ${ stream.accumulators } = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int next = thread.k + k + (u + UNROLL) * STEP;
            mma(chunks[u], 0, weights[u], acc);
            fetch(${ w.X }, s, next, end, ${ w.mn }, weights[u]);
            fetch_small(${ x.X }, s, tile_${ x.mn }, next${ end_argument(view) }, chunks[u]);
        }
    }
//% endmacro
