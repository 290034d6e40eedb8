/*# gelu in f32, in place of 0.5 * x * (1 + erff(x / sqrt(2))), 12 arithmetic instructions for 32 (nvcc 13.0, sm_90a). #*/
//% macro definition()
${ gelu(
    "off by 2 units in the last place of x at most", "16.0f",
    ["-2.8349123e-06f", "3.9377686e-05f", "-0.00018618022f", "-0.00013693642f", "0.00706342f", "-0.05249618f", "-0.4592082f",
     "-1.1511052f", "-1.0f"]) }
//%- endmacro
/*# By a polynomial, whose coefficients begin with the highest, of magnitudes up to `most`. #*/
//% macro gelu(off, most, coefficients)
// 2^x, off by 2^-22 of it at most.
__device__ __forceinline__ float exp2_approx(float x)
{
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}
/*% if min_nan %*/

// The lesser; NaN if one is.
__device__ __forceinline__ float min_or_nan(float a, float b)
{
    float value;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}
/*% endif %*/

// x * Phi(x), of the normal distribution Phi: max(x, 0) - |x| * Phi(-|x|), ${ off }.
__device__ __forceinline__ float gelu(float x)
{
//% set bounded = "min_or_nan" if min_nan else "fminf"
    const float t = ${ bounded }(fabsf(x), ${ most });  // of infinity, too, 2^p is a number
    float p = ${ coefficients[0] };  // log2(Phi(-t)), fitted where Phi(-t) counts beside 1
//% for coefficient in coefficients[1:]
    p = fmaf(p, t, ${ coefficient });
//% endfor
//% if min_nan
    return fmaf(-t, exp2_approx(p), fmaxf(x, 0.0f));
//% else
    const float half = 0.5f * x;  // fmaxf would hide NaN
    return fmaf(-t, exp2_approx(p), half + fabsf(half));
//% endif
}
//% endmacro
