/*# silu in f32, in place of x / (1 + expf(-x)), whose division and exponential are exact to a few bits more than they need. #*/
//% macro definition()
// x / (1 + e^-x), off by 3 units in the last place of x at most.
__device__ __forceinline__ float silu(float x)
{
    return x * logistic_approx(-1.44269504f * x);
}
//% endmacro
