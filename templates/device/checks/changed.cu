// Counts the words of `after` that are not those of `before` and no element of C, which starts at word `c`.
extern "C" __global__ void __launch_bounds__(256) changed(
    const unsigned* before, const unsigned* after, long long words, long long c, int rows, int columns, int ldc,
    unsigned long long* count) {
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride) {
        if (before[i] == after[i]) continue;
        const long long inside = i - c;
        const bool element = inside >= 0 && inside / ldc < rows && inside % ldc < columns;
        if (!element) atomicAdd(count, 1ull);
    }
}
