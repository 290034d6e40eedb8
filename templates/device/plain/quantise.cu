// Quantises rows of floats to e4m3, with a scale of f32 for each 1 x BLOCK elements, or for each BLOCK x BLOCK:
// scale = max(largest magnitude, LEAST) / 448, code = x * (1 / scale), rounded to nearest, saturating. NaN is no magnitude.
// LANES threads of a warp have the BLOCK elements of a row, WIDTH each.
constexpr int BLOCK = 128, LANES = 16, WIDTH = BLOCK / LANES, THREADS = 128;
constexpr float LARGEST_E4M3 = 448.0f;
constexpr float LEAST = 1e-4f;  // as in DeepGEMM: nothing is divided by zero, and elements far below it become zeros

// Raw 16-bit floats.
struct BF16 { unsigned short bits; };
struct F16 { unsigned short bits; };

__device__ float as_float(float x) { return x; }
__device__ float as_float(BF16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ float as_float(F16 x) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    return value;
}

// Two codes, the first in the low byte.
__device__ unsigned short codes_of(float first, float second) {
    unsigned short codes = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
    asm volatile("trap;");  // no conversion to e4m3
#else
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
#endif
    return codes;
}

template <class T> struct alignas(16) Elements { T at[WIDTH]; };
struct alignas(8) Codes { unsigned short at[WIDTH / 2]; };

// x has rows of k elements, ld apart; codes are dense.
template <class T> struct Matrix {
    const T* x;
    unsigned char* codes;
    int rows, k;
    long long ld;

    // Whether a thread's elements, and their codes, move by vectors.
    __device__ bool aligned() const {
        const unsigned long long read = (unsigned long long)x | (unsigned long long)(ld * sizeof(T));
        return read % 16 == 0 && (unsigned long long)codes % 8 == 0 && k % WIDTH == 0;
    }

    // This thread's elements of a block of a row, and zeros beyond K. Returns their largest magnitude.
    __device__ float load(int row, int block, float (&values)[WIDTH]) const {
        const int first = block * BLOCK + threadIdx.x % LANES * WIDTH;
        const T* const from = x + row * ld + first;
        if (aligned() && first < k) {
            const Elements<T> all = *reinterpret_cast<const Elements<T>*>(from);
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) values[i] = as_float(all.at[i]);
        } else {
            for (int i = 0; i < WIDTH; ++i) values[i] = first + i < k ? as_float(from[i]) : 0.0f;
        }
        float largest = 0;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) largest = fmaxf(largest, fabsf(values[i]));
        return largest;
    }

    __device__ void store(int row, int block, const float (&values)[WIDTH], float scale) const {
        const int first = block * BLOCK + threadIdx.x % LANES * WIDTH;
        const float inverse = __fdiv_rn(1.0f, scale);
        unsigned char* const to = codes + (long long)row * k + first;
        if (aligned() && first < k) {
            Codes all;
#pragma unroll
            for (int i = 0; i < WIDTH; i += 2) all.at[i / 2] = codes_of(values[i] * inverse, values[i + 1] * inverse);
            *reinterpret_cast<Codes*>(to) = all;
        } else {
            for (int i = 0; i < WIDTH; ++i)
                if (first + i < k) to[i] = (unsigned char)codes_of(values[i] * inverse, 0.0f);
        }
    }
};

__device__ float scale_of(float largest) { return __fdiv_rn(fmaxf(largest, LEAST), LARGEST_E4M3); }

// The largest of LANES threads, in each of them.
__device__ float largest_of_lanes(float largest) {
    const unsigned mask = ((1u << LANES) - 1) << threadIdx.x % 32 / LANES * LANES;
    for (int apart = LANES / 2; apart > 0; apart /= 2) largest = fmaxf(largest, __shfl_xor_sync(mask, largest, apart));
    return largest;
}

// scales[block][row]: LANES threads have a block of a row at a time.
template <class T> __device__ void quantise_rows(const Matrix<T> of, float* scales) {
    const int blocks = (of.k + BLOCK - 1) / BLOCK, teams = blockDim.x / LANES;
    const long long stride = (long long)gridDim.x * teams;
    for (long long i = (long long)blockIdx.x * teams + threadIdx.x / LANES; i < (long long)of.rows * blocks; i += stride) {
        const int row = int(i / blocks), block = int(i % blocks);
        float values[WIDTH];
        const float scale = scale_of(largest_of_lanes(of.load(row, block, values)));
        of.store(row, block, values, scale);
        if (threadIdx.x % LANES == 0) scales[(long long)block * of.rows + row] = scale;
    }
}

// scales[row / BLOCK][block]: a thread block has BLOCK rows of a block at a time, and reads them twice.
template <class T> __device__ void quantise_squares(const Matrix<T> of, float* scales) {
    __shared__ float of_teams[THREADS / LANES];
    const int blocks = (of.k + BLOCK - 1) / BLOCK, teams = blockDim.x / LANES, team = threadIdx.x / LANES;
    const long long squares = (long long)((of.rows + BLOCK - 1) / BLOCK) * blocks;
    for (long long i = blockIdx.x; i < squares; i += gridDim.x) {
        const int block = int(i % blocks), first = int(i / blocks) * BLOCK, end = min(first + BLOCK, of.rows);
        float values[WIDTH], largest = 0;
        for (int row = first + team; row < end; row += teams) largest = fmaxf(largest, of.load(row, block, values));
        largest = largest_of_lanes(largest);
        if (threadIdx.x % LANES == 0) of_teams[team] = largest;
        __syncthreads();
        for (int other = 0; other < teams; ++other) largest = fmaxf(largest, of_teams[other]);
        const float scale = scale_of(largest);
        for (int row = first + team; row < end; row += teams) {
            of.load(row, block, values);
            of.store(row, block, values, scale);
        }
        if (threadIdx.x == 0) scales[i] = scale;
        __syncthreads();  // before the next square's magnitudes
    }
}

#define QUANTISE(what, label, T)                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS) quantise_##what##_##label(                \
        const T* x, unsigned char* codes, float* scales, int rows, int k, long long ld) {           \
        quantise_##what(Matrix<T>{x, codes, rows, k, ld}, scales);                                  \
    }

QUANTISE(rows, f32, float)
QUANTISE(rows, f16, F16)
QUANTISE(rows, bf16, BF16)
QUANTISE(squares, f32, float)
QUANTISE(squares, f16, F16)
QUANTISE(squares, bf16, BF16)
