// Counts the words of `after` that are not those of `before` and in no element of C, which starts at word `c`: `batch`
// matrices, `stride` elements apart (0 where there is one), of elements of `width` words.
extern "C" __global__ void __launch_bounds__(256) changed(
    const unsigned* before, const unsigned* after, long long words, long long c, int rows, int columns, int ldc,
    int width, long long batch, long long stride, unsigned long long* count) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += threads) {
        if (before[i] == after[i]) continue;
        bool element = false;
        if (i >= c) {
            const long long place = (i - c) / width;
            const long long matrix = stride == 0 ? 0 : place / stride;
            const long long inside = place - matrix * stride;
            element = matrix < batch && inside / ldc < rows && inside % ldc < columns;
        }
        if (!element) atomicAdd(count, 1ull);
    }
}
