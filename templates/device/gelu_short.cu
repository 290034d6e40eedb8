/*# gelu in f32 whose result is rounded to 16 bits or fewer: 8 arithmetic instructions (nvcc 13.0, sm_90a). #*/
//% from "device/gelu.cu" import gelu
//% macro definition()
${ gelu(
    "off by 2^-17 of x at most: a 256th of a rounding to bf16, a 32nd of one to f16", "8.0f",
    ["0.004707857f", "-0.04798701f", "-0.46222025f", "-1.1504672f", "-1.0000197f"]) }
//%- endmacro
