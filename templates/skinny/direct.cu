/*# The small operand without shared memory: each thread reads the values that its own weights are multiplied by, with no barrier. #*/
//% from "device/packed.cu" import access
//% from "layout.cu" import at, to
//% from "skinny/edge.cu" import exists, k_end, valid, zeros
//% macro small(x, w, view)
//% set load, counted = ("load_edge", ", valid") if view.x_guarded else ("load" if types.uniform else "load_packed", "")
// Start the loads of what one step's weights are multiplied by: ${ x.X }'s S values at each of this thread's k from `k` on.${ zeros(view, "\n// ") }
__device__ __forceinline__ void fetch_small(const ${ element[x.X] }* ${ x.X }, Shape s, int ${ x.mn }, int k${ k_end(view, "int ") }, Chunk& chunk)
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
//% set from = "%s + %s" | format(x.X, to(x, x.mn ~ " + line", "k + depth"))
//% if types.uniform
//% set line, depth = ("line", "depth + i") if x.along_k else ("line + i", "depth")
            const Vec<XW> x = ${ load }<XW>(${ from }${ counted });
            #pragma unroll
            for (int i = 0; i < XW; ++i) chunk${ at(w.along_k, line, depth) } = x.at[i];
//% else
            chunk${ "[line][depth / XW]" if x.along_k else "[depth][line / XW]" } = ${ load }<XW>(${ from }${ counted });
//% endif
        }
    }
}
//% endmacro

/*# The mainloop: each thread sums over its own k. #*/
//% macro sum_products(x, w, view)
//% set acc = "Accumulators acc" if view.mma else T ~ " acc[S][T]"
//% if view.ring
    // A ring in shared memory, of which each thread has elements of its own: as soon as it has taken a step's weights, it
    // copies those of UNROLL steps later to their place.
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, ring[u]);

    ${ acc } = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int at = thread.k + k + u * STEP;
            Chunk chunk;
            fetch_small(${ x.X }, s, tile_${ x.mn }, at${ k_end(view) }, chunk);
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
        fetch_small(${ x.X }, s, tile_${ x.mn }, begin + thread.k + u * STEP${ k_end(view) }, chunks[u]);
    }

    ${ acc } = {};
    for (int k = begin; k < end; k += UNROLL * STEP) {
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int next = thread.k + k + (u + UNROLL) * STEP;
            mma(chunks[u], 0, weights[u], acc);
            fetch(${ w.X }, s, next, end, ${ w.mn }, weights[u]);
            fetch_small(${ x.X }, s, tile_${ x.mn }, next${ k_end(view) }, chunks[u]);
        }
    }
//% endif
//% endmacro
