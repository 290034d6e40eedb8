/*# gelu in f32, in place of 0.5 * x * (1 + erff(x / sqrt(2))), 14 arithmetic instructions for 32 (nvcc 13.0, sm_90a). #*/
//% macro definition()
#ifdef __CUDACC__
// 2^x, off by 2^-22 of it at most.
__device__ __forceinline__ float exp2_approx(float x)
{
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}
#endif  // __CUDACC__

// x * Phi(x), of the normal distribution Phi: max(x, 0) - |x| * Phi(-|x|), off by 2 units in the last place of x at most.
__device__ __forceinline__ float gelu(float x)
{
    const float t = fminf(fabsf(x), 16.0f);  // of infinity, too, 2^p is a number
    float p = -2.8349123e-06f;  // log2(Phi(-t)), fitted where Phi(-t) counts beside 1
    p = fmaf(p, t, 3.9377686e-05f);
    p = fmaf(p, t, -0.00018618022f);
    p = fmaf(p, t, -0.00013693642f);
    p = fmaf(p, t, 0.00706342f);
    p = fmaf(p, t, -0.05249618f);
    p = fmaf(p, t, -0.4592082f);
    p = fmaf(p, t, -1.1511052f);
    p = fmaf(p, t, -1.0f);
    const float half = 0.5f * x;
    return fmaf(-t, exp2_approx(p), half + fabsf(half));
}
//% endmacro
