/*# A thread's sums of tensor-core instructions to shared memory: `instructions` along C's long side, for each 8 lines of the
    small operand. The caller stores the four of one. #*/
//% macro store_sums(instructions)
// Store this thread's sums, over the k of its warp, to shared memory.
__device__ __forceinline__ void store_sums(const Accumulators& acc, ThreadOrigin thread, Sums* sums)
{
    const int warp = threadIdx.x / 32, line = threadIdx.x % 4 * 2;
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) {
        #pragma unroll
        for (int j = 0; j < ${ instructions }; ++j) {
            #pragma unroll
${ caller() }        }
    }
}
//% endmacro
