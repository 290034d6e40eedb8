/*# The small operand passes through shared memory: all threads of a block copy a chunk of it. #*/
//% from "device/packed.cu" import access
//% from "layout.cu" import at, to
//% from "skinny/edge.cu" import exists, k_end, valid, zeros
//% macro small(x, w, view)
//% set load, counted = ("load_edge", ", valid") if view.x_guarded else ("load_packed", "")
// ${ x.X }'s values at k to k + BK - 1 to shared memory.${ zeros(view) }
__device__ __forceinline__ void stage(const ${ element[x.X] }* ${ x.X }, Shape s, int ${ x.mn }, int k${ k_end(view, "int ") }, Chunk& chunk)
{
//% if not types.uniform
    #pragma unroll ${ view.stage_unroll }
    for (int i = threadIdx.x; i < S * BK / XW; i += THREADS) {
//% if x.along_k and w.along_k
        const int line = i * XW / BK, depth = i * XW % BK;  // neighbouring threads read along ${ x.X }'s lines
//% elif x.along_k
        const int line = i % S, depth = i / S * XW;  // neighbouring threads write neighbouring values
//% else
        const int line = i * XW % S, depth = i * XW / S;  // neighbouring threads read along ${ x.X }'s lines
//% endif
//% if view.x_guarded
        ${ exists(x, view, "line") }
        ${ valid(x, view) }
//% endif
        const Offset at = ${ to(x, x.mn ~ " + line", "k + depth") };
        const ${ access(x, "XW") } values = ${ load }<XW>(${ x.X } + at${ counted });
//% if view.dots and x.along_k
        store_packed(&chunk[line][depth], values);
//% else
//% set line, depth = ("line", "depth + j") if x.along_k else ("line + j", "depth")
        #pragma unroll
        for (int j = 0; j < XW; ++j) chunk${ at(w.along_k, line, depth) } = values[j];
//% endif
    }
}
//% else
    #pragma unroll ${ view.stage_unroll }
    for (int i = threadIdx.x; i < S * BK; i += THREADS) {  // neighbouring threads read along ${ x.X }'s lines
        const int ${ "line = i / BK, depth = i % BK" if x.along_k else "line = i % S, depth = i / S" };
//% if view.x_guarded
        ${ exists(x, view, "line") }
//% endif
        const Offset at = ${ to(x, x.mn ~ " + line", "k + depth") };
        chunk${ at(w.along_k, "line", "depth") } = ${ "exists ? %s[at] : %s" % (x.X, zero) if view.x_guarded else x.X ~ "[at]" };
    }
}
//% endif
//% endmacro

/*# The mainloop: each thread sums over its own k of one chunk after the other. #*/
//% macro sum_products(x, w, view)
//% if view.ring
    // A ring in shared memory, of which each thread has elements of its own: as soon as it has taken a step's weights, it
    // copies those of UNROLL steps later to their place. They arrive also while the block waits.
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, ring[u]);
//% else
    // A ring of registers: a step's weights are loaded UNROLL steps before their use, also while the block waits.
    ${ access(w, "VW") } weights[UNROLL][LOADS];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, weights[u]);
/*% endif %*/

    ${ T } acc[S][T] = {};
    for (int k = begin; k < end; k += BK) {
        __syncthreads();  // no thread reads the chunk before any more
        stage(${ x.X }, s, tile_${ x.mn }, k${ k_end(view) }, chunk);
        __syncthreads();  // the chunk is complete
//% if view.k_edge
        const int depth = min(BK, end - k);
//% endif
//% if not view.k_edge and view.chunk_steps > 1
        #pragma unroll 1  // or the compiler delays the loads
//% endif
        for (int step = 0; step < ${ "depth" if view.k_edge else "BK" }; step += UNROLL * STEP) {
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int at = thread.k + step + u * STEP;  // in the chunk
//% if view.ring
                ${ access(w, "VW") } weights[LOADS];
                take(ring[u], weights);
                fetch(${ w.X }, s, k + at + UNROLL * STEP, end, ${ w.mn }, ring[u]);
                mma(chunk, at, weights, acc);
//% else
                mma(chunk, at, weights[u], acc);
                fetch(${ w.X }, s, k + at + UNROLL * STEP, end, ${ w.mn }, weights[u]);
//% endif
            }
        }
    }
//% endmacro
