/*# global -> shared: the matrices of a batch tile as they are. #*/
//% macro copy(x, async, pointers, edge)
// This thread's copies of MB matrices ${ x.X } to shared memory, as far as the batch has so many.
__device__ __forceinline__ void copy_${ x.x }(const ${ element[x.X] }*${ " const*" if pointers } batch, Shape s, int first, Matrix${ x.X }* shared)
{
    #pragma unroll
    for (int i = 0; i < ${ x.X }_ITERATIONS; ++i) {
        const int access = threadIdx.x + i * THREADS;
        if (MB * ${ x.X }_ACCESSES % THREADS != 0 && access >= MB * ${ x.X }_ACCESSES) break;
        const int matrix = access / ${ x.X }_ACCESSES, within = access % ${ x.X }_ACCESSES;
        const int line = within / (${ x.X }_CONTIGUOUS / V${ x.X }), at = within % (${ x.X }_CONTIGUOUS / V${ x.X }) * V${ x.X };
//% if edge
        if (first + matrix >= s.batch) break;
//% endif
        const ${ element[x.X] }* from = ${ "batch[first + matrix]" if pointers else "batch + (first + matrix) * s.stride_" ~ x.x } + Offset(line) * s.${ x.ld } + at;
//% if async
        cp_async<${ times[x.X] }V${ x.X }>(&shared[matrix][line][at], from, ${ times[x.X] }V${ x.X });
//% else
//% if types.uniform
        store<V${ x.X }>(&shared[matrix][line][at], load<V${ x.X }>(from));
//% else
        const Vec<${ of[x.X] }V${ x.X }> read = load<V${ x.X }>(from);
        #pragma unroll
        for (int v = 0; v < V${ x.X }; ++v) shared[matrix][line][at + v] = read.at[v];
//% endif
//% endif
    }
}
//% endmacro
