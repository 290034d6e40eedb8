// An operand's elements to where they belong, and nothing to the padding between: line l, `words` long, lies in
// `values` from word from[l] on, and goes to to[l].
extern "C" __global__ void __launch_bounds__(256)
    fill(const unsigned* values, const long long* from, unsigned* const* to, long long words) {
    const unsigned* source = values + from[blockIdx.x];
    unsigned* line = to[blockIdx.x];
    const long long stride = (long long)gridDim.y * blockDim.x;
    for (long long w = (long long)blockIdx.y * blockDim.x + threadIdx.x; w < words; w += stride) line[w] = source[w];
}
