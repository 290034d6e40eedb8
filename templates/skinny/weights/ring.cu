/*# Steps of weights are under way to shared memory, where each thread has elements of its own. #*/
//% from "device/packed.cu" import access
//% set rest = "shared + RING_WORDS"
/*# The bytes of an access that exist, by whether the end of a line can cut it. #*/
//% set bytes = {true: "W_BYTES * max(0, min(VW, valid))", false: "valid > 0 ? W_BYTES * VW : 0"}
//% macro start(w, i, address, view)
cp_async<W_BYTES * VW>(&weights[${ i }][threadIdx.x], ${ address }, ${ bytes[view.partial] });
//% endmacro
//% macro weights(w)
${ access(w, "VW") } (&weights)[LOADS][THREADS]
//%- endmacro
//% macro commit()
    cp_async_commit();
//% endmacro
//% macro functions(w)
using Ring = ${ access(w, "VW") }[UNROLL][LOADS][THREADS];  // of weights in shared memory: each thread's own

// Wait for the oldest step that is under way, and take this thread's weights of it.
__device__ __forceinline__ void take(const ${ access(w, "VW") } (&step)[LOADS][THREADS], ${ access(w, "VW") } (&weights)[LOADS])
{
    cp_async_wait<UNROLL - 1>();
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) weights[i] = step[i][threadIdx.x];
}

//% endmacro
//% macro declare_ring()
    Ring& ring = *reinterpret_cast<Ring*>(shared);
//% endmacro
