// Random values, `count` of them: the inputs of every measurement. Constant data would run faster. Uniform floating-point
// values lie in [-1, 1), and integers are all of their type alike. Normal ones have a variance of 1, and normal integers
// a standard deviation of an eighth of what their type holds. Narrow types round.

// splitmix64's output function: consecutive counters in, independent bits out.
__device__ unsigned long long random_bits(long long counter) {
    unsigned long long bits = (counter + 1) * 0x9E3779B97F4A7C15ull;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ull;
    return (bits ^ (bits >> 27)) * 0x94D049BB133111EBull;
}

__device__ float uniform(long long counter) { return float((int)(random_bits(counter) >> 32) * 0x1p-31f); }

// By Box and Muller: two halves of the bits are uniform in (0, 1] and [0, 2).
__device__ float normal(long long counter) {
    const unsigned long long bits = random_bits(counter);
    const float radius = sqrtf(-2 * logf(((bits >> 40) + 1) * 0x1p-24f));
    return radius * cospif((bits & 0xFFFFFF) * 0x1p-23f);
}

#define FILL(data, label, type, value)                                                                          \
    extern "C" __global__ void __launch_bounds__(256) random_##data##_##label(type* buffer, long long count) {  \
        const long long stride = (long long)gridDim.x * blockDim.x;                                             \
        for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {          \
            buffer[i] = value;                                                                                  \
        }                                                                                                       \
    }

// The upper half of a float, rounded.
__device__ unsigned short bf16(float value) {
    const unsigned bits = __float_as_uint(value);
    return (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

__device__ unsigned short f16(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// A multiple of 1/8 in [-1, 1] as e4m3, by its sign and its magnitude's code.
__device__ unsigned char e4m3(float value) {
    const unsigned char codes[] = {0x00, 0x20, 0x28, 0x2C, 0x30, 0x32, 0x34, 0x36, 0x38};
    return codes[(int)(fabsf(value) * 8 + 0.5f)] | (value < 0 ? 0x80 : 0);
}

// Any number up to 448, by its exponent and three bits behind it; below 2^-6 as a multiple of 2^-9.
__device__ unsigned char nearest_e4m3(float value) {
    const float size = fminf(fabsf(value), 448);
    const unsigned bits = __float_as_uint(size);
    const unsigned rounded = (bits + 0x7FFFF + (bits >> 20 & 1)) >> 20;
    const unsigned code = size < 0x1p-6f ? (unsigned)rintf(size * 0x1p9f) : rounded - (120 << 3);
    return code | (value < 0 ? 0x80 : 0);
}

// `value` times `scale`, to the nearest integer from `least` to `most`.
__device__ int integer(float value, float scale, float least, float most) {
    return (int)rintf(fminf(fmaxf(value * scale, least), most));
}

FILL(uniform, f32, float, uniform(i))
FILL(uniform, f64, double, (long long)random_bits(i) * 0x1p-63)
FILL(uniform, bf16, unsigned short, bf16(uniform(i)))
FILL(uniform, f16, unsigned short, f16(uniform(i)))
FILL(uniform, e4m3, unsigned char, e4m3(uniform(i)))
FILL(uniform, e5m2, unsigned char, f16(uniform(i)) >> 8)
FILL(uniform, s8, unsigned char, random_bits(i) >> 56)
FILL(uniform, u8, unsigned char, random_bits(i) >> 56)
FILL(uniform, s32, unsigned, random_bits(i) >> 32)
FILL(normal, f32, float, normal(i))
FILL(normal, f64, double, normal(2 * i) + 0x1p-24 * uniform(2 * i + 1))  // all bits of its significand
FILL(normal, bf16, unsigned short, bf16(normal(i)))
FILL(normal, f16, unsigned short, f16(normal(i)))
FILL(normal, e4m3, unsigned char, nearest_e4m3(normal(i)))
FILL(normal, e5m2, unsigned char, f16(normal(i)) >> 8)
FILL(normal, s8, signed char, integer(normal(i), 16, -128, 127))
FILL(normal, u8, unsigned char, integer(normal(i) + 4, 32, 0, 255))
FILL(normal, s32, int, integer(normal(i), 0x1p28f, -0x1p31f, 0x1.fffffep30f))
