/*# global -> shared: the matrices of a group as they are, line by line. #*/
//% macro copy(x, async, pointers, edge)
// ${ "Start" if async else "Copy" } this thread's share of MB matrices ${ x.X }${ " on their way to" if async else " to" } shared memory${ ", as far as the batch has so many" if edge }.
__device__ __forceinline__ void copy_${ x.x }(const ${ T }*${ " const*" if pointers } batch, Shape s, int first, Matrix${ x.X }* shared)
{
    #pragma unroll
    for (int i = 0; i < ${ x.X }_SHARE; ++i) {
        const int access = threadIdx.x + i * THREADS;
        if (MB * ${ x.X }_ACCESSES % THREADS != 0 && access >= MB * ${ x.X }_ACCESSES) break;
        const int matrix = access / ${ x.X }_ACCESSES, within = access % ${ x.X }_ACCESSES;
        const int line = within / (${ x.X }_LINE / V${ x.X }), at = within % (${ x.X }_LINE / V${ x.X }) * V${ x.X };
//% if edge
        if (first + matrix >= s.batch) break;
//% endif
        const ${ T }* from = ${ "batch[first + matrix]" if pointers else "batch + (first + matrix) * s.stride_" ~ x.x } + Offset(line) * s.${ x.ld } + at;
//% if async
        cp_async<${ size } * V${ x.X }>(&shared[matrix][line][at], from, ${ size } * V${ x.X });
//% else
        store<V${ x.X }>(&shared[matrix][line][at], load<V${ x.X }>(from));
//% endif
    }
}
//% endmacro
