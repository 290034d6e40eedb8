/*# The small operand passes through shared memory: all threads of a block copy a chunk of it. #*/
//% macro small(x, w, view)
// ${ x.X }'s values at k to k + BK - 1 to shared memory. Zeros stand for those that do not exist, and from k = `end` on.
__device__ __forceinline__ void stage(const ${ element[x.X] }* ${ x.X }, Shape s, int ${ x.mn }, int k, int end, Chunk& chunk)
{
    #pragma unroll ${ view.stage_unroll }
    for (int i = threadIdx.x; i < S * BK; i += THREADS) {  // neighbouring threads read along ${ x.X }'s lines
        const int line = ${ "i / BK" if x.along_k else "i % S" }, depth = ${ "i % BK" if x.along_k else "i / S" };
        const bool exists = k + depth < end${ " && %s + line < s.%s" % (x.mn, x.MN) if view.x_edge };
        const Offset at = ${ "Offset(%s + line) * s.%s + k + depth" % (x.mn, x.ld) if x.along_k else "Offset(k + depth) * s.%s + %s + line" % (x.ld, x.mn) };
        chunk[${ "line][depth" if w.along_k else "depth][line" }] = exists ? ${ x.X }[at] : ${ zero };
    }
}
//% endmacro

/*# The mainloop: each thread sums over its own k of one chunk after the other. #*/
//% macro sum_products(x, w)
    // A ring of registers: a step's weights are loaded UNROLL steps before their use, also while the block waits.
    Vec<${ of[w.X] }VW> weights[UNROLL][LOADS];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, weights[u]);

    ${ T } acc[S][T] = {};
    for (int k = begin; k < end; k += BK) {
        __syncthreads();  // no thread reads the chunk before any more
        stage(${ x.X }, s, tile_${ x.mn }, k, end, chunk);
        __syncthreads();  // the chunk is complete
        const int depth = min(BK, end - k);
        for (int step = 0; step < depth; step += UNROLL * STEP) {
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int at = thread.k + step + u * STEP;  // in the chunk
                mma(chunk, at, weights[u], acc);
                fetch(${ w.X }, s, k + at + UNROLL * STEP, end, ${ w.mn }, weights[u]);
            }
        }
    }
//% endmacro
