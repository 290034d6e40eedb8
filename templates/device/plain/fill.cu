// An operand's elements to where they belong, and nothing to the padding between: line l, `bytes` long, lies in
// `values` from byte from[l] on, and goes to to[l].
extern "C" __global__ void __launch_bounds__(256)
    fill(const unsigned char* values, const long long* from, unsigned char* const* to, long long bytes) {
    const unsigned char* source = values + from[blockIdx.x];
    unsigned char* line = to[blockIdx.x];
    const long long stride = (long long)gridDim.y * blockDim.x;
    for (long long at = (long long)blockIdx.y * blockDim.x + threadIdx.x; at < bytes; at += stride) line[at] = source[at];
}
