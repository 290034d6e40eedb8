// Random values, `count` of them: the inputs of every measurement. Constant data would run faster. Floating-point types
// get uniform values in [-1, 1), narrow ones after rounding, and integers all of theirs alike.

// splitmix64's output function: consecutive counters in, independent bits out.
__device__ unsigned long long random_bits(long long counter) {
    unsigned long long bits = (counter + 1) * 0x9E3779B97F4A7C15ull;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ull;
    return (bits ^ (bits >> 27)) * 0x94D049BB133111EBull;
}

__device__ float uniform(long long counter) { return float((int)(random_bits(counter) >> 32) * 0x1p-31f); }

#define UNIFORM(label, type, value)                                                                                \
    extern "C" __global__ void __launch_bounds__(256) uniform_##label(type* buffer, long long count) {             \
        const long long stride = (long long)gridDim.x * blockDim.x;                                                \
        for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) buffer[i] = value; \
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

UNIFORM(f32, float, uniform(i))
UNIFORM(f64, double, (long long)random_bits(i) * 0x1p-63)
UNIFORM(bf16, unsigned short, bf16(uniform(i)))
UNIFORM(f16, unsigned short, f16(uniform(i)))
UNIFORM(e4m3, unsigned char, e4m3(uniform(i)))
UNIFORM(e5m2, unsigned char, f16(uniform(i)) >> 8)
UNIFORM(s8, unsigned char, random_bits(i) >> 56)
UNIFORM(u8, unsigned char, random_bits(i) >> 56)
UNIFORM(s32, unsigned, random_bits(i) >> 32)
