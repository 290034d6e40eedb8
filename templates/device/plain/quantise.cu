// Quantises floats to e4m3 with scales, as products with scales of blocks take them: BLOCK elements along K share one, of a row or of
// BLOCK rows. A scale is their largest magnitude over 448, a code the number times 1 / scale, rounded to nearest and saturating.
// A thread has BLOCK elements of a row, at a time.
constexpr int BLOCK = 128;
constexpr float LARGEST_E4M3 = 448.0f;
constexpr float LEAST = 1e-4f;  // a largest magnitude below it counts as this, so that 1 / scale is finite

// Bits of floats of 16 bits.
struct BF16 { unsigned short bits; };
struct F16 { unsigned short bits; };

__device__ float number(float x) { return x; }
__device__ float number(BF16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ float number(F16 x) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    return value;
}

// Two codes, the first in the low byte.
__device__ unsigned short codes_of(float first, float second) {
    unsigned short codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
    return codes;
}

// 16 bytes of a row, and their codes.
template <class T> struct alignas(16) Chunk { T at[16 / sizeof(T)]; };
template <class T> struct alignas(16 / sizeof(T)) Codes { unsigned short at[8 / sizeof(T)]; };

// Whether all rows are read in chunks.
template <class T> __device__ bool in_chunks(const T* x, int k, long long ld) {
    return ((unsigned long long)x | (unsigned long long)(ld * sizeof(T))) % 16 == 0 && k % BLOCK == 0;
}

template <class T> __device__ float largest_of(const T* line, int count, bool chunks) {
    constexpr int WIDTH = 16 / sizeof(T);
    float largest = 0;
    if (chunks) {
#pragma unroll
        for (int i = 0; i < BLOCK; i += WIDTH) {
            const Chunk<T> chunk = *reinterpret_cast<const Chunk<T>*>(line + i);
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) largest = fmaxf(largest, fabsf(number(chunk.at[j])));
        }
    } else {
        for (int i = 0; i < count; ++i) largest = fmaxf(largest, fabsf(number(line[i])));
    }
    return largest;
}

template <class T> __device__ void quantise(const T* line, int count, bool chunks, float times, unsigned char* codes) {
    constexpr int WIDTH = 16 / sizeof(T);
    if (chunks) {
#pragma unroll
        for (int i = 0; i < BLOCK; i += WIDTH) {
            const Chunk<T> chunk = *reinterpret_cast<const Chunk<T>*>(line + i);
            Codes<T> made;
#pragma unroll
            for (int j = 0; j < WIDTH; j += 2) made.at[j / 2] = codes_of(number(chunk.at[j]) * times, number(chunk.at[j + 1]) * times);
            *reinterpret_cast<Codes<T>*>(codes + i) = made;
        }
    } else {
        for (int i = 0; i < count; ++i) codes[i] = (unsigned char)codes_of(number(line[i]) * times, 0.0f);
    }
}

// largest[block][row]: of BLOCK elements of a row of x, which has `rows` rows of k elements, ld apart.
template <class T> __device__ void find_largest(const T* x, float* largest, int rows, int k, long long ld) {
    const int blocks = (k + BLOCK - 1) / BLOCK;
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < (long long)rows * blocks; i += stride) {
        const int row = int(i / blocks), block = int(i % blocks);
        largest[(long long)block * rows + row] = largest_of(x + row * ld + block * BLOCK, min(BLOCK, k - block * BLOCK), in_chunks(x, k, ld));
    }
}

// Codes, row by row without a gap; scales[block][row], or with `largest`, where BLOCK rows share one, scales[row / BLOCK][block].
template <class T> __device__ void quantise_all(const T* x, const float* largest, unsigned char* codes, float* scales, int rows, int k, long long ld) {
    const int blocks = (k + BLOCK - 1) / BLOCK;
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < (long long)rows * blocks; i += stride) {
        const int row = int(i / blocks), block = int(i % blocks), count = min(BLOCK, k - block * BLOCK);
        const T* const line = x + row * ld + block * BLOCK;
        const bool chunks = in_chunks(x, k, ld);
        float most = 0;
        if (largest == nullptr) most = largest_of(line, count, chunks);
        else
            for (int other = row / BLOCK * BLOCK; other < min(row / BLOCK * BLOCK + BLOCK, rows); ++other)
                most = fmaxf(most, largest[(long long)block * rows + other]);
        const float scale = __fdiv_rn(fmaxf(most, LEAST), LARGEST_E4M3);
        quantise(line, count, chunks, __fdiv_rn(1.0f, scale), codes + (long long)row * k + block * BLOCK);
        if (largest == nullptr) scales[(long long)block * rows + row] = scale;
        else if (row % BLOCK == 0) scales[(long long)(row / BLOCK) * blocks + block] = scale;
    }
}

#define QUANTISE(label, T)                                                                                                           \
    extern "C" __global__ void __launch_bounds__(128) find_largest_##label(const T* x, float* largest, int rows, int k, long long ld) { \
        find_largest(x, largest, rows, k, ld);                                                                                       \
    }                                                                                                                                \
    extern "C" __global__ void __launch_bounds__(128) quantise_##label(                                                              \
        const T* x, const float* largest, unsigned char* codes, float* scales, int rows, int k, long long ld) {                      \
        quantise_all(x, largest, codes, scales, rows, k, ld);                                                                        \
    }

QUANTISE(f32, float)
QUANTISE(f16, F16)
QUANTISE(bf16, BF16)
