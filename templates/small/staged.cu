/*# The small operand passes through shared memory: a block's threads bring a chunk of it there together. #*/
//% macro small(x, w, view)
// ${ x.X }'s values at depths [k, k + BK) to shared memory. Zeros stand for those that do not exist, and from depth `end` on.
__device__ __forceinline__ void stage(const float* ${ x.X }, Shape s, int ${ x.mn }, int k, int end, Chunk& chunk)
{
    #pragma unroll ${ view.stage_unroll }
    for (int i = threadIdx.x; i < S * BK; i += THREADS) {  // neighbouring threads read along ${ x.X }'s lines
        const int line = ${ "i / BK" if x.along_k else "i % S" }, depth = ${ "i % BK" if x.along_k else "i / S" };
        const bool exists = k + depth < end && (!EDGE_${ x.MN } || ${ x.mn } + line < s.${ x.MN });
        const Offset at = ${ "Offset(%s + line) * s.%s + k + depth" % (x.mn, x.ld) if x.along_k else "Offset(k + depth) * s.%s + %s + line" % (x.ld, x.mn) };
        chunk[${ "line][depth" if w.along_k else "depth][line" }] = exists ? ${ x.X }[at] : 0.0f;
    }
}
//% endmacro
