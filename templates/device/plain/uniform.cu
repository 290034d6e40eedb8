// Uniform values in [-1, 1), `count` of them: the inputs of every measurement. Constant data would run faster.
template <typename T>
__device__ void fill_uniform(T* buffer, long long count) {
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        // splitmix64's output function: consecutive counters in, independent bits out
        unsigned long long bits = (i + 1) * 0x9E3779B97F4A7C15ull;
        bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ull;
        bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBull;
        buffer[i] = sizeof(T) == 4 ? T((int)(bits >> 32) * 0x1p-31f) : T((long long)bits * 0x1p-63);
    }
}

extern "C" __global__ void __launch_bounds__(256) uniform_f32(float* buffer, long long count) {
    fill_uniform(buffer, count);
}

extern "C" __global__ void __launch_bounds__(256) uniform_f64(double* buffer, long long count) {
    fill_uniform(buffer, count);
}
