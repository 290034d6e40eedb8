/*# The small operand without shared memory: each thread reads the values that its own weights are multiplied by, with no barrier. #*/
//% from "device/packed.cu" import access
//% from "skinny/edge.cu" import exists, valid
//% macro small(x, w, view)
//% set load, counted = ("load_edge", ", valid") if view.x_guarded else ("load" if types.uniform else "load_packed", "")
// Start the loads of what one step's weights are multiplied by: ${ x.X }'s S values at each of this thread's k from `k` on.${ " Zeros stand\n// for those that do not exist" if view.x_guarded }${ ", and from k = `end` on" if view.k_edge }${ "." if view.x_guarded }
__device__ __forceinline__ void fetch_small(const ${ element[x.X] }* ${ x.X }, Shape s, int ${ x.mn }, int k${ ", int end" if view.k_edge }, Chunk& chunk)
{
//% set line_step, depth_step = ("++line", "depth += XW") if x.along_k else ("line += XW", "++depth")
    #pragma unroll
    for (int line = 0; line < S; ${ line_step }) {
        #pragma unroll
        for (int depth = 0; depth < LANE_K; ${ depth_step }) {
//% if view.x_guarded
            ${ exists(x, view, "line") }
            ${ valid(x, view) }
//% endif
//% if not types.uniform
//% if x.along_k
            chunk[line][depth / XW] = ${ load }<XW>(${ x.X } + Offset(${ x.mn } + line) * s.${ x.ld } + k + depth${ counted });
//% else
            chunk[depth][line / XW] = ${ load }<XW>(${ x.X } + Offset(k + depth) * s.${ x.ld } + ${ x.mn } + line${ counted });
//% endif
//% elif x.along_k
            const Vec<XW> x = ${ load }<XW>(${ x.X } + Offset(${ x.mn } + line) * s.${ x.ld } + k + depth${ counted });
            #pragma unroll
            for (int i = 0; i < XW; ++i) chunk[${ "line][depth + i" if w.along_k else "depth + i][line" }] = x.at[i];
//% else
            const Vec<XW> x = ${ load }<XW>(${ x.X } + Offset(k + depth) * s.${ x.ld } + ${ x.mn } + line${ counted });
            #pragma unroll
            for (int i = 0; i < XW; ++i) chunk[${ "line + i][depth" if w.along_k else "depth][line + i" }] = x.at[i];
//% endif
        }
    }
}
//% endmacro

/*# The mainloop: each thread sums over its own k. #*/
//% macro sum_products(x, w, view)
//% if view.ring
    // A ring in shared memory, of which each thread has elements of its own: as soon as it has taken a step's weights, it
    // copies those of UNROLL steps later to their place.
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, ring[u]);

    ${ "Accumulators acc" if view.mma else T ~ " acc[S][T]" } = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int at = thread.k + k + u * STEP;
            Chunk chunk;
            fetch_small(${ x.X }, s, tile_${ x.mn }, at${ ", end" if view.k_edge }, chunk);
            ${ access(w, "VW") } weights[LOADS];
            take(ring[u], weights);
            fetch(${ w.X }, s, at + UNROLL * STEP, end, ${ w.mn }, ring[u]);
            mma(chunk, 0, weights, acc);
        }
    }
//% else
    // A ring of registers: a step's weights, and ${ x.X }'s values for them, are loaded UNROLL steps before their use.
    ${ access(w, "VW") } weights[UNROLL][LOADS];
    ${ "__align__(16) " if types.uniform }Chunk chunks[UNROLL];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, weights[u]);
        fetch_small(${ x.X }, s, tile_${ x.mn }, begin + thread.k + u * STEP${ ", end" if view.k_edge }, chunks[u]);
    }

    ${ "Accumulators acc" if view.mma else T ~ " acc[S][T]" } = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int next = thread.k + k + (u + UNROLL) * STEP;
            mma(chunks[u], 0, weights[u], acc);
            fetch(${ w.X }, s, next, end, ${ w.mn }, weights[u]);
            fetch_small(${ x.X }, s, tile_${ x.mn }, next${ ", end" if view.k_edge }, chunks[u]);
        }
    }
//% endif
//% endmacro
