/*# silu in f32, in place of x / (1 + expf(-x)), whose division and exponential are exact to a few bits more than they need. #*/
//% macro definition()
#ifdef __CUDACC__
// 1 / (1 + 2^x), off by 2^-22 of it at most where x is below 1.
__device__ __forceinline__ float logistic_approx(float x)
{
    float value;
    asm("{ .reg .f32 t; ex2.approx.ftz.f32 t, %1; add.f32 t, t, 0f3F800000; rcp.approx.ftz.f32 %0, t; }" : "=f"(value) : "f"(x));
    return value;
}
#endif  // __CUDACC__

// x / (1 + e^-x), off by 3 units in the last place of x at most.
__device__ __forceinline__ float silu(float x)
{
    return x * logistic_approx(-1.44269504f * x);
}
//% endmacro
