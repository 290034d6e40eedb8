/*# All lanes of a warp are at one k: each stores its own sums. #*/
//% macro store_sums(w, width)
// Store this thread's sums, over the k of its warp, to shared memory.
__device__ __forceinline__ void store_sums(${ T } (&acc)[S][T], ThreadOrigin thread, Sums* sums)
{
    const int warp = threadIdx.x / 32;
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        #pragma unroll
        for (int t = 0; t < T; t += ${ width }) {
            Vec<${ of.sums }${ width }> values;
            #pragma unroll
            for (int v = 0; v < ${ width }; ++v) values.at[v] = acc[i][t + v];
            store<${ width }>(&sums[warp][i][thread.${ w.mn } + output(t)], values);
        }
    }
}
//% endmacro
