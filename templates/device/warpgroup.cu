/*# Warps that have different roles. #*/
//% macro named_barrier_sync()
// A __syncthreads for so many of the block's threads, whole warps, at barrier `number` of 1 to 15 (0 is that of all).
__device__ __forceinline__ void named_barrier_sync(int number, int threads)
{
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
//% endmacro
//% macro named_barrier_arrive()
// Arrive at that barrier without waiting.
__device__ __forceinline__ void named_barrier_arrive(int number, int threads)
{
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
//% endmacro

//% macro first_lane()
// The first lane's value. The compiler knows it to be the same in all of a warp, and computes what follows from it once, in
// uniform registers, where wgmma and TMA take their operands from.
__device__ __forceinline__ int first_lane(int value)
{
    return __shfl_sync(0xffffffffu, value, 0);
}
//% endmacro
//% macro elect_one()
// Whether this is the one lane of the warp that the hardware elects. All 32 lanes call it.
__device__ __forceinline__ bool elect_one()
{
    unsigned elected;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "elect.sync _|p, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(elected));
    return elected != 0;
}
//% endmacro

//% macro setmaxnreg()
// All warps of a warpgroup set its registers to COUNT a thread: _dec returns the rest to the block's pool, _inc waits until
// the pool has enough. So the producer, which only starts copies, leaves its own to accumulators.
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }
//% endmacro
