/*# What silu and gelu_tanh are made of. #*/
//% macro definition()
// 1 / (1 + 2^x), off by 2^-22 of it at most where x is below 1.
__device__ __forceinline__ float logistic_approx(float x)
{
    float value;
    asm("{ .reg .f32 t; ex2.approx.ftz.f32 t, %1; add.f32 t, t, 0f3F800000; rcp.approx.ftz.f32 %0, t; }" : "=f"(value) : "f"(x));
    return value;
}
//% endmacro
