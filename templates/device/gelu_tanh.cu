/*# gelu by tanh in f32, in place of 0.5 * x * (1 + tanhf(u)): 7 arithmetic instructions for 21 (nvcc 13.0, sm_90a). #*/
//% macro definition()
// x / (1 + e^-2u), which is 0.5 * x * (1 + tanh(u)), of u = sqrt(2 / pi) * (x + 0.044715 * x^3): off by 3 units in the last
// place of x at most.
__device__ __forceinline__ float gelu_tanh(float x)
{
    const float exponent = x * fmaf(-0.10294324f, x * x, -2.3022082f);  // -2u / ln(2)
    return x * logistic_approx(exponent);
}
//% endmacro
