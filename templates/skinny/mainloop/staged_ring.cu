/*# Likewise with a ring in shared memory. #*/
//% from "device/packed.cu" import access
//% from "skinny/mainloop/staged.cu" import chunks
//% macro sum_products(x, w, view)
    // A ring in shared memory, of which each thread has elements of its own: as soon as it has taken a step's weights, it
    // copies those of UNROLL steps later to their place. They arrive also while the block waits.
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) fetch(${ w.X }, s, begin + thread.k + u * STEP, end, ${ w.mn }, ring[u]);

    ${ T } acc[S][T] = {};
//% call chunks(x, view)
${ access(w, "VW") } weights[LOADS];
take(ring[u], weights);
fetch(${ w.X }, s, k + at + UNROLL * STEP, end, ${ w.mn }, ring[u]);
mma(chunk, at, weights, acc);
//% endcall
//% endmacro
