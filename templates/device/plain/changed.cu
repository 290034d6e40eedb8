// Counts the bytes of `after` that are not those of `before` and in no element of C, which starts at byte `c`: `batch`
// matrices, `stride` elements apart (0 where there is one), of elements of `size` bytes.
extern "C" __global__ void __launch_bounds__(256) changed(
    const unsigned* before, const unsigned* after, long long words, long long c, int rows, int columns, int ldc,
    int size, long long batch, long long stride, unsigned long long* count) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += threads) {
        const unsigned changed = before[i] ^ after[i];
        for (int byte = 0; changed != 0 && byte < 4; ++byte) {
            if ((changed >> 8 * byte & 0xFF) == 0) continue;
            const long long at = 4 * i + byte - c;
            bool element = false;
            if (at >= 0) {
                const long long place = at / size;
                const long long matrix = stride == 0 ? 0 : place / stride;
                const long long inside = place - matrix * stride;
                element = matrix < batch && inside / ldc < rows && inside % ldc < columns;
            }
            if (!element) atomicAdd(count, 1ull);
        }
    }
}
